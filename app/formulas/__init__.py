"""Formulas: numbers in, numbers out. NumPy alone."""
