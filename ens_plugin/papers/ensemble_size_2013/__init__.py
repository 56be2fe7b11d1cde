"""Hernandez-Lobato, Martinez-Munoz and Suarez (2013): how large a voting ensemble should be."""

from __future__ import annotations

from ens_plugin.papers.ensemble_size_2013.borderline import limiting_disagreement, limiting_row_size_tail
from ens_plugin.papers.ensemble_size_2013.recommended_sizes import row_sizes, sizes
from ens_plugin.papers.ensemble_size_2013.vote_size import row_size, row_size_tail

__all__ = ["limiting_disagreement", "limiting_row_size_tail", "row_size", "row_size_tail", "row_sizes", "sizes"]
