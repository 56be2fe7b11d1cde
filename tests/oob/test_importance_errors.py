"""Standard errors of the permutation importance, exactly and in repeated simulation."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import log_loss

import ens_plugin
from ens_plugin import oob_permutation_importance
from tests.oob.importances import NAMES, X3, Y3, Array, N, X, Y, in_bag_of, orders, values_of


class TestErrors:
    """Standard errors, weights, groups and metrics."""

    def test_weights_are_those_of_the_error(self) -> None:
        model = RandomForestRegressor(40, random_state=0).fit(X, Y)
        weight = np.random.default_rng(0).integers(0, 3, N).astype(float)
        kept = np.flatnonzero(weight)
        found = oob_permutation_importance(model, X, Y, sample_weight=weight, n_repeats=1)
        in_bag, members = in_bag_of(model.estimators_samples_), values_of(model.estimators_)

        def error(table: Array) -> float:
            mean = (members(table) * ~in_bag).sum(axis=0) / (~in_bag).sum(axis=0)
            return float(np.average((mean - Y) ** 2, weights=weight))

        changed = X.copy()
        changed[kept, 1] = X[kept[orders(1, 1, kept.size)[0]], 1]
        assert found.importances[1, 0] == pytest.approx(error(changed) - error(X))
        assert found.error == pytest.approx(error(X))
        doubled = oob_permutation_importance(model, X, Y, sample_weight=7 * weight, n_repeats=1)
        np.testing.assert_allclose(doubled.standard_error, found.standard_error)

    def test_groups_leave_out_all_their_rows_and_widen_the_error(self) -> None:
        table, target, groups = np.repeat(X, 2, axis=0), np.repeat(Y, 2), np.repeat(np.arange(N), 2)
        model = RandomForestRegressor(30, max_samples=0.5, random_state=0).fit(table, target)
        grouped = oob_permutation_importance(model, table, target, groups=groups)
        alone = oob_permutation_importance(model, table, target, groups=np.arange(2 * N))
        assert grouped.error > 1.3 * alone.error
        assert grouped.standard_error[3] / grouped.importances_mean[3] > (
            1.2 * alone.standard_error[3] / alone.importances_mean[3]
        )
        identical = oob_permutation_importance(model, table, target, groups="identical")
        np.testing.assert_array_equal(identical.importances, grouped.importances)
        doubted = oob_permutation_importance(model, table, target)
        assert any("look like copies" in warning for warning in doubted.warnings)

    def test_a_metric_sees_mean_probabilities_and_has_no_standard_error(self) -> None:
        model = RandomForestClassifier(30, max_depth=2, random_state=0).fit(X3, NAMES[Y3])

        def loss(y: Array, mean: Array) -> float:
            return float(log_loss(y, mean / mean.sum(axis=1, keepdims=True), labels=model.classes_))

        found = oob_permutation_importance(model, X3, NAMES[Y3], metric=loss, n_repeats=2)
        stored = RandomForestClassifier(30, max_depth=2, oob_score=True, random_state=0).fit(X3, NAMES[Y3])
        assert found.error == pytest.approx(loss(NAMES[Y3], stored.oob_decision_function_))
        assert np.isnan(found.standard_error).all()
        assert found.importances_mean.max() > 0.05
        squared = oob_permutation_importance(
            RandomForestRegressor(30, random_state=0).fit(X, Y), X, Y, metric=lambda y, mean: np.mean((y - mean) ** 2)
        )
        plain = oob_permutation_importance(RandomForestRegressor(30, random_state=0).fit(X, Y), X, Y)
        np.testing.assert_allclose(squared.importances, plain.importances)

    def test_threads_and_seeds(self) -> None:
        model = RandomForestClassifier(20, random_state=0).fit(X3, Y3)
        one, two = (oob_permutation_importance(model, X3, Y3, n_jobs=n_jobs).importances for n_jobs in (1, 2))
        np.testing.assert_array_equal(one, two)
        assert (one != oob_permutation_importance(model, X3, Y3, random_state=1).importances).any()
        assert oob_permutation_importance(model, X3, Y3, max_rows=40).n_rows == 40


@pytest.mark.slow
def test_standard_errors_are_those_over_draws_of_rows_that_members_never_met() -> None:
    """One forest, 300 draws of fresh rows: in no bag, they are judged as out-of-bag rows are."""
    table, target = make_friedman1(200, n_features=6, noise=1.0, random_state=0)
    trees = RandomForestRegressor(8, random_state=0).fit(table, target).estimators_
    found, errors = [], []
    for seed in range(1, 301):
        fresh, values = make_friedman1(100, n_features=6, noise=1.0, random_state=seed)
        ensemble = ens_plugin.CustomEnsemble.from_estimators(trees, np.zeros((8, 100), dtype=bool))
        result = oob_permutation_importance(ensemble, fresh, values, n_repeats=3)
        found.append(result.importances_mean)
        errors.append(result.standard_error)
    ratio = np.sqrt(np.mean(np.square(errors), axis=0)) / np.std(found, axis=0)
    print("standard error over spread, by column:", ratio.round(2))
    assert (np.abs(ratio[:5] - 1) < 0.15).all()
    assert (ratio > 0.85).all()
