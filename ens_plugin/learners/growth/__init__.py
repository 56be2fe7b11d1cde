"""Ensembles grown to their recommended size, as a function and as scikit-learn estimators."""

from __future__ import annotations

from ens_plugin.learners.growth.member_training import find_trainer

__all__ = ["find_trainer"]
