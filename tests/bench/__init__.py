"""Speed, measured on this machine: make bench."""
