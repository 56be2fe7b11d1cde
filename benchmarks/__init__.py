"""Measured claims, one folder a subject; each script writes its own CSV in results/, and RESULTS.md."""
