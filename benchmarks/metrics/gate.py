"""The gate's comparison of two models by a metric: false rejections, power, and coverage of its interval.

Pairs of forests of 60 trees, with leaves of 10 rows or more, trained on the same rows and compared on their
out-of-bag rows. The rows are drawn anew for each pair. A candidate is of another seed, whose true difference is 0, or
of trees with two levels of splits. The true difference of the settings is that of the mean metrics of 3 forests each
on 5000 fresh rows. It is positive where the candidate is worse. no_worse rejects where the lower end of the 95 %
interval is above 0, which is meant to happen in at most 2.5 % of equal pairs; the target allows for the noise of the
pairs counted. The interval includes what another seed changes in both forests, so it holds the difference of the two
forests themselves more often.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom
from sklearn.ensemble import RandomForestClassifier

from benchmarks.metrics.problems import logistic
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.results import Claim, conclude
from ens_plugin.adapters.registry import find_adapter
from ens_plugin.analysis import analyze_rows
from ens_plugin.analysis.judged import JudgedMetric, metric_difference
from ens_plugin.analysis.metrics import resolve_metric
from ens_plugin.errors import EnsPluginError
from ens_plugin.registry.evidence import LEVEL

Array = NDArray[Any]

METRICS = ("roc_auc", "average_precision", "neg_log_loss", "f1")
TREES, FRESH_ROWS = 60, 5000
# Forests of each kind whose mean metric on fresh rows is the truth.
REFITS = 3
OPTIONS = {"min_samples_leaf": 10, "max_features": 0.5}
CANDIDATES = {"another seed": {}, "fewer splits": {"max_depth": 2}}
FLIPPED = 0.03
NOMINAL = 100.0 * (1.0 - LEVEL) / 2.0
TRIED = {
    "average_precision": "nothing. With so few pairs, each that is held counts for several percent.",
    "neg_log_loss": "nothing. A report is refused where an out-of-bag probability is 0, so accepted reports come from "
    "training sets whose log loss is below the mean.",
}


class Problem(NamedTuple):
    """How rows are drawn: their number, and the offset and the slope of the log odds."""

    n_rows: int
    offset: float
    slope: float


PROBLEMS = {"even": Problem(400, 0.0, 2.0), "12 % rare": Problem(400, 6.0, 3.0), "6 % rare": Problem(800, 9.0, 3.5)}


class Outcome(NamedTuple):
    """One comparison of a candidate with a baseline, positive where the candidate is worse.

    Attributes
    ----------
    estimate, lower, upper : float
    of_settings : float
        True difference of the mean metrics of forests with these settings, on the same training rows.
    of_forests : float
        True difference of these two forests.
    """

    estimate: float
    lower: float
    upper: float
    of_settings: float
    of_forests: float

    def holds(self, truth: float) -> bool:
        """Return whether the interval holds a difference."""
        return self.lower <= truth <= self.upper


def drawn(problem: Problem, rng: np.random.Generator, n_rows: int) -> tuple[Array, Array]:
    """Draw rows, of which some labels are flipped, so that few probabilities are 0."""
    features, target = logistic(rng, n_rows, problem.offset, problem.slope)
    return features, np.where(rng.random(n_rows) < FLIPPED, 1 - target, target)


def outcomes(
    problem: Problem, metrics: tuple[str, ...], seed: list[int], n_fresh: int
) -> dict[tuple[str, str], Outcome | None]:
    """Compare two candidates with one baseline by each metric; None where a report is refused."""
    rng = np.random.default_rng(seed)
    features, target = drawn(problem, rng, problem.n_rows)
    fresh = drawn(problem, rng, n_fresh)

    def grown(settings: dict[str, Any]) -> list[RandomForestClassifier]:
        seeds = rng.integers(2**31, size=REFITS).tolist()
        return [
            RandomForestClassifier(TREES, random_state=each, **OPTIONS, **settings).fit(features, target)
            for each in seeds
        ]

    baseline = grown({})
    others = {name: grown(settings) for name, settings in CANDIDATES.items()}
    outputs = {
        name: [forest.predict_proba(fresh[0]) for forest in forests]
        for name, forests in {"": baseline, **others}.items()
    }
    found: dict[tuple[str, str], Outcome | None] = {}
    for metric in metrics:
        resolved = resolve_metric(metric, find_adapter(baseline[0]))
        assert resolved is not None
        truth = {name: np.array([resolved.value(fresh[1], proba) for proba in each]) for name, each in outputs.items()}
        first = _judged(baseline[0], features, target, metric)
        for name, forests in others.items():
            other = None if first is None else _judged(forests[0], features, target, metric)
            if first is None or other is None:
                found[name, metric] = None
                continue
            # The true difference of equal settings is 0.
            settings = 0.0 if not CANDIDATES[name] else float(truth[""].mean() - truth[name].mean())
            found[name, metric] = Outcome(
                *metric_difference(other, first, LEVEL), settings, float(truth[""][0] - truth[name][0])
            )
    return found


def _judged(forest: Any, features: Array, target: Array, metric: str) -> JudgedMetric | None:
    try:
        judged = analyze_rows(forest, features, target, data="oob", metric=metric)[1]
    except EnsPluginError:
        return None
    assert isinstance(judged, JudgedMetric)
    return judged


def run(options: Options) -> dict[tuple[str, str, str], list[Outcome | None]]:
    """Repeat every problem."""
    cells: dict[tuple[str, str, str], list[Outcome | None]] = {}
    metrics, n_fresh = (METRICS[:1], 300) if options.smoke else (METRICS, FRESH_ROWS)
    for place, name in enumerate(list(PROBLEMS)[:1] if options.smoke else PROBLEMS):
        for repetition in range(options.repetitions):
            found = outcomes(PROBLEMS[name], metrics, [options.seed, place, repetition], n_fresh)
            for (candidate, metric), outcome in found.items():
                cells.setdefault((name, candidate, metric), []).append(outcome)
    return cells


def share(found: list[Outcome], meets: Callable[[Outcome], bool]) -> float:
    """Return the percentage of outcomes that meet a condition; NaN without any."""
    return 100.0 * float(np.mean([meets(each) for each in found])) if found else np.nan


def claims_of(cells: dict[tuple[str, str, str], list[Outcome | None]]) -> list[Claim]:
    """List the targets by metric, each over all problems."""
    claims = []
    for metric in dict.fromkeys(metric for _, _, metric in cells):
        of_metric = {cell: [each for each in found if each] for cell, found in cells.items() if cell[2] == metric}
        equal = [each for cell, found in of_metric.items() if cell[1] == "another seed" for each in found]
        worse = [each for cell, found in of_metric.items() if cell[1] != "another seed" for each in found]
        # A gate with exactly the nominal rate exceeds this in 1 of 100 runs.
        most = 100.0 * float(binom.ppf(0.99, max(len(equal), 1), NOMINAL / 100.0)) / max(len(equal), 1)
        claims += [
            Claim(f"{metric}: another seed is rejected by no_worse (%)", share(equal, lambda each: each.lower > 0.0),
                  high=most, digits=1),
            Claim(f"{metric}: another seed, interval holds the difference of these forests (%)",
                  share(equal, lambda each: each.holds(each.of_forests)), low=90.0, digits=1),
            Claim(f"{metric}: fewer splits, interval holds the difference of the settings (%)",
                  share(worse, lambda each: each.holds(each.of_settings)), low=90.0, high=99.0, digits=1,
                  tried=TRIED.get(metric, "")),
            Claim(f"{metric}: fewer splits are rejected by no_worse (%)", share(worse, lambda each: each.lower > 0.0),
                  digits=1),
        ]  # fmt: skip
    return claims


def row_of(cell: tuple[str, str, str], found: list[Outcome | None]) -> list[str]:
    """Return one row of the table of all cells."""
    kept = [each for each in found if each]
    if not kept:
        return [*cell, f"{len(found)}", *["-"] * 6]
    errors = np.array([each.estimate - each.of_settings for each in kept])
    widths = np.array([each.upper - each.lower for each in kept]) / 2.0
    return [
        *cell,
        f"{len(found) - len(kept)}",
        f"{np.mean([each.of_settings for each in kept]):.4f}",
        f"{errors.mean():.4f}",
        f"{errors.std():.4f}",
        f"{widths.mean() / 1.96:.4f}",
        f"{share(kept, lambda each: each.holds(each.of_settings)):.0f}",
        f"{share(kept, lambda each: each.lower > 0.0):.0f}",
    ]


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 100, arguments, smoke=2)
    cells = run(options)
    header = ["problem", "candidate", "metric", "refused", "true difference", "bias", "sd of the estimate",
              "mean half-width / 1.96", "held (%)", "rejected (%)"]  # fmt: skip
    return conclude(
        __name__, options, claims_of(cells), [table(header, [row_of(cell, found) for cell, found in cells.items()])]
    )
