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
from ens_plugin.analysis.copies import find_repeats, hash_rows, record_hashes, refuse_copies, row_hashes
from ens_plugin.core.alike_rows import column_halves, copied_rows, numbered, point_masses
from ens_plugin.errors import InputError

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


KINDS: list[Callable[[int], Table]] = [heights, tails, wages, homes]


def taken_at_first(X: NDArray[Any], y: NDArray[Any]) -> int:
    """Return how many rows are taken for copies at first sight."""
    records = numbered(record_hashes(row_hashes(X)[0], y))
    return int(np.count_nonzero(copied_rows(records, row_hashes(X, column_halves(X.shape[1])), y)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_ordinary_ties_are_no_copies(kind: Callable[[int], Table], seed: int) -> None:
    X, y = kind(seed)
    assert taken_at_first(X, y) >= 20
    assert np.mean(find_repeats(hash_rows(None, X), y).copied) < 0.01


@pytest.mark.parametrize(("kind", "seed"), [(heights, 138), (tails, 100), (tails, 104), (tails, 139)])
def test_order_of_the_rows_does_not_matter(kind: Callable[[int], Table], seed: int) -> None:
    """Rows that are equally near come in any order."""
    X, y = kind(seed)
    shuffled = np.random.default_rng(seed).permutation(y.size)
    found = find_repeats(hash_rows(None, X), y).copied
    np.testing.assert_array_equal(find_repeats(hash_rows(None, X[shuffled]), y[shuffled]).copied, found[shuffled])


@pytest.mark.parametrize("seed", range(5))
def test_the_same_table_in_a_frame_or_of_texts_has_no_copies(seed: int) -> None:
    X, y = homes(seed)
    texts = pd.DataFrame(X, columns=list("abcd")).astype({"c": str, "d": "category"})
    for table in (pd.DataFrame(X), texts, sparse.csr_matrix(X)):
        assert np.mean(find_repeats(hash_rows(None, table), y).copied) < 0.01


# Not heights: so few values have so many rows of each that copies of all rows do not show.
@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize("seed", range(5))
def test_each_row_of_such_a_table_twice_is_refused(kind: Callable[[int], Table], seed: int) -> None:
    """A wage that ten rows have before they are copied is a point mass, which fresh rows have as often."""
    X, y = kind(seed)
    found = find_repeats(hash_rows(None, np.repeat(X, 2, axis=0)), np.repeat(y, 2))
    of_mass = point_masses(numbered(record_hashes(row_hashes(X)[0], y)), y)
    assert np.mean(of_mass) < 0.02
    np.testing.assert_array_equal(found.copied, np.repeat(~of_mass, 2))
    with pytest.raises(InputError, match=f"{2 * np.count_nonzero(~of_mass)} of {2 * y.size} rows"):
        refuse_copies(found, np.ones(2 * y.size))


@pytest.mark.parametrize("n_columns", [1, 2, 5])
@pytest.mark.parametrize("n_more", [200, 500, 1000])
def test_copies_of_real_rows_are_all_found(n_columns: int, n_more: int) -> None:
    rng = np.random.default_rng(n_columns)
    X, y = rng.normal(size=(1000, n_columns)), rng.integers(0, 2, 1000)
    rows = rng.permutation(np.append(np.arange(1000), rng.permutation(1000)[:n_more]))
    found = find_repeats(hash_rows(None, X[rows]), y[rows])
    assert np.array_equal(found.copied, np.bincount(rows)[rows] > 1)
    assert found.is_sure


def test_rows_drawn_until_the_labels_are_equally_frequent_are_judged_at_first_sight() -> None:
    X, y = tails(0)
    rare = np.flatnonzero(y == 1)
    rng = np.random.default_rng(0)
    rows = rng.permutation(np.append(np.arange(y.size), rng.choice(rare, y.size - 2 * rare.size)))
    found = find_repeats(hash_rows(None, X[rows]), y[rows])
    assert np.count_nonzero(found.copied) == taken_at_first(X[rows], y[rows]) > 0.5 * rows.size
    assert found.is_sure


def towns() -> Table:
    """One category with a label that follows from it: equal rows, drawn or copied."""
    rng = np.random.default_rng(0)
    town = rng.geometric(0.03, 400)
    return town[:, None].astype(float), (town * 7919) % 3


def test_equal_rows_of_one_category_may_be_either_and_the_doubt_says_so() -> None:
    X, y = towns()
    found = find_repeats(hash_rows(None, X), y)
    assert np.mean(found.copied) > 0.9
    assert not found.is_sure
    model = RandomForestClassifier(40, max_samples=0.3, random_state=0).fit(X, y)
    report = ens_plugin.analyze(model, X, y)
    of_one_place, doubt = report.basis.doubts
    assert "seem to belong to one subject (a person, a firm, a place)" in of_one_place
    assert f"{np.count_nonzero(found.copied)} of 400 rows look like copies" in doubt
    assert "the data do not tell which it is. If they are separate cases, the error is right" in doubt
    assert not report.is_actionable
    separate = ens_plugin.analyze(model, X, y, groups=np.arange(400))
    assert (separate.error, separate.basis.doubts) == (report.error, ())


def test_predictions_out_of_bag_warn_of_rows_that_may_be_copies() -> None:
    X, y = towns()
    model = RandomForestClassifier(40, max_samples=0.3, random_state=0).fit(X, y)
    with pytest.warns(ens_plugin.errors.WeakEstimateWarning, match="of 400 rows have the same features"):
        ens_plugin.oob_predictions(model, X, y)


def test_wide_tables_are_judged_at_first_sight() -> None:
    X, y = homes(0)
    wide = np.column_stack([X, np.zeros((y.size, 61))])
    found = find_repeats(hash_rows(None, wide), y)
    assert np.count_nonzero(found.copied) == taken_at_first(wide, y) > 0
