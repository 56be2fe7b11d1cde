"""What truncate promises, for every case that the adapters are tested with."""

from __future__ import annotations

import pickle
from copy import copy, deepcopy
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.ensemble import BaggingRegressor, RandomForestClassifier
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import ens_plugin
from ens_plugin import register_adapter
from ens_plugin.adapters import find_adapter
from ens_plugin.adapters.unwrap import unwrap
from ens_plugin.errors import InputError, NotFittedError, UnsupportedModelError
from tests.adapters.cases import CASES, FRAME, X2, X3, Y2, Y3, for_cases
from tests.adapters.harness import Array, Case, assert_same, frozen
from tests.adapters.test_base import Foreign, ForeignAdapter

# Said of linear trees, rightly, and tested where it belongs.

SIZE = 12

# Spark's forests cannot be truncated; tests/adapters/spark_ml/test_forest.py checks that this is refused.
TRUNCATED = [case for case in CASES if not case.name.startswith("spark")]
every_case = for_cases(TRUNCATED)
one_case_per_adapter = pytest.mark.parametrize(
    "case", list({case.name.split()[0]: case for case in TRUNCATED}.values()), ids=lambda case: case.name
)
of_a_library = for_cases([case for case in TRUNCATED if not case.name.startswith("custom")])


@cache
def truncated(case: Case, size: int = SIZE) -> Case:
    """The case of the truncated model."""
    small = ens_plugin.truncate(case.model, size)
    return replace(case, fit=lambda: small)


@cache
def bags(case: Case) -> Array:
    """In-bag indicator, shape (trees of one member, n_members, n_rows)."""
    known = ens_plugin.in_bag(case.model, case.X, case.y)
    return known.reshape(-1, case.adapter.n_members, case.n_rows)


@of_a_library
def test_prediction_is_the_average_of_the_first_members(case: Case) -> None:
    # Summed in their order, as scikit-learn does it: equal to the bit.
    mean = sum(case.numeric_outputs()[:SIZE]) / SIZE
    assert_same(case.predict(truncated(case).model, case.X), case.adapter.inverse_link(mean), case.tolerance)


@every_case
def test_members_and_bags_are_the_first_ones_in_their_order_whether_cut_once_or_twice(case: Case) -> None:
    for small in (truncated(case), truncated(truncated(case, SIZE + 5))):
        assert_same(small.numeric_outputs(), case.numeric_outputs()[:SIZE], case.tolerance)
        np.testing.assert_array_equal(bags(small), bags(case)[:, :SIZE])


@every_case
def test_input_is_not_modified(case: Case) -> None:
    before = frozen(case.model)
    small = ens_plugin.truncate(case.model, SIZE)
    case.predict(small, case.X)
    assert frozen(case.model) == before


@every_case
def test_size_of_all_members_gives_an_equal_copy(case: Case) -> None:
    same = truncated(case, case.adapter.n_members)
    assert unwrap(same.model, case.X)[0] is not case.adapter.model
    assert_same(case.predict(same.model, case.X), case.predict(case.model, case.X), 0.0)
    np.testing.assert_array_equal(bags(same), bags(case))


@one_case_per_adapter
@pytest.mark.parametrize("copied", [deepcopy, lambda model: pickle.loads(pickle.dumps(model))], ids=["copy", "pickle"])
def test_copies_predict_the_same(case: Case, copied: Any) -> None:
    if not case.name.startswith("custom"):
        small = truncated(case).model
        assert_same(case.predict(copied(small), case.X), case.predict(small, case.X), 0.0)


# scikit-learn's warnings, where oob_score is computed from so few members.
@pytest.mark.filterwarnings("ignore:Some inputs do not have OOB scores", "ignore:invalid value:RuntimeWarning")
@of_a_library
def test_parameters_hold_the_size_and_clones_train_as_many(case: Case) -> None:
    whole, _ = unwrap(case.model, case.X)
    small, rows = unwrap(truncated(case).model, case.X)
    if not isinstance(whole, BaseEstimator):  # a Booster
        return
    stated, before = small.get_params(), whole.get_params()
    (changed,) = (name for name in before if repr(stated[name]) != repr(before[name]))
    assert stated[changed] == SIZE
    assert stated.keys() == before.keys()
    assert find_adapter(clone(small).fit(rows, case.y)).n_members == SIZE


@pytest.mark.fast_cases("ExtraTreesClassifier max_depth", "custom estimators", "search of a pipeline")
@one_case_per_adapter
def test_analysis_is_that_of_the_first_members_outputs_and_bags(case: Case) -> None:
    adapter = case.adapter
    by_hand = ens_plugin.CustomEnsemble(
        case.numeric_outputs()[:SIZE],
        bags(case)[0, :SIZE],
        aggregation=adapter.info.aggregation,
        classes=adapter.classes,
    )
    expected = ens_plugin.analyze(by_hand, None, case.y)
    report = ens_plugin.analyze(truncated(case).model, case.X, case.y)
    assert report.n_members == SIZE
    assert report.bags == adapter.info.bag_provenance
    np.testing.assert_allclose(report.error_curve.error, expected.error_curve.error, rtol=1e-5)


# ---- wrappers


def forest(n_members: int = 20) -> RandomForestClassifier:
    return RandomForestClassifier(n_members, random_state=0)


def test_pipeline_stays_a_pipeline_and_shares_nothing() -> None:
    pipeline = Pipeline([("scale", StandardScaler()), ("forest", forest())]).fit(FRAME, Y2)
    before = frozen(pipeline)
    small = ens_plugin.truncate(pipeline, 7)
    assert [name for name, _ in small.steps] == ["scale", "forest"]
    assert len(small["forest"].estimators_) == small.get_params()["forest__n_estimators"] == 7
    np.testing.assert_array_equal(
        small.predict_proba(FRAME), ens_plugin.truncate(pipeline[-1], 7).predict_proba(pipeline[:-1].transform(FRAME))
    )
    small.fit(FRAME * 9 + 1, Y2)
    assert frozen(pipeline) == before


def test_search_gives_its_truncated_best_estimator() -> None:
    search = GridSearchCV(forest(), {"max_depth": [2, 4]}, cv=2).fit(X3, Y3)
    small = ens_plugin.truncate(search, 7)
    assert isinstance(small, RandomForestClassifier)
    assert small.max_depth == search.best_estimator_.max_depth
    expected = ens_plugin.truncate(search.best_estimator_, 7)
    np.testing.assert_array_equal(small.predict_proba(X3), expected.predict_proba(X3))


# ---- errors


@pytest.mark.parametrize(
    ("size", "message"),
    [
        (0, "between 1 and 20, the members of this RandomForestClassifier, got 0"), (-3, "got -3"),
        (21, "got 21. .* train more"), (True, "whole number of members, got True; this ensemble has 20"),
        (7.0, r"got 7\.0"), ("7", "got '7'"), (None, "got None"), (np.array([7]), r"got array\(\[7\]\)"),
    ],
)  # fmt: skip
def test_sizes_out_of_range(size: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ens_plugin.truncate(forest().fit(X2, Y2), size)


@pytest.mark.parametrize(
    "model", [forest(), BaggingRegressor(), make_pipeline(StandardScaler(), forest()), GridSearchCV(forest(), {})]
)
def test_unfitted_models(model: Any) -> None:
    with pytest.raises(NotFittedError, match="has not been fitted"):
        ens_plugin.truncate(model, 5)


def test_models_that_are_no_ensemble() -> None:
    with pytest.raises(UnsupportedModelError, match=r"No adapter accepts .*LinearRegression"):
        ens_plugin.truncate(LinearRegression().fit(X2, Y2), 1)


@pytest.mark.usefixtures("registered_adapters")
def test_adapter_without_truncation_says_what_to_implement() -> None:
    register_adapter(ForeignAdapter)
    with pytest.raises(
        UnsupportedModelError,
        match=r"This Foreign cannot be cut .* ForeignAdapter, .*\(ens_plugin\.adapters\.EnsembleAdapter\.truncated\)",
    ):
        ens_plugin.truncate(Foreign(), 1)


@pytest.mark.usefixtures("registered_adapters")
def test_adapter_of_a_third_party_may_truncate() -> None:
    class Cutting(ForeignAdapter):
        def truncated(self, size: int) -> Any:
            part = copy(self.model)
            part.values = self.model.values[:size]
            return part

    register_adapter(Cutting)
    np.testing.assert_array_equal(ens_plugin.truncate(Foreign(), 1).values, [[0, 1, 2]])
