"""The variance of predictions over training sets, and what is to be known about the estimate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ens_plugin.lazy_names import lazy_names

if TYPE_CHECKING:
    from ens_plugin.analysis.variance.closed_losses import log_terms, member_log_terms

__all__ = ["log_terms", "member_log_terms"]

_HOME_OF = {
    "log_terms": "ens_plugin.analysis.variance.closed_losses",
    "member_log_terms": "ens_plugin.analysis.variance.closed_losses",
}

__getattr__ = lazy_names(__name__, _HOME_OF)
