"""Members of several labels whose trees have bags of their own: for each row, those out of whose bags it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.shared.row_queues import move_values_by_label
from ens_plugin.adapters.shared.trees.walk_package import compiled_function
from ens_plugin.adapters.xgboost.rows import Rows
from ens_plugin.core.tallies.bags import Bags
from ens_plugin.core.tallies.tally import count_members

__all__ = ["class_margin_sums", "form_members"]

# Rows whose leaves in all trees stay in a processor's cache.
ROWS_AT_ONCE = 256


def form_members(
    margins: NDArray[np.float64],
    is_oob: NDArray[np.bool_],
    leaves: NDArray[np.uint8] | None,
    move: Callable[..., None] | None,
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the outputs of members, shape (n_trees, n_rows, n_labels), and which count, as of an adapter's `block`.

    Parameters
    ----------
    margins : ndarray, shape (n_labels, n_trees, n_rows), or (n_labels, n_trees, n_leaves) with `leaves`
    is_oob : ndarray of bool, shape (n_labels, n_trees, n_rows)
    leaves : ndarray of uint8, shape (n_labels, n_trees, n_rows), or None
    move : callable or None
        As ``row_queues.move_values``; None to move all labels together, without compiled code.
    """
    fewest = np.argmin([count_members(own) for own in is_oob], axis=0)
    counted = np.logical_or.reduce([own & (fewest == label) for label, own in enumerate(is_oob)])
    outputs = np.empty((is_oob.shape[1], is_oob.shape[0], is_oob.shape[2]))
    if move is None:
        move_values_by_label(margins, is_oob, outputs.transpose(1, 0, 2), counted, leaves)
        return outputs.transpose(0, 2, 1), counted
    for label in range(is_oob.shape[0]):
        of_leaf = () if leaves is None else (leaves[label],)
        move(margins[label], is_oob[label], outputs[:, label], counted, *of_leaf)
    return outputs.transpose(0, 2, 1), counted


def class_margin_sums(
    read_leaves: Callable[[Rows], NDArray[np.uint8]],
    values: NDArray[np.float64],
    rows: Rows,
    bags: Bags | None,
    target: NDArray[np.int64],
) -> NDArray[np.float64] | None:
    """Return ``margin_sums`` of members formed of the trees out of whose bags a row is; None without the walk.

    Parameters
    ----------
    read_leaves : callable
        Returns the leaves of some rows, shape (n_labels, n_trees, n_rows).
    values : ndarray, shape (n_labels, n_trees, n_leaves)
    rows : Rows
    bags : Bags or None
        Of these rows, the trees of one label after those of another; None for rows in no bag.
    target : ndarray of int, shape (n_rows,)
    """
    compiled: Callable[..., Any] | None = compiled_function("class_margin_sums")
    if compiled is None:
        return None
    sums, n_trees = np.empty((7, target.size)), values.shape[0] * values.shape[1]
    # A copy, so that the bits of these rows are not far apart.
    bits = np.zeros((n_trees, -(-target.size // 8)), np.uint8) if bags is None else bags.bits.copy()
    known = Bags(bits, target.size)
    for start in range(0, target.size, ROWS_AT_ONCE):
        part = slice(start, min(start + ROWS_AT_ONCE, target.size))
        sums[:, part] = compiled(values, read_leaves(rows[part]), known.part(part).bits, target[part])
    return sums
