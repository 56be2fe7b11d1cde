"""Checks of training rows: near copies, subjects, their order, and bags of unequal size."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.analysis.copies import FEWEST_REAL, MOST_COLUMNS, NEAREST, QUERIES
from ens_plugin.core.alike_rows import (
    AdjacentLosses,
    MateLosses,
    Neighbours,
    Rows,
    adjacent_losses,
    are_equally_frequent,
    companions,
    interpolated,
    jumps_between_values,
    losses_without_own_value,
    mate_losses,
    nearest_in_ensemble,
    nearest_rows,
    nearness,
    places_of_recurring,
    rank_scaled,
    share_of_recurring,
    turns_taken,
)
from ens_plugin.core.bags import Bags
from ens_plugin.core.sample import Sample, spread_rows
from ens_plugin.core.tally import RowBlock, member_labels
from ens_plugin.core.validation import STANDARD_ERRORS, FloatArray, printable
from ens_plugin.errors import WeakEstimateWarning, warn_user
from ens_plugin.findings import Finding, finding
from ens_plugin.report.result import EnsembleReport

__all__ = [
    "SEPARATE_CASES",
    "compared_number",
    "compared_rows",
    "is_sorted",
    "member_losses",
    "near_copy_doubts",
    "numbers",
    "numeric_columns",
    "order_findings",
    "subject_doubts",
    "unequal_bag_doubts",
    "warn_of_doubts",
]

# Of ordinary tables, an eighth of these rows is enough to see that they are.
FIRST_STEP = 8
FEWEST_FIRST = 2
FEWEST_LOOKED_AT = 100
FEWEST_COLUMNS = 2
LOOKED_AT = 1000
# On a line with two others by chance: hardly ever, but for columns of few values.
DISTINCT_SHARE = 0.5
FEWEST_REAL_COLUMNS = 3
# In ordinary tables a smaller share of the rows has companions that are more alike in the target.
FEWEST_NEAR = 0.2
LARGEST_RATIO = 0.5
FEWEST_INTERPOLATED = 0.05

SEPARATE_CASES = "If the rows are separate cases, state that with groups=np.arange(len(y))."


def near_copy_doubts(table: Any, target: NDArray[Any]) -> tuple[Finding, ...]:
    """Return doubts about training rows that are nearly copies of each other or were interpolated."""
    values, is_real = _compared_columns(table)
    if len(values) < FEWEST_LOOKED_AT or is_real.size < FEWEST_COLUMNS or target.ndim > 1:
        return ()
    queries = spread_rows(len(values), QUERIES)
    first = _Alike.of(values, is_real, queries[::FIRST_STEP])
    if np.count_nonzero(first.companions) < FEWEST_FIRST and not first.interpolated.any():
        return ()
    found = _Alike.of(values, is_real, queries)
    doubts = (_doubt_about_companions(found, target), _doubt_about_lines(found.interpolated))
    return tuple(doubt for doubt in doubts if doubt is not None)


class _Alike(NamedTuple):
    """Some rows with their neighbours, the nearest first, and how these lie around them."""

    rows: NDArray[np.intp]
    neighbours: NDArray[np.intp]
    companions: NDArray[np.intp]
    interpolated: NDArray[np.bool_]

    @classmethod
    def of(cls, values: Rows, is_real: NDArray[np.bool_], rows: NDArray[np.intp]) -> _Alike:
        neighbours, distances = nearest_rows(values, rows, min(NEAREST, len(values) // 4))
        on_lines = np.zeros(rows.size, dtype=bool)
        if np.count_nonzero(is_real) >= FEWEST_REAL_COLUMNS:
            on_lines = interpolated(values[rows][..., is_real], values[neighbours][..., is_real])
        return cls(rows, neighbours, companions(distances), on_lines)


@dataclass(frozen=True, eq=False)
class _ScaledColumns:
    """Some columns of a table, scaled to compare them where rows are read: a whole copy of them could be too large.

    Missing and infinite values are put at the mean.
    """

    table: Any
    chosen: NDArray[np.intp]
    mean: FloatArray
    spread: FloatArray

    def __len__(self) -> int:
        return int(self.table.shape[0])

    def __getitem__(self, rows: Any, /) -> FloatArray:
        with np.errstate(over="ignore", invalid="ignore"):
            values = numbers(self.table, rows, self.chosen) - self.mean
            values /= self.spread
        is_known = np.isfinite(values)
        return values if is_known.all() else np.where(is_known, values, 0.0)


def _compared_columns(table: Any) -> tuple[_ScaledColumns, NDArray[np.bool_]]:
    """Return up to 64 numeric columns with many values, and whether nearly all values differ in each.

    Mean, variance and number of values are those of up to 1000 rows.
    """
    numeric = numeric_columns(table)
    columns = numeric[spread_rows(numeric.size, MOST_COLUMNS)]
    some = numbers(table, spread_rows(table.shape[0], LOOKED_AT), columns).astype(np.float64)
    is_known = np.isfinite(some)
    n_known = np.maximum(is_known.sum(axis=0), 1)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.where(is_known, some, 0.0).sum(axis=0) / n_known
        spread = np.sqrt(np.square(np.where(is_known, some - mean, 0.0)).sum(axis=0) / n_known)
    n_values = np.array([np.unique(column).size for column in some.T], dtype=np.intp)
    chosen = np.flatnonzero((n_values > FEWEST_REAL) & (spread > 0) & np.isfinite(spread))
    is_real = n_values[chosen] > DISTINCT_SHARE * len(some)
    return _ScaledColumns(table, columns[chosen], mean[chosen], spread[chosen]), is_real


def numeric_columns(table: Any) -> NDArray[np.intp]:
    """Return the positions of the numeric columns; of none for sparse rows."""
    if isinstance(table, pd.DataFrame):
        return np.flatnonzero([_is_numeric(dtype) for dtype in table.dtypes])
    is_numeric = isinstance(table, np.ndarray) and table.dtype.kind in "fiu"
    return np.arange(table.shape[1] if is_numeric else 0)


def numbers(table: Any, rows: Any, columns: NDArray[np.intp]) -> NDArray[Any]:
    """Return some columns of the rows at a slice or an array of positions, shape (..., n_columns)."""
    if isinstance(rows, np.ndarray) and rows.ndim > 1:
        return numbers(table, rows.ravel(), columns).reshape(*rows.shape, columns.size)
    if columns.size == 0:
        n_rows = rows.size if isinstance(rows, np.ndarray) else len(range(*rows.indices(table.shape[0])))
        return np.empty((n_rows, 0))
    if isinstance(table, pd.DataFrame):
        return np.asarray(table.iloc[rows, columns].to_numpy(dtype=np.float64, na_value=np.nan))
    # Columns ascend, so that as many as there are are all of them, in order.
    return np.asarray(table[rows] if columns.size == table.shape[1] else table[rows][:, columns])


def _is_numeric(dtype: Any) -> bool:
    return pd.api.types.is_numeric_dtype(dtype) and not isinstance(dtype, pd.SparseDtype)


def _doubt_about_companions(found: _Alike, target: NDArray[Any]) -> Finding | None:
    n_near, neighbours, queries = found.companions, found.neighbours, found.rows
    has_labels = target.dtype.kind in "iu"
    if has_labels:
        # A label of a single cluster has no rows elsewhere, as in cleanly separated labels.
        n_near = np.where(np.bincount(target)[target[queries]] > 2 * (n_near + 1), n_near, 0)
    near = np.flatnonzero(n_near)
    if near.size < FEWEST_NEAR * queries.size:
        return None
    own, other = target[queries[near], None], target[neighbours[near]]
    unlike = (own != other).astype(np.float64) if has_labels else np.abs(own - other)
    place, count = np.arange(neighbours.shape[1]), n_near[near, None]
    inside = np.mean(unlike, axis=1, where=place < count)
    outside = np.mean(unlike, axis=1, where=(place >= count) & (place <= 2 * count))
    rise = outside - inside
    error = float(rise.std()) / np.sqrt(near.size)
    if rise.mean() <= STANDARD_ERRORS * error or inside.mean() > LARGEST_RATIO * outside.mean():
        return None
    differ = (
        f"{100 * inside.mean():.0f} % of these, and {100 * outside.mean():.0f} % of the next rows beyond, have another "
        "label"
        if has_labels
        else f"their target differs by {inside.mean():.3g} on average, and that of the next rows beyond by "
        f"{outside.mean():.3g}"
    )
    share, n_companions = near.size / queries.size, float(np.median(n_near[near]))
    return finding(
        "near-copies",
        f"{100 * share:.0f} % of the rows lie far closer to a few others (mostly {n_companions:.0f}) than to all the "
        f"rest: {differ}. If these are measurements of one subject, or copies with small changes, members that were "
        "trained on some of them have fitted the others, and the error is far too low. Name what belongs together with "
        f"groups=. {SEPARATE_CASES}",
        share=share,
        n_companions=n_companions,
        difference_inside=float(inside.mean()),
        difference_outside=float(outside.mean()),
    )


def _doubt_about_lines(is_interpolated: NDArray[np.bool_]) -> Finding | None:
    share = float(is_interpolated.mean())
    if share < FEWEST_INTERPOLATED:
        return None
    return finding(
        "interpolated-rows",
        f"{100 * share:.0f} % of the rows lie exactly on a line with two of their neighbours, as rows that an "
        "oversampler such as SMOTE made, or rows that were filled in. The members were then trained on what their rows "
        "were made of, so the error is too low. Pass held-out rows, neither trained on nor oversampled, or train "
        f"without the made rows. {SEPARATE_CASES}",
        share=share,
    )


COMPARED_OUTPUTS = 200_000
FEWEST_COMPARED = 500


def compared_rows(adapter: EnsembleAdapter, sample: Sample) -> Sample:
    """Return as many of the sampled rows as take little time to compare, 500 at least."""
    return sample.some_rows(compared_number(adapter))


def compared_number(adapter: EnsembleAdapter) -> int:
    """Return how many rows take little time to compare the members on."""
    return max(COMPARED_OUTPUTS // adapter.n_members, FEWEST_COMPARED)


def member_losses(adapter: EnsembleAdapter, block: RowBlock) -> FloatArray:
    """Return the loss of each member for each row: 0-1, one less the label's probability, or the absolute error."""
    target = block.target
    if block.n_labels == 0:
        return np.asarray(np.abs(block.outputs - target), dtype=np.float64)
    if block.is_vote or adapter.output_kind == "scores":
        return np.asarray(member_labels(block) != target, dtype=np.float64)
    return np.asarray(1.0 - np.take_along_axis(block.outputs, target[None, :, None], axis=2)[:, :, 0])


FEWEST_ROWS_WITH_SUBJECTS = 100
FEWEST_MEMBERS_WITH_SUBJECTS = 10
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


def subject_doubts(adapter: EnsembleAdapter, sample: Sample, table: Any) -> tuple[Finding, ...]:
    """Return a doubt where members err less on a row whose nearest row they drew, and columns tell of subjects.

    The nearest of many independent rows is of use too, where there is little noise, so that a larger loss without it
    proves nothing alone.
    """
    if (
        adapter.loss_name is not None
        or adapter.n_members < FEWEST_MEMBERS_WITH_SUBJECTS
        or sample.rows.size < FEWEST_ROWS_WITH_SUBJECTS
    ):
        return ()
    return _doubt_by_members(adapter, sample, table) or _doubt_by_values(sample, table)


def _doubt_by_members(adapter: EnsembleAdapter, sample: Sample, table: Any) -> tuple[Finding, ...]:
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


def _doubt_by_values(sample: Sample, table: Any) -> tuple[Finding, ...]:
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
    sentence = (
        f"Rows with the same value of column {columns.names[place]} have more alike targets than similar rows with the "
        f"next value: predicted from similar rows, the error is {100 * losses.rise:.0f} % larger without rows "
        f"of the same value. {_advice('it is larger')}"
    )
    return (finding("subjects", sentence, rise=losses.rise),)


def _rows_of_neighbouring(places: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the rows of neighbouring values, so that few rows are compared and each with all of its value."""
    first = max(places.size - FIRST_ROWS, 0) // 2
    return np.argsort(places, kind="stable")[first : first + FIRST_ROWS]


def _scaled_target(block: RowBlock) -> NDArray[np.float32]:
    """Return the target's ranks, or for labels whether a row has each, scaled to variance 1."""
    is_one = block.target[:, None] == np.arange(block.n_labels) if block.n_labels else block.target[:, None]
    scaled = rank_scaled(np.asarray(is_one, dtype=np.float64))
    return scaled[:, scaled.any(axis=0)]


def _doubt_about_mates(losses: MateLosses, sign: str) -> Finding:
    rise = f"it is larger, for one member by {100 * losses.rise:.0f} % at least"
    return finding(
        "subjects",
        f"{sign} Members that were not trained on the row nearest to a row err more on it: their mean error is "
        f"{losses.without:.3g}, that of the others {losses.beside:.3g}. {_advice(rise)}",
        rise=losses.rise,
        error_without=losses.without,
        error_beside=losses.beside,
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


SMALLEST_RISE = 0.05
LEAST_CHANGES = 0.6


def order_findings(adapter: EnsembleAdapter, sample: Sample, bags: Bags, *, sorted_rows: bool) -> tuple[Finding, ...]:
    """Return a doubt, or of sorted rows a warning, where members predict rows better whose neighbours they drew."""
    if adapter.loss_name is not None or bags.n_members != sample.block.counted.shape[0]:
        return ()
    part = compared_rows(adapter, sample)
    found = adjacent_losses(member_losses(adapter, part.block), part.block.counted, part.rows, bags)
    if found is None or found.standard_errors < STANDARD_ERRORS:
        return ()
    if found.without <= (1.0 + SMALLEST_RISE) * found.beside:
        return ()
    return (_finding_on_order(found, sorted_rows),)


def _finding_on_order(found: AdjacentLosses, sorted_rows: bool) -> Finding:
    told = (
        "Members that were trained on neither neighbour of a row, the rows before and after it, err more on it: their "
        f"mean error is {found.without:.3g}, that of the others {found.beside:.3g}."
    )
    numbers = {"error_without": found.without, "error_beside": found.beside}
    if sorted_rows:
        between = "The rows are sorted, and the error is for rows between these, not beyond them."
        return finding("sorted-rows", f"{told} {between}", **numbers)
    together = (
        "Rows that follow each other then belong together: measurements of one subject, a time series, windows that "
        "overlap. The error is too low for other subjects and later times. Name what belongs together with groups=, or "
        f"pass later rows as held-out rows. {SEPARATE_CASES}"
    )
    return finding("neighbouring-rows", f"{told} {together}", **numbers)


def is_sorted(table: Any, target: NDArray[Any]) -> bool:
    """Return whether the target, or a numeric column, never falls or never rises, mostly without repeats."""
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


# Chance makes the two means differ by about half a percent, in bags of rows that are each drawn or not.
SMALLEST_DIFFERENCE = 0.03
FEWEST_STANDARD_ERRORS = 4.0
FEWEST_MEMBERS = 4


def unequal_bag_doubts(adapter: EnsembleAdapter, sample: Sample) -> tuple[Finding, ...]:
    """Return a doubt where members that leave out more rows, and so count for more, err more or less than others."""
    if adapter.loss_name is not None:
        return ()
    # The means differ by at most the product of both spreads, and losses hardly spread by more than their mean.
    # Row by row, because NumPy converts the whole array to count along an axis.
    all_left_out = np.array([np.count_nonzero(own) for own in sample.block.counted])
    if all_left_out.std() < SMALLEST_DIFFERENCE * all_left_out.mean():
        return ()
    part = compared_rows(adapter, sample)
    counted = part.block.counted
    left_out = counted.sum(axis=1).astype(np.float64)
    used = left_out > 0
    if np.count_nonzero(used) < FEWEST_MEMBERS:
        return ()
    summed = (member_losses(adapter, part.block) * counted).sum(axis=1)
    loss, share = summed[used] / left_out[used], left_out[used] / left_out.sum()
    counting, all_alike = float(share @ loss), float(loss.mean())
    if abs(counting - all_alike) < SMALLEST_DIFFERENCE * all_alike or np.ptp(loss) == 0.0:
        return ()
    correlation = float(np.corrcoef(share, loss)[0, 1])
    if abs(correlation) * math.sqrt((loss.size - 2) / max(1.0 - correlation**2, 1e-12)) < FEWEST_STANDARD_ERRORS:
        return ()
    sentence = (
        "The members were trained on unequal numbers of rows, and those of small bags are out of bag for more rows: "
        f"their errors are {counting:.3g} on average as they count here, and {all_alike:.3g} as they count in the "
        "ensemble. So these figures are of another ensemble. Train all members on as many rows, or pass held-out rows, "
        "which none was trained on."
    )
    return (finding("unequal-bags", sentence, error_here=counting, error_in_ensemble=all_alike),)


def warn_of_doubts(report: EnsembleReport, *, but: str = "") -> None:
    """Warn of each doubt of a report that a function returns inside something else, or not at all.

    A doubt that the text `but` has in it, which the user has been told, is left out.
    """
    for doubt in report.basis.doubts:
        if doubt not in but:
            warn_user(doubt, WeakEstimateWarning)
