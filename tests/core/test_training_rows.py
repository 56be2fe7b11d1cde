"""The share of training rows, by draws that are made here: limits that hold for one training row, or for none."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin.core.training_rows import LeafDraws, estimate_training_share, share_of_equal_rows

N_TRAINED, N_MEMBERS = 400, 100
RNG = np.random.default_rng(0)
DRAWS = np.stack(
    [np.bincount(RNG.integers(0, N_TRAINED, N_TRAINED), minlength=N_TRAINED) for _ in range(N_MEMBERS)]
).astype(np.uint8)


def limits_of(is_trained: NDArray[np.bool_], disputed: float, rng: np.random.Generator) -> LeafDraws:
    """Return limits of rows that some members give another label, but none that drew the row."""
    places = rng.choice(N_TRAINED, is_trained.size, replace=False)
    own = np.where(is_trained, DRAWS[:, places], 0)
    differs = rng.random((N_MEMBERS, is_trained.size)) < disputed * rng.random(is_trained.size)
    held = np.maximum(own, rng.integers(1, 9, own.shape)).astype(np.uint8)
    leaves = rng.integers(0, 100, own.shape)
    return LeafDraws(DRAWS, np.where(differs & (own == 0), 0, held).astype(np.uint8), held, leaves)


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5, 0.75, 1.0])
@pytest.mark.parametrize("disputed", [0.3, 0.8])
def test_the_share_is_estimated_and_recognised_rows_are_training_rows(share: float, disputed: float) -> None:
    """Training rows are disputed by a third as many members, so that fewer of them tell something."""
    estimates, are_trained = [], []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        is_trained = rng.random(400) < share
        found = estimate_training_share(limits_of(is_trained, disputed, rng))
        are_trained.extend(is_trained[found.rows])
        assert found.upper >= found.share
        estimates.append(found.share - is_trained.mean())
    assert np.mean(are_trained) > 0.97
    assert abs(np.mean(estimates)) < 0.03
    assert np.std(estimates) < 0.1


def test_fresh_rows_are_hardly_ever_recognised() -> None:
    shares = [
        estimate_training_share(limits_of(np.zeros(150, dtype=bool), disputed, np.random.default_rng(seed))).share
        for disputed in (0.05, 0.3, 1.0)
        for seed in range(60)
    ]
    assert np.count_nonzero(shares) == 0


def test_rows_without_limits_tell_nothing() -> None:
    free = np.full((N_MEMBERS, 50), 255, dtype=np.uint8)
    found = estimate_training_share(LeafDraws(DRAWS, free, free, free))
    assert (found.share, found.upper, found.rows.size) == (0.0, 0.0, 0)


def test_where_rows_are_as_near_to_each_other_as_to_training_rows_nothing_is_told() -> None:
    """Repeated measurements: every row shares its leaves with another one, so that fresh rows match training rows."""
    half = limits_of(np.ones(60, dtype=bool), 0.8, np.random.default_rng(0))
    twice = LeafDraws(DRAWS, *(np.repeat(own, 2, axis=1) for own in (half.limits, half.held, half.leaves)))
    assert estimate_training_share(half).share > 0.9
    assert estimate_training_share(twice).share == 0.0


def test_one_recognised_row_is_no_proof() -> None:
    """A fresh row may be so like a training row that all members of its bag agree about both."""
    is_trained = np.zeros(60, dtype=bool)
    is_trained[7] = True
    rng = np.random.default_rng(3)
    one = limits_of(is_trained, 0.5, rng)
    assert estimate_training_share(one).share == 0.0


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("n_values", [40, 400, 10**9])
def test_equal_rows_count_only_where_they_are_more_than_by_nature(share: float, n_values: int) -> None:
    """Of 300 rows of so many values, as many fresh ones equal a training row as training rows equal each other."""
    rng = np.random.default_rng([n_values, int(10 * share)])
    trained, fresh = rng.integers(0, n_values, 300).astype(np.uint64), rng.integers(0, n_values, 200).astype(np.uint64)
    n_of_training = int(200 * share)
    rows = np.concatenate([rng.choice(trained, n_of_training, replace=False), fresh[n_of_training:]])
    found = share_of_equal_rows(rows, trained)
    if n_values == 10**9:
        assert found.share == pytest.approx(share, abs=0.01)
        assert sorted(found.rows.tolist()) == list(range(n_of_training))
    elif share == 0.0 or n_values == 40:
        assert found.share == 0.0
    else:
        assert found.share in (0.0, pytest.approx(share, abs=0.25))
