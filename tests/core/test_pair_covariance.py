from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin.core import pair_covariance
from ens_plugin.core import pair_covariance as pair_blocks
from ens_plugin.core.pair_covariance import fold_groups, mean_pair_covariance, shared_variance

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


def correlated(n_members: int, n_rows: int, seed: int, share: float = 0.4) -> tuple[Floats, Mask, Floats]:
    """Outputs whose rows share a few factors, who counts, and slopes."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(n_members, 3))
    outputs = factors @ rng.gamma(2.0, 0.5, size=(3, n_rows)) + rng.normal(size=(n_members, n_rows)) + 5.0
    return outputs, rng.random((n_members, n_rows)) < share, rng.normal(1.0, 0.5, n_rows)


def by_pairs(outputs: Floats, is_oob: Mask, slopes: Floats) -> tuple[float, float]:
    """The mean over pairs, and its variance, in two loops."""
    scaled, freedom = [], []
    for i in range(slopes.size):
        for j in range(i):
            both = is_oob[:, i] & is_oob[:, j]
            if both.sum() > 1:
                freedom.append(both.sum() - 1)
                scaled.append(slopes[i] * slopes[j] * np.cov(outputs[both, i], outputs[both, j])[0, 1] * freedom[-1])
    return np.sum(scaled) / np.sum(freedom), np.sum(np.square(scaled)) / np.sum(freedom) ** 2


@pytest.mark.parametrize("part_rows", [1024, 7])
@pytest.mark.parametrize("share", [0.4, 0.1])
def test_each_pair_has_its_own_members_and_means(share: float, part_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_covariance, "PART_ROWS", part_rows)
    data = correlated(25, 30, 0, share)
    found = mean_pair_covariance(*data)
    expected = by_pairs(*data)
    assert found.mean == pytest.approx(expected[0], rel=1e-4)
    assert found.variance == pytest.approx(expected[1], rel=1e-4)


@pytest.mark.parametrize("dtype", [np.bool_, np.int8])
@pytest.mark.parametrize("part_rows", [1024, 7])
def test_votes_are_whole_numbers(dtype: type, part_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pair_covariance, "PART_ROWS", part_rows)
    outputs, is_oob, slopes = correlated(25, 30, 6)
    votes = (outputs > 6).astype(np.int8) - (dtype is np.int8) * (outputs < 5).astype(np.int8)
    found = mean_pair_covariance(votes.astype(dtype), is_oob, slopes)
    expected = by_pairs(votes.astype(np.float64), is_oob, slopes)
    assert found.mean == pytest.approx(expected[0], rel=1e-6)
    assert found.variance == pytest.approx(expected[1], rel=1e-6)
    as_numbers = mean_pair_covariance(votes.astype(np.float64), is_oob, slopes)
    assert found.mean == pytest.approx(as_numbers.mean, rel=1e-4)


@pytest.mark.parametrize("unit", [1e-30, 1e30])
def test_the_unit_of_the_outputs_does_not_matter(unit: float) -> None:
    outputs, is_oob, slopes = correlated(25, 30, 1)
    plain = shared_variance(outputs, is_oob, slopes, 25, 30)
    assert shared_variance(outputs * unit, is_oob, slopes, 25, 30) == pytest.approx(plain * unit**2, rel=1e-3)


def test_many_rows_are_taken_in_blocks_of_rows_from_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The estimate of some pairs is near that of all; rows sorted by what they share do not mislead it."""
    outputs, is_oob, slopes = correlated(60, 1200, 2)
    order = np.argsort(outputs[0])
    outputs, is_oob, slopes = outputs[:, order], is_oob[:, order], slopes[order]
    whole = mean_pair_covariance(outputs, is_oob, slopes)
    monkeypatch.setattr(pair_blocks, "MAX_PRODUCTS", 60 * 1200 * 120)
    part = mean_pair_covariance(outputs, is_oob, slopes)
    assert part.mean == pytest.approx(whole.mean, rel=0.1)
    assert part.variance > 3 * whole.variance


@pytest.mark.parametrize("together", [1, 3, 100])
def test_blocks_have_every_row_at_their_stride(together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 53 rows in six blocks, the first five have nine rows and the last has eight."""
    outputs, is_oob, slopes = correlated(20, 53, 7)
    monkeypatch.setattr(pair_blocks, "MAX_PRODUCTS", 20 * 53 * 10)
    monkeypatch.setattr(pair_blocks, "LEAST_BLOCK", 10)
    monkeypatch.setattr(pair_blocks, "BYTES_TOGETHER", 0)
    monkeypatch.setattr(pair_blocks, "FEWEST_TOGETHER", together)
    blocks = [slice(start, None, 6) for start in range(5)]
    parts = [mean_pair_covariance(outputs[:, rows], is_oob[:, rows], slopes[rows]) for rows in blocks]
    freedom = [np.triu(is_oob[:, rows].T.astype(int) @ is_oob[:, rows] - 1, 1).clip(0).sum() for rows in blocks]
    found = mean_pair_covariance(outputs, is_oob, slopes)
    assert found.mean == pytest.approx(np.average([part.mean for part in parts], weights=freedom), rel=1e-6)
    in_columns = mean_pair_covariance(np.asfortranarray(outputs), np.asfortranarray(is_oob), slopes)
    assert in_columns.mean == pytest.approx(found.mean, rel=1e-6)


def test_a_known_variance_takes_the_place_of_the_rows_own() -> None:
    outputs, is_oob, slopes = correlated(25, 30, 8)
    own = np.array([outputs[mask, row].var(ddof=1) for row, mask in enumerate(is_oob.T)])
    expected = shared_variance(outputs, is_oob, slopes, 25, 30)
    assert shared_variance(outputs, is_oob, slopes, 25, 30, variance=own) == pytest.approx(expected, rel=1e-12)
    assert shared_variance(outputs, is_oob, slopes, 25, 30, variance=2.0 * own) > 1.01 * expected


def test_few_members_of_many_rows_take_little_memory() -> None:
    data = correlated(3, 6000, 3)
    tracemalloc.start()
    try:
        mean_pair_covariance(*data)
        assert tracemalloc.get_traced_memory()[1] < 50e6
    finally:
        tracemalloc.stop()


def test_without_pairs_a_rows_own_variance_is_left() -> None:
    outputs, slopes = np.array([[0.0, 1.0], [2.0, 1.0], [1.0, 4.0], [1.0, 0.0]]), np.array([1.0, 2.0])
    is_oob = np.array([[True, False], [True, False], [False, True], [False, True]])
    assert mean_pair_covariance(outputs, is_oob, slopes).variance == np.inf
    own = (2.0 + 4 * 8.0) / 2
    assert shared_variance(outputs, is_oob, slopes, 4, 2) == pytest.approx(0.8 * own / 2 / 4)


def by_formula(outputs: Floats, is_oob: Mask, slopes: Floats) -> tuple[float, float, float]:
    """The mean over pairs times what is kept of it, its own part, and what is kept; see docs/methods/uncertainty.md."""
    mean, variance = by_pairs(outputs, is_oob, slopes)
    own = [
        slope**2 * np.var(outputs[counts, row], ddof=1)
        for row, (slope, counts) in enumerate(zip(slopes, is_oob.T, strict=True))
    ]
    from_own = float(np.mean(own)) / slopes.size
    signal = from_own**2 + max(mean**2 - variance, 0.0)
    return mean * signal / (signal + variance), from_own, signal / (signal + variance)


@pytest.mark.parametrize(("kind", "is_floor"), [("shared", False), ("own", False), ("opposed", True)])
def test_a_noisy_mean_over_pairs_counts_less_and_a_negative_one_at_most_so_much(kind: str, is_floor: bool) -> None:
    outputs, is_oob, slopes = correlated(25, 30, 0)
    if kind == "own":
        outputs = np.random.default_rng(1).normal(size=outputs.shape)
    if kind == "opposed":
        # Three rows whose outputs add up to 0.
        outputs = outputs[:, :2] @ np.array([[1.0, -0.5, -0.5], [0.0, 0.8, -0.8]])
        is_oob, slopes = np.ones((25, 3), dtype=bool), np.ones(3)
    pairs, own, kept = by_formula(outputs, is_oob, slopes)
    assert (pairs + 0.8 * own < 0.25 * own) == is_floor
    assert (kept > 0.9) == (kind == "shared")
    expected = max(pairs + 0.8 * own, 0.25 * own) / 25
    assert shared_variance(outputs, is_oob, slopes, 25, slopes.size) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("dtype", [np.float64, np.bool_])
def test_a_rows_own_variance_is_of_its_members_less_one(dtype: type) -> None:
    outputs = np.random.default_rng(0).integers(0, 2, (12, 3)).astype(dtype)
    is_oob = np.arange(12)[:, None] // 4 == np.arange(3)
    own = [np.var(outputs[is_oob[:, row], row].astype(float), ddof=1) for row in range(3)]
    assert shared_variance(outputs, is_oob, np.ones(3), 12, 3) == pytest.approx(0.8 * np.mean(own) / 3 / 12)


def test_a_luck_that_all_rows_share_is_found_and_one_of_each_row_is_not() -> None:
    rng = np.random.default_rng(3)
    is_oob = rng.random((200, 400)) < 0.37
    own = rng.normal(size=(200, 400))
    luck = rng.normal(size=(200, 1))
    shared = shared_variance(luck + own, is_oob, np.ones(400), 200, 400) * 200
    alone = shared_variance(own, is_oob, np.ones(400), 200, 400) * 200
    assert shared == pytest.approx(luck.var(ddof=1), abs=0.1)
    assert alone == pytest.approx(0.8 / 400, abs=0.7 / 400)


def test_the_luck_of_the_bags_is_no_covariance() -> None:
    """Rows in pairs, each of which moves the other's output when it is in the bag: 0 over members that have neither.

    Means over all out-of-bag members of a row would make it a covariance of 4, for one pair in 39.
    """
    rng = np.random.default_rng(4)
    is_oob = rng.random((4000, 40)) < 0.5
    other = is_oob[:, np.arange(40) ^ 1]
    outputs = rng.normal(size=(4000, 40)) + 4.0 * ~other
    assert abs(mean_pair_covariance(outputs, is_oob, np.ones(40)).mean) < 0.25 * 4 / 39


def test_rows_of_a_group_are_one_row_where_the_same_members_count() -> None:
    outputs, is_oob, slopes = correlated(25, 12, 4)
    groups = np.repeat(np.arange(6), 2)
    shared = is_oob.copy()
    shared[:, 1::2] = shared[:, ::2]
    folded, counted, ones = fold_groups(outputs, shared, slopes, groups)
    np.testing.assert_allclose(folded, (outputs * slopes).reshape(25, 6, 2).mean(axis=2))
    np.testing.assert_array_equal(counted, shared[:, ::2])
    np.testing.assert_array_equal(ones, np.ones(6))
    same = fold_groups(outputs, shared, slopes, np.arange(12))
    assert same[0] is outputs
    # Where each row has members of its own, rows are not added up.
    assert fold_groups(outputs, is_oob, slopes, groups)[0].shape == (25, 12)


def test_copies_of_all_rows_do_not_change_the_variance() -> None:
    outputs, is_oob, slopes = correlated(40, 50, 5)
    alone = shared_variance(outputs, is_oob, slopes, 40, 50)
    twice = [np.repeat(each, 2, axis=-1) for each in (outputs, is_oob, slopes)]
    assert shared_variance(*fold_groups(*twice, np.repeat(np.arange(50), 2)), 40, 50) == pytest.approx(alone, rel=1e-4)
