"""A doubt about training rows of subjects or of a series, in any order: members profit from a row's nearest row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.adapters.capabilities import JudgedByLoss
from ens_plugin.analysis.checks.member_losses import member_losses
from ens_plugin.analysis.checks.near_copies import SEPARATE_CASES, numbers, numeric_columns
from ens_plugin.core.likeness.ensemble_neighbours import (
    MateLosses,
    Neighbours,
    mate_losses,
    nearest_in_ensemble,
    nearness,
    rank_scaled,
)
from ens_plugin.core.likeness.subject_columns import are_equally_frequent, share_of_recurring, turns_taken
from ens_plugin.core.tallies.row_sampling import spread_rows
from ens_plugin.core.tallies.subsets import Sample
from ens_plugin.core.tallies.tally import RowBlock
from ens_plugin.core.validation import FloatArray, printable

__all__ = ["subject_doubts"]

FEWEST_ROWS = 100
FEWEST_MEMBERS = 10
MOST_COLUMNS = 64
# A first look at the neighbours of a few rows among some, by a few members of each half, is enough for most tables.
FIRST_ROWS, FIRST_QUERIES, FIRST_MEMBERS = 2_000, 200, 32
FIRST_STANDARD_ERRORS = 0.5
MOST_QUERIES, MOST_MEMBERS = 2_000, 100
# Pairs of predictions that each half of the members compares in the second look.
COMPARISONS = 50_000_000


class _Columns(NamedTuple):
    """Columns of the sampled rows that hold more than one value: as they are, by name, and as ranks."""

    values: FloatArray
    names: tuple[str, ...]
    scaled: NDArray[np.float32]

    @classmethod
    def of(cls, table: Any, rows: NDArray[np.integer]) -> _Columns:
        places = numeric_columns(table)
        places = places[spread_rows(places.size, MOST_COLUMNS)]
        values = numbers(table, rows, places).astype(np.float64)
        scaled = rank_scaled(values)
        varied = np.flatnonzero(scaled.any(axis=0))
        names = tuple(_name(table, place) for place in places[varied])
        return cls(values[:, varied], names, scaled[:, varied])

    def strongest(self, strength: Callable[[FloatArray], float]) -> tuple[float, str]:
        """Return the largest strength of a column, and the name of that column."""
        found = [strength(column) for column in self.values.T]
        largest = int(np.argmax(found))
        return found[largest], self.names[largest]


class _Sign(NamedTuple):
    """Something that rows of subjects have, and independent rows hardly ever.

    Attributes
    ----------
    strength : callable
        Returns how clear it is, and the column that tells it.
    first, least : float
        How clear it has to be at the first look, and at the second.
    rise, standard_errors : float
        How much larger the loss without the nearest row has to be then: the surer the sign, the less.
    text : str
    """

    strength: Callable[[_Columns, Neighbours], tuple[float, str]]
    first: float
    least: float
    rise: float
    standard_errors: float
    text: str


class _Look(NamedTuple):
    """The nearest rows of some rows, and whether members profit from them."""

    columns: _Columns
    found: Neighbours
    losses: MateLosses

    @classmethod
    def at(cls, adapter: EnsembleAdapter, sample: Sample, table: Any, n_queries: int, n_members: int) -> _Look | None:
        """Return what is found at that many rows, by that many members of each half; None where nothing can be."""
        columns = _Columns.of(table, sample.rows)
        if not columns.names:
            return None
        queries, counted = sample.random_rows(n_queries), sample.block.counted
        found = nearest_in_ensemble(_one_output(sample.block), counted, columns.scaled, queries, n_members)
        losses = mate_losses(member_losses(adapter, sample.select(queries).block), counted, found)
        return None if losses is None else cls(columns, found[0], losses)


def subject_doubts(adapter: EnsembleAdapter, sample: Sample, table: Any) -> tuple[str, ...]:
    """Return a doubt where members err less on a row whose nearest row they drew, and columns tell of subjects.

    Parameters
    ----------
    adapter : EnsembleAdapter
    sample : Sample
        Of training rows.
    table : ndarray of two dimensions, CSR matrix or DataFrame
        All training rows; of numeric columns, up to 64 are used.

    Returns
    -------
    tuple of str
        Empty for fewer than 100 rows or 10 members, and for sparse rows.

    Notes
    -----
    The nearest of many independent rows is of use too, where there is little noise, so that a larger loss without it
    proves nothing alone.
    """
    if isinstance(adapter, JudgedByLoss) or adapter.n_members < FEWEST_MEMBERS or sample.rows.size < FEWEST_ROWS:
        return ()
    first = _Look.at(adapter, sample.some_rows(FIRST_ROWS), table, FIRST_QUERIES, FIRST_MEMBERS)
    if first is None or first.losses.standard_errors < FIRST_STANDARD_ERRORS:
        return ()
    signs = [sign for sign in SIGNS if sign.strength(first.columns, first.found)[0] >= sign.first]
    if not signs:
        return ()
    second = _Look.at(adapter, sample, table, *_affordable(sample))
    assert second is not None
    for sign in signs:
        if second.losses.rise < sign.rise or second.losses.standard_errors < sign.standard_errors:
            continue
        strength, name = sign.strength(second.columns, second.found)
        if strength >= sign.least:
            return (_doubt(second.losses, sign.text.format(column=name, share=100.0 * strength)),)
    return ()


def _doubt(losses: MateLosses, finding: str) -> str:
    return (
        f"{finding} Members that were not trained on the row nearest to a row err more on it: by {losses.without:.3g} "
        f"on average, the others by {losses.beside:.3g}. So several rows seem to belong to one subject (a person, a "
        "firm, a place), or to one series over time. The error is that for further rows of the same subjects and "
        f"times; for others it is larger, for one member by {100 * losses.rise:.0f} % at least. Name the subjects with "
        f"groups=, or pass rows of other subjects or later times as held-out rows. {SEPARATE_CASES}"
    )


def _turns(columns: _Columns, found: Neighbours) -> tuple[float, str]:
    return columns.strongest(lambda column: turns_taken(column, found))


def _evenness(columns: _Columns, _found: Neighbours) -> tuple[float, str]:
    return columns.strongest(lambda column: float(are_equally_frequent(column)))


def _nearness(columns: _Columns, found: Neighbours) -> tuple[float, str]:
    share, power = nearness(columns.scaled, found)
    return min(LARGEST_SHARE / share, power / LARGEST_POWER), ""


def _recurrence(columns: _Columns, found: Neighbours) -> tuple[float, str]:
    return columns.strongest(lambda column: share_of_recurring(column, found))


LARGEST_SHARE, LARGEST_POWER = 0.125, -1.5
SIGNS = (
    _Sign(
        _turns, 0.5, 3.0, 0.05, 2.5,
        "Rows that are nearest to each other hardly ever have the same value of column {column}, as measurements of "
        "one subject at different times.",
    ),
    _Sign(
        _evenness, 1.0, 1.0, 0.05, 3.5,
        "The values of column {column} are too equally frequent for rows that were drawn one by one, as the times of a "
        "balanced panel.",
    ),
    _Sign(_nearness, 0.9, 1.0, 0.1, 3.5, "Most rows have another one that is close to them in all columns."),
    _Sign(
        _recurrence, 0.2, 0.3, 0.05, 4.0,
        "Values of column {column} recur in a few rows each, and {share:.0f} % of the rows have the same one as the "
        "row nearest to them.",
    ),
)  # fmt: skip


def _affordable(sample: Sample) -> tuple[int, int]:
    """Return how many rows, by how many members of each half, are compared with all rows in the time allowed."""
    affordable = COMPARISONS // sample.rows.size
    n_members = min(MOST_MEMBERS, max(affordable // MOST_QUERIES, FIRST_MEMBERS))
    return min(max(affordable // n_members, FIRST_QUERIES), MOST_QUERIES), n_members


def _one_output(block: RowBlock) -> NDArray[Any]:
    """Return a number for each member's output, equal for equal outputs, shape (n_members, n_rows)."""
    stored = block.stored
    if stored.ndim == 2:
        return stored
    # Outputs by label that differ hardly ever have the same sum.
    return np.asarray((stored * np.sqrt(np.arange(2.0, 2.0 + stored.shape[2]))).sum(axis=2))


def _name(table: Any, place: int) -> str:
    return printable(repr(str(table.columns[place])), 40) if isinstance(table, pd.DataFrame) else str(place + 1)
