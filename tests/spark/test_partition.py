"""What partitions say, merged, is what all rows say at once and what the local road says; PySpark is not needed."""

from __future__ import annotations

import pickle
from dataclasses import fields, replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.pipeline import make_pipeline

import ens_plugin
from ens_plugin import EnsembleReport
from ens_plugin.adapters import EnsembleAdapter, find_adapter
from ens_plugin.adapters.shared import label_codes
from ens_plugin.analysis import (
    AnalysisOptions,
    TalliedRows,
    resolve_options,
    sample_limit,
    sampling_seed,
    tally_rows,
)
from ens_plugin.analysis.build_report import build_report
from ens_plugin.analysis.curves import soft_spreads
from ens_plugin.core.tallies import MarginTally, SupportTally, sample_keys, select_rows
from ens_plugin.errors import InputError
from ens_plugin.spark import jobs, partition
from ens_plugin.spark.assembly import in_content_order, in_row_order, tallied_rows
from ens_plugin.spark.columns import RowCounts
from ens_plugin.spark.groupings import Grouping
from ens_plugin.spark.partition import ROW, TARGET, WEIGHT, Plan, read_partition
from ens_plugin.spark.parts import Part, Problems, from_bytes, merge_parts, to_bytes
from tests.spark.cases import COLUMNS, fitted, held_out, in_order, largest_difference, trained_on

ROUNDING = 1e-12
N_ROWS = 300
LARGEST_KEY = 2**64 - 1
COLUMNS_OF_TALLIES = ("wrong", "squares", "mean", "sd", "wrong_labels", "dissent")
SEED = sampling_seed(np.random.default_rng(0))
KINDS: dict[str, tuple[str, Grouping]] = {
    "votes": ("votes", "votes"),
    "shares": ("shares", "shares"),
    "shares row by row": ("shares", "rows"),
    "margins": ("three", "margins"),
    "margins row by row": ("three", "rows"),
    "scores": ("lightgbm", "margins"),
    "values": ("values", "values"),
}


def plan_of(kind: str, **changes: Any) -> Plan:
    name, grouping = KINDS[kind]
    adapter = find_adapter(fitted(name))
    options: dict[str, Any] = {
        "features": tuple(COLUMNS),
        "as_frame": False,
        "grouping": grouping,
        "with_path": True,
        "sample_limit": sample_limit(adapter, 0 if adapter.classes is None else int(adapter.classes.size)),
        "sampling_seed": SEED,
        "highest_key": LARGEST_KEY,
        "n_trained": None,
        "candidate": 0,
    }
    return Plan(**{**options, **changes})


def as_sent(model: Any, adapter: EnsembleAdapter) -> bytes:
    """What executors get, pickled without PySpark's own way with functions of a notebook: these models hold none."""
    return pickle.dumps((model, type(adapter)))


@cache
def content_of(name: str) -> bytes:
    return as_sent(fitted(name), find_adapter(fitted(name)))


@cache
def rows_of(name: str, *, oob: bool = False) -> pd.DataFrame:
    frame = trained_on(name) if oob else held_out(name, N_ROWS)
    if oob:
        frame["w"] = np.random.default_rng(5).integers(0, 3, len(frame))
    frame["w"] = frame["w"] * 0.7
    return frame


def batch(frame: pd.DataFrame) -> pa.RecordBatch:
    """Rows as Spark hands them over."""
    columns = {name: frame[name].to_numpy() for name in COLUMNS}
    own = {TARGET: frame["y"].to_numpy(), WEIGHT: frame["w"].to_numpy(), ROW: frame["row"].to_numpy()}
    return pa.RecordBatch.from_pandas(pd.DataFrame({**columns, **own}), preserve_index=False)


def read(kind: str, plan: Plan, partitions: list[list[pd.DataFrame]]) -> list[Part]:
    content = content_of(KINDS[kind][0])
    return [read_partition([batch(rows) for rows in batches], content, plan) for batches in partitions]


def merged(parts: list[Part], limit: int, arity: int) -> Part:
    """Merge level by level, as executors do, every part as it travels."""
    while len(parts) > 1:
        parts = [
            from_bytes(to_bytes(merge_parts(parts[start : start + arity], limit)))
            for start in range(0, len(parts), arity)
        ]
    part = merge_parts(parts, limit)
    assert part.kept is not None
    kept = in_row_order(part.kept)
    seen = np.unpackbits(kept.counted, axis=0, count=len(kept.outputs)).reshape(*kept.outputs.shape[:2], -1)
    # What members say about rows they saw counts nowhere.
    counted = np.where(seen[:, :, 0] if kept.outputs.ndim == 2 else seen, kept.outputs, 0)
    return replace(part, kept=replace(kept, outputs=counted))


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


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25)
@given(data=st.data())
def test_any_split_of_the_rows_gives_the_same_part(kind: str, data: Any) -> None:
    frame = rows_of(KINDS[kind][0])
    limit = data.draw(st.sampled_from([40, 20_000]))
    plan = plan_of(kind, sample_limit=limit)
    whole = merged(read(kind, plan, [[frame]]), limit, 2)
    partitions = framed(frame, data.draw(splits(N_ROWS)))
    arity = data.draw(st.integers(2, 5))
    assert_same(merged(read(kind, plan, partitions), limit, arity), whole)


@pytest.mark.parametrize("kind", ["votes", "shares row by row", "margins", "values"])
@settings(max_examples=8)
@given(data=st.data())
def test_any_split_of_the_training_rows_gives_the_same_part(kind: str, data: Any) -> None:
    frame = rows_of(KINDS[kind][0], oob=True)
    plan = plan_of(kind, n_trained=len(frame))
    whole = merged(read(kind, plan, [[frame]]), plan.sample_limit, 2)
    partitions = framed(frame, data.draw(splits(len(frame))))
    assert_same(merged(read(kind, plan, partitions), plan.sample_limit, 3), whole)
    assert whole.proof.added
    assert whole.idle is not None
    assert np.count_nonzero(whole.idle) > 3


def seven_parts(kind: str, *, oob: bool) -> tuple[EnsembleAdapter, Part, Plan]:
    """All rows by way of seven partitions, shuffled."""
    name = KINDS[kind][0]
    frame = rows_of(name, oob=oob)
    plan = plan_of(kind, n_trained=len(frame) if oob else None, sample_limit=120)
    order = np.random.default_rng(3).permutation(len(frame))
    partitions = [[frame.iloc[rows] for rows in np.array_split(part, 2)] for part in np.array_split(order, 7)]
    adapter = find_adapter(fitted(name))
    return adapter, merged(read(kind, plan, partitions), plan.sample_limit, 3), plan


def local_evidence(kind: str, *, oob: bool) -> TalliedRows:
    """The same rows' evidence on one machine."""
    name = KINDS[kind][0]
    X, y, weight = in_order(rows_of(name, oob=oob))
    adapter = find_adapter(fitted(name))
    features = adapter.prepare(X)
    codes = y if adapter.classes is None else label_codes(y, adapter.classes)
    bags = adapter.bags(X, features, y) if oob else None
    return tally_rows(
        adapter, features, bags, codes, weight, with_path=True, rng=np.random.default_rng(0), progress=None
    )


@pytest.mark.parametrize("oob", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_evidence_sums_up_to_that_of_one_machine(kind: str, oob: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ens_plugin.analysis.row_blocks.SAMPLE_ROWS", 120)
    adapter, part, plan = seven_parts(kind, oob=oob)
    found, local = tallied_rows(adapter, part, plan.grouping), local_evidence(kind, oob=oob)
    assert found.weight.n_rows == local.weight.n_rows
    assert found.weight.n_effective == pytest.approx(local.weight.n_effective, rel=ROUNDING)
    for trials in np.unique(local.tally.trials):
        of_rows, of_entries = local.tally.trials == trials, found.tally.trials == trials
        assert found.weight.select(of_entries).n_rows == np.count_nonzero(of_rows)
    for column in [column for column in COLUMNS_OF_TALLIES if hasattr(found.tally, column)]:
        own, by_row = getattr(found.tally, column), getattr(local.tally, column)
        # Spreads in cells are put together as variances.
        power = 2 if (column, plan.grouping) == ("sd", "margins") else 1
        total = pytest.approx(local.weight.total @ by_row**power, rel=ROUNDING)
        if (column, plan.grouping) != ("squares", "votes"):
            assert found.weight.total @ own**power == total, column
    assert found.path is not None
    assert local.path is not None
    for sums in ("loss", "weight"):
        ours, theirs = (getattr(evidence.path, sums).sum(axis=1) for evidence in (found, local))
        np.testing.assert_allclose(ours, theirs, rtol=ROUNDING)


@pytest.mark.parametrize("oob", [False, True])
def test_spreads_of_soft_votes_are_those_of_the_rows(oob: bool) -> None:
    adapter, part, plan = seven_parts("shares", oob=oob)
    local = local_evidence("shares", oob=oob)
    assert isinstance(local.tally, SupportTally)
    tally = select_rows(local.tally, (local.tally.trials >= 2) & (local.weight.total > 0))
    assert isinstance(tally, SupportTally)
    found = tallied_rows(adapter, part, plan.grouping).spreads
    assert found is not None
    np.testing.assert_allclose(found, soft_spreads(tally), rtol=ROUNDING)


@pytest.mark.parametrize("oob", [False, True])
def test_crossed_margins_are_grouped_by_themselves(oob: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ens_plugin.analysis.row_blocks.SAMPLE_ROWS", 120)
    adapter, part, plan = seven_parts("margins", oob=oob)
    crossed, local = tallied_rows(adapter, part, plan.grouping).crossed, local_evidence("margins", oob=oob)
    assert crossed is not None
    assert isinstance(local.tally, MarginTally)
    assert crossed.weight.n_rows == np.count_nonzero(local.weight.total)
    total = local.weight.total
    for own, by_row in ((crossed.mean, local.tally.cross_mean), (crossed.sd**2, local.tally.cross_sd**2)):
        assert crossed.weight.total @ own == pytest.approx(total @ by_row, rel=ROUNDING)
    # The entry of a sampled row is the cell that holds its own margin.
    rows = local.sample.rows
    sd = local.tally.cross_sd[rows]
    np.testing.assert_array_equal(crossed.trials[crossed.sampled], local.tally.trials[rows])
    np.testing.assert_allclose(crossed.sd[crossed.sampled], sd, rtol=2 ** (1 / 16) - 1, atol=1e-9)


def test_rows_of_one_member_have_no_variance_and_enter_no_moments() -> None:
    frame = rows_of("values", oob=True)
    X, y, weight = in_order(frame)
    model = ExtraTreesRegressor(5, bootstrap=True, max_depth=5, random_state=0).fit(X, y)
    adapter = find_adapter(model)
    plan = plan_of("values", n_trained=len(frame), sample_limit=50)
    part = read_partition([batch(frame)], as_sent(model, adapter), plan)
    trials = 5 - adapter.bags(X, adapter.prepare(X), y).in_bag().sum(axis=0)
    assert np.count_nonzero(trials == 1) > 50
    assert part.moments is not None
    assert part.moments.n_rows == np.count_nonzero((trials >= 2) & (weight > 0))


def test_tally_of_scores_of_two_labels_has_no_crossed_margins() -> None:
    adapter, part, plan = seven_parts("scores", oob=False)
    assert tallied_rows(adapter, part, plan.grouping).crossed is None


@pytest.mark.parametrize("oob", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_sampled_rows_are_those_of_one_machine(kind: str, oob: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ens_plugin.analysis.row_blocks.SAMPLE_ROWS", 120)
    adapter, part, plan = seven_parts(kind, oob=oob)
    evidence, expected = tallied_rows(adapter, part, plan.grouping), local_evidence(kind, oob=oob)
    sample, local = evidence.sample, expected.sample
    assert sample.rows.size == 120
    np.testing.assert_array_equal(sample.block.seen, local.block.seen)
    np.testing.assert_array_equal(sample.weight, local.weight)
    np.testing.assert_array_equal(sample.block.target, local.block.target)
    seen = local.block.seen if local.block.outputs.ndim == 2 else local.block.seen[:, :, None]
    np.testing.assert_allclose(sample.block.outputs * seen, local.block.outputs * seen, rtol=ROUNDING)
    np.testing.assert_array_equal(evidence.tally.trials[sample.rows], expected.tally.trials[local.rows])


def report_of(kind: str, *, oob: bool) -> EnsembleReport:
    adapter, part, plan = seven_parts(kind, oob=oob)
    settings_ = resolve_options(adapter, AnalysisOptions(data="oob" if oob else "holdout"))
    assert part.kept is not None
    kept = part.kept if adapter.classes is None else in_content_order(adapter, part.kept)
    return build_report(
        adapter,
        tallied_rows(adapter, replace(part, path=None, kept=kept), plan.grouping),
        settings_,
        sizes_given=False,
        sampled_labels=kept.target,
    )


@pytest.mark.filterwarnings("ignore::ens_plugin.errors.WeakEstimateWarning")
@pytest.mark.parametrize("oob", [False, True])
@pytest.mark.parametrize("kind", ["votes", "shares row by row", "margins row by row", "values"])
def test_report_is_that_of_one_machine(kind: str, oob: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ens_plugin.analysis.row_blocks.SAMPLE_ROWS", 120)
    name = KINDS[kind][0]
    X, y, weight = in_order(rows_of(name, oob=oob))
    local = ens_plugin.analyze(fitted(name), X, y, data="oob" if oob else "holdout", sample_weight=weight, n_jobs=1)
    assert largest_difference(local, report_of(kind, oob=oob)) < ROUNDING


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_of_any_height_give_the_same_part(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """More blocks than are merged at once, and a last one that is short."""
    plan, frame = plan_of(kind), rows_of(KINDS[kind][0])
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


def test_partition_without_rows_says_nothing() -> None:
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
    assert part.groups is not None
    assert part.groups.rows.sum() == np.count_nonzero(frame["w"][:200])


@pytest.mark.parametrize(
    ("parallelism", "widths"),
    [(0, [1]), (1, [1]), (16, [16]), (17, [17, 2]), (256, [256, 16]), (257, [257, 17, 2]), (5000, [5000, 313, 20, 2])],
)
def test_no_merge_takes_more_than_16_parts_on_average(parallelism: int, widths: list[int]) -> None:
    assert jobs._widths(parallelism, RowCounts(10_000_000, 10_000_000, {"last_part": 63})) == widths


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
