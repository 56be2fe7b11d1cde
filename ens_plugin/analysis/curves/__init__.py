"""Tallies turned into the parts of a report: error curves, sizes, bias and variance, by kind of loss."""
