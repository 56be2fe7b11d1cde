"""Sampled rows: those of two labels with one score, and their order by content."""
