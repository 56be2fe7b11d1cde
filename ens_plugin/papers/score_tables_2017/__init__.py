"""Mahajan et al. (2017): distributions of scores, and universal tables of an ensemble's error at every size."""

from __future__ import annotations

from ens_plugin.papers.score_tables_2017.bites import BiteDesign, BiteOption, design_bites
from ens_plugin.papers.score_tables_2017.ensemble_scores import score_components, score_errors, score_variances
from ens_plugin.papers.score_tables_2017.score_tables import load_score_tables as tables

__all__ = [
    "BiteDesign",
    "BiteOption",
    "design_bites",
    "score_components",
    "score_errors",
    "score_variances",
    "tables",
]
