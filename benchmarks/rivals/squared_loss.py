"""The error of the infinite ensemble of values from few trees, by this package and by sklearn-ensemble-cv (ECV)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import BaggingRegressor
from sklearn.tree import DecisionTreeRegressor

import ens_plugin
from benchmarks.shared.keel import keel_rows, missing_keel
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.problems import friedman1
from benchmarks.shared.results import Claim, conclude, root_mean_square

Array = NDArray[Any]

# None of them is used elsewhere here; the target is the first column.
DATA = ("banana", "magic", "phoneme", "satimage", "spambase", "texture")
ROWS, TREES, ALL_TREES = 500, (25, 100), 1000
EXCESS = 0.01


class Answer(NamedTuple):
    """The error of the infinite ensemble, the size whose error is 1 % above it, and the processor time."""

    limit: float
    size: float
    seconds: float


def rows_of(problem: str, seed: int, n_rows: int) -> tuple[Array, Array]:
    """Draw rows of a problem and its target."""
    rng = np.random.default_rng(seed)
    if problem == "friedman1":
        features, target = friedman1(n_rows, rng)
        return features, target
    columns, labels = keel_rows(problem)
    columns = np.column_stack([columns, labels])
    drawn = rng.permutation(len(columns))[:n_rows]
    return columns[drawn, 1:], columns[drawn, 0]


def truth(features: Array, target: Array, n_trees: int, seed: int) -> tuple[float, float]:
    """Return the error of infinitely many trees on the same rows, out of bag, and the size with 1 % more.

    The mean of n trees has the variance of one, divided by n, above the mean of infinitely many.
    """
    forest = BaggingRegressor(n_estimators=n_trees, random_state=seed + 10_000).fit(features, target)
    out = ~ens_plugin.in_bag(forest, features, target)
    values = np.array([tree.predict(features) for tree in forest.estimators_])
    trials = out.sum(axis=0)
    mean = np.where(out, values, 0.0).sum(axis=0) / trials
    variance = np.where(out, (values - mean) ** 2, 0.0).sum(axis=0) / (trials - 1)
    limit = float(np.mean((mean - target) ** 2 - variance / trials))
    return limit, float(variance.mean()) / (EXCESS * limit)


def ours(features: Array, target: Array, n_trees: int, seed: int) -> Answer:
    """Analyze bagged trees."""
    forest = BaggingRegressor(n_estimators=n_trees, random_state=seed).fit(features, target)
    start = time.process_time()
    report = ens_plugin.analyze(forest, features, target, n_jobs=1)
    spent = time.process_time() - start
    curve, size = report.error_curve, report.recommendation.size
    return Answer(curve.asymptote, float("nan") if size is None else float(size), spent)


def ecv(features: Array, target: Array, n_trees: int, seed: int) -> Answer:
    """Let sklearn-ensemble-cv extrapolate the error of the same trees."""
    from sklearn_ensemble_cv import Ensemble

    forest = Ensemble(estimator=DecisionTreeRegressor(), n_estimators=n_trees, random_state=seed).fit(features, target)
    start = time.process_time()
    one, limit = forest.compute_ecv_estimate(features, target, np.array([1.0, np.inf]), n_jobs=1)
    spent = time.process_time() - start
    return Answer(float(limit), float((one - limit) / (EXCESS * limit)), spent)


def distance(sizes: Array, needed: Array) -> str:
    """Return the root mean square of log2 of the sizes over those needed, and how many of them were stated."""
    stated = np.isfinite(sizes)
    if not stated.any():
        return "-"
    return f"{root_mean_square(np.log2(sizes[stated] / needed[stated])):.2f} ({stated.sum()} of {sizes.size})"


def main(arguments: list[str] | None = None) -> str:
    """Run, write the section unless this is a smoke run, and return it."""
    options = read_options("benchmarks.rivals.squared_loss", __doc__, 10, arguments)
    tools: dict[str, Callable[..., Answer]] = {"ens_plugin": ours}
    left_out = []
    if find_spec("sklearn_ensemble_cv") is None:
        left_out.append("- Left out: sklearn-ensemble-cv: pip install sklearn-ensemble-cv.")
    else:
        tools["sklearn-ensemble-cv"] = ecv
    without_data = missing_keel()
    problems = ("friedman1",) if options.smoke or without_data else DATA
    if without_data:
        left_out.append(f"- Left out: the real data: {without_data}.")
    n_rows, trees, all_trees = (60, (10,), 60) if options.smoke else (ROWS, TREES, ALL_TREES)
    rows, limits = cells(options, tools, problems, n_rows, trees, all_trees)
    return conclude(
        "benchmarks.rivals.squared_loss",
        options,
        [
            "## The error of infinitely many trees, beside ECV",
            __doc__ or "",
            f"{n_rows} rows of each set, drawn anew for each seed; the target is the first column. Both judge the same "
            f"bagged trees; the truth is that of {all_trees} other trees out of bag on the same rows. The sizes are "
            "those whose error is 1 % above that of infinitely many trees.",
            "\n".join(left_out),
        ],
        claims(limits, trees),
        [
            table(
                ["data", "trees", "tool", "error: rms (%)", "mean (%)", "size: rms of log2 (stated)", "time (s)"], rows
            )
        ],
    )


def cells(
    options: Options,
    tools: dict[str, Callable[..., Answer]],
    problems: tuple[str, ...],
    n_rows: int,
    trees: tuple[int, ...],
    all_trees: int,
) -> tuple[list[list[str]], dict[tuple[str, int], list[float]]]:
    """Return a line for each set, number of trees and tool, and the relative errors by tool and trees."""
    lines, limits = [], dict[tuple[str, int], list[float]]()
    for problem in problems:
        drawn = [rows_of(problem, options.seed + seed, n_rows) for seed in range(options.repetitions)]
        true = np.array([truth(*rows, all_trees, options.seed + seed) for seed, rows in enumerate(drawn)])
        for n_trees in trees:
            for name, tool in tools.items():
                found = np.array([tool(*rows, n_trees, options.seed + seed) for seed, rows in enumerate(drawn)])
                relative = 100.0 * (found[:, 0] / true[:, 0] - 1.0)
                limits.setdefault((name, n_trees), []).extend(relative)
                lines.append([
                    problem, str(n_trees), name, f"{root_mean_square(relative):.1f}", f"{relative.mean():+.1f}",
                    distance(found[:, 1], true[:, 1]), f"{np.median(found[:, 2]):.3f}",
                ])  # fmt: skip
    return lines, limits


def claims(limits: dict[tuple[str, int], list[float]], trees: tuple[int, ...]) -> list[Claim]:
    """Return the error over all sets of each tool, ours to be the lower one."""
    found = []
    for n_trees in trees:
        own = root_mean_square(np.array(limits["ens_plugin", n_trees]))
        theirs = limits.get(("sklearn-ensemble-cv", n_trees))
        high = math.inf if theirs is None else root_mean_square(np.array(theirs))
        found.append(Claim(f"ens_plugin, from {n_trees} trees: error at infinity, all sets, rms (%)", own, high=high))
    return found


if __name__ == "__main__":
    print(main())
