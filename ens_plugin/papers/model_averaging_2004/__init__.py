"""Davidson 2004: averaging over bootstrap models until it has settled, its bounds and its estimator."""
