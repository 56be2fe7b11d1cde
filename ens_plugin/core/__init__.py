"""Estimation from arrays, with NumPy and SciPy only: no model library, no input, no output."""
