"""How far the true sizes by metrics move between two truths of the same training rows, rows and trees drawn anew."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import ens_plugin
from benchmarks.metrics.by_name import LEAF, POOL, ROWS, given_for, known_root_mean_square, metrics_of
from benchmarks.metrics.fresh_truth import FRESH_ROWS, OF_VALUES, PARTS, FreshTruth
from benchmarks.metrics.problems import PROBLEMS
from benchmarks.metrics.truth import Rows, true_curve
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.results import Claim, conclude
from ens_plugin.adapters.registry import find_adapter
from ens_plugin.analysis.metrics import ResolvedMetric, resolve_metric

# Labels of fresh rows as they were drawn; and as benchmarks.metrics.by_name has them.
KINDS = ("drawn labels", "expected")


def moves(name: str, seed: list[int], *, pool: int, n_fresh: int) -> dict[tuple[str, str], float]:
    """Return binary logarithms of the quotient of two true sizes, by metric and kind of truth."""
    rng = np.random.default_rng(seed)
    problem = PROBLEMS[name]
    features, target = problem.sample(rng, ROWS)
    kind = RandomForestRegressor if problem.chance is None else RandomForestClassifier
    sizes: list[dict[tuple[str, str], float]] = []
    for _ in range(2):
        forest = kind(pool, min_samples_leaf=LEAF, max_features=0.5, random_state=int(rng.integers(2**31)))
        forest.fit(features, target)
        fresh = FreshTruth.drawn(problem, forest, rng, pool, n_fresh)
        sizes.append({})
        for metric in _resolved(name, forest):
            drawn = true_curve(metric, Rows.drawn(fresh.target), fresh.classes, fresh.means, pool)
            sizes[-1][metric.name, KINDS[0]] = fresh.size_of(metric, drawn)
            sizes[-1][metric.name, KINDS[1]] = fresh.size_of(metric, fresh.curve(metric))
    return {cell: math.log2(sizes[1][cell] / size) for cell, size in sizes[0].items()}


def _resolved(name: str, forest: Any) -> list[ResolvedMetric]:
    """Return the metrics of a problem, for an ensemble of the forest's kind."""
    is_value = PROBLEMS[name].chance is None
    ensemble = ens_plugin.CustomEnsemble(
        np.zeros((2, 3)) if is_value else np.full((2, 3, 2), 0.5), None,
        aggregation="mean" if is_value else "mean_proba", classes=None if is_value else forest.classes_,
    )  # fmt: skip
    adapter = find_adapter(ensemble)
    found = [resolve_metric(given_for(metric), adapter) for metric in metrics_of(name)]
    return [metric for metric in found if metric is not None]


def run(options: Options) -> dict[tuple[str, str, str], list[float]]:
    """Repeat every problem."""
    cells: dict[tuple[str, str, str], list[float]] = {}
    pool, n_fresh = (120, 300) if options.smoke else (POOL, FRESH_ROWS)
    for place, name in enumerate(list(PROBLEMS)[-2:-1] if options.smoke else PROBLEMS):
        for repetition in range(options.repetitions):
            found = moves(name, [options.seed, 1, place, repetition], pool=pool, n_fresh=n_fresh)
            for (metric, kind), move in found.items():
                cells.setdefault((name, metric, kind), []).append(move)
    return cells


def claims_of(cells: dict[tuple[str, str, str], list[float]]) -> list[Claim]:
    """Return the root mean squares of each metric over the problems, where both sizes are known."""
    claims = []
    for metric in dict.fromkeys(metric for _, metric, _ in cells):
        for kind in KINDS[:1] if metric in OF_VALUES else KINDS:
            found = [move for cell, moved in cells.items() if cell[1:] == (metric, kind) for move in moved]
            if np.isfinite(found).any():
                measure = f"{metric}: two true sizes apart, {kind}, in doublings (root mean square)"
                claims.append(Claim(measure, known_root_mean_square(found), None))
    return claims


def rows_of(cells: dict[tuple[str, str, str], list[float]]) -> list[list[str]]:
    """Return the root mean squares of each problem and metric."""
    found = []
    for name, metric in dict.fromkeys(cell[:2] for cell in cells):
        known = [cells[name, metric, kind] for kind in KINDS]
        found.append(
            [name, metric, *(f"{known_root_mean_square(v):.2f}" if np.isfinite(v).any() else "-" for v in known)]
        )
    return found


def main(arguments: list[str] | None = None) -> str:
    """Run, write the section unless this is a smoke run, and return it."""
    options = read_options("benchmarks.metrics.truth_noise", __doc__, 4, arguments, smoke=2)
    cells = run(options)
    return conclude(
        "benchmarks.metrics.truth_noise",
        options,
        [
            "## How well the true size by a metric is known",
            __doc__ or "",
            f"The problems, forests and metrics of benchmarks.metrics.by_name. Drawn labels: {FRESH_ROWS} fresh rows "
            "with one drawn label each, and the mean metric of draws of trees. Expected: as by_name has it, every row "
            "with either label by its known probability, and metrics of labels of the expected confusion matrix on "
            f"{PARTS * FRESH_ROWS} fresh rows. Values are drawn in both. An error of a recommended size holds the "
            "noise of one truth, which is 1/sqrt(2) of the distance between two.",
        ],
        claims_of(cells),
        [table(["problem", "metric", *KINDS], rows_of(cells))],
    )


if __name__ == "__main__":
    print(main())
