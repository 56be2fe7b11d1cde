"""The sums over pairs of rows in compiled code, against those of NumPy, which they equal to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ens_plugin.adapters.trees import vote_pairs as compiled_pairs
from ens_plugin.core.pair_covariance import Voters, mean_pair_covariance, sum_pairs
from tests.extras import NEEDS_KERNEL

pytestmark = NEEDS_KERNEL


def voters(rng: np.random.Generator, n_members: int, n_rows: int, least: int) -> Voters:
    """Votes from `least` to 1, of which some do not count."""
    votes = rng.integers(least, 2, (n_members, n_rows), dtype=np.int8)
    return Voters(votes, rng.random((n_members, n_rows)) < 0.4, rng.normal(size=n_rows).astype(np.float32))


@pytest.mark.parametrize("least", [0, -1])
# One row and one member; members that fill a word, one more and less; so many that products are rounded.
@pytest.mark.parametrize(("n_members", "n_rows"), [(1, 1), (3, 2), (63, 40), (64, 17), (65, 33), (12_000, 5)])
def test_sums_are_those_of_numpy(n_members: int, n_rows: int, least: int) -> None:
    from ens_plugin._kernel.outputs import vote_pairs

    rng = np.random.default_rng(n_members)
    first, second = (voters(rng, n_members, size, least) for size in (n_rows, n_rows + 3))
    for other in (None, second):
        (sums, freedom), (expected, expected_freedom) = vote_pairs(first, other), sum_pairs(first, other)
        np.testing.assert_array_equal(sums, expected)
        assert freedom == expected_freedom


def test_sums_of_a_single_row_are_those_of_numpy() -> None:
    """As where the rows are one more than a number of whole parts."""
    from ens_plugin._kernel.outputs import vote_pairs

    rng = np.random.default_rng(3)
    first, second = voters(rng, 65, 1024, -1), voters(rng, 65, 1, -1)
    np.testing.assert_array_equal(vote_pairs(first, second)[0], sum_pairs(first, second)[0])


@pytest.mark.parametrize("least", [0, -1])
@pytest.mark.parametrize("as_bool", [False, True])
@pytest.mark.parametrize(("n_members", "n_rows", "step"), [(1, 3, 2), (9, 255, 4), (64, 257, 7), (131, 900, 100)])
def test_sums_of_blocks_are_those_of_copies(n_members: int, n_rows: int, step: int, least: int, as_bool: bool) -> None:
    from ens_plugin._kernel.outputs import block_pairs

    rng = np.random.default_rng(n_members)
    votes, counted, slopes = voters(rng, n_members, n_rows, least)
    own = votes != 0 if as_bool else votes
    blocks = [np.arange(start, n_rows, step) for start in range(0, step, 2)]
    sums, freedoms = block_pairs(own, counted, slopes[np.concatenate(blocks)], blocks)
    stop = 0
    for rows, freedom in zip(blocks, freedoms, strict=True):
        expected = sum_pairs(Voters(own[:, rows].astype(np.int8), counted[:, rows], slopes[rows]))
        np.testing.assert_array_equal(sums[:, stop : (stop := stop + rows.size)], expected[0])
        assert freedom == expected[1]


@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.float64])
def test_the_mean_over_pairs_is_the_same_without_copies_of_blocks(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    outputs, is_oob = rng.integers(0, 2, (90, 1700)).astype(dtype), rng.random((90, 1700)) < 0.4
    slopes = rng.normal(size=1700)
    monkeypatch.setattr("ens_plugin.core.pair_covariance.MAX_PRODUCTS", 90 * 60_000)
    # A block without slopes, of six that have every seventeenth row.
    slopes[1::17] = 0.0
    pairs = compiled_pairs()
    assert pairs is not None
    of_blocks, n_blocks = pairs.of_blocks, []

    def counted_blocks(*given: Any) -> Any:
        assert of_blocks is not None
        n_blocks.append(len(given[3]))
        return of_blocks(*given)

    found = mean_pair_covariance(outputs, is_oob, slopes, pairs._replace(of_blocks=counted_blocks))
    assert found == mean_pair_covariance(outputs, is_oob, slopes)
    assert n_blocks == ([] if dtype == np.float64 else [6])


@pytest.mark.parametrize(
    ("blocks", "words"),
    [
        ([np.array([0, 1]), np.array([1])], "two blocks"),
        ([np.array([0, 1, 4])], "not of 4 rows"),
        ([np.array([0, -1, 2])], "not of 4 rows"),
        ([np.array([0, 1])], "have shapes"),
    ],
)
def test_blocks_that_do_not_fit_are_refused(blocks: list[Any], words: str) -> None:
    from ens_plugin._kernel.outputs import block_pairs

    with pytest.raises(ValueError, match=words):
        block_pairs(np.zeros((3, 4), np.int8), np.ones((3, 4), bool), np.ones(3, np.float32), blocks)


def test_votes_of_more_bits_are_refused() -> None:
    from ens_plugin._kernel.outputs import block_pairs

    with pytest.raises(ValueError, match="not int64"):
        block_pairs(np.full((3, 4), 300), np.ones((3, 4), bool), np.ones(2, np.float32), [np.arange(2)])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"votes": np.zeros(4, np.int8)}, "have shapes"),
        ({"counted": np.ones((3, 5), bool)}, "have shapes"),
        ({"slopes": np.ones(5, np.float32)}, "have shapes"),
        ({"second": (np.zeros((2, 4), np.int8), np.ones((2, 4), bool), np.ones(4, np.float32))}, "of 3 and 2 members"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(changed: dict[str, Any], words: str) -> None:
    from ens_plugin._kernel.outputs import vote_pairs

    given = {"votes": np.zeros((3, 4), np.int8), "counted": np.ones((3, 4), bool), "slopes": np.ones(4, np.float32)}
    given = {"second": None, **given, **changed}
    with pytest.raises(ValueError, match=words):
        vote_pairs((given["votes"], given["counted"], given["slopes"]), given["second"])
