"""Railyard: a sizing calculator for GPU clusters."""

__version__ = "0.1.0"
