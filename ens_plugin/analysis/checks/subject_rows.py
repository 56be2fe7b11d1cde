"""A doubt about training rows of subjects or of a series, in any order: rows near to a row help to predict it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
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
from ens_plugin.core.likeness.subject_columns import (
    are_equally_frequent,
    jumps_between_values,
    losses_without_own_value,
    places_of_recurring,
    share_of_recurring,
    turns_taken,
)
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
# Of the target, and of another column, by value: in standard errors.
LEAST_JUMP, LEAST_JUMP_OF_OTHERS = 6.0, 20.0
VALUE_QUERIES, VALUE_RISE, VALUE_STANDARD_ERRORS = 600, 0.1, 2.5


@dataclass(frozen=True)
class _Columns:
    """Columns of the sampled rows that hold more than one value, and their names."""

    values: FloatArray
    names: tuple[str, ...]

    @classmethod
    def of(cls, table: Any, rows: NDArray[np.integer]) -> _Columns:
        places = numeric_columns(table)
        places = places[spread_rows(places.size, MOST_COLUMNS)]
        values = numbers(table, rows, places).astype(np.float64)
        finite = np.isfinite(values)
        highest = np.where(finite, values, -np.inf).max(axis=0, initial=-np.inf)
        lowest = np.where(finite, values, np.inf).min(axis=0, initial=np.inf)
        varied = np.flatnonzero(lowest < highest)
        return cls(values[:, varied], tuple(_name(table, place) for place in places[varied]))

    @cached_property
    def scaled(self) -> NDArray[np.float32]:
        """Return the columns as ranks, which takes most of the time where there are many rows."""
        return rank_scaled(self.values)

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
    return _doubt_by_members(adapter, sample, table) or _doubt_by_values(sample, table)


def _doubt_by_members(adapter: EnsembleAdapter, sample: Sample, table: Any) -> tuple[str, ...]:
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
            return (_doubt_about_mates(second.losses, sign.text.format(column=name, share=100.0 * strength)),)
    return ()


def _doubt_by_values(sample: Sample, table: Any) -> tuple[str, ...]:
    """Return a doubt where rows of one value share more of the target than similar rows of the next value do.

    So do rows of a category with an effect; but those of a subject are alike in other columns too, or each subject has
    as many rows.
    """
    columns, target = _Columns.of(table, sample.rows), _scaled_target(sample.block)
    found, place, places = 0.0, 0, None
    for column, values in enumerate(columns.values.T):
        own = places_of_recurring(values)
        jump = 0.0 if own is None else float(jumps_between_values(own, target).max())
        if jump > found:
            found, place, places = jump, column, own
    if places is None or found < LEAST_JUMP:
        return ()
    others = np.delete(columns.scaled, place, axis=1)
    is_alike = others.size > 0 and jumps_between_values(places, others).max() >= LEAST_JUMP_OF_OTHERS
    if not is_alike and not are_equally_frequent(columns.values[:, place]):
        return ()
    some = _rows_of_neighbouring(places)
    losses = losses_without_own_value(
        np.unique(places[some], return_inverse=True)[1], columns.scaled[some], target[some],
        spread_rows(some.size, VALUE_QUERIES),
    )  # fmt: skip
    if losses.standard_errors < VALUE_STANDARD_ERRORS or losses.rise < VALUE_RISE:
        return ()
    return (
        f"Rows with the same value of column {columns.names[place]} have more alike targets than similar rows with the "
        f"next value: predicted from similar rows, the error is {100 * losses.rise:.0f} % larger without rows "
        f"of the same value. {_advice('it is larger')}",
    )


def _rows_of_neighbouring(places: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the rows of neighbouring values, so that few rows are compared and each with all of its value."""
    first = max(places.size - FIRST_ROWS, 0) // 2
    return np.argsort(places, kind="stable")[first : first + FIRST_ROWS]


def _scaled_target(block: RowBlock) -> NDArray[np.float32]:
    """Return the target's ranks, or for labels whether a row has each, scaled to variance 1."""
    is_one = block.target[:, None] == np.arange(block.n_labels) if block.n_labels else block.target[:, None]
    scaled = rank_scaled(np.asarray(is_one, dtype=np.float64))
    return scaled[:, scaled.any(axis=0)]


def _doubt_about_mates(losses: MateLosses, finding: str) -> str:
    rise = f"it is larger, for one member by {100 * losses.rise:.0f} % at least"
    return (
        f"{finding} Members that were not trained on the row nearest to a row err more on it: by {losses.without:.3g} "
        f"on average, the others by {losses.beside:.3g}. {_advice(rise)}"
    )


def _advice(for_others: str) -> str:
    return (
        "So several rows seem to belong to one subject (a person, a firm, a place), or to one series over time. The "
        f"error is that for further rows of the same subjects and times; for others {for_others}. Name the subjects "
        f"with groups=, or pass rows of other subjects or later times as held-out rows. {SEPARATE_CASES}"
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
