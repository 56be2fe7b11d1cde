"""Trees as arrays: their links, leaves, kept rows and split values, and what walks rows through them.

A test of whether rows fill the leaves of trees as training rows do, which recognises these in any order. A leaf that
counted some rows of its bag is reached by at least as many of the training rows. Of as many fresh rows, often fewer
reach it: the bag is about two thirds of the training rows, and small leaves were fitted to it.

A test of whether rows hold the values that trees split at, which recognises training rows in any order. Tree learners
put a threshold on a training value, or half-way between two neighbouring values. Fresh rows hold such values by
chance only, as often as they hold each other's values.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import issparse
from scipy.special import betainc

from ens_plugin import _kernel
from ens_plugin._kernel.tree import FlatTree
from ens_plugin.adapters.tree_table import MAX_CHANCE, TreeTable
from ens_plugin.core.bags import UNSEEN, Bags
from ens_plugin.core.sample import LabelOrder, spread_rows
from ens_plugin.core.tally import RowBlock, VoteCounts, count_votes_by, value_sums
from ens_plugin.core.validation import CELLS_AT_ONCE, AnyIntArray, FloatArray, IntArray, counted
from ens_plugin.errors import EnsPluginWarning, warn_user

if TYPE_CHECKING:
    from ens_plugin.core.pair_covariance import VotePairs
    from ens_plugin.core.stopping import StoppingTable

__all__ = [
    "COMPARED_ROWS",
    "ENOUGH",
    "KEPT_BYTES",
    "MOST_SHARED",
    "ROWS_OF_PIECE",
    "CompiledSums",
    "KeptLeaves",
    "LeafCover",
    "LeafWalk",
    "OutsideColumns",
    "RowOrigin",
    "are_too_many",
    "chance_of_value",
    "column_of",
    "columns_outside",
    "compiled_sums",
    "hold_split_values",
    "judge_origin",
    "label_order",
    "measure_cover",
    "moment_sums",
    "move_values",
    "move_values_by_label",
    "show_split_values",
    "subset_counts",
    "target_ranges",
    "vote_pairs",
]


N_PROBES = 32
# Share of the cells of a probe that are missing.
MISSING_SHARE = 0.1


def probe_rows(table: TreeTable, rows: NDArray[Any]) -> NDArray[Any]:
    """Return rows with thresholds, categories and missing values put in, on which a wrong comparison would show."""
    rng = np.random.default_rng(0)
    probes = rows[rng.integers(rows.shape[0], size=N_PROBES)]
    chosen = [table.trees[place] for place in rng.integers(len(table.trees), size=N_PROBES)]
    column, value = (np.concatenate(parts) for parts in zip(*map(_split_values, chosen), strict=True))
    if column.size:
        picked = rng.integers(column.size, size=(N_PROBES, 4 * table.n_features))
        with np.errstate(over="ignore"):
            own = value[picked].astype(rows.dtype)
        own = np.where(rng.random(own.shape) < 0.5, own, np.nextafter(own, np.asarray(np.inf, own.dtype)))
        largest = np.finfo(own.dtype).max  # some libraries refuse infinite values
        probes[np.arange(N_PROBES)[:, None], column[picked]] = own.clip(-largest, largest)
    probes[rng.random(probes.shape) < MISSING_SHARE] = np.nan
    return probes


def _split_values(tree: FlatTree) -> tuple[NDArray[Any], FloatArray]:
    """Return, for each split of a tree, its column and a value at which an error would show: threshold or category."""
    is_split = np.asarray(tree.left) >= 0
    value = np.asarray(tree.threshold, np.float64)
    if tree.sets is not None and tree.set_starts is not None:
        sizes = 32 * np.diff(tree.set_starts)
        is_set = np.asarray(tree.sets) >= 0
        value = value.copy()
        # Any category: which one matters less than that it is one.
        value[is_set] = np.arange(int(is_set.sum())) % np.maximum(sizes[np.asarray(tree.sets)[is_set]], 1)
    is_split &= np.isfinite(value)
    return np.asarray(tree.feature)[is_split].astype(np.intp), value[is_split]


# Rows of a piece: few, so that all trees' leaves of them stay in a processor's cache.
ROWS_OF_PIECE = 128


@dataclass(eq=False)
class _Store:
    """Pieces of rows by the position of their first: how many rows each has, and their leaves out of bag by tree."""

    bytes_left: int
    bags: Bags | None = None
    pieces: dict[int, tuple[int, NDArray[Any]]] = field(default_factory=dict)


class KeptLeaves:
    """Leaves of the first rows that fit into a number of bytes, for each tree those of rows out of its bag."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes, self._start = most_bytes, 0
        self._store = _Store(0)

    def of_rows(self, rows: slice) -> KeptLeaves:
        """Return the same leaves, for a contiguous block of these rows."""
        part = KeptLeaves(self._most_bytes)
        part._store, part._start = self._store, self._start + (rows.start or 0)
        return part

    def begin(self, bags: Bags) -> None:
        """Keep leaves out of these bags from now on; all that were kept are dropped."""
        self._store.bytes_left, self._store.bags = self._most_bytes, bags
        self._store.pieces.clear()

    def keep(self, leaves: NDArray[Any]) -> None:
        """Keep the leaves of these rows, shape (n_trees, n_rows), as long as there is room."""
        store = self._store
        if store.bytes_left < 0:
            return
        for first in range(0, leaves.shape[1], ROWS_OF_PIECE):
            part = np.ascontiguousarray(leaves[:, first : first + ROWS_OF_PIECE])
            start = self._start + first
            own = part.reshape(-1).take(self._places(start, part.shape[1]))
            store.bytes_left -= own.nbytes
            if store.bytes_left < 0:
                return
            store.pieces[start] = part.shape[1], own

    def read(self, wanted: NDArray[np.bool_]) -> NDArray[Any] | None:
        """Return the leaves of these rows, which may be any where they are not wanted; None if not all are kept."""
        store, stop = self._store, self._start + wanted.shape[1]
        if store.bags is None or (wanted & store.bags.in_bag(slice(self._start, stop))).any():
            return None
        starts = sorted(store.pieces)
        first = reached = starts[max(bisect_right(starts, self._start), 1) - 1] if starts else stop
        parts = []
        while reached < stop and reached in store.pieces:
            parts.append(self._piece(reached))
            reached += parts[-1].shape[1]
        if not first <= self._start < stop <= reached:
            return None
        return np.concatenate(parts, axis=1)[:, self._start - first : stop - first]

    def _piece(self, start: int) -> NDArray[Any]:
        """Return the leaves of a piece, 0 in bag, shape (n_trees, n_rows_of_piece)."""
        assert self._store.bags is not None
        height, own = self._store.pieces[start]
        leaves = np.zeros((self._store.bags.n_members, height), own.dtype)
        leaves.reshape(-1)[self._places(start, height)] = own
        return leaves

    def _places(self, start: int, height: int) -> NDArray[np.intp]:
        """Return the places of the cells out of bag among those of some rows, tree by tree."""
        assert self._store.bags is not None
        return np.flatnonzero(~self._store.bags.in_bag(slice(start, start + height)))


def target_ranges(leaves: NDArray[np.integer[Any]], target: NDArray[Any], n_leaves: int) -> dict[str, FloatArray]:
    """Return the smallest target in each leaf, and the negated largest, so that both merge by the minimum."""
    lowest, negated = np.full((2, n_leaves), np.inf)
    np.minimum.at(lowest, leaves, target)
    np.minimum.at(negated, leaves, -target)
    return {"lowest": lowest, "highest": negated}


# One tree proves training rows; sums over trees, which resemble each other, are only a sign.
EXPECTED_GAPS = 5.0
# Leaves computed for the proof are kept for the outputs up to this size, of rows out of bag if those of all are more;
# the others are computed twice.
KEPT_BYTES = 64_000_000


@dataclass(frozen=True)
class LeafCover:
    """Test result: how unlikely fresh rows are to fill the leaves of trees as well as the given rows do.

    Attributes
    ----------
    chance : float
        Bound on the chance that fresh rows fill all leaves of a tree, the smallest of all trees.
    expected_gaps : float
        Leaves, or labels of leaves, of all trees that fresh rows would be expected to leave short.
    """

    chance: float
    expected_gaps: float

    @property
    def is_proof(self) -> bool:
        """Return whether the rows are proved to be training rows."""
        return self.chance < MAX_CHANCE

    @property
    def is_doubtful(self) -> bool:
        """Return whether the rows are probably training rows."""
        return self.expected_gaps >= EXPECTED_GAPS


def measure_cover(trees: Iterable[tuple[AnyIntArray, AnyIntArray]], n_rows: int) -> LeafCover | None:
    """Return how unlikely fresh rows would be to fill every leaf; None if too few of the given rows reach a leaf."""
    least, gaps = 0.0, 0.0
    for n_trained, found in trees:
        held = n_trained > 0
        if (found[held] < n_trained[held]).any():
            return None
        if not held.any():
            continue
        # If c of m rows of the bag are in a cell, the number of n fresh rows there is negative binomial: c or more have
        # this chance.  Numbers in disjoint cells are negatively associated, so the product bounds the joint chance.
        chance = betainc(n_trained[held], n_trained[held] + 1.0, n_rows / (n_rows + float(n_trained.sum())))
        least = min(least, float(np.log(chance).sum()))
        gaps += float((1.0 - chance).sum())
    return LeafCover(float(np.exp(least)), gaps)


def judge_origin(
    are_training_rows: bool,
    trees: Iterable[tuple[AnyIntArray, AnyIntArray]],
    n_rows: int,
    would_show: Callable[[], bool],
) -> RowOrigin:
    """Return whether rows are training rows, by what a model stores of these and by how rows fill its leaves.

    Parameters
    ----------
    are_training_rows : bool
        Whether the model shows that it was trained on these rows.
    trees, n_rows
        As of :func:`measure_cover`.  Trees are read until a cell has too few rows.
    would_show : callable
        Returns whether `are_training_rows` would be True for training rows in any order.  Called last.

    Examples
    --------
    >>> import numpy as np
    >>> from ens_plugin.adapters.sklearn.tools import judge_origin
    >>> judge_origin(False, [(np.array([3, 2]), np.array([4, 1]))], 5, lambda: False)
    'fresh'
    >>> judge_origin(False, [], 5, lambda: False)
    'unknown'
    """
    if are_training_rows:
        return "training"
    cover = measure_cover(trees, n_rows)
    if cover is None:
        return "fresh"
    if cover.is_doubtful:
        return "training" if cover.is_proof else "like_training"
    return "fresh" if would_show() else "unknown"


# A comparison on fewer rows would prove little; the library itself finds their leaves.
FEWEST_ROWS = 8
COMPARED_ROWS = 32
FEWEST_AT_ONCE = 64

# Returns the library's own leaf numbers, shape (n_trees, n_rows), for rows in its own form or as an array.
OwnLeaves = Callable[[Any], NDArray[Any]]
# Returns those of one tree, by position, shape (n_rows,), for rows as an array.
LeavesOfTree = Callable[[int, NDArray[Any]], NDArray[Any]]


class LeafWalk:
    """The compiled search for the leaves of one model's trees, used only after it has found the library's own.

    Rows are passed in the library's own form, which has a `shape` and can be sliced.  Methods that return arrays return
    None where the walk is not used, or where only the library can read the rows.

    Parameters
    ----------
    read_table : callable
        Returns the model's trees, or raises an error where they are of an unknown form.
    library : str
        What finds the library's own leaves, for the warning that it finds others.
    as_array : callable
        Returns rows as an array of the numbers that the library makes of them, or None where only it can.  Takes an
        array, too.
    """

    def __init__(
        self, read_table: Callable[[], TreeTable], library: str, as_array: Callable[[Any], NDArray[Any] | None]
    ) -> None:
        self._read_table, self._library, self._as_array = read_table, library, as_array
        self._forests: dict[np.dtype[Any], Any] = {}
        self._entries: dict[tuple[str, np.dtype[Any]], NDArray[Any]] = {}
        # The last stopping table asked for, with its sums by type of the rows.
        self._stopping: tuple[StoppingTable, dict[np.dtype[Any], Any]] | None = None
        self._is_there = _kernel.is_used()
        # By type of the rows, whether the walk found the library's leaves.
        self._agrees: dict[np.dtype[Any], bool] = {}

    @cached_property
    def table(self) -> TreeTable:
        """Return the trees that rows walk through."""
        return self._read_table()

    @property
    def is_used(self) -> bool:
        """Return whether the walk has been compared with the library, and found the same leaves whenever it was."""
        return bool(self._agrees) and all(self._agrees.values())

    @property
    def is_by_bits(self) -> bool:
        """Return whether the walk takes small trees, of all rows in less time than the leaves are kept in.

        Then :meth:`count` and :meth:`value_sums` return results for rows that are read as arrays.
        """
        return self.is_used and all(self._forest(dtype).counts_leaves for dtype in self._agrees)

    def compare(self, rows: Any, find_own: OwnLeaves) -> None:
        """Use the walk for rows of this type from now on if it finds the library's leaves, else issue a warning.

        Nothing is done where rows of the type were compared, or rows are few.
        """
        some, array = self._compared_rows(rows)
        if array is not None:
            self._judge(
                array, lambda _: None, lambda probes: np.concatenate([find_own(some), find_own(probes)], axis=1)
            )

    def compare_trees(self, rows: Any, find_own: LeavesOfTree) -> None:
        """Do what :meth:`compare` does, tree by tree, each while it is in a processor's cache from the walk."""
        _, array = self._compared_rows(rows)
        if array is None:
            return
        own: list[NDArray[Any]] = []

        def read_trees(probes: NDArray[Any]) -> None:
            both = np.concatenate([array, probes])
            self._forest(array.dtype, lambda tree: own.append(find_own(tree, both)))

        self._judge(array, read_trees, lambda _: np.stack(own))

    def leaves(
        self, rows: Any, trees: range | None = None, wanted: NDArray[np.bool_] | None = None
    ) -> NDArray[Any] | None:
        """Return the library's number of the leaf that each row reaches in each tree, shape (n_trees, n_rows)."""
        return self._read("numbers", rows, trees, wanted)

    def values(
        self, rows: Any, trees: range | None = None, wanted: NDArray[np.bool_] | None = None
    ) -> NDArray[Any] | None:
        """Return the value of the leaf that each row reaches in each tree, shape (n_trees, n_rows)."""
        return self._read("values", rows, trees, wanted)

    def stopped_sums(self, rows: Any, stops: StoppingTable) -> tuple[NDArray[np.float64], IntArray] | None:
        """Return the sum of each row's values, tree by tree until it settles the row, and the number of trees."""
        array = self._as_array(rows) if self.is_used else None
        if array is None or array.dtype not in self._agrees:
            return None
        # Read once, because another thread may keep the sums of another table meanwhile.
        kept = self._stopping
        if kept is None or kept[0] is not stops:
            self._stopping = kept = stops, {}
        known = kept[1]
        if array.dtype not in known:
            values = self._by_node("values", array.dtype)
            known[array.dtype] = self._forest(array.dtype).stopping(values, stops.checkpoints, stops.lower, stops.upper)
        totals, n_trees = known[array.dtype].sums(array)
        return totals, n_trees

    def value_sums(self, rows: Any, bags: Bags | None) -> NDArray[np.float64] | None:
        """Return sums of values over the trees out of whose bag each row is, as of ``score_sums``, shape (4, n_rows).

        None, too, where trees are large.
        """
        if not self.is_by_bits:
            return None
        sums = np.empty((4, rows.shape[0]))
        for block, array in self._arrays(rows):
            if array is None:
                return None
            values, bits = self._by_node("values", array.dtype), None if bags is None else bags.part(block).bits
            sums[:, block] = self._forest(array.dtype).value_sums(array, values, bits)
        return sums

    def count(self, rows: Any, bags: Bags, bag_of: NDArray[Any]) -> tuple[IntArray, IntArray] | None:
        """Return how many rows reach each leaf: of those in the tree's bag, then of all.

        The result is that of :func:`count_leaves`, of one tree after the other.  None, too, where trees are large.
        """

        def count_block(block: slice, array: NDArray[Any]) -> Any:
            return self._forest(array.dtype).count(array, bags.part(block).bits, bag_of)

        return self._counts_of_blocks(rows, count_block)

    def count_and_sum(self, rows: Any, bags: Bags, sums: NDArray[np.float64]) -> tuple[IntArray, IntArray] | None:
        """Return :meth:`count` of trees with a bag each, and write :meth:`value_sums` to `sums`, shape (4, n_rows).

        The sums are undefined where None is returned.
        """

        def count_block(block: slice, array: NDArray[Any]) -> Any:
            values = self._by_node("values", array.dtype)
            *counted, sums[:, block] = self._forest(array.dtype).count_and_sum(array, values, bags.part(block).bits)
            return counted

        return self._counts_of_blocks(rows, count_block)

    def _compared_rows(self, rows: Any) -> tuple[Any, NDArray[Any] | None]:
        """Return rows to compare with the library, evenly spread, and as an array; None where there is nothing to do.

        The walk must be there and must not have failed, and a comparison on few rows would prove little.
        """
        if not self._is_there or rows.shape[0] < FEWEST_ROWS or not all(self._agrees.values()):
            return None, None
        some = rows[spread_rows(rows.shape[0], COMPARED_ROWS)]
        array = self._as_array(some)
        return some, None if array is None or array.dtype in self._agrees else array

    def _judge(
        self,
        rows: NDArray[Any],
        read_trees: Callable[[NDArray[Any]], None],
        find_own: Callable[[NDArray[Any]], NDArray[Any]],
    ) -> None:
        """Set whether the walk is used for rows of this type; `find_own` returns the leaves of rows, then of probes."""
        fault = self._fault(rows, read_trees, find_own)
        self._agrees[rows.dtype] = fault is None
        if fault is not None:
            self._forests.clear()
            self._entries.clear()
            self._stopping = None
            warn_user(
                f"The compiled search finds {fault}, so it is not used for this model: the library finds the leaves, "
                "which takes longer and changes no figure. Please report this with the versions of ens-plugin and of "
                "the library.",
                EnsPluginWarning,
            )

    def _fault(
        self,
        rows: NDArray[Any],
        read_trees: Callable[[NDArray[Any]], None],
        find_own: Callable[[NDArray[Any]], NDArray[Any]],
    ) -> str | None:
        """Return in words how the walk's leaves differ from the library's; parameters are those of :meth:`_judge`."""
        try:
            probes = probe_rows(self.table, rows)
            read_trees(probes)
            found = np.concatenate([self._entries_of("numbers", own) for own in (rows, self._as_array(probes))], axis=1)
        except (IndexError, KeyError, ValueError) as error:  # trees of an unknown form
            return f"no leaves ({error})"
        differing = (found != find_own(probes)).any(axis=1)
        n_differing = int(np.count_nonzero(differing))
        if not n_differing:
            return None
        n_trees = counted(differing.size, "tree")
        return f"other leaves than {self._library} in {n_differing} of {n_trees}"

    def _read(
        self, column: str, rows: Any, trees: range | None, wanted: NDArray[np.bool_] | None
    ) -> NDArray[Any] | None:
        """Return a number by node for the leaf that each row reaches in each tree; those not wanted are 0."""
        if not self.is_used:
            return None
        outputs: NDArray[Any] | None = None
        for block, array in self._arrays(rows):
            if array is None:
                return None
            found = self._entries_of(column, array, trees, None if wanted is None else wanted[:, block])
            if found.shape[1] == rows.shape[0]:
                return found
            if outputs is None:
                outputs = np.empty((found.shape[0], rows.shape[0]), found.dtype)
            outputs[:, block] = found
        return outputs

    def _entries_of(
        self, column: str, array: Any, trees: range | None = None, wanted: NDArray[np.bool_] | None = None
    ) -> NDArray[Any]:
        return np.asarray(self._forest(array.dtype).read(array, self._by_node(column, array.dtype), trees, wanted))

    def _counts_of_blocks(
        self, rows: Any, count_block: Callable[[slice, NDArray[Any]], Any]
    ) -> tuple[IntArray, IntArray] | None:
        if not self.is_by_bits:
            return None
        is_leaf = np.concatenate(self.table.is_leaf)
        counts = np.zeros((2, np.count_nonzero(is_leaf)), np.int64)
        for block, array in self._arrays(rows):
            if array is None:
                return None
            for total, own in zip(counts, count_block(block, array), strict=True):
                total += own[is_leaf]
        return counts[0], counts[1]

    def _arrays(self, rows: Any) -> Iterator[tuple[slice, NDArray[Any] | None]]:
        """Yield rows as arrays, those that are none some at a time; None for what was not compared or cannot be one.

        Blocks start at whole bytes of bags.
        """
        n_rows, n_columns = rows.shape
        is_array = isinstance(rows, np.ndarray)
        at_once = max(n_rows, 1) if is_array else CELLS_AT_ONCE // max(n_columns, 1) // 8 * 8
        if at_once < FEWEST_AT_ONCE and not is_array:
            yield slice(0, n_rows), None
            return
        for start in range(0, max(n_rows, int(is_array)), at_once):
            block = slice(start, min(start + at_once, n_rows))
            array = self._as_array(rows[block])
            yield block, array if array is not None and array.dtype in self._agrees else None

    def _by_node(self, column: str, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Return numbers by node, as the walk reads them from rows of a type."""
        if (column, dtype) not in self._entries:
            self._entries[column, dtype] = self._forest(dtype).table(getattr(self.table, column))
        return self._entries[column, dtype]

    def _forest(self, dtype: DTypeLike, visit: Callable[[int], object] | None = None) -> Any:
        """Return the trees as the walk has read them for rows of a type; `visit` is called for each that is read."""
        key = np.dtype(dtype)
        if key not in self._forests:
            from ens_plugin._kernel.forest import Forest

            table = self.table
            self._forests[key] = Forest(table.trees, table.n_features, key, table.least_category, visit)
        return self._forests[key]


RowOrigin = Literal["training", "like_training", "fresh", "unknown"]


FEWEST_MATCHES = 6
# Fewest thresholds of which at least FEWEST_MATCHES match, if the rows are training rows.
ENOUGH = 15
# A column is used only if at most this share of its rows have values of other rows.
MOST_SHARED = 0.25
ROUNDING = 4.0


def hold_split_values(table: Any, splits: Iterable[tuple[int, FloatArray]], dtype: DTypeLike) -> bool:
    """Return whether so many thresholds are values of the rows, or midpoints of two, that chance cannot explain it."""
    counts = []
    for column, thresholds in splits:
        values = column_of(table, column)
        if values is not None and thresholds.size:
            counts.append(_matches(values.astype(dtype), np.unique(thresholds.astype(dtype))))
    return are_too_many(counts, table.shape[0])


def show_split_values(table: Any, splits: Iterable[tuple[int, FloatArray]], dtype: DTypeLike) -> bool:
    """Return whether columns with distinct values have enough thresholds to recognise training rows."""
    n_usable = 0
    for column, thresholds in splits:
        values = column_of(table, column)
        if values is not None and chance_of_value(values[np.isfinite(values)].astype(dtype)) <= MOST_SHARED:
            n_usable += np.unique(thresholds).size
        if n_usable >= ENOUGH:
            return True
    return False


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


# Fewest different thresholds of a column, and different values of its rows, that make the column comparable.
FEWEST_DISTINCT = 10
# Of a column of fresh rows, two of n + 1 values are expected outside of the range of n: .18 for 10 rows.
MOST_OUTSIDE = 0.9


class OutsideColumns(NamedTuple):
    """Columns at whose splits nearly all rows go the same way.

    Attributes
    ----------
    columns : tuple of int
        Positions of these columns, in ascending order.
    n_compared : int
        Columns that were compared.
    share : float
        Share of the compared columns' splits that are splits of these columns.
    """

    columns: tuple[int, ...] = ()
    n_compared: int = 0
    share: float = 0.0


def columns_outside(table: Any, splits: Iterable[tuple[int, FloatArray]]) -> OutsideColumns:
    """Return the columns of which at least 90 % of the thresholds lie outside of the rows' values.

    Fresh rows like the training rows have few such thresholds: a new value lies outside of the range of n others with
    a chance of 2 / (n + 1), whatever the distribution.
    """
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


Sums = Callable[[RowBlock], FloatArray]


class CompiledSums(NamedTuple):
    """Functions that compute the sums of a block of rows; None for those of :mod:`ens_plugin.core.tally`.

    Attributes
    ----------
    of_values : callable or None
        As ``value_sums``, with the further sums of ``score_sums``.
    of_margins : callable or None
        As ``margin_sums``.
    """

    of_values: Sums | None = None
    of_margins: Sums | None = None


def compiled_sums(block: RowBlock) -> CompiledSums:
    """Return the functions for the outputs of a block: the compiled ones, if they can read them."""
    # Of other types, NumPy rounds some sums to the type.
    if block.outputs.dtype != np.float64 or not _kernel.is_used():
        return CompiledSums()
    from ens_plugin._kernel import outputs

    return CompiledSums(
        of_values=lambda own: outputs.value_sums(own.outputs, own.counted),
        of_margins=lambda own: outputs.margin_sums(own.outputs, own.counted, own.target),
    )


def moment_sums(block: RowBlock) -> FloatArray:
    """Return ``value_sums`` of a block of values, shape (3, n_rows)."""
    return (compiled_sums(block).of_values or value_sums)(block)[:3]


def subset_counts() -> VoteCounts:
    """Return the function that counts the votes of subsets: the compiled one, or ``count_votes_by``."""
    if not _kernel.is_used():
        return count_votes_by
    from ens_plugin._kernel.outputs import subset_votes

    return lambda votes, target, n_slots, subsets: subset_votes(votes, target, n_slots, subsets.places)


def label_order() -> LabelOrder | None:
    """Return the compiled functions that find and make an order of rows by their labels, or None."""
    if not _kernel.is_used():
        return None
    from ens_plugin._kernel.outputs import label_places, move_labels

    return LabelOrder(label_places, move_labels)


def vote_pairs() -> VotePairs | None:
    """Return the compiled functions that sum over pairs of rows as ``sum_pairs`` does, of votes, or None."""
    if not _kernel.is_used():
        return None
    from ens_plugin._kernel import outputs
    from ens_plugin.core.pair_covariance import VotePairs

    return VotePairs(outputs.vote_pairs, outputs.block_pairs)


# Rows that are moved together: few, so that all members' values of them stay in a processor's cache; no power of 2,
# because parts of a column that are so far apart push one another out of it.
ROWS_TOGETHER = 120


def move_values(
    values: NDArray[np.float64],
    taken: NDArray[np.bool_],
    outputs: NDArray[np.float64],
    filled: NDArray[np.bool_],
    leaves: NDArray[np.uint8] | None = None,
) -> None:
    """Copy each row's values that are taken, in order, to its outputs that are filled; the others are any number."""
    move_values_by_label(values[None], taken[None], outputs[None], filled, None if leaves is None else leaves[None])


def move_values_by_label(
    values: NDArray[np.float64],
    taken: NDArray[np.bool_],
    outputs: NDArray[np.float64],
    filled: NDArray[np.bool_],
    leaves: NDArray[np.uint8] | None = None,
) -> None:
    """Do what :func:`move_values` does, for several labels whose outputs are filled in the same places."""
    n_members, n_rows = filled.shape
    moved = np.zeros((ROWS_TOGETHER, n_members))
    for start in range(0, n_rows, ROWS_TOGETHER):
        rows = slice(start, min(start + ROWS_TOGETHER, n_rows))
        # By row, so that the values of one row come after those of another.
        places = _by_row(filled[:, rows])
        # Positions are found without a branch, which a mask as an index takes for each value.
        wanted, into = np.count_nonzero(places, axis=1), np.flatnonzero(places)
        order = np.arange(into.size)
        for label, own_values in enumerate(values):
            own = _by_row(taken[label][:, rows])
            at = np.flatnonzero(own).take(order + _skipped(np.count_nonzero(own, axis=1), wanted))
            known = _row_values(own_values, None if leaves is None else leaves[label][:, rows], rows, at)
            moved.reshape(-1)[into] = known
            outputs[label][:, rows] = moved[: len(own)].T


def _by_row(values: NDArray[Any]) -> NDArray[Any]:
    """Return the values of each row next to each other; a copy of their own first, whose columns are close."""
    return np.ascontiguousarray(np.ascontiguousarray(values).T)


def _skipped(n_taken: NDArray[np.intp], n_wanted: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return how many values of the rows before are taken but not wanted, for each value that is wanted."""
    spare = n_taken - n_wanted
    return np.repeat(np.cumsum(spare) - spare, n_wanted)


def _row_values(
    values: NDArray[np.float64], leaves: NDArray[np.uint8] | None, rows: slice, at: NDArray[np.intp]
) -> NDArray[np.float64]:
    """Return values at some places of a table of some rows by member."""
    if leaves is None:
        return _by_row(values[:, rows]).take(at)
    n_members, n_leaves = values.shape
    dtype = np.min_scalar_type(n_members * n_leaves - 1)
    places = np.add(
        np.ascontiguousarray(leaves).T, np.arange(0, n_members * n_leaves, n_leaves, dtype=dtype), order="C"
    )
    return values.take(places.take(at))
