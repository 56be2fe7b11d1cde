"""RESULTS.md, written from the CSV files of all scripts: what was promised, and which targets are missed."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.shared.markdown import table

MOST_ROWS = 40
PREFACE = """\
# Results

Each script in this directory writes what it measured into a CSV of `results/`, with date, seed, repetitions, spread
(a standard error), target and the number of cores, and then this page. Both tables begin with what is missed. A script
is run by its name, as in `python -m benchmarks accuracy.promise`; its docstring defines what it measures."""
OF_MISSED = """\
## Targets that are missed

One line for each script that misses a target, those with the most first, and the first of those that it misses. The CSV
has them all, and says at each what was tried."""
Rows = Sequence[Mapping[str, str]]


class Promise(NamedTuple):
    """A promise in words, and the figure of a script that measures it."""

    words: str
    script: str
    measure: str


PROMISES = (
    Promise(
        "the error at infinity: mean deviation from a thousand more trees, in percentage points",
        "accuracy.row_model",
        "mean deviation of the limit (points)",
    ),
    Promise(
        "the 95 % interval holds the error on fresh rows, in % of cases",
        "accuracy.intervals",
        "95 % interval contains the error on fresh rows, mean of the cells (%)",
    ),
    Promise(
        "the 95 % interval of the size holds the right one, in % of cases",
        "accuracy.intervals",
        "95 % interval of the size contains the reference, mean of the cells (%)",
    ),
    Promise(
        "the recommended size loses no more accuracy than is allowed, in % of reports on real tables",
        "accuracy.promise",
        "loss at that size within the tolerance, accuracy or mean squared error (%)",
    ),
    Promise(
        "the size by a metric: error in doublings, over 12 metrics",
        "metrics.by_name",
        "error of the size, in doublings (root mean square)",
    ),
    Promise(
        "the 95 % interval of a prediction holds the target, in % of rows (Friedman 1)",
        "accuracy.prediction_intervals",
        "coverage, Friedman 1 (%)",
    ),
    Promise(
        "times as fast as scikit-learn's warm-start loop",
        "cost.speed",
        "scikit-learn's warm-start loop (step 5) / analyze",
    ),
    Promise(
        "a report after every fit: cost in % of the fit",
        "cost.autolog",
        "autologging to a server / fit (%), 20000 rows, 200 trees, one thread",
    ),
    Promise(
        "a search without folds: times as fast as five folds",
        "accuracy.oob_search",
        "seconds of five folds over seconds without folds, median",
    ),
)


def write_page(directory: Path) -> None:
    """Write RESULTS.md beside a directory of CSV files."""
    found = {path.stem: read_figures(path) for path in sorted(directory.glob("*.csv"))}
    (directory.parent / "RESULTS.md").write_text(page(found), encoding="utf-8")


def read_figures(path: Path) -> Rows:
    """Return the lines of a CSV."""
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def page(found: Mapping[str, Rows]) -> str:
    """Return RESULTS.md for the figures of scripts.

    Raises
    ------
    LookupError
        If a script no longer measures what a promise names.
    """
    promised = [(one.words, one.script, _row_of(one, found[one.script])) for one in PROMISES if one.script in found]
    missed = {script: [row for row in rows if row["verdict"] == "MISSED"] for script, rows in found.items()}
    most_missed = sorted((script for script in missed if missed[script]), key=lambda script: -len(missed[script]))
    shown = most_missed[: MOST_ROWS - len(promised)]
    lines = [
        [_link(script), first["measure"], *_shown(first), f"{len(missed[script])} of {_targets(found[script])}"]
        for script in shown
        for first in missed[script][:1]
    ]
    others = [
        f"{_link(script)} ({_targets(rows)}{f', {len(missed[script])} missed' if missed[script] else ''})"
        for script, rows in found.items()
        if script not in shown
    ]
    n_targets, n_missed = sum(map(_targets, found.values())), sum(map(len, missed.values()))
    sections = [
        PREFACE,
        f"Of {n_targets} targets, {n_targets - n_missed} are met and {n_missed} are missed.",
        "## What was promised",
        table(
            ["what was promised", "measured", "target", "verdict", "figures"],
            _missed_first([[words, *_shown(row), row["verdict"], _link(script)] for words, script, row in promised]),
        ),
        OF_MISSED,
        table(["figures", "measure", "measured", "target", "missed"], lines),
        "## All other scripts",
        f"In brackets is the number of targets, which are met unless it says otherwise: {', '.join(others)}.",
    ]
    return "\n\n".join(sections) + "\n"


def _row_of(promise: Promise, rows: Rows) -> Mapping[str, str]:
    for row in rows:
        if row["measure"] == promise.measure:
            return row
    raise LookupError(f"{promise.script} has no {promise.measure!r}. Change PROMISES in benchmarks/shared/page.py.")


def _shown(row: Mapping[str, str]) -> list[str]:
    return [" ± ".join(filter(None, (row["value"], row["spread"]))), row["target"]]


def _missed_first(lines: Iterable[list[str]]) -> list[list[str]]:
    return sorted(lines, key=lambda line: "MISSED" not in line)


def _link(script: str) -> str:
    return f"[{script}](results/{script}.csv)"


def _targets(rows: Rows) -> int:
    return sum(row["verdict"] != "" for row in rows)
