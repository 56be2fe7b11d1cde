"""Losses by whether a row's neighbours were drawn, against plain loops; their difference in rows of random order."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin.core.alike_rows import adjacent_losses
from ens_plugin.core.bags import Bags


def drawn(n_members: int, n_rows: int, seed: int) -> NDArray[np.bool_]:
    rng = np.random.default_rng(seed)
    return rng.random((n_members, n_rows)) < 0.632


def test_means_are_those_of_loops() -> None:
    rng = np.random.default_rng(0)
    in_bag, losses = drawn(40, 230, 0), rng.random((40, 230))
    order = rng.permutation(230)
    found = adjacent_losses(losses[:, order], ~in_bag[:, order], order, Bags.from_mask(in_bag))
    member = [losses[m][~in_bag[m]].mean() for m in range(40)]
    rows = []
    for row in range(230):
        beside = [place for place in (row - 1, row + 1) if 0 <= place < 230]
        kinds: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
        for m in np.flatnonzero(~in_bag[:, row]):
            kinds[bool(in_bag[m, beside].any())].append((losses[m, row], member[m]))
        if kinds[True] and kinds[False]:
            alone, others = np.mean(kinds[False], axis=0), np.mean(kinds[True], axis=0)
            rows.append((others[0] + (alone - others) @ (1, -1), others[0], min(len(kinds[False]), 4)))
    without, beside_mean, weight = np.array(rows[: len(rows) // 10 * 10]).T
    assert found is not None
    np.testing.assert_allclose(found.without, np.average(without, weights=weight))
    np.testing.assert_allclose(found.beside, np.average(beside_mean, weights=weight))


def test_too_few_rows_give_none() -> None:
    in_bag = drawn(20, 150, 0)
    assert adjacent_losses(np.ones((20, 150)), ~in_bag, np.arange(150), Bags.from_mask(in_bag)) is None


@pytest.mark.parametrize("shares", [(0.632,), (0.05, 0.3, 0.632)], ids=["equal bags", "unequal bags"])
def test_difference_has_its_standard_error_in_random_order(shares: tuple[float, ...]) -> None:
    found = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        share = rng.choice(shares, (60, 1))
        in_bag = rng.random((60, 300)) < share
        # Members and rows that differ much, and members of small bags that err more.
        losses = rng.random((60, 300)) * (rng.lognormal(size=(60, 1)) / share + rng.lognormal(size=300))
        result = adjacent_losses(losses, ~in_bag, np.arange(300), Bags.from_mask(in_bag))
        assert result is not None
        found.append(result.standard_errors)
    assert abs(np.mean(found)) < 0.3
    assert 0.8 < np.std(found) < 1.25
    assert np.abs(found).max() < 5.0


def test_losses_that_depend_on_the_row_before_are_found() -> None:
    in_bag, rng = drawn(30, 500, 0), np.random.default_rng(1)
    losses = rng.random((30, 500))
    losses[:, 1:] -= 0.2 * in_bag[:, :-1]
    result = adjacent_losses(losses, ~in_bag, np.arange(500), Bags.from_mask(in_bag))
    assert result is not None
    assert result.standard_errors > 5.0
    assert 0.1 < result.without - result.beside < 0.2
