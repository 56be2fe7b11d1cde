from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binomtest

from ens_plugin.core.intervals import algorithmic_variance, size_interval, wilson_interval

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


class TestWilson:
    @pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
    def test_plain_binomial_case(self, level: float) -> None:
        for wrong, rows in [(0, 50), (1, 50), (25, 50), (50, 50), (37, 1000), (1, 1)]:
            e = wrong / rows
            lower, upper = wilson_interval([e], [np.sqrt(e * (1 - e) / rows)], rows, level)
            expected = binomtest(wrong, rows).proportion_ci(level, method="wilson")
            np.testing.assert_allclose([lower[0], upper[0]], [expected.low, expected.high], atol=1e-12)

    def test_larger_sd_is_fewer_rows(self) -> None:
        e, rows, inflation = 0.2, 400, 2.0
        lower, upper = wilson_interval([e], [inflation * np.sqrt(e * (1 - e) / rows)], rows, 0.95)
        expected = binomtest(20, 100).proportion_ci(0.95, method="wilson")
        np.testing.assert_allclose([lower[0], upper[0]], [expected.low, expected.high], atol=1e-12)

    @given(
        st.integers(0, 10**6).map(lambda e: e / 10**6),
        st.sampled_from([0.0, 1e-6, 0.01, 0.1, 0.5]),
        st.integers(1, 1000),
    )
    def test_interval_holds_the_share_and_stays_a_share(self, e: float, sd: float, rows: int) -> None:
        lower, upper = wilson_interval([e], [sd], rows, 0.95)
        assert 0 <= lower[0] <= e <= upper[0] <= 1


class TestSizeInterval:
    def test_quantiles_are_draws(self) -> None:
        draws = np.arange(1.0, 401.0, 2.0)
        low, high = size_interval(draws, 0.9, 20001)
        assert (low, high) in {(19, 379), (21, 379), (19, 381), (21, 381)}

    def test_upper_end_above_the_largest_size_is_none(self) -> None:
        draws = np.concatenate([np.full(190, 101.0), np.full(10, np.inf)])
        assert size_interval(draws, 0.8, 20001) == (101, 101)
        assert size_interval(draws, 0.95, 20001) == (101, None)

    def test_lower_end_above_the_largest_size_is_that_size(self) -> None:
        """Never a number beyond what was looked at."""
        assert size_interval(np.full(200, np.inf), 0.95, 20001) == (20001, None)


def double_loop(outputs: FloatArray, is_oob: BoolArray, slopes: FloatArray, size: float, *, own_pairs: bool) -> float:
    """The definition: the sum over pairs of rows of w_i w_j C_ij, C over the members that both rows have."""
    counted = is_oob.astype(np.float64)
    values = np.where(is_oob, outputs, 0.0)
    both = counted.T @ counted
    sums = values.T @ counted
    known = both >= 2
    covariance = (values.T @ values - sums * sums.T / np.maximum(both, 1)) / np.maximum(both - 1, 1)
    pairs = np.where(known, np.outer(slopes, slopes) * covariance, 0.0)
    total = pairs.sum() if own_pairs else pairs.sum() - np.trace(pairs)
    return float(total / (slopes.size**2 * size))


def correlated(n_members: int, n_rows: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Outputs whose rows share a few factors, and slopes of one sign mostly."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(n_members, 3))
    outputs = factors @ rng.gamma(2.0, 0.5, size=(3, n_rows)) + rng.normal(size=(n_members, n_rows)) + 5.0
    return outputs, rng.gamma(2.0, size=n_rows)


def own_variances(outputs: FloatArray, is_oob: BoolArray, slopes: FloatArray, size: float) -> FloatArray:
    """Each row's pair with itself under a linear loss: w_i^2 C_ii / B."""
    variances = [outputs[mask, row].var(ddof=1) if mask.sum() > 1 else 0.0 for row, mask in enumerate(is_oob.T)]
    return slopes**2 * np.array(variances) / size


def linear_variance(
    outputs: FloatArray, is_oob: BoolArray, slopes: FloatArray, size: float, n_rows: int, *, own_pairs: bool
) -> float:
    """What the core makes of a linear loss, with a row's own variance or without."""
    own = own_variances(outputs, is_oob, slopes, size) if own_pairs else np.zeros(slopes.size)
    return algorithmic_variance(outputs, is_oob, slopes, own, size, n_rows)


class TestAlgorithmicVariance:
    @pytest.mark.parametrize("own_pairs", [False, True])
    def test_held_out_rows_are_exact(self, own_pairs: bool) -> None:
        outputs, slopes = correlated(15, 12, 0)
        is_oob = np.ones(outputs.shape, dtype=bool)
        ours = linear_variance(outputs, is_oob, slopes, 15, 12, own_pairs=own_pairs)
        expected = double_loop(outputs, is_oob, slopes, 15, own_pairs=own_pairs)
        assert ours == pytest.approx(max(expected, 0.0), rel=1e-10)

    def test_a_small_case_in_rationals(self) -> None:
        """Two rows, three members: C_12 = 1/2, C_11 = 1, C_22 = 1/3; slopes 1 and 2; B = 3."""
        outputs = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 1.0]])
        is_oob = np.ones((3, 2), dtype=bool)
        pairs = 2 * 2 * Fraction(1, 2)
        own = 1 + 4 * Fraction(1, 3)
        ours = linear_variance(outputs, is_oob, np.array([1.0, 2.0]), 3, 2, own_pairs=True)
        assert ours == pytest.approx(float((pairs + own) / 12), rel=1e-12)
        ours = linear_variance(outputs, is_oob, np.array([1.0, 2.0]), 3, 2, own_pairs=False)
        assert ours == pytest.approx(float(pairs / 12), rel=1e-12)

    def test_approximate_pair_counts_are_close_to_the_exact_sum(self) -> None:
        """Out-of-bag pair counts n_i n_j / M instead of the exact ones, at 100 members and 40 rows.

        About 2.5 % of the variance on one data set.  The mean is 1.8 % low, 0.63 / n_i: each row's
        mean is over members of which only a part is common to both rows.
        """
        ours, exact = [], []
        for seed in range(60):
            outputs, slopes = correlated(100, 40, seed)
            is_oob = np.random.default_rng(seed + 1000).random(outputs.shape) < 0.368
            ours.append(linear_variance(outputs, is_oob, slopes, 100, 40, own_pairs=True))
            exact.append(double_loop(outputs, is_oob, slopes, 100, own_pairs=True))
        ratio = np.array(ours) / np.array(exact)
        assert np.mean(ratio) == pytest.approx(1.0, abs=0.03)
        assert np.sqrt(np.mean((ratio - 1) ** 2)) < 0.04

    def test_own_pairs_on_out_of_bag_rows_are_exact(self) -> None:
        """Rows without a common member have no pairs: what is left is the diagonal, to the bit of the definition."""
        rng = np.random.default_rng(0)
        outputs = np.zeros((12, 3))
        is_oob = np.zeros((12, 3), dtype=bool)
        for row in range(3):
            is_oob[4 * row : 4 * row + 4, row] = True
        outputs[is_oob] = rng.normal(size=12)
        slopes = np.array([1.0, 2.0, 0.5])
        variances = np.array([outputs[is_oob[:, row], row].var(ddof=1) for row in range(3)])
        expected = float(slopes**2 @ variances) / (9 * 12)
        assert linear_variance(outputs, is_oob, slopes, 12, 3, own_pairs=True) == pytest.approx(expected, rel=1e-10)

    @pytest.mark.slow
    def test_subset_of_the_rows_estimates_the_sum_over_all(self) -> None:
        outputs, slopes = correlated(40, 60, 2)
        is_oob = np.ones(outputs.shape, dtype=bool)
        whole = linear_variance(outputs, is_oob, slopes, 40, 60, own_pairs=True)
        rng = np.random.default_rng(0)
        parts = []
        for _ in range(1000):
            rows = rng.permutation(60)[:20]
            parts.append(linear_variance(outputs[:, rows], is_oob[:, rows], slopes[rows], 40, 60, own_pairs=True))
        assert np.mean(parts) == pytest.approx(whole, abs=4 * np.std(parts) / np.sqrt(len(parts)))

    @pytest.mark.slow
    def test_truth_over_seeds_of_a_linear_loss(self) -> None:
        """Slopes 1: the loss is the mean output over rows and members, whose variance is known."""
        n_rows, size, repeats = 25, 10, 1500
        rng = np.random.default_rng(3)
        loadings = rng.normal(size=(2, n_rows)) + 0.5
        covariance = loadings.T @ loadings + np.eye(n_rows)
        truth = float(covariance.sum()) / (n_rows**2 * size)
        estimates = []
        for _ in range(repeats):
            outputs = rng.normal(size=(size, 2)) @ loadings + rng.normal(size=(size, n_rows))
            is_oob = np.ones(outputs.shape, dtype=bool)
            estimates.append(linear_variance(outputs, is_oob, np.ones(n_rows), size, n_rows, own_pairs=True))
        assert np.mean(estimates) == pytest.approx(truth, abs=4 * np.std(estimates) / np.sqrt(repeats))

    def test_rows_with_fewer_than_two_members_do_not_count(self) -> None:
        outputs, slopes = correlated(10, 6, 4)
        is_oob = np.ones(outputs.shape, dtype=bool)
        is_oob[1:, 5] = False
        ours = linear_variance(outputs, is_oob, slopes, 10, 6, own_pairs=True)
        expected = double_loop(outputs, is_oob, slopes, 10, own_pairs=True)
        assert ours == pytest.approx(expected, rel=1e-10)

    def test_identical_members_have_none(self) -> None:
        outputs = np.tile(np.arange(5.0), (8, 1))
        is_oob = np.ones((8, 5), dtype=bool)
        assert linear_variance(outputs, is_oob, np.ones(5), 8, 5, own_pairs=True) == 0.0

    def test_variance_is_never_negative(self) -> None:
        """Opposite rows: all that is left after the cut at 0."""
        outputs = np.stack([np.arange(6.0), -np.arange(6.0)], axis=1)
        is_oob = np.ones((6, 2), dtype=bool)
        assert linear_variance(outputs, is_oob, np.ones(2), 6, 2, own_pairs=False) == 0.0


def test_an_error_of_rounding_alone_has_the_interval_of_none() -> None:
    none = wilson_interval([0.0], [0.1], 50, 0.95)[1]
    np.testing.assert_allclose(wilson_interval([3e-17], [0.1], 50, 0.95)[1], none)


@pytest.mark.parametrize("error", [1e-6, 0.01, 0.3, 1.0 - 1e-6])
@pytest.mark.parametrize("sd", [1e-160, 1e-9, 1e-4])
def test_no_interval_is_narrower_than_that_of_all_rows(error: float, sd: float) -> None:
    narrow = wilson_interval([error], [sd], 340, 0.95)
    of_all_rows = wilson_interval([error], [np.sqrt(error * (1.0 - error) / 340)], 340, 0.95)
    assert narrow[0] <= of_all_rows[0] + 1e-12
    assert narrow[1] >= of_all_rows[1] - 1e-12
