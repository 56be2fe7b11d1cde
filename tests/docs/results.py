"""What pages state and what the benchmarks wrote into benchmarks/RESULTS.md, as text that can be compared."""

from __future__ import annotations

from pathlib import Path

__all__ = [
    "ROOT",
    "cells",
    "extremes",
    "listed",
    "measured",
    "methods",
    "page",
    "rows",
    "section",
    "signed",
    "values",
    "whole",
]

ROOT = Path(__file__).parents[2]


def page(name: str) -> str:
    """Return the text of a page of docs, with each line break as a space."""
    return " ".join((ROOT / "docs" / name).read_text(encoding="utf-8").split())


def methods() -> str:
    """Return the text of all pages of methods, with each line break as a space."""
    return " ".join(page(f"methods/{path.name}") for path in sorted((ROOT / "docs" / "methods").glob("*.md")))


def section(script: str) -> str:
    """Return the section of RESULTS.md that a script wrote."""
    text = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    return text.partition(f"<!-- benchmarks.{script}: begin -->")[2].partition(f"<!-- benchmarks.{script}: end -->")[0]


def rows(script: str) -> list[list[str]]:
    """Return the cells of all tables of a script."""
    lines = [line for line in section(script).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def cells(script: str, start: str) -> list[list[str]]:
    """Return the tables' rows whose first cell begins so, less that cell."""
    found = [cells[1:] for cells in rows(script) if cells[0].startswith(start)]
    assert found, start
    return found


def measured(script: str, measure: str) -> str:
    """Return the one value of a measure, with its standard error if it has one."""
    ((value, *_),) = [row[1:] for row in rows(script) if row[0] == measure]
    return value


def values(script: str, part: str) -> list[float]:
    """Return the values of all measures whose name has a part."""
    found = [float(row[1].split()[0]) for row in rows(script) if len(row) == 4 and part in row[0]]
    assert found, part
    return found


def whole(value: str) -> str:
    """Return a value without its standard error."""
    return value.split()[0]


def extremes(found: list[float], digits: int = 2) -> str:
    """Return the smallest and the largest value in words."""
    return f"{min(found):.{digits}f} to {max(found):.{digits}f}"


def signed(found: list[float]) -> tuple[str, str]:
    """Return the smallest and the largest value with their signs."""
    return f"{min(found):+.2f}", f"{max(found):+.2f}"


def listed(words: list[str]) -> str:
    """Return words with commas and an and."""
    return f"{', '.join(words[:-1])} and {words[-1]}"
