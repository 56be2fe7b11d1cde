from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from ens_plugin.core import margins as margins_module
from ens_plugin.core.margins import fit_margins
from ens_plugin.core.validation import pair_index
from ens_plugin.errors import InputError
from tests.records import row_means

FloatArray = NDArray[np.float64]

SIZES = np.array([1.0, 11.0, 101.0, np.inf])


def draw(n_rows: int, trials: int, seed: int) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, FloatArray]:
    """Observed margins, their spread and trials, for rows with known mean margins and spreads."""
    rng = np.random.default_rng(seed)
    mu = 2 * rng.beta(4.0, 2.0, n_rows) - 1
    d = rng.choice([0.2, 0.45], n_rows)
    n = np.maximum(rng.binomial(round(trials / 0.368), 0.368, n_rows), 2).astype(np.float64)
    mean = mu + d / np.sqrt(n) * rng.standard_normal(n_rows)
    sd = d * np.sqrt(rng.chisquare(n - 1) / (n - 1))
    return mean, sd, n, mu, d


def true_error(mu: FloatArray, d: FloatArray, size: float) -> float:
    return float(np.mean(mu < 0) if np.isinf(size) else np.mean(norm.sf(mu * np.sqrt(size) / d)))


def test_known_distribution_is_recovered() -> None:
    """6000 rows of 15 members: within four binomial standard errors at every size and at infinity."""
    mean, sd, n, mu, d = draw(6000, 15, 0)
    for size, error in zip(SIZES, fit_margins(mean, sd, n).error(SIZES), strict=True):
        expected = true_error(mu, d, size)
        assert error == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / 6000))


def test_plug_in_is_biased_where_the_fit_is_not() -> None:
    mean, sd, n, mu, d = draw(6000, 5, 1)
    expected = true_error(mu, d, np.inf)
    fit = fit_margins(mean, sd, n).error([np.inf])[0]
    assert abs(fit - expected) < abs(np.mean(mean < 0) - expected) / 2


def test_error_is_the_normal_tail_of_the_distance_at_each_point() -> None:
    mean, sd, n, _, _ = draw(100, 15, 2)
    fit = fit_margins(mean, sd, n)
    expected = norm.cdf(-fit.distance * np.sqrt(21))
    np.testing.assert_allclose(fit.error_by_point([21])[0], expected, atol=1e-14)
    np.testing.assert_allclose(fit.error_by_point([np.inf])[0], fit.support < 0, atol=1e-12)


def test_grid_is_even_in_spreads_and_0_lies_between_two_cells() -> None:
    mean, sd, n, _, _ = draw(500, 15, 3)
    fit = fit_margins(mean, sd, n)
    np.testing.assert_allclose(np.diff(fit.distance), fit.distance[1] - fit.distance[0])
    assert np.abs(fit.distance).min() == pytest.approx((fit.distance[1] - fit.distance[0]) / 2)
    slopes = np.diff(fit.distance) / np.diff(fit.support)
    np.testing.assert_allclose(slopes, 2 / (fit.spread[1:] + fit.spread[:-1]), rtol=0.05)


def test_spread_follows_the_mean_margin() -> None:
    """Means of n votes that are 1 or -1 have variance 1 - m^2: recovered within a tenth where rows are."""
    rng = np.random.default_rng(11)
    mu = 2 * rng.beta(4.0, 2.0, 4000) - 1
    right = rng.binomial(20, (mu + 1) / 2)
    mean = 2 * right / 20 - 1
    fit = fit_margins(mean, np.sqrt((1 - mean**2) * 20 / 19), np.full(4000, 20.0))
    inside = (fit.support > -0.4) & (fit.support < 0.9)
    np.testing.assert_allclose(fit.spread[inside], np.sqrt(1 - fit.support[inside] ** 2), rtol=0.1)


@pytest.mark.parametrize("n_members", [22, 44, 88])
def test_skewed_scores_of_few_members_leave_no_bias(n_members: int) -> None:
    """Scores that are mostly -1 and sometimes 3: rows whose members agree by chance are not certain."""
    rng = np.random.default_rng(n_members)
    chance = rng.beta(0.4, 4.0, 8000)
    jumps = rng.binomial(n_members, chance)
    score = 4 * jumps / n_members - 1
    sd = 4 * np.sqrt(jumps / n_members * (1 - jumps / n_members) * n_members / (n_members - 1))
    fit = fit_margins(-score, sd, np.full(8000, float(n_members)))
    wrong = np.mean(chance > 0.25)
    assert fit.error([np.inf])[0] == pytest.approx(wrong, abs=4 * np.sqrt(wrong * (1 - wrong) / 8000))


def test_merging_rows_of_nearly_equal_margins_hardly_moves_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    mean, sd, n, _, _ = draw(1800, 15, 4)
    merged = fit_margins(mean, sd, n)
    monkeypatch.setattr(margins_module, "_group_rows", pair_index)
    exact = fit_margins(mean, sd, n)
    distinct = set(zip(np.interp(mean, exact.support, exact.distance), n, strict=True))
    assert merged.counts.size < exact.counts.size == len(distinct)
    error = exact.error(SIZES)
    tenth_of_sd = 0.1 * np.sqrt(error * (1 - error) / 1800)
    assert (np.abs(merged.error(SIZES) - error) < tenth_of_sd).all()


def test_rows_of_a_group_differ_by_half_a_standard_error() -> None:
    mean, sd, n, _, _ = draw(1800, 15, 8)
    fit = fit_margins(mean, sd, n)
    place = np.interp(mean, fit.support, fit.distance)
    assert fit.counts.size < 1800
    for group in range(fit.counts.size):
        rows = np.flatnonzero(fit.group == group)
        assert np.ptp(place[rows]) <= 0.5 / np.sqrt(n[rows].max()) + 1e-12
        assert np.ptp(np.log2(n[rows])) < 1 / 8 + 1e-9


def test_parts_of_the_rows_change_nothing_but_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    mean, sd, n, _, _ = draw(2500, 15, 9)
    weight = np.random.default_rng(9).integers(0, 4, 2500).astype(np.float64)
    whole = fit_margins(mean, sd, n, weight)
    monkeypatch.setattr("ens_plugin.core.validation.PART_ROWS", 7)
    parts = fit_margins(mean, sd, n, weight)
    np.testing.assert_array_equal(parts.group, whole.group)
    np.testing.assert_allclose(parts.spread, whole.spread, rtol=1e-12)
    np.testing.assert_allclose(parts.error(SIZES), whole.error(SIZES), rtol=0, atol=1e-9)


def test_order_of_the_rows_does_not_matter() -> None:
    mean, sd, n, _, _ = draw(200, 15, 5)
    order = np.random.default_rng(0).permutation(200)
    one, other = fit_margins(mean, sd, n), fit_margins(mean[order], sd[order], n[order])
    np.testing.assert_allclose(one.error(SIZES), other.error(SIZES), rtol=0, atol=1e-9)
    np.testing.assert_allclose(
        row_means(one, one.error_by_point([21]))[0][order], row_means(other, other.error_by_point([21]))[0], atol=1e-8
    )


def test_scale_of_the_weights_does_not_matter_and_zero_weight_is_absence() -> None:
    mean, sd, n, _, _ = draw(200, 15, 6)
    weight = np.where(np.arange(200) % 4, 1.0, 0.0)
    kept = weight > 0
    expected = fit_margins(mean[kept], sd[kept], n[kept]).error(SIZES)
    np.testing.assert_allclose(fit_margins(mean, sd, n, weight).error(SIZES), expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(fit_margins(mean, sd, n, 9 * weight).error(SIZES), expected, rtol=0, atol=1e-9)


def test_unit_of_raw_scores_does_not_matter() -> None:
    mean, sd, n, _, _ = draw(400, 15, 7)
    one = fit_margins(mean, sd, n)
    other = fit_margins(1000 * mean, 1000 * sd, n)
    np.testing.assert_allclose(other.support, 1000 * one.support, rtol=1e-9)
    np.testing.assert_allclose(one.error(SIZES), other.error(SIZES), rtol=0, atol=1e-9)


def test_members_that_agree_leave_only_the_sign() -> None:
    mean = np.concatenate([np.full(80, 0.6), np.full(20, -0.4)])
    fit = fit_margins(mean, np.zeros(100), np.full(100, 10.0))
    np.testing.assert_allclose(fit.error(SIZES), 0.2, atol=0.01)


@pytest.mark.parametrize(
    ("mean", "sd", "trials", "weight", "named"),
    [
        ([np.nan], [0.1], [3], None, "mean"),
        ([0.1], [0.1, 0.2], [3], None, "sd"),
        ([0.1], [0.1], [np.inf], None, "trials"),
        ([0.1], [0.1], [3], [-1], "weight"),
    ],
)
def test_bad_argument_is_named(
    mean: list[float], sd: list[float], trials: list[float], weight: list[float] | None, named: str
) -> None:
    with pytest.raises(InputError, match=named):
        fit_margins(mean, sd, trials, weight)


def test_likelihoods_of_many_members_are_normal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row is a group of its own."""
    monkeypatch.setattr(margins_module, "_group_rows", pair_index)
    mean, sd, n, _, _ = draw(400, 300, 5)
    fit = fit_margins(mean, sd, n)
    place = np.interp(mean, fit.support, fit.distance)
    exact = norm.pdf((fit.distance - place[:, None]) * np.sqrt(n)[:, None])
    exact /= exact.max(axis=1, keepdims=True)
    np.testing.assert_allclose(fit.likelihood[fit.group], exact, rtol=1e-9, atol=1e-40)
