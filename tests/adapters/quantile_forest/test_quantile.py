"""quantile-forest's forests, by one quantile that they predict."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import mean_pinball_loss

import ens_plugin
from ens_plugin.errors import InputError, UnsupportedModelError
from ens_plugin.testing import check_adapter
from tests.extras import imported

imported("quantile_forest")
from quantile_forest import RandomForestQuantileRegressor  # noqa: E402

from ens_plugin.adapters.quantile_forest import quantile_at  # noqa: E402

# Slow, so that they are run where .ci/run has installed the library.
pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)


def drawn(n_rows: int) -> tuple[Any, Any]:
    rows = RNG.normal(size=(n_rows, 5))
    return rows, rows[:, 0] + RNG.normal(size=n_rows) * (1.0 + rows[:, 1] ** 2)


X, Y = drawn(300)
FRESH, FRESH_Y = drawn(2000)
FOREST = RandomForestQuantileRegressor(n_estimators=80, min_samples_leaf=5, random_state=0)


def test_the_contract() -> None:
    promises = check_adapter(
        quantile_at(FOREST.fit(X, Y), 0.9), X, Y,
        samples=lambda model: model.forest.estimators_samples_,
        # Of the members' values; their quantile is compared below.
        predict=lambda model, rows: model.forest.predict(rows, quantiles="mean"),
        tolerance=1e-12,
    )  # fmt: skip
    # Trees cannot be taken out of the library's table, so nothing is promised of smaller models.
    assert len(promises) == 17


def test_on_held_out_rows_the_loss_is_that_of_the_predicted_quantile() -> None:
    model = quantile_at(FOREST.fit(X, Y), 0.9)
    report = ens_plugin.analyze(model, FRESH, FRESH_Y, data="holdout")
    assert report.error == pytest.approx(mean_pinball_loss(FRESH_Y, model.predict(FRESH), alpha=0.9), rel=1e-12)
    assert report.error_curve.metric == report.bias_variance.loss == "pinball loss of quantile 0.9"
    assert report.aggregation == "quantile"


def test_the_curve_beyond_the_forest_is_that_of_larger_forests() -> None:
    """From 80 trees on fresh rows: the pinball loss at 400 trees, against forests of 400 trees."""
    found = ens_plugin.analyze(quantile_at(FOREST.fit(X, Y), 0.9), FRESH, FRESH_Y, data="holdout", random_state=0)
    truth = []
    for seed in range(1, 9):
        forest = RandomForestQuantileRegressor(n_estimators=400, min_samples_leaf=5, random_state=seed).fit(X, Y)
        truth.append(mean_pinball_loss(FRESH_Y, forest.predict(FRESH, quantiles=0.9), alpha=0.9))
    assert found.error_curve.at(1) > 2.0 * np.mean(truth)
    assert found.error_curve.at(400) == pytest.approx(np.mean(truth), rel=0.015)


def test_weights_of_rows() -> None:
    model = quantile_at(FOREST.fit(X, Y), 0.9)
    weight = np.where(FRESH[:, 1] > 0, 3.0, 1.0)
    report = ens_plugin.analyze(model, FRESH, FRESH_Y, data="holdout", sample_weight=weight)
    expected = mean_pinball_loss(FRESH_Y, model.predict(FRESH), alpha=0.9, sample_weight=weight)
    assert report.error == pytest.approx(expected, rel=1e-12)


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match="no number between 0 and 1"):
        quantile_at(FOREST, 1.0)
    with pytest.raises(UnsupportedModelError, match=r"quantile_at takes a RandomForestQuantileRegressor"):
        ens_plugin.analyze(quantile_at(object(), 0.9), X, Y)
    several = RandomForestQuantileRegressor(20, min_samples_leaf=8, max_samples_leaf=3, random_state=0).fit(X, Y)
    with pytest.raises(UnsupportedModelError, match="Refit with max_samples_leaf=1"):
        ens_plugin.analyze(quantile_at(several, 0.9), X, Y)
    model = quantile_at(FOREST.fit(X, Y), 0.9)
    with pytest.raises(UnsupportedModelError, match=r"does not predict means.*oob_predictions take both"):
        ens_plugin.predict_with_uncertainty(model, X, Y, X[:5])
    with pytest.raises(InputError, match=r"judged by pinball loss of quantile 0\.9"):
        ens_plugin.analyze(model, X, Y, criterion="error")


@pytest.mark.parametrize("quantile", [0.1, 0.5, 0.9])
def test_out_of_bag_quantiles_are_those_of_the_library(quantile: float) -> None:
    forest = FOREST.fit(X, Y)
    found = ens_plugin.oob_predictions(quantile_at(forest, quantile), X, Y)
    np.testing.assert_allclose(found.values, forest.predict(X, quantiles=quantile, oob_score=True), rtol=1e-12)
