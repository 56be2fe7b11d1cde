"""Rows that are equal in ordinary tables of few values are no copies; the same rows copied are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy import sparse
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from ens_plugin.analysis.copies import find_repeats, hash_rows

Table = tuple[NDArray[Any], NDArray[Any]]


def heights(seed: int) -> Table:
    """Half inches, by which the sex is predicted with errors."""
    rng = np.random.default_rng([0, seed])
    sex = rng.integers(0, 2, 1000)
    return np.round(2.0 * rng.normal(66.0 + 5.0 * sex, 2.5))[:, None] / 2.0, sex


def tails(seed: int) -> Table:
    """Millimetres, in which two species overlap little."""
    rng = np.random.default_rng([1, seed])
    species = (rng.random(800) < 0.4).astype(int)
    return np.round(rng.normal(220.0 - 50.0 * species, 16.0))[:, None], species


def wages(seed: int) -> Table:
    """Wages of which half are round, at the prices of one of several years, and so with many digits."""
    rng = np.random.default_rng([2, seed])
    year, exact = rng.integers(0, 2, 4000), rng.lognormal(2.5, 0.5, 4000)
    wage = np.where(rng.random(4000) < 0.5, np.round(exact, 1), np.round(exact, 2))
    return np.column_stack([year, wage * np.array([1.0, 1.0813])[year]]), rng.integers(0, 2, 4000)


def homes(seed: int) -> Table:
    """Homes in counties, whose number, name and two properties follow from each other, with or without a basement."""
    rng = np.random.default_rng([3, seed])
    county = rng.integers(0, 85, 900)
    uranium, name = rng.normal(size=85), rng.permutation(85)
    radon = np.round(np.exp(rng.normal(1.0, 0.8, 900)), 1)
    X = np.column_stack([np.log(radon + 0.1), uranium[county], county, name[county]])
    return X, (rng.random(900) < 0.25).astype(int)


def towns(seed: int) -> Table:
    """One category with a label that follows from it: equal rows, drawn or copied."""
    town = np.random.default_rng([4, seed]).geometric(0.03, 400)
    return town[:, None].astype(float), (town * 7919) % 3


KINDS: list[Callable[[int], Table]] = [heights, tails, wages, homes, towns]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_ordinary_ties_raise_no_doubt(kind: Callable[[int], Table], seed: int) -> None:
    X, y = kind(seed)
    report = ens_plugin.analyze(RandomForestClassifier(40, max_samples=0.5, random_state=seed).fit(X, y), X, y)
    assert report.basis.n_repeated >= 20
    assert "copies" not in [found.code for found in report.findings]


@pytest.mark.parametrize("kind", KINDS)
def test_order_of_the_rows_does_not_matter(kind: Callable[[int], Table]) -> None:
    X, y = kind(0)
    shuffled = np.random.default_rng(0).permutation(y.size)
    found = find_repeats(hash_rows(None, X), y).copied
    np.testing.assert_array_equal(find_repeats(hash_rows(None, X[shuffled]), y[shuffled]).copied, found[shuffled])


@pytest.mark.parametrize("seed", range(3))
def test_the_same_table_in_a_frame_or_of_texts_has_the_same_copies(seed: int) -> None:
    X, y = homes(seed)
    expected = find_repeats(hash_rows(None, X), y).copied
    texts = pd.DataFrame(X, columns=list("abcd")).astype({"c": str, "d": "category"})
    for table in (pd.DataFrame(X), texts, sparse.csr_matrix(X)):
        np.testing.assert_array_equal(find_repeats(hash_rows(None, table), y).copied, expected)


def test_each_row_of_such_a_table_twice_is_doubted() -> None:
    """The columns follow from each other, and so tell that rows are copied."""
    X, y = homes(0)
    order = np.random.default_rng(0).permutation(2 * y.size)
    X, y = np.repeat(X, 2, axis=0)[order], np.repeat(y, 2)[order]
    report = ens_plugin.analyze(RandomForestClassifier(40, random_state=0).fit(X, y), X, y)
    assert [found.code for found in report.findings if found.kind == "doubt"] == ["copies"]
    assert report.findings[0].numbers["rise"] > 0.3
