"""Near-copies and interpolated rows are doubted in any order; ordinary tables of many kinds are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_wine,
    make_blobs,
    make_classification,
    make_moons,
    make_swiss_roll,
)
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import ens_plugin
from ens_plugin.analysis.checks import near_copy_doubts

Table = tuple[NDArray[Any], NDArray[Any]]


def subjects(n_subjects: int, n_each: int, n_columns: int = 10, change: float = 0.1, seed: int = 0) -> Table:
    """Rows of subjects whose label is of the subject, in random order."""
    rng = np.random.default_rng(seed)
    subject = rng.permutation(np.repeat(np.arange(n_subjects), n_each))
    X = rng.normal(size=(n_subjects, n_columns))[subject] + change * rng.normal(size=(subject.size, n_columns))
    return X, rng.integers(0, 2, n_subjects)[subject]


def oversampled(n_rows: int, n_columns: int, positives: float, seed: int = 0) -> Table:
    """Rows between two of the rarer label and its five nearest, as SMOTE makes them, in random order."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n_rows) < positives).astype(int)
    X = rng.normal(size=(n_rows, n_columns)) + 0.4 * y[:, None]
    rare = X[y == 1]
    distances = np.square(rare[:, None] - rare).sum(axis=2) + np.diag(np.full(len(rare), np.inf))
    first = rng.integers(0, len(rare), n_rows - 2 * len(rare))
    second = np.argsort(distances, axis=1)[first, rng.integers(0, 5, first.size)]
    made = rare[first] + rng.random((first.size, 1)) * (rare[second] - rare[first])
    order = rng.permutation(n_rows + first.size)
    return np.concatenate([X, made])[order], np.append(y, np.ones(first.size, dtype=int))[order]


@pytest.mark.parametrize("n_each", [2, 3, 5, 25])
def test_rows_of_subjects_are_doubted(n_each: int) -> None:
    (doubt,) = near_copy_doubts(*subjects(1000 // n_each, n_each))
    assert f"(mostly {n_each - 1}) than to all the rest: 0 % of these" in doubt.sentence


def test_the_headline_of_an_analysis_has_the_doubt() -> None:
    X, y = subjects(40, 25)
    model = RandomForestClassifier(40, max_samples=0.1, random_state=0).fit(X, y)
    report = ens_plugin.analyze(model, X, y)
    assert report.error < 0.02
    assert "Name what belongs together with groups=" in report.basis.doubts[0]
    assert not report.is_actionable
    assert "Do not use these figures. Many rows look like a few things" in " ".join(report.summary().split())
    assert ens_plugin.analyze(model, X, y, groups=np.arange(y.size)).basis.doubts == ()
    found = ens_plugin.predict_with_uncertainty(model, X, y, X[:3])
    assert any("Name what belongs together" in warning for warning in found.warnings)


def test_values_of_subjects_are_doubted() -> None:
    X, _ = subjects(60, 10)
    y = np.round(X[:, 0])
    model = RandomForestRegressor(30, random_state=0).fit(X, y)
    assert ens_plugin.analyze(model, X, y).basis.doubts[0].startswith("100 % of the rows lie far closer")


def test_labels_of_rows_and_not_of_subjects_are_let_pass() -> None:
    X, _ = subjects(40, 25)
    assert near_copy_doubts(X, np.random.default_rng(0).integers(0, 2, 1000)) == ()


@pytest.mark.parametrize("n_columns", [3, 6, 20])
@pytest.mark.parametrize(("n_rows", "positives"), [(800, 0.1), (3000, 0.02), (600, 0.3)])
def test_interpolated_rows_are_doubted(n_rows: int, positives: float, n_columns: int) -> None:
    doubts = near_copy_doubts(*oversampled(n_rows, n_columns, positives))
    assert "lie exactly on a line with two of their neighbours" in doubts[-1].sentence


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SMOTE", "BorderlineSMOTE", "SVMSMOTE", "ADASYN"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_of_oversamplers_are_doubted(name: str, dtype: str) -> None:
    library = pytest.importorskip("imblearn.over_sampling", reason="imbalanced-learn is not installed")
    for seed in range(5):
        rng = np.random.default_rng(seed)
        y = (rng.random(800) < 0.1).astype(int)
        X = rng.normal(size=(800, 8)) + 0.4 * y[:, None]
        rows, labels = getattr(library, name)(random_state=seed).fit_resample(X, y)
        order = rng.permutation(labels.size)
        doubts = near_copy_doubts(rows[order].astype(dtype), labels[order])
        assert any("on a line" in doubt.sentence for doubt in doubts)


@pytest.mark.parametrize(
    "change",
    [
        lambda X: pd.DataFrame(X).assign(k=pd.Categorical(np.arange(len(X)) % 3)),
        lambda X: np.where(np.random.default_rng(0).random(X.shape) < 0.02, np.nan, X),
        lambda X: X * 10.0 ** np.arange(X.shape[1]),
        lambda X: X.astype(np.float32),
        lambda X: np.column_stack([X, np.arange(len(X)) % 4, np.full(len(X), 1e300), np.full(len(X), np.inf)]),
    ],
    ids=["frame", "missing", "units", "float32", "other columns"],
)
def test_near_copies_are_found_in_tables_of_any_kind(change: Callable[[Any], Any]) -> None:
    X, y = subjects(100, 10, change=0.02)
    assert len(near_copy_doubts(change(X), y)) == 1


def test_tables_that_cannot_be_compared_are_let_pass() -> None:
    X, y = subjects(100, 10)
    texts = np.array([["a", "b"]] * 1000, dtype=object)
    for table in (sparse.csr_matrix(X), texts, pd.DataFrame(texts), X[:, :1], np.round(X), np.empty((1000, 0))):
        assert near_copy_doubts(table, y) == ()
    assert near_copy_doubts(X[:90], y[:90]) == ()


def ordinary(kind: int, n: int, d: int, seed: int) -> Table:
    """Return a table without copies: real numbers, counts, categories, mixtures of these, curves and clusters."""
    rng = np.random.default_rng([kind, n, d, seed])
    normal, noise = rng.normal(size=(n, d)), rng.normal(size=n)
    category = rng.integers(0, 30, n)
    tables: list[Callable[[], Table]] = [
        lambda: (normal, (normal[:, 0] + noise > 0).astype(int)),
        lambda: (normal**3, normal[:, 0]),
        lambda: (rng.standard_cauchy(size=(n, d)), (noise > 0).astype(int)),
        lambda: (rng.integers(0, 5, (n, d)), category),
        lambda: (rng.integers(0, 2, (n, d)), category % 2),
        lambda: (np.column_stack([rng.integers(0, 3, (n, d)), normal[:, 0], noise]), category % 2),
        lambda: (np.column_stack([rng.random((n, d)) < 0.1, normal[:, 0], noise]), (normal[:, 0] > 0).astype(int)),
        lambda: (np.column_stack([np.eye(30)[category], normal[:, 0], noise]), category % 2),
        lambda: (np.column_stack([category, rng.integers(18, 80, n), noise]), category % 2),
        lambda: (np.round(rng.lognormal(size=(n, d)), 1), noise),
        lambda: (np.round(rng.normal(40, 12, size=(n, d))), (noise > 0).astype(int)),
        lambda: (rng.poisson(20, size=(n, d)), category % 2),
        lambda: (np.where(rng.random((n, d)) < 0.7, 0, rng.exponential(size=(n, d))), (noise > 0).astype(int)),
        lambda: make_classification(n, d + 3, n_informative=3, n_redundant=0, class_sep=2.0, random_state=seed),
        lambda: make_blobs(n, d, centers=5, random_state=seed),
        lambda: (rng.random((n, 1)) + 0.01 * normal, noise),
        lambda: (rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)), noise),
        lambda: (np.sin(10.0 * rng.random((n, 1)) * np.arange(1, d + 1)), noise),
        lambda: make_moons(n, noise=0.05, random_state=seed),
        lambda: make_swiss_roll(n, random_state=seed),
    ]
    return tables[kind]()


@pytest.mark.parametrize("kind", range(20))
def test_ordinary_tables_are_let_pass(kind: int) -> None:
    assert near_copy_doubts(*ordinary(kind, 500, 5, 0)) == ()


@pytest.mark.slow
@pytest.mark.parametrize("kind", range(20))
def test_ordinary_tables_of_any_size_are_let_pass(kind: int) -> None:
    for n in (100, 500, 2000, 20_000):
        for d in (2, 3, 5, 10, 20):
            for seed in range(3):
                assert near_copy_doubts(*ordinary(kind, n, d, seed)) == (), (n, d, seed)


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer, load_digits, load_diabetes])
def test_bundled_data_are_let_pass(load: Callable[..., Any]) -> None:
    assert near_copy_doubts(*load(return_X_y=True)) == ()
