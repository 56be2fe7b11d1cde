"""Properties of the rows of an analysis, without the model: hashes, repeats, groups, shares out of bag."""
