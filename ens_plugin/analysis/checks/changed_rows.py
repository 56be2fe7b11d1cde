"""A check that rows passed as held out are not training rows with changed values, in training order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.adapters.capabilities import Distributable, JudgedByLoss
from ens_plugin.core.tallies.known_rows import drawn_share_of_error, is_lower_where_drawn
from ens_plugin.core.tallies.row_sampling import spread_rows
from ens_plugin.errors import EnsPluginError

__all__ = ["changed_rows_share", "doubt_about_changed_rows"]

COMPARED_ROWS = 1000
# Drawing the bags of more cells takes seconds.
MOST_CELLS = 100_000_000
# Outputs that are held at once: 16 MB.
MOST_OUTPUTS = 2_000_000


def doubt_about_changed_rows(adapter: EnsembleAdapter, features: Any, target: NDArray[Any]) -> str | None:
    """Return a doubt about rows that members predict better where they drew the training row at the same position.

    Parameters
    ----------
    adapter : EnsembleAdapter
    features : prepared rows
    target : ndarray, shape (n_rows,)
        Label codes or values.

    Returns
    -------
    str or None
        None where nothing shows changed training rows, or bags do not follow from positions.
    """
    share = changed_rows_share(adapter, features, target)
    if share is None:
        return None
    return (
        "These rows seem to be the training rows, with values changed since: rounded, scaled or filled in. Members "
        f"that drew the training row at the same position have {100 * share:.0f} % of the error of the others. If "
        "they are, the error is far too low. Pass the values the model was trained on, not as held-out rows, or pass "
        "rows that were not used for training."
    )


def changed_rows_share(adapter: EnsembleAdapter, features: Any, target: NDArray[Any]) -> float | None:
    """Return the error of members that drew the row at the same position, as a share of the error of the others.

    Parameters are those of :func:`doubt_about_changed_rows`.

    Returns
    -------
    float or None
        None where the error is not clearly lower, or bags do not follow from positions.
    """
    chosen = spread_rows(len(target), COMPARED_ROWS)
    own = target[chosen] if adapter.classes is None else target[chosen].astype(np.int64)
    in_bag = _drawn_positions(adapter, target, chosen, own)
    if in_bag is None:
        return None
    errors = _member_errors(adapter, features[chosen], own)
    return drawn_share_of_error(errors, in_bag) if is_lower_where_drawn(errors, in_bag) else None


def _drawn_positions(
    adapter: EnsembleAdapter, target: NDArray[Any], chosen: NDArray[np.intp], own: NDArray[Any]
) -> NDArray[np.bool_] | None:
    """Return which members drew the training rows at the `chosen` positions; None for another number of rows."""
    if not isinstance(adapter, Distributable) or isinstance(adapter, JudgedByLoss) or target.ndim > 1:
        return None
    if target.size * adapter.n_members > MOST_CELLS:
        return None
    try:
        bags = adapter.distributed_bags(target.size, candidate=0).at(chosen, own)
    except EnsPluginError:  # another number of rows, or bags that do not follow from positions
        return None
    # The trees of one member may have a bag each.
    return bags.in_bag() if bags.n_members == adapter.n_members else None


def _member_errors(adapter: EnsembleAdapter, features: Any, target: NDArray[Any]) -> NDArray[np.float64]:
    """Return the errors of :func:`_errors`, of some members at a time: their outputs for many labels are large."""
    n_labels = 1 if adapter.classes is None else len(adapter.classes)
    at_once = max(MOST_OUTPUTS // (target.size * n_labels), 1)
    parts = (range(start, min(start + at_once, adapter.n_members)) for start in range(0, adapter.n_members, at_once))
    return np.concatenate([_errors(adapter, adapter.outputs(features, part), target) for part in parts])


def _errors(adapter: EnsembleAdapter, outputs: NDArray[Any], target: NDArray[Any]) -> NDArray[np.float64]:
    """Return the absolute error of each member about each row, 0 or 1 for labels, shape (n_members, n_rows)."""
    if adapter.classes is None:
        errors: NDArray[np.float64] = np.abs(np.asarray(outputs, dtype=np.float64) - target)
        return errors
    if outputs.ndim == 3:
        outputs = outputs.argmax(axis=2)
    elif adapter.output_kind == "scores":
        outputs = outputs > 0
    return np.asarray(outputs != target, dtype=np.float64)
