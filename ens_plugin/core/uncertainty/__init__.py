"""Uncertainty of estimates: intervals, jackknives, paired differences."""
