from __future__ import annotations

from fractions import Fraction
from math import comb, sqrt

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm, ttest_rel

from ens_plugin.core.comparison import Difference, mean_difference, row_losses, separate_difference, share_difference
from ens_plugin.core.tally import RowBlock, tally_labels, tally_values

RNG = np.random.default_rng(0)
Floats = NDArray[np.float64]


def pairs(both: int, only_candidate: int, only_baseline: int, neither: int) -> tuple[Floats, Floats]:
    candidate = np.repeat([1.0, 1.0, 0.0, 0.0], [both, only_candidate, only_baseline, neither])
    baseline = np.repeat([1.0, 0.0, 1.0, 0.0], [both, only_candidate, only_baseline, neither])
    return candidate, baseline


@pytest.mark.parametrize("n_labels", [2, 3])
@pytest.mark.parametrize("soft", [False, True])
def test_a_rows_loss_is_that_of_its_out_of_bag_members_combined(n_labels: int, soft: bool) -> None:
    outputs = RNG.dirichlet(np.ones(n_labels), (7, 40)) if soft else RNG.integers(0, n_labels, (7, 40))
    is_oob = RNG.random((7, 40)) < 0.4
    is_oob[:, 0] = False
    target = RNG.integers(0, n_labels, 40)
    block = RowBlock(outputs, is_oob, target, n_labels)
    losses = row_losses(tally_labels(block))
    for row in range(40):
        counted = outputs[is_oob[:, row], row]
        support = counted.sum(axis=0) if soft else np.bincount(counted, minlength=n_labels)
        rivals = np.delete(support, target[row])
        if not is_oob[:, row].any():
            expected = np.nan
        elif support[target[row]] == rivals.max():
            expected = 0.5
        else:
            expected = float(support[target[row]] < rivals.max())
        assert losses[row] == pytest.approx(expected, nan_ok=True), row


def test_a_rows_squared_error_is_that_of_the_mean() -> None:
    outputs, is_oob = RNG.normal(size=(5, 20)), RNG.random((5, 20)) < 0.7
    is_oob[:2] = True
    target = RNG.normal(size=20)
    losses = row_losses(tally_values(RowBlock(outputs, is_oob, target, 0)))
    expected = [(outputs[is_oob[:, row], row].mean() - target[row]) ** 2 for row in range(20)]
    np.testing.assert_allclose(losses, expected, rtol=1e-12)


def test_the_interval_of_shares_is_walds_with_half_a_row_in_each_cell() -> None:
    both, only_candidate, only_baseline, neither = 794, 150, 86, 570
    found = share_difference(*pairs(both, only_candidate, only_baseline, neither), 0.95)
    n = both + only_candidate + only_baseline + neither + 2
    b, c = Fraction(2 * only_candidate + 1, 2), Fraction(2 * only_baseline + 1, 2)
    centre = (b - c) / n
    half = norm.ppf(0.975) * sqrt(((b + c) - (b - c) ** 2 / n) / n**2)
    assert found.estimate == pytest.approx(64 / 1600, rel=1e-12)
    assert found.lower == pytest.approx(float(centre) - half, rel=1e-12)
    assert found.upper == pytest.approx(float(centre) + half, rel=1e-12)


@pytest.mark.parametrize(("p", "q"), [(0.1, 0.06), (0.05, 0.05), (0.3, 0.1), (0.02, 0.01)])
def test_the_interval_of_shares_covers(p: float, q: float) -> None:
    """All tables of 60 rows, by their probabilities."""
    n, covered, total = 60, 0.0, 0.0
    for b in range(n + 1):
        for c in range(n + 1 - b):
            probability = comb(n, b) * comb(n - b, c) * p**b * q**c * (1 - p - q) ** (n - b - c)
            if probability > 1e-9:
                found = share_difference(*pairs(0, b, c, n - b - c), 0.95)
                total += probability
                covered += probability * (found.lower <= p - q <= found.upper)
    assert total == pytest.approx(1.0, abs=1e-5)
    assert covered > 0.94


@pytest.mark.parametrize("table", [(0, 0, 0, 30), (0, 30, 0, 0), (0, 0, 30, 0), (3, 1, 0, 0)])
def test_the_interval_of_shares_has_a_width_and_holds_the_estimate(table: tuple[int, int, int, int]) -> None:
    found = share_difference(*pairs(*table), 0.95)
    assert -1.0 <= found.lower <= found.estimate <= found.upper <= 1.0
    assert found.upper - found.lower > 0.02


def test_the_interval_of_means_is_students() -> None:
    candidate, baseline = RNG.gamma(1.0, 2.0, 25), RNG.gamma(1.0, 2.5, 25)
    found = mean_difference(candidate, baseline, 0.9)
    theirs = ttest_rel(candidate, baseline).confidence_interval(0.9)
    assert found.estimate == pytest.approx((candidate - baseline).mean())
    assert (found.lower, found.upper) == pytest.approx((theirs.low, theirs.high), rel=1e-10)


def test_the_interval_of_separate_estimates_is_the_widest_that_theirs_allow() -> None:
    found = separate_difference(Difference(3.0, 2.0, 4.0), Difference(1.0, 0.5, 2.5))
    assert found == Difference(2.0, -0.5, 3.5)
