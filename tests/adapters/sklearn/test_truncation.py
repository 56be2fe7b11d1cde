"""Truncated scikit-learn ensembles, compared with smaller trainings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, BaggingRegressor, ExtraTreesRegressor, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import ens_plugin
from ens_plugin.errors import BagError
from tests.adapters.cases import X3, XR, Y3, YR
from tests.adapters.harness import frozen

GROWN, SIZE = 30, 16
SUBSETS = {"max_features": 0.5, "max_samples": 0.7}
MODELS = [
    (RandomForestClassifier(random_state=1), X3, Y3),
    (ExtraTreesRegressor(bootstrap=True, random_state=1), XR, YR),
    (BaggingClassifier(DecisionTreeClassifier(max_depth=4), random_state=1, **SUBSETS), X3, Y3),
    (BaggingRegressor(random_state=1, **SUBSETS), XR, YR),
]

every_model = pytest.mark.parametrize(("model", "X", "y"), MODELS, ids=lambda value: type(value).__name__)


def trained(model: Any, X: Any, y: Any, n_members: int = GROWN, **options: Any) -> Any:
    return clone(model).set_params(n_estimators=n_members, **options).fit(X, y)


def sizes(model: Any) -> dict[str, int]:
    """Length of every fitted attribute that has one."""
    return {name: len(value) for name, value in vars(model).items() if isinstance(value, (list, np.ndarray))}


@every_model
def test_truncated_is_what_training_fewer_would_have_given(model: Any, X: Any, y: Any) -> None:
    small = ens_plugin.truncate(trained(model, X, y), SIZE)
    fewer = trained(model, X, y, SIZE)
    assert repr(small.get_params()) == repr(fewer.get_params())
    assert vars(small).keys() == vars(fewer).keys()
    np.testing.assert_array_equal(small.predict(X), fewer.predict(X))
    assert sizes(small) == sizes(fewer)
    for mine, theirs in zip(small.estimators_samples_, fewer.estimators_samples_, strict=True):
        np.testing.assert_array_equal(mine, theirs)


@every_model
def test_grown_again_by_warm_start_it_is_the_whole(model: Any, X: Any, y: Any) -> None:
    whole = trained(model, X, y)
    small = ens_plugin.truncate(whole, SIZE)
    before = frozen(whole)
    again = small.set_params(n_estimators=GROWN, warm_start=True).fit(X, y)
    np.testing.assert_array_equal(again.predict(X), whole.predict(X))
    assert frozen(whole) == before


@every_model
def test_nothing_is_shared(model: Any, X: Any, y: Any) -> None:
    whole = trained(model, X, y)
    before = frozen(whole)
    for member in ens_plugin.truncate(whole, SIZE).estimators_:
        member.tree_.value[:] = -1.0
    assert frozen(whole) == before


@every_model
def test_out_of_bag_results_of_all_members_do_not_stay(model: Any, X: Any, y: Any) -> None:
    whole = trained(model, X, y, oob_score=True)
    stored = {name for name in vars(whole) if name.startswith("oob_") and name.endswith("_")}
    assert len(stored) == 2
    small = ens_plugin.truncate(whole, SIZE)
    assert vars(whole).keys() - vars(small).keys() == stored
    assert small.oob_score is True
    assert ens_plugin.analyze(small, X, y).n_members == SIZE


@every_model
def test_out_of_bag_results_stay_where_no_member_is_left_out(model: Any, X: Any, y: Any) -> None:
    whole = trained(model, X, y, oob_score=True)
    assert ens_plugin.truncate(whole, GROWN).oob_score_ == whole.oob_score_


def test_parameters_out_of_the_constructor_s_reach() -> None:
    class Shallow(RandomForestClassifier):  # type: ignore[misc]
        def __init__(self, max_depth: int = 3) -> None:
            super().__init__(GROWN, max_depth=max_depth, random_state=0)

    small = ens_plugin.truncate(Shallow().fit(X3, Y3), SIZE)
    assert type(small) is Shallow
    assert small.n_estimators == len(small.estimators_) == SIZE


@pytest.mark.parametrize(("size", "known"), [(5, 0), (10, 0), (13, 3)])
def test_seeds_lost_by_a_warm_start_stay_lost(size: int, known: int) -> None:
    # The ten seeds that are left belong to the last ten members: they must not pass for those of the first.
    whole = BaggingClassifier(n_estimators=10, warm_start=True, random_state=0).fit(X3, Y3)
    whole.set_params(n_estimators=20).fit(X3, Y3)
    small = ens_plugin.truncate(whole, size)
    np.testing.assert_array_equal(small._seeds, whole._seeds[:known])
    with pytest.raises(BagError, match=f"has {size} members, but scikit-learn kept the seeds of the last"):
        ens_plugin.in_bag(small, X3, Y3)
