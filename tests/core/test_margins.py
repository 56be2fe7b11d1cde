from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from ens_plugin.core import margins as margins_module
from ens_plugin.core.margins import fit_margins
from ens_plugin.core.row_model import model_agreement, model_error, row_means
from ens_plugin.errors import InputError

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
    for size, error in zip(SIZES, model_error(fit_margins(mean, sd, n), SIZES), strict=True):
        expected = true_error(mu, d, size)
        assert error == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / 6000))


def test_plug_in_is_biased_where_the_fit_is_not() -> None:
    mean, sd, n, mu, d = draw(6000, 5, 1)
    expected = true_error(mu, d, np.inf)
    fit = model_error(fit_margins(mean, sd, n), [np.inf])[0]
    assert abs(fit - expected) < abs(np.mean(mean < 0) - expected) / 2


def test_error_is_the_normal_tail_at_each_point_and_stratum() -> None:
    mean, sd, n, _, _ = draw(100, 15, 2)
    fit = fit_margins(mean, sd, n)
    for stratum, spread in enumerate(fit.spread):
        expected = norm.cdf(-fit.support * np.sqrt(21) / spread)
        np.testing.assert_allclose(fit.error_by_point([21])[0, stratum], expected, atol=1e-14)
        np.testing.assert_allclose(fit.agreement_by_point([21])[0, stratum], np.maximum(expected, 1 - expected))
    np.testing.assert_array_equal(fit.error_by_point([np.inf])[0], np.tile(fit.support < 0, (fit.spread.size, 1)))


def test_spreads_of_strata_are_near_their_rows() -> None:
    """Eight strata to the octave: no row is farther than 9 % from its stratum's spread."""
    mean, sd, n, _, _ = draw(300, 15, 3)
    fit = fit_margins(mean, sd, n)
    pooled = np.average(sd**2, weights=n - 1)
    shrunk = np.sqrt(((n - 1) * sd**2 + 2 * pooled) / (n + 1))
    ratio = fit.spread[fit.stratum][fit.group] / shrunk
    assert (np.abs(np.log2(ratio)) < 1 / 8 + 1e-9).all()


def test_merging_rows_of_nearly_equal_margins_hardly_moves_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    mean, sd, n, _, _ = draw(1800, 15, 4)
    exact = fit_margins(mean, sd, n)
    monkeypatch.setattr(margins_module, "EXACT_ROWS", 10)
    merged = fit_margins(mean, sd, n)
    assert merged.counts.size < exact.counts.size == 1800
    error = model_error(exact, SIZES)
    tenth_of_sd = 0.1 * np.sqrt(error * (1 - error) / 1800)
    assert (np.abs(model_error(merged, SIZES) - error) < tenth_of_sd).all()


@pytest.mark.parametrize("exact_rows", [10, 2000])
def test_rows_of_a_group_share_a_stratum_and_differ_by_half_a_standard_error(
    exact_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(margins_module, "EXACT_ROWS", exact_rows)
    mean, sd, n, _, _ = draw(1800, 15, 8)
    fit = fit_margins(mean, sd, n)
    assert (np.diff(fit.stratum) >= 0).all()
    assert fit.counts.size < 1800 or exact_rows == 2000
    pooled = np.average(sd**2, weights=n - 1)
    shrunk = np.sqrt(((n - 1) * sd**2 + 2 * pooled) / (n + 1))
    clipped = np.clip(mean, -1, 1)
    for group in range(fit.counts.size):
        rows = np.flatnonzero(fit.group == group)
        assert np.ptp(clipped[rows]) <= 0.5 * np.maximum(shrunk[rows] / np.sqrt(n[rows]), 1 / 200).min()
        assert np.abs(np.log2(fit.spread[fit.stratum[group]] / shrunk[rows])).max() < 1 / 8 + 1e-9


def test_parts_of_the_rows_change_nothing_but_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    mean, sd, n, _, _ = draw(2500, 15, 9)
    weight = np.random.default_rng(9).integers(0, 4, 2500).astype(np.float64)
    whole = fit_margins(mean, sd, n, weight, bounded=False)
    monkeypatch.setattr(margins_module, "PART_ROWS", 7)
    parts = fit_margins(mean, sd, n, weight, bounded=False)
    np.testing.assert_array_equal(parts.group, whole.group)
    np.testing.assert_allclose(parts.spread, whole.spread, rtol=1e-12)
    np.testing.assert_allclose(model_error(parts, SIZES), model_error(whole, SIZES), rtol=0, atol=1e-9)


def test_order_of_the_rows_does_not_matter() -> None:
    mean, sd, n, _, _ = draw(200, 15, 5)
    order = np.random.default_rng(0).permutation(200)
    one, other = fit_margins(mean, sd, n), fit_margins(mean[order], sd[order], n[order])
    np.testing.assert_allclose(model_error(one, SIZES), model_error(other, SIZES), rtol=0, atol=1e-9)
    np.testing.assert_allclose(
        row_means(one, one.error_by_point([21]))[0][order], row_means(other, other.error_by_point([21]))[0], atol=1e-8
    )


def test_scale_of_the_weights_does_not_matter_and_zero_weight_is_absence() -> None:
    mean, sd, n, _, _ = draw(200, 15, 6)
    weight = np.where(np.arange(200) % 4, 1.0, 0.0)
    kept = weight > 0
    expected = model_error(fit_margins(mean[kept], sd[kept], n[kept]), SIZES)
    np.testing.assert_allclose(model_error(fit_margins(mean, sd, n, weight), SIZES), expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(model_error(fit_margins(mean, sd, n, 9 * weight), SIZES), expected, rtol=0, atol=1e-9)


def test_unit_of_raw_scores_does_not_matter() -> None:
    mean, sd, n, _, _ = draw(400, 15, 7)
    one = fit_margins(mean, sd, n, bounded=False)
    other = fit_margins(1000 * mean, 1000 * sd, n, bounded=False)
    assert other.unit == pytest.approx(1000 * one.unit)
    for estimate in (model_error, model_agreement):
        np.testing.assert_allclose(estimate(one, SIZES), estimate(other, SIZES), rtol=0, atol=1e-9)


def test_members_that_agree_leave_only_the_sign() -> None:
    mean = np.concatenate([np.full(80, 0.6), np.full(20, -0.4)])
    fit = fit_margins(mean, np.zeros(100), np.full(100, 10.0))
    np.testing.assert_allclose(model_error(fit, SIZES), 0.2, atol=0.01)
    np.testing.assert_allclose(model_agreement(fit, SIZES), 1.0, atol=0.01)


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
