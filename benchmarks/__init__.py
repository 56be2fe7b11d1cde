"""Measured claims, one folder a subject; each script writes its section of RESULTS.md."""
