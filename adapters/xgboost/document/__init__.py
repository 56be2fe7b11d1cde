"""The document that XGBoost stores a booster as: read, checked for damage, cut to size."""
