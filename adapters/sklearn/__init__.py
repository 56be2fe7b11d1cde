"""Adapters of scikit-learn's forests and bagging ensembles, and all other code for that library."""
