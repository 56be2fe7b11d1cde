"""Parts of a report computed from tallies: error curves, sizes, bias and variance, by kind of loss."""

from __future__ import annotations

from ens_plugin.analysis.curves.classification import estimate_classification
from ens_plugin.analysis.curves.estimates import Estimates, ResolvedOptions
from ens_plugin.analysis.curves.label_models import soft_spreads
from ens_plugin.analysis.curves.regression import estimate_regression

__all__ = ["Estimates", "ResolvedOptions", "estimate_classification", "estimate_regression", "soft_spreads"]
