"""The document that XGBoost stores a booster as: read, looked through for damage, cut to size."""
