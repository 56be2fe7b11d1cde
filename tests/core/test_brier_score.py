"""The Brier score by size against all subsets of the members, and against simulated scores."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.special import expit, softmax

from ens_plugin.core.losses import squared_loss, squared_terms
from ens_plugin.core.sample import Sample
from ens_plugin.core.tally import RowBlock, both_scores

MEMBERS = 6


def sample_of(block: RowBlock, weight: np.ndarray | None = None) -> Sample:
    n_rows = block.target.size
    return Sample(block, np.arange(n_rows), np.ones(n_rows) if weight is None else weight)


def random_block(n_labels: int, hard: bool, n_rows: int = 12) -> RowBlock:
    rng = np.random.default_rng(n_labels)
    outputs = rng.dirichlet(np.ones(n_labels), (MEMBERS, n_rows))
    if hard:
        outputs = outputs.argmax(axis=2).astype(np.int8)
    return RowBlock(outputs, rng.random((MEMBERS, n_rows)) < 0.8, rng.integers(0, n_labels, n_rows), n_labels)


def two_chances(mean: np.ndarray) -> np.ndarray:
    second = expit(mean[:, 1] - mean[:, 0])
    return np.stack([1.0 - second, second], axis=1)


def brier(probabilities: np.ndarray, label: int) -> float:
    truth = np.eye(probabilities.size)[label]
    return float(((probabilities - truth) ** 2).sum()) / (2.0 if probabilities.size == 2 else 1.0)


def mean_over_subsets(block: RowBlock, weight: np.ndarray, size: int) -> float:
    outputs = np.eye(block.n_labels)[block.outputs] if block.outputs.ndim == 2 else block.outputs
    total = 0.0
    for row, label in enumerate(block.target):
        own = outputs[block.counted[:, row], row]
        scores = [brier(own[list(chosen)].mean(axis=0), label) for chosen in combinations(range(len(own)), size)]
        total += weight[row] * float(np.mean(scores))
    return total / float(weight.sum())


@pytest.mark.parametrize("n_labels", [2, 3, 5])
@pytest.mark.parametrize("hard", [False, True])
@pytest.mark.parametrize("size", [1, 2])
def test_every_size_is_the_average_over_all_subsets_of_the_members(n_labels: int, hard: bool, size: int) -> None:
    block = random_block(n_labels, hard)
    weight = np.random.default_rng(1).random(block.target.size)
    weight[block.counted.sum(axis=0) < 2] = 0.0
    loss = squared_loss(sample_of(block, weight))
    assert loss is not None
    found = loss.raw_asymptote + loss.member_variance / size
    assert found == pytest.approx(mean_over_subsets(block, weight, size), abs=1e-12)


def test_no_rows_with_two_members_give_no_loss() -> None:
    block = random_block(2, hard=False)
    few = RowBlock(block.outputs, np.arange(MEMBERS)[:, None] < np.ones(block.target.size), block.target, 2)
    assert squared_loss(sample_of(few)) is None


def test_rows_of_one_group_count_as_one_draw() -> None:
    block = random_block(3, hard=False)
    twice = RowBlock(
        np.repeat(block.outputs, 2, axis=1), np.repeat(block.counted, 2, axis=1), np.repeat(block.target, 2), 3
    )
    alone, grouped = squared_loss(sample_of(block)), squared_loss(sample_of(twice), groups=np.repeat(np.arange(12), 2))
    assert alone is not None
    assert grouped is not None
    np.testing.assert_allclose(alone.covariance, grouped.covariance, rtol=1e-12)


@pytest.mark.parametrize("n_members", [15, 40])
def test_means_of_raw_scores_against_fresh_members(n_members: int) -> None:
    rng = np.random.default_rng(3)
    n_rows, sd = 4000, 1.5
    centre, target = rng.normal(0.0, 1.5, n_rows), rng.integers(0, 2, n_rows)
    scores = centre + sd * rng.standard_normal((n_members, n_rows))
    block = RowBlock(both_scores(scores), rng.random(scores.shape) < 0.7, target, 2)
    squared, variance = squared_terms(block, two_chances)
    trials = block.counted.sum(axis=0)
    for size in (10, 100):
        fresh = expit(centre + sd / np.sqrt(size) * rng.standard_normal((200, n_rows)))
        by_row = squared - variance / trials + variance / size - ((fresh - target) ** 2).mean(axis=0)
        assert abs(by_row.mean()) < 3.0 * by_row.std() / np.sqrt(n_rows)


def test_the_variance_of_scores_does_not_depend_on_members_that_do_not_count() -> None:
    rng = np.random.default_rng(0)
    scores, target = rng.standard_normal((9, 20)), rng.integers(0, 2, 20)
    is_oob = np.arange(9)[:, None] < np.full(20, 6)

    def inverse_link(mean: np.ndarray) -> np.ndarray:
        return expit(mean)

    with_all = squared_terms(RowBlock(both_scores(scores), is_oob, target, 2), inverse_link)
    alone = squared_terms(RowBlock(both_scores(scores[:6]), is_oob[:6], target, 2), inverse_link)
    np.testing.assert_array_equal(with_all, alone)


def test_luck_is_the_spread_of_the_variance_over_members_that_all_rows_share() -> None:
    """All rows of a member are as far from their means: 20 members have variances that differ by chance."""
    rng = np.random.default_rng(6)
    variances, luck = [], []
    target, side = rng.integers(0, 2, 100), rng.choice([-1.0, 1.0], 100)
    for _ in range(200):
        second = rng.uniform(-0.4, 0.4, (20, 1)) * side
        outputs = np.stack([0.5 - second, 0.5 + second], axis=2)
        loss = squared_loss(sample_of(RowBlock(outputs, rng.random(second.shape) < 0.6, target, 2)))
        assert loss is not None
        variances.append(loss.member_variance)
        luck.append(loss.luck)
    # Of 200 draws the spread is known to 5 %.
    assert np.sqrt(np.mean(np.square(luck))) == pytest.approx(np.std(variances), rel=0.2)


@pytest.mark.parametrize("share", [0.6, 1.0])
def test_the_interval_of_the_size_holds_the_luck_that_all_rows_share(share: float) -> None:
    """Trees of one split are as far from the mean for all rows: the rows' noise alone held 20 to 28 % of the sizes."""
    held = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        second = 0.5 + rng.uniform(-0.26, 0.26, (30, 1)) * rng.choice([-1.0, 1.0], 300)
        outputs, counted = np.stack([1.0 - second, second], axis=2), rng.random(second.shape) < share
        loss = squared_loss(sample_of(RowBlock(outputs, counted, rng.integers(0, 2, 300), 2)))
        assert loss is not None
        low, high = loss.size_interval(0.001, 20_001, 0.95)
        # The variance of one member is 0.26² / 3.
        held += low <= 0.26**2 / 3 / 0.001 <= high
    assert held >= 360


@pytest.mark.parametrize("share", [0.6, 1.0])
def test_the_interval_of_the_size_holds_the_luck_of_raw_scores(share: float) -> None:
    """Halves of the members, whose noise all rows share, held 61 and 21 % of the sizes."""
    held, centre = 0, np.linspace(-1.5, 1.5, 300)
    # The second derivative of (p - y)² in the score is on average 2 p² (1 - p)²; the variance of a score is 4/3.
    variance = np.square(expit(centre) * expit(-centre)).mean() * 4.0 / 3.0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        scores = centre + rng.uniform(-2.0, 2.0, (30, 1)) * np.sign(centre)
        target = (rng.random(300) < expit(centre)).astype(int)
        block = RowBlock(both_scores(scores), rng.random(scores.shape) < share, target, 2)
        loss = squared_loss(sample_of(block), two_chances)
        assert loss is not None
        low, high = loss.size_interval(0.001, 20_001, 0.95)
        held += low <= variance / 0.001 <= high
    assert held >= 360


def test_the_variance_of_many_labels_is_the_curvature_along_the_members() -> None:
    """All rows are alike; halves of 24 members would have the same error in each."""
    rng = np.random.default_rng(8)
    n_labels, n_rows, n_members = 20, 600, 24
    own = rng.normal(0.0, 1.0, n_labels) + rng.normal(0.0, 1.0, (n_members, n_labels))
    block = RowBlock(
        np.repeat(own[:, None], n_rows, axis=1),
        np.ones((n_members, n_rows), dtype=bool),
        np.zeros(n_rows, dtype=np.intp),
        n_labels,
    )

    def score(mean: np.ndarray) -> float:
        return brier(softmax(mean), 0)

    # Half the second derivative along each member's deviation.
    mean, step = own.mean(axis=0), 1e-3
    pairs = [score(mean + step * (each - mean)) + score(mean - step * (each - mean)) - 2 * score(mean) for each in own]
    truth = float(np.mean(pairs)) / (2.0 * step**2) * n_members / (n_members - 1)
    loss = squared_loss(sample_of(block), lambda mean: np.asarray(softmax(mean, axis=1)))
    assert loss is not None
    assert loss.member_variance == pytest.approx(truth, rel=1e-3)
