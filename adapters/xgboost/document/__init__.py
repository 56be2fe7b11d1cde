"""XGBoost's model document: reading, writing, a check for damage, and truncation."""
