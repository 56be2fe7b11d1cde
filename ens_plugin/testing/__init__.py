"""Checks of adapters against the contract of :class:`ens_plugin.adapters.EnsembleAdapter`, for tests of any package."""

from __future__ import annotations

from ens_plugin.testing.adapter_case import AdapterCase
from ens_plugin.testing.adapter_checks import ADAPTER_CHECKS, AdapterCheck
from ens_plugin.testing.contract import check_adapter, check_case

__all__ = ["ADAPTER_CHECKS", "AdapterCase", "AdapterCheck", "check_adapter", "check_case"]
