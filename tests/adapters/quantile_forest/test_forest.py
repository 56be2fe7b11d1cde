"""quantile-forest's forests, by the mean that they predict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ens_plugin
from ens_plugin.errors import BagError, UnsupportedModelError
from ens_plugin.testing import check_adapter
from tests.adapters.brute_force import oob_means
from tests.extras import imported

imported("quantile_forest")
from quantile_forest import ExtraTreesQuantileRegressor, RandomForestQuantileRegressor  # noqa: E402

# Slow, so that they are run where .ci/run has installed the library.
pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)
X = RNG.normal(size=(250, 5))
Y = X[:, 0] + RNG.normal(size=250)
BASE: dict[str, Any] = {"n_estimators": 30, "random_state": 0}
FORMS = {
    "default": RandomForestQuantileRegressor(**BASE),
    "larger leaves": RandomForestQuantileRegressor(min_samples_leaf=5, **BASE),
    "three values of a leaf": RandomForestQuantileRegressor(min_samples_leaf=8, max_samples_leaf=3, **BASE),
    "extra trees": ExtraTreesQuantileRegressor(bootstrap=True, default_quantiles=[0.1, 0.5], **BASE),
    "stored scores": RandomForestQuantileRegressor(oob_score=True, min_samples_leaf=5, **BASE),
    "monotonic": RandomForestQuantileRegressor(monotonic_cst=[1, 0, 0, 0, 0], max_depth=4, **BASE),
}


def predicted_mean(forest: Any, X: Any) -> Any:
    return forest.predict(X, quantiles="mean")


@pytest.mark.parametrize("name", FORMS)
def test_the_contract(name: str) -> None:
    forest = FORMS[name].fit(X, Y)
    promises = check_adapter(
        forest, X, Y,
        samples=lambda forest: forest.estimators_samples_,
        predict=predicted_mean, tolerance=1e-12, proves_target=name != "monotonic",
    )  # fmt: skip
    assert len(promises) == 17 - (name == "monotonic")


@pytest.mark.parametrize("name", ["default", "larger leaves"])
def test_out_of_bag_predictions_are_those_of_brute_force(name: str) -> None:
    """A tree's own value of a row: the mean of a forest of that tree alone, from the library's predict."""
    forest = FORMS[name].fit(X, Y)

    def by_one_tree(member: int, X: Any) -> Any:
        # A single training value stands in every leaf: that with the position which the library keeps.
        leaves = forest.apply(X)[:, member]
        position = np.asarray(forest.forest_.y_train_leaves)[member, leaves, 0, 0]
        return np.sort(Y)[position - 1]

    mean, count = oob_means(forest.estimators_samples_, by_one_tree, X)
    found = ens_plugin.oob_predictions(forest.set_params(default_quantiles="mean"), X, Y)
    np.testing.assert_array_equal(found.n_members, count)
    np.testing.assert_allclose(found.values, mean, rtol=0, atol=1e-12, equal_nan=True)
    own = forest.predict(X, quantiles="mean", oob_score=True)
    np.testing.assert_allclose(found.values, own, rtol=0, atol=1e-12)


@pytest.mark.parametrize("default", [None, 0.5, [0.5], [0.1, 0.9], "mean"])
def test_what_is_of_the_mean_is_not_given_as_what_the_forest_predicts(default: Any) -> None:
    """Predictions are refused with the two ways; figures carry a note; after the mean is chosen, there is neither."""
    forest = RandomForestQuantileRegressor(default_quantiles=default, **BASE).fit(X, Y)
    is_mean = default == "mean"
    report = ens_plugin.analyze(forest, X, Y)
    assert any("Quantiles are not means over the members" in warning for warning in report.warnings) == (not is_mean)
    importance = ens_plugin.oob_permutation_importance(forest, X, Y)
    assert any("returns quantiles" in warning for warning in importance.warnings) == (not is_mean)
    if not is_mean:
        ways = r"set_params\(default_quantiles='mean'\).*quantile_at\(forest, 0\.[15]\)"
        with pytest.raises(UnsupportedModelError, match=ways):
            ens_plugin.oob_predictions(forest, X, Y)
        with pytest.raises(UnsupportedModelError, match=ways):
            ens_plugin.predict_with_uncertainty(forest, X, Y, X[:5])
        forest.set_params(default_quantiles="mean")
    own = forest.predict(X, oob_score=True)
    np.testing.assert_allclose(ens_plugin.oob_predictions(forest, X, Y).values, own, rtol=0, atol=1e-12)
    found = ens_plugin.predict_with_uncertainty(forest, X, Y, X[:5])
    np.testing.assert_allclose(found.prediction, forest.predict(X[:5]), rtol=1e-12)


def test_pooled_leaves_are_refused() -> None:
    for kept in ({"max_samples_leaf": None, "min_samples_leaf": 5}, {"max_samples_leaf": 2, "max_leaf_nodes": 250}):
        forest = RandomForestQuantileRegressor(**kept, **BASE).fit(X, Y)
        with pytest.raises(UnsupportedModelError, match=r"larger leaves count more.*max_samples_leaf=1, the default"):
            ens_plugin.analyze(forest, X, Y)


def test_without_bootstrap_there_are_no_bags() -> None:
    with pytest.raises(BagError, match="without bootstrap"):
        ens_plugin.analyze(ExtraTreesQuantileRegressor(**BASE).fit(X, Y), X, Y)


def test_truncation_is_refused_with_what_to_do() -> None:
    with pytest.raises(UnsupportedModelError, match="Train one with n_estimators=10"):
        ens_plugin.truncate(FORMS["default"].fit(X, Y), 10)


def test_a_forest_trained_at_a_smaller_size_has_the_first_trees() -> None:
    small = RandomForestQuantileRegressor(n_estimators=10, random_state=0).fit(X, Y)
    whole = FORMS["default"].fit(X, Y)
    np.testing.assert_array_equal(small.apply(X), whole.apply(X)[:, :10])


def test_grow() -> None:
    growth = ens_plugin.grow(RandomForestQuantileRegressor(random_state=0), X, Y, probe_size=50, max_size=400)
    assert growth.model.n_estimators == growth.n_members
