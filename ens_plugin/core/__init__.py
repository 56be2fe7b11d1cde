"""The arithmetic: NumPy and SciPy only, no model library, no input or output."""
