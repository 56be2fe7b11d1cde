"""Query members in blocks, and drop the rows whose label is settled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.core.tallies.tally import count_members

__all__ = ["AskedRows", "Members", "ReplayedRows", "StoppingRule", "Totals", "codes", "mean_outputs", "query_members"]

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

BLOCK_BYTES = 16_000_000
CACHE_BYTES = 1_000_000
FEWEST_ROWS = 256
# Up to here, counting label by label is faster than counting cells.
FEW_LABELS = 24


class StoppingRule(Protocol):
    """A stopping table: when to look, and which rows are settled then."""

    @property
    def looks(self) -> IntArray:
        """Numbers of members at which to look, ascending; the last is the whole ensemble."""
        ...

    def settled(self, place: int, total: NDArray[Any]) -> NDArray[np.bool_]:
        """Rows that need no further member, shape (n_rows,)."""
        ...


class Members(Protocol):
    """What members say about rows, some of which are dropped on the way.

    Attributes
    ----------
    together : int
        Members that cost little more together than one does.
    """

    @property
    def together(self) -> int:
        """Members that cost little more together than one does."""
        ...

    def outputs(self, members: range) -> NDArray[Any]:
        """Outputs of consecutive members for the rows that are left."""
        ...

    def keep(self, rows: NDArray[np.intp]) -> None:
        """Drop all rows but these, by position among those that are left."""
        ...


@dataclass(frozen=True, eq=False)
class Totals:
    """What the queried members said in total, and how many they were.

    Attributes
    ----------
    total : ndarray, shape (n_rows,) or (n_rows, n_labels)
        Of two labels that are voted for, or scored: votes for the second, or its summed score less the first's.
        Else votes, summed probabilities or summed scores by label.
    queries : ndarray of int, shape (n_rows,)
        Members queried.
    """

    total: FloatArray
    queries: IntArray


class AskedRows:
    """Prepared rows that an adapter's members are asked about.

    Parameters
    ----------
    adapter : EnsembleAdapter
    features : prepared rows
    """

    def __init__(self, adapter: EnsembleAdapter, features: Any) -> None:
        self.together = adapter.member_batch_size
        self._adapter = adapter
        self._features = features

    def outputs(self, members: range) -> NDArray[Any]:
        """Outputs of consecutive members for the rows that are left."""
        return self._adapter.range_outputs(members, self._features)

    def keep(self, rows: NDArray[np.intp]) -> None:
        """Drop all rows but these."""
        features = self._features
        # On arrays, take is several times as fast as an index.
        self._features = features.take(rows, axis=0) if isinstance(features, np.ndarray) else features[rows]


class ReplayedRows:
    """Rows about which all members have been heard already.

    Parameters
    ----------
    outputs : ndarray, shape (n_members, n_rows) or (n_members, n_rows, n_labels)
    """

    def __init__(self, outputs: NDArray[Any]) -> None:
        self.together = outputs.shape[0]
        self._outputs = outputs

    def outputs(self, members: range) -> NDArray[Any]:
        """Outputs of consecutive members for the rows that are left."""
        return self._outputs[members.start : members.stop]

    def keep(self, rows: NDArray[np.intp]) -> None:
        """Drop all rows but these."""
        self._outputs = self._outputs[:, rows]


def query_members(members: Members, n_rows: int, stopper: StoppingRule, n_labels: int, kind: str) -> Totals:
    """Query block after block of members, each about the rows that are not settled yet.

    Parameters
    ----------
    members : Members
    n_rows : int
    stopper : StoppingRule
    n_labels : int
        At least two.
    kind : {"labels", "probabilities", "scores"}
        What members say.
    """
    one_sum = n_labels == 2 and kind != "probabilities"
    found = np.zeros(n_rows if one_sum else (n_rows, n_labels))
    queries = np.zeros(n_rows, dtype=np.int64)
    # By label where labels are counted one by one.
    total, left = found.copy(order="F" if kind == "labels" else "C"), np.arange(n_rows)
    begun = 0
    for place, look in enumerate(stopper.looks.tolist()):
        for part in _parts(begun, look, members.together, total, kind):
            _add(total, members.outputs(part), kind)
        begun = look
        settled = stopper.settled(place, total)
        if not settled.any():
            continue
        done = left[settled]
        found[done], queries[done] = total[settled], look
        if done.size == left.size:
            break
        kept = np.flatnonzero(~settled)
        members.keep(kept)
        # A transposed take keeps the order of the totals, which a plain one would not.
        total, left = total.T.take(kept, axis=-1).T, left.take(kept)
    return Totals(found, queries)


def query_rows(adapter: EnsembleAdapter, features: Any, stopper: StoppingRule) -> Totals:
    """Query an adapter's members about prepared rows, in blocks of rows that fit into memory.

    Parameters
    ----------
    adapter : EnsembleAdapter
        Of a classifier.
    features : prepared rows
    stopper : StoppingRule
    """
    assert adapter.classes is not None
    n_rows, n_labels, kind = features.shape[0], int(adapter.classes.size), adapter.output_kind
    height = max(BLOCK_BYTES // (8 * n_labels * adapter.member_batch_size), FEWEST_ROWS)
    parts = []
    for start in range(0, n_rows, height):
        block = features if height >= n_rows else features[start : start + height]
        parts.append(query_members(AskedRows(adapter, block), block.shape[0], stopper, n_labels, kind))
    if len(parts) == 1:
        return parts[0]
    return Totals(np.concatenate([part.total for part in parts]), np.concatenate([part.queries for part in parts]))


def codes(totals: Totals, kind: str) -> NDArray[np.intp]:
    """Position of each row's label among the classes; the first of equals, as the libraries have it.

    Parameters
    ----------
    totals : Totals
    kind : {"labels", "probabilities", "scores"}
    """
    if totals.total.ndim == 2:
        return np.asarray(totals.total.argmax(axis=1))
    threshold = totals.queries / 2.0 if kind == "labels" else 0.0
    return np.asarray(totals.total > threshold, dtype=np.intp)


def mean_outputs(totals: Totals, kind: str) -> FloatArray:
    """Mean of what the queried members said, shape (n_rows, n_labels); votes as indicators.

    Parameters
    ----------
    totals : Totals
    kind : {"labels", "probabilities", "scores"}
    """
    if totals.total.ndim == 2:
        return np.asarray(totals.total / totals.queries[:, None])
    mean = totals.total / totals.queries
    first = 1.0 - mean if kind == "labels" else -mean / 2.0
    return np.column_stack([first, mean if kind == "labels" else mean / 2.0])


def _parts(begun: int, look: int, together: int, total: FloatArray, kind: str) -> Iterator[range]:
    """Ranges of members from one look to the next whose outputs fit into the processor's cache."""
    bytes_of_member = len(total) if kind == "labels" else total.nbytes
    step = max(CACHE_BYTES // max(bytes_of_member, 1), together, 1)
    return (range(start, min(start + step, look)) for start in range(begun, look, step))


def _add(total: FloatArray, said: NDArray[Any], kind: str) -> None:
    """Add what a block of members said to the totals, member by member: the libraries' own order of summation."""
    if kind == "labels" and total.ndim == 1:
        total += count_members(said)
        return
    if kind == "labels":
        _count(total, said)
        return
    if total.ndim == 1 and said.ndim == 3:
        said = said[:, :, 1] - said[:, :, 0]
    for one in said:
        total += one


def _count(total: FloatArray, votes: NDArray[Any]) -> None:
    n_rows, n_labels = total.shape
    if n_labels <= FEW_LABELS:
        for label in range(n_labels):
            total[:, label] += count_members(votes == label)
        return
    cells = votes + np.arange(0, n_rows * n_labels, n_labels)
    total += np.bincount(cells.ravel(), minlength=total.size).reshape(total.shape)
