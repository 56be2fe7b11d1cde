"""The adapter of LightGBM's random forests, and all other code for that library."""
