"""Coverage: how often intervals hold what they are intervals of, over simulated samples of rows."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import ArrayLike

from ens_plugin.analysis.labels import agreement_law, curve_sizes
from ens_plugin.core.error_curve import recommended_size
from ens_plugin.core.intervals import wilson_interval
from ens_plugin.core.label_draws import LabelDraws
from ens_plugin.core.label_shares import LabelRecord
from ens_plugin.core.losses import fit_moments, loss_moments
from tests.records import drawn
from tests.statistical.harness import PROBLEMS, FloatArray, Problem, repeat

pytestmark = pytest.mark.slow

N_ROWS, N_REPEATS = 300, 200


def draws_of_counts(wrong: ArrayLike, trials: ArrayLike) -> LabelDraws:
    """Draws for rows of the first of two labels with so many wrong votes each."""
    k, n = np.asarray(wrong, dtype=np.float64), np.asarray(trials, dtype=np.float64)
    record = LabelRecord(np.column_stack([n - k, k]), n, np.zeros(n.size, dtype=np.int64), np.ones(n.size))
    return drawn(record)


every_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=[problem.name for problem in PROBLEMS])


@every_problem
@pytest.mark.parametrize("n_members", [50, 200])
def test_data_interval_covers_the_error_on_fresh_rows(problem: Problem, n_members: int) -> None:
    """Nominal coverage is 95 %; every cell must have at least 91 % in 200 repetitions."""
    sizes = np.array([n_members + 1.0, np.inf])
    truth = np.array([problem.true_error(size) for size in sizes])

    def one(rng: np.random.Generator) -> FloatArray:
        draws = draws_of_counts(*problem.counts(rng, N_ROWS, n_members))
        errors = draws.errors(sizes)
        lower, upper = wilson_interval(draws.mean(errors), draws.sd(errors), N_ROWS, 0.95)
        return np.asarray((lower <= truth) & (truth <= upper), dtype=np.float64)

    coverage = repeat(N_REPEATS, one).mean(axis=0)
    assert (coverage >= 0.91).all()


@every_problem
@pytest.mark.parametrize("n_members", [50, 200])
def test_size_interval_covers_the_size_of_the_rows_at_hand(problem: Problem, n_members: int) -> None:
    """95 % nominal; the reference is T* of these very rows' true probabilities. At least 86 % in 100 repetitions."""

    def one(rng: np.random.Generator) -> FloatArray:
        p = problem.draw(rng, N_ROWS)
        n = np.maximum(rng.binomial(n_members, 0.368, N_ROWS), 1)
        reference = recommended_size(p) or np.inf
        law = agreement_law(draws_of_counts(rng.binomial(n, p), n), curve_sizes(20001, n_members), 0)
        low, high = law.size_interval(0.01, 20001, 0.95)
        return np.array([low <= reference <= (np.inf if high is None else high)], dtype=np.float64)

    assert repeat(100, one).mean() >= 0.86


def test_regression_interval_covers_the_error_on_fresh_rows() -> None:
    truth = 1.5 + 0.8 / np.array([1.0, 20.0, np.inf])

    def one(rng: np.random.Generator) -> FloatArray:
        bias = np.sqrt(1.5) * rng.normal(size=N_ROWS)
        outputs = bias + np.sqrt(0.8) * rng.normal(size=(20, N_ROWS))
        mean, variance = outputs.mean(axis=0), outputs.var(axis=0, ddof=1)
        fit = fit_moments(loss_moments(mean, variance, [20] * N_ROWS, np.zeros(N_ROWS)))
        lower, upper = fit.interval([1, 20, np.inf], 0.95)
        return np.asarray((lower <= truth) & (truth <= upper), dtype=np.float64)

    coverage = repeat(1000, one).mean(axis=0)
    np.testing.assert_allclose(coverage, 0.95, atol=4 * np.sqrt(0.95 * 0.05 / 1000))
