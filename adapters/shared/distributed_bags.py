"""Bags on a cluster: computed from each row's position, and proved by sums over the rows of all machines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.tallies.bags import BagProof, Bags
from ens_plugin.errors import BagError

__all__ = ["DistributedBags", "ProofStatistics", "merge_sums", "refuse_other_candidates"]

IntArray = NDArray[np.int64]
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, eq=False)
class ProofStatistics:
    """Statistics of some rows by which bags are proved; those of disjoint rows can be merged.

    Attributes
    ----------
    added : dict of ndarray
        Counts and sums.
    least : dict of ndarray
        Smallest values.

    Examples
    --------
    >>> import numpy as np
    >>> from ens_plugin.adapters import ProofStatistics
    >>> ProofStatistics({"rows": np.array([12])}, {"lowest": np.array([0.5])}).added["rows"].tolist()
    [12]
    """

    added: Arrays = field(default_factory=dict)
    least: Arrays = field(default_factory=dict)

    def named(self, tree: int) -> ProofStatistics:
        """Return the statistics with the tree's number added to their names, to merge those of several trees.

        Examples
        --------
        >>> import numpy as np
        >>> from ens_plugin.adapters import ProofStatistics
        >>> ProofStatistics({"rows": np.array([1])}).named(7).added
        {'rows 7': array([1])}
        """
        return ProofStatistics(_named(self.added, tree), _named(self.least, tree))

    def of_tree(self, tree: int) -> ProofStatistics:
        """Return the statistics of one tree, out of those of several that :meth:`named` has renamed."""
        return ProofStatistics(_of_tree(self.added, tree), _of_tree(self.least, tree))


def _named(arrays: Arrays, tree: int) -> Arrays:
    return {f"{name} {tree}": values for name, values in arrays.items()}


def _of_tree(arrays: Arrays, tree: int) -> Arrays:
    end = f" {tree}"
    return {name.removesuffix(end): values for name, values in arrays.items() if name.endswith(end)}


class DistributedBags(ABC):
    """Bags that any machine of a cluster computes for some of the training rows, from their positions.

    The bags follow from the model's own record or seed, and are valid only once :meth:`prove` has passed with
    the sums over all rows.

    Examples
    --------
    Member 0 was trained on the even rows, and member 1 on the odd ones:

    >>> import numpy as np
    >>> from ens_plugin.adapters import BagProof, Bags, DistributedBags, ProofStatistics
    >>> from ens_plugin.errors import BagError
    >>> class EvenAndOdd(DistributedBags):
    ...     def at(self, rows, target):
    ...         return Bags.from_mask([rows % 2 == 0, rows % 2 == 1])
    ...
    ...     def sums(self, rows, features, target, bags):
    ...         return ProofStatistics({"rows": bags.in_bag().sum(axis=1)})
    ...
    ...     def prove(self, sums):
    ...         if sums.added["rows"].tolist() != [50, 50]:
    ...             raise BagError("The members were trained on 50 rows each; pass these rows.")
    ...         return BagProof(rows=False, target=False)
    >>> EvenAndOdd().at(np.array([10, 11]), np.zeros(2)).in_bag().tolist()
    [[True, False], [False, True]]
    """

    @abstractmethod
    def at(self, rows: IntArray, target: NDArray[Any]) -> Bags:
        """Return the bags of some rows, by position in training order.

        Parameters
        ----------
        rows : ndarray of int64, shape (n_rows,)
        target : ndarray, shape (n_rows,)
            Label codes or values of these rows.
        """

    @abstractmethod
    def sums(self, rows: IntArray, features: Any, target: NDArray[Any], bags: Bags) -> ProofStatistics:
        """Return the statistics of some rows for the proof; `rows` are positions, `features` prepared rows."""

    @abstractmethod
    def prove(self, sums: ProofStatistics) -> BagProof:
        """Return a BagProof after comparing the sums over all rows with those that the members store.

        Raises
        ------
        BagError
            If the members were trained on other bags, or the proof is too weak.
        DataMismatchError
            If the rows or the target are not those of the training.
        """


def refuse_other_candidates(candidate: int) -> None:
    """Raise BagError unless `candidate` is 0, for an ensemble whose bags have only one possible draw."""
    if candidate > 0:
        raise BagError(
            "There is only one possible draw of these bags, and these rows contradict it. Pass the training rows, in "
            "training order."
        )


def merge_sums(parts: Sequence[ProofStatistics]) -> ProofStatistics:
    """Return the statistics of all rows, merged from those of disjoint parts.

    Examples
    --------
    >>> first = ProofStatistics({"rows": np.array([1])}, {"low": np.array([3.0])})
    >>> merged = merge_sums([first, ProofStatistics({"rows": np.array([2])})])
    >>> merged.added["rows"].tolist(), merged.least["low"].tolist()
    ([3], [3.0])
    """
    return ProofStatistics(
        _merged([part.added for part in parts], np.add),
        _merged([part.least for part in parts], np.minimum),
    )


def _merged(parts: list[Arrays], put_together: Callable[[Any, Any], Any]) -> Arrays:
    merged: Arrays = {}
    for part in parts:
        for name, values in part.items():
            merged[name] = put_together(merged[name], values) if name in merged else values
    return merged
