"""Methods of five papers that an analysis does not use, one package a paper; each takes a fitted model, X and y."""
