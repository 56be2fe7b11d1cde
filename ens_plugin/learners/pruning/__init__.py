"""Members asked only as long as the vote is open: dynamic pruning as a scikit-learn estimator."""
