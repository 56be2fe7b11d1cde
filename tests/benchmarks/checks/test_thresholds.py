"""Named numbers are found, altered wherever they are bound, and changes of results are told apart by their kind."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from benchmarks.checks import thresholds
from ens_plugin.core import alike_rows, row_model

# Every module of the package is imported for it, which takes seconds.
reads_the_package = pytest.mark.slow


@cache
def package() -> thresholds.Package:
    return thresholds.Package()


def constant(key: str) -> thresholds.Constant:
    return next(constant for constant in package().constants if constant.key == key)


@pytest.mark.parametrize(
    ("value", "halved", "doubled"),
    [(8, 4, 16), (1, 0, 2), (-1, 0, -2), (0, -1, 1), (3.0, 1.5, 6.0), (0.2, 0.1, 0.4), (0.99, 0.495, 0.995)],
)
def test_whole_numbers_stay_whole_and_shares_stay_shares(value: float, halved: float, doubled: float) -> None:
    found = thresholds.altered(value, 0.5), thresholds.altered(value, 2.0)
    assert found == pytest.approx((halved, doubled))
    assert {type(number) for number in found} == {type(value)}


@reads_the_package
def test_a_number_is_altered_for_the_time_of_a_block_only() -> None:
    before = alike_rows.COLUMN_WEIGHT
    with thresholds.changed(package(), constant("ens_plugin.core.alike_rows.COLUMN_WEIGHT"), 99.0):
        assert alike_rows.COLUMN_WEIGHT == 99.0
    assert before == alike_rows.COLUMN_WEIGHT


@reads_the_package
def test_defaults_are_altered_with_their_number() -> None:
    def default() -> object:
        return (alike_rows.nearest_rows.__defaults__ or ())[-1]

    with thresholds.changed(package(), constant("ens_plugin.core.alike_rows.N_NEAREST"), 17):
        assert default() == 17
    assert default() == alike_rows.N_NEAREST


@reads_the_package
def test_what_is_computed_from_a_number_is_altered_with_it() -> None:
    before = row_model.GRID
    with thresholds.changed(package(), constant("ens_plugin.core.row_model.N_CELLS"), 10):
        np.testing.assert_allclose(row_model.GRID, (np.arange(10) + 0.5) / 10)
    assert row_model.GRID is before


@reads_the_package
def test_every_number_but_those_of_tables_is_read_by_a_function() -> None:
    unread = {constant.name for constant in package().constants if not package().readers(constant)}
    assert len(package().constants) > 100
    assert unread <= {"MISSING_IS_NAN", "RETRY_AFTER_S"}


def test_the_gravest_change_is_named() -> None:
    before = {".recommendation.size": np.asarray(11), ".error_curve.lower": np.asarray([0.1]), ".warnings.0": "# rows"}
    wider = {**before, ".error_curve.lower": np.asarray([0.2])}
    assert thresholds.kind_of_change(before, dict(before)) == "nothing"
    assert thresholds.kind_of_change(before, wider) == "interval"
    assert thresholds.kind_of_change(before, {**wider, ".recommendation.size": np.asarray(13)}) == "recommendation"
    assert thresholds.kind_of_change(before, {**wider, ".warnings.1": "another"}) == "verdict"
    assert thresholds.kind_of_change(before, {"refusal": "InputError"}) == "verdict"


def test_rounding_is_no_change() -> None:
    assert thresholds.kind_of_change({".error": np.asarray(0.1)}, {".error": np.asarray(0.1 + 1e-12)}) == "nothing"


@reads_the_package
def test_a_run_that_is_cut_off_goes_on_where_it_ended(tmp_path: Path) -> None:
    arguments = ["--quick", "--state", f"{tmp_path / 'state'}", "--table", f"{tmp_path / 'table'}"]
    part = "core.alike_rows.FIRST_FARTHER"
    first = thresholds.main([*arguments, "--only", part])
    assert first.startswith("## Named numbers")
    assert first == thresholds.main([*arguments, "--only", part, "--minutes", "0"])
    lines = (tmp_path / "table.csv").read_text().splitlines()
    assert len(lines) == 1 + sum(part in constant.key for constant in package().constants)
