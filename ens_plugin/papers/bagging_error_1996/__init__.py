"""Wolpert & Macready 1996: estimates of the error of a bagged ensemble, and stacking."""
