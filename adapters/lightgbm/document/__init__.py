"""The text of a LightGBM model: reading, a check for damage, its trees in flat form, and truncation."""
