"""The variance of predictions over training sets, and what is to be known about the estimate."""
