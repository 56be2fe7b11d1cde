"""A doubt about training rows that belong together with those before and after them, by the members' losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.adapters.capabilities import JudgedByLoss
from ens_plugin.analysis.checks.member_losses import compared_rows, member_losses
from ens_plugin.analysis.checks.near_copies import SEPARATE_CASES
from ens_plugin.core.likeness.adjacent_rows import AdjacentLosses, adjacent_losses
from ens_plugin.core.tallies.bags import Bags
from ens_plugin.core.tallies.subsets import Sample

__all__ = ["is_sorted", "order_findings"]

FEWEST_STANDARD_ERRORS = 5.0
SMALLEST_RISE = 0.05
LEAST_CHANGES = 0.6


def order_findings(
    adapter: EnsembleAdapter, sample: Sample, bags: Bags, *, sorted_rows: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return a doubt, or of sorted rows a warning, where members predict rows better whose neighbours they drew.

    Parameters
    ----------
    adapter : EnsembleAdapter
    sample : Sample
        Of training rows.
    bags : Bags
        Of all training rows, in training order.
    sorted_rows : bool
        Whether the target or a column is in order: neighbours are then alike without belonging together.

    Returns
    -------
    doubts, warnings : tuples of str
    """
    if isinstance(adapter, JudgedByLoss) or bags.n_members != sample.block.counted.shape[0]:
        return (), ()
    part = compared_rows(adapter, sample)
    found = adjacent_losses(member_losses(adapter, part.block), part.block.counted, part.rows, bags)
    if found is None or found.standard_errors < FEWEST_STANDARD_ERRORS:
        return (), ()
    if found.without <= (1.0 + SMALLEST_RISE) * found.beside:
        return (), ()
    if sorted_rows:
        return (), (
            _finding(found) + " The rows are sorted, and the error is for rows between these, not beyond them.",
        )
    doubt = (
        f"{_finding(found)} Rows that follow each other then belong together: measurements of one subject, a time "
        "series, windows that overlap. The error is too low for other subjects and later times. Name what belongs "
        f"together with groups=, or pass later rows as held-out rows. {SEPARATE_CASES}"
    )
    return (doubt,), ()


def _finding(found: AdjacentLosses) -> str:
    return (
        "Members that were trained on neither of the rows before and after a row err more on it: by "
        f"{found.without:.3g} on average, the others by {found.beside:.3g}."
    )


def is_sorted(table: Any, target: NDArray[Any]) -> bool:
    """Return whether target values, or a numeric column of the rows, never fall or never rise, mostly without repeats.

    Parameters
    ----------
    table : ndarray of two dimensions, CSR matrix, DataFrame or None
    target : ndarray, shape (n_rows,)
        Label codes, which count as repeats, or values.

    Examples
    --------
    >>> is_sorted(np.array([[3.0, 1.0], [2.0, 5.0], [1.5, 4.0]]), np.array([1.0, 5.0, 2.0]))
    True
    """
    columns = [target]
    if isinstance(table, pd.DataFrame):
        columns += [column.to_numpy() for _, column in table.select_dtypes("number").items()]
    elif isinstance(table, np.ndarray) and table.dtype.kind in "fiu":
        columns += list(table.T)
    return any(_is_monotone(column) for column in columns)


def _is_monotone(column: NDArray[Any]) -> bool:
    # Most columns are out of order within their first rows.
    for part in (column[:100], column):
        rises, falls = part[1:] > part[:-1], part[1:] < part[:-1]
        if rises.any() and falls.any():
            return False
    # The rows of one subject have one number of it.
    return int(np.count_nonzero(rises | falls)) > LEAST_CHANGES * column.size
