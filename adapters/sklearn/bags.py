"""The bags of scikit-learn's ensembles, drawn again from their seeds and proved by the trees' counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
import sklearn
from numpy.typing import NDArray

from ens_plugin.adapters.contract import DRAWN_TOGETHER, ProofStatistics, draw_bags, merge_sums
from ens_plugin.adapters.members import in_threads
from ens_plugin.adapters.sklearn.training import draws_by_weight
from ens_plugin.adapters.trees import target_ranges
from ens_plugin.adapters.unwrap import IMPURITY_OUTPUTS, JOINT_WEIGHTS
from ens_plugin.core.bags import Bags
from ens_plugin.core.sample import spread_rows
from ens_plugin.core.validation import NEGLIGIBLE, PART_ROWS, SINGLE_ROUNDING, BoolArray, FloatArray, counted
from ens_plugin.errors import BagError, DataMismatchError

Columns: TypeAlias = Sequence[NDArray[np.integer[Any]] | None]

_MEANS = ("squared_error", "friedman_mse", "poisson")
_MEDIAN = "absolute_error"
# The leaves of some rows are compared with the target: of each tree, one in so many of these, and others of the next.
COMPARED_ROWS, ROW_TURNS = 240, 12
# Of so many trees, the first is compared by its first split and the next by its leaves.
TREE_TURNS = 3
# Of a wide table, so many columns are kept as they were read.
MOST_COLUMNS = 256
# From release 1.9 on, weights decide which rows are drawn, and have no effect inside a tree.
_WEIGHTS_ONLY_DRAW = tuple(int(part) for part in sklearn.__version__.split(".")[:2]) >= (1, 9)


def check_growth(
    tree: Any,
    features: Any,
    drawn: NDArray[np.integer[Any]],
    target: NDArray[Any] | None,
    member: int,
    *,
    weights_are_known: bool = _WEIGHTS_ONLY_DRAW,
) -> bool:
    """Raise DataMismatchError unless `tree` can have been grown on the drawn rows and their targets.

    The drawn rows must fall into the leaves as often as the tree counted at training; and every
    leaf's value must be the one that the targets of its rows give.

    Parameters
    ----------
    tree : fitted DecisionTree* or ExtraTree*
    features : float32 array or CSR matrix of shape (n_rows, n_features)
        What the tree's own ``apply`` takes.
    drawn : ndarray of int, shape (n_drawn,)
        Rows the member drew, repeated or not.
    target : ndarray of shape (n_rows,) or None
        Label codes (classification) or values (regression).
    member : int
        Position of the tree, for the message.
    weights_are_known : bool, optional
        Whether rows that were drawn equally often, with the same label, count alike inside the tree.

    Returns
    -------
    bool
        Whether the targets are proved: they give the values of all leaves.
    """
    draws = np.bincount(drawn, minlength=features.shape[0])
    in_bag = np.flatnonzero(draws)
    # All rows of a bag at once are half the size of the table.
    parts = [in_bag[start : start + PART_ROWS] for start in range(0, max(in_bag.size, 1), PART_ROWS)]
    # On arrays, take is three times as fast as an index.
    rows_at = features.take if isinstance(features, np.ndarray) else lambda rows, axis: features[rows]
    sums = [
        growth_sums(tree, rows_at(rows, axis=0), None if target is None else target[rows], draws[rows])
        for rows in parts
    ]
    return judge_growth(tree, merge_sums(sums), member, weights_are_known=weights_are_known)


def leaf_counts(tree: Any, features: Any, target: NDArray[Any] | None) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the numbers of bag rows that a tree counted, by leaf and label, and those of the given rows.

    For a leaf with several labels, the tree's number is 1 for each of these: at least one row had it.  Without target,
    numbers are by leaf alone.

    Parameters
    ----------
    tree : fitted DecisionTree* or ExtraTree*
    features : float32 array or CSR matrix of shape (n_rows, n_features)
    target : ndarray of shape (n_rows,), or None
        Label codes or values.
    """
    nodes, leaves = tree.tree_, tree.tree_.apply(features)
    is_leaf = nodes.children_left == -1
    if target is None or not hasattr(tree, "classes_") or getattr(tree, "monotonic_cst", None) is not None:
        return nodes.n_node_samples[is_leaf], np.bincount(leaves, minlength=nodes.node_count)[is_leaf]
    value = nodes.value[is_leaf, 0, :]
    n_labels = value.shape[1]
    is_pure = (value > 0).sum(axis=1, keepdims=True) == 1
    counted = np.where(value > 0, np.where(is_pure, nodes.n_node_samples[is_leaf, None], 1), 0)
    known = target < n_labels
    found = np.bincount(leaves[known] * n_labels + target[known], minlength=nodes.node_count * n_labels)
    return counted.ravel(), found.reshape(nodes.node_count, n_labels)[is_leaf].ravel()


def growth_sums(
    tree: Any,
    features: Any,
    target: NDArray[Any] | None,
    draws: NDArray[np.integer[Any]],
) -> ProofStatistics:
    """Return, for each node of a tree, the sums over some rows of its bag that prove its growth."""
    leaves = tree.tree_.apply(features)
    n_nodes = tree.tree_.node_count
    added: dict[str, NDArray[Any]] = {
        "rows": np.bincount(leaves, minlength=n_nodes),
        "draws": np.bincount(leaves, draws, n_nodes),
    }
    if target is None:
        return ProofStatistics(added)
    if hasattr(tree, "classes_"):
        n_labels = tree.tree_.value.shape[2]
        added["by_label"] = np.bincount(leaves * n_labels + target, draws, n_nodes * n_labels)
        return ProofStatistics(added)
    held = tree.tree_.value[:, 0, 0].take(leaves)
    slack = SINGLE_ROUNDING * np.abs(held)
    added["total"] = np.bincount(leaves, draws * target, n_nodes)
    added["size"] = np.bincount(leaves, draws * np.abs(target), n_nodes)
    added["below"] = np.bincount(leaves, draws * (target < held - slack), n_nodes)
    added["above"] = np.bincount(leaves, draws * (target > held + slack), n_nodes)
    return ProofStatistics(added, target_ranges(leaves, target, n_nodes))


def judge_growth(
    tree: Any, sums: ProofStatistics, member: int, *, weights_are_known: bool = _WEIGHTS_ONLY_DRAW
) -> bool:
    """Raise DataMismatchError unless `tree` can have been grown on its bag's rows, whose sums by node are `sums`."""
    nodes, counts = tree.tree_, sums.added["rows"]
    is_leaf = nodes.children_left == -1
    # Rows of weight zero are drawn but not counted (scikit-learn before 1.9), so a count may fall short.
    excess = is_leaf & (nodes.n_node_samples > counts)
    if excess.any():
        raise DataMismatchError(
            f"These are not the rows the model was trained on: in {np.count_nonzero(excess)} of {nodes.n_leaves} "
            f"leaves of tree {member}, X has fewer rows than the tree counted at training. X and y must be the "
            "exact training rows in training order, with the values that the model itself was given; for rows the "
            'model was not trained on pass data="holdout".'
        )
    # Monotonic constraints move the values of leaves.
    if not {"by_label", "total"} & sums.added.keys() or getattr(tree, "monotonic_cst", None) is not None:
        return False
    differing = _differing_leaves(tree, sums, is_leaf)
    if differing is None or (differing.any() and not _are_checkable(tree, sums, is_leaf, weights_are_known)):
        complete = is_leaf & (counts > 0) & (nodes.n_node_samples == counts)
        differing, is_proved = (complete & _is_impossible(nodes.value, sums))[is_leaf], False
    else:
        is_proved = True
    if differing.any():
        n_shown = _n_differing(tree, sums, is_leaf, differing)
        raise DataMismatchError(
            f"y is not the target the model was trained on: {n_shown} of {nodes.n_leaves} leaves of tree "
            f"{member} hold a value that y of the rows in them cannot give. X and y must be the exact training "
            'rows in training order; for rows the model was not trained on pass data="holdout".'
        )
    return is_proved


def _are_checkable(tree: Any, sums: ProofStatistics, is_leaf: BoolArray, weights_are_known: bool) -> bool:
    """Return whether other leaf values prove another target, because no weights of rows can explain them."""
    if _counts_draws(tree.tree_, sums, is_leaf):
        return True
    # Of a single leaf, some weights of the labels explain any shares.
    has_labels = hasattr(tree, "classes_") and not getattr(tree, JOINT_WEIGHTS, False)
    return weights_are_known and has_labels and tree.tree_.n_leaves > 1


def _counts_draws(nodes: Any, sums: ProofStatistics, is_leaf: BoolArray) -> bool:
    """Return whether every draw of a row has weight 1 inside the tree."""
    gap = np.abs(nodes.weighted_n_node_samples - sums.added["draws"])[is_leaf]
    return bool((gap <= SINGLE_ROUNDING * sums.added["draws"][is_leaf]).all())


def _differing_leaves(tree: Any, sums: ProofStatistics, is_leaf: BoolArray) -> BoolArray | None:
    """Return which leaves have other values than the targets give, (n_leaves,); None for an unknown criterion."""
    nodes, draws = tree.tree_, sums.added["draws"][is_leaf]
    value = nodes.value[is_leaf, 0, :]
    if "by_label" in sums.added:
        drawn = sums.added["by_label"].reshape(nodes.node_count, -1)[is_leaf]
        return _has_other_shares(nodes.weighted_n_node_samples[is_leaf, None] * value, drawn)
    if tree.criterion in _MEANS:
        size = sums.added["size"]
        gap = np.abs(value[:, 0] * draws - sums.added["total"][is_leaf])
        return np.asarray(gap > SINGLE_ROUNDING * size[is_leaf] + NEGLIGIBLE * size.sum())
    if tree.criterion == _MEDIAN:
        half = draws / 2 + SINGLE_ROUNDING
        return np.asarray((sums.added["below"][is_leaf] > half) | (sums.added["above"][is_leaf] > half))
    return None


def _n_differing(tree: Any, sums: ProofStatistics, is_leaf: BoolArray, differing: BoolArray) -> int:
    """Return how many leaves differ, for a message.

    One changed label changes the factor of its label, and with it every leaf that has the label.  Where each draw has
    weight 1, the factors are known to be 1.
    """
    nodes = tree.tree_
    if "by_label" in sums.added and _counts_draws(nodes, sums, is_leaf):
        weight = nodes.weighted_n_node_samples[is_leaf, None] * nodes.value[is_leaf, 0, :]
        drawn = sums.added["by_label"].reshape(nodes.node_count, -1)[is_leaf]
        differing = (
            np.abs(weight - drawn) > SINGLE_ROUNDING * np.maximum(weight, drawn).sum(axis=1, keepdims=True)
        ).any(axis=1)
    return int(np.count_nonzero(differing))


def _has_other_shares(weight: FloatArray, drawn: FloatArray) -> BoolArray:
    """Return which leaves have weights by label that are not the draws of the label times a factor of the label."""
    n_leaves, n_labels = weight.shape
    # Most leaves have few of many labels.
    cell = np.flatnonzero((weight != 0) | (drawn != 0))
    leaf, label = np.divmod(cell, n_labels)
    weight, drawn = weight.take(cell), drawn.take(cell)
    factor = np.bincount(label, weight, n_labels) / np.maximum(np.bincount(label, drawn, n_labels), 1.0)
    expected = drawn if n_leaves == 1 else factor[label] * drawn
    slack = SINGLE_ROUNDING * np.maximum(np.bincount(leaf, weight, n_leaves)[leaf], expected)
    return np.bincount(leaf, np.abs(weight - expected) > slack, n_leaves) > 0


def _is_impossible(value: FloatArray, sums: ProofStatistics) -> BoolArray:
    """Return which nodes store a value that is not a mean of their rows' targets, whatever the weights of the rows."""
    if "by_label" in sums.added:
        drawn = sums.added["by_label"].reshape(value.shape[0], -1)
        return np.asarray(((drawn > 0) & (value[:, 0, :] == 0)).any(axis=1))
    lowest, highest = sums.least["lowest"], -sums.least["highest"]
    largest = np.maximum(np.abs(lowest), np.abs(highest))
    slack = SINGLE_ROUNDING * np.where(np.isfinite(largest), largest, 0.0)
    return np.asarray((value[:, 0, 0] < lowest - slack) | (value[:, 0, 0] > highest + slack))


class BagCounts:
    """Numbers of the rows of each bag that some condition selects, as trees count them."""

    def __init__(self, bags: Bags, rows_of: Callable[[int], NDArray[np.integer[Any]]] | None = None) -> None:
        self.bags, self._rows_of = bags, rows_of

    def of(self, member: int, is_selected: BoolArray | None) -> tuple[int, int]:
        """Return the number of rows of one bag, and of those of them that a mask of all rows selects, if given."""
        if self._rows_of is not None:
            drawn = self._rows_of(member)
            return drawn.size, 0 if is_selected is None else int(np.count_nonzero(is_selected.take(drawn)))
        in_bag = self.bags.member(member)
        size = int(np.count_nonzero(in_bag))
        return size, 0 if is_selected is None else int(np.count_nonzero(in_bag & is_selected))


def check_growth_of_all(
    trees: Sequence[Any],
    features: Any,
    counts: BagCounts,
    target: NDArray[Any] | None,
    columns: Columns | None = None,
    *,
    weights_are_known: bool,
) -> None:
    """Raise DataMismatchError unless each tree can have been grown on its bag, by checks that read few rows or nodes.

    Of every third tree, the first split is checked as by :func:`check_first_splits`.  In the trees that follow these,
    the leaves that some rows of the bag reach must hold what a leaf with the targets of these rows can hold.  Both
    checks of all trees would take more than 2 % of the time of an analysis.
    """
    check_first_splits(trees, features, counts, columns, step=1 if target is None else TREE_TURNS)
    members = range(1, len(trees), TREE_TURNS)
    if target is None or not members:
        return
    chosen = spread_rows(features.shape[0], COMPARED_ROWS)
    some, in_bag = features[chosen], counts.bags.at(chosen)

    def is_of_other_target(member: int) -> bool:
        is_in_turn = (member // TREE_TURNS + np.arange(chosen.size)) % ROW_TURNS == 0
        rows = np.flatnonzero(in_bag[member] & is_in_turn)
        if not rows.size:
            return False
        own = some[rows] if columns is None or columns[member] is None else some[rows][:, columns[member]]
        # The estimator's own apply takes three times as long, to check what has been checked.
        leaves = trees[member].tree_.apply(own)
        return _holds_other_target(trees[member], leaves, target[chosen[rows]], weights_are_known) and (
            # Before scikit-learn 1.9, rows of weight zero were drawn and had no effect on a tree.
            weights_are_known or trees[member].tree_.n_node_samples[0] == counts.of(member, None)[0]
        )

    _refuse_other_trees(
        {member: is_of_other_target(member) for member in members},
        "y is not the target the model was trained on",
        "leaves hold what y of their rows cannot give",
    )


def first_splits(
    trees: Sequence[Any], features: Any, counts: BagCounts, columns: Columns | None = None, *, step: int = 1
) -> NDArray[np.int64]:
    """Return the numbers of rows of trees' bags, and of those that go to the left of the first split."""
    column_at = _reader(features)
    found = [
        _first_split(trees[member], member, counts, column_at, None if columns is None else columns[member])
        for member in range(0, len(trees), step)
    ]
    return np.array(found, dtype=np.int64)


def judge_first_splits(trees: Sequence[Any], found: NDArray[np.int64], *, step: int = 1) -> None:
    """Raise DataMismatchError unless the :func:`first_splits` of all rows are those of the training."""
    _refuse_other_trees(
        {step * place: _has_other_split(trees[step * place], *sizes) for place, sizes in enumerate(found.tolist())},
        "These are not the rows the model was trained on",
        "the first split counted other rows at training",
    )


def check_first_splits(
    trees: Sequence[Any], features: Any, counts: BagCounts, columns: Columns | None = None, *, step: int = 1
) -> None:
    """Raise DataMismatchError unless the rows of each tree's bag fall on the two sides of its first split as they did.

    So trees are found that were grown on other rows than the rest, as after ``estimators_ +=`` or a warm start on other
    rows.  As many rows of another bag fall on each side by chance in 1 / (2 sqrt(pi m p (1 - p))) of the trees at most,
    m the rows of a bag, of which a share p falls to the left.
    """
    judge_first_splits(trees, first_splits(trees, features, counts, columns, step=step), step=step)


def _first_split(
    tree: Any,
    member: int,
    counts: BagCounts,
    column_at: Callable[[int], NDArray[Any]],
    columns: NDArray[np.integer[Any]] | None,
) -> tuple[int, int]:
    """Return the number of rows of a tree's bag, and of those that go to the left of its first split."""
    nodes = tree.tree_
    column = nodes.feature[0]
    if column < 0:
        return counts.of(member, None)
    return counts.of(member, _go_left(nodes, column_at(int(column if columns is None else columns[column]))))


def _has_other_split(tree: Any, size: int, n_left: int) -> bool:
    """Return whether a tree counted more rows than its bag has, in all or on a side of its first split."""
    nodes = tree.tree_
    counted, left = nodes.n_node_samples, nodes.children_left[0]
    if left == -1:
        return bool(counted[0] > size)
    return bool(counted[left] > n_left or counted[nodes.children_right[0]] > size - n_left)


def _reader(features: Any) -> Callable[[int], NDArray[Any]]:
    """Return a function that reads columns of an array or sparse matrix, each once."""
    table = features if isinstance(features, np.ndarray) else features.tocsc()

    @lru_cache(MOST_COLUMNS)
    def column_at(column: int) -> NDArray[Any]:
        values = table[:, [column]]
        return np.ascontiguousarray(values if isinstance(values, np.ndarray) else values.toarray())[:, 0]

    return column_at


def _go_left(nodes: Any, values: NDArray[Any]) -> BoolArray:
    """Return which values go to the left of a tree's first split."""
    # The largest threshold of the values' own type that is not above the tree's, so that no value is converted.
    threshold = values.dtype.type(nodes.threshold[0])
    if threshold > nodes.threshold[0]:
        threshold = np.nextafter(threshold, -np.inf, dtype=values.dtype)
    is_left: BoolArray = values <= threshold
    return is_left | np.isnan(values) if nodes.missing_go_to_left[0] else is_left


def _holds_other_target(
    tree: Any, leaves: NDArray[np.integer[Any]], target: NDArray[Any], weights_are_known: bool
) -> bool:
    """Return whether the leaves of rows of a tree's bag hold what no leaf with the rows' targets can hold."""
    nodes = tree.tree_
    # Monotonic constraints move the values of leaves.
    if getattr(tree, "monotonic_cst", None) is not None:
        return False
    if hasattr(tree, "classes_"):
        own, label = tree.classes_, target
        if own[-1] != own.size - 1:  # trained without rows of some label
            label = np.searchsorted(own, target)
            if not np.array_equal(own.take(label, mode="clip"), target):
                return True
        return bool((nodes.value[leaves, 0, label] == 0).any())
    gap = np.abs(nodes.value[leaves, 0, 0] - target)
    is_single = nodes.n_node_samples[leaves] == 1
    if (gap > SINGLE_ROUNDING * np.abs(target))[is_single].any():
        return True
    if not weights_are_known:
        return False
    # No value is further from the mean of a leaf than if it had all of the leaf's squared or absolute deviation.
    total = nodes.weighted_n_node_samples[leaves] * getattr(tree, IMPURITY_OUTPUTS, 1)
    if tree.criterion in ("squared_error", "friedman_mse"):
        largest = np.sqrt(total * np.maximum(nodes.impurity[leaves], 0.0))
    elif tree.criterion == _MEDIAN:
        largest = total * nodes.impurity[leaves]
    else:
        return False
    scale = np.abs(target).max(initial=0.0)
    return bool((gap > largest * (1.0 + SINGLE_ROUNDING) + SINGLE_ROUNDING * scale * np.sqrt(total)).any())


def _refuse_other_trees(are_other: Mapping[int, bool], finding: str, reason: str) -> None:
    """Raise DataMismatchError if some of the trees that were compared, by position, are of other rows or targets."""
    others = [member for member, is_other in are_other.items() if is_other]
    if not others:
        return
    raise DataMismatchError(
        f"{finding}, or not those of all its trees: in {len(others)} of {len(are_other)} trees that were compared, "
        f"tree {others[0]} the first, {reason}. X and y must be the exact training rows in training order. Trees "
        "that were added on other rows, by estimators_ += or by a warm start, have bags of rows that are not kept: "
        'refit all trees on one table, or pass data="holdout" with rows that no tree was trained on.'
    )


def drawn_numbers(model: Any) -> NDArray[np.float64] | None:
    """Return how many rows each tree drew, counting repeats, shape (n_trees,); None where the trees do not show it."""
    trees = model.estimators_
    # Weights of labels inside a tree are those of its own rows.
    if not draws_by_weight(model) or any(getattr(tree, "class_weight", None) is not None for tree in trees):
        return None
    return np.array([tree.tree_.weighted_n_node_samples[0] for tree in trees])


def refuse_other_numbers(model: Any, n_drawn: NDArray[np.float64] | None, n_draws: int) -> None:
    """Raise BagError if some trees drew another number of rows than the seeds of the ensemble give now."""
    if n_drawn is None:
        return
    is_other = np.abs(n_drawn - n_draws) > SINGLE_ROUNDING * n_draws
    if not is_other.any():
        return
    first = int(np.flatnonzero(is_other)[0])
    raise BagError(
        f"{np.count_nonzero(is_other)} of {counted(n_drawn.size, 'tree')} of this {type(model).__name__} drew another "
        f"number of rows than {n_draws}, which its last fit drew for each tree: tree {first} drew "
        f"{n_drawn[first]:.0f}. So trees were added with warm_start after max_samples, bootstrap or the "
        "number of rows had changed, and the bags of the earlier trees are not kept. Refit all trees in one call of "
        'fit, or pass data="holdout" with rows the model was not trained on.'
    )


MOST_ROWS = 2**31
# Words of the generator that are read together, and how many more than are likely to be needed.
WORDS_TOGETHER, SPARE, LEAST_SPARE = 65_536, 1.02, 64


def seeded_bags(
    draw: Callable[[int], NDArray[np.integer[Any]]], seeds: Sequence[Any], n_rows: int, compared: Sequence[int]
) -> Bags:
    """Return the bags of all members, each drawn with its seed.

    Where each bag is rows drawn at once by NumPy's ``RandomState(seed).randint``, as those of the members compared are,
    they are drawn from the words of the generator, in less time than the library takes.
    """
    return _bags_of_words(draw, seeds, n_rows, compared) or draw_bags(draw, len(seeds), n_rows)


def _bags_of_words(
    draw: Callable[[int], NDArray[np.integer[Any]]], seeds: Sequence[Any], n_rows: int, compared: Sequence[int]
) -> Bags | None:
    """Return the bags drawn from the generator's words; None where the library draws the rows differently."""
    if n_rows > MOST_ROWS or not all(map(_is_seed, seeds)):
        return None
    sizes: list[int] = []

    def drawn(member: int) -> NDArray[np.integer[Any]]:
        rows = draw(member)
        sizes.append(rows.size)
        return rows

    expected = Bags.from_indices(map(drawn, compared), n_rows)
    if sizes[0] == 0:
        return None
    # Where the library draws differently, those of all members would be drawn in vain.
    if not np.array_equal(
        drawn_bits(np.array([seeds[member] for member in compared]), n_rows, sizes[0]), expected.bits
    ):
        return None
    return Bags(drawn_bits(np.array(seeds, dtype=np.int64), n_rows, sizes[0]), n_rows)


def drawn_bits(seeds: NDArray[np.int64], n_rows: int, n_draws: int) -> NDArray[np.uint8]:
    """Return which rows ``numpy.random.RandomState(seed).randint(0, n_rows, n_draws)`` draws with each seed."""
    bits = np.empty((seeds.size, -(-n_rows // 8)), np.uint8)
    chunks = [slice(start, start + DRAWN_TOGETHER) for start in range(0, seeds.size, DRAWN_TOGETHER)]
    for _ in in_threads(lambda chunk: _draw_chunk(seeds[chunk], n_rows, n_draws, bits[chunk]), chunks):
        pass
    return bits


def _draw_chunk(seeds: NDArray[np.int64], n_rows: int, n_draws: int, bits: NDArray[np.uint8]) -> None:
    """Write the bits of the rows that are drawn with each seed."""
    generator = np.random.RandomState()  # to seed one takes a fiftieth of the time of making one
    for own, seed in zip(bits, seeds.tolist(), strict=True):
        generator.seed(seed)
        own[:] = np.packbits(_drawn_rows(generator, n_rows, n_draws))


def _drawn_rows(generator: np.random.RandomState, n_rows: int, n_draws: int) -> NDArray[np.bool_]:
    """Return which rows are drawn, shape (n_rows,): the lowest bits of words that are the number of a row."""
    mask = np.uint32((1 << (n_rows - 1).bit_length()) - 1)
    marks = np.zeros(int(mask) + 1, np.bool_)
    n_left = n_draws
    while n_left:
        n_words = min(int(n_left * marks.size / n_rows * SPARE) + LEAST_SPARE, WORDS_TOGETHER)
        words = generator.randint(0, 2**32, n_words, dtype=np.uint32)
        words &= mask
        is_row = words < n_rows
        n_found = int(np.count_nonzero(is_row))
        if n_found > n_left:
            words = words[: np.flatnonzero(is_row)[n_left]]
            n_found = n_left
        # What is no row is marked, too, and left out of the result.
        marks[words] = True
        n_left -= n_found
    return marks[:n_rows]


def _is_seed(seed: Any) -> bool:
    return isinstance(seed, Integral) and 0 <= int(seed) < 2**32
