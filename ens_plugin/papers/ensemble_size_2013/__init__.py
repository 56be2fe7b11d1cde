"""Hernandez-Lobato et al. 2013: how large a voting ensemble should be, with the baselines that they compare."""
