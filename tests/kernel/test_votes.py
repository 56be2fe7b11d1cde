"""The counts of votes of subsets in compiled code, against those of NumPy, which they equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ens_plugin.core.tally import Subsets, count_votes_by
from tests.extras import NEEDS_KERNEL

pytestmark = NEEDS_KERNEL


def subsets_of(rng: np.random.Generator, n_members: int, size: int, n_subsets: int) -> Subsets:
    places = np.array([rng.permutation(n_members)[:size] for _ in range(n_subsets)])
    indicators = np.zeros((n_subsets, n_members), dtype=np.float32)
    np.put_along_axis(indicators, places, 1.0, axis=1)
    return Subsets(places, indicators)


@pytest.mark.parametrize(
    ("n_members", "n_rows", "n_slots", "size", "n_subsets"),
    # One of each; ties of few members; fewer rows than are counted together, and one more; many slots; all members.
    [
        (1, 1, 1, 1, 1),
        (4, 15, 2, 2, 6),
        (9, 17, 3, 4, 20),
        (40, 100, 33, 7, 15),
        (400, 40, 300, 15, 12),
        (12, 16, 5, 12, 1),
    ],
)
def test_counts_are_those_of_numpy(n_members: int, n_rows: int, n_slots: int, size: int, n_subsets: int) -> None:
    from ens_plugin._kernel.outputs import subset_votes

    rng = np.random.default_rng(n_members)
    votes = rng.integers(0, n_slots, (n_members, n_rows), dtype=np.uint16)
    target, subsets = rng.integers(-1, n_slots, n_rows), subsets_of(rng, n_members, size, n_subsets)
    expected = count_votes_by(votes, target, n_slots, subsets)
    np.testing.assert_array_equal(subset_votes(votes, target, n_slots, subsets.places), expected)
    for row in range(min(n_rows, 5)):
        winner = np.array([np.bincount(votes[own, row], minlength=n_slots).argmax() for own in subsets.places])
        assert expected[row] == np.count_nonzero(winner != target[row])


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"votes": np.full((3, 4), 2, np.uint16)}, "not for 2 slots"),
        ({"votes": np.zeros((0, 4), np.uint16)}, "not for 2 slots"),
        ({"places": np.array([[0, 3]])}, "not of 3 members"),
        ({"places": np.array([[0, -1]])}, "not of 3 members"),
        ({"places": np.array([0, 1])}, "not of 3 members"),
        ({"target": np.zeros(5, int)}, "for 4 rows"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(changed: dict[str, Any], words: str) -> None:
    from ens_plugin._kernel.outputs import subset_votes

    given = {"votes": np.zeros((3, 4), np.uint16), "target": np.zeros(4, int), "places": np.array([[0, 1]]), **changed}
    with pytest.raises(ValueError, match=words):
        subset_votes(given["votes"], given["target"], 2, given["places"])
