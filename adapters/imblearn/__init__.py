"""Adapters of imbalanced-learn's balanced forests and bagging ensembles, and all other code for that library."""
