"""What a script measured: printed, and kept in a CSV of its own, from which the page of results is written anew."""

from __future__ import annotations

import csv
import math
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from benchmarks.shared.markdown import cells, table
from benchmarks.shared.page import write_page

RESULTS = Path(__file__).parents[1] / "results"


class Figure(NamedTuple):
    """One line of a CSV."""

    date: str
    seed: str
    repetitions: str
    cores: str
    measure: str
    value: str
    spread: str
    target: str
    verdict: str
    tried: str
    software: str


class Run(Protocol):
    """The options of a run that its figures state."""

    smoke: bool
    seed: int
    repetitions: int


def root_mean_square(values: ArrayLike) -> float:
    """Return the root of the mean square; NaN of nothing, which meets no target."""
    squares = np.square(np.asarray(values, dtype=float))
    return float(np.sqrt(squares.mean())) if squares.size else math.nan


def mean_and_se(values: ArrayLike) -> tuple[float, float]:
    """Return the mean of values, and its standard error."""
    array = np.asarray(values, dtype=float)
    return float(array.mean()), float(array.std(ddof=1) / np.sqrt(array.size))


def percent_se(percent: float, count: int) -> float:
    """Return the standard error of a percentage of independent cases, which is not 0 where all or none are counted."""
    return math.sqrt(max(percent * (100.0 - percent), 1.0) / max(count, 1))


@dataclass(frozen=True)
class Claim:
    """One measured number against its target.

    Attributes
    ----------
    measure : str
        What was measured, with its unit.
    value : float
    spread : float or None
        Standard error of `value`; None where there is no such thing.
    low, high : float
        The target: `low` <= `value` <= `high`.
    digits : int
        Decimals shown; the verdict is on the number as measured.
    tried : str
        What was tried where the target is missed; kept only then.
    """

    measure: str
    value: float
    spread: float | None = None
    low: float = -math.inf
    high: float = math.inf
    digits: int = 2
    tried: str = ""

    @property
    def met(self) -> bool:
        """Whether the value lies within the target."""
        return self.low <= self.value <= self.high

    def target(self) -> str:
        """Return the target in words; nothing where there is none."""
        if math.isinf(self.low):
            return "" if math.isinf(self.high) else f"at most {self.high:g}"
        return f"at least {self.low:g}" if math.isinf(self.high) else f"{self.low:g} to {self.high:g}"

    def verdict(self) -> str:
        """Return whether the target is met; nothing where there is none."""
        if not self.target():
            return ""
        return "met" if self.met else "MISSED"

    def noted(self) -> str:
        """Return what was tried where the target is missed."""
        return "" if self.met else self.tried or "nothing yet."

    def shown(self) -> tuple[str, str]:
        """Return the value and its standard error as text."""
        spread = "" if self.spread is None else f"{self.spread:.{self.digits}f}"
        return f"{self.value:.{self.digits}f}", spread

    def measured(self) -> str:
        """Return the value with its standard error."""
        return " ± ".join(part for part in self.shown() if part)


def claims_table(claims: Sequence[Claim]) -> str:
    """Return claims with target and verdict."""
    rows = [[claim.measure, claim.measured(), claim.target(), claim.verdict()] for claim in claims]
    return table(["measure", "measured", "target", "verdict"], rows)


def conclude(
    script: str, run: Run, claims: Sequence[Claim], tables: Sequence[str] = (), left_out: str | None = None
) -> str:
    """Keep what a script measured unless this is a smoke run, and return it as text.

    Parameters
    ----------
    script : str
        Name of the module.
    run : Run
    claims : sequence of Claim
    tables : sequence of str
        Further figures, as tables of Markdown.
    left_out : str or None
        What could not be measured here, and why.
    """
    if not run.smoke:
        publish(script, run, claims, tables)
    facts = f"Seed {run.seed}; {run.repetitions} repetitions; {software()}."
    notes = [f"Left out: {left_out}."] if left_out else []
    return "\n\n".join([f"## {script.removeprefix('benchmarks.')}", facts, *notes, claims_table(claims), *tables])


def publish(
    script: str, run: Run, claims: Sequence[Claim], tables: Sequence[str] = (), directory: Path = RESULTS
) -> None:
    """Write the CSV of a script, and the page of results from those of all scripts.

    Two figures of the same name would be one that nobody can look up, and fail.
    """
    today = datetime.now(timezone.utc).date().isoformat()
    facts = (today, str(run.seed), str(run.repetitions), str(os.cpu_count()))
    measured = [(one.measure, *one.shown(), one.target(), one.verdict(), one.noted()) for one in claims]
    measured += [(*cell, "", "", "") for text in tables for cell in cells(text)]
    used = software()
    write_figures(script, [Figure(*facts, *one, used) for one in measured], directory)
    write_page(directory)


def write_figures(script: str, figures: Sequence[Figure], directory: Path = RESULTS) -> None:
    """Write the CSV of a script."""
    directory.mkdir(exist_ok=True)
    with (directory / f"{script.removeprefix('benchmarks.')}.csv").open("w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerows([Figure._fields, *figures])


def software() -> str:
    """Return the release of this package, by the commit of this checkout, and that of the forests."""
    return f"ens-plugin {_own_version()}; scikit-learn {version('scikit-learn')}"


def _own_version() -> str:
    """Return the commit of this checkout, or the installed version where there is no repository.

    The installed version may be that of another checkout, or of an earlier commit.
    """
    if shutil.which("git") is not None:
        commit = ["git", "-C", str(RESULTS.parent), "rev-parse", "--short", "HEAD"]
        done = subprocess.run(commit, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return f"at {done.stdout.strip()}"
    return version("ens-plugin")
