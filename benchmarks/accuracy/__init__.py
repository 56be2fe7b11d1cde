"""Estimates against the truth on fresh rows: error, intervals, recommended size, predictions, searches."""
