"""Fitted trees of scikit-learn: their outputs, a check for damage, and their flat form for the compiled walk."""
