from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin.core.error_curve import Anchor, anchor_first_size, anchor_models, mean_error, subset_limit
from ens_plugin.core.row_model import model_error, row_means
from ens_plugin.core.sample import SubsetRates, rates_of_subsets
from ens_plugin.core.tally import RowBlock
from ens_plugin.core.votes import Mixture, fit_mixture

SIZES = np.array([1, 3, 9])
WIDE = np.unique((np.geomspace(1, 2001, 60).astype(int) - 1) // 2 * 2 + 1)


def soft_votes(n_members: int, n_rows: int) -> NDArray[np.float64]:
    rng = np.random.default_rng(0)
    wrong = rng.beta(1.0, 2.0, (n_members, n_rows)) * rng.random(n_rows)
    return np.stack([1 - wrong, wrong], axis=2)


def model_of(outputs: NDArray[np.float64], weight: NDArray[np.float64] | None = None) -> Mixture:
    n_members, n_rows, _ = outputs.shape
    return fit_mixture(outputs[:, :, 1].sum(axis=0), np.full(n_rows, n_members), weight, votes_per_member=2.0)


def test_difference_is_a_sum_of_powers_that_is_nothing_at_infinity() -> None:
    anchor = Anchor(SIZES, np.zeros(3), np.zeros(3), np.array([2.0, -1.0]))
    np.testing.assert_allclose(anchor.at([1, 2, 10, np.inf]), [1.0, 0.75, 0.19, 0.0])
    assert anchor.mismatch == pytest.approx(2 / 9 - 1 / 81)


@pytest.mark.filterwarnings("ignore::ens_plugin.errors.WeakEstimateWarning")
def test_difference_is_from_the_subset_average_on_the_same_rows() -> None:
    """Seven members have few subsets of a size: the averages over them, and the fit through three points, are exact."""
    outputs, weight = soft_votes(7, 25), np.random.default_rng(1).random(25) + 0.5
    model, sizes = model_of(outputs, weight), np.array([1, 3, 5])
    block = RowBlock(outputs, np.ones((7, 25), dtype=bool), np.zeros(25, dtype=np.int64), 2)
    rates = rates_of_subsets(block, sizes, np.random.default_rng(0))
    average = np.average(rates.wrong, axis=1, weights=weight)
    anchor = anchor_models([model], rates, np.arange(25), weight, average[0], 25.0)
    expected = average - np.average(row_means(model, model.error_by_point(sizes)), axis=1, weights=weight)
    expected[0] = average[0] - mean_error([model], [1])[0]
    np.testing.assert_allclose(anchor.differences, expected, atol=1e-12)
    np.testing.assert_allclose(anchor.at(sizes), expected, atol=1e-5)
    assert anchor.mismatch == pytest.approx(abs(expected[-1]), abs=1e-5)
    assert anchor.sd[-1] > 0


def test_noise_of_the_subsets_makes_no_corner() -> None:
    """Second differences in log B of the anchored curve change sign as often as without noise."""
    rng, sizes = np.random.default_rng(0), np.array([1, 3, 5, 7, 9, 13, 17, 25, 37, 51])
    model = model_of(soft_votes(60, 400))
    rows = np.arange(400)
    share = row_means(model, model.error_by_point(sizes), rows) + 0.1 / sizes[:, None]
    noise = rng.normal(0, 0.004, sizes.size)[:, None]
    nan = np.full(share.shape, np.nan)
    rates = SubsetRates(sizes, np.full(400, 60), share + noise, nan, np.full(share.shape, 400 * 0.004**2))
    first = mean_error([model], [1])[0] + 0.1
    curve = mean_error([model], WIDE) + anchor_models([model], rates, rows, np.ones(400), first, 400.0).at(WIDE)
    turns = np.diff(np.diff(curve) / np.diff(np.log(WIDE)))
    signs = np.sign(turns[np.abs(turns) > 1e-3 * np.abs(turns).max()])
    assert np.count_nonzero(np.diff(signs)) <= 2
    np.testing.assert_allclose(curve, mean_error([model], WIDE) + 0.1 / WIDE, atol=0.006)


@pytest.mark.filterwarnings("ignore::ens_plugin.errors.WeakEstimateWarning")
def test_several_models_count_equally() -> None:
    models = [fit_mixture([1, 4, 2], [9, 9, 9]), fit_mixture([5, 6, 1], [9, 9, 9])]
    expected = (model_error(models[0], SIZES) + model_error(models[1], SIZES)) / 2
    np.testing.assert_allclose(mean_error([*models], SIZES), expected, rtol=1e-12)


@pytest.mark.parametrize(("trials", "limit"), [([1, 3, 3, 4], 3), ([2, 2, 2], 1), ([0, 0, 0], 0), ([3, 8, 8], 7)])
def test_sizes_are_those_that_half_of_the_rows_reach(trials: list[int], limit: int) -> None:
    assert subset_limit(np.array(trials, dtype=np.float64)) == limit
    assert subset_limit(np.array([1.0, 3.0]), np.array([1.0, 5.0])) == 3


def test_the_error_of_one_member_alone_moves_a_curve_by_its_share_of_each_size() -> None:
    model = fit_mixture([0, 1, 1, 3] * 10, [5, 4, 5, 5] * 10)
    anchor = anchor_first_size([model], 0.2625)
    moved = anchor.at(SIZES)
    assert model.error([1])[0] + moved[0] == pytest.approx(0.2625)
    np.testing.assert_allclose(moved, moved[0] / SIZES)
