"""Lists of real tables, one a line; those of R's packages have the form of benchmarks.checks.real_tables."""

from __future__ import annotations

from pathlib import Path


def lines_of(name: str) -> list[str]:
    """Return the lines of a list."""
    return (Path(__file__).parent / f"{name}.txt").read_text(encoding="utf-8").splitlines()
