"""Parts of a report computed from tallies: error curves, sizes, bias and variance, by kind of loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ens_plugin.lazy_names import lazy_names

if TYPE_CHECKING:
    from ens_plugin.analysis.curves.classification import estimate_classification
    from ens_plugin.analysis.curves.estimates import Estimates, ResolvedOptions
    from ens_plugin.analysis.curves.label_models import soft_spreads
    from ens_plugin.analysis.curves.regression import estimate_regression
    from ens_plugin.analysis.curves.stratified import estimate_by_members, largest_shared_size

__all__ = [
    "Estimates",
    "ResolvedOptions",
    "estimate_by_members",
    "estimate_classification",
    "estimate_regression",
    "largest_shared_size",
    "soft_spreads",
]

_HOME_OF = {
    "Estimates": "ens_plugin.analysis.curves.estimates",
    "ResolvedOptions": "ens_plugin.analysis.curves.estimates",
    "estimate_by_members": "ens_plugin.analysis.curves.stratified",
    "estimate_classification": "ens_plugin.analysis.curves.classification",
    "estimate_regression": "ens_plugin.analysis.curves.regression",
    "largest_shared_size": "ens_plugin.analysis.curves.stratified",
    "soft_spreads": "ens_plugin.analysis.curves.label_models",
}

__getattr__ = lazy_names(__name__, _HOME_OF)
