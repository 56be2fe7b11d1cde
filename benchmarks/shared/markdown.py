"""Functions that write and read the tables of RESULTS.md."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

VERDICTS = ("met", "MISSED")


class Row(NamedTuple):
    """One line of a section's table of claims."""

    measure: str
    measured: str
    target: str
    verdict: str


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an aligned Markdown table: the first column to the left, the others to the right."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = [_cells(header, widths), f"| {' | '.join(rule)} |", *(_cells(row, widths) for row in rows)]
    return "\n".join(lines)


def _cells(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
    return f"| {' | '.join(cells)} |"


def sections(text: str) -> dict[str, str]:
    """Return the sections of RESULTS.md by the script that wrote them."""
    return dict(re.findall(r"<!-- (benchmarks\.[\w.]+): begin -->\n(.*?)\n<!-- \1: end -->", text, flags=re.DOTALL))


def claim_rows(section: str) -> list[Row]:
    """Return the lines of a section that have a target."""
    lines = ([cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|")
    return [Row(*cells) for cells in lines if len(cells) == len(Row._fields) and cells[-1] in VERDICTS]
