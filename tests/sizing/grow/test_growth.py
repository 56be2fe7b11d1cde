from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.ensemble import BaggingClassifier, BaggingRegressor, ExtraTreesClassifier, RandomForestRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import ens_plugin
from ens_plugin import grow
from ens_plugin.adapters import TrainingRows
from ens_plugin.sizing.grow import find_trainer
from tests.sizing.grow.cases import TIGHT, X, Y, forest, grown


def assert_same_members(grown: Any, whole: Any) -> None:
    assert len(grown.estimators_) == len(whole.estimators_)
    for ours, theirs in zip(grown.estimators_, whole.estimators_, strict=True):
        assert_array_equal(ours.tree_.feature, theirs.tree_.feature)
        assert_array_equal(ours.tree_.threshold, theirs.tree_.threshold)
        assert_array_equal(ours.tree_.value, theirs.tree_.value)
    for ours, theirs in zip(grown.estimators_samples_, whole.estimators_samples_, strict=True):
        assert_array_equal(ours, theirs)


# What is trained and estimated, step by step.


def test_a_probe_and_then_the_rest_are_trained_and_reported_once() -> None:
    growth = grown()
    probe, whole = growth.history
    assert probe.n_members == 20
    assert probe.recommended_size == growth.n_members == whole.n_members == len(growth.model.estimators_) > 20
    assert growth.trained_members == growth.wanted_size == growth.n_members
    assert growth.converged
    report = ens_plugin.analyze(growth.model, X, Y)
    assert growth.report.n_members == growth.n_members
    assert growth.report.recommendation.agreement == report.recommendation.agreement
    assert growth.report.error == report.error
    frame = growth.to_frame()
    assert frame["n_members"].tolist() == [20, growth.n_members]
    assert (frame[["train_seconds", "estimate_seconds"]] > 0).all(axis=None)


@pytest.mark.slow
def test_each_step_is_what_an_analysis_of_that_ensemble_says() -> None:
    growth = grown()
    assert len(growth.history) > 1
    for step in (growth.history[0], growth.history[-1]):
        report = ens_plugin.analyze(forest(n_estimators=step.n_members).fit(X, Y), X, Y, tolerance=TIGHT["tolerance"])
        assert step.recommended_size == report.recommended_size
        assert step.interval == report.recommendation.interval
        assert step.loss == report.recommendation.loss
        assert step.reason == report.recommendation.reason
        assert step.error == report.error


def test_members_beyond_the_estimate_are_left_out_and_the_estimator_stays_as_it_is() -> None:
    estimator = forest(n_estimators=7)
    before = dict(vars(estimator))
    growth = grow(estimator, X, Y, criterion="agreement", tolerance=0.05)
    assert vars(estimator) == before
    assert growth.model is not estimator
    (step,) = growth.history
    assert growth.n_members == step.recommended_size == len(growth.model.estimators_) < step.n_members
    assert growth.trained_members == step.n_members
    assert growth.suffices
    assert growth.reason.startswith(f"{growth.n_members} members are enough, as estimated from {step.n_members} ")
    assert growth.report.n_members == step.n_members


# The same members as in one training.


@pytest.mark.fast_cases(
    "RandomForestClassifier(random_state=0)",
    "RandomForestClassifier(class_weight='balanced', oob_score=Tr",
    "ExtraTreesClassifier(bootstrap=True, random_state=1)",
    "BaggingClassifier(random_state=2)",
)
@pytest.mark.parametrize(
    "estimator",
    [
        forest(), forest(class_weight="balanced", oob_score=True), forest(class_weight="balanced_subsample"),
        ExtraTreesClassifier(bootstrap=True, random_state=1), BaggingClassifier(random_state=2),
        BaggingClassifier(random_state=2, oob_score=True),
    ],
    ids=lambda value: str(value)[:60],
)  # fmt: skip
def test_growing_gives_the_members_of_one_training_at_that_size(estimator: Any) -> None:
    rows, labels = X[::2], Y[::2]
    growth = grow(estimator, rows, labels, probe_size=25)
    whole = clone(estimator).set_params(n_estimators=growth.n_members).fit(rows, labels)
    assert growth.n_members > 25
    assert growth.model.get_params(deep=False) == whole.get_params(deep=False)
    assert_same_members(growth.model, whole)


@pytest.mark.fast_cases("RandomForestRegressor")
@pytest.mark.parametrize("kind", [RandomForestRegressor, BaggingRegressor], ids=lambda kind: kind.__name__)
def test_regression_grows_to_the_tolerated_excess_error(kind: Any) -> None:
    rows, target = (part[:200] for part in load_diabetes(return_X_y=True))
    estimator = kind(random_state=0)
    growth = grow(estimator, rows, target, tolerance=0.005)
    probe = ens_plugin.analyze(clone(estimator).set_params(n_estimators=50).fit(rows, target), rows, target,
                               tolerance=0.005)  # fmt: skip
    assert growth.n_members == probe.recommended_size > 50
    assert growth.history[0].loss == pytest.approx(probe.error - probe.error_curve.asymptote, rel=1e-9)
    whole = clone(estimator).set_params(n_estimators=growth.n_members).fit(rows, target)
    assert_same_members(growth.model, whole)


def test_weights_count_in_training_and_in_the_estimate() -> None:
    weight = np.where(Y == 0, 3.0, 1.0)
    growth = grow(forest(), X, Y, sample_weight=weight, **TIGHT)
    probe = forest(n_estimators=20).fit(X, Y, sample_weight=weight)
    found = ens_plugin.analyze(probe, X, Y, sample_weight=weight, tolerance=TIGHT["tolerance"]).recommendation
    assert growth.history[0].loss == found.loss


# Pipelines.


@pytest.mark.slow
def test_a_pipeline_is_grown_at_its_end() -> None:
    pipeline = make_pipeline(StandardScaler(), make_pipeline("passthrough", forest()))
    growth = grow(pipeline, X, Y, criterion="agreement", tolerance=0.01, probe_size=20)
    assert growth.n_members > 20
    whole = forest(n_estimators=growth.n_members).fit(StandardScaler().fit_transform(X), Y)
    assert_same_members(growth.model[-1][-1], whole)
    assert_array_equal(growth.model.predict_proba(X), whole.predict_proba(StandardScaler().fit_transform(X)))
    assert ens_plugin.analyze(growth.model, X, Y).n_members == growth.n_members
    assert not hasattr(pipeline[0], "mean_")


def test_a_pipeline_with_a_memory(tmp_path: Any) -> None:
    # Of the steps before the ensemble, all but the last are kept there, and copies fitted.
    easy: dict[str, Any] = {"criterion": "agreement", "tolerance": 0.1}
    growth, plain = (
        grow(make_pipeline(StandardScaler(), MinMaxScaler(), forest(), memory=memory), X, Y, **easy)
        for memory in (str(tmp_path), None)
    )
    assert_array_equal(growth.model.predict_proba(X), plain.model.predict_proba(X))


@pytest.mark.slow
def test_progress_goes_to_stderr_and_only_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    quiet = grow(forest(), X, Y, criterion="agreement", tolerance=0.01, probe_size=20)
    assert capsys.readouterr() == ("", "")
    loud = grow(forest(), X, Y, criterion="agreement", tolerance=0.01, probe_size=20, verbose=True)
    assert loud.n_members > 20
    out, err = capsys.readouterr()
    assert out == ""
    assert f"{loud.trained_members}/{loud.trained_members}" in err
    # Batches for the bar's sake change nothing.
    assert_same_members(loud.model, quiet.model)


def test_progress_is_told_after_every_batch() -> None:
    progress: list[int] = []
    wanted = iter([65, None])
    rows = TrainingRows(X, Y, None, 100, 20, progress.append)
    find_trainer(forest())(forest(), rows, 20, lambda _: next(wanted))
    assert progress == [20, 40, 60, 65]
