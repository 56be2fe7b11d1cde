"""Mahajan et al. 2017: distributions of scores, and universal tables of the error of their majorities."""
