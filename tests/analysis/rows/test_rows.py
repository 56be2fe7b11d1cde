"""The rows of a model: some of the training rows, as autolog chooses when time is short, and their release."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.neighbors import KNeighborsClassifier

from ens_plugin import CustomEnsemble, in_bag
from ens_plugin.adapters import EnsembleAdapter
from ens_plugin.analysis import AnalysisOptions, run_analysis
from ens_plugin.core.bags import Bags
from ens_plugin.errors import DataMismatchError

CANCER = load_breast_cancer(return_X_y=True)
DIGITS = tuple(part[:400] for part in load_digits(return_X_y=True))
DIABETES = load_diabetes(return_X_y=True)


def every_third(adapter: EnsembleAdapter, features: Any, bags: Bags) -> NDArray[np.intp]:
    assert bags.n_rows == features.shape[0]
    return np.arange(0, bags.n_rows, 3, dtype=np.intp)


@pytest.mark.fast_cases("values", "votes")
@pytest.mark.parametrize(
    ("model", "rows"),
    [
        (RandomForestClassifier(40, random_state=0, oob_score=True), CANCER),
        (RandomForestClassifier(40, random_state=0, oob_score=True), DIGITS),
        (RandomForestRegressor(40, random_state=0), DIABETES),
        (BaggingClassifier(KNeighborsClassifier(), 20, random_state=0, oob_score=True), CANCER),
    ],
    ids=["votes", "labels", "values", "neighbours"],
)
def test_chosen_rows_count_as_if_the_others_had_no_weight(model: Any, rows: Any) -> None:
    X, y = rows
    model.fit(X, y)
    weight = np.zeros(y.size)
    weight[::3] = 1.0
    chosen = run_analysis(model, X, y, AnalysisOptions(), choose_rows=every_third)
    weighted = run_analysis(model, X, y, AnalysisOptions(sample_weight=weight))
    assert replace(chosen, created="").to_dict() == replace(weighted, created="").to_dict()


@pytest.mark.slow
def test_a_metric_meets_the_labels_of_the_chosen_rows() -> None:
    X, y = CANCER
    forest = RandomForestClassifier(40, max_depth=3, random_state=0).fit(X, y)

    def lost(truth: NDArray[Any], p: NDArray[np.float64]) -> float:
        return float(np.mean((truth - p[:, 1]) ** 2))

    outputs = np.stack([tree.predict_proba(X[::3]) for tree in forest.estimators_])
    rest = CustomEnsemble(outputs, in_bag(forest, X)[:, ::3], aggregation="mean_proba")
    chosen = run_analysis(forest, X, y, AnalysisOptions(metric=lost), choose_rows=every_third)
    expected = run_analysis(rest, None, y[::3], AnalysisOptions(metric=lost))
    np.testing.assert_allclose(chosen.error_curve.error, expected.error_curve.error, rtol=1e-9)


def test_none_means_all_rows() -> None:
    model = RandomForestClassifier(40, random_state=0).fit(*CANCER)
    report = run_analysis(model, *CANCER, AnalysisOptions(), choose_rows=lambda adapter, features, bags: None)
    assert (
        replace(report, created="").to_dict()
        == replace(run_analysis(model, *CANCER, AnalysisOptions()), created="").to_dict()
    )


def test_other_rows_than_the_training_rows_are_refused_all_the_same() -> None:
    X, y = CANCER
    model = BaggingClassifier(KNeighborsClassifier(), 20, random_state=0, oob_score=True).fit(X, y)
    with pytest.raises(DataMismatchError, match="training rows"):
        run_analysis(model, X[::-1], y[::-1], AnalysisOptions(), choose_rows=every_third)


def test_bags_are_released_before_the_estimates() -> None:
    # They have a bit for each row and member: the largest part of an analysis of many rows.
    found, alive = list[weakref.ref[Bags]](), list[bool]()

    def remember(adapter: EnsembleAdapter, features: Any, bags: Bags) -> None:
        found.append(weakref.ref(bags))

    def metric(y: NDArray[Any], mean_output: NDArray[np.float64]) -> float:
        alive.append(found[0]() is not None)
        return float(np.abs(y - mean_output).mean())

    forest = RandomForestRegressor(20, random_state=0).fit(*DIABETES)
    run_analysis(forest, *DIABETES, AnalysisOptions(metric=metric), choose_rows=remember)
    assert alive
    assert not any(alive)
