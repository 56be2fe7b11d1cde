"""The noise of an error curve that comes from its members: groups left out one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin.core.jackknife import N_GROUPS, left_out_sd
from ens_plugin.core.margins import fit_margins
from ens_plugin.core.weights import RowWeight

SIZES = [5, 41, np.inf]


def drawn(seed: int, n_members: int = 40, n_rows: int = 300, share: float = 0.6) -> tuple[NDArray[Any], NDArray[Any]]:
    """Margins that a few members of large scores move on all rows at once, and which of them count."""
    rng = np.random.default_rng(seed)
    rows = np.random.default_rng(99).normal(0.6, 0.6, n_rows)
    shared = 1.0 - rng.exponential(1.0, n_members)
    margins = rows + shared[:, None] + rng.normal(0.0, 0.5, (n_members, n_rows))
    return margins, rng.random((n_members, n_rows)) < share


def fitted_errors(margins: NDArray[Any], counted: NDArray[Any]) -> NDArray[Any]:
    # The spread of a row's margins takes two members.
    used = counted.sum(axis=0) >= 2
    margins, counted = margins[:, used], counted[:, used]
    trials = counted.sum(axis=0)
    known = np.ma.masked_array(margins, ~counted)
    mean, sd = known.mean(axis=0).data, known.std(axis=0, ddof=1).data
    return fit_margins(mean, sd, trials).error(SIZES)


@pytest.mark.parametrize("share", [0.6, 0.08], ids=["many members", "few members"])
def test_it_is_the_jackknife_over_groups_of_members(share: float) -> None:
    margins, counted = drawn(0, share=share)
    group = np.arange(40) % N_GROUPS
    errors = np.array([fitted_errors(margins[group != one], counted[group != one]) for one in range(N_GROUPS)])
    expected = np.sqrt((N_GROUPS - 1) / N_GROUPS * ((errors - errors.mean(axis=0)) ** 2).sum(axis=0))
    np.testing.assert_allclose(left_out_sd(margins, counted, np.ones(300), SIZES), expected, rtol=1e-6)


def test_rows_that_stand_for_more_are_fitted_together_and_have_about_the_same_sd() -> None:
    margins, counted = drawn(2, n_rows=1500)
    one_by_one = left_out_sd(margins, counted, np.ones(1500), SIZES)
    together = left_out_sd(margins, counted, RowWeight(np.ones(1500), np.full(1500, 10.0)), SIZES)
    assert (together != one_by_one).all()
    np.testing.assert_allclose(together, one_by_one, rtol=0.02)


def test_too_few_members_to_leave_out_have_an_sd_of_0() -> None:
    margins, counted = drawn(1, n_members=3)
    assert left_out_sd(margins, counted, np.ones(300), SIZES).tolist() == [0.0, 0.0, 0.0]


def test_members_that_agree_have_no_luck() -> None:
    margins = np.tile(np.linspace(-1, 1, 50), (12, 1))
    np.testing.assert_allclose(left_out_sd(margins, np.ones((12, 50), bool), np.ones(50), SIZES), 0.0, atol=1e-9)


@pytest.mark.slow
def test_it_is_the_spread_over_other_members() -> None:
    draws = [drawn(seed) for seed in range(60)]
    truth = np.std([fitted_errors(*draw) for draw in draws], axis=0, ddof=1)
    found = np.sqrt(np.mean([left_out_sd(*draw, np.ones(300), SIZES) ** 2 for draw in draws], axis=0))
    assert (found / truth)[1:] == pytest.approx(1.0, abs=0.3)
