"""RESULTS.md: one section per script, replaced as a whole when the script runs again."""

from __future__ import annotations

import math
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from benchmarks.shared.headline import with_headline
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options

RESULTS = Path(__file__).parents[1] / "RESULTS.md"
PREFACE = "# Results\n\nWritten by the scripts in this directory; a run replaces its own section and no other.\n"
PACKAGES = ("numpy", "scipy", "scikit-learn")


def root_mean_square(values: ArrayLike) -> float:
    """Return the root of the mean square; NaN of nothing, which meets no target."""
    squares = np.square(np.asarray(values, dtype=float))
    return float(np.sqrt(squares.mean())) if squares.size else math.nan


def mean_and_se(values: ArrayLike) -> tuple[float, float]:
    """Return the mean of values, and its standard error."""
    array = np.asarray(values, dtype=float)
    return float(array.mean()), float(array.std(ddof=1) / np.sqrt(array.size))


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
        What was tried where the target is missed; shown only then.
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
        """Return the target in words."""
        if math.isinf(self.low):
            return "none" if math.isinf(self.high) else f"at most {self.high:g}"
        return f"at least {self.low:g}" if math.isinf(self.high) else f"{self.low:g} to {self.high:g}"

    def measured(self) -> str:
        """Return the value with its standard error."""
        shown = f"{self.value:.{self.digits}f}"
        return shown if self.spread is None else f"{shown} ± {self.spread:.{self.digits}f}"


def claims_table(claims: Sequence[Claim]) -> str:
    """Return claims with target and verdict, and under them what was tried where targets are missed."""
    rows = [[claim.measure, claim.measured(), claim.target(), _verdict(claim)] for claim in claims]
    missed: dict[str, list[str]] = {}
    for claim in claims:
        if not claim.met:
            missed.setdefault(claim.tried or "nothing yet.", []).append(claim.measure)
    notes = [f"- Missed: {'; '.join(measures)}. Tried: {tried}" for tried, measures in missed.items()]
    text = table(["measure", "measured", "target", "verdict"], rows)
    return f"{text}\n\n" + "\n".join(notes) if notes else text


def _verdict(claim: Claim) -> str:
    if claim.target() == "none":
        return ""
    return "met" if claim.met else "MISSED"


def run_facts(seed: int, repetitions: int) -> str:
    """Return when, with what and on what a section was measured."""
    today = datetime.now(timezone.utc).date().isoformat()
    packages = ", ".join([f"ens-plugin {_own_version()}", *(f"{name} {version(name)}" for name in PACKAGES)])
    machine = f"{os.cpu_count()} cores, {platform.machine()}"
    python = platform.python_version()
    return f"{today}; seed {seed}; {repetitions} repetitions; Python {python}, {packages}; {machine}."


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


def conclude(
    script: str, options: Options, about: Sequence[str], claims: Sequence[Claim], tables: Sequence[str] = ()
) -> str:
    """Put a section together, write it unless this is a smoke run, and return it.

    Parameters
    ----------
    script : str
        Name of the module.
    options : Options
    about : sequence of str
        The heading, and what to know about the measurement.
    claims : sequence of Claim
    tables : sequence of str
    """
    facts = run_facts(options.seed, options.repetitions)
    body = "\n\n".join([*about, facts, claims_table(claims), *tables])
    if not options.smoke:
        publish(script, body)
    return body


def publish(script: str, body: str, path: Path = RESULTS) -> None:
    """Replace the section of `script`, or append it, and renew the table at the top; the rest of the file stays."""
    begin, end = f"<!-- {script}: begin -->", f"<!-- {script}: end -->"
    section = f"{begin}\n{body.strip()}\n{end}"
    text = path.read_text(encoding="utf-8") if path.exists() else PREFACE
    if begin in text:
        text = re.sub(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: section, text, count=1, flags=re.DOTALL)
    else:
        text = f"{text.rstrip()}\n\n{section}\n"
    path.write_text(with_headline(text), encoding="utf-8")
