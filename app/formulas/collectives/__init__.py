"""Collectives: by the textbook, as libraries deliver them, as NCCL would choose."""
