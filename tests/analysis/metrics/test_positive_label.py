"""Scorers with a positive label given as text, compared with scikit-learn's own with ``pos_label``."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import (
    average_precision_score,
    brier_score_loss,
    f1_score,
    fbeta_score,
    jaccard_score,
    make_scorer,
    precision_score,
    recall_score,
    roc_auc_score,
)

from ens_plugin import (
    CustomEnsemble,
    RightSizedClassifier,
    analyze,
    autolog,
    grow,
    make_oob_scorer,
    oob_permutation_importance,
    rightsize,
)
from ens_plugin.adapters import find_adapter
from ens_plugin.analysis import ScorerOfLabel
from ens_plugin.analysis.metrics import ResolvedMetric, resolve_metric
from ens_plugin.spark import analyze as spark_analyze

X, CODES = load_breast_cancer(return_X_y=True)
NAMES = np.where(CODES == 1, "benign", "malignant")
OF_LABELS = {"f1": f1_score, "jaccard": jaccard_score, "precision": precision_score, "recall": recall_score}
OF_PROBABILITIES = {"average_precision": average_precision_score, "neg_brier_score": brier_score_loss}


def forest_of(labels: Any) -> RandomForestClassifier:
    return RandomForestClassifier(20, max_depth=3, random_state=0).fit(X, labels)


def resolved(metric: Any, model: Any, y: Any = None) -> ResolvedMetric:
    return resolve_metric(metric, find_adapter(model), y)


@pytest.mark.parametrize("positive", ["benign", "malignant"])
@pytest.mark.parametrize("name", [*OF_LABELS, *OF_PROBABILITIES])
def test_value_is_that_with_the_positive_label(name: str, positive: str) -> None:
    forest = forest_of(NAMES)
    function = {**OF_LABELS, **OF_PROBABILITIES}[name]
    predicted = (
        forest.predict(X) if name in OF_LABELS else forest.predict_proba(X)[:, forest.classes_.tolist().index(positive)]
    )
    weight = np.random.default_rng(0).random(CODES.size) + 0.5
    metric = resolved(ScorerOfLabel(name, positive), forest)
    sign = -1.0 if name.startswith("neg_") else 1.0
    assert metric.name == name
    assert metric.value(NAMES, forest.predict_proba(X), weight) == pytest.approx(
        sign * function(NAMES, predicted, pos_label=positive, sample_weight=weight), rel=1e-12
    )


def test_a_tie_is_the_first_label_as_in_predict() -> None:
    votes = np.array([["no", "yes", "no"], ["yes", "no", "no"]])
    ensemble = CustomEnsemble(votes, None, aggregation="vote")
    tied = np.array([[0.5, 0.5], [0.5, 0.5], [1.0, 0.0]])
    y = np.array(["no", "yes", "yes"])
    assert resolved(ScorerOfLabel("recall", "no"), ensemble).value(y, tied) == 1.0
    assert resolved(ScorerOfLabel("recall", "yes"), ensemble).value(y, tied) == 0.0


@pytest.mark.parametrize(
    ("labels", "positive"),
    [(CODES, "0"), (CODES, "1.0"), (CODES + 0.0, "1"), (CODES + 0.0, "1.0"), (CODES == 1, "True"), (CODES == 1, "1")],
)
def test_labels_are_named_as_text(labels: Any, positive: str) -> None:
    forest = forest_of(labels)
    value = resolved(ScorerOfLabel("recall", positive), forest).value(labels, forest.predict_proba(X))
    wanted = forest.classes_[0] if positive == "0" else forest.classes_[1]
    assert value == recall_score(labels, forest.predict(X), pos_label=wanted)


@pytest.mark.parametrize(
    ("scorer", "name"),
    [
        (make_scorer(f1_score, pos_label="malignant"), "f1"),
        (
            make_scorer(average_precision_score, pos_label="malignant", response_method="predict_proba"),
            "average_precision",
        ),
        (make_scorer(recall_score, average="macro"), "recall_macro"),
        (make_scorer(fbeta_score, beta=2, pos_label="malignant"), "fbeta_score"),
        (make_scorer(f1_score, average="micro", zero_division=0), "f1_score"),
        (make_scorer(f1_score, average="macro", labels=np.array(["benign", "malignant"])), "f1_score"),
        # Of labels, in place of probabilities, it is another metric.
        (make_scorer(roc_auc_score), "roc_auc_score"),
    ],
)
def test_a_scorer_that_differs_in_the_positive_label_has_the_name_of_scikit_learn(scorer: Any, name: str) -> None:
    assert resolved(scorer, forest_of(NAMES), NAMES).name == name


class TestRarerLabel:
    """What a scorer is about where neither label is that of scikit-learn."""

    RARE = np.where(CODES == 0, "bad", "good")  # CODES has more ones

    @pytest.mark.parametrize("flip", [False, True], ids=["first label", "last label"])
    @pytest.mark.parametrize("name", [*OF_LABELS, *OF_PROBABILITIES])
    def test_the_rarer_label_is_the_positive_one(self, name: str, flip: bool) -> None:
        labels = np.where(CODES == 0, "z", "a") if flip else self.RARE
        found = resolved(name, forest_of(labels), labels)
        rare = "z" if flip else "bad"
        assert found.positive_label == rare
        assert f"of the label {rare!r}, the rarer one" in found.findings[0].sentence
        named = resolved(ScorerOfLabel(name, rare), forest_of(labels))
        mean = forest_of(labels).predict_proba(X)
        assert found.value(labels, mean) == named.value(labels, mean)

    @pytest.mark.parametrize("labels", [CODES, 2 * CODES - 1, CODES + 1, CODES.astype(bool)])
    def test_the_label_of_scikit_learn_is_kept(self, labels: Any) -> None:
        found = resolved("average_precision", forest_of(labels), labels)
        assert (found.positive_label, found.findings) == (None, ())


class TestParameter:
    """positive_label, of every function that takes a metric."""

    FOREST = forest_of(NAMES)
    NAMED = make_scorer(average_precision_score, pos_label="benign", response_method="predict_proba")

    def of(self, function: Any, **options: Any) -> Any:
        return function(self.FOREST, X, NAMES, **options)

    def test_of_analyze(self) -> None:
        found = self.of(analyze, metric="average_precision", positive_label="benign")
        assert found.error == self.of(analyze, metric=self.NAMED).error
        assert not any("rarer" in text for text in found.warnings)

    def test_of_importance_and_of_the_scorer_of_searches(self) -> None:
        options = {"metric": "average_precision", "positive_label": "benign"}
        importance = self.of(oob_permutation_importance, n_repeats=1, max_rows=100, **options)
        named = self.of(oob_permutation_importance, n_repeats=1, max_rows=100, metric=self.NAMED)
        assert np.array_equal(importance.importances_mean, named.importances_mean)
        assert make_oob_scorer(**options)(self.FOREST, X, NAMES) == make_oob_scorer(self.NAMED)(self.FOREST, X, NAMES)

    def test_of_growth(self) -> None:
        options = {"metric": "average_precision", "positive_label": "benign", "max_size": 50}
        grown = grow(RandomForestClassifier(max_depth=3, random_state=0), X, NAMES, **options)
        fitted = RightSizedClassifier(RandomForestClassifier(max_depth=3, random_state=0), **options).fit(X, NAMES)
        for report in (grown.report, fitted.growth_.report):
            assert report.error_curve.metric_basis.positive_label == "benign"

    @pytest.mark.parametrize("function", [analyze, grow, rightsize, autolog, spark_analyze, make_oob_scorer])
    def test_every_function_with_a_metric_has_it(self, function: Any) -> None:
        assert signature(function).parameters["positive_label"].default is None
