"""Sizes at which votes tie."""

from __future__ import annotations

import numpy as np
import pytest

from ens_plugin.core.validation import is_tied, previous_odd_size


@pytest.mark.parametrize(
    ("ties_to", "expected"),
    [
        (0.0, [1, 2, 2.5, 3, 4, 100, np.inf]),
        (2.0, [1, 1, 2.5, 3, 4, 100, np.inf]),
        (np.inf, [1, 1, 2.5, 3, 3, 99, np.inf]),
    ],
)
def test_even_sizes_up_to_a_limit_become_the_odd_ones_below(ties_to: float, expected: list[float]) -> None:
    np.testing.assert_array_equal(previous_odd_size([1, 2, 2.5, 3, 4, 100, np.inf], ties_to), expected)


def test_votes_tie_at_even_sizes_up_to_a_limit() -> None:
    assert is_tied([1, 2, 3, 4], ties_to=2.0).tolist() == [False, True, False, False]
