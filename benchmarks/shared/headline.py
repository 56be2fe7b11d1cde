"""The table at the top of RESULTS.md: what was promised and what was measured, in ten lines taken from the sections."""

from __future__ import annotations

import re
from typing import NamedTuple

from benchmarks.shared.markdown import Row, claim_rows, sections, table

BEGIN, END = "<!-- headline: begin -->", "<!-- headline: end -->"
FIRST_SECTION = "<!-- benchmarks."


class Promise(NamedTuple):
    """A promise in words, and the line of a section that measures it."""

    words: str
    script: str
    measure: str


PROMISES = (
    Promise(
        "the error at infinity, from 50 trees: mean absolute bias in percentage points",
        "benchmarks.accuracy.few_trees",
        "from 50 trees, B = ∞: mean absolute bias (points)",
    ),
    Promise(
        "the 95 % interval holds the error on fresh rows, in % of cases",
        "benchmarks.accuracy.intervals",
        "95 % interval contains the error on fresh rows, mean of the cells (%)",
    ),
    Promise(
        "the 95 % interval of the size holds the right one, in % of cases",
        "benchmarks.accuracy.intervals",
        "95 % interval of the size contains the reference, mean of the cells (%)",
    ),
    Promise(
        "the recommended size loses no more accuracy than is allowed, in % of reports on real tables",
        "benchmarks.accuracy.promise",
        "loss at that size within the tolerance, accuracy or mean squared error (%)",
    ),
    Promise(
        "the size by a metric: error in doublings, over 12 metrics",
        "benchmarks.metrics.by_name",
        "error of the size, in doublings (root mean square)",
    ),
    Promise(
        "the 95 % interval of a prediction holds the target, in % of rows (Friedman 1)",
        "benchmarks.accuracy.prediction_intervals",
        "coverage, Friedman 1 (%)",
    ),
    Promise(
        "times as fast as scikit-learn's warm-start loop",
        "benchmarks.cost.speed",
        "scikit-learn's warm-start loop (step 5) / analyze",
    ),
    Promise(
        "a report after every fit: cost in % of the fit",
        "benchmarks.cost.autolog",
        "autologging to a server / fit (%), 20000 rows, 200 trees, one thread",
    ),
    Promise(
        "a search without folds: times as fast as five folds",
        "benchmarks.accuracy.oob_search",
        "seconds of five folds over seconds without folds, median",
    ),
)


def headline(text: str) -> str:
    """Return the table for the sections in `text`, the count of all targets as its last line; empty without sections.

    Raises
    ------
    LookupError
        If a section no longer has the line of a promise.
    """
    found = {script: claim_rows(section) for script, section in sections(text).items()}
    lines = [_line(promise, found[promise.script]) for promise in PROMISES if promise.script in found]
    if not lines:
        return ""
    verdicts = [row.verdict for rows in found.values() for row in rows]
    met = verdicts.count("met")
    lines.append([f"all {len(verdicts)} targets below, each met", f"{met} met", "all", _verdict(met == len(verdicts))])
    return table(["what was promised", "measured", "target", "verdict"], lines)


def _line(promise: Promise, rows: list[Row]) -> list[str]:
    for row in rows:
        if row.measure == promise.measure:
            return [promise.words, *row[1:]]
    raise LookupError(
        f"The section of {promise.script} has no line {promise.measure!r}. "
        "Change the line of benchmarks/shared/headline.py."
    )


def _verdict(met: bool) -> str:
    return "met" if met else "MISSED"


def with_headline(text: str) -> str:
    """Return RESULTS.md with the table before its first section, in place of an earlier one."""
    bare = re.sub(f"{BEGIN}.*?{END}\n\n", "", text, count=1, flags=re.DOTALL)
    found = headline(bare)
    if not found:
        return bare
    before, first, after = bare.partition(FIRST_SECTION)
    return f"{before}{BEGIN}\n{found}\n{END}\n\n{first}{after}"
