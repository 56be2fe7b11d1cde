"""Likelihoods of rows on the grid of a density, as matrices of few numbers."""
