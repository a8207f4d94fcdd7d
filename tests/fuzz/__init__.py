"""Requests that nobody should send, by the thousand, and changes that nobody should make: make fuzz."""
