"""Metrics of the error curve: names and scorers of scikit-learn, and functions of a user's own."""
