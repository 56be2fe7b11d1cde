"""The parts of the model averaging benchmark."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB

from benchmarks.learners.model_averaging import (
    FRESH_ROWS,
    METHODS,
    PROBLEMS,
    ROWS,
    SINGLE,
    Cell,
    gain_claims,
    guessed_shares,
    harm_claims,
    leading_share,
    split_rows,
)
from ens_plugin.papers.model_averaging_2004 import BootstrapModelAveragingClassifier


def cell(problem: str, share: float, losses: list[float]) -> Cell:
    """Errors of 10 % for every method, with `losses` added for joint sums of rows."""
    errors = {method: np.full(len(losses), 10.0) for method in METHODS}
    errors[ROWS] = 10.0 + np.array(losses)
    return Cell(problem, share, 50, 100, errors, {}, np.zeros(len(losses)), np.zeros(len(losses)))


def test_real_splits_share_rows_and_generated_ones_do_not() -> None:
    losses = [1.0, 2.0, 3.0, 2.0]
    plain = np.std(losses, ddof=1) / 2.0
    for problem, factor in (("iris", np.sqrt(1.0 + 4 * 2.0)), ("twonorm", 1.0)):
        one = cell(problem, 0.1, losses)
        gain = one.gain(ROWS)
        np.testing.assert_array_equal(gain, -np.array(losses))
        assert one.standard_error(gain) == pytest.approx(plain * factor)
        assert one.t_value(gain) == pytest.approx(-2.0 / (plain * factor))
        assert one.t_value(gain, corrected=False) == pytest.approx(-2.0 / plain)


def test_a_harmful_cell_misses_its_target() -> None:
    good, bad = cell("twonorm", 0.1, [-1.0, -2.0, 0.5, -1.0]), cell("ringnorm", 0.66, [5.0, 6.0, 5.0, 6.0])
    claims = harm_claims([good, bad])
    assert [claim.met for claim in claims] == [False, False, True, True]
    assert "ringnorm, 66 %" in claims[0].measure
    assert all(claim.met for claim in harm_claims([good]))


def test_gains_are_means_over_data_sets() -> None:
    claims = gain_claims(
        [cell("twonorm", 0.1, [-1.0, -3.0]), cell("iris", 0.1, [1.0, 1.0]), cell("iris", 0.66, [1, 0])]
    )
    assert claims[0].measure.startswith(f"10 % for training, {ROWS}: error below the {SINGLE}")
    assert claims[0].value == pytest.approx(0.5)
    assert claims[0].spread == pytest.approx(0.5)
    assert claims[7].value == pytest.approx(-0.5)


@pytest.mark.parametrize("name", PROBLEMS)
def test_splits_have_the_wanted_rows_and_every_label(name: str) -> None:
    problem = PROBLEMS[name]
    X, y, X_test, y_test = split_rows(problem, problem.n_rows // 10, 0, 1)
    assert len(X) == len(y) == problem.n_rows // 10
    assert len(X_test) == len(y_test) == (FRESH_ROWS if problem.generated else problem.n_rows - len(X))
    assert set(y) == set(y_test)
    other, *_ = split_rows(problem, problem.n_rows // 10, 0, 2)
    assert not np.array_equal(X, other)


def test_leading_share_is_one_where_a_single_model_counts() -> None:
    X, y = load_iris(return_X_y=True)
    model = BootstrapModelAveragingClassifier(GaussianNB(), n_estimators=5, random_state=0).fit(X, y)
    joint = np.array([one.predict_joint_log_proba(X) for one in model.estimators_])
    best = np.exp(joint).sum(axis=0).argmax(axis=1)
    terms = np.exp(joint[:, np.arange(150), best])
    assert leading_share(model, X) == pytest.approx(np.median(terms.max(axis=0) / terms.sum(axis=0)))
    model.estimators_ = [model.estimators_[0]] * 5
    assert leading_share(model, X) == pytest.approx(0.2)


@pytest.mark.slow
def test_guessed_shares_are_bootstrapped_ones() -> None:
    drawn = guessed_shares(50, 0.1, 500, 0)
    assert drawn.mean() == pytest.approx(0.1, abs=0.005)
    assert drawn.std() == pytest.approx(np.sqrt(0.09 / 50), rel=0.08)
    assert np.isin(np.round(drawn * 50, 6), np.arange(51)).all()
