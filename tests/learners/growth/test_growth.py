from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import ens_plugin
from ens_plugin import Growth, grow
from ens_plugin.adapters import TrainingRows
from ens_plugin.errors import BagError, EnsPluginError, InputError, NotConvergedWarning, UnsupportedModelError
from ens_plugin.learners.growth import find_trainer

X, Y = load_breast_cancer(return_X_y=True)
# An agreement that takes more than a probe of 20 on these rows, and less than 200.
TIGHT = {"confidence": 0.995, "probe_size": 20}


def forest(**options: Any) -> RandomForestClassifier:
    return RandomForestClassifier(random_state=0, **options)


def assert_same_members(grown: Any, whole: Any) -> None:
    assert len(grown.estimators_) == len(whole.estimators_)
    for ours, theirs in zip(grown.estimators_, whole.estimators_, strict=True):
        assert_array_equal(ours.tree_.feature, theirs.tree_.feature)
        assert_array_equal(ours.tree_.threshold, theirs.tree_.threshold)
        assert_array_equal(ours.tree_.value, theirs.tree_.value)
    for ours, theirs in zip(grown.estimators_samples_, whole.estimators_samples_, strict=True):
        assert_array_equal(ours, theirs)


# What one shot and Fig. 3 do, step by step.


def test_one_shot_trains_a_probe_and_then_the_rest_once() -> None:
    growth = grow(forest(), X, Y, **TIGHT)
    probe, grown = growth.history
    assert probe.n_members == 20
    assert probe.recommended_size == growth.n_members == grown.n_members == len(growth.model.estimators_) > 20
    assert growth.trained_members == growth.n_members
    assert growth.converged
    assert growth.wanted_size == growth.n_members


def test_each_step_is_what_an_analysis_of_that_ensemble_says() -> None:
    growth = grow(forest(), X, Y, method="iterative", **TIGHT)
    assert len(growth.history) > 1
    for step in growth.history:
        report = ens_plugin.analyze(forest(n_estimators=step.n_members).fit(X, Y), X, Y, confidence=0.995)
        assert step.recommended_size == report.recommended_size
        assert step.interval == report.recommendation.interval
        assert step.attained == pytest.approx(report.recommendation.agreement, abs=1e-12)
        assert step.error == report.error


def test_iterative_follows_the_pseudo_code() -> None:
    growth = grow(forest(), X, Y, method="iterative", confidence=0.995, probe_size=15)
    sizes = [step.n_members for step in growth.history]
    wanted = [step.recommended_size for step in growth.history]
    assert sizes[0] == 15
    for size, recommended, following in zip(sizes, wanted, sizes[1:], strict=False):
        assert recommended > size
        assert following == min(recommended, 2 * size)
    assert wanted[-1] <= sizes[-1]
    assert growth.n_members == wanted[-1]
    assert growth.trained_members == sizes[-1]
    # The growth by a factor 2 at most was met on the way.
    assert any(following == 2 * size for size, following in pairwise(sizes))


def test_the_old_name_of_the_iterative_method_is_deprecated() -> None:
    with pytest.warns(FutureWarning, match="'figure3' is deprecated"):
        growth = grow(forest(), X, Y, method="figure3", confidence=0.9)
    assert growth.method == "iterative"


def test_iterative_starts_at_100_and_one_shot_at_50() -> None:
    assert grow(forest(), X, Y, method="iterative", confidence=0.9).history[0].n_members == 100
    assert grow(forest(), X, Y, confidence=0.9).history[0].n_members == 50


@pytest.mark.parametrize("method", ["one_shot", "iterative"])
def test_members_beyond_the_estimate_are_left_out(method: str) -> None:
    growth = grow(forest(), X, Y, method=method, confidence=0.95)
    (step,) = growth.history
    assert growth.n_members == step.recommended_size == len(growth.model.estimators_) < step.n_members
    assert growth.trained_members == step.n_members
    assert growth.suffices
    assert growth.report is not None
    assert growth.report.n_members == step.n_members


def test_one_shot_tells_whether_its_own_estimate_finds_it_enough() -> None:
    found = [grow(RandomForestClassifier(random_state=seed), X, Y, confidence=0.993) for seed in range(2)]
    assert {growth.suffices for growth in found} == {True, False}
    for growth in found:
        assert growth.converged
        assert growth.report is not None
        assert growth.suffices == (growth.report.recommended_size <= growth.n_members)
        if len(growth.history) == 2:
            assert ("confirms" in growth.reason) == growth.suffices


def test_the_report_is_the_one_of_the_grown_model() -> None:
    growth = grow(forest(), X, Y, **TIGHT)
    report = ens_plugin.analyze(growth.model, X, Y, confidence=0.995)
    assert growth.report is not None
    assert growth.report.n_members == growth.n_members
    assert growth.report.recommendation.agreement == report.recommendation.agreement
    assert growth.report.error == report.error


# The same members as in one training.


@pytest.mark.parametrize("method", ["one_shot", "iterative"])
@pytest.mark.parametrize(
    "estimator",
    [
        forest(),
        forest(class_weight="balanced", oob_score=True),
        forest(class_weight="balanced_subsample"),
        ExtraTreesClassifier(bootstrap=True, random_state=1),
        BaggingClassifier(random_state=2),
        BaggingClassifier(random_state=2, oob_score=True),
    ],
    ids=lambda estimator: str(estimator)[:60],
)
def test_growing_gives_the_members_of_one_training_at_that_size(estimator: Any, method: str) -> None:
    growth = grow(estimator, X, Y, method=method, **TIGHT)
    whole = clone(estimator).set_params(n_estimators=growth.n_members).fit(X, Y)
    assert growth.n_members > 20
    assert growth.model.get_params(deep=False) == whole.get_params(deep=False)
    assert_same_members(growth.model, whole)


def test_regression_grows_to_the_tolerated_excess_error() -> None:
    rows, target = load_diabetes(return_X_y=True)
    for estimator in (RandomForestRegressor(random_state=0), BaggingRegressor(random_state=0)):
        growth = grow(estimator, rows, target, tolerance=0.005)
        probe = ens_plugin.analyze(clone(estimator).set_params(n_estimators=50).fit(rows, target), rows, target,
                                   tolerance=0.005)  # fmt: skip
        assert growth.n_members == probe.recommended_size > 50
        assert growth.history[0].attained == pytest.approx(probe.error / probe.error_curve.asymptote - 1, rel=1e-9)
        whole = clone(estimator).set_params(n_estimators=growth.n_members).fit(rows, target)
        assert_same_members(growth.model, whole)


def test_a_seed_is_drawn_once_where_none_is_given() -> None:
    growth = grow(RandomForestClassifier(), X, Y, **TIGHT)
    assert isinstance(growth.model.random_state, int)
    assert_same_members(growth.model, clone(growth.model).fit(X, Y))


def test_a_generator_gives_the_same_growth_as_an_equal_one_and_is_left_alone() -> None:
    estimator = RandomForestClassifier(random_state=np.random.RandomState(5))
    first, second = grow(estimator, X, Y), grow(estimator, X, Y)
    assert_same_members(first.model, second.model)
    untouched = np.random.RandomState(5).get_state()
    assert all(np.array_equal(a, b) for a, b in zip(estimator.random_state.get_state(), untouched, strict=True))


def test_the_estimator_passed_stays_as_it_is() -> None:
    estimator = forest(n_estimators=7)
    before = dict(vars(estimator))
    growth = grow(estimator, X, Y)
    assert vars(estimator) == before
    assert growth.model is not estimator


def test_weights_count_in_training_and_in_the_estimate() -> None:
    weight = np.where(Y == 0, 3.0, 1.0)
    growth = grow(forest(), X, Y, sample_weight=weight, **TIGHT)
    probe = forest(n_estimators=20).fit(X, Y, sample_weight=weight)
    report = ens_plugin.analyze(probe, X, Y, sample_weight=weight, confidence=0.995)
    assert growth.history[0].attained == pytest.approx(report.recommendation.agreement, abs=1e-12)


def test_bagging_of_members_that_are_not_trees() -> None:
    growth = grow(BaggingClassifier(KNeighborsClassifier(1), random_state=0), X, Y, confidence=0.98)
    assert len(growth.model.estimators_) == growth.n_members


def test_three_and_more_labels() -> None:
    rows, labels = load_digits(return_X_y=True)
    growth = grow(forest(max_depth=8), rows[:600], labels[:600], confidence=0.97)
    assert growth.converged
    assert growth.n_members == growth.history[0].recommended_size


# Pipelines.


def test_a_pipeline_is_grown_at_its_end() -> None:
    pipeline = make_pipeline(StandardScaler(), make_pipeline("passthrough", forest()))
    growth = grow(pipeline, X, Y, **TIGHT)
    whole = forest(n_estimators=growth.n_members).fit(StandardScaler().fit_transform(X), Y)
    assert_same_members(growth.model[-1][-1], whole)
    assert_array_equal(growth.model.predict_proba(X), whole.predict_proba(StandardScaler().fit_transform(X)))
    assert ens_plugin.analyze(growth.model, X, Y).n_members == growth.n_members
    assert not hasattr(pipeline[0], "mean_")


def test_a_pipeline_with_a_memory(tmp_path: Any) -> None:
    # Of the steps before the ensemble, all but the last are kept there, and copies fitted.
    growth = grow(make_pipeline(StandardScaler(), MinMaxScaler(), forest(), memory=str(tmp_path)), X, Y)
    plain = grow(make_pipeline(StandardScaler(), MinMaxScaler(), forest()), X, Y)
    assert_array_equal(growth.model.predict_proba(X), plain.model.predict_proba(X))


# Where it stops short.


def test_max_size_says_what_there_is_and_what_it_would_take() -> None:
    with pytest.warns(NotConvergedWarning, match=r"max_size=30, while 99.5 % agreement .* takes about \d+"):
        growth = grow(forest(), X, Y, confidence=0.995, probe_size=20, max_size=30)
    probe = ens_plugin.analyze(forest(n_estimators=20).fit(X, Y), X, Y, confidence=0.995)
    assert growth.n_members == len(growth.model.estimators_) == growth.trained_members == 30
    assert not growth.converged
    assert growth.suffices is False
    assert growth.wanted_size == probe.recommended_size > 30
    assert str(probe.recommended_size) in growth.reason


def test_one_member_less_than_wanted_is_not_converged() -> None:
    probe = ens_plugin.analyze(forest(n_estimators=20).fit(X, Y), X, Y, confidence=0.995)
    assert probe.recommended_size is not None
    with pytest.warns(NotConvergedWarning, match="max_size"):
        assert not grow(forest(), X, Y, max_size=probe.recommended_size - 1, **TIGHT).converged
    assert grow(forest(), X, Y, max_size=probe.recommended_size, **TIGHT).converged


def test_iterative_stops_at_max_size_too() -> None:
    with pytest.warns(NotConvergedWarning, match="max_size=30"):
        growth = grow(forest(), X, Y, confidence=0.995, method="iterative", probe_size=20, max_size=30)
    assert [step.n_members for step in growth.history] == [20, 30]


def test_a_size_beyond_all_looked_at_is_not_given_a_number() -> None:
    noise = np.random.default_rng(0).integers(0, 2, 200)
    with pytest.warns(NotConvergedWarning, match="more members than the largest size"):
        growth = grow(forest(max_depth=1), X[:200], noise, confidence=0.9999, max_size=60)
    assert growth.wanted_size is None
    assert growth.n_members == 60


@pytest.mark.filterwarnings("ignore:There are only 24 rows:ens_plugin.errors.WeakEstimateWarning")
def test_few_rows_keep_the_probe() -> None:
    rows = np.r_[:12, 19:31]
    with pytest.warns(NotConvergedWarning, match="24 rows are too few"):
        growth = grow(forest(), X[rows], Y[rows])
    assert growth.n_members == 50
    assert not growth.converged
    assert growth.suffices is None
    assert growth.history[0].recommended_size is None


def test_few_out_of_bag_members_per_row_keep_the_probe() -> None:
    # The share left out is 0.368: of 13 members 4.8, of 14 5.2.
    with pytest.warns(NotConvergedWarning, match=r"4\.\d out-of-bag members on average, and 5 are needed"):
        growth = grow(forest(), X, Y, probe_size=13)
    assert (growth.n_members, growth.converged) == (13, False)
    assert grow(forest(), X, Y, probe_size=14).converged


def test_too_few_out_of_bag_members_keep_the_probe() -> None:
    bagging = BaggingClassifier(random_state=0, bootstrap=False, max_samples=0.99)
    with pytest.warns(NotConvergedWarning, match="fewer than 2 out-of-bag members"):
        growth = grow(bagging, X, Y)
    assert growth.report is None
    assert growth.n_members == 50
    assert growth.history[0].error is None


class Noise(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Predicts another wave for every seed: the mean of many predicts 0."""

    def __init__(self, random_state: int | None = None) -> None:
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Noise:
        self.phase_ = np.random.default_rng(self.random_state).uniform(0.0, 100.0, 2)
        return self

    def predict(self, X: Any) -> Any:
        return np.sin(X[:, 0] * self.phase_[0] + self.phase_[1])


def test_an_error_that_cannot_be_told_from_0_keeps_the_probe() -> None:
    rows = np.arange(60.0)[:, None]
    with pytest.warns(NotConvergedWarning, match="from 0, so no relative excess"):
        growth = grow(BaggingRegressor(Noise(), random_state=7), rows, np.zeros(60))
    assert growth.n_members == 50
    assert not growth.converged
    assert growth.report is not None
    assert growth.report.error_curve.asymptote_raw < 0


def test_members_that_all_agree_are_not_needed_twice() -> None:
    rows = np.repeat(np.arange(4.0), 30)[:, None]
    growth = grow(RandomForestRegressor(random_state=0), rows, rows[:, 0])
    assert (growth.n_members, growth.converged) == (1, True)


# Wrong input.


@pytest.mark.parametrize(
    ("estimator", "error", "match"),
    [
        (GradientBoostingClassifier(), UnsupportedModelError, "GradientBoostingClassifier cannot be grown"),
        (LogisticRegression(), UnsupportedModelError, "LogisticRegression cannot be grown"),
        (GridSearchCV(forest(), {}), UnsupportedModelError, "best_estimator_"),
        (make_pipeline(StandardScaler(), LogisticRegression()), UnsupportedModelError, "LogisticRegression"),
        (make_pipeline(LogisticRegression(), forest()), Exception, "transform"),
        (ens_plugin.CustomEnsemble, UnsupportedModelError, "cannot be grown"),
        (None, UnsupportedModelError, "NoneType cannot be grown"),
        (forest(bootstrap=False), BagError, "bootstrap=True"),
        (ExtraTreesClassifier(), BagError, "bootstrap=True"),
        (BaggingClassifier(bootstrap=False), BagError, "bootstrap=False"),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)[:40]),
)
def test_what_cannot_be_grown_is_refused(estimator: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match) as caught:
        grow(estimator, X, Y)
    assert isinstance(caught.value, (EnsPluginError, TypeError))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"method": "iterated"}, "method must be 'one_shot' or 'iterative'"),
        ({"method": None}, "method must be"),
        ({"confidence": 1.0}, "confidence must lie"),
        ({"tolerance": 0.0}, "tolerance must be"),
        ({"probe_size": 9}, "probe_size must be a whole number of at least 10"),
        ({"max_size": 49}, "max_size=49 is below the 50 members of the probe"),
        ({"max_size": 99, "method": "iterative"}, "max_size=99 is below the 100 members"),
        ({"max_size": 60.5}, "max_size must be"),
        ({"max_size": 10**10}, "max_size may go up to 1000000000"),
    ],
    ids=str,
)
def test_wrong_options_are_refused_before_anything_is_trained(options: dict[str, Any], match: str) -> None:
    class Untrained(RandomForestClassifier):  # type: ignore[misc]
        def fit(self, *_: Any, **__: Any) -> Any:
            raise AssertionError("trained")

    with pytest.raises(InputError, match=match):
        grow(Untrained(), X, Y, **options)


@pytest.mark.parametrize(
    ("estimator", "options", "match"),
    [
        (RandomForestRegressor(), {"criterion": "agreement"}, "predicts values"),
        (make_pipeline(StandardScaler(), BaggingClassifier()), {"criterion": "accuracy"}, "criterion must be one of"),
        (RandomForestRegressor(), {"confidence": 0.9}, "RandomForestRegressor is a regression: set tolerance"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_the_other_task_is_asked_by_is_refused(estimator: Any, options: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        grow(estimator, X, Y, **options)


def test_a_single_label_is_refused() -> None:
    with pytest.raises(InputError, match="single label"):
        grow(forest(), X, np.zeros(len(Y)))


def test_what_the_base_refuses_is_refused_in_its_words() -> None:
    broken = X.copy()
    broken[3, 4] = np.inf
    for estimator in (forest(), make_pipeline(StandardScaler(), forest())):
        with pytest.raises(InputError, match="infinity"):
            grow(estimator, broken, Y)


# What is shown.


def test_history_as_a_table() -> None:
    frame = grow(forest(), X, Y, **TIGHT).to_frame()
    assert frame.loc[0, "n_members"] == 20
    assert len(frame) == 2
    assert (frame[["train_seconds", "estimate_seconds"]] > 0).all(axis=None)


def test_progress_goes_to_stderr_and_only_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    quiet = grow(forest(), X, Y, **TIGHT)
    assert capsys.readouterr() == ("", "")
    loud = grow(forest(), X, Y, verbose=True, **TIGHT)
    out, err = capsys.readouterr()
    assert out == ""
    assert f"{loud.n_members}/{loud.n_members}" in err
    # Batches for the bar's sake change nothing.
    assert_same_members(loud.model, quiet.model)


def test_progress_is_told_after_every_batch() -> None:
    progress: list[int] = []
    wanted = iter([65, None])
    rows = TrainingRows(X, Y, None, 100, 20, progress.append)
    find_trainer(forest())(forest(), rows, 20, lambda _: next(wanted))
    assert progress == [20, 40, 60, 65]


def test_repr_is_short() -> None:
    growth = grow(forest(), X, Y, confidence=0.9)
    assert repr(growth).startswith(f"Growth(n_members={growth.n_members}, converged=True, trained_members=50")
    assert isinstance(growth, Growth)
