"""The costs of an ensemble now and cut to a smaller size, as a table in text and Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ens_plugin.sizing.savings import Savings

__all__ = ["markdown_lines", "text_lines"]


def text_lines(savings: Savings | None) -> list[str]:
    """Return a table of savings as lines of plain text, after an empty line; none where nothing was measured."""
    if savings is None:
        return []
    return ["", *(f"{row[0]:<30}{row[1]:>14}{row[2]:>14}{row[3]:>10}" for row in savings.rows())]


def markdown_lines(savings: Savings | None) -> list[str]:
    """Return a table of savings as lines of Markdown, after an empty line; none where nothing was measured."""
    if savings is None:
        return []
    header, *rows = savings.rows()
    return ["", _table_row(header), "|---|---:|---:|---:|", *map(_table_row, rows)]


def _table_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
