"""The gate on rows: real forests in a registry, loaded, measured and compared."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import mlflow
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm, ttest_rel
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import roc_auc_score

from ens_plugin import analyze, gate
from ens_plugin.analysis import analyze_rows
from ens_plugin.core.comparison import Difference, share_difference
from ens_plugin.core.judged_rows import JudgedRows
from ens_plugin.errors import DataMismatchError, GateError, ModelLoadError
from ens_plugin.registry.evidence import compare_pairs
from ens_plugin.tracking.digest import DIGEST_TAG, Measurement, Rows, data_digest, measure
from ens_plugin.tracking.models import find_version, load_model, parse_address
from tests.registry.registry import Version, log_linked, stub_artifacts, tags_of
from tests.reports import classification_report
from tests.tracking.stores import MLFLOW_WARNINGS

pytestmark = MLFLOW_WARNINGS

Client = mlflow.MlflowClient

X, Y = load_breast_cancer(return_X_y=True)
TRAIN, TEST = slice(0, 350), slice(350, None)
GROUND, TRUTH = load_diabetes(return_X_y=True)
MODELS: Mapping[str, Any] = {
    "good": RandomForestClassifier(40, random_state=0, oob_score=True).fit(X[TRAIN], Y[TRAIN]),
    "poor": RandomForestClassifier(15, max_depth=1, random_state=1, oob_score=True).fit(X[TRAIN], Y[TRAIN]),
    "narrow": RandomForestClassifier(30, random_state=2).fit(X[TRAIN, :5], Y[TRAIN]),
    "unbagged": ExtraTreesClassifier(30, random_state=3).fit(X[TRAIN], Y[TRAIN]),
    "regression": RandomForestRegressor(30, random_state=0).fit(GROUND[:200], TRUTH[:200]),
    "regression-2": RandomForestRegressor(20, max_depth=3, random_state=0).fit(GROUND[:200], TRUTH[:200]),
}
INCREASE = {
    "baseline": {name: {"max": 0.9} for name in ("error_increase", "error_increase_lower", "error_increase_upper")}
}


@pytest.fixture(autouse=True)
def swift(monkeypatch: pytest.MonkeyPatch) -> None:
    stub_artifacts(monkeypatch)


@pytest.fixture(scope="module")
def registered() -> dict[str, Version]:
    return {}


@pytest.fixture
def versions(embedded: Client, registered: dict[str, Version]) -> Any:
    """The models above by name, each logged and registered when first looked up."""

    class OnDemand(dict[str, Version]):
        def __missing__(self, name: str) -> Version:
            with mlflow.start_run() as run:
                info = mlflow.sklearn.log_model(
                    MODELS[name], name="forest", serialization_format="cloudpickle", pip_requirements=["scikit-learn"],
                    registered_model_name=f"measured-{name}",
                )  # fmt: skip
            found = Version(f"measured-{name}", str(info.registered_model_version), run.info.run_id, info.model_id)
            registered[name] = found
            return found

    return OnDemand(registered)


def increase(decision: Any) -> NDArray[np.float64]:
    return np.array([check.value for check in decision.checks])


def zero_one(probabilities: NDArray[np.float64], target: NDArray[np.int64]) -> NDArray[np.float64]:
    """0-1 error by scikit-learn's own probabilities; a tie, as of 40 votes, counts half."""
    margin = np.round(np.diff(probabilities, axis=1)[:, 0], 12) * (2 * target - 1)
    return np.asarray((1 - np.sign(margin)) / 2)


def with_seeds(pairs: Difference, names: tuple[str, str], X: Any, y: Any, data: str) -> Difference:
    """The interval of paired differences, widened by the luck of both seeds."""
    variance = sum(analyze_rows(MODELS[name], X, y, data=data)[1].seed_variance for name in names)
    assert variance > 0
    ends = [norm.ppf(0.975) * np.sqrt(variance)] * 2
    below, above = np.hypot([pairs.estimate - pairs.lower, pairs.upper - pairs.estimate], ends)
    return Difference(pairs.estimate, pairs.estimate - below, pairs.estimate + above)


def test_held_out_rows_are_compared_in_pairs(versions: Any) -> None:
    decision = gate(versions["poor"].uri, INCREASE, baseline=versions["good"].uri, X=X[TEST], y=Y[TEST], data="holdout")
    wrong = {name: (MODELS[name].predict(X[TEST]) != Y[TEST]).astype(np.float64) for name in ("poor", "good")}
    pairs = share_difference(wrong["poor"], wrong["good"], 0.95)
    expected = with_seeds(pairs, ("poor", "good"), X[TEST], Y[TEST], "holdout")
    np.testing.assert_allclose(increase(decision), expected, rtol=1e-12)
    assert increase(decision)[0] > 0
    assert decision.comparison == "version 1 of measured-good, by paired differences on 219 held-out rows"
    assert decision.data_digest == data_digest(X[TEST], Y[TEST])
    assert decision.report is None


def test_the_metric_of_a_policy_is_measured_and_compared(versions: Any) -> None:
    policy = {"report": {"metric": "roc_auc", "roc_auc": {"min": 0.5}}, "baseline": {"no_worse": True}}
    rows = {"X": X[TEST], "y": Y[TEST], "data": "holdout"}
    decision = gate(versions["poor"].uri, policy, baseline=versions["good"].uri, **rows)
    scores = {name: roc_auc_score(Y[TEST], MODELS[name].predict_proba(X[TEST])[:, 1]) for name in ("good", "poor")}
    assert decision.checks[0].value == pytest.approx(scores["poor"], abs=1e-9)
    assert decision.comparison == "version 1 of measured-good, by roc_auc on the same 219 held-out rows"
    assert gate(versions["good"].uri, policy, baseline=versions["poor"].uri, **rows).passed


@pytest.mark.parametrize("data", ["oob", "holdout"])
def test_rows_with_the_recorded_digest_in_another_reading_are_the_training_rows(
    versions: Any, embedded: Client, data: Any
) -> None:
    version = versions["narrow"]
    trained, target = X[TRAIN, :5], Y[TRAIN]
    embedded.set_logged_model_tags(version.model_id, {DIGEST_TAG: data_digest(trained, target)})
    address = find_version(embedded, parse_address(version.uri))
    rows = Rows(lambda _: (np.nextafter(trained, np.inf), target), data, lambda _: (trained, target))
    if data == "holdout":
        with pytest.raises(DataMismatchError, match="These are the rows"):
            measure(embedded, address, rows, None)
        return
    assert measure(embedded, address, rows, None).digest == data_digest(trained, target)
    with pytest.raises(DataMismatchError, match="These are not the rows"):
        measure(embedded, address, rows._replace(other_source=None), None)


def test_bytes_and_latency_of_a_policy_are_measured_on_the_rows(versions: Any) -> None:
    policy = {"report": {"megabytes": {"max": 1000}, "latency_ms": {"min": 1e-3}}}
    decision = gate(versions["good"].uri, policy, X=X[TEST], y=Y[TEST], data="holdout")
    assert decision.passed
    assert decision.checks[0].value == pytest.approx(1e-6 * len(pickle.dumps(load_model(versions["good"].uri))))


@pytest.mark.slow
def test_squared_errors_are_compared_by_students_interval(versions: Any) -> None:
    rows = GROUND[200:], TRUTH[200:]
    decision = gate(
        versions["regression"].uri,
        INCREASE,
        baseline=versions["regression-2"].uri,
        X=rows[0],
        y=rows[1],
        data="holdout",
    )
    errors = [(MODELS[name].predict(rows[0]) - rows[1]) ** 2 for name in ("regression", "regression-2")]
    theirs = ttest_rel(*errors).confidence_interval(0.95)
    pairs = Difference(float(np.mean(errors[0] - errors[1])), theirs.low, theirs.high)
    expected = with_seeds(pairs, ("regression", "regression-2"), *rows, "holdout")
    np.testing.assert_allclose(increase(decision), expected, rtol=1e-9)


@pytest.mark.slow
def test_training_rows_are_compared_in_pairs_at_the_models_own_sizes(versions: Any) -> None:
    decision = gate(versions["poor"].uri, INCREASE, baseline=versions["good"].uri, X=X[TRAIN], y=Y[TRAIN])
    errors, wrong = {}, {}
    for name in ("poor", "good"):
        errors[name] = analyze(MODELS[name], X[TRAIN], Y[TRAIN]).error
        wrong[name] = zero_one(MODELS[name].oob_decision_function_, Y[TRAIN])
    estimate, lower, upper = increase(decision)
    raw = share_difference(wrong["poor"], wrong["good"], 0.95)
    shift = errors["poor"] - errors["good"] - raw.estimate
    assert estimate == pytest.approx(errors["poor"] - errors["good"], abs=1e-12)
    _, low, high = with_seeds(raw, ("poor", "good"), X[TRAIN], Y[TRAIN], "oob")
    assert (lower, upper) == pytest.approx((low + shift, high + shift), abs=1e-12)
    assert decision.comparison == "version 1 of measured-good, by paired differences on 350 out-of-bag rows"


@pytest.mark.slow
def test_a_baseline_that_cannot_be_scored_is_compared_by_intervals(embedded: Client, versions: Any) -> None:
    narrow = versions["narrow"]
    report = analyze(MODELS["narrow"], X[TRAIN, :5], Y[TRAIN])
    log_linked(embedded, report, narrow.run_id, narrow.model_id)
    decision = gate(versions["good"].uri, INCREASE, baseline=narrow.uri, X=X[TEST], y=Y[TEST], data="holdout")
    ours = analyze(MODELS["good"], X[TEST], Y[TEST], data="holdout")
    expected = [ours.error - report.error, ours.error_interval[0] - report.error_interval[1],
                ours.error_interval[1] - report.error_interval[0]]  # fmt: skip
    np.testing.assert_allclose(increase(decision), expected, rtol=1e-12)
    assert decision.comparison is not None
    assert "by both 95 % data intervals, since " in decision.comparison
    assert "because it cannot be scored on the rows given: " in decision.comparison


def test_a_candidate_that_cannot_be_scored_is_not_judged(embedded: Client, versions: Any) -> None:
    from ens_plugin.errors import BagError

    with pytest.raises(BagError):
        gate(versions["unbagged"].uri, {"report": {"error": {"max": 0.9}}}, X=X[TRAIN], y=Y[TRAIN])
    assert tags_of(embedded, versions["unbagged"]) == {}


@pytest.mark.parametrize("tagged", ["model", "run"])
def test_rows_must_be_what_the_digest_recorded_at_training_says(tagged: str, embedded: Client, versions: Any) -> None:
    name = {"model": "narrow", "run": "regression"}[tagged]
    version, policy = versions[name], {"report": {"error": {"max": {"narrow": 0.9, "regression": 1e9}[name]}}}
    rows, target = {"narrow": (X[TRAIN, :5], Y[TRAIN]), "regression": (GROUND[:200], TRUTH[:200])}[name]

    def record(digest: str) -> None:
        if tagged == "model":
            embedded.set_logged_model_tags(version.model_id, {DIGEST_TAG: digest})
        else:
            embedded.set_tag(version.run_id, DIGEST_TAG, digest)

    before = tags_of(embedded, version)
    record(data_digest(rows[::-1], target[::-1]))
    with pytest.raises(DataMismatchError, match=r"These are not the rows .* recorded at training"):
        gate(version.uri, policy, X=rows, y=target, promote="champion")
    record(data_digest(rows, target))
    with pytest.raises(DataMismatchError, match="These are the rows"):
        gate(version.uri, policy, X=rows, y=target, data="holdout", promote="champion")
    assert tags_of(embedded, version) == before
    assert embedded.get_registered_model(version.name).aliases == {}
    assert gate(version.uri, policy, X=rows, y=target).passed


def test_nothing_is_deserialised_where_mlflows_switch_forbids_it(
    embedded: Client, versions: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = versions["unbagged"]
    monkeypatch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "false")
    with pytest.raises(ModelLoadError, match="MLFLOW_ALLOW_PICKLE_DESERIALIZATION"):
        gate(version.uri, {"report": {"error": {"max": 0.9}}}, X=X[TEST], y=Y[TEST], data="holdout", promote="champion")
    assert tags_of(embedded, version) == {}
    assert embedded.get_registered_model(version.name).aliases == {}


def test_one_row_is_no_comparison() -> None:
    one = Measurement(classification_report(), JudgedRows(np.array([0.0, np.nan, 1.0]), 0.0, 0.0), "")
    other = Measurement(classification_report(), JudgedRows(np.array([0.0, 1.0, np.nan]), 0.0, 0.0), "")
    with pytest.raises(GateError, match="Only 1 row can be scored by both"):
        compare_pairs(one, other)


def test_which_of_two_models_is_the_candidate_does_not_matter() -> None:
    def measured(seed: int) -> Measurement:
        model = RandomForestClassifier(10, random_state=seed).fit(X[TRAIN], Y[TRAIN])
        report, judged = analyze_rows(model, X[TRAIN], Y[TRAIN], data="oob")
        return Measurement(report, judged, "")

    one, other = measured(0), measured(1)
    there, back = compare_pairs(one, other).increase, compare_pairs(other, one).increase
    assert (there.estimate, there.lower, there.upper) == pytest.approx((-back.estimate, -back.upper, -back.lower))
    without = [found._replace(judged=found.judged._replace(seed_variance=0.0)) for found in (one, other)]
    narrow = compare_pairs(*without).increase
    assert 1.15 < (there.upper - there.lower) / (narrow.upper - narrow.lower) < 1.8
