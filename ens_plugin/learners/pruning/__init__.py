"""Dynamic pruning as a scikit-learn estimator: members are queried only until a row's label is nearly certain."""
