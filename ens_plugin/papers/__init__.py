"""Methods of the papers that an analysis does not use, a file or folder each; they take a fitted model, X and y."""
