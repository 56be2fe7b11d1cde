from __future__ import annotations

import pickle
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


class TestFit:
    def test_is_what_grow_gives(self) -> None:
        model = RightSizedClassifier(
            ExtraTreesClassifier(bootstrap=True), criterion="agreement", tolerance=0.02, random_state=3
        ).fit(X, Y)
        growth = grow(ExtraTreesClassifier(bootstrap=True, random_state=3), X, Y, criterion="agreement", tolerance=0.02)
        assert model.n_members_ == growth.n_members == len(model.estimator_.estimators_)
        assert model.growth_.model is model.estimator_
        assert_array_equal(model.predict_proba(X), growth.model.predict_proba(X))
        with np.errstate(divide="ignore"):
            assert_array_equal(model.predict_log_proba(X), growth.model.predict_log_proba(X))
        assert_array_equal(model.predict(X), growth.model.predict(X))
        assert_array_equal(model.classes_, [0, 1])

    @pytest.mark.slow
    def test_every_option_reaches_grow(self) -> None:
        model = RightSizedClassifier(probe_size=15, max_size=17, criterion="agreement", tolerance=0.001, random_state=0)
        with pytest.warns(NotConvergedWarning, match="max_size=17"):
            model.fit(X, Y)
        assert [step.n_members for step in model.growth_.history] == [15, 17]
        rows, target = load_diabetes(return_X_y=True)
        sizes = [
            RightSizedRegressor(tolerance=share, random_state=0).fit(rows, target).n_members_ for share in (0.02, 0.005)
        ]
        assert sizes[0] * 3 < sizes[1]

    def test_weights_count(self) -> None:
        weight = np.where(Y == 0, 3.0, 1.0)
        model = RightSizedClassifier(criterion="agreement", tolerance=0.03, random_state=0).fit(
            X, Y, sample_weight=weight
        )
        growth = grow(
            RandomForestClassifier(random_state=0), X, Y, criterion="agreement", tolerance=0.03, sample_weight=weight
        )
        assert_array_equal(model.predict_proba(X), growth.model.predict_proba(X))


class TestWrongInput:
    @pytest.mark.fast_cases("predict")
    @pytest.mark.parametrize("method", ["predict", "predict_proba", "predict_log_proba"])
    def test_other_columns_are_refused(self, method: str) -> None:
        model = RightSizedClassifier(criterion="agreement", tolerance=0.03, random_state=0).fit(X, Y)
        with pytest.raises(DataMismatchError, match="RightSizedClassifier is expecting"):
            getattr(model, method)(X[:, :3])
        frame = pd.DataFrame(X).add_prefix("column")
        model = RightSizedClassifier(criterion="agreement", tolerance=0.03, random_state=0).fit(frame, Y)
        with pytest.raises(DataMismatchError, match="feature names"):
            getattr(model, method)(frame.rename(columns={"column0": "other"}))

    @pytest.mark.parametrize("model", [RightSizedClassifier(), RightSizedRegressor()], ids=repr)
    def test_unfitted(self, model: Any) -> None:
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
    def test_is_refused_and_nothing_is_half_fitted(self, model: Any, error: type[Exception], match: str) -> None:
        with pytest.raises(error, match=match):
            model.fit(X, Y)
        assert not [name for name in vars(model) if name.endswith("_")]

    def test_a_failed_fit_leaves_what_was_fitted_before(self) -> None:
        model = RightSizedClassifier(criterion="agreement", tolerance=0.03, random_state=0).fit(X, Y)
        before = model.predict_proba(X)
        with pytest.raises(InputError, match="single label"):
            model.fit(X, np.ones(len(Y)))
        assert_array_equal(model.predict_proba(X), before)

    def test_nan_is_for_the_base_to_refuse(self) -> None:
        broken = X.copy()
        broken[0, 0] = np.nan
        with pytest.raises(ValueError, match="NaN"):
            RightSizedClassifier(BaggingClassifier(LinearSVC())).fit(broken, Y)
        assert RightSizedClassifier(criterion="agreement", tolerance=0.03, random_state=0).fit(broken, Y).n_members_ > 1


class TestLikeAnyEstimator:
    def test_methods_are_those_of_the_ensemble(self) -> None:
        forest, votes = RightSizedClassifier(), RightSizedClassifier(BaggingClassifier(LinearSVC()))
        assert hasattr(forest, "predict_proba")
        assert not hasattr(forest, "decision_function")
        assert hasattr(votes, "decision_function")
        assert not hasattr(RightSizedRegressor(), "predict_proba")

    def test_pickle(self) -> None:
        model = RightSizedClassifier(criterion="agreement", tolerance=0.03, random_state=0).fit(X, Y)
        again = pickle.loads(pickle.dumps(model))
        assert_array_equal(again.predict_proba(X), model.predict_proba(X))
        assert again.growth_.history == model.growth_.history
        assert again.growth_.model is again.estimator_

    def test_weights_are_routed(self) -> None:
        is_oob: list[Any] = []

        class Watched(RightSizedClassifier):
            def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
                is_oob.append(sample_weight)
                return super().fit(X, y, sample_weight)

        with config_context(enable_metadata_routing=True):
            model = Watched(criterion="agreement", tolerance=0.1, random_state=0).set_fit_request(sample_weight=True)
            model.set_score_request(sample_weight=True)
            cross_validate(model, X, Y, cv=2, params={"sample_weight": np.arange(1.0, len(Y) + 1)})
        assert sorted(len(weight) for weight in is_oob) == [len(Y) // 2, len(Y) // 2 + 1]


class TestUnwrapped:
    @pytest.mark.slow
    def test_analyze_and_truncate_find_the_ensemble(self) -> None:
        model = RightSizedClassifier(criterion="agreement", tolerance=0.007, random_state=0).fit(X, Y)
        assert ens_plugin.analyze(model, X, Y).n_members == model.n_members_
        assert ens_plugin.in_bag(model, X, Y).shape == (model.n_members_, len(Y))
        small = ens_plugin.truncate(model, 5)
        assert isinstance(small, RandomForestClassifier)
        assert len(small.estimators_) == 5
        assert len(model.estimator_.estimators_) == model.n_members_
