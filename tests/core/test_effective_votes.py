from __future__ import annotations

import numpy as np
import pytest

from ens_plugin.core.row_model import effective_votes, is_close


def test_margins_below_three_tenths_are_close() -> None:
    margin = np.array([-0.31, -0.3, -0.29, 0.0, 0.29, 0.3, 0.31])
    assert is_close(margin).tolist() == [False, False, True, True, True, False, False]


@pytest.mark.parametrize("worth", [1, 2, 7, 40])
def test_mean_of_some_votes_is_worth_as_many(worth: int) -> None:
    """Their variance is p(1 - p) over their number, exactly."""
    p = np.linspace(0.4, 0.6, 11)
    spreads = float((p * (1 - p)).sum()), float((p * (1 - p) / worth).sum())
    assert effective_votes((1.0, 1.0), spreads) == pytest.approx(worth, rel=1e-12)


def test_all_rows_count_only_where_none_is_close() -> None:
    assert effective_votes((8.0, 2.0), (9.0, 3.0)) == 3.0
    assert effective_votes((8.0, 2.0), (0.0, 0.0)) == 4.0


def test_worth_is_at_least_one_and_at_most_a_thousand() -> None:
    assert effective_votes((1.0, 2.0), (1.0, 2.0)) == 1.0
    assert effective_votes((1.0, 0.0), (1.0, 0.0)) == 1000.0
