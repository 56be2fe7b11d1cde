"""Ensembles grown to size, dynamic pruning and model averaging; one module runs all scripts."""
