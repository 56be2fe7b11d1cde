"""The adapter of YDF's random forests, and all other code for that library."""
