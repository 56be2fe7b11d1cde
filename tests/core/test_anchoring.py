from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin.core.error_curve import Anchor, anchor_models, subset_limit
from ens_plugin.core.sample import SubsetRates, rates_of_subsets
from ens_plugin.core.tally import RowBlock
from ens_plugin.papers.wrong_votes import Mixture, fit_mixture
from tests.records import row_means

SIZES = np.array([1, 3, 9])
WIDE = np.unique((np.geomspace(1, 2001, 60).astype(int) - 1) // 2 * 2 + 1)


def soft_votes(n_members: int, n_rows: int) -> NDArray[np.float64]:
    rng = np.random.default_rng(0)
    wrong = rng.beta(1.0, 2.0, (n_members, n_rows)) * rng.random(n_rows)
    return np.stack([1 - wrong, wrong], axis=2)


def model_of(outputs: NDArray[np.float64], weight: NDArray[np.float64] | None = None) -> Mixture:
    n_members, n_rows, _ = outputs.shape
    return fit_mixture(outputs[:, :, 1].sum(axis=0), np.full(n_rows, n_members), weight, votes_per_member=2.0)


def test_difference_is_a_sum_of_powers_that_falls_to_nothing_beyond_the_largest_subset() -> None:
    anchor = Anchor(SIZES, np.zeros(3), np.zeros(3), np.array([2.0, -1.0]), np.zeros(3))
    np.testing.assert_allclose(anchor.at([1, 2, 10, np.inf]), [1.0, 0.75, (2 / 9 - 1 / 81) * 9 / 10, 0.0])
    assert anchor.mismatch == pytest.approx(2 / 9 - 1 / 81)


def test_residuals_are_added_to_the_powers_and_fall_with_them() -> None:
    anchor = Anchor(SIZES, np.zeros(3), np.zeros(3), np.array([2.0, -1.0]), np.array([0.0, 0.1, 0.05]))
    expected = [1.0, 2 / 3 - 1 / 9 + 0.1, (2 / 9 - 1 / 81 + 0.05) / 2, 0.0]
    np.testing.assert_allclose(anchor.at([1, 3, 18, np.inf]), expected)


@pytest.mark.filterwarnings("ignore::ens_plugin.errors.WeakEstimateWarning")
def test_difference_is_from_the_subset_average_on_the_same_rows() -> None:
    """Seven members have few subsets of a size: the averages over them, and the fit through three points, are exact."""
    outputs, weight = soft_votes(7, 25), np.random.default_rng(1).random(25) + 0.5
    model, sizes = model_of(outputs, weight), np.array([1, 3, 5])
    block = RowBlock(outputs, np.ones((7, 25), dtype=bool), np.zeros(25, dtype=np.int64), 2)
    rates = rates_of_subsets(block, sizes, np.random.default_rng(0))
    average = np.average(rates.wrong, axis=1, weights=weight)
    by_row = row_means(model, model.error_by_point(sizes))
    anchor = anchor_models(by_row, model.error, rates, weight, average[0], 25.0)
    expected = average - np.average(by_row, axis=1, weights=weight)
    expected[0] = average[0] - model.error([1])[0]
    np.testing.assert_allclose(anchor.differences, expected, atol=1e-12)
    np.testing.assert_allclose(anchor.at(sizes), expected, atol=1e-5)
    assert anchor.mismatch == pytest.approx(abs(expected[-1]), abs=1e-5)
    assert anchor.sd[-1] > 0


def test_noise_of_the_subsets_makes_no_corner() -> None:
    """Second differences in log B of the anchored curve change sign as often as without noise."""
    rng, sizes = np.random.default_rng(0), np.array([1, 3, 5, 7, 9, 13, 17, 25, 37, 51])
    model = model_of(soft_votes(60, 400))
    by_row = row_means(model, model.error_by_point(sizes))
    share = by_row + 0.1 / sizes[:, None]
    noise = rng.normal(0, 0.004, sizes.size)[:, None]
    rates = SubsetRates(sizes, share + noise, np.full(share.shape, 400 * 0.004**2))
    first = model.error([1])[0] + 0.1
    curve = model.error(WIDE) + anchor_models(by_row, model.error, rates, np.ones(400), first, 400.0).at(WIDE)
    turns = np.diff(np.diff(curve) / np.diff(np.log(WIDE)))
    signs = np.sign(turns[np.abs(turns) > 1e-3 * np.abs(turns).max()])
    assert np.count_nonzero(np.diff(signs)) <= 2
    np.testing.assert_allclose(curve, model.error(WIDE) + 0.1 / WIDE, atol=0.006)


@pytest.mark.parametrize(("trials", "limit"), [([1, 3, 3, 4], 3), ([2, 2, 2], 1), ([0, 0, 0], 0), ([3, 8, 8], 7)])
def test_sizes_are_those_that_half_of_the_rows_reach(trials: list[int], limit: int) -> None:
    assert subset_limit(np.array(trials, dtype=np.float64)) == limit
    assert subset_limit(np.array([1.0, 3.0]), np.array([1.0, 5.0])) == 3
