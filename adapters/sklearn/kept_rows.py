"""Recognition of training rows that are passed as held out, by what fitted models store of their training rows.

Models store neighbours, support vectors, rows of Gaussian processes, or the values that trees split at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.pipeline import Pipeline
from sklearn.tree import BaseDecisionTree

from ens_plugin.adapters.members import call_model, label_codes
from ens_plugin.adapters.sklearn.bags import leaf_counts
from ens_plugin.adapters.sklearn.forest import tree_splits
from ens_plugin.adapters.sklearn.known_rows import hold_node_values, show_node_values
from ens_plugin.core.bags import are_records_of, would_be_records_of
from ens_plugin.core.validation import AnyIntArray, FloatArray

Records = NDArray[np.void]
# Returns the training rows that a member was given, in that order; None where they are not known.
Draw = Callable[[int], "AnyIntArray | None"]

# scikit-learn publishes support vectors and the rows of Gaussian processes; nearest neighbours store theirs privately.
KEPT = ("_fit_X", "support_vectors_", "X_train_", "X_fit_")
# Fitted models inside of others, which are given the same rows.
INNER = ("best_estimator_", "base_estimator_", "regressor_", "estimator_")
CHECKED_MEMBERS = 10
MOST_VALUES = 50_000_000
# Rows that were passed as float32, and rows that pass through a pipeline in other company, differ by rounding.  In each
# column, values are compared in this part of their standard deviation.
STEPS = 2.0**17


@dataclass(frozen=True, eq=False)
class KnownRows:
    """The training rows that fitted models store, or show by their splits, beside the given rows.

    Attributes
    ----------
    trees : list of (tree, rows)
        Decision trees, each with the given rows as it takes them, float32.
    tables : list of (given, kept, is_by_row)
        Numbers of the given and of the stored rows, which are equal where the records are.  Every stored row is
        another training row if `is_by_row`, and otherwise another record.
    are_of_all : bool
        Whether each table has the training rows of all members that were read.
    """

    trees: list[tuple[Any, Any]]
    tables: list[tuple[AnyIntArray, AnyIntArray, bool]]
    are_of_all: bool = False

    def are_given(self) -> bool:
        """Return whether more of the training rows are among the given ones than chance explains."""
        if self.trees and hold_node_values(self.trees):
            return True
        return any(
            are_records_of(kept, given) or (is_by_row and are_records_of(given, kept))
            for given, kept, is_by_row in self.tables
        )

    def would_show(self) -> bool:
        """Return whether the given rows would be recognised if they were training rows."""
        if self.trees and show_node_values(self.trees):
            return True
        return any(
            would_be_records_of(kept.size, given) or (self.are_of_all and would_be_records_of(given.size, kept))
            for given, kept, _ in self.tables
        )


def known_rows(
    members: Sequence[tuple[Any, Any]], target: NDArray[Any] | None, classes: NDArray[Any] | None, draw: Draw
) -> KnownRows:
    """Return what some of the members store of their training rows, beside given rows; without target, splits alone."""
    checked = range(0, len(members), max(len(members) // CHECKED_MEMBERS, 1))
    tables = [(model, _table(model, rows)) for model, rows in (members[index] for index in checked)]
    trees = [
        (model, table.astype(np.float32))
        for model, table in tables
        if table is not None and isinstance(model, BaseDecisionTree)
    ]
    if target is None:
        return KnownRows(trees, [])
    found = (_stored(index, *members[index], draw(index), target, classes) for index in checked)
    stored = [own for own in found if own is not None]
    if len({own.space for own in stored}) == 1 and (joined := _joined(stored)) is not None:
        return KnownRows(trees, list(joined.tables()), are_of_all=True)
    return KnownRows(trees, [table for own in stored for table in own.tables()])


@dataclass(frozen=True, eq=False)
class _StoredRows:
    """The rows that a model stores, and given rows as it takes them.

    Attributes
    ----------
    given, kept : ndarrays of float64, shapes (n_rows, n_columns) and (n_kept, n_columns)
    target, kept_target : ndarrays, shapes (n_rows,) and (n_kept,)
        Label codes or values; `kept_target` is None where the model stores none.
    drawn : ndarray of int, shape (n_kept,), or None
        Places of the stored rows among the training rows, where they are known.
    space : int
        A number that is equal for models that are given the same values of a row.
    """

    given: FloatArray
    kept: FloatArray
    target: NDArray[Any]
    kept_target: NDArray[Any] | None
    drawn: AnyIntArray | None
    space: int

    def tables(self) -> Iterator[tuple[AnyIntArray, AnyIntArray, bool]]:
        """Yield the tables of :class:`KnownRows`, of the features alone and, where it is stored, with the target."""
        yield self._table(self.given, self.kept)
        if self.kept_target is not None:
            yield self._table(
                np.column_stack([self.given, self.target]), np.column_stack([self.kept, self.kept_target])
            )

    def _table(self, given_values: FloatArray, kept_values: FloatArray) -> tuple[AnyIntArray, AnyIntArray, bool]:
        step = np.std(kept_values, axis=0) / STEPS
        given, kept = _as_records(given_values, step), _as_records(kept_values, step)
        by_row = _of_each_row(kept, self.drawn)
        kept = np.unique(kept) if by_row is None else by_row
        number = np.unique(np.concatenate([given, kept]), return_inverse=True)[1].reshape(-1)
        return number[: given.size], number[given.size :], by_row is not None


def _stored(
    member: int, model: Any, rows: Any, drawn: AnyIntArray | None, target: NDArray[Any], classes: NDArray[Any] | None
) -> _StoredRows | None:
    """Return the rows that a model stores; None where it stores none as a table of numbers."""
    inner, given = call_model(partial(_innermost, model), rows, member)
    kept = next((_numbers(own) for name in KEPT if (own := getattr(inner, name, None)) is not None), None)
    if kept is None or kept.ndim != 2 or given.shape[1:] != kept.shape[1:] or (table := _numbers(given)) is None:
        return None
    drawn = drawn if drawn is not None and drawn.size == len(kept) else None
    space = id(rows) if given is rows else id(model)
    return _StoredRows(table, kept, target, _kept_target(inner, len(kept), classes), drawn, space)


def _joined(stored: list[_StoredRows]) -> _StoredRows | None:
    """Return the rows of all models together; None where it is not known which rows they are."""
    drawn = [own.drawn for own in stored if own.drawn is not None]
    targets = [own.kept_target for own in stored if own.kept_target is not None]
    if len(drawn) < len(stored):
        return None
    return _StoredRows(
        stored[0].given,
        np.concatenate([own.kept for own in stored]),
        stored[0].target,
        np.concatenate(targets) if len(targets) == len(stored) else None,
        np.concatenate(drawn),
        stored[0].space,
    )


def _of_each_row(kept: Records, drawn: AnyIntArray | None) -> Records | None:
    """Return the record of each row that was drawn, once; None where that is not known."""
    if drawn is None:
        return None
    _, first, which = np.unique(drawn, return_index=True, return_inverse=True)
    records = kept[first]
    return records if np.array_equal(records[which], kept) else None


def _innermost(model: Any, rows: Any) -> tuple[Any, Any]:
    """Return the model inside of pipelines, searches and the like, and rows as it takes them."""
    if isinstance(model, Pipeline):
        for _, step in model.steps[:-1]:
            rows = step.transform(rows) if hasattr(step, "transform") else rows
        return _innermost(model.steps[-1][1], rows)
    inner = next((own for name in INNER if (own := getattr(model, name, None)) is not None), None)
    return (model, rows) if inner is None else _innermost(inner, rows)


def _kept_target(model: Any, n_kept: int, classes: NDArray[Any] | None) -> NDArray[Any] | None:
    """Return the label codes or values of the rows that a model stores; None where it stores none, or scaled ones."""
    own = getattr(model, "classes_", None)
    if hasattr(model, "n_support_") and own is not None:
        codes: Any = np.repeat(np.arange(len(own)), model.n_support_)
    else:
        codes = getattr(model, "_y", getattr(model, "y_train_", None))
    if codes is None or np.size(codes) != n_kept or getattr(model, "normalize_y", False):
        return None
    codes = np.asarray(codes).reshape(-1)
    if own is None or classes is None:
        return codes if own is classes else None
    return label_codes(np.asarray(own)[codes.astype(np.intp)], classes)


def tree_cells(
    members: Sequence[tuple[Any, Any]], target: NDArray[Any] | None, classes: NDArray[Any] | None
) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
    """Yield, for every tree, which cells held a training row, and the number of given rows in each cell.

    A cell is a leaf, or one label in a leaf.
    """
    for model, rows in members:
        table = _table(model, rows) if isinstance(model, BaseDecisionTree) else None
        if table is None or (classes is not None and not np.array_equal(getattr(model, "classes_", ()), classes)):
            continue
        counted, found = leaf_counts(model, table.astype(np.float32), target)
        yield np.minimum(counted, 1), found


def split_columns(models: Sequence[Any], rows: Any) -> tuple[Any, Iterable[tuple[int, NDArray[np.float64]]]]:
    """Return rows as a table, and the thresholds of the columns that the trees among the models split."""
    trees = [model for model in models if isinstance(model, BaseDecisionTree)]
    table = _table(trees[0], rows) if trees else None
    return rows if table is None else table, () if table is None else tree_splits(trees)


def _table(model: Any, rows: Any) -> NDArray[np.float64] | None:
    """Return rows as float64; None where they are no table of numbers, or have other columns than the model."""
    if rows.shape[1:] != (getattr(model, "n_features_in_", None),):
        return None
    try:
        return np.ascontiguousarray(rows, dtype=np.float64)
    except (TypeError, ValueError):
        return None


def _numbers(table: Any) -> FloatArray | None:
    """Return a table as float64; None where it is none of numbers, or a sparse one of too many values."""
    if issparse(table):
        sparse: Any = table
        table = sparse.toarray() if sparse.shape[0] * sparse.shape[1] <= MOST_VALUES else None
    try:
        return None if table is None else np.ascontiguousarray(table, dtype=np.float64)
    except (TypeError, ValueError):
        return None


def _as_records(table: FloatArray, step: FloatArray) -> Records:
    """Return the rows of a table as one value each, rounded to float32 and to some step in each column."""
    with np.errstate(over="ignore", invalid="ignore"):
        rows = np.round(table.astype(np.float32) / np.where(step > 0, step, 1.0))
    # Adding zero makes negative zeros positive.
    rows = np.ascontiguousarray(rows + 0.0)
    return rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1])))[:, 0]
