"""Tallies of partitions, merged, are those of all rows at once and those of one machine; PySpark is not needed."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier
from sklearn.pipeline import make_pipeline

import ens_plugin
from ens_plugin import EnsembleReport
from ens_plugin.adapters import EnsembleAdapter, find_adapter
from ens_plugin.analysis import AnalysisOptions, resolve_options
from ens_plugin.analysis.analyze import KnownRows, build_report
from ens_plugin.analysis.copies import find_repeats, hash_rows
from ens_plugin.core.sample import sample_keys
from ens_plugin.errors import BagError, DataMismatchError, InputError
from ens_plugin.spark import analysis, partition
from ens_plugin.spark.columns import RowCounts, target_labels
from ens_plugin.spark.partition import (
    KeptRows,
    Part,
    Plan,
    Problems,
    copies_finding,
    in_content_order,
    merge_marks,
    merge_parts,
    read_partition,
    refuse_alike_rows,
    repeated_shares,
    row_marks,
    tallied_rows,
)
from tests.extras import lightgbm, xgboost
from tests.spark.cases import N_TRAINED, fitted, in_order, largest_difference, trained_on
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
    assert analysis._widths(parallelism, RowCounts(10_000_000, 10_000_000, {"last_part": 63})) == widths


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


def seven_parts(kind: str, *, oob: bool) -> tuple[EnsembleAdapter, Part]:
    """All rows by way of seven partitions, shuffled."""
    name = KINDS[kind]
    frame = rows_of(name, oob=oob)
    plan = plan_of(kind, n_trained=len(frame) if oob else None, sample_limit=120)
    order = np.random.default_rng(3).permutation(len(frame))
    partitions = [[frame.iloc[rows] for rows in np.array_split(part, 2)] for part in np.array_split(order, 7)]
    adapter = find_adapter(fitted(name))
    return adapter, merged(read(kind, plan, partitions), plan.sample_limit, 3)


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


def report_of(kind: str, *, oob: bool) -> EnsembleReport:
    adapter, part = seven_parts(kind, oob=oob)
    settings_ = resolve_options(adapter, AnalysisOptions(data="oob" if oob else "holdout"))
    assert part.kept is not None
    kept = part.kept if adapter.classes is None else in_content_order(adapter, part.kept)
    evidence = tallied_rows(adapter, replace(part, kept=kept))
    known = KnownRows(sampled_labels=kept.target, has_own_labels=True)
    return build_report(adapter, evidence, settings_, known)


@pytest.mark.fast_cases("margins-True", "votes-False", "values-True", "shares-False")
@pytest.mark.filterwarnings("ignore::ens_plugin.errors.WeakEstimateWarning")
@pytest.mark.parametrize("oob", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_report_is_that_of_one_machine(kind: str, oob: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ens_plugin.analysis.evidence.SAMPLE_ROWS", 120)
    name = KINDS[kind]
    X, y, weight = in_order(rows_of(name, oob=oob))
    local = ens_plugin.analyze(fitted(name), X, y, data="oob" if oob else "holdout", sample_weight=weight, n_jobs=1)
    assert largest_difference(local, report_of(kind, oob=oob)) < ROUNDING


COUNTS = RowCounts(N_TRAINED, N_TRAINED, {})


def booster_without_tree_method(path: Path) -> Any:
    """Rows of `approx` are drawn elsewhere than those of `hist`, which is tried first."""
    X, y, _ = in_order(trained_on("values"))
    model = xgboost.XGBRFRegressor(n_estimators=25, max_depth=6, tree_method="approx", random_state=0, n_jobs=1).fit(
        X, y
    )
    model.save_model(path / "forest.json")
    booster = xgboost.Booster(model_file=path / "forest.json")
    booster.set_param({"subsample": 0.8, "reg_lambda": 1e-5})
    return booster


def proved(model: Any, frame: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Part | Exception, list[int]]:
    """What comes of three partitions, and which draws were looked at."""
    attempts = []

    def gather(rows: Any, content: bytes, plan: Plan, counts: RowCounts) -> Part:
        attempts.append(plan.candidate)
        thirds = np.array_split(np.arange(len(frame)), 3)
        return merge_parts([read_partition([batch(rows.iloc[own])], content, plan) for own in thirds], 100)

    monkeypatch.setattr(analysis, "gather", gather)
    adapter = find_adapter(model)
    plan = plan_of("values", n_trained=len(frame))
    try:
        return analysis._proved(frame, as_sent(model, adapter), plan, adapter, COUNTS)[0], attempts
    except (BagError, DataMismatchError) as error:
        return error, attempts


def test_draw_that_the_sums_prove_is_taken_after_others_were_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    booster, frame = booster_without_tree_method(tmp_path), rows_of("values", oob=True)
    part, attempts = proved(booster, frame, monkeypatch)
    assert isinstance(part, Part)
    assert attempts == list(range(len(attempts)))
    from ens_plugin.adapters.xgboost.bags import MAX_PROOFS

    assert 1 < len(attempts) <= MAX_PROOFS
    X, y, _ = in_order(frame)
    adapter = find_adapter(booster)
    is_oob = ~adapter.bags(X, adapter.prepare(X), y).in_bag()
    assert part.kept is not None
    kept = np.unpackbits(part.kept.counted, axis=0, count=25).astype(bool)
    np.testing.assert_array_equal(kept, is_oob[:, part.kept.row])


def test_where_no_draw_is_proved_the_first_refusal_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    booster, frame = booster_without_tree_method(tmp_path), rows_of("values", oob=True)
    other = frame.assign(row=(frame["row"] + 1) % len(frame))
    refusals: list[Exception] = []
    kind: Any = type(find_adapter(booster))
    row_bags = kind.distributed_bags

    def watched(self: Any, n_rows: int, candidate: int) -> Any:
        found = row_bags(self, n_rows, candidate)
        prove = found.prove

        def proving(sums: Any) -> Any:
            try:
                return prove(sums)
            except (BagError, DataMismatchError) as error:
                refusals.append(error)
                raise

        found.prove = proving
        return found

    monkeypatch.setattr(kind, "distributed_bags", watched)
    error, attempts = proved(booster, other, monkeypatch)
    assert attempts == list(range(len(attempts)))
    assert len(attempts) == len(refusals) > 1
    assert error is refusals[0]


@pytest.mark.parametrize("error", ["DataMismatchError", "BagError", "InputError"])
def test_refusals_of_executors_keep_their_class(error: str) -> None:
    with pytest.raises(getattr(analysis.errors, error), match="the reason") as caught:
        analysis._refuse_problems(Problems(refusals=((error, "the reason"),)), COUNTS)
    assert type(caught.value).__name__ == error


def test_two_rows_of_one_number_are_enough_to_be_refused() -> None:
    row = np.arange(40)
    analysis._refuse_repeated_rows(row, "row")
    with pytest.raises(InputError, match="'row' has 1 row number that several rows share"):
        analysis._refuse_repeated_rows(np.where(row == 39, 0, row), "row")


def test_models_that_know_names_take_frames() -> None:
    X, y, _ = in_order(trained_on("votes"))
    named = pd.DataFrame(X, columns=[f"name{index}" for index in range(X.shape[1])])
    forest = RandomForestClassifier(2, random_state=0)
    assert analysis._takes_names(forest.fit(named, y), forest)
    assert not analysis._takes_names(forest.fit(X, y), forest)
    boosted = xgboost.XGBRFClassifier(n_estimators=2, n_jobs=1).fit(named, y)
    for model in (boosted, boosted.get_booster()):
        assert analysis._takes_names(model, model)
    assert not analysis._takes_names(None, xgboost.XGBRFClassifier(n_estimators=2, n_jobs=1).fit(X, y).get_booster())
    light = lightgbm.LGBMClassifier(n_estimators=2, verbose=-1, n_jobs=1)
    assert analysis._takes_names(None, light.fit(named, y).booster_)
    assert not analysis._takes_names(None, light.fit(X, y).booster_)


def kept(row: NDArray[np.int64]) -> KeptRows:
    nothing = np.zeros(row.size)
    whole = nothing.astype(np.int64)
    outputs = np.zeros((3, row.size))
    return KeptRows(outputs, outputs.astype(np.uint8), nothing, nothing, whole.astype(np.uint64), row, whole)


@pytest.mark.parametrize(("copies", "is_refused"), [(1, False), (3, False), (4, False), (5, True), (300, True)])
def test_samples_of_less_than_a_quarter_different_rows_are_refused(copies: int, is_refused: bool) -> None:
    rows = kept(np.repeat(np.arange(300 // copies), copies))
    if not is_refused:
        refuse_alike_rows(rows, None)
        return
    with pytest.raises(InputError, match=f"a sample of 300 rows has only {300 // copies} different ones"):
        refuse_alike_rows(rows, None)


def test_sample_without_any_row_is_refused() -> None:
    with pytest.raises(InputError, match="only 0 different ones"):
        refuse_alike_rows(kept(np.zeros(0, dtype=np.int64)), "row")


def test_sampled_targets_are_labels_as_the_user_gave_them() -> None:
    assert target_labels(np.array([1.0, 0.0, 1.0]), np.array(["no", "yes"])).tolist() == ["yes", "no", "yes"]
    assert target_labels(np.array([1.5, 0.25]), None).tolist() == [1.5, 0.25]


def marks_of(X: NDArray[Any], y: NDArray[Any], n_blocks: int = 5, seed: int = 0) -> NDArray[np.uint64]:
    blocks = np.array_split(np.random.default_rng(seed).permutation(y.size), n_blocks)
    return merge_marks([row_marks(None, X[block], y[block], y.size) for block in blocks])


def copies(n_rows: int = 300, times: int = 5) -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(0)
    return np.repeat(rng.normal(size=(n_rows, 4)), times, axis=0), np.repeat(rng.integers(0, 2, n_rows), times)


def binary(n_rows: int = 2000) -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (n_rows, 8)).astype(float)
    return X, (rng.random(n_rows) < 0.2 + 0.6 * X[:, 0]).astype(int)


def test_copies_are_doubted() -> None:
    n_repeated, (doubt,) = copies_finding(marks_of(*copies()), 1500)
    assert n_repeated == 1500
    assert "About 1e+02 % of 1500 rows look like copies" in doubt.sentence


def test_rows_that_are_equal_by_chance_are_let_pass() -> None:
    X, y = binary()
    expected = np.count_nonzero(find_repeats(hash_rows(None, X), y).repeated)
    assert copies_finding(marks_of(X, y), y.size) == (expected, ())


def test_some_copies_are_doubted() -> None:
    X, y = copies(300, 1)
    rows = np.append(np.arange(300), np.repeat(np.arange(8), 3))
    n_repeated, doubts = copies_finding(marks_of(X[rows], y[rows]), rows.size)
    assert n_repeated == 32
    assert len(doubts) == 1
    assert "look like copies" in str(doubts[0])


def test_all_rows_decide_where_they_are_few() -> None:
    X, y = copies()
    marks, found = marks_of(X, y), find_repeats(hash_rows(None, X), y)
    assert len(copies_finding(marks, 1500, lambda: found)[1]) == 1
    assert copies_finding(marks, 1500, lambda: replace(found, copied=np.zeros(1500, dtype=bool))) == (1500, ())


def test_rows_without_repeats_and_held_out_rows() -> None:
    assert copies_finding(marks_of(*copies(times=1)), 300) == (0, ())
    assert copies_finding(None, 300) == (0, ())


def test_blocks_do_not_matter() -> None:
    X, y = binary()
    np.testing.assert_array_equal(marks_of(X, y), marks_of(X, y, 1, 3))


@pytest.mark.parametrize("data", [copies(), binary(), copies(1500, 1)], ids=["copies", "chance", "single"])
def test_a_sample_of_hashes_tells_the_same(data: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = data
    whole = repeated_shares(marks_of(X, y))
    monkeypatch.setattr(partition, "MARKED_ROWS", 400)
    sampled = marks_of(X, y)
    assert sampled.shape[1] < 0.6 * 9 * y.size
    assert repeated_shares(sampled) == pytest.approx(whole, abs=0.12)
