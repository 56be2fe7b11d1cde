"""Rows of subjects and of series are doubted in any order, and independent rows are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import BaggingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import GroupKFold, cross_val_predict

import ens_plugin
from ens_plugin import EnsembleReport
from tests.extras import lightgbm, xgboost

FOUND = "several rows seem to belong to one subject"


def panel(seed: int = 0, n_subjects: int = 120) -> tuple[pd.DataFrame, NDArray[np.float64], NDArray[np.intp]]:
    """Subjects in six years each, in random order, with columns that move slowly, and their effect on the target."""
    rng = np.random.default_rng(seed)
    subject = np.repeat(np.arange(n_subjects), 6)
    year = np.tile(np.arange(2000, 2006), n_subjects)
    level = rng.normal(size=(n_subjects, 3))[subject] + 0.12 * rng.normal(size=(subject.size, 3))
    y = rng.normal(size=n_subjects)[subject] + 0.1 * (year - 2000) + 0.2 * rng.normal(size=subject.size)
    X = pd.DataFrame(level, columns=["size", "wealth", "income"]).assign(year=year)
    order = rng.permutation(subject.size)
    return X.iloc[order].reset_index(drop=True), y[order], subject[order]


def found(report: EnsembleReport) -> bool:
    return any(FOUND in text for text in report.basis.doubts)


def models() -> list[Any]:
    return [
        pytest.param(lambda: RandomForestRegressor(100, random_state=0), id="forest"),
        pytest.param(lambda: BaggingRegressor(n_estimators=100, random_state=0), id="bagging"),
        pytest.param(
            lambda: lightgbm.LGBMRegressor(
                boosting_type="rf", n_estimators=100, bagging_fraction=0.6, bagging_freq=1, min_child_samples=2,
                num_leaves=200, random_state=0, verbose=-1,
            ),
            id="lightgbm",
        ),
        pytest.param(
            lambda: xgboost.XGBRFRegressor(n_estimators=100, subsample=0.6, max_depth=12, random_state=0),
            id="xgboost",
        ),
    ]  # fmt: skip


@pytest.mark.fast_cases("forest")
@pytest.mark.parametrize("model", models())
def test_a_shuffled_panel_is_doubted_and_the_remedy_is_right(model: Any) -> None:
    X, y, subject = panel()
    ensemble = model().fit(X, y)
    report = ens_plugin.analyze(ensemble, X, y)
    assert found(report)
    assert "'year'" in report.basis.doubts[-1]
    assert not report.is_actionable
    assert not found(ens_plugin.analyze(ensemble, X, y, groups=np.arange(y.size)))
    others = cross_val_predict(model(), X, y, groups=subject, cv=GroupKFold(5))
    assert np.mean((others - y) ** 2) > report.error_interval[1]


def test_a_shuffled_series_is_doubted_with_and_without_its_dates() -> None:
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.normal(size=(500, 5)), axis=0)
    order = rng.permutation(500)
    frame, y = pd.DataFrame(walk[order]), walk.sum(axis=1)[order]
    for X in (frame, frame[[0]].assign(day=order)):
        X.columns = X.columns.astype(str)
        assert found(ens_plugin.analyze(RandomForestRegressor(100, random_state=0).fit(X, y), X, y))


@pytest.mark.parametrize("load", [load_breast_cancer, load_wine, load_diabetes])
@pytest.mark.parametrize("shuffles", [False, True], ids=["file order", "random order"])
def test_independent_rows_are_not_doubted(load: Any, shuffles: bool) -> None:
    X, y = load(return_X_y=True)
    order = np.random.default_rng(0).permutation(y.size) if shuffles else np.arange(y.size)
    X, y = X[order], y[order]
    kind = RandomForestRegressor if load is load_diabetes else RandomForestClassifier
    assert ens_plugin.analyze(kind(100, random_state=0).fit(X, y), X, y).basis.doubts == ()


def patients(seed: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two visits of each patient, between which one of eleven columns changes."""
    rng = np.random.default_rng(seed)
    patient = rng.permutation(np.repeat(np.arange(250), 2))
    X = rng.normal(size=(250, 11))[patient]
    X[:, 10] = rng.normal(size=500)
    return X, X[:, 0] + rng.normal(size=250)[patient] + 0.3 * rng.normal(size=500)


@pytest.mark.parametrize("n_labels", [0, 2])
def test_visits_that_differ_in_one_column_are_doubted(n_labels: int) -> None:
    X, y = patients(0)
    model: Any = RandomForestRegressor(100, random_state=0)
    if n_labels:
        y, model = (y > 0).astype(np.int64), RandomForestClassifier(100, random_state=0)
    assert found(ens_plugin.analyze(model.fit(X, y), X, y))


@pytest.mark.fast_cases("values-0.1-1", "values-0.2-4", "labels-0.1-1", "labels-0.3-1")
@pytest.mark.parametrize(("change", "n_copies"), [(0.1, 1), (0.1, 4), (0.2, 1), (0.2, 2), (0.2, 4), (0.3, 1)])
@pytest.mark.parametrize("load", [load_diabetes, load_wine], ids=["values", "labels"])
def test_rows_that_were_augmented_by_noise_are_doubted(load: Any, change: float, n_copies: int) -> None:
    X, y = load(return_X_y=True)
    rng = np.random.default_rng(0)
    X = np.concatenate([X, *(X + change * X.std(axis=0) * rng.normal(size=X.shape) for _ in range(n_copies))])
    y, order = np.tile(y, n_copies + 1), rng.permutation(len(X))
    kind = RandomForestRegressor if load is load_diabetes else RandomForestClassifier
    assert found(ens_plugin.analyze(kind(100, random_state=0).fit(X[order], y[order]), X[order], y[order]))


@pytest.mark.fast_cases("800-0.1-3", "600-0.3-6", "800-0.1-20")
@pytest.mark.parametrize("n_columns", [3, 6, 20])
@pytest.mark.parametrize(("n_rows", "positives"), [(800, 0.1), (3000, 0.02), (600, 0.3)])
def test_interpolated_rows_are_doubted(n_rows: int, positives: float, n_columns: int) -> None:
    """Rows between two of the rarer label and its five nearest, as SMOTE makes them, in random order."""
    rng = np.random.default_rng(0)
    y = (rng.random(n_rows) < positives).astype(int)
    X = rng.normal(size=(n_rows, n_columns)) + 0.4 * y[:, None]
    rare = X[y == 1]
    distances = np.square(rare[:, None] - rare).sum(axis=2) + np.diag(np.full(len(rare), np.inf))
    first = rng.integers(0, len(rare), n_rows - 2 * len(rare))
    second = np.argsort(distances, axis=1)[first, rng.integers(0, 5, first.size)]
    made = rare[first] + rng.random((first.size, 1)) * (rare[second] - rare[first])
    order = rng.permutation(n_rows + first.size)
    X, y = np.concatenate([X, made])[order], np.append(y, np.ones(first.size, dtype=int))[order]
    report = ens_plugin.analyze(RandomForestClassifier(30, random_state=0).fit(X, y), X, y)
    assert any("lie exactly on a line with two of their neighbours" in doubt for doubt in report.basis.doubts)


@pytest.mark.parametrize(
    "change",
    [
        lambda X: pd.DataFrame(X).assign(k=pd.Categorical(np.arange(len(X)) % 3)),
        lambda X: np.where(np.random.default_rng(0).random(X.shape) < 0.02, np.nan, X),
        lambda X: X * 10.0 ** np.arange(X.shape[1]),
        lambda X: X.astype(np.float32),
        lambda X: np.column_stack([X, np.arange(len(X)) % 4, np.full(len(X), 1e30)]),
    ],
    ids=["frame", "missing", "units", "float32", "other columns"],
)
def test_mates_are_found_in_tables_of_any_kind(change: Any) -> None:
    X, y = patients(0)
    X = change(X)
    fitted = X.drop(columns="k") if isinstance(X, pd.DataFrame) else X
    model = RandomForestRegressor(60, random_state=0).fit(fitted, y)
    assert found(ens_plugin.analyze(model, fitted, y))


def test_sparse_rows_are_let_pass() -> None:
    X, y = patients(0)
    rows = sparse.csr_matrix(X)
    assert not found(ens_plugin.analyze(RandomForestRegressor(30, random_state=0).fit(rows, y), rows, y))
