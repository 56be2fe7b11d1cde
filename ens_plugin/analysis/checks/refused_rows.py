"""Why rows that were passed as training rows are refused: their order, or values that were changed since."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.capabilities import Distributable, ProvesWeights, VerifiesRows
from ens_plugin.analysis import checks
from ens_plugin.errors import BagError, DataMismatchError, EnsPluginError

if TYPE_CHECKING:
    from ens_plugin.adapters.base import EnsembleAdapter
    from ens_plugin.core.tallies.bags import Bags

__all__ = ["training_bags"]

_CHANGED = (
    "Found: these rows seem to be the training rows, in training order, with values changed since: rounded, scaled, "
    "filled in, or columns swapped. Pass the columns and values as they were at training."
)
_MOVED = (
    "Found: X seems to hold training rows, but in another order or not all of them. Pass all of them, X and y in the "
    "order of the training."
)


def training_bags(
    adapter: EnsembleAdapter,
    X: Any,
    features: Any,
    labels: NDArray[Any],
    target: NDArray[Any],
    weight: NDArray[np.float64] | None = None,
) -> Bags:
    """Return the bags of training rows; where the rows are refused, the error also names the cause, if one is found.

    Weights of the evaluation are tried as those of training too, where bags cannot be proved without.

    Parameters
    ----------
    adapter : EnsembleAdapter
    X : rows as they reach the ensemble
    features : prepared rows
    labels : ndarray, shape (n_rows,)
        Target as the user gave it.
    target : ndarray, shape (n_rows,)
        Label codes or values.
    weight : ndarray of float64, shape (n_rows,), or None
        In the evaluation, where the user gave any.

    Raises
    ------
    EnsPluginError
        As the adapter's own ``bags``.
    """
    try:
        return adapter.bags(X, features, labels)
    except (BagError, DataMismatchError) as error:
        weighted = None if weight is None else _weighted_bags(adapter, X, features, labels, weight)
        if weighted is not None:
            return weighted
        if isinstance(error, BagError):
            raise
        cause = _cause(adapter, X, features, labels, target)
        if cause is None:
            raise
        raise DataMismatchError(f"{error.template} {cause}") from error


def _weighted_bags(
    adapter: EnsembleAdapter, X: Any, features: Any, labels: NDArray[Any], weight: NDArray[np.float64]
) -> Bags | None:
    """Return the bags that the weights prove; None where they prove none."""
    if not isinstance(adapter, ProvesWeights):
        return None
    try:
        return adapter.bags(X, adapter.with_training_weight(features, weight), labels)
    except (BagError, DataMismatchError):
        return None


def _cause(adapter: EnsembleAdapter, X: Any, features: Any, labels: NDArray[Any], target: NDArray[Any]) -> str | None:
    """Return why the rows are refused; None where it is their number or the target, or nothing is found."""
    if not _are_refused_without_target(adapter, X, features):
        return None
    try:
        if checks.changed_rows_share(adapter, features, target) is not None:
            return _CHANGED
        is_known = isinstance(adapter, VerifiesRows) and adapter.verify_rows(features, labels) == "training"
    except EnsPluginError:
        return None
    return _MOVED if is_known else None


def _are_refused_without_target(adapter: EnsembleAdapter, X: Any, features: Any) -> bool:
    """Return whether the rows are refused for their features alone, and not for their number."""
    if not isinstance(adapter, Distributable):
        return False
    try:
        adapter.distributed_bags(features.shape[0], candidate=0)
    except EnsPluginError:  # another number of rows
        return False
    try:
        adapter.bags(X, features, None)
    except DataMismatchError:
        return True
    return False
