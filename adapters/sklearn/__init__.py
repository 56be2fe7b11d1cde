"""Forests and bagging of scikit-learn: everything about that library, and nothing of it elsewhere."""
