from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from ens_plugin.errors import InputError
from ens_plugin.papers.ensemble_size_2013 import ban_size, error_reduction, mcnemar_size, reduction_size


def ban_by_hand(path: list[float]) -> int | None:
    """2013 section 3, as a loop over batches."""
    smooth = [float(np.mean(path[max(0, t - 4) : t + 1])) for t in range(len(path))]
    for end in range(40, len(path) + 1, 20):
        before, batch = smooth[: end - 20], smooth[end - 20 : end]
        if min(batch) >= min(before):
            return int(np.argmin(before)) + 1
    return None


@given(st.integers(0, 2**31), st.integers(1, 200))
def test_ban_is_the_published_loop(seed: int, length: int) -> None:
    noise = np.random.default_rng(seed).normal(0.0, 0.01, length)
    path = list(np.clip(0.1 + 0.4 / np.arange(1, length + 1) + noise, 0, 1))
    assert ban_size(path) == ban_by_hand(path)


def test_ban_stops_at_once_on_a_flat_path_and_never_on_a_falling_one() -> None:
    assert ban_size([0.1] * 40) == 1
    assert ban_size([0.1] * 39) is None
    assert ban_size(list(np.linspace(0.5, 0.1, 400))) is None


def test_ban_ignores_what_comes_after_the_stop() -> None:
    path = [0.3] * 10 + [0.2] * 50
    assert ban_size(path) == ban_size([*path, *[0.0] * 100]) == 15


def test_mcnemar_by_brute_force() -> None:
    rng = np.random.default_rng(3)
    wrong = rng.random((41, 150)) < rng.beta(1, 2, size=150)
    final = wrong.sum(axis=0) > 20
    for size in range(1, 42, 2):
        now = wrong[:size].sum(axis=0) > size / 2
        b, c = np.sum(~now & final), np.sum(now & ~final)
        if b + c == 0 or chi2.sf(max(abs(int(b) - int(c)) - 1, 0) ** 2 / (b + c), 1) >= 0.05:
            break
    assert mcnemar_size(wrong) == size


def test_mcnemar_needs_more_members_at_a_stricter_level_and_with_more_rows() -> None:
    rng = np.random.default_rng(0)
    wrong = rng.random((301, 4000)) < rng.beta(1, 3, size=4000)
    assert mcnemar_size(wrong, 0.2) >= mcnemar_size(wrong, 0.05) >= mcnemar_size(wrong, 0.001)
    assert mcnemar_size(wrong) >= mcnemar_size(wrong[:, :50])


@given(st.permutations(range(60)))
def test_mcnemar_does_not_depend_on_the_order_of_rows(order: list[int]) -> None:
    wrong = np.random.default_rng(5).random((31, 60)) < 0.35
    assert mcnemar_size(wrong[:, order]) == mcnemar_size(wrong)


def test_mcnemar_of_members_that_agree_is_one() -> None:
    assert mcnemar_size(np.tile([[0, 1, 1, 0]], (10, 1))) == 1
    assert mcnemar_size([[True, False]]) == 1


def test_mcnemar_when_no_smaller_size_will_do() -> None:
    """Two members: the first wrong about all rows, the second about none, 'tied' rows are left out."""
    assert mcnemar_size(np.vstack([np.ones(30), np.zeros(30)])) == 1
    decided = np.vstack([np.ones(60), np.zeros(60), np.zeros(60), np.zeros(60)])
    assert mcnemar_size(decided) == 3


@given(st.floats(0.01, 0.9999))
def test_reduction_size_is_the_smallest(share: float) -> None:
    size = reduction_size(share)
    assert error_reduction(size) >= share - 1e-9
    assert size == 2 or error_reduction(size - 1) < share + 1e-12


def test_reductions_of_the_rule() -> None:
    assert [error_reduction(m) for m in (1, 2, 4)] == [0.0, 0.5, 0.75]
    assert [reduction_size(share) for share in (0.5, 0.9, 0.99)] == [2, 10, 100]


def test_bad_input_is_named() -> None:
    with pytest.raises(InputError, match="error_path must lie in"):
        ban_size([0.1, 1.2])
    with pytest.raises(InputError, match="error_path is empty"):
        ban_size([])
    with pytest.raises(InputError, match="error_path holds NaN"):
        ban_size([np.nan, 0.1])
    with pytest.raises(InputError, match="wrong must have shape"):
        mcnemar_size([0, 1])
    with pytest.raises(InputError, match="wrong must have shape"):
        mcnemar_size(np.zeros((0, 3)))
    with pytest.raises(InputError, match="wrong must hold only zeros and ones"):
        mcnemar_size([[0.5, 1.0]])
    with pytest.raises(InputError, match="level must lie strictly"):
        mcnemar_size([[0, 1]], 1.0)
    with pytest.raises(InputError, match="n_members must be"):
        error_reduction(0)
    with pytest.raises(InputError, match="share must lie strictly"):
        reduction_size(1.0)
