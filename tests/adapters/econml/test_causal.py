"""EconML's forests of effects: lists and values by pseudo-values, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.preprocessing import PolynomialFeatures

import ens_plugin
from ens_plugin.adapters.registry import find_adapter
from ens_plugin.errors import DataMismatchError, InputError, NotFittedError, UnsupportedModelError
from ens_plugin.papers.members import held_out_members
from tests.extras import imported

imported("econml")
from econml.dml import CausalForestDML  # noqa: E402
from econml.grf import CausalForest, CausalIVForest, MultiOutputGRF  # noqa: E402

# Slow, so that they are run where .ci/run has installed the library.
pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)
X, FRESH = RNG.normal(size=(250, 5)), RNG.normal(size=(300, 5))
TREATED = RNG.integers(0, 2, 250)
Y = 0.5 * (X[:, 0] + X[:, 1]) * TREATED + RNG.normal(size=250)


def causal(n_trees: int = 80, seed: int = 0, **options: Any) -> Any:
    return CausalForest(n_trees, random_state=seed, n_jobs=1, **options).fit(X, TREATED, Y)


def instrumental(**options: Any) -> Any:
    instrument = TREATED + np.random.default_rng(1).normal(size=250)
    return CausalIVForest(80, random_state=0, **options).fit(X, TREATED, Y, Z=instrument)


def dml(y: Any = Y, **options: Any) -> Any:
    nuisance = {"model_y": LinearRegression(), "model_t": LogisticRegression(l1_ratio=0.0), "discrete_treatment": True}
    return CausalForestDML(**nuisance, n_estimators=80, random_state=0, **options).fit(y, TREATED, X=X)


FORMS: dict[str, Callable[[], Any]] = {
    "default": causal,
    "single trees": lambda: causal(inference=False, honest=False, max_samples=0.8),
    "groups of five, no intercept": lambda: causal(subforest_size=5, fit_intercept=False),
    "heterogeneity": lambda: causal(criterion="het"),
    "instrument": instrumental,
    "instrument, no intercept": lambda: instrumental(fit_intercept=False),
    "subclass": lambda: type("Own", (CausalForest,), {})(80, random_state=0).fit(X, TREATED, Y),
}


def weighted_effect(forest: Any, groups: list[list[int]], weights: Any, rows: Any) -> Any:
    """The effect by the forest's ratio, with a weight for each group of trees."""
    alpha, jacobian = 0.0, 0.0
    for group, weight in zip(groups, weights, strict=True):
        for tree in group:
            own_alpha, own_jacobian = forest.estimators_[tree].predict_alpha_and_jac(rows)
            alpha, jacobian = alpha + weight * own_alpha, jacobian + weight * own_jacobian
    size = forest.n_outputs_
    return np.linalg.solve(np.reshape(jacobian, (-1, size, size)), np.reshape(alpha, (-1, size, 1)))[:, 0, 0]


@pytest.mark.parametrize("name", FORMS)
def test_the_mean_of_pseudo_values_is_the_prediction_and_each_is_a_derivative(name: str) -> None:
    forest, rows = FORMS[name](), FRESH[:40]
    found, predicted = find_adapter(forest).outputs(rows), forest.predict(rows)[:, 0]
    np.testing.assert_allclose(found.mean(axis=0), predicted, rtol=0, atol=1e-10)
    groups = [list(group) for group in forest.slices_] or [[tree] for tree in range(80)]
    assert len(found) == len(groups) == {"groups of five, no intercept": 16, "single trees": 80}.get(name, 20)
    for member in (0, len(groups) - 1):
        # The effect by a member's weight; the differences' own error is of the order of the square of the step.
        step = 1e-5 * np.eye(len(groups))[member]
        ends = [weighted_effect(forest, groups, 1.0 + sign * step, rows) for sign in (1.0, -1.0)]
        rise = (ends[0] - ends[1]) / 2e-5 * len(groups)
        np.testing.assert_allclose(found[member], predicted + rise, rtol=1e-6, atol=1e-6)


def test_lists_and_values_are_those_that_other_seeds_have_in_common() -> None:
    """Eight forests, each pair compared.

    Over seeds and tables, the overlap by one forest is off by .05 (root mean square, docs/methods/lists.md), and the
    mean over the pairs of eight forests by .02: twice both is .11.  The mean of the eight reports is off by .02 and
    .02.
    """
    forests = [causal(160, seed) for seed in range(8)]
    effects = np.array([forest.predict(FRESH)[:, 0] for forest in forests])
    lists = [set(np.argsort(-own)[:40].tolist()) for own in effects]
    true = np.mean([len(one & other) / 40 for one, other in combinations(lists, 2)])
    found = [ens_plugin.agreement(forest, FRESH, top=40).overlap for forest in forests]
    assert 0.6 < true < 0.9
    assert found[0] == pytest.approx(true, abs=0.11)
    assert np.mean(found) == pytest.approx(true, abs=0.06)
    within = float(effects.std(axis=0, ddof=1).mean())
    close = np.mean([np.mean(np.abs(one - other) <= within) for one, other in combinations(effects, 2)])
    reports = [ens_plugin.agreement(forest, FRESH, within=within).overlap for forest in forests]
    assert np.mean(reports) == pytest.approx(close, abs=0.06)


def test_training_rows_have_lists_too_and_groups_are_named() -> None:
    forest = causal()
    found = ens_plugin.agreement(forest, X, top=25)
    assert "20 groups of 4 trees" in " ".join(str(found).split())
    undecided = found.undecided
    np.testing.assert_allclose(undecided["value"], forest.predict(X)[undecided.index, 0], rtol=0, atol=1e-10)


@pytest.mark.parametrize("options", [{}, {"featurizer": PolynomialFeatures(2, include_bias=False)}])
def test_the_forest_inside_of_double_machine_learning_is_read(options: dict[str, Any]) -> None:
    model = dml(**options)
    found = ens_plugin.agreement(model, pd.DataFrame(FRESH), top=30)
    assert (found.model, found.n_members) == ("CausalForest", 20)
    effect = model.effect(FRESH)
    np.testing.assert_allclose(found.undecided["value"], effect[found.undecided.index], rtol=0, atol=1e-10)


REFUSED: dict[str, Callable[[Any], Any]] = {
    "analyze": lambda forest: ens_plugin.analyze(forest, X, Y),
    "held out": lambda forest: ens_plugin.analyze(forest, FRESH, FRESH[:, 0], data="holdout"),
    "in_bag": lambda forest: ens_plugin.in_bag(forest, X),
    "oob_predictions": lambda forest: ens_plugin.oob_predictions(forest, X, Y),
    "importances": lambda forest: ens_plugin.importance_agreement(forest, top=2),
    "permutation": lambda forest: ens_plugin.oob_permutation_importance(forest, X, Y),
    "variance": lambda forest: ens_plugin.training_variance(forest, X, FRESH),
    "uncertainty": lambda forest: ens_plugin.predict_with_uncertainty(forest, X, Y, FRESH),
    "truncate": lambda forest: ens_plugin.truncate(forest, 5),
    "grow": lambda forest: ens_plugin.grow(CausalForest(), X, Y),
    "papers": lambda forest: held_out_members(forest, FRESH, FRESH[:, 0]),
    "costs": lambda forest: ens_plugin.measure_costs(forest, X),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_a_target_or_a_part_of_the_forest_is_refused(name: str) -> None:
    for model in (causal(), dml()):
        with pytest.raises(UnsupportedModelError, match=r"No effect is observed.*agreement\(top=.*agreement\(within="):
            REFUSED[name](model)


def test_other_effects_rows_and_labels_are_refused() -> None:
    with pytest.raises(UnsupportedModelError, match=r"effects of 2 treatments.*Train a forest for each"):
        ens_plugin.agreement(CausalForest(80).fit(X, np.stack([TREATED, X[:, 1]], axis=1), Y), X, top=5)
    with pytest.raises(UnsupportedModelError, match=r"each of 2 outcomes.*model_cate.estimators_\[0\]"):
        ens_plugin.agreement(dml(np.stack([Y, Y], axis=1)), X, top=5)
    for unfitted in (CausalForest(), CausalForestDML(), MultiOutputGRF(CausalForest())):
        with pytest.raises(NotFittedError, match="has not been fitted"):
            ens_plugin.agreement(unfitted, X, top=5)
    with pytest.raises(UnsupportedModelError, match="Pass top"):
        ens_plugin.agreement(causal(), X)
    with pytest.raises(DataMismatchError, match="trained on 5"):
        ens_plugin.agreement(causal(), X[:, 1:], top=5)
    with pytest.raises(InputError, match="NaN"):
        ens_plugin.agreement(causal(), np.where(X > 2, np.nan, X), top=5)
