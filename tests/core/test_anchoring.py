from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin.core.anchoring import Anchor, anchor_models, mean_error
from ens_plugin.core.mixture import fit_mixture
from ens_plugin.core.row_model import model_error, row_means
from ens_plugin.core.subsets import Sample
from ens_plugin.core.tally import RowBlock

SIZES = np.array([1, 3, 9])
ANCHOR = Anchor(SIZES, np.array([0.04, 0.01, 0.03]))


def test_known_differences_are_kept_and_none_is_left_at_infinity() -> None:
    np.testing.assert_allclose(ANCHOR.at(SIZES), ANCHOR.differences, rtol=0, atol=1e-15)
    assert ANCHOR.at([np.inf])[0] == 0.0


def test_between_and_beyond_the_difference_does_not_overshoot() -> None:
    between = ANCHOR.at([2])[0]
    assert 0.01 <= between <= 0.04
    beyond = ANCHOR.at(np.array([9, 10, 20, 100, 10_000]))
    assert (np.diff(beyond) < 0).all()
    assert beyond[-1] == pytest.approx(0.0, abs=1e-3)


def test_order_of_the_sizes_does_not_matter() -> None:
    np.testing.assert_array_equal(ANCHOR.at([9, 1, 5]), [ANCHOR.at([size])[0] for size in (9, 1, 5)])


def soft_votes(n_members: int, n_rows: int) -> NDArray[np.float64]:
    rng = np.random.default_rng(0)
    wrong = rng.beta(1.0, 2.0, (n_members, n_rows)) * rng.random(n_rows)
    return np.stack([1 - wrong, wrong], axis=2)


@pytest.mark.filterwarnings("ignore::ens_plugin.errors.WeakEstimateWarning")
def test_difference_is_from_the_subset_average_on_the_same_rows() -> None:
    """Seven members and all rows sampled: the subset average is near that over all subsets."""
    n_members, n_rows = 7, 25
    outputs, target = soft_votes(n_members, n_rows), np.zeros(25, dtype=np.int64)
    weight = np.random.default_rng(1).random(n_rows) + 0.5
    model = fit_mixture(outputs[:, :, 1].sum(axis=0), np.full(n_rows, n_members), weight, votes_per_member=2.0)
    block = RowBlock(outputs, np.ones((n_members, n_rows), dtype=bool), target, 2)
    sizes = np.array([1, 3, 7])
    anchors = [
        anchor_models([model], Sample(block, np.arange(n_rows), weight), sizes, np.random.default_rng(seed))
        for seed in range(20)
    ]
    by_row = row_means(model, model.error_by_point(sizes))
    for index, size in enumerate(sizes):
        subsets = [outputs[list(subset), :, 1].mean(axis=0) > 0.5 for subset in combinations(range(7), int(size))]
        exact = np.average(np.mean(subsets, axis=0), weights=weight)
        expected = exact - np.average(by_row[index], weights=weight)
        drawn = [anchor.differences[index] for anchor in anchors]
        assert np.mean(drawn) == pytest.approx(expected, abs=4 * np.std(drawn) / np.sqrt(20) + 1e-12)


@pytest.mark.filterwarnings("ignore::ens_plugin.errors.WeakEstimateWarning")
def test_several_models_count_equally() -> None:
    models = [fit_mixture([1, 4, 2], [9, 9, 9]), fit_mixture([5, 6, 1], [9, 9, 9])]
    expected = (model_error(models[0], SIZES) + model_error(models[1], SIZES)) / 2
    np.testing.assert_allclose(mean_error([*models], SIZES), expected, rtol=1e-12)
