"""The experiments of five papers, one script a paper, against the figures that were printed."""
