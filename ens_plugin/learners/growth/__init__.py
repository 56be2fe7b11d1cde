"""Ensembles grown to their recommended size, as a function and as scikit-learn estimators."""
