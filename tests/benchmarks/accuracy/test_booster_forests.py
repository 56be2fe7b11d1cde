"""The reduced forests of LightGBM and XGBoost against the libraries' own figures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit

pytest.importorskip("lightgbm", reason="LightGBM is not installed: pip install 'ens-plugin[lightgbm]'")
pytest.importorskip("xgboost", reason="xgboost is not installed: pip install xgboost-cpu")

from benchmarks.accuracy.booster_forests import LIBRARIES, fresh_error, scores
from benchmarks.accuracy.few_booster_trees import few_member_plug_in, plug_in_estimate, reference
from benchmarks.shared.forests import Plan
from benchmarks.shared.problems import FORMULAS

SMALL = Plan("twonorm", 150, 80, None, 400, 0, 1)
every_library = pytest.mark.parametrize("library", LIBRARIES)


def booster_of(library: str, plan: Plan) -> tuple[Any, Any, Any, Any]:
    X, y, rng = plan.sample()
    y = y.astype(int)
    return LIBRARIES[library].train(X, y, plan.n_trees, plan.forest_seed()), X, y, rng


@every_library
def test_the_mean_of_all_members_is_the_booster_s_own_prediction(library: str) -> None:
    booster, X, _, _ = booster_of(library, SMALL)
    record = fresh_error(library, Plan.sample, SMALL)
    expected = LIBRARIES[library].predict(booster, X)
    np.testing.assert_allclose(expit(record["outputs"].mean(axis=0)), expected, atol=1e-5)


@every_library
def test_the_fresh_error_is_that_of_the_booster_s_labels(library: str) -> None:
    booster, _, _, rng = booster_of(library, SMALL)
    fresh, fresh_y = FORMULAS["twonorm"].sample(400, rng)
    expected = np.mean(LIBRARIES[library].predict(booster, fresh).round() != fresh_y)
    assert float(fresh_error(library, Plan.sample, SMALL)["fresh"]) == expected


@pytest.mark.fast_cases("twonorm-LightGBM", "twonorm-XGBoost")
@every_library
@pytest.mark.parametrize("problem", ["twonorm", "wine"])
def test_fifty_members_are_the_first_of_all(library: str, problem: str) -> None:
    """With all trees among the few, margins from the outputs are those of the tally."""
    plan = Plan(problem, 150 if problem == "twonorm" else None, 50, None, 0, 0, 0)
    record = scores(library, plan)
    few, everything = few_member_plug_in(record), reference(record)
    np.testing.assert_allclose(few.errors, everything.errors, atol=1e-9)
    assert few.size == everything.size
    longer = scores(library, plan._replace(n_trees=60))
    assert longer["outputs"].shape == record["outputs"].shape
    assert longer["trials"].mean() == pytest.approx(1.2 * record["trials"].mean(), rel=0.05)


def test_plug_in_takes_margins_for_true() -> None:
    estimate = plug_in_estimate(np.array([1.0, -1.0, 2.0, 0.0]), np.array([10.0, 0.0, 0.0, 1.0]))
    # One row always wrong, one a coin, one whose mean margin is normal with mean 1 and deviation 10 / sqrt(1001).
    np.testing.assert_allclose(estimate.errors, [(0.000779 + 1.5) / 4, 1.5 / 4], atol=1e-6)
    assert estimate.size == 20001
