"""What thousands of trees of a library show: the error by size, on the same and on fresh rows, and the sizes needed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

AGREEMENT, EXCESS = 0.99, 0.01
N_GROUPS = 30


class Members(NamedTuple):
    """What each of many trees of one library predicts.

    Attributes
    ----------
    fresh, same : ndarray of float32, shape (n_trees, n_rows, n_labels)
        Votes or probabilities for fresh rows and for the training rows; `same` is None where the bags are unknown.
    out_of_bag : ndarray of bool, shape (n_trees, n_rows), or None
    """

    fresh: Array
    same: Array | None
    out_of_bag: Array | None


class Truth(NamedTuple):
    """Error by size on fresh rows and out of bag on the training rows, and the sizes needed by criterion."""

    fresh: dict[int, float]
    same: dict[int, float] | None
    needed: dict[str, float]


def truth(members: Members, labels: Array, fresh_labels: Array, sizes: tuple[int, ...], seed: int) -> Truth:
    """Return what all trees show, averaged over random ensembles of each size."""
    rng = np.random.default_rng(seed)
    fresh = {size: _fresh_error(members.fresh, fresh_labels, size, rng) for size in sizes}
    same = None
    if members.same is not None and members.out_of_bag is not None:
        same = {size: _same_error(members.same, members.out_of_bag, labels, size, rng) for size in sizes}
    needed = {
        "agreement": size_of_agreement(members.fresh, rng),
        "error": _size_of_error(members.fresh, fresh_labels, rng),
    }
    return Truth(fresh, same, needed)


def _groups(n_trees: int, size: int, rng: np.random.Generator) -> list[Array]:
    """Return about N_GROUPS random ensembles, as many of them disjoint as there can be."""
    in_one_order = max(n_trees // size, 1)
    orders = [rng.permutation(n_trees) for _ in range(max(N_GROUPS // in_one_order, 1))]
    return [order[size * group : size * (group + 1)] for order in orders for group in range(in_one_order)][:N_GROUPS]


def _labels(outputs: Array, group: Array) -> Array:
    return np.asarray(outputs[group].sum(axis=0).argmax(axis=1))


def _fresh_error(outputs: Array, labels: Array, size: int, rng: np.random.Generator) -> float:
    return float(np.mean([np.mean(_labels(outputs, group) != labels) for group in _groups(len(outputs), size, rng)]))


def _same_error(outputs: Array, out_of_bag: Array, labels: Array, size: int, rng: np.random.Generator) -> float:
    """Return the mean error of `size` out-of-bag trees of each row, drawn for each row alone."""
    enough = out_of_bag.sum(axis=0) >= size
    outputs, out_of_bag, labels = outputs[:, enough], out_of_bag[:, enough], labels[enough]
    errors = []
    for _ in range(max(N_GROUPS * 10 // size, 3)):
        keys = np.where(out_of_bag, rng.random(out_of_bag.shape, dtype=np.float32), np.float32(2.0))
        drawn = np.argpartition(keys, size - 1, axis=0)[:size]
        summed = np.take_along_axis(outputs, drawn[:, :, None], axis=0).sum(axis=0)
        errors.append(np.mean(summed.argmax(axis=1) != labels))
    return float(np.mean(errors))


def size_of_agreement(outputs: Array, rng: np.random.Generator) -> float:
    """Return the size whose labels agree with those of infinitely many trees for 99 % of the rows, in the mean.

    The labels of B of the N trees differ from those of all N as those of B' from those of infinitely many, where
    1/B' = 1/B - 1/N.  Where half of the trees do not reach it, the share of other labels is taken to fall on with the
    square root of the size, as that of rows near a tie does.
    """
    n_trees = len(outputs)
    reference = _labels(outputs, np.arange(n_trees))
    sizes = np.unique(np.geomspace(2, n_trees / 2, 25).astype(int))
    agreement = [
        np.mean([np.mean(_labels(outputs, group) == reference) for group in _groups(n_trees, size, rng)])
        for size in sizes
    ]
    rising = np.maximum.accumulate(agreement)
    of_infinity = sizes * n_trees / (n_trees - sizes)
    if rising[-1] < AGREEMENT:
        return float(np.mean((1.0 - rising[-4:]) ** 2 * of_infinity[-4:]) / (1.0 - AGREEMENT) ** 2)
    return float(np.exp(np.interp(AGREEMENT, rising, np.log(of_infinity))))


def _size_of_error(outputs: Array, labels: Array, rng: np.random.Generator) -> float:
    """Return the size whose error is 1 % above that of infinitely many trees, by a line in 1/size."""
    sizes = np.unique(np.geomspace(len(outputs) / 60, len(outputs) / 2, 8).astype(int))
    errors = [_fresh_error(outputs, labels, size, rng) for size in sizes]
    slope, limit = np.polyfit(1.0 / sizes, errors, 1, w=np.sqrt(sizes))
    return float(max(slope / (EXCESS * limit), 1.0))
