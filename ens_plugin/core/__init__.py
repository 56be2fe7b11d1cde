"""The arithmetic of the main road: NumPy and SciPy only, no model library, no input or output."""
