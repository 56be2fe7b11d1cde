"""Models of the rows: the distribution of the members' outputs for a row, and how often a majority of them is wrong."""
