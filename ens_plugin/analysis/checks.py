"""Checks of training rows: equal, following and near ones that members gain from, and bags of unequal size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.analysis.copies import DOUBTED_SHARE, SEPARATE_CASES
from ens_plugin.core.alike_rows import (
    MateLosses,
    are_equally_frequent,
    drawn_beside,
    hidden_share,
    interpolated,
    mate_losses,
    mates_before_gap,
    nearest_in_columns,
    nearest_rows,
    nearness,
    nearness_in_ensemble,
    row_ranks,
    scattered,
    turns_taken,
)
from ens_plugin.core.bags import Bags
from ens_plugin.core.sample import Sample, spread_rows
from ens_plugin.core.tally import RowBlock, member_labels
from ens_plugin.core.validation import STANDARD_ERRORS, BoolArray, FloatArray, counted, printable
from ens_plugin.errors import WeakEstimateWarning, warn_user
from ens_plugin.findings import Finding, finding
from ens_plugin.report.ensemble_report import EnsembleReport


class AlikeRows(NamedTuple):
    """What tells which training rows may belong together, beside the members' outputs.

    Attributes
    ----------
    copied : ndarray of bool, shape (n_rows,)
        Rows that are equal to others more often than their values explain.
    cell_bags : Bags or None
        Bags in which a row is where any row of equal features is; None where no rows are copied.
    bags : Bags or None
        Bags of the rows in their order; None where they are only some of the rows.
    table : ndarray, DataFrame or other table, or None
    is_sorted : bool
    """

    copied: BoolArray
    cell_bags: Bags | None = None
    bags: Bags | None = None
    table: Any = None
    is_sorted: bool = False


def alike_findings(adapter: EnsembleAdapter, sample: Sample, rows: AlikeRows) -> tuple[Finding, ...]:
    """Return findings where members err less on a row because they drew one that is equal, follows or is near."""
    # Each is asked only where the ones before found nothing: equal rows that follow each other are also near.
    equal = _equal_rows(adapter, sample, rows)
    if equal or adapter.loss_name is not None:
        return equal
    following = _following_rows(adapter, sample, rows)
    if any(found.kind == "doubt" for found in following):
        return following
    return (*_near_rows(adapter, sample, rows.table), *following)


_TO_BALANCE = (
    "Train without the copies, and to balance labels draw inside each bag (class_weight='balanced_subsample', or "
    "imbalanced-learn's BalancedRandomForestClassifier). Or pass groups='identical', which counts a row as in bag "
    "wherever a copy of it is."
)


def _equal_rows(adapter: EnsembleAdapter, sample: Sample, rows: AlikeRows) -> tuple[Finding, ...]:
    """Return a doubt where the error would be larger by more than its standard error if no member drew a copy."""
    copied = rows.copied[sample.rows]
    if rows.cell_bags is None or not copied.any():
        return ()
    n_copied = int(np.count_nonzero(rows.copied))
    alike = counted(n_copied, "looks like a copy", "look like copies", of=f"{rows.copied.size} rows")
    found = f"{alike} of another one: same features, same target."
    advice = f"{_TO_BALANCE} {SEPARATE_CASES}"
    if adapter.loss_name is not None:
        if copied.mean() < DOUBTED_SHARE:
            return ()
        why = "Members that were trained on a copy of a row have fitted it too, so the error may be far too low."
        return (finding("copies", f"{found} {why} {advice}", n_copied=n_copied),)
    part = compared_rows(adapter, sample)
    losses, block = member_losses(adapter, part.block), part.block
    # Where several members share a bag, nothing tells which of them drew a copy.
    known = rows.cell_bags.n_members == len(losses)
    drew = rows.cell_bags.at(part.rows) if known else np.ones_like(block.counted)
    labels = block.target if block.n_labels else None
    rise = hidden_share(losses, block.counted, drew, rows.copied[part.rows], labels, part.weight)
    if rise <= _relative_error(part, losses):
        return ()
    why = (
        "Members that drew a copy of a row have fitted it too: if none of those that judge a row had, its error would "
        f"be larger, on average over all rows by about {100 * rise:.0f} %."
    )
    return (finding("copies", f"{found} {why} {advice}", n_copied=n_copied, rise=rise),)


def _relative_error(sample: Sample, losses: FloatArray) -> float:
    """Return the standard error of the ensemble's mean loss, as a share of it."""
    block = sample.block
    if block.n_labels == 0:
        own = np.square(sample.mean_outputs() - block.target)
    else:
        mean = (losses * block.counted).sum(axis=0) / np.maximum(block.counted.sum(axis=0), 1)
        # One more error, because where none was seen the next row may be one.
        own = np.append(mean > 0.5, True).astype(np.float64)
    return float(own.std() / math.sqrt(own.size) / max(own.mean(), np.finfo(np.float64).tiny))


# Standard errors are over blocks of rows that follow each other, since these share members.
ROWS_OF_BLOCK, FEWEST_IN_ORDER = 10, 200
# A smaller part of the loss is let pass, following or near.
SMALLEST_RISE = 0.05
LEAST_CHANGES = 0.6


def _following_rows(adapter: EnsembleAdapter, sample: Sample, rows: AlikeRows) -> tuple[Finding, ...]:
    """Return a doubt, or of sorted rows a warning, where members predict rows better whose neighbours they drew."""
    # Rows in random order are exchangeable, so that both losses are equal in expectation.
    bags = rows.bags
    if bags is None or bags.n_members != sample.block.counted.shape[0]:
        return ()
    part = compared_rows(adapter, sample)
    unit = np.empty(part.rows.size, dtype=np.intp)
    unit[np.argsort(part.rows, kind="stable")] = np.arange(part.rows.size) // ROWS_OF_BLOCK
    drew = drawn_beside(bags, part.rows)
    found = mate_losses(member_losses(adapter, part.block), part.block.counted, drew, unit)
    if found is None or found.n_rows < FEWEST_IN_ORDER or not _is_larger(found, STANDARD_ERRORS):
        return ()
    told = (
        "Members that were trained on neither neighbour of a row, the rows before and after it, err more on it: their "
        f"mean error is {found.without:.3g}, that of the others {found.beside:.3g}."
    )
    numbers = {"error_without": found.without, "error_beside": found.beside}
    if rows.is_sorted:
        between = "The rows are sorted, and the error is for rows between these, not beyond them."
        return (finding("sorted-rows", f"{told} {between}", **numbers),)
    together = (
        "Rows that follow each other then belong together: measurements of one subject, a time series, windows that "
        "overlap. The error is too low for other subjects and later times. Name what belongs together with groups=, or "
        f"pass later rows as held-out rows. {SEPARATE_CASES}"
    )
    return (finding("neighbouring-rows", f"{told} {together}", **numbers),)


def _is_larger(found: MateLosses, standard_errors: float) -> bool:
    """Return whether the loss without a mate is larger by a twentieth, and by so many standard errors."""
    return found.rise >= SMALLEST_RISE and found.standard_errors >= standard_errors


FEWEST_ROWS_WITH_MATES, FEWEST_MEMBERS_WITH_MATES = 100, 10
MOST_ROWS, MOST_COLUMNS = 5_000, 64
# Pairs of outputs that each half of the members compares in little time, and the least number of rows for that.
COMPARISONS, MOST_COMPARED_MEMBERS, FEWEST_QUERIES = 25_000_000, 32, 200
NEAR_STANDARD_ERRORS = 2.5
# In standard errors; as a share of the rows, with the power of their number that a volume is.
LEAST_TURNS = 4.0
LARGEST_SHARE, LARGEST_POWER = 0.1, -1.5


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


def _near_rows(adapter: EnsembleAdapter, sample: Sample, table: Any) -> tuple[Finding, ...]:
    """Return a doubt about made rows, or where members err less on a row whose nearest row they drew."""
    # The nearest of many independent rows is of use too, where there is little noise, so that the columns have to tell
    # of subjects as well. Of more than 5000 rows, the nearest ones are looked for among 5000.
    sample = sample.some_rows(MOST_ROWS)
    n_rows, n_members = sample.rows.size, adapter.n_members
    if table is None or n_members < FEWEST_MEMBERS_WITH_MATES or n_rows < FEWEST_ROWS_WITH_MATES:
        return ()
    columns = _Columns.of(table, sample.rows)
    if not columns.names:
        return ()
    ranks = row_ranks(columns.values)
    if made := _made_rows(columns, ranks, sample.random_rows(LOOKED_AT)):
        return made
    compared = min(n_members // 2, MOST_COMPARED_MEMBERS)
    queries = sample.random_rows(max(COMPARISONS // (n_rows * compared), FEWEST_QUERIES))
    losses = member_losses(adapter, sample.select(queries).block)
    in_ensemble = _near_in_ensemble(sample.block, losses, columns, ranks, queries, compared)
    return in_ensemble or _near_in_columns(sample.block, losses, ranks, queries)


def _near_in_ensemble(
    block: RowBlock,
    losses: FloatArray,
    columns: _Columns,
    ranks: NDArray[np.float32],
    queries: NDArray[np.intp],
    compared: int,
) -> tuple[Finding, ...]:
    """Return the doubt where the nearest row is that of the members, one half of which judges what the other finds."""
    # So neighbours are not chosen for the losses of those that judge them.
    outputs, counted, half = _one_output(block), block.counted, len(losses) // 2
    halves = slice(0, half), slice(half, 2 * half)
    near = [nearness_in_ensemble(outputs[own][:compared], counted[own][:compared], ranks, queries) for own in halves]
    judges = halves[::-1]
    found = mate_losses(
        np.hstack([losses[own] for own in judges]),
        np.hstack([counted[own][:, queries] for own in judges]),
        np.hstack([~counted[own][:, rows.argmax(axis=1)] for own, rows in zip(judges, near, strict=True)]),
        np.tile(np.arange(queries.size), 2),
    )
    if found is None or found.n_rows < FEWEST_ROWS_WITH_MATES or not _is_larger(found, NEAR_STANDARD_ERRORS):
        return ()
    sign = _sign_of_subjects(columns, ranks, queries, nearest_rows(near[0]))
    return (_doubt_about_mates(found, sign),) if sign else ()


def _sign_of_subjects(
    columns: _Columns, ranks: NDArray[np.float32], queries: NDArray[np.intp], near: NDArray[np.intp]
) -> str:
    """Return a sentence on what the columns tell of subjects; empty where they tell nothing."""
    turns = [turns_taken(column, queries, near) for column in columns.values.T]
    if max(turns) >= LEAST_TURNS:
        return (
            f"Rows that are nearest to each other hardly ever have the same value of column "
            f"{columns.names[int(np.argmax(turns))]}, as measurements of one subject at different times."
        )
    even = [are_equally_frequent(column) for column in columns.values.T]
    if any(even):
        return (
            f"The values of column {columns.names[int(np.argmax(even))]} are too equally frequent for rows that were "
            "drawn one by one, as the times of a balanced panel."
        )
    share, power = nearness(ranks, queries, near[:, 0])
    return (
        "Most rows have another one that is close to them in all columns."
        if (share <= LARGEST_SHARE and power <= LARGEST_POWER)
        else ""
    )


# Of more mates than these, each member drew some; and the difference of their targets to that of the next rows.
MOST_JUDGED_MATES, LARGEST_DIFFERENCE = 6, 0.5


def _near_in_columns(
    block: RowBlock, losses: FloatArray, ranks: NDArray[np.float32], queries: NDArray[np.intp]
) -> tuple[Finding, ...]:
    """Return the doubt where a few rows are nearer to most rows than all others, by a gap in the distances."""
    near, distances = nearest_in_columns(scattered(ranks), queries, COMPARED_NEIGHBOURS // 2)
    # Equal rows are what the values of a column make them, and no step leads to them.
    differ = (ranks[near[:, 0]] != ranks[queries]).any(axis=1)
    n_mates = mates_before_gap(distances[differ])
    if not n_mates:
        return ()
    sign = "Many rows lie far nearer to a few others than to all the rest, as copies with small changes do."
    drew = ~block.counted[:, near[:, 0]]
    found = mate_losses(losses, block.counted[:, queries], drew, np.arange(queries.size))
    is_judged = found is not None and found.n_rows >= FEWEST_ROWS_WITH_MATES and n_mates <= MOST_JUDGED_MATES
    if found is not None and is_judged and _is_larger(found, NEAR_STANDARD_ERRORS):
        return (_doubt_about_mates(found, sign),)
    # Where the losses tell nothing, the targets do.
    other, own = block.target[near[differ]], block.target[queries][differ, None]
    unlike = np.asarray(other != own, dtype=np.float64) if block.n_labels else np.abs(other - own)
    inside, outside = unlike[:, :n_mates].mean(axis=1), unlike[:, n_mates : 2 * n_mates].mean(axis=1)
    rise = outside - inside
    is_sure = rise.mean() > STANDARD_ERRORS * rise.std() / math.sqrt(rise.size)
    if not is_sure or inside.mean() > LARGEST_DIFFERENCE * outside.mean():
        return ()
    told = (
        f"Their targets differ by {inside.mean():.3g} from those of {n_mates} near rows on average, and by "
        f"{outside.mean():.3g} from those of the next ones."
    )
    return (finding("subjects", f"{sign} {told} {_MATES} {_NAME_MATES}", n_mates=n_mates),)


# Of ordinary tables, an eighth of these rows is enough to see that none was made.
LOOKED_AT, FIRST_STEP, COMPARED_NEIGHBOURS = 200, 8, 48
# On a line with two others by chance: hardly ever, but for columns of few values.
DISTINCT_SHARE, FEWEST_REAL_COLUMNS = 0.5, 3
FEWEST_INTERPOLATED = 0.05


def _made_rows(columns: _Columns, ranks: NDArray[np.float32], rows: NDArray[np.intp]) -> tuple[Finding, ...]:
    """Return a doubt where some rows lie on lines between others, which needs no member to be told."""
    n_rows = len(ranks)
    is_real = [np.unique(column).size > DISTINCT_SHARE * n_rows for column in columns.values.T]
    if np.count_nonzero(is_real) < FEWEST_REAL_COLUMNS:
        return ()
    values = columns.values[:, is_real]
    with np.errstate(over="ignore", invalid="ignore"):
        values = (values - np.nanmean(values, axis=0)) / np.nanstd(values, axis=0)
    # A missing value is at the mean.
    values = np.nan_to_num(values, posinf=0.0, neginf=0.0)

    def share(chosen: NDArray[np.intp]) -> float:
        near, _ = nearest_in_columns(ranks, chosen, min(COMPARED_NEIGHBOURS, n_rows // 4))
        return float(interpolated(values[chosen], values[near]).mean())

    if share(rows[::FIRST_STEP]) == 0.0 or (found := share(rows)) < FEWEST_INTERPOLATED:
        return ()
    sentence = (
        f"{100 * found:.0f} % of the rows lie exactly on a line with two of their neighbours, as rows that an "
        "oversampler such as SMOTE made, or rows that were filled in. The members were then trained on what their rows "
        "were made of, so the error is too low. Pass held-out rows, neither trained on nor oversampled, or train "
        f"without the made rows. {SEPARATE_CASES}"
    )
    return (finding("interpolated-rows", sentence, share=found),)


_MATES = (
    "So several rows seem to belong to one subject (a person, a firm, a place), to one series over time, or to be made "
    "from one row. The error is that for further rows of the same ones, and too low for others."
)
_NAME_MATES = (
    "Name what belongs together with groups=, or pass rows of other subjects or later times as held-out rows. "
    f"{SEPARATE_CASES}"
)


def _doubt_about_mates(losses: MateLosses, sign: str) -> Finding:
    return finding(
        "subjects",
        f"{sign} Members that were not trained on the row nearest to a row err more on it: their mean error is "
        f"{losses.without:.3g}, that of the others {losses.beside:.3g}. {_MATES} For others it is larger, for one "
        f"member by {100 * losses.rise:.0f} % at least. {_NAME_MATES}",
        rise=losses.rise,
        error_without=losses.without,
        error_beside=losses.beside,
    )


def _one_output(block: RowBlock) -> NDArray[Any]:
    """Return a number for each member's output, equal for equal outputs, shape (n_members, n_rows)."""
    stored = block.outputs
    if stored.ndim == 2:
        return stored
    # Outputs by label that differ hardly ever have the same sum.
    return np.asarray((stored * np.sqrt(np.arange(2.0, 2.0 + stored.shape[2]))).sum(axis=2))


def _name(table: Any, place: int) -> str:
    return printable(repr(str(table.columns[place])), 40) if isinstance(table, pd.DataFrame) else str(place + 1)


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


def numeric_columns(table: Any) -> NDArray[np.intp]:
    """Return the positions of the numeric columns; of none for sparse rows."""
    if isinstance(table, pd.DataFrame):
        return np.flatnonzero([_is_numeric(dtype) for dtype in table.dtypes])
    is_numeric = isinstance(table, np.ndarray) and table.dtype.kind in "fiu"
    return np.arange(table.shape[1] if is_numeric else 0)


def numbers(table: Any, rows: NDArray[np.integer], columns: NDArray[np.intp]) -> NDArray[Any]:
    """Return some columns of the rows at some positions, shape (n_rows, n_columns)."""
    if columns.size == 0:
        return np.empty((rows.size, 0))
    if isinstance(table, pd.DataFrame):
        return np.asarray(table.iloc[rows, columns].to_numpy(dtype=np.float64, na_value=np.nan))
    # Columns ascend, so that as many as there are are all of them, in order.
    return np.asarray(table[rows] if columns.size == table.shape[1] else table[rows][:, columns])


def _is_numeric(dtype: Any) -> bool:
    return pd.api.types.is_numeric_dtype(dtype) and not isinstance(dtype, pd.SparseDtype)


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
    """Warn of each doubt of a report that a function returns inside something else, or not at all."""
    # A doubt that the text `but` has in it, which the user has been told, is left out.
    for doubt in report.basis.doubts:
        if doubt not in but:
            warn_user(doubt, WeakEstimateWarning)
