"""Tables without copies: real, rounded, counted, categorical and mixed columns, curves, planes and clusters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_blobs, make_classification, make_moons, make_swiss_roll

Array = NDArray[Any]
Table = tuple[Array, Array]
Draw = Callable[[np.random.Generator, int, int], Table]


def labels(values: Array) -> Array:
    """Return label 1 where a value is above 0."""
    return np.asarray(values > 0, dtype=np.int64)


def normal(rng: np.random.Generator, n: int, d: int) -> Table:
    X = rng.normal(size=(n, d))
    return X, labels(X[:, 0] + rng.normal(size=n))


def cubes(rng: np.random.Generator, n: int, d: int) -> Table:
    X = rng.normal(size=(n, d))
    return X**3, X[:, 0]


def long_tails(rng: np.random.Generator, n: int, d: int) -> Table:
    return rng.standard_cauchy(size=(n, d)), labels(rng.normal(size=n))


def few_values(rng: np.random.Generator, n: int, d: int) -> Table:
    return rng.integers(0, 5, (n, d)), rng.integers(0, 30, n)


def binary(rng: np.random.Generator, n: int, d: int) -> Table:
    return rng.integers(0, 2, (n, d)), rng.integers(0, 2, n)


def two_real_among_few_values(rng: np.random.Generator, n: int, d: int) -> Table:
    return np.column_stack([rng.integers(0, 3, (n, d)), rng.normal(size=(n, 2))]), rng.integers(0, 2, n)


def two_real_among_rare_ones(rng: np.random.Generator, n: int, d: int) -> Table:
    real = rng.normal(size=(n, 2))
    return np.column_stack([rng.random((n, d)) < 0.1, real]), labels(real[:, 0])


def encoded_categories(rng: np.random.Generator, n: int, d: int) -> Table:
    category = rng.integers(0, 30, n)
    return np.column_stack([np.eye(30)[category], rng.normal(size=(n, 2))]), category % 2


def ages(rng: np.random.Generator, n: int, d: int) -> Table:
    category = rng.integers(0, 30, n)
    return np.column_stack([category, rng.integers(18, 80, n), rng.normal(size=n)]), category % 2


def prices(rng: np.random.Generator, n: int, d: int) -> Table:
    return np.round(rng.lognormal(size=(n, d)), 1), rng.normal(size=n)


def whole_numbers(rng: np.random.Generator, n: int, d: int) -> Table:
    return np.round(rng.normal(40, 12, size=(n, d))), labels(rng.normal(size=n))


def counts(rng: np.random.Generator, n: int, d: int) -> Table:
    return rng.poisson(20, size=(n, d)), rng.integers(0, 2, n)


def mostly_zero(rng: np.random.Generator, n: int, d: int) -> Table:
    return np.where(rng.random((n, d)) < 0.7, 0, rng.exponential(size=(n, d))), labels(rng.normal(size=n))


def clusters_of_labels(rng: np.random.Generator, n: int, d: int) -> Table:
    X, y = make_classification(
        n, d + 3, n_informative=3, n_redundant=0, class_sep=2.0, random_state=int(rng.integers(2**31))
    )
    return X, y


def blobs(rng: np.random.Generator, n: int, d: int) -> Table:
    X, y = make_blobs(n, d, centers=5, random_state=int(rng.integers(2**31)))
    return X, y


def near_a_line(rng: np.random.Generator, n: int, d: int) -> Table:
    return rng.random((n, 1)) + 0.01 * rng.normal(size=(n, d)), rng.normal(size=n)


def on_a_plane(rng: np.random.Generator, n: int, d: int) -> Table:
    return rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)), rng.normal(size=n)


def on_a_curve(rng: np.random.Generator, n: int, d: int) -> Table:
    return np.sin(10.0 * rng.random((n, 1)) * np.arange(1, d + 1)), rng.normal(size=n)


def moons(rng: np.random.Generator, n: int, d: int) -> Table:
    X, y = make_moons(n, noise=0.05, random_state=int(rng.integers(2**31)))
    return X, y


def rolled_plane(rng: np.random.Generator, n: int, d: int) -> Table:
    X, y = make_swiss_roll(n, random_state=int(rng.integers(2**31)))
    return X, y


KINDS: dict[str, Draw] = {
    kind.__name__.replace("_", " "): kind
    for kind in (
        normal, cubes, long_tails, few_values, binary, two_real_among_few_values, two_real_among_rare_ones,
        encoded_categories, ages, prices, whole_numbers, counts, mostly_zero, clusters_of_labels, blobs, near_a_line,
        on_a_plane, on_a_curve, moons, rolled_plane,
    )
}  # fmt: skip


def ordinary_table(kind: str, n_rows: int, n_columns: int, seed: int) -> Table:
    """Draw a table of one kind; a few kinds have columns beside the wanted number, or a number of their own."""
    rng = np.random.default_rng([list(KINDS).index(kind), n_rows, n_columns, seed])
    return KINDS[kind](rng, n_rows, n_columns)
