"""Reports on known data say what the golden table has, each figure within its tolerance."""

from __future__ import annotations

import pytest

from tests.golden import Case, cases, differs, figures_of, read_table

TABLE = read_table()


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.name)
def test_the_report_says_what_the_table_has(case: Case) -> None:
    found, known = figures_of(case), TABLE[case.name]
    assert found.keys() == known.keys()
    assert {name: figure for name, figure in found.items() if differs(known[name], figure)} == {}


def test_the_table_has_every_case_and_the_truth_of_many() -> None:
    assert set(TABLE) == {case.name for case in cases()}
    assert sum(len(figures) for figures in TABLE.values()) >= 400
