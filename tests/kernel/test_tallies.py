"""The compiled sums over members against those of NumPy, which they equal to the bit."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin import _kernel
from ens_plugin.adapters.trees import compiled_sums
from ens_plugin.core.tally import RowBlock, margin_sums, score_sums
from tests.extras import NEEDS_KERNEL

pytestmark = NEEDS_KERNEL

N_MEMBERS = 25


def drawn(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Return normal outputs; tenths, which have many ties and sums that are rounded; or zeros of both signs."""
    if kind == "normal":
        return rng.normal(size=shape)
    if kind == "tenths":
        return rng.integers(-3, 4, shape) / 10.0
    return rng.choice([0.0, -0.0, 1.0], shape)


def block_of(kind: str, n_rows: int, n_labels: int, layout: str = "rows last") -> RowBlock:
    rng = np.random.default_rng(n_rows + n_labels)
    counted = rng.random((N_MEMBERS, n_rows)) < 0.5
    # Rows without members, and with a single one.
    counted[:, : n_rows // 8] = False
    counted[0, : n_rows // 16] = True
    if n_labels == 2:
        return RowBlock(drawn(rng, kind, counted.shape), counted, rng.integers(0, 2, n_rows), 2)
    outputs = drawn(rng, kind, (N_MEMBERS, n_labels, n_rows)).transpose(0, 2, 1)
    if layout != "rows last":
        outputs = np.ascontiguousarray(outputs)
    if layout == "every second":
        outputs = np.repeat(outputs, 2, axis=1)[:, ::2]
    return RowBlock(outputs, counted, rng.integers(0, n_labels, n_rows), n_labels)


def assert_same_bits(found: NDArray[np.float64], expected: NDArray[np.float64]) -> None:
    np.testing.assert_array_equal(found.view(np.uint64), expected.view(np.uint64))


@pytest.mark.parametrize("kind", ["normal", "tenths", "zeros"])
@pytest.mark.parametrize("n_rows", [1, 31, 32, 33, 200])
def test_sums_of_scores_are_those_of_numpy(kind: str, n_rows: int) -> None:
    block = block_of(kind, n_rows, 2)
    of_values = compiled_sums(block).of_values
    assert of_values is not None
    assert_same_bits(of_values(block), score_sums(block))


@pytest.mark.parametrize("layout", ["rows last", "labels last", "every second"])
@pytest.mark.parametrize("kind", ["normal", "tenths", "zeros"])
def test_sums_of_margins_are_those_of_numpy(kind: str, layout: str) -> None:
    for n_rows, n_labels in product((1, 31, 32, 33, 200), (3, 5, 16, 17, 120)):
        block = block_of(kind, n_rows, n_labels, layout)
        of_margins = compiled_sums(block).of_margins
        assert of_margins is not None
        assert_same_bits(of_margins(block), margin_sums(block))


def test_the_columns_of_a_larger_array_are_read_in_place() -> None:
    whole, part = block_of("normal", 200, 2), slice(40, 150)
    block = RowBlock(whole.outputs[:, part], whole.counted[:, part], whole.target[part], 2)
    of_values = compiled_sums(block).of_values
    assert of_values is not None
    assert_same_bits(of_values(block), score_sums(block))


def test_numpy_sums_what_is_not_float64_and_where_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    block = block_of("normal", 40, 3)
    single = RowBlock(block.outputs.astype(np.float32), block.counted, block.target, 3)
    assert compiled_sums(single) == (None, None)
    monkeypatch.setattr(_kernel, "is_used", lambda: False)
    assert compiled_sums(block) == (None, None)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"outputs": np.zeros((N_MEMBERS, 40, 3), np.float32)}, "of float64"),
        ({"counted": np.ones((N_MEMBERS, 39), bool)}, "an entry in the mask"),
        ({"target": np.full(40, 3)}, "not one of at least two labels"),
        ({"target": np.full(40, -1)}, "not one of at least two labels"),
        ({"target": np.zeros(41, int)}, "not one of at least two labels"),
        ({"outputs": np.zeros((N_MEMBERS, 40, 1))}, "not one of at least two labels"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(changed: dict[str, Any], words: str) -> None:
    from ens_plugin._kernel.outputs import margin_sums as compiled

    block = block_of("normal", 40, 3)
    given = {"outputs": block.outputs, "counted": block.counted, "target": block.target, **changed}
    with pytest.raises(ValueError, match=words):
        compiled(given["outputs"], given["counted"], given["target"])


@pytest.mark.parametrize("layout", ["row by row", "every second", "backwards"])
def test_sums_of_scores_do_not_depend_on_their_layout(layout: str) -> None:
    """Outputs that came from a cluster are kept row by row."""
    block = block_of("normal", 40, 2)
    outputs = {
        "row by row": np.asfortranarray(block.outputs),
        "every second": np.repeat(block.outputs, 2, axis=1)[:, ::2],
        "backwards": np.ascontiguousarray(block.outputs[:, ::-1])[:, ::-1],
    }[layout]
    other = replace(block, outputs=outputs)
    of_values = compiled_sums(other).of_values
    assert of_values is not None
    assert_same_bits(of_values(other), score_sums(block))


@pytest.mark.parametrize("kind", ["normal", "tenths", "zeros"])
@pytest.mark.parametrize(("n_rows", "n_labels"), [(1, 3), (31, 4), (32, 3), (200, 2), (77, 11)])
def test_sums_of_labels_with_trees_of_their_own_are_those_of_members_that_are_formed(
    kind: str, n_rows: int, n_labels: int
) -> None:
    pytest.importorskip("xgboost", reason="xgboost is not installed: pip install xgboost-cpu")
    from ens_plugin._kernel.outputs import class_margin_sums
    from ens_plugin.adapters.xgboost.forest import form_members

    rng, n_leaves = np.random.default_rng(n_rows), 7
    values = drawn(rng, kind, (n_labels, N_MEMBERS, n_leaves))
    leaves = rng.integers(0, n_leaves, (n_labels, N_MEMBERS, n_rows)).astype(np.uint8)
    in_bag = rng.random((n_labels, N_MEMBERS, n_rows)) < rng.random((n_labels, 1, n_rows))
    # Rows in every bag of a label, and in none of any.
    in_bag[1, :, : n_rows // 8] = True
    in_bag[:, :, n_rows // 2 : n_rows // 2 + 4] = False
    target = rng.integers(0, n_labels, n_rows)
    outputs, counted = form_members(values, ~in_bag, leaves)
    expected = margin_sums(RowBlock(outputs, counted, target, n_labels))
    # The bits of these rows among those of more.
    padded = np.zeros((n_labels * N_MEMBERS, n_rows + 40), dtype=bool)
    padded[:, 16 : 16 + n_rows] = in_bag.reshape(-1, n_rows)
    bits = np.packbits(padded, axis=1)[:, 2 : 2 + -(-n_rows // 8)]
    for own in (bits, np.ascontiguousarray(bits), np.asfortranarray(bits)):
        assert_same_bits(class_margin_sums(values, leaves, own, target), expected)


@pytest.mark.parametrize(
    "changed",
    [
        {"values": np.zeros((2, 3, 1))},
        {"values": np.zeros((2, 4, 2))},
        {"leaves": np.zeros((2, 3), np.uint8)},
        {"bits": np.zeros((5, 2), np.uint8)},
        {"bits": np.zeros((6, 1), np.uint8)},
        {"target": np.full(9, 2)},
    ],
)
def test_arrays_that_do_not_fit_each_other_are_refused(changed: dict[str, NDArray[Any]]) -> None:
    from ens_plugin._kernel.outputs import class_margin_sums

    known: dict[str, NDArray[Any]] = {
        "values": np.zeros((2, 3, 2)),
        "leaves": np.ones((2, 3, 9), np.uint8),
        "bits": np.zeros((6, 2), np.uint8),
        "target": np.zeros(9, int),
    }
    assert class_margin_sums(**known).shape == (4, 9)
    with pytest.raises(ValueError, match=r"shape|values|target"):
        class_margin_sums(**{**known, **changed})
