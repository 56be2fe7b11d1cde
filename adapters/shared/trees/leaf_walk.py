"""The compiled search for leaves, used where ens-plugin-walk is installed and agrees with a model's own library."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ens_plugin.adapters.shared.trees import walk_package
from ens_plugin.adapters.shared.trees.flat_trees import FlatForest, probe_rows
from ens_plugin.adapters.shared.trees.walk_package import REPORT, Fault
from ens_plugin.core.tallies.row_sampling import spread_rows
from ens_plugin.core.validation import counted
from ens_plugin.errors import EnsPluginWarning
from ens_plugin.user_warnings import warn_user

if TYPE_CHECKING:
    from ens_plugin.core.stopping import StoppingTable
    from ens_plugin.core.tallies.bags import Bags

__all__ = ["COMPARED_ROWS", "LeafWalk", "Table", "compared_rows"]

IntArray = NDArray[np.int64]

# A comparison on fewer rows would prove little; the library itself finds their leaves.
FEWEST_ROWS = 8
COMPARED_ROWS = 32
CHUNK_BYTES = 16_000_000
FEWEST_AT_ONCE = 64

# Returns the library's own leaf numbers, shape (n_trees, n_rows), for rows of an array.
OwnLeaves = Callable[[NDArray[Any]], NDArray[Any]]
# Returns those of one tree, by position, shape (n_rows,).
LeavesOfTree = Callable[[int, NDArray[Any]], NDArray[Any]]


def compared_rows(n_rows: int) -> NDArray[np.intp]:
    """Return the positions of the rows on which the walk is compared with the library, evenly spread."""
    return spread_rows(n_rows, COMPARED_ROWS)


class Table(NamedTuple):
    """Rows in a library's own form, some of which are made an array at a time.

    Attributes
    ----------
    n_rows : int
    bytes_per_row : int
        Of an array.
    as_array : callable
        Returns the rows of a slice as an array, or None where only the library can read them.
    """

    n_rows: int
    bytes_per_row: int
    as_array: Callable[[slice], NDArray[Any] | None]


class LeafWalk:
    """The compiled walk of one model's trees, used only after :meth:`compare` has found the library's own leaves.

    Parameters
    ----------
    flatten : callable
        Returns the trees as a FlatForest; called once, and only where the walk is installed.
    library : str
        The library's name and the function that finds its leaves, for the warning.
    """

    def __init__(self, flatten: Callable[[], FlatForest], library: str) -> None:
        self._flatten, self._library = flatten, library
        self._forests: dict[np.dtype[Any], Any] = {}
        self._tables: dict[Any, NDArray[Any]] = {}
        # The last stopping table asked for, with its sums by type of the rows.
        self._stopping: tuple[StoppingTable, dict[np.dtype[Any], Any]] | None = None
        self._is_installed = walk_package.is_installed()
        # By type of the rows, whether the walk found the library's leaves.
        self._agrees: dict[np.dtype[Any], bool] = {}

    @cached_property
    def forest(self) -> FlatForest:
        """Return the trees in the format of the walk."""
        return self._flatten()

    @property
    def is_used(self) -> bool:
        """Return whether the walk has been compared with the library, and found the same leaves whenever it was."""
        return bool(self._agrees) and all(self._agrees.values())

    def is_to_compare(self, n_rows: int, dtype: DTypeLike) -> bool:
        """Return whether :meth:`compare` is to be called with rows of a type, of which there are `n_rows`."""
        return self.may_compare(n_rows) and np.dtype(dtype) not in self._agrees

    def may_compare(self, n_rows: int) -> bool:
        """Return whether the walk is installed and has not failed, and there are rows enough for a comparison."""
        return self._is_installed and n_rows >= FEWEST_ROWS and all(self._agrees.values())

    def compare(self, rows: NDArray[Any], own: Callable[[], NDArray[Any]], find_own: OwnLeaves) -> None:
        """Use the walk for rows of this type from now on if it finds the library's leaves, else issue a warning.

        Parameters
        ----------
        rows : ndarray, shape (n_rows, n_features)
            Some of the rows of X, as numbers.
        own : callable
            Returns the library's leaves for these rows, found in the form in which X was passed.
        find_own : callable
            Returns the library's leaves for the rows of an array, by which thresholds and missing values are tried.
        """
        self._judge(rows, lambda _: None, lambda probes: np.concatenate([own(), find_own(probes)], axis=1))

    def compare_trees(self, rows: NDArray[Any], find_own: LeavesOfTree) -> None:
        """Do what :meth:`compare` does, tree by tree, each while it is in a processor's cache because the walk read it.

        Parameters
        ----------
        rows : ndarray, shape (n_rows, n_features)
        find_own : callable
            Returns the library's leaves of one tree for the rows of an array.
        """
        own: list[NDArray[Any]] = []

        def read_trees(probes: NDArray[Any]) -> None:
            both = np.concatenate([rows, probes])
            self._forest(rows.dtype, lambda tree: own.append(find_own(tree, both)))

        self._judge(rows, read_trees, lambda _: np.stack(own))

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
            self._tables.clear()
            self._stopping = None
            warn_user(
                f"ens-plugin-walk finds {fault.found}, so it is not used for this model: the library finds the leaves, "
                f"which takes longer and changes no figure. {fault.remedy}".rstrip(),
                EnsPluginWarning,
            )

    def _fault(
        self,
        rows: NDArray[Any],
        read_trees: Callable[[NDArray[Any]], None],
        find_own: Callable[[NDArray[Any]], NDArray[Any]],
    ) -> Fault | None:
        """Return in words how the walk's leaves differ from the library's; parameters are those of :meth:`_judge`."""
        of_package = walk_package.find_fault()
        if of_package is not None:
            return of_package
        try:
            probes = probe_rows(self.forest, rows)
            read_trees(probes)
            found = np.concatenate([self.leaves(rows), self.leaves(probes)], axis=1)
        except (IndexError, KeyError, ValueError) as error:  # trees of an unknown form
            return Fault(f"no leaves ({error})", REPORT)
        differing = (found != find_own(probes)).any(axis=1)
        n_differing = int(np.count_nonzero(differing))
        if not n_differing:
            return None
        n_trees = counted(differing.size, "tree")
        return Fault(f"other leaves than {self._library} in {n_differing} of {n_trees}", REPORT)

    def leaves(
        self, rows: NDArray[Any], trees: range | None = None, wanted: NDArray[np.bool_] | None = None
    ) -> NDArray[Any]:
        """Return the library's number of the leaf that each row reaches in each tree, shape (n_trees, n_rows).

        Parameters
        ----------
        rows : ndarray of float32 or float64, shape (n_rows, n_features)
        trees : range, optional
        wanted : ndarray of bool, shape (n_trees, n_rows), optional
            True for leaves to find; the others are 0.
        """
        return self.entries("leaves", lambda: self.forest.numbers, rows, trees, wanted)

    def entries(
        self,
        name: str,
        values: Callable[[], Sequence[NDArray[Any]]],
        rows: NDArray[Any],
        trees: range | None = None,
        wanted: NDArray[np.bool_] | None = None,
    ) -> NDArray[Any]:
        """Return a number for the leaf that each row reaches in each tree, such as its label or its value.

        Parameters
        ----------
        name : str
            By which the numbers are kept.
        values : callable
            Returns the numbers, one array of shape (n_nodes,) for each tree, all of one type of up to 8 bytes.
        rows, trees, wanted
            As of :meth:`leaves`.
        """
        table = self._table(name, values, rows.dtype)
        return np.asarray(self._forest(rows.dtype).read(self.forest.cleaned(rows), table, trees, wanted))

    def stopped_sums(
        self, values: Callable[[], Sequence[NDArray[Any]]], rows: NDArray[Any], stops: StoppingTable
    ) -> tuple[NDArray[np.float64], IntArray] | None:
        """Return the sum of each row's values, tree by tree until it settles the row, and the number of trees.

        None where the walk is not used, or was not compared for the type of the rows.

        Parameters
        ----------
        values : callable
            Returns the value of each node of each tree, always the same.
        rows : ndarray of float32 or float64, shape (n_rows, n_features)
        stops : StoppingTable
            Its checkpoints are numbers of trees.
        """
        if rows.dtype not in self._agrees or not self.is_used:
            return None
        # Read once, because another thread may keep the sums of another table meanwhile.
        kept = self._stopping
        if kept is None or kept[0] is not stops:
            self._stopping = kept = stops, {}
        known = kept[1]
        if rows.dtype not in known:
            table = self._table("values", values, rows.dtype)
            known[rows.dtype] = self._forest(rows.dtype).stopping(table, stops.checkpoints, stops.lower, stops.upper)
        totals, n_trees = known[rows.dtype].sums(self.forest.cleaned(rows))
        return totals, n_trees

    def read_blocks(
        self,
        table: Table,
        trees: range | None = None,
        wanted: NDArray[np.bool_] | None = None,
        name: str = "leaves",
        values: Callable[[], Sequence[NDArray[Any]]] | None = None,
    ) -> NDArray[Any] | None:
        """Return :meth:`leaves`, or :meth:`entries`, of a table that is made arrays; None where that cannot be."""
        of_node = (lambda: self.forest.numbers) if values is None else values
        outputs: NDArray[Any] | None = None
        for block, array in self._arrays(table):
            if array is None:
                return None
            own = None if wanted is None else wanted[:, block]
            found = self.entries(name, of_node, array, trees, own)
            if found.shape[1] == table.n_rows:
                return found
            if outputs is None:
                outputs = np.empty((found.shape[0], table.n_rows), found.dtype)
            outputs[:, block] = found
        return outputs

    @property
    def is_by_bits(self) -> bool:
        """Return whether the walk takes small trees, of all rows in less time than the leaves are kept in.

        Then :meth:`count` returns counts of rows that are read as arrays.
        """
        return self.is_used and all(self._forest(dtype).counts_leaves for dtype in self._agrees)

    def count(self, table: Table, bags: Bags, bag_of: NDArray[Any]) -> tuple[IntArray, IntArray] | None:
        """Return how many rows reach each leaf: of those in the tree's bag, then of all; None where that cannot be.

        The result is that of :func:`~ens_plugin.adapters.shared.trees.leaf_counts.count_leaves`.

        Parameters
        ----------
        table : Table
        bags : Bags
            Of the rows of the table.
        bag_of : ndarray of int, shape (n_trees,)
            Bag of each tree.

        Returns
        -------
        in_bag, all : ndarrays of int, shape (n_leaves,)
            Leaves in the order of the nodes, one tree after the other.
        """

        def count_block(block: slice, array: NDArray[Any]) -> Any:
            return self._forest(array.dtype).count(self.forest.cleaned(array), bags.part(block).bits, bag_of)

        return self._counts_of_blocks(table, count_block)

    def count_and_sum(
        self, table: Table, values: Callable[[], Sequence[NDArray[Any]]], bags: Bags, sums: NDArray[np.float64]
    ) -> tuple[IntArray, IntArray] | None:
        """Return :meth:`count` of trees with a bag each, and write :meth:`value_sums` to `sums`, shape (5, n_rows).

        None where that cannot be; the sums are then undefined.
        """

        def count_block(block: slice, array: NDArray[Any]) -> Any:
            of_node = self._table("values", values, array.dtype)
            forest, rows = self._forest(array.dtype), self.forest.cleaned(array)
            *counted, sums[:, block] = forest.count_and_sum(rows, of_node, bags.part(block).bits)
            return counted

        return self._counts_of_blocks(table, count_block)

    def _counts_of_blocks(
        self, table: Table, count_block: Callable[[slice, NDArray[Any]], Any]
    ) -> tuple[IntArray, IntArray] | None:
        if not self.is_by_bits:
            return None
        is_leaf = self._is_leaf()
        counts = np.zeros((2, np.count_nonzero(is_leaf)), np.int64)
        for block, array in self._arrays(table):
            if array is None:
                return None
            for total, own in zip(counts, count_block(block, array), strict=True):
                total += own[is_leaf]
        return counts[0], counts[1]

    def _is_leaf(self) -> NDArray[np.bool_]:
        return np.concatenate([np.asarray(tree.left) < 0 for tree in self.forest.trees])

    def _arrays(self, table: Table) -> Iterator[tuple[slice, NDArray[Any] | None]]:
        """Yield the rows of a table as arrays; None for an array that cannot be made, or whose type was not compared.

        Blocks start at whole bytes of bags.
        """
        at_once = CHUNK_BYTES // max(table.bytes_per_row, 1) // 8 * 8
        if at_once < FEWEST_AT_ONCE:
            yield slice(0, table.n_rows), None
            return
        for start in range(0, table.n_rows, at_once):
            block = slice(start, min(start + at_once, table.n_rows))
            array = table.as_array(block)
            yield block, array if array is not None and array.dtype in self._agrees else None

    def value_sums(
        self, table: Table, values: Callable[[], Sequence[NDArray[Any]]], bags: Bags | None
    ) -> NDArray[np.float64] | None:
        """Return sums over the trees out of whose bag each row is, as of ``score_sums``, without the trees' values.

        None where the walk does not take small trees, or the rows are not read as arrays.

        Parameters
        ----------
        table : Table
        values : callable
            As of :meth:`stopped_sums`.
        bags : Bags or None
            Of the trees and of the rows of the table; None for rows in no bag.
        """
        if not self.is_by_bits:
            return None
        sums = np.empty((5, table.n_rows))
        for block, array in self._arrays(table):
            if array is None:
                return None
            of_node = self._table("values", values, array.dtype)
            bits = None if bags is None else bags.part(block).bits
            sums[:, block] = self._forest(array.dtype).value_sums(self.forest.cleaned(array), of_node, bits)
        return sums

    def _table(self, name: str, values: Callable[[], Sequence[NDArray[Any]]], dtype: np.dtype[Any]) -> NDArray[Any]:
        if (name, dtype) not in self._tables:
            self._tables[name, dtype] = self._forest(dtype).table(values())
        return self._tables[name, dtype]

    def _forest(self, dtype: DTypeLike, visit: Callable[[int], object] | None = None) -> Any:
        """Return the trees as the walk has read them for rows of a type; `visit` is called for each that is read."""
        key = np.dtype(dtype)
        if key not in self._forests:
            from ens_plugin_walk import Forest, Tree

            flat = self.forest
            trees = [Tree(*tree) for tree in flat.trees]
            self._forests[key] = Forest(trees, flat.n_features, key, flat.least_category, visit)
        return self._forests[key]
