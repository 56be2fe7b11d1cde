"""Forests whose bags were drawn by weight: is the error right wherever a report is given, and refused elsewhere.

Random forests of 100 trees, whose bags scikit-learn draws by weight: class_weight='balanced', or lognormal weights at
fit, judged without weights or with the same ones. Two normal classes in 10 features. A report is either refused, or
compared with the forest's error on 20 000 fresh rows. What the best possible rule's error on the training rows has of
luck is taken out of the bias.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
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

TRIED = (
    "weights that give rows left out the share of their label, and the inverse of their chance to be left out. With "
    "lognormal weights the heaviest rows, which carry most of the weight, are in nearly every bag: half of these "
    "training sets are refused, and most of the others are doubted."
)
ROWS = (1000, 5000)
SHARES = (0.01, 0.03, 0.06, 0.10, 0.20)
DEPTHS = (None, 5)
DRAWS = ("balanced", "weights at fit", "weights at fit and here")
N_TREES = 100
FRESH_ROWS = 20_000
N_FEATURES = 10
SHIFT = 1.2
TELLING_FEATURES = 2


class Cell(NamedTuple):
    """One kind of problem: how bags were drawn, training rows, share of positives, depth of the trees."""

    draw: str
    n_rows: int
    share: float
    depth: int | None

    def words(self) -> str:
        """Return the name of the cell."""
        depth = "full depth" if self.depth is None else f"depth {self.depth}"
        return f"{self.draw}, {self.n_rows} rows, {100 * self.share:g} % positives, {depth}"


class Outcome(NamedTuple):
    """Results of one training set, as shares.

    Attributes
    ----------
    error, lower, upper : float
        Of the report; NaN where it was refused.
    truth : float
        Error on fresh rows.
    luck : float
        Error of the best rule on the training rows, minus that on fresh ones.
    is_doubted : bool
    """

    error: float
    lower: float
    upper: float
    truth: float
    luck: float
    is_doubted: bool


REFUSED = Outcome(math.nan, math.nan, math.nan, math.nan, math.nan, False)


def draw_rows(n_rows: int, share: float, rng: np.random.Generator) -> tuple[FloatArray, NDArray[np.int64]]:
    """Draw rows of two normal classes that differ in the mean of two features."""
    y = (rng.random(n_rows) < share).astype(np.int64)
    X = rng.normal(size=(n_rows, N_FEATURES))
    X[:, :TELLING_FEATURES] += SHIFT * y[:, None]
    return X, y


def best_errors(X: FloatArray, y: NDArray[np.int64], share: float) -> FloatArray:
    """Return the 0-1 loss of the best possible rule, by row."""
    score = SHIFT * (X[:, :TELLING_FEATURES] - SHIFT / 2.0).sum(axis=1) + math.log(share / (1.0 - share))
    return np.asarray((score > 0) != y, dtype=np.float64)


def outcome(cell: Cell, seed: int, n_trees: int, fresh_rows: int) -> Outcome:
    """Train one forest, analyse it and measure its error."""
    rng = np.random.default_rng([seed, crc32(cell.words().encode())])
    X, y = draw_rows(cell.n_rows, cell.share, rng)
    weight = None if cell.draw == "balanced" else rng.lognormal(size=cell.n_rows)
    forest = RandomForestClassifier(
        n_trees, class_weight="balanced" if weight is None else None, max_depth=cell.depth, random_state=seed, n_jobs=1
    ).fit(X, y, sample_weight=weight)
    evaluation = weight if cell.draw == "weights at fit and here" else None
    try:
        report = ens_plugin.analyze(forest, X, y, sample_weight=evaluation, n_jobs=1)
    except TooFewMembersError:
        return REFUSED
    fresh, labels = draw_rows(fresh_rows, cell.share, rng)
    luck = float(np.average(best_errors(X, y, cell.share), weights=evaluation))
    return Outcome(
        report.error,
        *report.error_interval,
        float(np.mean(forest.predict(fresh) != labels)),
        luck - float(best_errors(fresh, labels, cell.share).mean()),
        bool(report.basis.doubts),
    )


class Summary(NamedTuple):
    """Results of all training sets of one cell; errors in points, shares in percent."""

    cell: Cell
    n_sets: int
    n_reports: int
    n_doubted: int
    truth: float
    bias: float
    spread: float
    covered: float
    width: float


def summary(cell: Cell, found: Sequence[Outcome]) -> Summary:
    """Compare the reports with fresh rows.

    What the best rule's error on the training rows has of luck is taken out of the bias, which changes nothing on
    average and halves its noise.
    """
    given = np.array([one for one in found if not math.isnan(one.error)])
    if not given.size:
        return Summary(cell, len(found), 0, 0, *(math.nan,) * 5)
    error, lower, upper, truth, luck, doubted = given.T
    bias = 100 * (error - truth - luck)
    spread = float(bias.std(ddof=1)) / math.sqrt(bias.size) if bias.size > 1 else math.inf
    covered = 100 * float(np.mean((lower <= truth) & (truth <= upper)))
    return Summary(
        cell, len(found), bias.size, int(doubted.sum()), 100 * float(truth.mean()), float(bias.mean()), spread, covered,
        100 * float((upper - lower).mean()) / 2.0,
    )  # fmt: skip


def claims_of(found: Sequence[Summary]) -> list[Claim]:
    """List the targets over the cells with reports."""
    given = [one for one in found if one.n_reports]
    counts = np.array([one.n_reports for one in given], dtype=np.float64)
    n_reports = int(counts.sum())
    covered = float(counts @ [one.covered for one in given]) / n_reports
    worst = max(given, key=lambda one: abs(one.bias))
    least = min(given, key=lambda one: one.covered)
    beyond = sum(abs(one.bias) > 0.3 + 2 * one.spread for one in given)
    return [
        Claim("95 % interval contains the error on fresh rows, all reports (%)", covered,
              percent_se(covered, n_reports), 90, 99, 1),
        Claim("95 % interval contains the error on fresh rows, worst cell (%)", least.covered,
              percent_se(least.covered, least.n_reports), 90, digits=1,
              tried=TRIED),
        Claim("largest bias of a cell (points)", abs(worst.bias), worst.spread, high=0.3, tried=TRIED),
        Claim("cells whose bias is beyond 0.3 points by two standard errors", beyond, high=0, digits=0, tried=TRIED),
        Claim("training sets with a report (%)", 100 * n_reports / sum(one.n_sets for one in found), digits=0),
    ]  # fmt: skip


def cells_table(found: Sequence[Summary]) -> str:
    """Tabulate all cells."""
    header = ["bags, rows, positives, trees", "reports", "in doubt", "error (%)", "bias (points)", "covered (%)",
              "half width (points)"]  # fmt: skip
    rows = [
        [one.cell.words(), f"{one.n_reports} of {one.n_sets}"]
        + (["", "refused", "", "", ""] if not one.n_reports else
           [str(one.n_doubted), f"{one.truth:.2f}", f"{one.bias:+.2f} ± {one.spread:.2f}", f"{one.covered:.0f}",
            f"{one.width:.2f}"])
        for one in found
    ]  # fmt: skip
    return table(header, rows)


def chosen_cells(options: Options) -> list[Cell]:
    """All cells, or for a smoke run two."""
    if options.smoke:
        return [Cell("balanced", 400, 0.03, None), Cell("weights at fit", 400, 0.2, 5)]
    return [Cell(*parts) for parts in itertools.product(DRAWS, ROWS, SHARES, DEPTHS)]


def main(arguments: list[str] | None = None) -> str:
    """Run the script and return its section."""
    options = read_options(__name__, __doc__, 20, arguments)
    cells = chosen_cells(options)
    sizes = (20, 1000) if options.smoke else (N_TREES, FRESH_ROWS)
    found = []
    for cell in cells:
        seeds = range(options.seed, options.seed + options.repetitions)
        outcomes = Parallel(n_jobs=options.n_jobs)(delayed(outcome)(cell, seed, *sizes) for seed in seeds)
        found.append(summary(cell, outcomes))
        if not options.smoke:
            print(cells_table(found[-1:]).splitlines()[-1], flush=True)
    return conclude(__name__, options, claims_of(found), [cells_table(found)])
