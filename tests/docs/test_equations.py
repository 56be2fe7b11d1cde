"""The table of the papers' equations: what each row names exists, or the row says why it is left out."""

from __future__ import annotations

import ast
import csv
import re
from functools import cache
from pathlib import Path
from pkgutil import resolve_name

import pytest

ROOT = Path(__file__).parents[2]

LEFT_OUT = "left out: "

with (ROOT / "docs" / "explanations" / "equations.csv").open(encoding="utf-8", newline="") as file:
    HEADER, *ROWS = csv.reader(file)


def named(cell: str) -> list[str]:
    """What stands between backquotes."""
    return re.findall(r"`([^`]*)`", cell)


@cache
def functions_of(path: str) -> set[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]} {row[1]}")
def test_a_row_names_what_exists(row: list[str]) -> None:
    assert len(row) == len(HEADER) == 5
    _, _, functions, tests, benchmark = row
    if functions.startswith(LEFT_OUT):
        assert (tests, benchmark) == ("", "")
        return
    assert named(functions)
    assert named(tests)
    for name in named(functions):
        resolve_name(
            name.partition("(")[0] if name.startswith("benchmarks.") else f"ens_plugin.{name.partition('(')[0]}"
        )
    for path, _, name in (test.partition("::") for test in named(tests)):
        assert (name in functions_of(path)) if name else functions_of(path)
    for script in named(benchmark):
        words = benchmark.partition("`: ")[2].split(", ")
        figures = (ROOT / "benchmarks" / "results" / f"{script}.csv").read_text(encoding="utf-8")
        assert [word for word in words if word not in figures] == []


def test_rows_that_name_nothing_are_told_apart() -> None:
    for wrong in (
        ["1996", "V_1", "`papers.bagging_error_1996.v9`", "`tests/core/test_majority.py`", ""],
        ["1996", "V_1", "`tests/core/test_majority.py`", "`papers.bagging_error_1996.v1`", ""],
        ["1996", "V_1", "`papers.bagging_error_1996.v1`", "`tests/core/test_majority.py::test_nothing`", ""],
        ["1996", "V_1", "`papers.bagging_error_1996.v1`", "`tests/core/test_majority.py`", "`papers.nothing`: E1"],
        ["1996", "V_1", "left out: no reason", "`tests/core/test_majority.py`", ""],
        ["1996", "V_1", "", "`tests/core/test_majority.py`", ""],
    ):
        with pytest.raises((AssertionError, AttributeError, ImportError, OSError, ValueError)):
            test_a_row_names_what_exists(wrong)


def test_each_paper_has_rows() -> None:
    assert {row[0] for row in ROWS} == {"1996", "2004", "2007", "2013", "2017"}
    assert len({(row[0], row[1]) for row in ROWS}) == len(ROWS) > 100
