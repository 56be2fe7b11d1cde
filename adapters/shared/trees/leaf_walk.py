"""The compiled search for leaves, used where ens-plugin-walk is installed and agrees with a model's own library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ens_plugin.adapters.shared.trees.flat_trees import FlatForest, probe_rows
from ens_plugin.core.tallies.row_sampling import spread_rows
from ens_plugin.errors import EnsPluginWarning
from ens_plugin.user_warnings import warn_user

__all__ = ["COMPARED_ROWS", "LeafWalk", "compared_rows", "is_installed"]

# A comparison on fewer rows would prove little; the library itself finds their leaves.
FEWEST_ROWS = 8
COMPARED_ROWS = 32
CHUNK_BYTES = 16_000_000
FEWEST_AT_ONCE = 64

# Returns the library's own leaf numbers, shape (n_trees, n_rows), for rows of an array.
OwnLeaves = Callable[[NDArray[Any]], NDArray[Any]]


def is_installed() -> bool:
    """Return whether ens-plugin-walk, which ``pip install 'ens-plugin[fast]'`` installs, is there."""
    return find_spec("ens_plugin_walk") is not None


def compared_rows(n_rows: int) -> NDArray[np.intp]:
    """Return the positions of the rows on which the walk is compared with the library, evenly spread."""
    return spread_rows(n_rows, COMPARED_ROWS)


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
        self._is_installed = is_installed()
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
        found = self._difference(rows, own, find_own)
        self._agrees[rows.dtype] = found is None
        if found is not None:
            self._forests.clear()
            self._tables.clear()
            warn_user(
                f"ens-plugin-walk finds {found}, so it is not used for this model: the library finds the leaves, which "
                "takes longer and changes no figure. Please report this with the versions of both.",
                EnsPluginWarning,
            )

    def _difference(self, rows: NDArray[Any], own: Callable[[], NDArray[Any]], find_own: OwnLeaves) -> str | None:
        """Return in words how the walk's leaves differ from the library's; parameters are those of :meth:`compare`."""
        try:
            probes = probe_rows(self.forest, rows)
            found, of_probes = self.leaves(rows), self.leaves(probes)
        except (ImportError, IndexError, KeyError, ValueError) as error:  # a broken build, or trees of an unknown form
            return f"no leaves ({error})"
        differing = (found != own()).any(axis=1) | (of_probes != find_own(probes)).any(axis=1)
        n_differing = int(np.count_nonzero(differing))
        return f"other leaves than {self._library} in {n_differing} of {differing.size} trees" if n_differing else None

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
        forest = self._forest(rows.dtype)
        if (name, rows.dtype) not in self._tables:
            self._tables[name, rows.dtype] = forest.table(values())
        return np.asarray(forest.read(self.forest.cleaned(rows), self._tables[name, rows.dtype], trees, wanted))

    def read_blocks(
        self,
        rows: Any,
        as_array: Callable[[Any], NDArray[Any] | None],
        bytes_per_row: int,
        trees: range | None = None,
        wanted: NDArray[np.bool_] | None = None,
    ) -> NDArray[Any] | None:
        """Return the leaves of rows that are converted to arrays block by block; None where they cannot be converted.

        Parameters
        ----------
        rows : table that is sliced by rows, with ``.shape``
        as_array : callable
            Returns some of the rows as an array, or None.  Nothing is found in arrays of a type not compared yet.
        bytes_per_row : int
            Of that array.
        trees, wanted
            As of :meth:`leaves`.
        """
        at_once = CHUNK_BYTES // max(bytes_per_row, 1)
        if at_once < FEWEST_AT_ONCE:
            return None
        n_trees = len(self.forest.trees) if trees is None else len(trees)
        leaves = np.empty((n_trees, rows.shape[0]), self.forest.numbers[0].dtype)
        for start in range(0, rows.shape[0], at_once):
            block = slice(start, start + at_once)
            array = as_array(rows[block])
            if array is None or array.dtype not in self._agrees:
                return None
            leaves[:, block] = self.leaves(array, trees, None if wanted is None else wanted[:, block])
        return leaves

    def _forest(self, dtype: DTypeLike) -> Any:
        key = np.dtype(dtype)
        if key not in self._forests:
            from ens_plugin_walk import Forest, Tree

            flat = self.forest
            trees = [Tree(*tree) for tree in flat.trees]
            self._forests[key] = Forest(trees, flat.n_features, key, flat.least_category)
        return self._forests[key]
