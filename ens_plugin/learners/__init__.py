"""scikit-learn estimators and helpers built on the core."""

from __future__ import annotations

from ens_plugin.learners.design_bites import BiteDesign, BiteOption, design_bites

__all__ = ["BiteDesign", "BiteOption", "design_bites"]
