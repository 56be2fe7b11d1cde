"""Twenty labels and more: the error at and beyond the size of a forest, against that of its other trees.

5 problems, 3 forests each on 1500 rows of their own; the first trees of 2000 are analysed. Bias: estimate less the
error of subsets of the other trees, on the same rows out of bag, so that only the luck of the analysed trees is in
it; in points. None of the problems was used for the choice of the method.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from benchmarks.shared.markdown import table
from benchmarks.shared.options import read_options
from benchmarks.shared.results import Claim, conclude

Array = NDArray[Any]
Sample = tuple[Array, Array]

ROWS = 1500
POOL = 2000
TREES = (60, 100)
SIZES = (30, 60, 100)
FORESTS_PER_SET = 3
TOLERANCE = 0.3
SMOKE = (200, 330, (30,))


class Problem(NamedTuple):
    """A name, and a function that draws rows with labels from a seed."""

    name: str
    draw: Callable[[int, int], Sample]


def clusters(n_labels: int, n_features: int, spread: float, n_clusters: int) -> Problem:
    """Return normal clouds of unequal shares, one for each label, whose centres lie in clusters."""

    def draw(n_rows: int, seed: int) -> Sample:
        rng = np.random.default_rng([n_labels, seed])
        centres = 2.0 * rng.normal(size=(n_clusters, n_features))[np.arange(n_labels) % n_clusters]
        centres += spread * rng.normal(size=(n_labels, n_features))
        target = rng.choice(n_labels, n_rows, p=rng.dirichlet(np.full(n_labels, 3.0)))
        return centres[target] + rng.normal(size=(n_rows, n_features)), target

    return Problem(f"{n_labels} labels in {n_clusters} clusters", draw)


def corners(n_labels: int, n_informative: int, separation: float, noise: float) -> Problem:
    """Return scikit-learn's clouds around the corners of a cube, with a share of random labels."""

    def draw(n_rows: int, seed: int) -> Sample:
        X, y = make_classification(
            n_rows,
            n_features=n_informative + 6,
            n_informative=n_informative,
            n_redundant=2,
            n_classes=n_labels,
            n_clusters_per_class=1,
            class_sep=separation,
            flip_y=noise,
            random_state=100 + seed,
        )
        return X, y

    return Problem(f"{n_labels} labels at corners", draw)


PROBLEMS = (
    corners(20, 12, 1.5, 0.0),
    corners(24, 10, 1.5, 0.02),
    clusters(26, 5, 1.3, 7),
    clusters(30, 4, 1.5, 8),
    clusters(35, 6, 1.5, 5),
)


def biases(problem: Problem, seed: int, n_rows: int, pool: int, trees: tuple[int, ...]) -> NDArray[np.float64]:
    """Return estimate less truth in points, shape (n_trees, n_sizes + 1), infinity last.

    The truth is the error of the same forest's trees beyond the most that are analysed, on the same rows out of bag.
    """
    features, target = problem.draw(n_rows, seed)
    forest = RandomForestClassifier(pool, random_state=seed).fit(features, target)
    votes = np.stack([tree.predict(features).astype(np.int16) for tree in forest.estimators_])[max(trees) :]
    in_bag = np.stack([np.bincount(rows, minlength=n_rows) > 0 for rows in forest.estimators_samples_])[max(trees) :]
    truth = [_error(votes, ~in_bag, target, size) for size in (*SIZES, math.inf)]
    found = []
    for number in trees:
        part = ens_plugin.truncate(forest, number)
        curve = ens_plugin.analyze(part, features, target).error_curve
        found.append([*(curve.at(size) for size in SIZES), curve.asymptote])
    return 100.0 * (np.array(found) - truth)


def _error(votes: Array, out_of_bag: Array, target: Array, size: float) -> float:
    """Return the mean error of disjoint subsets of `size` trees that a row has out of bag; of all if infinite."""
    place = np.cumsum(out_of_bag, axis=0) - 1
    n_subsets = out_of_bag.sum(axis=0) // size if math.isfinite(size) else np.ones(target.size)
    wrong = np.zeros(target.size)
    for subset in range(int(n_subsets.max())):
        chosen = out_of_bag & ((place // size == subset) if math.isfinite(size) else True)
        counts = np.stack([((votes == label) & chosen).sum(axis=0) for label in range(int(votes.max()) + 1)])
        wrong += (subset < n_subsets) * (counts.argmax(axis=0) != target)
    return float(np.mean(wrong[n_subsets > 0] / n_subsets[n_subsets > 0]))


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, FORESTS_PER_SET, arguments, smoke=1)
    problems = PROBLEMS[:1] if options.smoke else PROBLEMS
    n_rows, pool, trees = SMOKE if options.smoke else (ROWS, POOL, TREES)
    flat = Parallel(n_jobs=options.n_jobs)(
        delayed(biases)(problem, options.seed + number, n_rows, pool, trees)
        for problem in problems
        for number in range(options.repetitions)
    )
    found = np.array(flat).reshape(len(problems), options.repetitions, len(trees), -1)
    return conclude(__name__, options, _claims(found, trees), [_detail(problems, found, trees)])


def _claims(found: NDArray[np.float64], trees: tuple[int, ...]) -> list[Claim]:
    flat = found.reshape(-1, *found.shape[2:])
    error = flat.std(axis=0, ddof=1) / math.sqrt(len(flat)) if len(flat) > 1 else np.zeros(flat.shape[1:])
    return [
        Claim(f"bias at {size}, {number} trees (points)", value, spread, -TOLERANCE, TOLERANCE)
        for number, values, spreads in zip(trees, flat.mean(axis=0), error, strict=True)
        for size, value, spread in zip((*SIZES, "∞"), values, spreads, strict=True)
    ]


def _detail(problems: tuple[Problem, ...], found: NDArray[np.float64], trees: tuple[int, ...]) -> str:
    rows = [
        [problem.name, str(number), *[f"{value:+.2f}" for value in values]]
        for problem, each in zip(problems, found.mean(axis=1), strict=True)
        for number, values in zip(trees, each, strict=True)
    ]
    return table(["problem", "trees", *[f"bias at {size}" for size in (*SIZES, "∞")]], rows)
