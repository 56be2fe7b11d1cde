"""Parts of a DataFrame put together: the tallies, samples and reports of one machine; PySpark is not needed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ens_plugin
from ens_plugin import EnsembleReport
from ens_plugin.adapters import EnsembleAdapter, find_adapter
from ens_plugin.adapters.members import label_codes
from ens_plugin.analysis import AnalysisOptions, Evidence, resolve_options, tally_rows
from ens_plugin.analysis.analyze import KnownRows, build_report
from ens_plugin.spark.partition import Part, in_content_order, tallied_rows
from tests.spark.cases import fitted, in_order, largest_difference
from tests.spark.partitions.parts import KINDS, ROUNDING, merged, plan_of, read, rows_of

COLUMNS_OF_TALLIES = ("wrong_members", "error", "is_wrong")


def seven_parts(kind: str) -> tuple[EnsembleAdapter, Part]:
    """All rows by way of seven partitions, shuffled."""
    name = KINDS[kind]
    frame = rows_of(name)
    plan = plan_of(kind, sample_limit=120)
    order = np.random.default_rng(3).permutation(len(frame))
    partitions = [[frame.iloc[rows] for rows in np.array_split(part, 2)] for part in np.array_split(order, 7)]
    adapter = find_adapter(fitted(name))
    return adapter, merged(read(kind, plan, partitions), plan.sample_limit, 3)


def local_evidence(kind: str) -> Evidence:
    """The same rows' evidence on one machine."""
    name = KINDS[kind]
    X, y, weight = in_order(rows_of(name))
    adapter = find_adapter(fitted(name))
    features = adapter.prepare(X)
    codes = y if adapter.classes is None else label_codes(y, adapter.classes)
    return tally_rows(adapter, features, None, codes, weight, rng=np.random.default_rng(0), progress=None)


@pytest.mark.parametrize("kind", KINDS)
def test_evidence_sums_up_to_that_of_one_machine(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ens_plugin.analysis.evidence.SAMPLE_ROWS", 120)
    adapter, part = seven_parts(kind)
    found, local = tallied_rows(adapter, part), local_evidence(kind)
    assert found.weight.n_rows == local.weight.n_rows
    assert found.weight.n_effective == pytest.approx(local.weight.n_effective, rel=ROUNDING)
    for trials in np.unique(local.tally.trials):
        of_rows, of_entries = local.tally.trials == trials, found.tally.trials == trials
        assert found.weight.select(of_entries).n_rows == np.count_nonzero(of_rows)
    if adapter.classes is None:
        return
    for column in COLUMNS_OF_TALLIES:
        own, by_row = getattr(found.tally, column), getattr(local.tally, column)
        assert found.weight.total @ own == pytest.approx(local.weight.total @ by_row, rel=ROUNDING), column
    assert found.label is not None
    assert local.label is not None
    by_label = [np.bincount(each.label, each.weight.total) for each in (found, local)]
    np.testing.assert_allclose(*by_label, rtol=ROUNDING)


@pytest.mark.parametrize("kind", KINDS)
def test_sampled_rows_are_those_of_one_machine(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ens_plugin.analysis.evidence.SAMPLE_ROWS", 120)
    adapter, part = seven_parts(kind)
    evidence, expected = tallied_rows(adapter, part), local_evidence(kind)
    sample, local = evidence.sample, expected.sample
    assert sample.rows.size == 120
    np.testing.assert_array_equal(sample.block.counted, local.block.counted)
    np.testing.assert_array_equal(sample.weight, local.weight)
    np.testing.assert_array_equal(sample.block.target, local.block.target)
    np.testing.assert_allclose(sample.block.outputs, local.block.outputs, rtol=ROUNDING)
    np.testing.assert_array_equal(evidence.tally.trials[sample.rows], expected.tally.trials[local.rows])


def report_of(kind: str) -> EnsembleReport:
    adapter, part = seven_parts(kind)
    settings_ = resolve_options(adapter, AnalysisOptions(data="holdout"))
    assert part.kept is not None
    kept = part.kept if adapter.classes is None else in_content_order(adapter, part.kept)
    evidence = tallied_rows(adapter, replace(part, kept=kept))
    known = KnownRows(sampled_labels=kept.target, has_own_labels=True)
    return build_report(adapter, evidence, settings_, known)


@pytest.mark.fast_cases("margins", "votes", "values")
@pytest.mark.filterwarnings("ignore::ens_plugin.errors.WeakEstimateWarning")
@pytest.mark.parametrize("kind", KINDS)
def test_report_is_that_of_one_machine(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ens_plugin.analysis.evidence.SAMPLE_ROWS", 120)
    name = KINDS[kind]
    X, y, weight = in_order(rows_of(name))
    local = ens_plugin.analyze(fitted(name), X, y, data="holdout", sample_weight=weight, n_jobs=1)
    assert largest_difference(local, report_of(kind)) < ROUNDING
