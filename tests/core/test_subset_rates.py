from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin.core.sample import _bins, rates_of_subsets, rates_of_votes
from ens_plugin.core.tally import RowBlock

FloatArray = NDArray[np.float64]


def block(kind: str, n_members: int, n_rows: int, n_labels: int = 4) -> RowBlock:
    rng = np.random.default_rng(3)
    is_oob = rng.random((n_members, n_rows)) < 0.8
    is_oob[:3] = True
    target = rng.integers(0, n_labels, n_rows)
    votes = rng.integers(0, n_labels, (n_members, n_rows))
    # Some rows are certain, some are nearly so.
    votes[:, 0] = votes[:, 1] = 2
    votes[1, 1] = 0
    if kind == "labels":
        return RowBlock(votes, is_oob, target, n_labels)
    if kind == "scores":
        return RowBlock(rng.normal(size=(n_members, n_rows, n_labels)), is_oob, target, n_labels)
    return RowBlock(np.eye(n_labels)[votes], is_oob, target, n_labels)


def brute(data: RowBlock, row: int, size: int, n_members: int) -> float:
    """Return the share of all subsets of the row's first members that is wrong."""
    mine = data.outputs[data.counted[:, row], row][:n_members]
    outputs = np.eye(data.n_labels)[mine] if mine.ndim == 1 else mine
    subsets = combinations(range(n_members), size)
    return float(np.mean([np.argmax(outputs[list(chosen)].sum(axis=0)) != data.target[row] for chosen in subsets]))


def members_used(data: RowBlock) -> NDArray[np.int64]:
    """Return the number of members of each row that its subsets are drawn from."""
    used, trials = np.zeros(data.target.size, dtype=np.int64), data.counted.sum(axis=0)
    for n_members, rows in _bins(trials):
        used[rows] = n_members
    assert (used <= trials).all()
    return used


@pytest.mark.parametrize("kind", ["labels", "indicators", "scores"])
def test_few_subsets_are_all_taken(kind: str) -> None:
    data, sizes = block(kind, 7, 30), np.array([1, 3, 5])
    rates = rates_of_subsets(data, sizes, np.random.default_rng(0))
    members = members_used(data)
    for row in range(30):
        for index, size in enumerate(sizes):
            found = rates.wrong[index, row]
            if size > members[row]:
                assert np.isnan(found)
                continue
            np.testing.assert_allclose(found, brute(data, row, int(size), int(members[row])), atol=1e-12)
            assert rates.noise[index, row] == 0


@pytest.mark.slow
def test_random_subsets_are_unbiased_and_as_noisy_as_they_say() -> None:
    data, sizes = block("indicators", 14, 40), np.array([1, 5])
    draws = [rates_of_subsets(data, sizes, np.random.default_rng(seed)) for seed in range(60)]
    wrong = np.array([rates.wrong[1] for rates in draws])
    members = members_used(data)
    exact = np.array([brute(data, row, 5, int(members[row])) for row in range(40)])
    se = wrong.std(axis=0, ddof=1) / np.sqrt(60)
    assert (np.abs(wrong.mean(axis=0) - exact) <= 4.5 * se + 1e-9).all()
    assert (wrong.var(axis=0, ddof=1).sum()) <= 1.1 * draws[0].noise[1].sum()


def test_votes_and_their_indicators_are_one() -> None:
    sizes = np.array([1, 9])
    first, second = (
        rates_of_subsets(block(kind, 60, 50), sizes, np.random.default_rng(0)) for kind in ("labels", "indicators")
    )
    np.testing.assert_array_equal(first.wrong, second.wrong)


def test_subsets_are_of_the_row_s_own_members_whatever_the_others_hold() -> None:
    data = block("scores", 9, 20)
    spoiled = RowBlock(np.where(data.counted[:, :, None], data.outputs, 99.0), data.counted, data.target, data.n_labels)
    first, second = (rates_of_subsets(each, np.array([1, 3]), np.random.default_rng(0)) for each in (data, spoiled))
    np.testing.assert_array_equal(first.wrong, second.wrong)


def test_rows_without_members_have_no_subsets() -> None:
    empty = RowBlock(np.zeros((3, 4), dtype=np.int64), np.zeros((3, 4), dtype=bool), np.zeros(4, dtype=np.int64), 2)
    rates = rates_of_subsets(empty, np.array([1]), np.random.default_rng(0))
    assert np.isnan(rates.wrong).all()


@pytest.mark.parametrize(("n_labels", "n_members"), [(3, 9), (40, 31), (120, 40)])
def test_votes_have_the_rates_of_their_indicators(n_labels: int, n_members: int) -> None:
    """Votes are ranked by one maximum of whole numbers, indicators slot by slot: the same labels win, to the bit."""
    votes, sizes = block("labels", n_members, 90, n_labels), np.array([1, 2, 5, 9])
    indicators = RowBlock(np.eye(n_labels)[votes.outputs], votes.counted, votes.target, n_labels)
    found, expected = (rates_of_subsets(data, sizes, np.random.default_rng(1)) for data in (votes, indicators))
    np.testing.assert_array_equal(found.wrong, expected.wrong)
    np.testing.assert_array_equal(found.noise, expected.noise)


def test_all_subsets_of_votes_on_two_labels_are_counted() -> None:
    """Against every subset of each row's votes; a row with too few members has no share."""
    wrong, trials, sizes = np.array([2, 0, 5, 3]), np.array([5, 4, 7, 3]), np.array([1, 3, 5])
    found = rates_of_votes(wrong.astype(float), trials.astype(float), sizes)
    for row, (k, n) in enumerate(zip(wrong, trials, strict=True)):
        votes = np.arange(n) < k
        for place, size in enumerate(sizes):
            every = [sum(votes[list(some)]) > size / 2 for some in combinations(range(n), size)]
            expected = np.mean(every) if every else np.nan
            np.testing.assert_allclose(found.wrong[place, row], expected, atol=1e-12)
    assert not found.noise.any()
