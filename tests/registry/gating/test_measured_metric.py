"""Policies on a metric of scikit-learn, which the gate measures on rows that it is given."""

from __future__ import annotations

from dataclasses import replace

import mlflow
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import average_precision_score, make_scorer

import ens_plugin
from ens_plugin import gate
from ens_plugin.errors import GateError
from ens_plugin.registry.evidence import compare_reports
from tests.reports import score_report
from tests.tracking.stores import MLFLOW_WARNINGS

pytestmark = MLFLOW_WARNINGS


def log_forest(forest: RandomForestClassifier, name: str) -> str:
    """Register a forest; return the id of its model."""
    with mlflow.start_run():
        options = {"serialization_format": "cloudpickle", "pip_requirements": []}
        return str(mlflow.sklearn.log_model(forest, name="forest", registered_model_name=name, **options).model_id)


@pytest.mark.slow
@pytest.mark.usefixtures("embedded")
def test_a_policy_on_a_metric_of_a_label_that_is_a_word() -> None:
    X, codes = load_breast_cancer(return_X_y=True)
    y = np.where(codes == 1, "benign", "malignant")
    forest = RandomForestClassifier(60, random_state=0).fit(X, y)
    scorer = make_scorer(average_precision_score, pos_label="malignant", response_method="predict_proba")
    ens_plugin.log_report(ens_plugin.analyze(forest, X, y, metric=scorer), model_id=log_forest(forest, "words"))
    bounds = {"metric": "average_precision", "average_precision": {"min": 0.9}}
    policy = {"report": {**bounds, "positive_label": "malignant"}}
    logged, measured = gate("models:/words/1", policy), gate("models:/words/1", policy, X=X, y=y)
    assert logged.passed
    assert measured.passed
    assert logged.checks[0].value == pytest.approx(measured.checks[0].value, rel=1e-12)
    for other in ({"positive_label": "benign"}, {}):
        with pytest.raises(GateError, match=r"as the positive label, and the logged report .* with 'malignant'"):
            gate("models:/words/1", {"report": {**bounds, **other}})


@pytest.mark.slow
@pytest.mark.usefixtures("embedded")
def test_a_log_loss_that_is_infinite_at_the_size_meets_no_policy() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    log_forest(RandomForestClassifier(20, random_state=0).fit(X, y), "log_loss")
    policy = {"report": {"metric": "neg_log_loss", "neg_log_loss": {"min": -10.0}}}
    with pytest.raises(
        GateError, match=r"of its 20 members the neg_log_loss is infinite on some rows, and from \d+ on"
    ):
        gate("models:/log_loss/1", policy, X=X, y=y)


def test_intervals_of_metrics_about_two_labels_are_not_compared() -> None:
    """A report without a named label is about 1, as scikit-learn's own scorers are."""
    own = score_report()
    curve = own.error_curve
    assert curve.metric_basis is not None
    one, zero = (
        replace(own, error_curve=replace(curve, metric_basis=replace(curve.metric_basis, positive_label=label)))
        for label in ("1.0", "0")
    )
    assert compare_reports(own, one).increase.estimate == 0.0
    with pytest.raises(GateError, match="about the label '1' and the baseline's about '0'"):
        compare_reports(own, zero)
