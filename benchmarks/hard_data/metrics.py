"""A metric of the user's own: how often its intervals hold, and how often it is refused.

Forests on 300 rows; truth from 600 further members on 4000 fresh rows. The log loss is refused where an out-of-bag
probability of the forest is 0, or where a line and a parabola in 1/B differ so much that nothing is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import roc_auc_score

import ens_plugin
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.problems import friedman
from benchmarks.shared.results import Claim, conclude, percent_se
from ens_plugin.errors import EnsPluginError

Array = NDArray[Any]

ROWS = 300
FRESH_ROWS = 4000
MEMBERS = (16, 30, 100, 300)
FURTHER = 600
SMALLEST_PROBABILITY = 0.01


def log_loss(y: Array, p: Array) -> float:
    """Return the log loss as scikit-learn does, clipped where a float ends."""
    return float(-np.log(np.clip(p[np.arange(y.size), y], np.finfo(float).eps, 1.0)).mean())


def clipped_log_loss(y: Array, p: Array) -> float:
    """Return the log loss of probabilities of at least 1 %."""
    return float(-np.log(np.clip(p[np.arange(y.size), y], SMALLEST_PROBABILITY, 1.0)).mean())


def brier(y: Array, p: Array) -> float:
    """Return the Brier score, summed over labels."""
    return float(((p - np.eye(p.shape[1])[y]) ** 2).sum(axis=1).mean())


def area_lost(y: Array, p: Array) -> float:
    """Return 1 less the area under the ROC curve."""
    return 1.0 - float(roc_auc_score(y, p[:, 1]))


def absolute_error(y: Array, mean: Array) -> float:
    """Return the mean absolute error."""
    return float(np.abs(y - mean).mean())


class Problem(NamedTuple):
    """What is trained and by which metrics it is judged; a depth of None is full."""

    kind: str
    depth: int | None
    metrics: tuple[Callable[[Array, Array], float], ...]


PROBLEMS = {
    "noisy logistic, depth 5": Problem("logistic", 5, (log_loss, brier, area_lost)),
    "noisy logistic, full depth": Problem("logistic", None, (log_loss, clipped_log_loss, area_lost)),
    "three labels, depth 5": Problem("three", 5, (log_loss, brier)),
    "Friedman, full depth": Problem("friedman", None, (absolute_error,)),
}


class Outcome(NamedTuple):
    """One report against the truth; NaN where it was refused."""

    refused: bool
    current: float
    infinite: float
    bias: float


def draw(kind: str, rng: np.random.Generator, n_rows: int) -> tuple[Array, Array]:
    """Draw features and target."""
    if kind == "friedman":
        features = rng.random((n_rows, 8))
        return features, friedman(features) + 1.5 * rng.normal(size=n_rows)
    if kind == "three":
        target = rng.integers(0, 3, n_rows)
        return rng.normal(size=(n_rows, 6)) + 1.3 * np.eye(3, 6)[target], target
    features = rng.normal(size=(n_rows, 8))
    score = 1.2 * features[:, 0] + features[:, 1] * features[:, 2] + 0.5 * features[:, 3]
    return features, (rng.random(n_rows) < 1.0 / (1.0 + np.exp(-score))).astype(np.int64)


def outcomes(
    problem: Problem, seed: list[int], counts: tuple[int, ...], n_further: int, fresh_rows: int
) -> dict[tuple[str, int], Outcome]:
    """Train one forest, analyse its first members and compare with further members on fresh rows."""
    rng = np.random.default_rng(seed)
    features, target = draw(problem.kind, rng, ROWS)
    fresh, fresh_target = draw(problem.kind, rng, fresh_rows)
    kind = RandomForestRegressor if problem.kind == "friedman" else RandomForestClassifier
    n_members = max(counts) + n_further
    forest = kind(n_members, max_depth=problem.depth, random_state=int(rng.integers(2**31)), n_jobs=1)
    forest.fit(features, target)
    outputs, others = _outputs(forest, features), _outputs(forest, fresh)
    in_bag = np.zeros((n_members, ROWS), dtype=bool)
    for member, rows in enumerate(forest.estimators_samples_):
        in_bag[member, rows] = True
    found = {}
    for members in counts:
        ensemble = ens_plugin.CustomEnsemble(
            outputs[:members],
            in_bag[:members],
            aggregation="mean" if problem.kind == "friedman" else "mean_proba",
            classes=None if problem.kind == "friedman" else forest.classes_,
        )
        drawn = [others[rng.choice(n_members, members, replace=False)].mean(axis=0) for _ in range(20)]
        limit = others[max(counts) :].mean(axis=0)
        for metric in problem.metrics:
            truth = float(np.mean([metric(fresh_target, mean) for mean in drawn]))
            found[metric.__name__, members] = _outcome(ensemble, target, metric, truth, metric(fresh_target, limit))
    return found


def _outputs(forest: Any, features: Array) -> Array:
    values = np.stack([tree.tree_.predict(features.astype(np.float32)).squeeze() for tree in forest.estimators_])
    return values if values.ndim == 2 else values / values.sum(axis=2, keepdims=True)


def _outcome(ensemble: Any, target: Array, metric: Any, truth: float, limit: float) -> Outcome:
    try:
        report = ens_plugin.analyze(ensemble, None, target, metric=metric)
    except EnsPluginError:
        return Outcome(True, math.nan, math.nan, math.nan)
    low, high = report.error_interval
    lowest, highest = report.error_curve.asymptote_interval
    return Outcome(False, low <= truth <= high, lowest <= limit <= highest, report.error_curve.asymptote - limit)


def run(options: Options) -> dict[str, list[Outcome]]:
    """Repeat every problem."""
    cells: dict[str, list[Outcome]] = {}
    plan = ((16,), 20, 200) if options.smoke else (MEMBERS, FURTHER, FRESH_ROWS)
    for place, (name, problem) in enumerate(list(PROBLEMS.items())[: 1 if options.smoke else None]):
        for repetition in range(options.repetitions):
            found = outcomes(problem, [options.seed, place, repetition], *plan)
            for (metric, members), outcome in found.items():
                cells.setdefault(f"{name}: {metric}, {members} members", []).append(outcome)
    return cells


def claims_of(cells: dict[str, list[Outcome]]) -> list[Claim]:
    """List the targets: 90 % coverage over the accepted forests of each number of members, and of the worst cell."""
    claims = []
    for field, what in (("current", "current size"), ("infinite", "infinity")):
        shares = {
            name: (100.0 * float(np.mean([getattr(each, field) for each in kept])), len(kept))
            for name, found in cells.items()
            if (kept := [each for each in found if not each.refused])
        }
        mean = float(np.mean([share for share, _ in shares.values()]))
        claims.append(Claim(f"interval holds the metric at {what}, mean of the cells (%)", mean, None, 90, digits=1))
        worst = min(shares, key=lambda name: shares[name][0])
        share, count = shares[worst]
        spread = percent_se(share, count)
        claims.append(
            Claim(f"interval holds the metric at {what}, worst cell ({worst}) (%)", share, spread, 90, digits=1)
        )
    return claims


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 40, arguments, smoke=2)
    cells = run(options)
    rows = []
    for name, found in cells.items():
        kept = [each for each in found if not each.refused]
        shown = [
            f"{np.mean([getattr(each, field) for each in kept]) * factor:.{digits}f}" if kept else "-"
            for field, factor, digits in (("current", 100, 0), ("infinite", 100, 0), ("bias", 1, 3))
        ]
        rows.append([name, f"{100 * np.mean([each.refused for each in found]):.0f}", *shown])
    header = ["metric", "refused (%)", "held, current size (%)", "held, infinity (%)", "bias at infinity"]
    return conclude(__name__, options, claims_of(cells), [table(header, rows)])
