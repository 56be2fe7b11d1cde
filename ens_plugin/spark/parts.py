"""The sums over the rows of a partition, which are all that an executor returns, and their merge."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.shared.distributed_bags import ProofStatistics, merge_sums
from ens_plugin.core.estimates.grouped_tally import Groups, merge_groups
from ens_plugin.core.estimates.squared_loss import LossMoments
from ens_plugin.core.tallies.row_sampling import smallest_keys
from ens_plugin.core.validation import FloatArray, IntArray
from ens_plugin.spark.repeats import Marks, merge_marks

__all__ = ["KeptRows", "Part", "Problems", "from_bytes", "merge_parts", "to_bytes"]

BY_MEMBER = ("outputs", "counted")


@dataclass(frozen=True, eq=False)
class KeptRows:
    """Sampled rows with the outputs of every member.

    Attributes
    ----------
    outputs : ndarray, shape (n_members, n_rows) or (n_members, n_rows, n_labels)
    counted : ndarray of uint8, shape (ceil(n_members / 8), n_rows)
        Whether each output counts, as bits, eight members to the byte.
    target, weight : ndarray, shape (n_rows,)
    key : ndarray of uint64, shape (n_rows,)
        The rows with the smallest keys are the sample.
    row : ndarray of int64, shape (n_rows,)
        Position in training order, or a hash of the row where its position is not known.
    code, crossed_code : ndarray of int64, shape (n_rows,)
        Group of each row, and that of its crossed margin.
    """

    outputs: NDArray[np.generic]
    counted: NDArray[np.uint8]
    target: NDArray[np.generic]
    weight: FloatArray
    key: NDArray[np.uint64]
    row: IntArray
    code: IntArray
    crossed_code: IntArray

    def take(self, rows: NDArray[np.intp]) -> KeptRows:
        """Return the rows at the given positions."""
        columns = vars(self).items()
        return KeptRows(*(values[:, rows] if name in BY_MEMBER else values[rows] for name, values in columns))


@dataclass(frozen=True)
class Problems:
    """Reasons why rows cannot be analysed.

    Attributes
    ----------
    bad_values : dict
        Rows with missing or infinite values that the model refuses, by feature column.
    refusals : tuple of (str, str)
        Class and message of other errors, sorted, each once.
    """

    bad_values: dict[str, int] = field(default_factory=dict)
    refusals: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.bad_values or self.refusals)

    def merge(self, other: Problems) -> Problems:
        """Return the problems of two disjoint sets of rows together."""
        counts = dict(self.bad_values)
        for column, count in other.bad_values.items():
            counts[column] = counts.get(column, 0) + count
        return Problems(counts, tuple(sorted({*self.refusals, *other.refusals})))


@dataclass(frozen=True, eq=False)
class Part:
    """Sums over the rows of a part of the data; None where the kind of ensemble has no such sum.

    Attributes
    ----------
    groups, crossed : Groups or None
        Rows with weight, by the codes of their tally.
    idle : ndarray, shape (n_members + 1,)
        Rows without weight, by the number of members that predict them.
    by_label : ndarray, shape (2, n_labels, n_members + 1)
        Rows with weight, and their weight, by label and number of members; a single label for regression.
    spreads : ndarray, shape (2, 2), or None
        :func:`ens_plugin.analysis.curves.label_models.soft_spreads` of the rows.
    moments : LossMoments or None
    path : ndarray, shape (2, n_members), or None
        Summed loss and weight along the growth path.
    kept : KeptRows or None
    marks : ndarray of uint64, shape (3, n_marks), or None
        Hashes of training rows, to find copies by.
    proof : ProofStatistics
        Sums over the rows that prove their bags.
    problems : Problems
    """

    groups: Groups | None = None
    crossed: Groups | None = None
    idle: FloatArray | None = None
    by_label: FloatArray | None = None
    spreads: FloatArray | None = None
    moments: LossMoments | None = None
    path: FloatArray | None = None
    kept: KeptRows | None = None
    marks: Marks | None = None
    proof: ProofStatistics = field(default_factory=ProofStatistics)
    problems: Problems = field(default_factory=Problems)


def merge_parts(parts: Sequence[Part], sample_limit: int) -> Part:
    """Return the sums over several disjoint parts of the data, with at most `sample_limit` sampled rows."""
    groups = [part.groups for part in parts if part.groups is not None]
    crossed = [part.crossed for part in parts if part.crossed is not None]
    marks = [part.marks for part in parts if part.marks is not None]
    merged = Part(
        groups=merge_groups(groups) if groups else None,
        crossed=merge_groups(crossed) if crossed else None,
        idle=_added([part.idle for part in parts]),
        by_label=_added([part.by_label for part in parts]),
        spreads=_added([part.spreads for part in parts]),
        path=_added([part.path for part in parts]),
        kept=_kept([part.kept for part in parts if part.kept is not None], sample_limit),
        marks=merge_marks(marks) if marks else None,
        proof=merge_sums([part.proof for part in parts]),
    )
    moments, problems = None, Problems()
    for part in parts:
        problems = problems.merge(part.problems)
        if part.moments is not None:
            moments = part.moments if moments is None else moments.merge(part.moments)
    return replace(merged, moments=moments, problems=problems)


def _added(arrays: Sequence[FloatArray | None]) -> FloatArray | None:
    present = [array for array in arrays if array is not None]
    return np.sum(present, axis=0) if present else None


def _kept(parts: list[KeptRows], limit: int) -> KeptRows | None:
    if not parts:
        return None
    rows = KeptRows(
        *(np.concatenate([vars(part)[name] for part in parts], axis=int(name in BY_MEMBER)) for name in vars(parts[0]))
    )
    return rows.take(smallest_keys(rows.key, limit))


def to_bytes(part: Part) -> bytes:
    """Return a part as bytes, for transport between executors of one job."""
    return pickle.dumps(part, protocol=5)


def from_bytes(content: bytes) -> Part:
    """Return the part that :func:`to_bytes` wrote."""
    part = pickle.loads(content)
    assert isinstance(part, Part)
    return part
