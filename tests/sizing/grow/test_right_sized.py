from __future__ import annotations

import pickle
from copy import deepcopy
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn import config_context
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.model_selection import cross_validate
from sklearn.svm import LinearSVC

import ens_plugin
from ens_plugin import RightSizedClassifier, RightSizedRegressor, grow
from ens_plugin.errors import DataMismatchError, InputError, NotConvergedWarning, NotFittedError, UnsupportedModelError
from tests.own_checks import own_checks
from tests.sizing.estimator_checks import REPEATED_CHECKS

CANCER = load_breast_cancer(return_X_y=True)
X, Y = CANCER[0][:201, :10], CANCER[1][:201]
WEIGHTED = "a seed draws other bags from two rows than from one of weight 2, as in every forest of scikit-learn"
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": WEIGHTED,
    "check_sample_weight_equivalence_on_sparse_data": WEIGHTED,
}
SMALL = {"probe_size": 10, "max_size": 15}


@pytest.mark.slow_cases(*REPEATED_CHECKS)
@own_checks([RightSizedClassifier(**SMALL)], EXPECTED_FAILURES)
# The checks' tables have a few rows, from which no size can be estimated: a warning is issued, and the probe kept.
@pytest.mark.filterwarnings("ignore::ens_plugin.errors.EnsPluginWarning")
@pytest.mark.filterwarnings("ignore::UserWarning:sklearn")
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.slow
@own_checks([RightSizedRegressor(**SMALL)], EXPECTED_FAILURES)
@pytest.mark.filterwarnings("ignore::ens_plugin.errors.EnsPluginWarning")
@pytest.mark.filterwarnings("ignore::UserWarning:sklearn")
def test_scikit_learns_own_checks_of_the_regressor(estimator: Any, check: Any) -> None:
    check(estimator)


EASY: dict[str, Any] = {"criterion": "agreement", "tolerance": 0.03, "random_state": 0}


@cache
def fitted() -> RightSizedClassifier:
    """A fitted model, which tests must not change."""
    return RightSizedClassifier(**EASY).fit(X, Y)


def test_it_is_what_grow_gives() -> None:
    options: dict[str, Any] = {"criterion": "agreement", "tolerance": 0.02}
    model = RightSizedClassifier(ExtraTreesClassifier(bootstrap=True), random_state=3, **options).fit(X, Y)
    growth = grow(ExtraTreesClassifier(bootstrap=True, random_state=3), X, Y, **options)
    assert model.n_members_ == growth.n_members == len(model.estimator_.estimators_)
    assert model.growth_.model is model.estimator_
    with np.errstate(divide="ignore"):
        for method in ("predict", "predict_proba", "predict_log_proba"):
            assert_array_equal(getattr(model, method)(X), getattr(growth.model, method)(X))
    assert_array_equal(model.classes_, [0, 1])


def test_weights_count() -> None:
    weight = np.where(Y == 0, 3.0, 1.0)
    model = RightSizedClassifier(**EASY).fit(X, Y, sample_weight=weight)
    forest = RandomForestClassifier(random_state=0)
    growth = grow(forest, X, Y, criterion="agreement", tolerance=0.03, sample_weight=weight)
    assert_array_equal(model.predict_proba(X), growth.model.predict_proba(X))


@pytest.mark.slow
def test_every_option_reaches_grow() -> None:
    model = RightSizedClassifier(probe_size=15, max_size=17, criterion="agreement", tolerance=0.001, random_state=0)
    with pytest.warns(NotConvergedWarning, match="max_size=17"):
        model.fit(X, Y)
    assert [step.n_members for step in model.growth_.history] == [15, 17]
    rows, target = load_diabetes(return_X_y=True)
    fine, coarse = (RightSizedRegressor(tolerance=share, random_state=0).fit(rows, target) for share in (0.005, 0.02))
    assert coarse.n_members_ * 3 < fine.n_members_


def test_other_columns_are_refused() -> None:
    frame = pd.DataFrame(X).add_prefix("column")
    named = RightSizedClassifier(**EASY).fit(frame, Y)
    for method in ("predict", "predict_proba", "predict_log_proba"):
        with pytest.raises(DataMismatchError, match="RightSizedClassifier is expecting"):
            getattr(fitted(), method)(X[:, :3])
        with pytest.raises(DataMismatchError, match="feature names"):
            getattr(named, method)(frame.rename(columns={"column0": "other"}))


@pytest.mark.parametrize("model", [RightSizedClassifier(), RightSizedRegressor()], ids=repr)
def test_an_unfitted_one_is_refused(model: Any) -> None:
    with pytest.raises(NotFittedError, match="has not been fitted") as caught:
        model.predict(X)
    assert isinstance(caught.value, SklearnNotFittedError)
    for call in (lambda: ens_plugin.analyze(model, X, Y), lambda: ens_plugin.truncate(model, 3)):
        with pytest.raises(NotFittedError, match=f"This {type(model).__name__} has not been fitted"):
            call()


@pytest.mark.parametrize(
    ("model", "error", "match"),
    [
        (RightSizedClassifier(GradientBoostingClassifier()), UnsupportedModelError, "cannot be grown"),
        (RightSizedClassifier(RandomForestRegressor()), UnsupportedModelError, "use RightSizedRegressor"),
        (RightSizedRegressor(RandomForestClassifier()), UnsupportedModelError, "use RightSizedClassifier"),
        (RightSizedClassifier("forest", random_state=0), UnsupportedModelError, "str cannot be grown"),
        (RightSizedClassifier(max_size=10), InputError, "below the 50 members of the probe"),
        (RightSizedClassifier(tolerance=-1.0), InputError, "tolerance"),
        (RightSizedRegressor(tolerance=-1), InputError, "tolerance"),
    ],
    ids=str,
)
def test_a_refused_fit_leaves_nothing_half_fitted(model: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        model.fit(X, Y)
    assert not [name for name in vars(model) if name.endswith("_")]


def test_a_failed_fit_leaves_what_was_fitted_before() -> None:
    model = deepcopy(fitted())
    with pytest.raises(InputError, match="single label"):
        model.fit(X, np.ones(len(Y)))
    assert_array_equal(model.predict_proba(X), fitted().predict_proba(X))


def test_nan_is_for_the_base_to_refuse() -> None:
    broken = np.where(np.eye(*X.shape) > 0, np.nan, X)
    with pytest.raises(ValueError, match="NaN"):
        RightSizedClassifier(BaggingClassifier(LinearSVC())).fit(broken, Y)
    assert RightSizedClassifier(**EASY).fit(broken, Y).n_members_ > 1


def test_methods_are_those_of_the_ensemble() -> None:
    forest, votes = RightSizedClassifier(), RightSizedClassifier(BaggingClassifier(LinearSVC()))
    assert hasattr(forest, "predict_proba")
    assert not hasattr(forest, "decision_function")
    assert hasattr(votes, "decision_function")
    assert not hasattr(RightSizedRegressor(), "predict_proba")


def test_a_pickled_one_predicts_the_same() -> None:
    again = pickle.loads(pickle.dumps(fitted()))
    assert_array_equal(again.predict_proba(X), fitted().predict_proba(X))
    assert again.growth_.history == fitted().growth_.history
    assert again.growth_.model is again.estimator_


def test_weights_are_routed() -> None:
    seen: list[Any] = []

    class Watched(RightSizedClassifier):
        def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
            seen.append(sample_weight)
            return super().fit(X, y, sample_weight)

    with config_context(enable_metadata_routing=True):
        model = Watched(criterion="agreement", tolerance=0.1, random_state=0).set_fit_request(sample_weight=True)
        model.set_score_request(sample_weight=True)
        cross_validate(model, X, Y, cv=2, params={"sample_weight": np.arange(1.0, len(Y) + 1)})
    assert sorted(len(weight) for weight in seen) == [len(Y) // 2, len(Y) // 2 + 1]


def test_analyze_and_truncate_find_the_ensemble() -> None:
    model = fitted()
    assert ens_plugin.analyze(model, X, Y).n_members == model.n_members_
    assert ens_plugin.in_bag(model, X, Y).shape == (model.n_members_, len(Y))
    small = ens_plugin.truncate(model, 5)
    assert isinstance(small, RandomForestClassifier)
    assert len(small.estimators_) == 5
    assert len(model.estimator_.estimators_) == model.n_members_
