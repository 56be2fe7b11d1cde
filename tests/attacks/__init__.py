"""Attacks on the product: each script counts what gets past."""
