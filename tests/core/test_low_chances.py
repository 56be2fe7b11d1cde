"""Rows whose label few members give a probability above 0: against binomial sums and simulated rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import betabinom, binom

from ens_plugin.core.label_chances import CLIPPED_LOSS, LowChances, fit_low_chances, is_low
from tests.forests import Array


def drawn(power: float, n_rows: int, seed: int = 0) -> tuple[Array, Array, Array]:
    """Chances whose density is a power of them, counts of 28 to 47 members, and these numbers; of low rows alone."""
    rng = np.random.default_rng(seed)
    chance, trials = rng.beta(power, 1.0, n_rows), rng.integers(28, 48, n_rows).astype(float)
    positive = rng.binomial(trials.astype(int), chance).astype(float)
    low = is_low(positive, trials)
    return chance[low], positive[low], trials[low]


@pytest.mark.parametrize("power", [0.3, 1.0, 2.0])
def test_expected_zeros_are_those_of_the_chances(power: float) -> None:
    chance, positive, trials = drawn(power, 1_000_000)
    found = fit_low_chances(positive, trials).zero_chances([40, 100]).sum(axis=1)
    exact = [np.sum((1.0 - chance) ** size) for size in (40, 100)]
    np.testing.assert_allclose(found, exact, rtol=0.15)


@pytest.mark.parametrize("power", [0.3, 1.0, 2.0])
def test_expected_log_losses_are_those_of_the_chances(power: float) -> None:
    chance, positive, trials = drawn(power, 100_000)
    found = fit_low_chances(positive, trials).log_losses([60, 500, np.inf]).mean(axis=(0, 2))
    exact = [*(binomial_loss(chance, size) for size in (60, 500)), np.minimum(-np.log(chance), CLIPPED_LOSS).mean()]
    np.testing.assert_allclose(found, exact, rtol=0.02)


def binomial_loss(chance: Array, size: int) -> float:
    """The clipped log loss of ensembles of a size, by the sum over their counts."""
    losses = np.append(CLIPPED_LOSS, -np.log(np.arange(1, size + 1) / size))
    grid = np.quantile(chance, (np.arange(2000) + 0.5) / 2000)
    return float((binom.pmf(np.arange(size + 1), size, grid[:, None]) @ losses).mean())


def test_the_loss_of_one_row_is_the_sum_over_the_counts_of_its_posterior() -> None:
    found = LowChances(np.array([1.0]), np.array([40.0]), np.array([0]), np.array([1.5]))
    counts = np.arange(201)
    share = betabinom.pmf(counts, 200, 2.5, 40.0)
    exact = share @ np.append(CLIPPED_LOSS, -np.log(counts[1:] / 200))
    assert found.log_losses([200.0])[0, 0, 0] == pytest.approx(exact, abs=0.01)
    assert found.zero_chances([200.0])[0, 0] == pytest.approx(share[0], rel=1e-9)


def test_few_rows_leave_the_power_open_and_many_do_not() -> None:
    few, many = (np.ptp(fit_low_chances(*drawn(1.0, n_rows)[1:]).powers) for n_rows in (60, 20_000))
    assert few > 5.0 * many


def test_of_a_handful_of_members_hardly_a_row_is_low() -> None:
    assert is_low(np.array([0.0, 1.0, 1.0, 5.0, 6.0]), np.array([3.0, 6.0, 7.0, 35.0, 300.0])).tolist() == [
        True, False, True, True, False,
    ]  # fmt: skip
