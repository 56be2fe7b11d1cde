"""The hard votes that a probability is worth, from few members, against members that average known votes."""

from __future__ import annotations

import numpy as np
import pytest

from ens_plugin.analysis.estimates import soft_spreads
from ens_plugin.core.row_model import effective_votes
from ens_plugin.core.tally import SupportTally


@pytest.mark.parametrize("n_members", [2, 3, 8, 40])
@pytest.mark.parametrize("worth", [2, 6])
def test_worth_does_not_depend_on_the_number_of_members(n_members: int, worth: int) -> None:
    """The mean of 2 and of 6 votes; q(1 - q) of 3 members alone would give 1.7 and 5.7."""
    rng = np.random.default_rng(0)
    wrong = rng.beta(1.0, 3.0, 100_000)
    support = rng.binomial(worth, wrong, (n_members, wrong.size)) / worth
    trials = np.full(wrong.size, float(n_members))
    tally = SupportTally(trials, support.sum(axis=0), (support**2).sum(axis=0), (support > 0.5).sum(axis=0))
    every_row, close_rows = soft_spreads(tally)
    assert effective_votes(every_row, every_row) == pytest.approx(worth, rel=0.02)
    assert effective_votes(every_row, close_rows) == pytest.approx(worth, rel=0.02)
