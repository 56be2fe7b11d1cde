"""Names and scorers of scikit-learn as metrics, compared with scikit-learn's own values of the same model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import get_scorer, get_scorer_names, make_scorer, mean_pinball_loss

from ens_plugin import analyze
from ens_plugin.adapters import find_adapter
from ens_plugin.analysis.metrics import ResolvedMetric, resolve_metric
from ens_plugin.errors import InputError

TWO = load_breast_cancer(return_X_y=True)
THREE = load_wine(return_X_y=True)
VALUES = load_diabetes(return_X_y=True)
FORESTS = {
    "two": (RandomForestClassifier(30, max_depth=4, random_state=0).fit(*TWO), *TWO),
    "three": (RandomForestClassifier(30, max_depth=4, random_state=0).fit(*THREE), *THREE),
    "values": (RandomForestRegressor(30, random_state=0).fit(*VALUES), *VALUES),
}
OF_TWO = (
    "accuracy", "average_precision", "balanced_accuracy", "f1", "f1_macro", "f1_weighted", "jaccard",
    "matthews_corrcoef", "neg_brier_score", "neg_log_loss", "precision", "recall", "roc_auc",
)  # fmt: skip
OF_THREE = (
    "accuracy", "balanced_accuracy", "f1_macro", "f1_micro", "f1_weighted", "jaccard_macro", "matthews_corrcoef",
    "neg_log_loss", "precision_macro", "recall_macro", "roc_auc_ovr", "roc_auc_ovr_weighted",
)  # fmt: skip
OF_VALUES = (
    "explained_variance", "neg_mean_absolute_error", "neg_mean_absolute_percentage_error", "neg_mean_gamma_deviance",
    "neg_mean_poisson_deviance", "neg_mean_squared_error", "neg_mean_squared_log_error", "neg_median_absolute_error",
    "neg_root_mean_squared_error", "r2",
)  # fmt: skip


def resolved(metric: Any, model: Any) -> ResolvedMetric:
    return resolve_metric(metric, find_adapter(model))


def outputs(kind: str) -> Any:
    forest, X, _ = FORESTS[kind]
    return forest.predict(X) if kind == "values" else forest.predict_proba(X)


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind, names in (("two", OF_TWO), ("three", OF_THREE), ("values", OF_VALUES)) for name in names],
)
def test_value_is_that_of_scikit_learn(kind: str, name: str) -> None:
    forest, X, y = FORESTS[kind]
    metric = resolved(name, forest)
    weight = np.random.default_rng(0).random(y.size) + 0.5
    scorer = get_scorer(name)
    assert metric.value(y, outputs(kind)) == pytest.approx(scorer(forest, X, y), rel=1e-12)
    assert metric.takes_weights
    assert metric.value(y, outputs(kind), weight) == pytest.approx(
        scorer(forest, X, y, sample_weight=weight), rel=1e-12
    )
    assert metric.greater_is_better
    assert metric.lowest <= metric.value(y, outputs(kind)) <= metric.highest
    # A negated loss is relative, a score with a largest value is not.
    assert metric.is_absolute == (not name.startswith("neg_"))


CHANCES = {
    "roc_auc": 0.5, "average_precision": 0.2, "accuracy": 0.8, "balanced_accuracy": 0.5, "f1": 0.2, "f1_macro": 0.5,
    "precision": 0.2, "recall": 0.2, "jaccard": 0.2 / 1.8, "matthews_corrcoef": 0.0, "d2_brier_score": 0.0,
    "neg_brier_score": 0.0, "neg_log_loss": 0.0,
}  # fmt: skip


@pytest.mark.parametrize("name", CHANCES)
def test_chance_is_the_score_of_predictions_that_know_the_shares_of_the_labels_only(name: str) -> None:
    if name not in get_scorer_names():
        pytest.skip("this scikit-learn has no such scorer")
    forest = FORESTS["two"][0]
    first, second = forest.classes_
    y = np.where(np.arange(500) < 400, first, second)
    metric = resolved(name, forest)
    assert metric.chance_level(y) == pytest.approx(CHANCES[name])
    shuffled = np.random.default_rng(0).permutation(500)
    assert metric.chance_level(y[shuffled], np.ones(500)) == pytest.approx(CHANCES[name])


def test_every_name_of_scikit_learn_is_for_one_task_or_both() -> None:
    """A name that scikit-learn adds is taken; those of today are known by task."""
    both = ("adjusted", "completeness", "homogeneity", "mutual", "normalized", "fowlkes", "rand_score", "v_measure")
    for name in get_scorer_names():
        takers = []
        for kind in ("two", "values"):
            try:
                takers.append(resolved(name, FORESTS[kind][0]).name)
            except InputError:
                continue
        assert takers
        assert len(takers) == 1 or name.startswith(both), name


def test_range() -> None:
    ranges = {
        "roc_auc": (0, 1), "matthews_corrcoef": (-1, 1), "neg_log_loss": (-np.inf, 0), "balanced_accuracy": (0, 1),
    }  # fmt: skip
    for name, expected in ranges.items():
        metric = resolved(name, FORESTS["two"][0])
        assert (metric.lowest, metric.highest) == expected


class TestScorers:
    def test_parameters_of_make_scorer_are_kept(self) -> None:
        forest, X, y = FORESTS["values"]
        scorer = make_scorer(mean_pinball_loss, greater_is_better=False, alpha=0.9)
        metric = resolved(scorer, forest)
        assert metric.name == "neg_mean_pinball_loss"
        assert metric.value(y, forest.predict(X)) == -mean_pinball_loss(y, forest.predict(X), alpha=0.9)

    def test_a_score_of_ones_own_is_relative(self) -> None:
        def profit(y: Any, label: Any) -> float:
            return float(100.0 * np.mean(y == label))

        metric = resolved(make_scorer(profit), FORESTS["two"][0])
        assert (metric.name, metric.greater_is_better, metric.is_absolute) == ("profit", True, False)
        assert not metric.takes_weights


class TestFunctionsOfOtherMeaning:
    """A range is known of scikit-learn's own functions with their usual parameters only."""

    def test_a_users_function_of_the_same_name_keeps_its_values(self) -> None:
        def accuracy_score(truth: Any, labels: Any) -> float:
            return 100.0 * float(np.mean(truth == labels))

        forest, X, y = FORESTS["two"]
        assert 80.0 < analyze(forest, X, y, metric=make_scorer(accuracy_score)).error <= 100.0

    @pytest.mark.fast_cases("a b", "bias")
    @pytest.mark.parametrize("name", ["bias", "agreement", "n_members", "<lambda>", "a b"])
    def test_a_name_that_other_values_have_or_that_is_none_is_logged_as_error(self, name: str) -> None:
        def own(truth: Any, labels: Any) -> float:
            return float(np.mean(truth == labels))

        own.__name__ = name
        forest, X, y = FORESTS["two"]
        report = analyze(forest, X, y, metric=make_scorer(own))
        assert report.metrics()["error"] == pytest.approx(report.error)
        assert report.metrics()["bias"] == report.bias_variance.bias


@pytest.mark.fast_cases("roc_auc")
@pytest.mark.parametrize("metric", [pytest.param("average_precision", marks=pytest.mark.slow), "roc_auc", "accuracy"])
def test_a_ranking_of_few_rows_is_warned_of(metric: str) -> None:
    """Each out-of-bag row is predicted by members of its own, and few rows of a label decide over the level."""
    X, y = TWO
    few = np.flatnonzero((y == 1) | (np.cumsum(y == 0) <= 40))
    forest = RandomForestClassifier(40, random_state=0).fit(X[few], y[few])
    found = [text for text in analyze(forest, X[few], y[few], metric=metric).warnings if "rarest label" in text]
    assert len(found) == (metric != "accuracy")
    assert not [text for text in analyze(*FORESTS["two"], metric=metric).warnings if "ranks rows" in text]
