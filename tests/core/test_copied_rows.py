"""Rows that are equal more often than their values explain: chance repeats are let pass, and copies found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import poisson

from ens_plugin.core.alike_rows import column_halves, copied_rows, hidden_share, numbered

Array = NDArray[Any]


def codes(values: Array) -> NDArray[np.uint64]:
    """Return a number for each row, equal for equal rows, as a hash is."""
    code = np.unique(values, axis=0, return_inverse=True)[1].ravel()
    return np.random.default_rng(values.shape).integers(0, 2**63, code.max() + 1)[code].astype(np.uint64)


def found(X: Array, y: Array) -> NDArray[np.bool_]:
    halves = np.stack([codes(X[:, half]) for half in column_halves(X.shape[1])])
    labels = y if y.dtype.kind == "i" else None
    return copied_rows(numbered(codes(np.column_stack([X, y]))), halves, codes(y[:, None]), labels)


@pytest.mark.parametrize("n_values", [1, 3, 30, 300, 10**6])
def test_rows_with_equal_hashes_share_a_number_in_order_of_appearance(n_values: int) -> None:
    hashes = np.random.default_rng(n_values).integers(0, n_values, 500).astype(np.uint64)
    number = numbered(hashes)
    seen: dict[int, int] = {}
    assert number.tolist() == [seen.setdefault(int(value), len(seen)) for value in hashes]


def test_halves_are_complements_of_half_the_columns() -> None:
    halves = column_halves(7)
    assert (halves[::2] ^ halves[1::2]).all()
    assert set(halves[::2].sum(axis=1)) == {3}
    assert np.unique(halves, axis=0).shape[0] > 8


@pytest.mark.parametrize("labelled", [True, False])
def test_a_record_is_compared_with_how_often_its_halves_meet(labelled: bool) -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (120, 4))
    X[:30] = rng.integers(0, 100, (6, 4))[np.arange(30) % 6]
    y = rng.integers(0, 2, 120) if labelled else rng.integers(0, 2, 120).astype(float)
    is_copied = []
    for row in range(120):
        same = (X[row] == X).all(axis=1) & (y == y[row])
        expected = []
        for half in column_halves(4)[::2]:
            own = y == y[row] if labelled else np.ones(120, dtype=bool)
            first = (X[:, half] == X[row, half]).all(axis=1) & (y == y[row])
            second = (X[:, ~half] == X[row, ~half]).all(axis=1) & own
            expected.append((first.sum() - 1.0) * (second.sum() - 1.0) / own.sum())
        agrees = same.sum() < 5 or same.sum() == (X[row] == X).all(axis=1).sum()
        is_copied.append(same.sum() > 1 and agrees and poisson.sf(same.sum() - 1, np.median(expected)) < 1e-3)
    n_cells = np.unique(X[is_copied], axis=0).shape[0]
    np.testing.assert_array_equal(found(X, y), np.array(is_copied) & (n_cells >= 5))


@pytest.mark.parametrize("n_columns", [1, 2, 3, 5, 8, 12])
@pytest.mark.parametrize("seed", range(10))
def test_rows_of_few_values_are_equal_by_chance(n_columns: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (300 + 100 * seed, n_columns))
    y = (rng.random(len(X)) < 0.2 + 0.6 * X[:, 0]).astype(np.int64)
    assert np.mean(found(X, y)) < 0.02


DRAWS: dict[str, Callable[[np.random.Generator], Array]] = {
    "counts": lambda rng: np.column_stack([rng.poisson(2.0, 1000), np.round(rng.normal(40, 12, 1000))]),
    "prices": lambda rng: np.round(rng.lognormal(size=(1000, 2)), 1),
    "half inches": lambda rng: np.round(2.0 * rng.normal(66.0, 4.0, (1000, 1))),
    "mostly zero": lambda rng: np.where(rng.random((1000, 4)) < 0.8, 0, rng.integers(1, 9, (1000, 4))),
    "blank forms": lambda rng: np.where(rng.random((1000, 1)) < 0.3, 0.0, rng.normal(size=(1000, 4))),
    "three blank forms": lambda rng: np.where(
        rng.random((1000, 1)) < 0.3, rng.integers(0, 3, (1000, 1)), rng.normal(size=(1000, 4))
    ),
}


@pytest.mark.parametrize("kind", DRAWS)
def test_ordinary_ties_are_no_copies(kind: str) -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = DRAWS[kind](rng)
        y = (X[:, 0] + X[:, 0].std() * rng.normal(size=1000) > X[:, 0].mean()).astype(np.int64)
        assert np.mean(found(X, y)) < 0.02


@pytest.mark.parametrize("n_columns", [2, 5])
@pytest.mark.parametrize("n_more", [20, 200, 1000])
@pytest.mark.parametrize("kind", ["labels", "values"])
def test_copies_of_real_rows_are_all_found(n_columns: int, n_more: int, kind: str) -> None:
    rng = np.random.default_rng(n_columns)
    X = rng.normal(size=(1000, n_columns))
    y = rng.integers(0, 2, 1000) if kind == "labels" else rng.normal(size=1000)
    rows = rng.permutation(np.append(np.arange(1000), rng.permutation(1000)[:n_more]))
    np.testing.assert_array_equal(found(X[rows], y[rows]), np.bincount(rows)[rows] > 1)


@pytest.mark.parametrize("n_originals", [5, 30, 100])
def test_an_oversampled_label_is_found(n_originals: int) -> None:
    rng = np.random.default_rng(0)
    rare = rng.normal(size=(n_originals, 4))[rng.integers(0, n_originals, 400)]
    X, y = np.append(rng.normal(size=(500, 4)), rare, axis=0), np.repeat([0, 1], [500, 400])
    copied = found(X, y)
    assert copied[500:].mean() > 0.9
    assert not copied[:500].any()


def test_a_share_is_hidden_by_members_that_drew_a_copy() -> None:
    rng = np.random.default_rng(0)
    losses, counted, drew = rng.random((30, 80)), rng.random((30, 80)) < 0.4, rng.random((30, 80)) < 0.6
    copied, labels, weight = np.arange(80) < 40, rng.integers(0, 3, 80), rng.random(80)
    labels[40:][labels[40:] == 2] = 0
    drew[:, :6] = True
    before = after = 0.0
    for row in range(80):
        own = losses[counted[:, row], row].mean()
        fair = losses[counted[:, row] & ~drew[:, row], row]
        if not copied[row]:
            loss = own
        elif fair.size:
            loss = fair.mean()
        else:
            single = [losses[counted[:, i], i].mean() for i in range(40, 80) if labels[i] == labels[row]]
            loss = np.mean(single) if len(single) >= 10 else 1.0
        before, after = before + weight[row] * own, after + weight[row] * loss
    assert hidden_share(losses, counted, drew, copied, labels, weight) == pytest.approx(after / before - 1.0)


def test_all_is_hidden_where_no_loss_is_left() -> None:
    counted = np.ones((4, 20), dtype=bool)
    copied = np.arange(20) < 10
    assert hidden_share(np.zeros((4, 20)), counted, counted, copied, np.zeros(20, dtype=int), np.ones(20)) == 0.0
    drew = np.broadcast_to(np.arange(4)[:, None] < 3, (4, 20))
    losses = np.where(drew, 0.0, 1.0) * copied
    assert hidden_share(losses, drew.copy(), drew, copied, None, np.ones(20)) == 0.0
    assert hidden_share(losses, counted, drew, copied, None, np.ones(20)) == pytest.approx(3.0)
