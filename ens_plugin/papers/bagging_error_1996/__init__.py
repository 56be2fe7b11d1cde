"""Wolpert and Macready (1996): the error of a bagged ensemble without validation rows."""

from ens_plugin.papers.bagging_error_1996.estimates import BaggingErrors, estimate

__all__ = ["BaggingErrors", "estimate"]
