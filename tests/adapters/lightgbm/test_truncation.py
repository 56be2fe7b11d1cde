"""Truncated LightGBM forests, compared with smaller trainings and with LightGBM's own ``num_iteration``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ens_plugin
from ens_plugin.errors import BagError, InputError, NotFittedError, UnsupportedModelError
from tests.adapters.harness import frozen
from tests.adapters.lightgbm.lightgbm_cases import MIXED, N_TREES, RF, X2, X3, XR, Y2, Y3, YR

lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed: pip install 'ens-plugin[lightgbm]'")

# LightGBM before 4.7 with scikit-learn since 1.6, of models trained on arrays.
pytestmark = pytest.mark.filterwarnings("ignore:X does not have valid feature names")

SIZE = 9
TRAININGS: list[tuple[str, Any, Any, dict[str, Any]]] = [
    ("binary", X2, Y2, {"objective": "binary"}),
    ("multiclass", X3, Y3, {"objective": "multiclass", "num_class": 3}),
    ("regression", XR, YR, {}),
    ("poisson", X3, Y3, {"objective": "poisson"}),
    ("without init score", XR, YR, {"boost_from_average": False}),
    ("categories", MIXED, Y2, {"objective": "binary"}),
    ("linear trees", XR, YR, {"linear_tree": True}),
]

every_training = pytest.mark.parametrize(
    ("X", "y", "options"), [training[1:] for training in TRAININGS], ids=[training[0] for training in TRAININGS]
)


def trained(X: Any, y: Any, n_trees: int = N_TREES, **options: Any) -> Any:
    parameters = {key: value for key, value in {**RF, **options}.items() if key != "n_estimators"}
    return lightgbm.train(parameters, lightgbm.Dataset(X, y), n_trees)


def stopped_early(best: int, **options: Any) -> Any:
    """A model that keeps the trees after its best iteration."""

    def stop(environment: Any) -> None:
        if environment.iteration == N_TREES - 1:
            raise lightgbm.callback.EarlyStopException(best - 1, environment.evaluation_result_list)

    parameters = {key: value for key, value in {**RF, **options}.items() if key != "n_estimators"}
    return lightgbm.train(parameters, lightgbm.Dataset(XR, YR), N_TREES, callbacks=[stop], keep_training_booster=True)


@every_training
def test_text_is_that_of_training_fewer(X: Any, y: Any, options: dict[str, Any]) -> None:
    small = ens_plugin.truncate(trained(X, y, **options), SIZE)
    fewer = trained(X, y, SIZE, **options)
    # The section of parameters states how the model was trained.
    expected = fewer.model_to_string().replace(f"[num_iterations: {SIZE}]", f"[num_iterations: {N_TREES}]")
    assert small.model_to_string() == expected


@every_training
def test_bags_are_known_after_saving(X: Any, y: Any, options: dict[str, Any]) -> None:
    whole = trained(X, y, **options)
    small = lightgbm.Booster(model_str=ens_plugin.truncate(whole, SIZE).model_to_string())
    np.testing.assert_array_equal(ens_plugin.in_bag(small, X, y), ens_plugin.in_bag(whole, X, y)[:SIZE])


def test_model_of_the_scikit_learn_interface_is_that_of_training_fewer() -> None:
    options = {**RF, "importance_type": "gain"}
    whole = lightgbm.LGBMClassifier(**options).fit(X3, Y3)
    small = ens_plugin.truncate(whole, SIZE)
    fewer = lightgbm.LGBMClassifier(**{**options, "n_estimators": SIZE}).fit(X3, Y3)
    assert small.get_params() == fewer.get_params()
    assert small.n_estimators_ == SIZE
    assert small.best_iteration_ == fewer.best_iteration_
    np.testing.assert_array_equal(small.predict_proba(X3), fewer.predict_proba(X3))
    np.testing.assert_array_equal(small.predict(X3, pred_leaf=True), fewer.predict(X3, pred_leaf=True))
    np.testing.assert_array_equal(small.feature_importances_, fewer.feature_importances_)


@pytest.mark.filterwarnings("ignore:The argument 'eval_set' is deprecated")
def test_history_ends_with_the_last_member_kept() -> None:
    evaluated: dict[str, Any] = {"eval_set": [(XR[:50], YR[:50])], "eval_metric": ["l2", "l1"]}
    whole = lightgbm.LGBMRegressor(**RF).fit(XR, YR, **evaluated)
    small = ens_plugin.truncate(whole, SIZE)
    fewer = lightgbm.LGBMRegressor(**{**RF, "n_estimators": SIZE}).fit(XR, YR, **evaluated)
    assert small.evals_result_ == fewer.evals_result_
    assert small.best_score_ == fewer.best_score_
    assert len(whole.evals_result_["valid_0"]["l2"]) == N_TREES


@pytest.mark.filterwarnings("ignore:Found .num_trees. in params")
def test_alias_of_the_number_of_members_follows() -> None:
    options = {key: value for key, value in RF.items() if key != "n_estimators"}
    whole = lightgbm.LGBMRegressor(num_trees=N_TREES, **options).fit(XR, YR)
    before = frozen(whole)
    small = ens_plugin.truncate(whole, SIZE)
    assert small.get_params()["num_trees"] == small.n_estimators == SIZE
    assert frozen(whole) == before


def test_number_of_members_set_after_the_start_follows() -> None:
    model = lightgbm.LGBMClassifier(**RF).set_params(n_estimators=N_TREES).fit(X2, Y2)
    assert ens_plugin.truncate(model, SIZE).get_params()["n_estimators"] == SIZE


def test_members_are_those_up_to_the_best_iteration() -> None:
    whole = stopped_early(12)
    assert (whole.best_iteration, whole.current_iteration()) == (12, N_TREES)
    same = ens_plugin.truncate(whole, 12)
    np.testing.assert_array_equal(same.predict(XR), whole.predict(XR))
    np.testing.assert_array_equal(ens_plugin.truncate(whole, SIZE).predict(XR), whole.predict(XR, num_iteration=SIZE))
    with pytest.raises(InputError, match="between 1 and 12, the members of this Booster, got 13"):
        ens_plugin.truncate(whole, 13)


@pytest.mark.filterwarnings("ignore:The argument 'eval_set' is deprecated")
def test_best_iteration_of_the_whole_does_not_stay() -> None:
    stop = lightgbm.early_stopping(3, verbose=False)
    whole = lightgbm.LGBMRegressor(**RF).fit(XR, YR, eval_set=[(XR[:50], YR[:50])], callbacks=[stop])
    size = whole.best_iteration_ - 1
    assert size > 1
    small = ens_plugin.truncate(whole, size)
    assert small.best_iteration_ == 0
    assert small.best_score_["valid_0"]["l2"] == pytest.approx(np.mean((small.predict(XR[:50]) - YR[:50]) ** 2))


def test_one_member_is_a_model_whose_bag_cannot_be_proved() -> None:
    whole = trained(X2, Y2, num_leaves=2, objective="binary")
    small = ens_plugin.truncate(whole, 1)
    np.testing.assert_array_equal(small.predict(X2), whole.predict(X2, num_iteration=1))
    with pytest.raises(BagError, match="that is no proof"):
        ens_plugin.in_bag(small, X2, Y2)


def test_boosted_trees_are_refused() -> None:
    with pytest.raises(UnsupportedModelError, match="each corrects those before it"):
        ens_plugin.truncate(trained(X2, Y2, boosting_type="gbdt"), SIZE)


def test_unfitted_models() -> None:
    with pytest.raises(NotFittedError, match="This LGBMClassifier has not been fitted"):
        ens_plugin.truncate(lightgbm.LGBMClassifier(boosting_type="rf"), SIZE)
