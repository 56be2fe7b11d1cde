"""Arrays that are odd or wrong: the walk reads them as NumPy does, or refuses them, and never leaves their memory."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin.adapters.trees import move_values as move_plainly
from tests.extras import NEEDS_KERNEL

pytestmark = NEEDS_KERNEL

STUMP = np.array([[1, -1, -1], [2, -1, -1], [0, 0, 0], [0.5, 0, 0], [0, 0, 0]])


def stump(**changed: Any) -> Any:
    from ens_plugin._kernel.tree import FlatTree

    fields = dict(zip(("left", "right", "feature", "threshold", "missing_left"), STUMP, strict=True))
    return FlatTree(**{**fields, **changed})


def forest(*trees: Any, least_category: float = 0.0) -> Any:
    from ens_plugin._kernel.forest import Forest

    return Forest(trees, 1, np.float64, least_category)


def unaligned(values: NDArray[Any]) -> NDArray[Any]:
    """Return a copy whose numbers start one byte behind a multiple of their size."""
    space = np.zeros(values.nbytes + 1, np.uint8)
    copy = space[1:].view(values.dtype).reshape(values.shape)
    copy[...] = values
    assert not copy.flags.aligned
    return copy


def of_records(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a copy whose numbers are one and a half numbers apart."""
    records = np.zeros(values.shape, [("value", np.float64), ("other", np.int32)])
    records["value"] = values
    return records["value"]


def swapped(values: NDArray[Any]) -> NDArray[Any]:
    return values.astype(values.dtype.newbyteorder())


def reversed_twice(values: NDArray[Any]) -> NDArray[Any]:
    return np.ascontiguousarray(values[::-1])[::-1]


def read_only(values: NDArray[Any]) -> NDArray[Any]:
    values.flags.writeable = False
    return values


FORMS = [unaligned, of_records, swapped, reversed_twice, read_only, np.asfortranarray]


@pytest.mark.parametrize("form", FORMS)
def test_outputs_and_features_of_any_form_are_read(form: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
    from ens_plugin._kernel.outputs import margin_sums, move_values, value_sums

    rng = np.random.default_rng(0)
    supports, counted = rng.random((7, 40, 3)), rng.random((7, 40)) < 0.6
    target = rng.integers(0, 3, 40)
    if form is not swapped:  # which is not of float64
        expected = margin_sums(supports, counted, target)
        np.testing.assert_array_equal(margin_sums(form(supports.copy()), counted, target), expected)
        scores = supports[:, :, 0].copy()
        np.testing.assert_array_equal(value_sums(form(scores), counted), value_sums(supports[:, :, 0], counted))
    X = rng.random((40, 1))
    trees = forest(stump())
    table = trees.table([np.arange(3)])
    np.testing.assert_array_equal(trees.read(form(X.copy()), table), trees.read(X, table))
    outputs = np.zeros((2, 7, 40))
    for own, values in zip(outputs, (scores_of(supports), form(scores_of(supports))), strict=True):
        move_values(values, counted, own, counted)
    np.testing.assert_array_equal(*outputs)


def scores_of(supports: NDArray[np.float64]) -> NDArray[np.float64]:
    return supports[:, :, 1].copy()


def test_masks_hold_bytes_that_are_neither_0_nor_1() -> None:
    """Views of bytes as bool do; a value that is taken is one value, whatever its byte."""
    from ens_plugin._kernel.outputs import move_values, value_sums, vote_pairs

    rng = np.random.default_rng(1)
    codes = rng.choice(np.array([0, 1, 2, 255], np.uint8), (40, 5))
    mask, plain = codes.view(np.bool_), codes != 0
    values, outputs, expected = rng.random((40, 5)), *np.zeros((2, 40, 5))
    move_values(values, mask, outputs, mask)
    move_plainly(values, plain, expected, plain)
    np.testing.assert_array_equal(outputs[plain], expected[plain])
    np.testing.assert_array_equal(value_sums(values, mask), value_sums(values, plain))
    votes, slopes = (values > 0.5).astype(np.int8), np.ones(5, np.float32)
    np.testing.assert_array_equal(vote_pairs((votes, mask, slopes))[0], vote_pairs((votes, plain, slopes))[0])


ARRAYS = [
    np.zeros((5, 3)), np.zeros((5, 3))[::-2, 1:], np.asfortranarray(np.zeros((5, 3))), unaligned(np.zeros(4)),
    np.zeros(4, np.dtype([("x", np.int64), ("y", np.float32)]))["y"], np.zeros(4, "M8[s]"), np.array(3.0),
    np.broadcast_to(np.float64(1.0), 7),
]  # fmt: skip


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}-{array.strides}")
def test_an_address_is_that_of_the_first_number(array: NDArray[Any]) -> None:
    from ens_plugin._kernel.forest import address

    assert address(array) == array.ctypes.data


def test_what_is_no_array_has_no_address() -> None:
    from ens_plugin._kernel.forest import address

    assert address(None) == 0
    with pytest.raises(AttributeError, match="__array_struct__"):
        address([1.0])  # type: ignore[arg-type]


def test_places_without_a_value_are_refused() -> None:
    from ens_plugin._kernel.outputs import move_values

    taken, filled = np.zeros((2, 3, 40), bool)
    taken[0], filled[0], filled[1, 7] = True, True, True
    with pytest.raises(ValueError, match="1 of 40 rows have fewer values"):
        move_values(np.ones((3, 40)), taken, np.zeros((3, 40)), filled)


def test_a_leaf_that_two_nodes_lead_to_counts_the_rows_of_both() -> None:
    trees = forest(stump(right=np.array([1, -1, -1])))
    in_bag, every = trees.count(np.array([[0.0], [1.0], [1.0]]), np.packbits([[True, True, False]], axis=1), [0])
    assert (in_bag.tolist(), every.tolist()) == ([0, 2, 0], [0, 3, 0])


@pytest.mark.parametrize("shape", [(0, 33), (5, 0)])
def test_no_values_move_to_no_places(shape: tuple[int, int]) -> None:
    from ens_plugin._kernel.outputs import move_values

    none = np.zeros(shape, bool)
    for leaves in ((), (np.zeros(shape, np.uint8),)):
        move_values(np.zeros(shape if not leaves else (shape[0], 4)), none, np.zeros(shape), none, *leaves)


@pytest.mark.parametrize("dtype", [object, np.complex128, np.longdouble, "S4", "M8[s]"])
def test_a_table_holds_plain_numbers(dtype: Any) -> None:
    """Objects would be copied without being counted, and larger numbers not at all."""
    trees = forest(stump())
    values = np.zeros(3, dtype)
    with pytest.raises(ValueError, match="up to 8 bytes"):
        trees.table([values])
    with pytest.raises(ValueError, match="not one of this forest"):
        trees.read(np.zeros((2, 1)), values)


def set_tree(starts: Any, words: Any, number: int = 0) -> Any:
    return stump(sets=np.array([number, -1, -1]), set_starts=starts, set_words=words)


ONE, TWO = np.array([5], np.uint32), np.array([5, 7], np.uint32)


@pytest.mark.parametrize(
    ("starts", "words", "number"),
    [
        # A set of another tree; one that is not there; starts, or none, without words.
        ([0, 1], ONE, 1),
        ([0, 1], ONE, 2**40),
        ([0, 1], None, 0),
        (None, None, 0),
        ([], ONE, 0),
        ([[0, 1]], ONE, 0),
        # Differences of these starts overflow to numbers that ascend.
        ([0, 2**63 - 1, -(2**63), -1, 1], ONE, 0),
    ],
)
def test_sets_that_are_not_the_tree_s_own_are_refused(starts: Any, words: Any, number: int) -> None:
    own = None if starts is None else np.array(starts, np.int64)
    with pytest.raises(ValueError, match="set"):
        forest(set_tree(np.array([0, 2]), TWO), set_tree(own, words, number), set_tree(np.array([0, 2]), TWO))


def test_an_empty_set_holds_no_category() -> None:
    """Not even 0, to which a number below it is cut off, and which the next set holds."""
    empty, holds_0 = set_tree(np.array([0, 0]), ONE[:0]), set_tree(np.array([0, 1]), ONE)
    for trees, expected in (((empty, holds_0), [[2, 2], [1, 1]]), ((empty,), [[2, 2]])):
        own = forest(*trees, least_category=float(np.nextafter(-1.0, 0.0)))
        assert own.read(np.array([[-0.5], [0.0]]), own.table([np.arange(3)] * len(trees))).tolist() == expected


def test_numbers_below_minus_1_are_no_categories() -> None:
    for least in (-1.0, -1e9, np.nan):
        with pytest.raises(ValueError, match="least category"):
            forest(set_tree(np.array([0, 1]), ONE), least_category=least)


def test_checkpoints_whose_steps_overflow_do_not_ascend() -> None:
    trees = forest(*[stump()] * 5)
    places = np.array([1, 2**63 - 1, -(2**63), -1, 5])
    with pytest.raises(ValueError, match="do not ascend"):
        trees.stopping(trees.table([np.zeros(3)] * 5), places, np.zeros(5), np.zeros(5))


def test_votes_beyond_31_bits_are_refused() -> None:
    from ens_plugin._kernel.outputs import subset_votes

    one = np.array([[0]])
    for votes, n_slots, places, words in (
        (np.zeros((32_767, 1), np.uint16), 2**16, one, "slots"),
        (np.zeros((9, 1), np.uint16), 2**24, one, "slots"),
        (np.full((9, 1), 2**16), 2, one, "slots"),
        (np.full((9, 1), -1), 2**16, one, "slots"),
        (np.zeros((9, 1), np.uint16), 2, np.zeros((1, 10), int), "members"),
    ):
        with pytest.raises(ValueError, match=words):
            subset_votes(votes, np.array([0]), n_slots, places)


def test_a_target_that_is_no_slot_is_none() -> None:
    from ens_plugin._kernel.outputs import subset_votes

    votes = np.zeros((3, 4), np.uint16)
    target = np.array([0, 2**32, -(2**32), 2**40 + 1])
    assert subset_votes(votes, target, 2, np.array([[0, 1]])).tolist() == [0.0, 1.0, 1.0, 1.0]


CHANGED = """
import sys, threading, time
import numpy as np
from ens_plugin._kernel.forest import Forest
from ens_plugin._kernel.tree import FlatTree

depth = 4001  # not a multiple of the steps after which rows leave
n_nodes = 2 * depth + 1
left, right = np.full((2, n_nodes), -1)
left[: 2 * depth : 2], right[: 2 * depth : 2] = np.arange(1, 2 * depth, 2), np.arange(2, n_nodes, 2)
tree = FlatTree(left, right, np.zeros(n_nodes, int), np.zeros(n_nodes), np.zeros(n_nodes, bool))
X, found = np.ones((2000, 1), np.dtype(sys.argv[1])), []
forest = Forest([tree] * 20, 1, X.dtype)
table = forest.table([np.where(left < 0, 1, 0).astype(np.uint8)] * 20)
for _ in range(5):
    X[:] = 1.0
    walking = threading.Thread(target=lambda: found.append(forest.read(X, table)))
    walking.start()
    time.sleep(0.005)
    X[:] = np.nan
    walking.join()
assert np.all(found), "rows are at nodes that are no leaves"
"""


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_that_change_while_they_are_walked_end_at_leaves(dtype: str) -> None:
    """In a process of its own, because a walk that leaves its tree never ends, or ends the process."""
    subprocess.run([sys.executable, "-c", CHANGED, dtype], check=True, timeout=60)
