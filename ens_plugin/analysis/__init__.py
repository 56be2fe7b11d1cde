"""Analyses of a trained ensemble, from model, X and y to a report; formulas are in core, report classes in report."""
