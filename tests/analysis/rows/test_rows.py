"""The rows of a model: some of the training rows, as autolog reads when time is short, and their release."""

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

from ens_plugin import EnsembleReport
from ens_plugin.analysis import AnalysisOptions, run_analysis, sampling_seed
from ens_plugin.analysis.analyze import open_model, tally_model_rows
from ens_plugin.analysis.rows import read_rows, training_bags
from ens_plugin.core.bags import Bags
from ens_plugin.core.sample import sample_keys
from ens_plugin.core.tally import count_members, label_support
from ens_plugin.errors import DataMismatchError
from tests.forests import RowLimit

CANCER = load_breast_cancer(return_X_y=True)
DIGITS = tuple(part[:400] for part in load_digits(return_X_y=True))
DIABETES = load_diabetes(return_X_y=True)


MODELS = {
    "votes": (RandomForestClassifier(40, random_state=0, oob_score=True), CANCER),
    "labels": (RandomForestClassifier(40, random_state=0, oob_score=True), DIGITS),
    "values": (RandomForestRegressor(40, random_state=0), DIABETES),
    "neighbours": (BaggingClassifier(KNeighborsClassifier(), 20, random_state=0, oob_score=True), CANCER),
    "outputs": (RandomForestRegressor(40, random_state=0), (DIABETES[0], np.column_stack([DIABETES[1]] * 2))),
}


def without_date(report: EnsembleReport) -> dict[str, Any]:
    """Everything that a report tells."""
    outputs = {name: replace(own, created="") for name, own in report.outputs.items()}
    return replace(report, created="", outputs=outputs).to_dict()


@pytest.mark.fast_cases("values", "votes")
@pytest.mark.parametrize("kind", ["votes", "labels", "values", "neighbours"])
def test_rows_that_were_read_count_as_if_the_others_had_no_weight(kind: str) -> None:
    model, (X, y) = MODELS[kind]
    model.fit(X, y)
    weight = np.zeros(y.size)
    weight[order_of_reading(y.size)[:128]] = 1.0
    read = run_analysis(model, X, y, AnalysisOptions(), limit=RowLimit(128))
    weighted = run_analysis(model, X, y, AnalysisOptions(sample_weight=weight))
    assert without_date(read) == without_date(weighted)


def order_of_reading(n_rows: int) -> NDArray[np.intp]:
    """The rows by the keys by which they are sampled."""
    seed = sampling_seed(np.random.default_rng(AnalysisOptions.random_state))
    return np.argsort(sample_keys(np.arange(n_rows), seed))


@pytest.mark.fast_cases("values-False", "votes-False")
@pytest.mark.parametrize("has_metric", [False, True])
@pytest.mark.parametrize("kind", list(MODELS))
def test_all_rows_read_in_random_order_give_the_same_report(
    kind: str, has_metric: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, (X, y) = MODELS[kind]
    model.fit(X, y)
    # More rows than are sampled, by which some blocks are added up without their outputs.
    monkeypatch.setattr("ens_plugin.analysis.evidence.SAMPLE_ROWS", 50)
    own = "roc_auc_ovr" if hasattr(model, "classes_") else "r2"
    options = AnalysisOptions(metric=own if has_metric else None)
    read = run_analysis(model, X, y, options, limit=RowLimit(np.inf))
    assert without_date(read) == without_date(run_analysis(model, X, y, options))


def test_other_rows_than_the_training_rows_are_refused_all_the_same() -> None:
    X, y = CANCER
    model = BaggingClassifier(KNeighborsClassifier(), 20, random_state=0, oob_score=True).fit(X, y)
    with pytest.raises(DataMismatchError, match="training rows"):
        run_analysis(model, X[::-1], y[::-1], AnalysisOptions(), limit=RowLimit(128))


def test_bags_are_released_before_the_estimates(monkeypatch: pytest.MonkeyPatch) -> None:
    # They have a bit for each row and member: the largest part of an analysis of many rows.
    found, alive = list[weakref.ref[Bags]](), list[bool]()

    def remember(*arguments: Any) -> Bags:
        bags = training_bags(*arguments)
        found.append(weakref.ref(bags))
        return bags

    def metric(y: NDArray[Any], mean_output: NDArray[np.float64]) -> float:
        alive.append(found[0]() is not None)
        return float(np.abs(y - mean_output).mean())

    forest = RandomForestRegressor(20, random_state=0).fit(*DIABETES)
    monkeypatch.setattr("ens_plugin.analysis.rows.training_bags", remember)
    run_analysis(forest, *DIABETES, AnalysisOptions(metric=metric))
    assert alive
    assert not any(alive)


@pytest.mark.parametrize("min_samples_leaf", [1, 20])
@pytest.mark.parametrize("n_left_out", [0, 300])
def test_sampled_rows_have_the_votes_of_their_members(min_samples_leaf: int, n_left_out: int) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    forest = RandomForestClassifier(30, min_samples_leaf=min_samples_leaf, random_state=0).fit(X, y)
    options = AnalysisOptions(sample_weight=np.arange(y.size) >= n_left_out)
    adapter, inner, settings = open_model(forest, X, y, options)
    _, evidence = tally_model_rows(read_rows(adapter, inner, y, options, None), settings)
    block, rows = evidence.sample.block, evidence.sample.rows
    assert rows.min() == n_left_out
    np.testing.assert_array_equal(block.target, y[rows])
    np.testing.assert_array_equal(block.trials, count_members(block.counted))
    np.testing.assert_allclose(block.support, label_support(block, block.counted), rtol=1e-12)
