"""Metrics of scikit-learn: bias and coverage of their curves, their sizes, their cost, and the gate's comparisons."""
