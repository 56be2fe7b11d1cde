"""Forests of class_weight='balanced' with rare labels: how many are answered, and is the error right where they are.

Three problems of two labels (one shifted, one inside of the other, one of easy and hard rows), 1 training sets each.
scikit-learn draws the bags by weight, so that rows of the rare label are in nearly every bag. The truth is the
forest's error on 10000 fresh rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple
from zlib import crc32

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.results import Claim, conclude, percent_se
from ens_plugin.errors import TooFewMembersError

FloatArray = NDArray[np.float64]
Rows = tuple[FloatArray, NDArray[np.int64]]

SHARES = (0.02, 0.05, 0.12, 0.20)
ROWS = (200, 600, 2000)
TREES = (20, 100, 300)
FRESH_ROWS = 10_000
# Rows of the rare label had to have as many members on average before members counted in sum.
MEAN_NEEDED = 3.0
# A label of fewer rows with no more of the weight leads to a warning alone.
HANDFUL, HANDFUL_SHARE = 5, 0.005


def shifted(n_rows: int, share: float, rng: np.random.Generator) -> Rows:
    """Draw two normal labels that differ in the mean of two of ten features."""
    y = (rng.random(n_rows) < share).astype(np.int64)
    X = rng.normal(size=(n_rows, 10))
    X[:, :2] += 1.2 * y[:, None]
    return X, y


def inside(n_rows: int, share: float, rng: np.random.Generator) -> Rows:
    """Draw a rare label that lies inside of the other."""
    y = (rng.random(n_rows) < share).astype(np.int64)
    return np.where(y[:, None] == 1, 1.0, 2.2) * rng.normal(size=(n_rows, 6)), y


def of_two_kinds(n_rows: int, share: float, rng: np.random.Generator) -> Rows:
    """Draw a rare label, half of whose rows are easy and half hard."""
    y = (rng.random(n_rows) < share).astype(np.int64)
    easy = rng.random(n_rows) < 0.5
    X = rng.normal(size=(n_rows, 8))
    X[:, 0] += y * np.where(easy, 4.0, 0.3)
    X[:, 1] += y * np.where(easy, 0.0, 1.0)
    return X, y


PROBLEMS: dict[str, Callable[[int, float, np.random.Generator], Rows]] = {
    "shifted": shifted, "inside": inside, "of two kinds": of_two_kinds,
}  # fmt: skip


class Outcome(NamedTuple):
    """One report: rows of the rare label and their members, error, interval and truth; NaN where it was refused."""

    share: float
    n_rows: int
    n_trees: int
    n_rare: int
    mean_members: float
    error: float
    lower: float
    upper: float
    truth: float

    @property
    def is_answered(self) -> bool:
        """Return whether there is a report."""
        return not math.isnan(self.error)

    @property
    def was_refused(self) -> bool:
        """Return whether it was refused as long as members did not count in sum: but for a label of next to no row."""
        is_handful = self.n_rare < HANDFUL and self.n_rare <= HANDFUL_SHARE * self.n_rows
        return self.mean_members < MEAN_NEEDED and not is_handful

    @property
    def holds(self) -> bool:
        """Return whether the interval holds the error on fresh rows."""
        return self.lower <= self.truth <= self.upper


def outcomes(problem: str, share: float, n_rows: int, seed: int, trees: Sequence[int], n_fresh: int) -> list[Outcome]:
    """Train one forest, and analyse it with several numbers of its trees."""
    rng = np.random.default_rng([seed, n_rows, round(1000 * share), crc32(problem.encode())])
    X, y = PROBLEMS[problem](n_rows, share, rng)
    fresh, labels = PROBLEMS[problem](n_fresh, share, rng)
    forest = RandomForestClassifier(max(trees), class_weight="balanced", random_state=seed).fit(X, y)
    every, features = forest.estimators_, fresh.astype(np.float32)
    second = np.stack([tree.tree_.predict(features).reshape(n_fresh, -1)[:, -1] for tree in every])
    found = []
    for n_trees in trees:
        forest.estimators_, forest.n_estimators = every[:n_trees], n_trees
        truth = float(np.mean((second[:n_trees].mean(axis=0) > 0.5) != labels))
        members = float((~ens_plugin.in_bag(forest, X, y)).sum(axis=0)[y == 1].mean())
        cell = (share, n_rows, n_trees, int(y.sum()), members)
        try:
            report = ens_plugin.analyze(forest, X, y, max_size=501, n_jobs=1)
        except TooFewMembersError:
            found.append(Outcome(*cell, math.nan, math.nan, math.nan, truth))
            continue
        found.append(Outcome(*cell, report.error, *report.error_interval, truth))
    return found


def claims_of(found: Sequence[Outcome]) -> list[Claim]:
    """Return the figures with their targets."""
    given = [one for one in found if one.is_answered]
    newly = [one for one in given if one.was_refused]
    of_label = [one for one in found if one.share >= 0.12]
    bias = 100.0 * np.array([one.error - one.truth for one in newly])
    return [
        Claim("refused (%)", 100.0 * _share([not one.is_answered for one in found]), None, digits=0),
        Claim(
            f"refused if a row of the label needed {MEAN_NEEDED:g} members on average (%)",
            100.0 * _share([one.was_refused for one in found]),
            None,
            digits=0,
        ),
        Claim(
            "refused, 12 and 20 % positives (%)",
            100.0 * _share([not one.is_answered for one in of_label]),
            None,
            digits=0,
        ),
        Claim(
            "refused if a row needed them on average, 12 and 20 % positives (%)",
            100.0 * _share([one.was_refused for one in of_label]),
            None,
            digits=0,
        ),
        _held("95 % interval holds the error on fresh rows, all reports (%)", given),
        _held("95 % interval holds the error on fresh rows, reports that were refused for 3 members (%)", newly),
        Claim(
            "bias of reports that were refused for 3 members (points)",
            float(bias.mean()) if bias.size else math.nan,
            float(bias.std(ddof=1)) / math.sqrt(bias.size) if bias.size > 1 else None,
        ),
    ]


def _held(measure: str, given: Sequence[Outcome]) -> Claim:
    share = 100.0 * _share([one.holds for one in given])
    return Claim(measure, share, percent_se(share, len(given)), 90.0, digits=1)


def _share(values: Sequence[bool]) -> float:
    return float(np.mean(values)) if values else math.nan


def cells_table(found: Sequence[Outcome]) -> str:
    """Tabulate reports, coverage and bias by positives, rows and trees."""
    header = ["positives (%)", "rows", "trees", "members of a rare row", "reports", "held", "bias (points)",
              "half width (points)"]  # fmt: skip
    rows = []
    for share, n_rows, n_trees in dict.fromkeys((one.share, one.n_rows, one.n_trees) for one in found):
        cell = [one for one in found if (one.share, one.n_rows, one.n_trees) == (share, n_rows, n_trees)]
        given = [one for one in cell if one.is_answered]
        bias = np.mean([100.0 * (one.error - one.truth) for one in given]) if given else math.nan
        width = np.mean([50.0 * (one.upper - one.lower) for one in given]) if given else math.nan
        rows.append(
            [f"{100 * share:g}", str(n_rows), str(n_trees), f"{np.mean([one.mean_members for one in cell]):.2g}",
             f"{len(given)} of {len(cell)}", str(sum(one.holds for one in given)) if given else "",
             f"{bias:+.2f}" if given else "", f"{width:.2f}" if given else ""]
        )  # fmt: skip
    return table(header, rows)


def main(arguments: list[str] | None = None) -> str:
    """Run the script and return its section."""
    options: Options = read_options(__name__, __doc__, 3, arguments, smoke=1)
    cells = list(itertools.product(SHARES, ROWS))
    trees: Sequence[int] = TREES
    n_fresh = FRESH_ROWS
    if options.smoke:
        cells, trees, n_fresh = [(0.20, 200)], (20, 60), 1000
    seeds = range(options.seed, options.seed + options.repetitions)
    jobs = [
        delayed(outcomes)(problem, share, n_rows, seed, trees, n_fresh)
        for (share, n_rows), problem, seed in itertools.product(cells, PROBLEMS, seeds)
    ]
    found = [one for several in Parallel(n_jobs=options.n_jobs)(jobs) for one in several]
    return conclude(__name__, options, claims_of(found), [cells_table(found)])
