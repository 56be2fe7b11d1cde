"""Tables of Markdown, written and read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

NOTHING = ("", "-")
WITH_SPREAD = re.compile(r"(\S+) ± (\S+)")


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return an aligned Markdown table: the first column to the left, the others to the right."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = [_line(header, widths), f"| {' | '.join(rule)} |", *(_line(row, widths) for row in rows)]
    return "\n".join(lines)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
    return f"| {' | '.join(cells)} |"


def cells(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield what the cells of the tables in a text measure, their values, and their spreads where they have one.

    The name of a measure is that of the table, then the row, then the column.  Columns of words, and those without
    which two rows would have the same name, belong to the name of the row.
    """
    for found in re.findall(r"(?:^\|.*\n?)+", text, flags=re.MULTILINE):
        header, _, *rows = [
            [cell.strip(" *") for cell in line.strip("|").split("|")] for line in found.strip().splitlines()
        ]
        for row, above in zip(rows[1:], rows, strict=False):
            row[0] = row[0] or above[0]
        n_names, columns = _columns_of_names(rows), list(_told_apart(header))
        for row in rows:
            name = ", ".join(cell for cell in row[:n_names] if cell)
            for column, cell in zip(columns[n_names:], row[n_names:], strict=True):
                if cell not in NOTHING:
                    value, spread = match.groups() if (match := WITH_SPREAD.fullmatch(cell)) else (cell, "")
                    yield f"{header[0]}: {name}: {column}", value, spread


def _told_apart(header: Sequence[str]) -> Iterator[str]:
    """Yield the names of columns; one that occurs twice follows the last one that does not."""
    group = ""
    for name in header:
        if header.count(name) == 1:
            group = name
            yield name
        else:
            yield f"{group}, {name}"


def _columns_of_names(rows: Sequence[Sequence[str]]) -> int:
    """Return how many of the first columns make the name of a row."""
    last = len(rows[0]) - 1
    for n_names in range(1, last):
        is_words = not any(re.search(r"\d", row[n_names]) for row in rows)
        if not is_words and len({tuple(row[:n_names]) for row in rows}) == len(rows):
            return n_names
    return last
