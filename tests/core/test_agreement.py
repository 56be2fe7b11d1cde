from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin.core.agreement import AnchoredAgreement, SubsetRatio, anchor_agreement, fit_contests, subset_ratio
from ens_plugin.core.error_curve import smallest_odd_size
from ens_plugin.core.intervals import spread_sizes
from ens_plugin.core.margins import MarginModel, fit_margins
from ens_plugin.core.row_model import RowModel, model_agreement
from ens_plugin.core.sample import Sample, SubsetRates, rates_of_subsets
from ens_plugin.core.tally import RowBlock, tally_margins
from ens_plugin.core.votes import fit_mixture

FloatArray = NDArray[np.float64]
SIZES = np.array([1, 3, 5, 7, 11, 17, 27, 41, 51])
TRIALS = np.unique((np.geomspace(9, 2001, 30).astype(int) - 1) // 2 * 2 + 1)


def many_labels(n_members: int, n_rows: int, n_labels: int = 10) -> tuple[Sample, FloatArray]:
    """Votes of members that mostly hesitate between two of ten labels, on one row in three wrong ones."""
    rng = np.random.default_rng(7)
    share = np.full((n_rows, n_labels), 0.02)
    target = rng.integers(0, n_labels, n_rows)
    lead = np.where(rng.random(n_rows) < 0.67, target, (target + 3) % n_labels)
    part = rng.beta(2.5, 0.6, n_rows)
    share[np.arange(n_rows), lead] += 0.8 * part
    share[np.arange(n_rows), (lead + 1) % n_labels] += 0.8 * (1 - part)
    share /= share.sum(axis=1, keepdims=True)
    votes = (rng.random((n_members, n_rows))[..., None] > np.cumsum(share, axis=1)).sum(axis=2).clip(0, n_labels - 1)
    block = RowBlock(votes, np.ones(votes.shape, dtype=bool), target, n_labels)
    return Sample(block, np.arange(n_rows), np.ones(n_rows)), share


def true_agreement(share: FloatArray, size: int, n_draws: int = 60) -> float:
    rng = np.random.default_rng(size)
    label = share.argmax(axis=1)
    return float(np.mean([rng.multinomial(size, share).argmax(axis=1) == label for _ in range(n_draws)]))


def models_of(sample: Sample) -> tuple[MarginModel, RowModel, AnchoredAgreement]:
    tally = tally_margins(sample.block)
    model = fit_margins(tally.mean, tally.sd, tally.trials)
    contests = fit_contests(sample)
    rates = rates_of_subsets(sample.block, SIZES, np.random.default_rng(0))
    ratio = subset_ratio(contests, rates, sample.rows, sample.weight)
    return model, contests, anchor_agreement(model, contests, ratio, sample.rows, sample.weight)


def test_agreement_counts_contests_between_wrong_labels() -> None:
    """The margin of the true label alone predicts 99 % far too early, by a quarter of the size here."""
    sample, share = many_labels(100, 3000)
    model, _, anchored = models_of(sample)
    for size in (9, 51, 151):
        truth = true_agreement(share, size)
        assert 1 - model_agreement(anchored, [size])[0] == pytest.approx(1 - truth, rel=0.12)
        assert 1 - model_agreement(model, [size])[0] < 0.85 * (1 - truth)


def test_agreement_rises_with_the_size_and_ends_where_the_model_of_contests_does() -> None:
    sample, _ = many_labels(30, 500)
    _, contests, anchored = models_of(sample)
    values = model_agreement(anchored, TRIALS)
    assert (np.diff(values) >= 0).all()
    far = 1 - model_agreement(anchored, [90_001])[0]
    assert far == pytest.approx(1 - model_agreement(contests, [90_001])[0], rel=0.03)


def test_ratio_is_one_where_the_model_is_true() -> None:
    rng = np.random.default_rng(0)
    p = rng.beta(0.6, 3.0, 4000)
    votes = (rng.random((60, 4000)) < p).astype(np.int64)
    model = fit_mixture(votes.sum(axis=0), np.full(4000, 60))
    block = RowBlock(votes, np.ones(votes.shape, dtype=bool), np.zeros(4000, dtype=np.int64), 2)
    rates = rates_of_subsets(block, SIZES, np.random.default_rng(1))
    ratio = subset_ratio(model, rates, np.arange(4000), np.ones(4000))
    # Disjoint subsets differ as the model predicts for their sizes, within the noise of the rows' own luck.
    assert np.abs(ratio.log_at([3, 9, 25, 101])).max() < 0.06
    assert 0 < ratio.sd_at(51) < 0.2


def test_without_anything_to_compare_the_model_stays() -> None:
    model = fit_mixture([0, 1, 4, 9] * 10, [9] * 40)
    nothing = SubsetRates(SIZES[:1], np.ones(40, dtype=np.int64), *np.full((3, 1, 40), np.nan))
    ratio = subset_ratio(model, nothing, np.arange(40), np.ones(40))
    anchored = anchor_agreement(model, None, ratio, np.arange(40), np.ones(40))
    np.testing.assert_allclose(model_agreement(anchored, TRIALS), model_agreement(model, TRIALS), rtol=1e-12)
    assert ratio.sd_at(9) == 0


def test_all_else_is_the_model_s() -> None:
    model = fit_mixture([0, 1, 4, 9] * 10, [9] * 40)
    ratio = SubsetRatio(np.array([0.5, 0.0, 0.0]), np.diag([0.04, 0.0, 0.0]))
    anchored = anchor_agreement(model, None, ratio, np.arange(40), np.ones(40))
    for name in ("density", "likelihood", "counts", "group"):
        assert getattr(anchored, name) is getattr(model, name)
    np.testing.assert_array_equal(anchored.point_weights, model.point_weights)
    np.testing.assert_array_equal(anchored.error_by_point([5]), model.error_by_point([5]))
    np.testing.assert_array_equal(anchored.slope_by_point(5), model.slope_by_point(5))
    assert 1 - model_agreement(anchored, [101])[0] == pytest.approx(
        np.exp(0.5 / np.sqrt(101)) * (1 - model_agreement(model, [101])[0]), rel=2e-3
    )
    wanted = smallest_odd_size(lambda size: float(model_agreement(anchored, [size])[0]), 0.9, 20001)
    assert wanted is not None


def test_noise_of_the_logarithm_widens_drawn_sizes() -> None:
    sd = SubsetRatio(np.zeros(3), np.diag([4.0, 0.0, 0.0])).sd_at(101)
    assert sd == pytest.approx(2 / np.sqrt(101))
    draws = np.append(np.full(5000, 101.0), np.inf)
    spread = spread_sizes(draws, 2 * sd, 0)
    assert np.isinf(spread[-1])
    assert (spread[:-1] % 2 == 1).all()
    assert np.log(spread[:-1]).std() == pytest.approx(2 * sd, rel=0.05)
    np.testing.assert_array_equal(spread_sizes(np.full(3, np.inf), sd, 0), np.full(3, np.inf))
    # An error of many orders of magnitude moves half of the sizes above every size, without a warning of overflow.
    far = spread_sizes(np.full(400, 101.0), 1e6, 0)
    assert np.mean(far > 1e9) == pytest.approx(0.5, abs=0.1)
    assert (far[far < 1e9] == 1.0).all()


def test_rows_without_weight_are_no_part_of_the_corrections() -> None:
    """Half of the rows are of another kind, on which members differ more often than the models have it."""
    rng = np.random.default_rng(3)
    p = np.where(np.arange(400) % 2 == 0, rng.beta(0.6, 3.0, 400), 0.45)
    votes = (rng.random((30, 400)) < p).astype(np.int64)
    block = RowBlock(votes, np.ones(votes.shape, dtype=bool), np.zeros(400, dtype=np.int64), 2)
    model, other = (fit_mixture(votes.sum(axis=0) // part, np.full(400, 30)) for part in (1, 2))
    rates, weight = (
        rates_of_subsets(block, SIZES, np.random.default_rng(0)),
        (np.arange(400) % 2 == 0).astype(np.float64),
    )
    kept = np.flatnonzero(weight)
    some = SubsetRates(SIZES, rates.members[kept], rates.wrong[:, kept], rates.apart[:, kept], rates.noise[:, kept])
    found, alone = (
        subset_ratio(model, each, rows, own)
        for each, rows, own in ((rates, np.arange(400), weight), (some, kept, np.ones(kept.size)))
    )
    np.testing.assert_allclose(found.coefficients, alone.coefficients, rtol=1e-9)
    anchored, of_some = (
        anchor_agreement(model, other, alone, rows, own)
        for rows, own in ((np.arange(400), weight), (kept, np.ones(kept.size)))
    )
    np.testing.assert_allclose(model_agreement(anchored, TRIALS), model_agreement(of_some, TRIALS), rtol=1e-9)


def test_a_correction_that_rises_with_the_size_lets_the_agreement_fall_nowhere() -> None:
    model = fit_mixture([0, 1, 4, 9] * 10, [9] * 40)
    ratio = SubsetRatio(np.array([-3.0, 0.0, 0.0]), np.zeros((3, 3)))
    anchored = anchor_agreement(model, None, ratio, np.arange(40), np.ones(40))
    sizes = np.append([1, 3, 5, 7], TRIALS)
    assert np.diff(model_agreement(anchored, sizes)).min() > -1e-4
    by_ratio = np.exp(ratio.log_at(sizes)) * (1.0 - model_agreement(model, sizes))
    assert np.diff(by_ratio).max() > 1e-3
