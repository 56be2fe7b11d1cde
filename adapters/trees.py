"""What adapters of tree libraries share: thresholds by column, damage, the proof of bags, and signs of training rows.

Where a library stores a cover in each leaf, how many rows of the tree's bag reached it at training or the sum of their
second derivatives, covers prove the rows that trees were trained on.  Bags that are drawn again are right if their rows
give the cover of every leaf: exactly where it is a count, else within the rounding of the library.

Bags follow from one seed, so a wrong seed, other rows or another order make all trees wrong, and some trees prove them
all: :func:`members_to_check` draws as many as chance cannot satisfy.  How likely wrong bags are to fit depends on what
a cover tells of the rows behind it, so each library brings its own bound for a tree.  LightGBM's counts tell how many
rows each bag has, so a wrong bag is a random one of as many rows (``lightgbm/bags.py``).  XGBoost's sums do not tell
how many rows they are of, and rows with small derivatives are lost in the rounding, so a wrong bag is any set of coin
tosses (``xgboost/bags.py``).  What the bounds of the checked trees amount to is the same: :func:`chance_of_draws`, and
bags for which it is above 1e-9 are refused.

scikit-learn's forests are not proved by these functions.  The library itself draws their bags again from the seeds of
the trees, so no draw is searched for, and 16 trees spread over the forest are compared.  Their leaves may count
fewer rows than their bags have, because rows of weight zero are drawn and not counted; and what they store beside the
counts proves the target (``sklearn/bags.py``).

A test of whether rows fill the leaves of trees as training rows do, which recognises these in any order. A leaf that
counted some rows of its bag is reached by at least as many of the training rows. Of as many fresh rows, often fewer
reach it: the bag is about two thirds of the training rows, and small leaves were fitted to it.

A test of whether rows hold the values that trees split at, which recognises training rows in any order. Tree learners
put a threshold on a training value, or half-way between two neighbouring values. Fresh rows hold such values by
chance only, as often as they hold each other's values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import issparse
from scipy.special import betainc

from ens_plugin.core.validation import AnyIntArray, FloatArray, IntArray

RowOrigin = Literal["training", "like_training", "fresh", "unknown"]
# Counts, sums and ranges of the rows of a bag, by leaf or node of a tree.
LeafSums = dict[str, NDArray[Any]]

# Leaves that fresh rows would be expected to leave short.  One tree proves training rows; sums over trees, which
# resemble each other, are only a sign.
EXPECTED_GAPS = 5.0
# Rows on which what an adapter reads is compared with the library.
COMPARED_ROWS = 32
FEWEST_MATCHES = 6
# Fewest thresholds of which at least FEWEST_MATCHES match, if the rows are training rows.
ENOUGH = 15
# A column is used only if at most this share of its rows have values of other rows.
MOST_SHARED = 0.25
ROUNDING = 4.0
# Bound on the expected number of values that a table holds and none was found of, with a confidence of 98 %.
UNSEEN = 4.0
# Fewest different thresholds of a column, and different values of its rows, that make the column comparable.
FEWEST_DISTINCT = 10
# Of a column of fresh rows, two of n + 1 values are expected outside of the range of n: .18 for 10 rows.
MOST_OUTSIDE = 0.9
# Child of a node that has none.
LEAF = -1
# Fewest leaves beyond one per tree, of all trees together, so that other rows do not agree by chance: counts of 30 rows
# or more agree with probability below 1e-6.
LEAVES_THAT_TELL = 8
# Largest chance of wrong bags that are taken for proved, and of fresh rows that are taken for training rows.
MAX_CHANCE = 1e-9
# Members that were grown on other rows than the rest, a share s of all, are all missed with a chance of (1 - s)^16.
FEWEST_CHECKED = 16
# Rows by trees up to which all are checked, because it takes a hundredth of a second.
CELLS_CHECKED = 20_000


def splits_by_column(column: NDArray[Any], threshold: NDArray[Any]) -> Iterator[tuple[int, FloatArray]]:
    """Yield each column that trees split, in ascending order, with all its thresholds in the order given."""
    order = np.argsort(column, kind="stable")
    found, starts = np.unique(column[order], return_index=True)
    for own, thresholds in zip(found, np.split(threshold[order], starts[1:]), strict=False):
        yield int(own), thresholds


def damage_of_tree(
    left: NDArray[Any],
    right: NDArray[Any],
    feature: NDArray[Any],
    n_features: int,
    threshold: NDArray[Any] | None = None,
    value: NDArray[Any] | None = None,
) -> str | None:
    """Return in words what makes a tree unsafe to predict with, or useless, or None."""
    # With damaged links, prediction may never end, or may read memory outside the tree. Nodes without children have -1
    # as both; thresholds and values are those of libraries whose own trees always hold numbers.
    is_leaf = left == LEAF
    if not _are_sound(left, right) or (is_leaf != (right == LEAF)).any() or min(left.min(), right.min()) < LEAF:
        return "does not lead from its root to each leaf once"
    column = feature[~is_leaf]
    if column.size and (column.min() < 0 or column.max() >= n_features):
        return "splits on a feature that the model does not have"
    if threshold is not None and np.isnan(threshold[~is_leaf]).any():
        return "has a threshold that is no number"
    if value is not None and not np.isfinite(value).all():
        return "has values that are not finite"
    return None


def _are_sound(left: NDArray[Any], right: NDArray[Any]) -> bool:
    """Return whether the path of any row from node 0 along the child links ends at a leaf."""
    # Where no node is the child of two nodes, and the root is the child of none, every path from the root ends.
    children = np.concatenate([left, right])
    children = children[children >= 0]
    if children.size == 0:
        return True
    return bool(
        children.min() > 0 and children.max() < left.size and np.bincount(children, minlength=left.size).max() <= 1
    )


def members_to_check(n_members: int, n_cells: int, log_chance: Callable[[int], float], draw_of: IntArray) -> IntArray:
    """Return the members, in ascending order, whose trees prove the bags of all, drawn at random."""
    # Enough that wrong bags would fit them with a chance of about MAX_CHANCE squared, which leaves room for a search
    # among many draws; 16 at least; and as many as take little time. Trees of one draw resemble each other, and only
    # one counts. `n_cells` are rows by trees of one member.
    order = np.random.default_rng(n_members).permutation(n_members)
    fewest, strongest = max(FEWEST_CHECKED, CELLS_CHECKED // n_cells), dict[int, float]()
    for place, member in enumerate(order.tolist()):
        if place >= fewest and sum(strongest.values()) < 2.0 * np.log(MAX_CHANCE):
            return np.sort(order[:place])
        draw = int(draw_of[member])
        strongest[draw] = min(strongest.get(draw, 0.0), log_chance(member))
    return np.sort(order)


def first_middle_last(checked: list[int]) -> list[int]:
    """Return the first, middle and last of the members that prove bags, whose leaf values prove the target."""
    return sorted({checked[0], checked[len(checked) // 2], checked[-1]})


def likely_chance(counts: NDArray[Any], share: float) -> float:
    """Return about the logarithm of the chance that a random bag has these numbers of rows in a tree's leaves."""
    # A binomial number of mean c and variance c (1 - p) has its likeliest value with a chance of about 1 / sqrt(1 + 2
    # pi c (1 - p)); the number of all rows in the bag is taken as known.
    spread = np.log1p(2.0 * np.pi * (1.0 - share) * np.append(counts, counts.sum()))
    return float(0.5 * (spread[-1] - spread[:-1].sum()))


def chance_of_draws(log_chance: FloatArray, draw_of: IntArray, n_tried: int) -> float:
    """Return a bound on the chance that wrong draws pass for all trees, after so many were tried; it may be above 1."""
    # Draws are independent, so their chances multiply. Trees grown on the same draw are not, and only the strongest
    # counts.
    strongest = np.zeros(int(draw_of.max(initial=-1)) + 1)
    np.minimum.at(strongest, draw_of, log_chance)
    return float(n_tried * np.exp(strongest.sum()))


def target_ranges(leaves: NDArray[np.integer[Any]], target: NDArray[Any], n_leaves: int) -> dict[str, FloatArray]:
    """Return the smallest and the largest target in each leaf."""
    lowest, highest = np.full(n_leaves, np.inf), np.full(n_leaves, -np.inf)
    np.minimum.at(lowest, leaves, target)
    np.maximum.at(highest, leaves, target)
    return {"lowest": lowest, "highest": highest}


def judge_origin(
    are_training_rows: bool,
    trees: Iterable[tuple[AnyIntArray, AnyIntArray]],
    n_rows: int,
    would_show: bool,
) -> RowOrigin:
    """Return whether rows are training rows, by what a model stores of these and by how rows fill its leaves.

    Parameters
    ----------
    are_training_rows : bool
        Whether the model shows that it was trained on these rows.
    trees : iterable of (ndarray of int, ndarray of int)
        For each tree, the numbers of training rows and of given rows in its leaves, or in labels of its leaves.  Trees
        are read until one has too few rows.
    n_rows : int
        Number of the given rows.
    would_show : bool
        Whether `are_training_rows` would be True for training rows in any order.

    Examples
    --------
    >>> import numpy as np
    >>> from ens_plugin.adapters.sklearn.tools import judge_origin
    >>> judge_origin(False, [(np.array([3, 2]), np.array([4, 1]))], 5, False)
    'fresh'
    >>> judge_origin(False, [], 5, False)
    'unknown'
    """
    if are_training_rows:
        return "training"
    least, gaps = 0.0, 0.0
    for n_trained, found in trees:
        held = n_trained > 0
        if (found[held] < n_trained[held]).any():
            return "fresh"
        # If c of m rows of the bag are in a cell, the number of n fresh rows there is negative binomial: c or more have
        # this chance.  Numbers in disjoint cells are negatively associated, so the product bounds the joint chance.
        chance = betainc(n_trained[held], n_trained[held] + 1.0, n_rows / (n_rows + float(n_trained.sum())))
        least = min(least, float(np.log(chance).sum()))
        gaps += float((1.0 - chance).sum())
    if gaps >= EXPECTED_GAPS:
        return "training" if np.exp(least) < MAX_CHANCE else "like_training"
    return "fresh" if would_show else "unknown"


def compare_split_values(table: Any, splits: Iterable[tuple[int, FloatArray]], dtype: DTypeLike) -> tuple[bool, bool]:
    """Return whether more thresholds are values of rows, or midpoints of two, than chance explains, and may be."""
    # They may be where columns of distinct values have enough thresholds.
    counts = []
    for column, thresholds in splits:
        values = column_of(table, column)
        if values is not None and thresholds.size:
            counts.append(_matches(values.astype(dtype), np.unique(thresholds.astype(dtype))))
    n_usable = sum(tested for tested, _, chance in counts if chance <= MOST_SHARED)
    return are_too_many(counts, table.shape[0]), n_usable >= ENOUGH


def are_too_many(counts: list[tuple[int, int, float]], n_rows: int) -> bool:
    """Return whether more values of a model are among those of the rows than chance explains."""
    usable = [own for own in counts if own[2] <= MOST_SHARED]
    tested, matched = (sum(own[place] for own in usable) for place in (0, 1))
    if matched < FEWEST_MATCHES:
        return False
    chance = sum(own[0] * own[2] for own in usable) / tested + UNSEEN / (n_rows * len(usable))
    # A bound: trials with different chances exceed their mean most often if all have the mean chance (Hoeffding).
    # Only held-out rows need it, and the command line loads this file.
    from scipy.stats import binom

    return bool(matched > tested * chance and binom.sf(matched - 1, tested, chance) < MAX_CHANCE)


def chance_of_value(values: NDArray[Any]) -> float:
    """Return a bound on the chance that a value, or a midpoint of two, is among the values of as many fresh rows."""
    found, counts = np.unique(values, return_counts=True)
    if found.size < 3:
        return 1.0
    shared = 1.0 - np.count_nonzero(counts == 1) / values.size
    gap = float(np.median(np.diff(found.astype(np.float64))))
    rounding = ROUNDING * float(np.finfo(values.dtype).eps) * float(np.abs(found).max()) / gap
    return min(2.0 * shared + rounding, 1.0)


def _matches(values: NDArray[Any], thresholds: NDArray[Any]) -> tuple[int, int, float]:
    """Return how many thresholds there are, how many are a value or midpoint of neighbours, and the chance of that."""
    values = values[np.isfinite(values)]
    chance = chance_of_value(values)
    if chance > MOST_SHARED:
        return thresholds.size, 0, chance
    found = np.unique(values)
    above = np.searchsorted(found, thresholds, side="left")
    is_value = found[np.minimum(above, found.size - 1)] == thresholds
    upper = np.clip(np.searchsorted(found, thresholds, side="right"), 1, found.size - 1)
    low, high = found[upper - 1].astype(np.float64), found[upper].astype(np.float64)
    slack = ROUNDING * np.finfo(values.dtype).eps * np.maximum(np.abs(low), np.abs(high))
    is_midpoint = np.abs((low + high) / 2.0 - thresholds) <= slack
    return thresholds.size, int(np.count_nonzero(is_value | is_midpoint)), chance


def column_of(table: Any, column: int) -> FloatArray | None:
    """Return one column of a table as float64; None where it does not hold numbers."""
    if hasattr(table, "iloc"):
        series = table.iloc[:, column]
        return np.asarray(series, dtype=np.float64) if getattr(series.dtype, "kind", "O") in "biuf" else None
    if issparse(table):
        sparse: Any = table
        return np.asarray(sparse[:, [column]].toarray(), dtype=np.float64)[:, 0]
    return np.asarray(table[:, column], dtype=np.float64)


class OutsideColumns(NamedTuple):
    """Columns at whose splits nearly all rows go the same way."""

    # Positions of these columns, in ascending order.
    columns: tuple[int, ...] = ()
    # Columns that were compared.
    n_compared: int = 0
    # Share of the compared columns' splits that are splits of these columns.
    share: float = 0.0


def columns_outside(table: Any, splits: Iterable[tuple[int, FloatArray]]) -> OutsideColumns:
    """Return the columns of which at least 90 % of the thresholds lie outside of the rows' values."""
    # Fresh rows like the training rows have few such thresholds: a new value lies outside of the range of n others with
    # a chance of 2 / (n + 1), whatever the distribution.
    found, compared, outside = list[int](), 0, 0
    n_compared = 0
    for column, thresholds in splits:
        values = column_of(table, column)
        values = None if values is None else values[np.isfinite(values)]
        if values is None or values.size < FEWEST_DISTINCT or np.unique(thresholds).size < FEWEST_DISTINCT:
            continue
        is_outside = (thresholds < values.min()) | (thresholds >= values.max())
        n_compared, compared = n_compared + 1, compared + thresholds.size
        if is_outside.mean() >= MOST_OUTSIDE and np.unique(values).size >= FEWEST_DISTINCT:
            found.append(column)
            outside += thresholds.size
    return OutsideColumns(tuple(sorted(found)), n_compared, outside / compared if compared else 0.0)
