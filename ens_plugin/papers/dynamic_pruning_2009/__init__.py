"""Hernandez-Lobato, Martinez-Munoz and Suarez 2009 and 2011: predictions that query only as many members as needed."""

from ens_plugin.papers.dynamic_pruning_2009.certificate import grow_until_proved
from ens_plugin.papers.dynamic_pruning_2009.pruning import PrunedEnsemble, PrunedPrediction, prune

__all__ = ["PrunedEnsemble", "PrunedPrediction", "grow_until_proved", "prune"]
