from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.ensemble import BaggingClassifier, BaggingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from ens_plugin.adapters import find_adapter
from ens_plugin.adapters.sklearn.bagging import SklearnBaggingAdapter
from ens_plugin.errors import BagError, DataMismatchError, InputError, NotFittedError, UnsupportedModelError
from tests.adapters.cases import WITH_NAN, X2, X3, XR, Y2, Y3, YR


def bags_for(model: Any, X: Any, y: Any) -> Any:
    adapter = SklearnBaggingAdapter(model)
    return adapter.bags(X, adapter.prepare(X), y)


def test_members_decide_the_rule() -> None:
    class Voter(KNeighborsClassifier):  # type: ignore[misc]
        predict_proba = property()

    for base, aggregation, kind in [
        (None, "mean_proba", "labels"),
        (DecisionTreeClassifier(max_depth=2), "mean_proba", "probabilities"),
        (KNeighborsClassifier(), "mean_proba", "probabilities"),
        (Voter(), "vote", "labels"),
    ]:
        adapter = SklearnBaggingAdapter(BaggingClassifier(base, 5, random_state=0).fit(X3, Y3))
        assert (adapter.info.aggregation, adapter.output_kind) == (aggregation, kind)


def test_label_absent_from_a_bag_gets_probability_zero() -> None:
    y = np.array(["common"] * 30 + ["rare"] * 2 + ["usual"] * 30)
    X = np.arange(62.0)[:, None]
    model = BaggingClassifier(KNeighborsClassifier(1), 20, random_state=0).fit(X, y)
    assert {len(member.classes_) for member in model.estimators_} == {2, 3}
    adapter = SklearnBaggingAdapter(model)
    outputs = adapter.outputs(adapter.prepare(X))
    np.testing.assert_array_equal(outputs.mean(axis=0), model.predict_proba(X))


def test_no_row_out_of_bag_needs_holdout_rows() -> None:
    model = BaggingClassifier(n_estimators=5, bootstrap=False, max_features=0.5, random_state=0).fit(X2, Y2)
    with pytest.raises(BagError, match='data="holdout"'):
        bags_for(model, X2, Y2)


@pytest.mark.parametrize("base", [None, LinearRegression()])
def test_several_outputs_are_not_covered(base: Any) -> None:
    model = BaggingRegressor(base, 5, random_state=0).fit(XR, np.stack([YR, YR], axis=1))

    def predict() -> None:
        adapter = find_adapter(model)
        adapter.outputs(adapter.prepare(XR))

    with pytest.raises(UnsupportedModelError, match="predicts 2 outputs"):
        predict()


def test_unfitted() -> None:
    with pytest.raises(NotFittedError, match="BaggingRegressor has not been fitted"):
        find_adapter(BaggingRegressor())


def test_subclass_with_bags_of_its_own_is_refused() -> None:
    class Balanced(BaggingClassifier):  # type: ignore[misc]
        @property
        def estimators_samples_(self) -> list[Any]:
            return []

    with pytest.raises(UnsupportedModelError, match="replaces estimators_samples_"):
        find_adapter(Balanced(n_estimators=5, random_state=0).fit(X2, Y2))


def test_other_number_of_rows_is_refused_without_trees_too() -> None:
    model = BaggingClassifier(KNeighborsClassifier(), 5, max_samples=0.3, random_state=0).fit(X2, Y2)
    with pytest.raises(DataMismatchError, match="trained on 160"):
        bags_for(model, X2[:-1], Y2[:-1])


def test_nan_is_refused_where_members_refuse_it() -> None:
    model = BaggingClassifier(KNeighborsClassifier(), 5, random_state=0).fit(X2, Y2)
    rows = np.flatnonzero(np.isnan(WITH_NAN).any(axis=1))
    counted = (
        rf"{rows.size} of 160 rows of X hold NaN as float64 \(row {rows[0]} is the first\), which the model refuses"
    )
    for X in (WITH_NAN, csr_matrix(WITH_NAN)):
        with pytest.raises(InputError, match=counted):
            SklearnBaggingAdapter(model).prepare(X)


def test_a_member_trained_on_all_rows_does_not_stop_the_others() -> None:
    model = BaggingClassifier(KNeighborsClassifier(1), n_estimators=3, random_state=0).fit(X2, Y2)
    adapter = SklearnBaggingAdapter(model)
    features = adapter.prepare(X2)[:5]
    wanted = np.array([[False] * 5, [True] * 5, [False, False, True, False, False]])
    outputs, whole = adapter.outputs(features, wanted=wanted), adapter.outputs(features)
    np.testing.assert_array_equal(outputs[wanted], whole[wanted])
