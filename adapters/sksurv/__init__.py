"""Adapters of scikit-survival's survival forests, and all other code for that library."""

from __future__ import annotations

from ens_plugin.adapters.sksurv.at_time import SurvivalAt, survival_at

__all__ = ["SurvivalAt", "survival_at"]
