"""How often intervals and standard errors hold: comparisons, importances, several outputs, members that differ."""
