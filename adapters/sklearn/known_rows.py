"""Training rows that are passed as held out, in any order and in part: recognised by what fitted models show of them.

Members are wrong about rows out of their bags only; trees split at values of their rows; other models store
neighbours, support vectors, or rows of Gaussian processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.pipeline import Pipeline
from sklearn.tree import BaseDecisionTree

from ens_plugin.adapters.contract import draw_bags
from ens_plugin.adapters.members import call_model, label_codes
from ens_plugin.adapters.sklearn.bags import leaf_counts
from ens_plugin.adapters.tree_table import splits_by_column
from ens_plugin.adapters.trees import ENOUGH, MOST_SHARED, are_too_many, chance_of_value, column_of
from ens_plugin.core.bags import (
    are_records_of,
    are_wrong_too_often,
    match_training_rows,
    may_be_known,
    would_be_records_of,
)
from ens_plugin.core.sample import spread_rows
from ens_plugin.core.training_rows import MOST_DRAWS, UNLIMITED, LeafDraws
from ens_plugin.core.validation import ROUNDING, AnyIntArray, FloatArray

# Members whose stored rows are read, or whose rows are followed through so many nodes: more would be slower, not surer.
CHECKED_TREES, CHECKED_NODES = 8, 64
# Rows about which members' errors are compared.  Among the first few fresh rows there usually is one that too many
# members are wrong about.
CHECKED_ROWS, FIRST_ROWS = 2_000, 200
# Trees whose thresholds are read: those of all would be alike.
COMPARED_TREES = 20
# Values of a sparse table that are made dense, at most.
MOST_VALUES = 50_000_000
# Rows that were passed as float32, and rows that pass through a pipeline in other company, differ by rounding.  In each
# column, values are compared in this part of their standard deviation.
STEPS = 2.0**17
# scikit-learn publishes support vectors and the rows of Gaussian processes; nearest neighbours store theirs privately.
_KEPT = ("_fit_X", "support_vectors_", "X_train_", "X_fit_")
# Fitted models inside of others, which are given the same rows.
_INNER = ("best_estimator_", "base_estimator_", "regressor_", "estimator_")

# Returns the training rows that a member was given, in that order; None where they are not known.
Draw = Callable[[int], "AnyIntArray | None"]


def are_left_out_rows(
    outputs_of: Callable[[NDArray[np.intp]], Iterable[NDArray[Any]]],
    target: NDArray[Any],
    draw: Callable[[int], AnyIntArray],
    n_trained: int,
    n_members: int,
) -> bool:
    """Return whether rows are training rows in any order: members are wrong about out-of-bag rows only.

    Parameters
    ----------
    outputs_of : callable
        Takes positions of rows; returns the outputs for these of each member, one after the other, because those of
        all for many labels may not fit into memory.
    target : ndarray, shape (n_rows,)
        Label codes or values.
    draw : callable
        ``draw(member)`` returns the training rows that a member drew.
    n_trained, n_members : int
    """
    left_out = 1.0 - float(np.unique(draw(0)).size / n_trained)
    if left_out == 0.0:
        return False
    # Among the first few fresh rows there usually is one that too many members are wrong about.
    for most in (FIRST_ROWS, CHECKED_ROWS):
        chosen = spread_rows(target.size, most)
        wrong = np.stack([_are_wrong(own, target[chosen]) for own in outputs_of(chosen)])
        if are_wrong_too_often(wrong, left_out):
            return False
        if chosen.size == target.size:
            break
    return may_be_known(wrong, left_out, n_trained) and match_training_rows(
        wrong, draw_bags(draw, n_members, n_trained)
    )


def _are_wrong(outputs: NDArray[Any], target: NDArray[Any]) -> NDArray[np.bool_]:
    """Return about which rows a member is wrong, by its label codes, probabilities or values."""
    if outputs.dtype.kind == "f" and outputs.ndim == 1:
        # A leaf's mean of equal values is that value but for rounding.
        return np.asarray(np.abs(outputs - target) > ROUNDING * np.abs(target))
    return np.asarray((outputs if outputs.ndim == 1 else outputs.argmax(axis=1)) != target)


def draws_by_leaves(
    trees: Sequence[tuple[Any, Any]], n_labels: int, draw: Callable[[int], AnyIntArray], n_trained: int
) -> LeafDraws:
    """Return how often trees drew training rows, and how many draws of the predicted label the rows' leaves hold.

    Parameters
    ----------
    trees : sequence of (tree, features)
        Fitted classifiers, each with the rows as it takes them, float32.  Their labels are codes from 0 on.
    n_labels : int
    draw, n_trained
        As of :func:`are_left_out_rows`.
    """
    chosen = range(min(len(trees), max(MOST_DRAWS // n_trained, 1)))
    draws = np.stack([_as_limits(np.bincount(draw(member), minlength=n_trained)) for member in chosen])
    leaves = [trees[member][0].apply(trees[member][1], check_input=False) for member in chosen]
    held = [_draws_in_leaves(trees[member][0], n_labels, int(draws[member].sum())) for member in chosen]
    shares = (own / own.sum(axis=1, keepdims=True) for own in held)
    label = np.argmax(sum(own.take(leaf, axis=0) for own, leaf in zip(shares, leaves, strict=True)), axis=1)
    return LeafDraws(
        draws,
        np.stack([_as_limits(own[leaf, label]) for own, leaf in zip(held, leaves, strict=True)]),
        np.stack([_as_limits(own.sum(axis=1)[leaf]) for own, leaf in zip(held, leaves, strict=True)]),
        np.stack(leaves),
    )


def _as_limits(numbers: NDArray[Any]) -> NDArray[np.uint8]:
    return np.asarray(np.minimum(np.rint(numbers), UNLIMITED), dtype=np.uint8)


def _draws_in_leaves(tree: Any, n_labels: int, n_drawn: int) -> NDArray[np.float64]:
    """Return how many draws of each label each node holds, shape (n_nodes, n_labels); any number if rows had weights.

    Weights change how much a draw counts: where they were given, a label is held, or it is not.
    """
    nodes = tree.tree_
    held = np.zeros((nodes.node_count, n_labels))
    held[:, np.asarray(tree.classes_, dtype=np.intp)] = nodes.value[:, 0, :]
    # Releases before 1.3 store the weights of labels, later ones their shares.
    held *= (nodes.weighted_n_node_samples / held.sum(axis=1))[:, None]
    is_counted = abs(nodes.weighted_n_node_samples[0] - n_drawn) <= ROUNDING * n_drawn
    return held if is_counted else np.where(held > 0.0, float(UNLIMITED), 0.0)


def compare_node_values(trees: Sequence[tuple[Any, Any]]) -> tuple[bool, bool]:
    """Return whether more thresholds are midpoints of rows' values at their nodes than chance explains, and may be.

    They may be where enough nodes that were split in the best way compare columns of distinct values.

    Parameters
    ----------
    trees : sequence of (tree, features)
        Fitted trees, each with the rows as it takes them, float32.
    """
    counts: dict[tuple[int, int], list[int]] = {}
    columns: dict[tuple[int, int], tuple[NDArray[np.float32], float]] = {}
    for tree, features in [own for own in trees if own[0].splitter == "best"]:
        nodes, reached = tree.tree_, {0: np.arange(features.shape[0])}
        # Nodes have larger numbers than their parents.
        for node in np.flatnonzero(nodes.children_left != -1)[:CHECKED_NODES]:
            column = int(nodes.feature[node])
            key = id(features), column
            if key not in columns:
                columns[key] = _column_and_chance(features, column)
            values, chance = columns[key]
            rows, threshold = reached.pop(int(node)), nodes.threshold[node]
            own_values = values[rows]
            goes_left = (own_values <= threshold) | (np.isnan(own_values) & bool(nodes.missing_go_to_left[node]))
            reached[int(nodes.children_left[node])] = rows[goes_left]
            reached[int(nodes.children_right[node])] = rows[~goes_left]
            if chance > MOST_SHARED:
                continue
            own = counts.setdefault(key, [0, 0])
            own[0] += 1
            own[1] += _is_midpoint(own_values, threshold)
    found = [(tested, matched, columns[key][1]) for key, (tested, matched) in counts.items()]
    return are_too_many(found, trees[0][1].shape[0]), sum(tested for tested, _, _ in found) >= ENOUGH


def _column_and_chance(features: Any, column: int) -> tuple[NDArray[np.float32], float]:
    values = column_of(features, column)
    assert values is not None
    return values.astype(np.float32), chance_of_value(values[np.isfinite(values)].astype(np.float32))


def _is_midpoint(values: NDArray[np.float32], threshold: np.float64) -> bool:
    """Return whether a threshold is half-way between the nearest values below and above it."""
    below, above = values[values <= threshold], values[values > threshold]
    return bool(below.size and above.size and (float(below.max()) + float(above.min())) / 2.0 == threshold)


def tree_splits(
    trees: Sequence[Any], columns: Sequence[AnyIntArray | None] | None = None
) -> Iterator[tuple[int, FloatArray]]:
    """Yield each column that trees split, with the thresholds of some of the trees."""
    parts = []
    for member in range(0, len(trees), max(len(trees) // COMPARED_TREES, 1)):
        nodes, own = trees[member].tree_, None if columns is None else columns[member]
        is_split = nodes.children_left >= 0
        feature = nodes.feature[is_split]
        parts.append((feature if own is None else own.take(feature), nodes.threshold[is_split]))
    column, threshold = (np.concatenate(own) for own in zip(*parts, strict=True))
    return splits_by_column(column, threshold)


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
    tables: Sequence[tuple[AnyIntArray, AnyIntArray, bool]] = ()
    are_of_all: bool = False

    @cached_property
    def _node_values(self) -> tuple[bool, bool]:
        return compare_node_values(self.trees) if self.trees else (False, False)

    def are_given(self) -> bool:
        """Return whether more of the training rows are among the given ones than chance explains."""
        return self._node_values[0] or any(
            are_records_of(kept, given) or (is_by_row and are_records_of(given, kept))
            for given, kept, is_by_row in self.tables
        )

    def would_show(self) -> bool:
        """Return whether the given rows would be recognised if they were training rows."""
        return self._node_values[1] or any(
            would_be_records_of(kept.size, given) or (self.are_of_all and would_be_records_of(given.size, kept))
            for given, kept, _ in self.tables
        )


def known_rows(
    members: Sequence[tuple[Any, Any]], target: NDArray[Any] | None, classes: NDArray[Any] | None, draw: Draw
) -> KnownRows:
    """Return what some of the members store of their training rows, beside given rows; without target, splits alone."""
    checked = range(0, len(members), max(len(members) // CHECKED_TREES, 1))[:CHECKED_TREES]
    trees = [
        (model, table.astype(np.float32))
        for model, rows in (members[index] for index in checked)
        if isinstance(model, BaseDecisionTree) and (table := _table(model, rows)) is not None
    ]
    if target is None:
        return KnownRows(trees)
    found = (_stored(index, *members[index], draw(index), target, classes) for index in checked)
    stored = [own for own in found if own is not None]
    are_of_all = len({own.space for own in stored}) == 1 and all(own.drawn is not None for own in stored)
    groups = [stored] if are_of_all else [[own] for own in stored]
    return KnownRows(trees, [table for group in groups for table in _tables(group)], are_of_all)


@dataclass(frozen=True, eq=False)
class _StoredRows:
    """The rows that a model stores, and the given rows as it takes them.

    Attributes
    ----------
    pairs : list of (given, kept)
        Their features, and where the model stores it, features and target.
    drawn : ndarray of int, shape (n_kept,), or None
        Places of the stored rows among the training rows, where they are known.
    space : int
        A number that is equal for models that are given the same values of a row.
    """

    pairs: list[tuple[FloatArray, FloatArray]]
    drawn: AnyIntArray | None
    space: int


def _tables(group: Sequence[_StoredRows]) -> Iterator[tuple[AnyIntArray, AnyIntArray, bool]]:
    """Yield the tables of :class:`KnownRows`, of the rows that the models of a group store together."""
    drawn = [own.drawn for own in group if own.drawn is not None]
    for pairs in zip(*(own.pairs for own in group), strict=False):
        values = np.concatenate([kept for _, kept in pairs])
        step = np.std(values, axis=0) / STEPS
        given, kept = _as_records(pairs[0][0], step), _as_records(values, step)
        by_row = _of_each_row(kept, np.concatenate(drawn)) if len(drawn) == len(group) else None
        kept = np.unique(kept) if by_row is None else by_row
        number = np.unique(np.concatenate([given, kept]), return_inverse=True)[1].reshape(-1)
        yield number[: given.size], number[given.size :], by_row is not None


def _stored(
    member: int, model: Any, rows: Any, drawn: AnyIntArray | None, target: NDArray[Any], classes: NDArray[Any] | None
) -> _StoredRows | None:
    """Return the rows that a model stores; None where it stores none as a table of numbers."""
    inner, given = call_model(partial(_innermost, model), rows, member)
    kept = next((_numbers(own) for name in _KEPT if (own := getattr(inner, name, None)) is not None), None)
    if kept is None or kept.ndim != 2 or given.shape[1:] != kept.shape[1:] or (table := _numbers(given)) is None:
        return None
    pairs, kept_target = [(table, kept)], _kept_target(inner, len(kept), classes)
    if kept_target is not None:
        pairs.append((np.column_stack([table, target]), np.column_stack([kept, kept_target])))
    is_known = drawn is not None and drawn.size == len(kept)
    return _StoredRows(pairs, drawn if is_known else None, id(rows) if given is rows else id(model))


def _of_each_row(kept: NDArray[np.void], drawn: AnyIntArray) -> NDArray[np.void] | None:
    """Return the record of each row that was drawn, once; None where one row has several records."""
    _, first, which = np.unique(drawn, return_index=True, return_inverse=True)
    records = kept[first]
    return records if np.array_equal(records[which], kept) else None


def _innermost(model: Any, rows: Any) -> tuple[Any, Any]:
    """Return the model inside of pipelines, searches and the like, and rows as it takes them."""
    if isinstance(model, Pipeline):
        for _, step in model.steps[:-1]:
            rows = step.transform(rows) if hasattr(step, "transform") else rows
        return _innermost(model.steps[-1][1], rows)
    inner = next((own for name in _INNER if (own := getattr(model, name, None)) is not None), None)
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
    """Yield, for every tree, which cells held a training row, and the number of given rows in each cell."""
    # A cell is a leaf, or one label in a leaf.
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


def _as_records(table: FloatArray, step: FloatArray) -> NDArray[np.void]:
    """Return the rows of a table as one value each, rounded to float32 and to some step in each column."""
    with np.errstate(over="ignore", invalid="ignore"):
        rows = np.round(table.astype(np.float32) / np.where(step > 0, step, 1.0))
    # Adding zero makes negative zeros positive.
    rows = np.ascontiguousarray(rows + 0.0)
    return rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1])))[:, 0]
