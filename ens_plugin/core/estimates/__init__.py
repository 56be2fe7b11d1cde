"""Estimates from tallies and row models: error curves, recommended sizes, agreement, squared losses."""
