"""Hernandez-Lobato, Martinez-Munoz and Suarez (2013): how large a voting ensemble should be."""

from ens_plugin.papers.ensemble_size_2013.recommended_sizes import row_sizes, sizes

__all__ = ["row_sizes", "sizes"]
