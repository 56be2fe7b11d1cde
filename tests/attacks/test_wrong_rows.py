"""A few of the attacks with wrong rows, on every slow run."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

pytest.importorskip("lightgbm")
pytest.importorskip("xgboost")

from ens_plugin import analyze
from tests.attacks.wrong_rows import Data, Truth, outcome_of, run, true_error


def test_truth_of_squares_is_as_uncertain_as_its_fresh_rows() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2060, 2)), rng.standard_t(3, size=2060)
    data = Data("long tail", X[:60], y[:60], X[60:], y[60:], is_labels=False)
    model = RandomForestRegressor(10, max_depth=1, random_state=0).fit(data.X, data.y)
    truth = true_error(model, data)
    blocks = ((model.predict(data.fresh_X) - data.fresh_y) ** 2).reshape(20, 100).mean(axis=1)
    assert truth.error == pytest.approx(blocks.mean())
    assert truth.sd == pytest.approx(blocks.std(ddof=1) / np.sqrt(20), rel=0.4)


def test_an_error_is_far_from_the_truth_beyond_two_half_widths_and_what_the_truth_leaves_open() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(460, 2)), rng.normal(size=460)
    model = RandomForestRegressor(10, random_state=0).fit(X[:60], y[:60])
    curve = analyze(model, X[60:], y[60:], data="holdout").error_curve
    place = curve.sizes.tolist().index(10)
    error, half = float(curve.error[place]), float(curve.upper[place] - curve.lower[place]) / 2

    def outcome(distance: float, sd: float) -> str:
        return outcome_of(model, X[60:], y[60:], "holdout", Truth(error + distance, sd))[0]

    assert outcome(1.9 * half, 0.0) == "harmless"
    assert outcome(2.5 * half, 0.0) == "past"
    assert outcome(2.5 * half, 0.3 * half) == "harmless"
    assert outcome(2.5 * half, 0.2 * half) == "past"


@pytest.mark.slow
def test_no_wrong_rows_get_past() -> None:
    trials = run(60, 5)
    assert [trial for trial in trials if trial.outcome in ("past", "foreign")] == []
