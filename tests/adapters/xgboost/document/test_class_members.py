"""Sums over members that are formed of trees with bags of their own are those of the outputs of these members."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ens_plugin
from ens_plugin import _kernel
from ens_plugin.adapters import find_adapter
from ens_plugin.analysis.evidence import block_rows, row_blocks, tally_rows
from ens_plugin.core.tally import CHUNK, RowBlock, margin_sums
from tests.extras import NEEDS_KERNEL, xgboost

pytestmark = NEEDS_KERNEL

N_ROWS, N_LABELS, N_TREES = 701, 3, 30
RNG = np.random.default_rng(0)
X = RNG.integers(0, 9, (N_ROWS, 4)).astype(np.float32)
Y = (X[:, 0] + RNG.normal(0.0, 3.0, N_ROWS)).clip(0, 8).astype(int) // 3


def trained(n_trees: int = N_TREES) -> Any:
    return xgboost.XGBRFClassifier(n_estimators=n_trees, max_depth=4, random_state=3, n_jobs=1).fit(X, Y)


@pytest.mark.parametrize("is_held_out", [False, True])
@pytest.mark.parametrize("rows", [slice(0, N_ROWS), slice(64, 360)])
def test_sums_are_those_of_the_members_outputs(is_held_out: bool, rows: slice) -> None:
    adapter: Any = find_adapter(trained())
    features = adapter.prepare(X)
    bags = None if is_held_out else adapter.bags(X, features, Y)
    outputs, counted = adapter.block(features[rows], bags, rows)
    own = None if bags is None else bags.part(rows)
    found = adapter.margin_sums(features[rows], own, Y[rows])
    np.testing.assert_array_equal(found, margin_sums(RowBlock(outputs, counted, Y[rows], N_LABELS)))


def test_members_with_one_number_or_without_the_walk_have_no_such_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    model = xgboost.XGBRFClassifier(n_estimators=N_TREES, max_depth=4, random_state=3, n_jobs=1).fit(X, Y > 0)
    adapter: Any = find_adapter(model)
    assert adapter.margin_sums(adapter.prepare(X), None, (Y > 0).astype(int)) is None
    monkeypatch.setattr(_kernel, "is_used", lambda: False)
    adapter = find_adapter(trained())
    assert adapter.margin_sums(adapter.prepare(X), None, Y) is None


def test_report_is_the_same_without_the_walk_where_few_rows_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ens_plugin.analysis.evidence.SAMPLE_ROWS", 100)
    with_walk = ens_plugin.analyze(trained(), X, Y, n_jobs=1)
    monkeypatch.setattr(_kernel, "is_used", lambda: False)
    without = ens_plugin.analyze(trained(), X, Y, n_jobs=1)
    same = {"created": None, "versions": None}
    assert {**without.to_dict(), **same} == {**with_walk.to_dict(), **same}


def test_blocks_without_outputs_are_higher() -> None:
    adapter: Any = find_adapter(trained(400))
    before = block_rows(adapter, 1_000_000)
    adapter.prepare(X)
    assert adapter.reads_few_rows_fast
    assert block_rows(adapter, 1_000_000) > before


def test_blocks_of_two_labels_are_higher_only_where_their_outputs_are_added_up() -> None:
    model = xgboost.XGBRFClassifier(n_estimators=400, max_depth=4, random_state=3, n_jobs=1).fit(X, Y > 0)
    adapter: Any = find_adapter(model)
    adapter.prepare(X)
    plain = block_rows(adapter, 1_000_000)
    assert abs(block_rows(adapter, 1_000_000, 4) - 4 * plain) < 4 * CHUNK
    assert row_blocks(adapter, 100_000)[0].stop == plain
    heights: list[int] = []

    def progress(blocks: Any, total: int) -> Any:
        heights.append(-(-N_ROWS // total))
        return blocks

    def tally() -> Any:
        rng, target = np.random.default_rng(0), (Y > 0).astype(np.int64)
        return tally_rows(adapter, adapter.prepare(X), None, target, np.ones(N_ROWS), rng=rng, progress=progress)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ens_plugin.analysis.evidence.SAMPLE_ROWS", 50)
        patch.setattr("ens_plugin.analysis.evidence.BLOCK_BYTES", 400 * 8 * CHUNK)
        high = tally()
        # With so many sampled rows for each block, no outputs are added up.
        patch.setattr("ens_plugin.analysis.evidence.FEW_SAMPLED", N_ROWS)
        low = tally()
    assert heights[0] > 2 * heights[1]
    for one, other in zip(vars(low.tally).values(), vars(high.tally).values(), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(low.sample.block.score, high.sample.block.score)


def test_higher_blocks_whose_outputs_are_read_after_all_are_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    model = xgboost.XGBRFClassifier(n_estimators=400, max_depth=4, random_state=3, n_jobs=1).fit(X, Y > 0)
    adapter: Any = find_adapter(model)
    features, target, heights = adapter.prepare(X), (Y > 0).astype(np.int64), list[int]()
    monkeypatch.setattr("ens_plugin.analysis.evidence.SAMPLE_ROWS", 50)
    monkeypatch.setattr("ens_plugin.analysis.evidence.BLOCK_BYTES", 400 * 8 * CHUNK)

    def tallied() -> Any:
        rng = np.random.default_rng(0)
        return tally_rows(adapter, features, None, target, np.ones(N_ROWS), rng=rng, progress=None)

    summed, block = tallied(), adapter.block
    monkeypatch.setattr(type(adapter), "value_sums", lambda *_: None)
    monkeypatch.setattr(
        adapter, "block", lambda rows, bags, at: (heights.append(at.stop - at.start), block(rows, bags, at))[1]
    )
    read = tallied()
    assert len(heights) > 1
    assert max(heights) <= CHUNK
    for one, other in zip(vars(summed.tally).values(), vars(read.tally).values(), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(summed.sample.block.score, read.sample.block.score)
