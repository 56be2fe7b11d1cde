"""Bias over repetitions: none for what is unbiased, the published one for the plug-in, little for the fit."""

from __future__ import annotations

import numpy as np
import pytest

from ens_plugin.core.losses import fit_moments, loss_moments
from ens_plugin.papers.wrong_votes import binomial_curve, fit_mixture
from tests.statistical.harness import IN_BAG, PROBLEMS, FloatArray, Problem, repeat, standard_error

pytestmark = pytest.mark.slow

N_ROWS, N_REPEATS = 300, 120
every_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=[problem.name for problem in PROBLEMS])


@every_problem
@pytest.mark.parametrize("n_members", [50, 100, 300])
def test_deconvolved_is_within_half_a_point(problem: Problem, n_members: int) -> None:
    """0.5 error points beyond four standard errors, at every size and at infinity; half the plug-in's RMSE at most
    where that is far off."""
    sizes = np.array([1.0, 11.0, 101.0, 1001.0, np.inf])

    def one(rng: np.random.Generator) -> FloatArray:
        k, n = problem.counts(rng, N_ROWS, n_members)
        return np.array([fit_mixture(k, n).error(sizes), binomial_curve(k, n, sizes)])

    errors = repeat(N_REPEATS, one)
    truth = np.array([problem.true_error(size) for size in sizes])
    bias = errors[:, 0].mean(axis=0) - truth
    assert (np.abs(bias) < 0.005 + 4 * standard_error(errors[:, 0])).all()
    ours, plug_in = np.sqrt(np.mean((errors - truth) ** 2, axis=0))
    assert (ours < plug_in * 1.1 + 0.001).all()


def test_closed_form_is_unbiased_for_skewed_outputs_and_unequal_trials() -> None:
    sizes = np.array([1.0, 5.0, 50.0, 2000.0, np.inf])
    rows = np.random.default_rng(0)
    centre, scale, target = rows.normal(size=N_ROWS), rows.gamma(2.0, size=N_ROWS), rows.normal(size=N_ROWS)
    truth = np.mean((centre - target) ** 2) + np.mean(scale**2) / sizes

    def one(rng: np.random.Generator) -> FloatArray:
        outputs = centre + scale * (rng.exponential(size=(20, N_ROWS)) - 1)
        is_oob = rng.random(outputs.shape) < 1 - IN_BAG
        is_oob[:2] = True
        n = is_oob.sum(axis=0)
        mean = (outputs * is_oob).sum(axis=0) / n
        variance = (((outputs - mean) ** 2) * is_oob).sum(axis=0) / (n - 1)
        fit = fit_moments(loss_moments(mean, variance, n, target))
        return np.asarray(fit.raw_asymptote + fit.member_variance / sizes)

    errors = repeat(2000, one)
    assert (np.abs(errors.mean(axis=0) - truth) < 4 * standard_error(errors)).all()
