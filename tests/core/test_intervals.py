from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom, binomtest

from ens_plugin.core.error_curve import recommended_size
from ens_plugin.core.intervals import (
    algorithmic_variance,
    density_error_sd,
    draw_posteriors,
    posterior_error_sd,
    size_draws,
    size_interval,
    wilson_interval,
)
from ens_plugin.core.row_model import cell_weights, mean_posterior
from ens_plugin.core.votes import Mixture, fit_mixture

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


def counts(n_rows: int, trials: int, seed: int = 0) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    n = np.maximum(rng.binomial(round(trials / 0.368), 0.368, n_rows), 2)
    return rng.binomial(n, rng.beta(0.6, 2.0, n_rows)), n


@pytest.fixture(scope="module")
def model() -> Mixture:
    return fit_mixture(*counts(300, 20))


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


class TestErrorSd:
    """Against the delta method by finite differences of the error in the coefficients."""

    sizes = np.array([1.0, 11.0, 101.0, np.inf])

    def wrong(self, model: Mixture) -> FloatArray:
        tails = [binom.sf((size - 1) / 2, int(size), model.support) for size in self.sizes[:-1]]
        return np.stack([*tails, (model.support > 0.5).astype(np.float64)])

    def laplace(self, model: Mixture, value_at: object) -> FloatArray:
        assert model.density is not None
        a, gradient = model.density.coefficients, []
        for index in range(a.size):
            move = np.zeros(a.size)
            move[index] = 1e-5
            gradient.append((value_at(a + move) - value_at(a - move)) / 2e-5)  # type: ignore[operator]
        h = np.array(gradient).T
        return np.asarray(np.sqrt(np.einsum("si,ij,sj->s", h, model.density.covariance, h)))

    def test_of_the_fitted_density(self, model: Mixture) -> None:
        wrong = self.wrong(model)
        laplace = self.laplace(model, lambda a: wrong @ cell_weights(a))
        e = wrong @ model.weights
        expected = 1.1 * np.maximum(np.sqrt(e * (1 - e) / 300), laplace)
        np.testing.assert_allclose(density_error_sd(model, self.sizes), expected, rtol=1e-5)

    def test_of_the_mean_posterior(self, model: Mixture) -> None:
        wrong = self.wrong(model)
        laplace = self.laplace(model, lambda a: wrong @ mean_posterior(model, cell_weights(a)))
        e = wrong @ model.weights
        expected = 1.1 * np.sqrt(e * (1 - e) / 300 + laplace**2)
        np.testing.assert_allclose(posterior_error_sd(model, self.sizes), expected, rtol=1e-4)

    def test_four_times_the_rows_have_half_the_sd(self) -> None:
        k, n = counts(250, 20)
        few, many = fit_mixture(k, n), fit_mixture(np.tile(k, 4), np.tile(n, 4))
        ratio = density_error_sd(few, self.sizes) / density_error_sd(many, self.sizes)
        np.testing.assert_allclose(ratio, 2.0, rtol=0.2)

    def test_point_mass_has_none(self) -> None:
        certain = fit_mixture(np.zeros(50), np.full(50, 9))
        np.testing.assert_array_equal(density_error_sd(certain, self.sizes), np.zeros(4))


class TestSizeDraws:
    @pytest.mark.slow
    def test_distribution_is_that_of_drawing_every_row(self, model: Mixture) -> None:
        """Brute force: density from its Laplace approximation, each row's p from its posterior, T* of these p."""
        assert model.density is not None
        rng = np.random.default_rng(0)
        sizes = []
        for _ in range(400):
            a = rng.multivariate_normal(model.density.coefficients, model.density.covariance)
            posterior = np.asarray(model.likelihood) * cell_weights(a)
            posterior /= posterior.sum(axis=1, keepdims=True)
            drawn = np.concatenate(
                [
                    rng.choice(model.support, size=int(rows), p=share)
                    for rows, share in zip(model.counts, posterior, strict=True)
                ]
            )
            sizes.append(recommended_size(drawn, confidence=0.98) or np.inf)
        ours = size_draws(model, 0.98, 20001, 0, n_draws=2000)
        levels = [0.05, 0.25, 0.5, 0.75, 0.95]
        difference = np.log2(np.quantile(ours, levels)) - np.log2(np.quantile(sizes, levels))
        assert np.abs(difference).max() < 0.25

    @pytest.mark.parametrize(("n_rows", "trials", "confidence", "allowed"), [(300, 20, 0.9, 0.0), (120, 10, 0.98, 0.1)])
    def test_quantiles_are_those_of_drawn_rows(
        self, n_rows: int, trials: int, confidence: float, allowed: float
    ) -> None:
        """As in the test above, all rows at once, with sizes from a table; small sizes are the same to the number."""
        model = fit_mixture(*counts(n_rows, trials))
        assert model.density is not None
        rng, likelihood, levels = np.random.default_rng(5), np.asarray(model.likelihood), [0.05, 0.25, 0.5, 0.75, 0.95]
        sizes = np.unique(np.geomspace(1, 3001, 500).astype(np.int64) // 2 * 2 + 1)[:, None]
        apart = binom.cdf((sizes - 1) / 2, sizes, np.maximum(model.support, 1.0 - model.support))
        group, found = np.repeat(np.arange(model.counts.size), model.counts.astype(np.int64)), []
        for _ in range(1000):
            a = rng.multivariate_normal(model.density.coefficients, model.density.covariance)
            reached = np.cumsum(likelihood * cell_weights(a), axis=1)
            point = np.sum(reached[group] / reached[group, -1:] < rng.random((group.size, 1)), axis=1)
            disagreement = apart @ np.bincount(point, minlength=model.support.size) / group.size
            found.append(sizes[np.argmax(disagreement <= 1.0 - confidence), 0])
        ours = size_draws(model, confidence, 20001, 0, n_draws=20_000)
        difference = np.log2(np.quantile(ours, levels)) - np.log2(np.quantile(found, levels))
        assert np.abs(difference).max() <= allowed

    def test_same_seed_same_draws_and_another_seed_others(self, model: Mixture) -> None:
        one, again, other = (size_draws(model, 0.99, 20001, seed) for seed in (1, 1, 2))
        np.testing.assert_array_equal(one, again)
        assert (one != other).any()

    def test_posteriors_that_are_known_give_the_same_draws(self, model: Mixture) -> None:
        known = size_draws(model, 0.99, 20001, 3, drawn=draw_posteriors(model, 3))
        np.testing.assert_array_equal(known, size_draws(model, 0.99, 20001, 3))

    def test_order_of_the_rows_does_not_matter(self) -> None:
        k, n = counts(200, 20)
        order = np.random.default_rng(0).permutation(200)
        np.testing.assert_array_equal(
            size_draws(fit_mixture(k, n), 0.99, 20001, 0), size_draws(fit_mixture(k[order], n[order]), 0.99, 20001, 0)
        )

    def test_scale_of_the_weights_does_not_matter(self) -> None:
        k, n = counts(200, 20)
        weight = np.random.default_rng(1).integers(1, 4, 200).astype(np.float64)
        np.testing.assert_allclose(
            size_draws(fit_mixture(k, n, weight), 0.99, 20001, 0),
            size_draws(fit_mixture(k, n, 4.0 * weight), 0.99, 20001, 0),
        )

    @pytest.mark.parametrize("max_size", [1, 2, 50, 51, 20001])
    def test_draws_are_odd_and_not_above_max_size(self, model: Mixture, max_size: int) -> None:
        draws = np.concatenate([size_draws(model, wanted, max_size, 0) for wanted in (0.7, 0.9, 0.95, 0.96)])
        finite = draws[np.isfinite(draws)]
        assert finite.size > 0
        assert (finite % 2 == 1).all()
        assert (finite <= max_size).all()

    def test_more_agreement_takes_more_members(self, model: Mixture) -> None:
        medians = [np.median(size_draws(model, wanted, 10**6, 0)) for wanted in (0.8, 0.9, 0.99)]
        assert medians[0] < medians[1] < medians[2]

    def test_point_mass_needs_one_member(self) -> None:
        np.testing.assert_array_equal(
            size_draws(fit_mixture(np.zeros(50), np.full(50, 9)), 0.99, 20001, 0), np.ones(200)
        )

    def test_unknowable_sizes_are_infinite(self) -> None:
        """Every row at p = 1/2: no size up to the largest agrees with a limit that does not exist."""
        rng = np.random.default_rng(0)
        undecided = fit_mixture(rng.binomial(1000, 0.5, 500), np.full(500, 1000))
        assert np.isinf(size_draws(undecided, 0.99, 20001, 0)).mean() > 0.9


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
