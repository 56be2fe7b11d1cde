"""Queries of members in blocks, only for the rows whose label is still uncertain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.adapters.capabilities import SettlesRows
from ens_plugin.core.stopping import StoppingTable
from ens_plugin.core.tallies.tally import count_members
from ens_plugin.core.validation import FloatArray, IntArray

__all__ = ["Members", "QueriedRows", "ReplayedRows", "StoppingRule", "Totals", "codes", "mean_outputs", "query_members"]

BLOCK_BYTES = 16_000_000
CACHE_BYTES = 1_000_000
FEWEST_ROWS = 256
# Of more rows, blocks of members in turn take less time than rows in turn.
FEW_ROWS = 2000
# Up to this number of labels, counting votes label by label is faster than counting cells.
FEW_LABELS = 24


class StoppingRule(Protocol):
    """Protocol of a rule for when a row's label is certain enough to query no further member."""

    @property
    def checkpoints(self) -> IntArray:
        """Numbers of members after which rows can be settled, ascending; the last is the whole ensemble."""
        ...

    def settled(self, place: int, total: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which rows need no further member at checkpoint number `place`, shape (n_rows,)."""
        ...


class Members(Protocol):
    """Protocol of a source of members' outputs for rows; rows whose label is settled are dropped from it."""

    @property
    def together(self) -> int:
        """Number of members whose outputs together take little more time than those of one."""
        ...

    def outputs(self, members: range) -> NDArray[Any]:
        """Return the outputs of consecutive members for the rows not dropped yet."""
        ...

    def keep(self, rows: NDArray[np.intp]) -> None:
        """Drop all rows but `rows`, positions among the rows not dropped yet."""
        ...


@dataclass(frozen=True, eq=False)
class Totals:
    """Sums of the queried members' outputs by row, and the number of members in each sum.

    Attributes
    ----------
    total : ndarray, shape (n_rows,) or (n_rows, n_labels)
        For votes or scores of two labels: votes for the second, or its summed score less the first's.  Else votes,
        summed probabilities or summed scores by label.
    queries : ndarray of int, shape (n_rows,)
        Number of members queried.
    """

    total: FloatArray
    queries: IntArray


class QueriedRows:
    """Source of outputs that queries an adapter's members for prepared rows.

    Parameters
    ----------
    adapter : EnsembleAdapter
    features : prepared rows
    """

    def __init__(self, adapter: EnsembleAdapter, features: Any) -> None:
        self.together = adapter.info.member_batch_size
        self._adapter = adapter
        self._features = features

    def outputs(self, members: range) -> NDArray[Any]:
        """Return the outputs of consecutive members for the rows not dropped yet."""
        return self._adapter.outputs(self._features, members)

    def keep(self, rows: NDArray[np.intp]) -> None:
        """Drop all rows but `rows`, positions among the rows not dropped yet."""
        features = self._features
        # For arrays, take is several times as fast as indexing.
        self._features = features.take(rows, axis=0) if isinstance(features, np.ndarray) else features[rows]


class ReplayedRows:
    """Source of outputs that were computed before, of all members for all rows.

    Parameters
    ----------
    outputs : ndarray, shape (n_members, n_rows) or (n_members, n_rows, n_labels)
    """

    def __init__(self, outputs: NDArray[Any]) -> None:
        self.together = outputs.shape[0]
        self._outputs = outputs

    def outputs(self, members: range) -> NDArray[Any]:
        """Return the outputs of consecutive members for the rows not dropped yet."""
        return self._outputs[members.start : members.stop]

    def keep(self, rows: NDArray[np.intp]) -> None:
        """Drop all rows but `rows`, positions among the rows not dropped yet."""
        self._outputs = self._outputs[:, rows]


def query_members(members: Members, n_rows: int, rule: StoppingRule, n_labels: int, kind: str) -> Totals:
    """Query members block by block, each for the rows whose label is still uncertain, and return sums of outputs.

    Parameters
    ----------
    members : Members
    n_rows : int
    rule : StoppingRule
    n_labels : int
        At least two.
    kind : {"labels", "probabilities", "scores"}
        Kind of the members' outputs.
    """
    one_sum = n_labels == 2 and kind != "probabilities"
    found = np.zeros(n_rows if one_sum else (n_rows, n_labels))
    queries = np.zeros(n_rows, dtype=np.int64)
    # Memory by label where labels are counted one by one.
    total, left = found.copy(order="F" if kind == "labels" else "C"), np.arange(n_rows)
    begun = 0
    for place, checkpoint in enumerate(rule.checkpoints.tolist()):
        for part in _parts(begun, checkpoint, members.together, total, kind):
            _add(total, members.outputs(part), kind)
        begun = checkpoint
        settled = rule.settled(place, total)
        if not settled.any():
            continue
        done = left[settled]
        found[done], queries[done] = total[settled], checkpoint
        if done.size == left.size:
            break
        kept = np.flatnonzero(~settled)
        members.keep(kept)
        # Taking from the transpose keeps the memory order of the totals.
        total, left = total.T.take(kept, axis=-1).T, left.take(kept)
    return Totals(found, queries)


def query_rows(adapter: EnsembleAdapter, features: Any, rule: StoppingRule) -> Totals:
    """Query an adapter's members for prepared rows, in blocks that fit into memory, and return the sums of outputs.

    Parameters
    ----------
    adapter : EnsembleAdapter
        Of a classifier.
    features : prepared rows
    rule : StoppingRule
    """
    assert adapter.classes is not None
    n_rows, n_labels, kind = features.shape[0], int(adapter.classes.size), adapter.output_kind
    if n_rows <= FEW_ROWS and isinstance(rule, StoppingTable) and isinstance(adapter, SettlesRows):
        settled = adapter.settled_sums(features, rule)
        if settled is not None:
            return Totals(*settled)
    height = max(BLOCK_BYTES // (8 * n_labels * adapter.info.member_batch_size), FEWEST_ROWS)
    parts = []
    for start in range(0, n_rows, height):
        block = features if height >= n_rows else features[start : start + height]
        parts.append(query_members(QueriedRows(adapter, block), block.shape[0], rule, n_labels, kind))
    if len(parts) == 1:
        return parts[0]
    return Totals(np.concatenate([part.total for part in parts]), np.concatenate([part.queries for part in parts]))


def codes(totals: Totals, kind: str) -> NDArray[np.intp]:
    """Return the position of each row's predicted label among the classes; of tied labels, the first.

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
    """Return the mean output of the queried members, shape (n_rows, n_labels); votes as indicators.

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


def _parts(begun: int, checkpoint: int, together: int, total: FloatArray, kind: str) -> Iterator[range]:
    """Return ranges of members from one checkpoint to the next whose outputs fit into the processor's cache."""
    bytes_of_member = len(total) if kind == "labels" else total.nbytes
    step = max(CACHE_BYTES // max(bytes_of_member, 1), together, 1)
    return (range(start, min(start + step, checkpoint)) for start in range(begun, checkpoint, step))


def _add(total: FloatArray, outputs: NDArray[Any], kind: str) -> None:
    """Add a block of members' outputs to the totals in place, member by member, the libraries' order of summation."""
    if kind == "labels" and total.ndim == 1:
        total += count_members(outputs)
        return
    if kind == "labels":
        _count(total, outputs)
        return
    if total.ndim == 1 and outputs.ndim == 3:
        outputs = outputs[:, :, 1] - outputs[:, :, 0]
    for one in outputs:
        total += one


def _count(total: FloatArray, votes: NDArray[Any]) -> None:
    n_rows, n_labels = total.shape
    if n_labels <= FEW_LABELS:
        for label in range(n_labels):
            total[:, label] += count_members(votes == label)
        return
    cells = votes + np.arange(0, n_rows * n_labels, n_labels)
    total += np.bincount(cells.ravel(), minlength=total.size).reshape(total.shape)
