"""Tallies of partitions, merged, are those of all rows at once and those of one machine; PySpark is not needed."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline

from ens_plugin.adapters import find_adapter
from ens_plugin.core.sample import sample_keys
from ens_plugin.errors import InputError
from ens_plugin.spark import analysis as jobs
from ens_plugin.spark import partition
from ens_plugin.spark.columns import RowCounts
from ens_plugin.spark.partition import Part, Problems, merge_parts, read_partition
from tests.spark.cases import fitted, in_order
from tests.spark.partitions.parts import KINDS, N_ROWS, ROUNDING, SEED, as_sent, batch, merged, plan_of, read, rows_of


def _fields(part: Any) -> dict[str, Any]:
    return {field.name: getattr(part, field.name) for field in fields(part)}


def assert_same(found: Any, expected: Any, name: str = "") -> None:
    """Numbers to rounding, everything else exactly."""
    if hasattr(expected, "__dataclass_fields__"):
        for own, value in _fields(expected).items():
            assert_same(getattr(found, own), value, f"{name}.{own}")
    elif isinstance(expected, tuple):
        assert len(found) == len(expected), name
        for index, (own, value) in enumerate(zip(found, expected, strict=True)):
            assert_same(own, value, f"{name}[{index}]")
    elif isinstance(expected, dict):
        assert found.keys() == expected.keys(), name
        for own, value in expected.items():
            assert_same(found[own], value, f"{name}[{own}]")
    elif isinstance(expected, float) or (isinstance(expected, np.ndarray) and expected.dtype.kind == "f"):
        np.testing.assert_allclose(found, expected, rtol=ROUNDING, atol=ROUNDING, err_msg=name)
    else:
        np.testing.assert_array_equal(found, expected, err_msg=name)


@st.composite
def splits(draw: Any, n_rows: int) -> list[list[NDArray[np.intp]]]:
    """Partitions of batches of rows in any order; some hold one row, or none."""
    order = np.random.default_rng(draw(st.integers(0, 2**32 - 1))).permutation(n_rows)
    cut = st.one_of(st.integers(0, n_rows), st.integers(0, 5))
    cuts = sorted(draw(st.lists(cut, max_size=9)))
    partitions = np.split(order, cuts)
    return [
        np.split(rows, sorted(draw(st.lists(st.integers(0, max(rows.size, 1)), max_size=3)))) for rows in partitions
    ]


def framed(frame: pd.DataFrame, partitions: list[list[NDArray[np.intp]]]) -> list[list[pd.DataFrame]]:
    return [[frame.iloc[rows] for rows in batches] for batches in partitions]


@pytest.mark.fast_cases("votes", "values")
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=settings.default.max_examples // 4)
@given(data=st.data())
def test_any_split_of_the_rows_gives_the_same_part(kind: str, data: Any) -> None:
    frame = rows_of(KINDS[kind])
    limit = data.draw(st.sampled_from([40, 20_000]))
    plan = plan_of(kind, sample_limit=limit)
    whole = merged(read(kind, plan, [[frame]]), limit, 2)
    partitions = framed(frame, data.draw(splits(N_ROWS)))
    arity = data.draw(st.integers(2, 5))
    assert_same(merged(read(kind, plan, partitions), limit, arity), whole)


@pytest.mark.fast_cases("shares", "votes", "values")
@pytest.mark.parametrize("kind", KINDS)
def test_blocks_of_any_height_give_the_same_part(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """More blocks than are merged at once, and a last one that is short."""
    plan, frame = plan_of(kind), rows_of(KINDS[kind])
    batches = [frame[start : start + 23] for start in range(0, N_ROWS, 23)]
    whole = merged(read(kind, plan, [[frame]]), plan.sample_limit, 2)
    monkeypatch.setattr(partition, "block_rows", lambda adapter, wanted: 7)
    assert_same(merged(read(kind, plan, [batches]), plan.sample_limit, 2), whole)


@pytest.mark.parametrize("height", [1, 5, 8, 100])
def test_blocks_are_full_but_for_the_last(height: int) -> None:
    sizes = [3, 1, 20, 2, 8]
    batches = [pa.RecordBatch.from_pydict({"row": range(sum(sizes[:i]), sum(sizes[: i + 1]))}) for i in range(5)]
    blocks = list(partition._blocks(batches, height))
    assert [row for block in blocks for row in block["row"].to_pylist()] == list(range(34))
    assert [block.num_rows for block in blocks[:-1]] == [height] * (-(-34 // height) - 1)
    assert 0 < blocks[-1].num_rows <= height


def test_sample_is_that_of_the_smallest_keys_below_the_bound() -> None:
    frame = rows_of("votes")
    keys = sample_keys(frame["row"].to_numpy(), SEED)
    bound = int(np.sort(keys)[150])
    kept = read("votes", plan_of("votes", highest_key=bound), [[frame]])[0].kept
    assert kept is not None
    weighted = frame["w"].to_numpy() > 0
    assert sorted(kept.row) == sorted(frame["row"][weighted & (keys <= np.uint64(bound))])


def test_partition_without_rows_changes_nothing() -> None:
    part = read_partition([batch(rows_of("votes")[:0])], b"", plan_of("votes"))
    assert_same(part, Part())
    assert_same(merge_parts([part, Part()], 5), Part())


def _behind_a_step() -> Any:
    X, _, _ = in_order(rows_of("values"))
    return make_pipeline(PCA().fit(X), fitted("values"))


def test_problems_of_all_parts_are_kept_each_once() -> None:
    first, last, other = ("InputError", "a"), ("InputError", "z"), ("DataMismatchError", "b")
    merged_ = Problems({"x": 2}, (first, last)).merge(Problems({"x": 3, "y": 1}, (other, first)))
    assert merged_ == Problems({"x": 5, "y": 1}, (other, first, last))
    assert merged_
    assert Problems(refusals=(first,))
    assert Problems({"x": 1})
    assert not Problems()


def test_rows_that_are_refused_give_the_reason_and_the_others_are_still_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "block_rows", lambda adapter, wanted: 100)
    frame = rows_of("votes")
    unknown = frame.assign(y=np.where(np.arange(N_ROWS) == 250, 7, frame["y"]))
    part = read("votes", plan_of("votes"), [[unknown]])[0]
    [(name, message)] = part.problems.refusals
    assert name == "DataMismatchError"
    assert "7" in message
    assert part.kinds is not None
    assert part.kinds.rows.sum() == 200


@pytest.mark.parametrize(
    ("parallelism", "widths"),
    [(0, [1]), (1, [1]), (16, [16]), (17, [17, 2]), (256, [256, 16]), (257, [257, 17, 2]), (5000, [5000, 313, 20, 2])],
)
def test_no_merge_takes_more_than_16_parts_on_average(parallelism: int, widths: list[int]) -> None:
    assert jobs._widths(parallelism, RowCounts(10_000_000, 10_000_000, {"last_part": 63})) == widths


def test_sixteen_parts_of_few_rows_need_no_merging_and_seventeen_do() -> None:
    assert jobs._widths(20, RowCounts(1000, 1000, {"last_part": 15})) == []
    assert jobs._widths(20, RowCounts(1000, 1000, {"last_part": 16})) == [20, 2]


@pytest.mark.parametrize("rows", [[[1.0, None], [2.0, 3.0]], [[1.0, np.nan], [2.0, 3.0]]])
def test_lists_of_numbers_are_rows_of_a_matrix(rows: list[list[float]]) -> None:
    column = pa.chunked_array([pa.array(rows[:1], pa.list_(pa.float64())), pa.array(rows[1:], pa.list_(pa.float64()))])
    np.testing.assert_array_equal(partition._matrix(column), [[1.0, np.nan], [2.0, 3.0]])


@pytest.mark.parametrize("rows", [[[1.0], [1.0, 2.0]], [[1.0], None], [None, None]])
def test_lists_must_have_one_length(rows: list[list[float] | None]) -> None:
    with pytest.raises(InputError, match="feature_cols differ in length"):
        partition._matrix(pa.chunked_array([pa.array(rows, pa.list_(pa.float64()))]))


def test_missing_values_add_up_over_blocks_and_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "block_rows", lambda adapter, wanted: 10)
    frame = rows_of("values").copy()
    frame.iloc[[3, 17, 18, 250], 1] = np.nan
    frame.iloc[[3, 290], 4] = np.inf
    content = as_sent(_behind_a_step(), find_adapter(fitted("values")))
    parts = [read_partition([batch(frame[start : start + 100])], content, plan_of("values")) for start in (0, 100, 200)]
    assert merge_parts(parts, 5).problems.bad_values == {"x1": 4, "x4": 2}


def test_lists_with_a_missing_or_infinite_value_are_counted_once_each() -> None:
    rows = pa.array([[1.0, np.nan], [2.0, 3.0], None, [np.inf, -np.inf], [1.0, None]], pa.list_(pa.float64()))
    assert partition._bad_values(pa.table({"a": rows}), ("features",)) == {"features": 4}


def test_members_are_checked_once_in_every_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "block_rows", lambda adapter, wanted: 100)
    checked: list[int] = []
    kind = type(find_adapter(fitted("votes")))
    monkeypatch.setattr(kind, "check_members", lambda self, features: checked.append(features.shape[0]))
    frame = rows_of("votes")
    read("votes", plan_of("votes"), [[frame], [frame[:30]]])
    assert checked == [100, 30]
