"""Adapters of quantile-forest's forests, and all other code for that library."""
