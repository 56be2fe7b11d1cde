from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import betainc
from scipy.stats import beta, binom

from ens_plugin.core import votes as mixture_module
from ens_plugin.core.votes import group_counts
from ens_plugin.errors import InputError, WeakEstimateWarning
from ens_plugin.papers.wrong_votes import fit_mixture
from tests.records import row_means

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

SIZES = np.array([1.0, 5.0, 21.0, 101.0, np.inf])


def beta_rows(rng: np.random.Generator, n_rows: int) -> FloatArray:
    return rng.beta(0.6, 2.4, size=n_rows)


def mixture_of_betas(rng: np.random.Generator, n_rows: int) -> FloatArray:
    return np.where(rng.random(n_rows) < 0.8, rng.beta(0.5, 12.0, size=n_rows), rng.beta(4.0, 3.0, size=n_rows))


def two_points(rng: np.random.Generator, n_rows: int) -> FloatArray:
    return rng.choice([0.1, 0.7], p=[0.75, 0.25], size=n_rows)


Truth = Callable[[np.random.Generator, int], FloatArray]


def true_error(p: FloatArray, size: float) -> float:
    if np.isinf(size):
        return float(np.mean(p > 0.5) + np.mean(p == 0.5) / 2)
    return float(np.mean(binom.sf((size - 1) / 2, int(size), p)))


def draw(truth: Truth, n_rows: int, trials: int, seed: int) -> tuple[IntArray, IntArray, FloatArray]:
    """Wrong votes and votes of rows with known probabilities; votes as a bootstrap leaves them out."""
    rng = np.random.default_rng(seed)
    p = truth(rng, n_rows)
    n = np.maximum(rng.binomial(round(trials / 0.368), 0.368, size=n_rows), 1)
    return rng.binomial(n, p), n, p


@pytest.mark.parametrize("truth", [beta_rows, mixture_of_betas, two_points])
def test_known_distribution_is_recovered(truth: Truth) -> None:
    """Many rows with 20 votes each: within four binomial standard errors, or 1.5 points at infinity.

    Votes of 20 blur p by 0.11 near 1/2, so that infinity rests on the smooth form of the density.
    """
    k, n, p = draw(truth, 8000, 20, 0)
    fit = fit_mixture(k, n)
    for size, error in zip(SIZES, fit.error(SIZES), strict=True):
        expected = true_error(p, size)
        allowed = 4 * np.sqrt(expected * (1 - expected) / p.size)
        assert error == pytest.approx(expected, abs=allowed if np.isfinite(size) else max(allowed, 0.015))


@pytest.mark.parametrize("truth", [beta_rows, two_points])
def test_plug_in_is_biased_where_the_fit_is_not(truth: Truth) -> None:
    """The reason for deconvolution: with 10 votes a row the share of k/n > 1/2 is off by points."""
    k, n, p = draw(truth, 8000, 10, 1)
    plug_in = float(np.mean(k / n > 0.5) + np.mean(k / n == 0.5) / 2)
    expected = true_error(p, np.inf)
    assert abs(fit_mixture(k, n).asymptote - expected) < abs(plug_in - expected) / 2


def test_weights_are_a_distribution_on_the_unit_interval() -> None:
    k, n, _ = draw(beta_rows, 300, 20, 2)
    fit = fit_mixture(k, n)
    assert fit.weights.sum() == pytest.approx(1.0)
    assert (fit.weights >= 0).all()
    assert ((fit.support > 0) & (fit.support < 1)).all()
    assert fit.asymptote == pytest.approx(fit.weights[fit.support > 0.5].sum())


@pytest.mark.parametrize(("wrong", "error"), [(0, 0.0), (1, 1.0)])
def test_members_that_never_differ_are_a_point_mass(wrong: int, error: float) -> None:
    trials = np.arange(5, 45)
    fit = fit_mixture(wrong * trials, trials)
    np.testing.assert_array_equal(fit.support, [error])
    np.testing.assert_array_equal(fit.error(SIZES), np.full(SIZES.size, error))
    np.testing.assert_array_equal(row_means(fit, fit.error_by_point([7]))[0], np.full(40, error))


def test_unanimous_rows_of_both_kinds_keep_their_share() -> None:
    n = np.full(400, 40)
    k = np.where(np.arange(400) < 100, 40, 0)
    np.testing.assert_allclose(fit_mixture(k, n).error(SIZES), 0.25, rtol=0, atol=0.01)


def test_fewer_than_thirty_rows_warn_and_thirty_do_not() -> None:
    k, n, _ = draw(beta_rows, 30, 20, 3)
    with pytest.warns(WeakEstimateWarning, match="29 rows"):
        fit_mixture(k[:29], n[:29])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit_mixture(k, n)


@pytest.mark.filterwarnings("ignore::ens_plugin.errors.WeakEstimateWarning")
@settings(max_examples=settings.default.max_examples // 6)
@given(
    st.lists(st.integers(1, 30).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), min_size=1, max_size=12),
    st.randoms(use_true_random=False),
)
def test_order_of_the_rows_does_not_matter(rows: list[tuple[int, int]], random: object) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, other = (fit_mixture(*zip(*order, strict=True)) for order in (rows, shuffled))
    np.testing.assert_array_equal(one.weights, other.weights)


@pytest.mark.filterwarnings("ignore::ens_plugin.errors.WeakEstimateWarning")
@settings(max_examples=settings.default.max_examples // 6)
@given(
    st.lists(st.integers(1, 12).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), min_size=1, max_size=12)
)
def test_fit_exists_for_any_counts(rows: list[tuple[int, int]]) -> None:
    error = fit_mixture(*zip(*rows, strict=True)).error(SIZES)
    assert ((error >= 0) & (error <= 1)).all()


def test_constant_weights_change_nothing() -> None:
    k, n, _ = draw(beta_rows, 200, 20, 4)
    np.testing.assert_allclose(
        fit_mixture(k, n, np.full(200, 7.3)).weights, fit_mixture(k, n).weights, rtol=0, atol=1e-9
    )


def test_rows_of_weight_zero_are_not_there() -> None:
    k, n, _ = draw(beta_rows, 200, 20, 5)
    weight = (np.arange(200) % 3 > 0).astype(np.float64)
    kept = weight > 0
    np.testing.assert_allclose(
        fit_mixture(k, n, weight).weights, fit_mixture(k[kept], n[kept]).weights, rtol=0, atol=1e-9
    )


def test_weighted_rows_count_as_in_the_formula_of_kish() -> None:
    """Weights 1 and 3: the fit has rows in these proportions, but only (sum w)^2 / sum w^2 of them."""
    k, n, _ = draw(beta_rows, 300, 20, 6)
    weight = np.where(np.arange(300) % 2, 3.0, 1.0)
    fit = fit_mixture(k, n, weight)
    assert fit.counts.sum() == pytest.approx(weight.sum() ** 2 / (weight @ weight))
    repeated = fit_mixture(np.repeat(k, weight.astype(int)), np.repeat(n, weight.astype(int)))
    np.testing.assert_allclose(fit.counts / fit.counts.sum(), repeated.counts / repeated.counts.sum(), atol=1e-12)
    np.testing.assert_allclose(fit.likelihood, repeated.likelihood, atol=1e-12)


def test_many_votes_replace_the_density_by_the_mean_posterior() -> None:
    """From 60 votes a row on; against Bayes' rule, row by row."""
    k, n, _ = draw(two_points, 200, 80, 7)
    fit = fit_mixture(k, n)
    prior = fit.density.weights
    posterior = np.array([binom.pmf(wrong, trials, fit.support) * prior for wrong, trials in zip(k, n, strict=True)])
    expected = (posterior / posterior.sum(axis=1, keepdims=True)).mean(axis=0)
    np.testing.assert_allclose(fit.weights, expected, rtol=0, atol=1e-12)


def test_few_votes_keep_the_density() -> None:
    k, n, _ = draw(beta_rows, 200, 20, 8)
    fit = fit_mixture(k, n)
    np.testing.assert_array_equal(fit.weights, fit.density.weights)


def test_row_means_are_posterior_means() -> None:
    k, n, _ = draw(beta_rows, 60, 20, 9)
    fit = fit_mixture(k, n)
    by_row = row_means(fit, fit.error_by_point([11]))[0]
    for row in range(60):
        posterior = binom.pmf(k[row], n[row], fit.support) * fit.weights
        expected = posterior @ binom.sf(5, 11, fit.support) / posterior.sum()
        assert by_row[row] == pytest.approx(expected, rel=1e-9)


def test_even_size_errs_as_the_odd_size_below() -> None:
    k, n, _ = draw(beta_rows, 300, 20, 10)
    fit = fit_mixture(k, n)
    np.testing.assert_array_equal(fit.error([10, 100]), fit.error([9, 99]))


def test_groups_of_equal_rows_keep_their_totals() -> None:
    k, n, _ = draw(beta_rows, 500, 12, 12)
    weight = np.random.default_rng(0).random(500)
    k_group, n_group, counts, group = group_counts(k.astype(float), n.astype(float), weight)
    np.testing.assert_allclose(k_group[group], k, rtol=1e-14)
    np.testing.assert_allclose(n_group[group], n, rtol=1e-14)
    np.testing.assert_allclose(counts, [weight[group == index].sum() for index in range(counts.size)], atol=1e-12)


@pytest.mark.parametrize("trials", [300, 736])
def test_merging_nearly_equal_rows_hardly_moves_the_fit(trials: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """736 votes are a bootstrap's share of 2000 members; the error of merging is far below its sd."""
    k, n, p = draw(mixture_of_betas, 6000, trials, 13)
    monkeypatch.setattr(mixture_module, "MAX_GROUPS", k.size)
    exact = fit_mixture(k, n)
    monkeypatch.setattr(mixture_module, "MAX_GROUPS", 50)
    merged = fit_mixture(k, n)
    assert merged.counts.size < exact.counts.size
    error = exact.error(SIZES)
    one_tenth_of_sd = 0.1 * np.sqrt(error * (1 - error) / p.size)
    assert (np.abs(merged.error(SIZES) - error) < one_tenth_of_sd).all()


def test_many_pairs_are_merged_and_no_weight_is_lost() -> None:
    rng = np.random.default_rng(14)
    n = rng.integers(500, 1500, size=20_000).astype(float)
    k = np.floor(n * rng.random(20_000))
    k_group, n_group, counts, group = group_counts(k, n, np.ones(20_000))
    assert counts.size <= mixture_module.MAX_GROUPS
    assert counts.sum() == pytest.approx(20_000)
    binomial_sd = np.sqrt(np.maximum(k / n * (1 - k / n), 1 / n) / n)
    assert (np.abs((k_group / n_group)[group] - k / n) <= 0.6 * binomial_sd).all()


@pytest.mark.parametrize("soft", [False, True])
def test_groups_of_many_rows_hold_equal_or_nearly_equal_ones(soft: bool) -> None:
    """More rows than are read at a time."""
    rng = np.random.default_rng(0)
    n = rng.binomial(60, 0.37, 150_000).clip(1).astype(float)
    k = n * rng.beta(1.0, 3.0, n.size) if soft else np.floor(n * rng.beta(1.0, 3.0, n.size))
    weight = rng.lognormal(size=n.size)
    k_group, n_group, counts, group = group_counts(k, n, weight, None, 1.5 if soft else 1.0)
    # Cells as docs/methods/votes.md defines them: an angle of pi/512, and eighths of the numbers of votes.
    votes = 1.5 * n
    edges = np.quantile(votes, np.arange(1, 8) / 8)
    cells = np.floor(np.arcsin(np.sqrt(k * 1.5 / votes)) * (512 / np.pi)) * 8 + np.searchsorted(edges, votes)
    expected = np.unique(cells if soft else n * 100 + k, return_inverse=True)[1]
    pairs = np.unique(np.stack([group, expected]), axis=1)
    assert pairs.shape[1] == counts.size == expected.max() + 1
    np.testing.assert_array_equal(counts, np.bincount(group, weight))
    own = np.bincount(group, weight * k * (1.5 if soft else 1.0)) / counts
    np.testing.assert_allclose(k_group, own, rtol=1e-12)
    np.testing.assert_allclose(n_group * counts, np.bincount(group, weight * n * (1.5 if soft else 1.0)), rtol=1e-12)


def test_soft_votes_scale_the_counts() -> None:
    """Twice the effective votes from half as many members is the same fit, read at half the size."""
    k, n, _ = draw(beta_rows, 300, 20, 15)
    soft = fit_mixture(k / 2, n / 2, votes_per_member=2.0)
    hard = fit_mixture(k, n)
    np.testing.assert_allclose(soft.weights, hard.weights, rtol=0, atol=1e-9)
    at_22_votes = float(hard.weights @ np.asarray(beta.cdf(hard.support, 23 / 2, 23 / 2)))
    np.testing.assert_allclose(soft.error([11, np.inf]), [at_22_votes, hard.asymptote], rtol=0, atol=1e-9)


@pytest.mark.parametrize("votes_per_member", [1.0, 2.3])
@pytest.mark.parametrize("n_sizes", [1, 3, 1200])
def test_tables_on_the_grid_are_incomplete_beta_functions(votes_per_member: float, n_sizes: int) -> None:
    wrong, n, _ = draw(beta_rows, 80, 30, seed=8)
    fit = fit_mixture(wrong, n, votes_per_member=votes_per_member)
    sizes = np.append(2.0 * np.arange(1, n_sizes) + 1.0, np.inf)
    votes = sizes[:-1, None] * votes_per_member
    shape = votes / 2 + 0.5
    expected = np.vstack([betainc(shape, shape, fit.support), fit.support > 0.5])
    for _ in range(2):
        np.testing.assert_allclose(fit.error_by_point(sizes), expected, rtol=0, atol=1e-12)


def test_tables_on_the_grid_of_even_and_of_large_sizes() -> None:
    wrong, n, _ = draw(beta_rows, 80, 30, seed=8)
    fit = fit_mixture(wrong, n)
    sizes = np.array([20_001.0, 2.0, np.inf, 100.0, 2_001.0, 2_002.0, 1.0, 2_003.0, 9_999.0])
    odd = np.array([20_001.0, 1.0, np.inf, 99.0, 2_001.0, 2_001.0, 1.0, 2_003.0, 9_999.0])
    for _ in range(2):
        for size, own in zip(odd, fit.error_by_point(sizes), strict=True):
            expected = fit.support > 0.5 if size == np.inf else binom.sf(size // 2, size, fit.support)
            np.testing.assert_allclose(own, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("wrong", "trials", "weight", "named"),
    [([1, 2], [3], None, "trials"), ([4], [3], None, "wrong"), ([0], [0], None, "trials"), ([1], [2], [-1], "weight")],
)
def test_bad_argument_is_named(wrong: list[int], trials: list[int], weight: list[int] | None, named: str) -> None:
    with pytest.raises(InputError, match=named):
        fit_mixture(wrong, trials, weight)
