"""The size by agreement of forests from labelled rows and from rows without labels, against larger forests.

The size needed is that of 1000 other trees on the same training rows, for all rows without labels (10000, or as many
as a set has). Trees are fully grown; agreement of 99 %. An interval is for other members too. A size is stated where
its interval ends at most at four times its beginning.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from benchmarks.rivals.truth import size_of_agreement
from benchmarks.shared.keel import keel_rows, missing_keel
from benchmarks.shared.markdown import table
from benchmarks.shared.options import read_options
from benchmarks.shared.problems import FORMULAS
from benchmarks.shared.results import Claim, conclude, root_mean_square

Array = NDArray[Any]

OF_FORMULAS = ("twonorm", "ringnorm", "noisy logistic", "hard/easy mixture")
REAL = ("banana", "magic", "phoneme", "spambase")
LABELLED, TREES, UNLABELLED, ALL_TREES = (300, 1000), (25, 50, 100), (1000, 10_000), 1000
FROM_LABELS = "labelled rows, out of bag"
TRIED = "the distribution of votes fitted to the rows, as from labelled rows."


class Answer(NamedTuple):
    """The size stated, NaN where there is none, the ends of its interval, and the size that is needed."""

    size: float
    low: int
    high: float
    needed: float


Key = tuple[str, int]  # where the agreement is from, and the number of trees


def rows_of(problem: str, n_rows: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw so many rows of a problem, or all rows where there are fewer."""
    if problem in FORMULAS:
        return FORMULAS[problem].sample(n_rows, rng)
    features, labels = keel_rows(problem)
    drawn = rng.permutation(labels.size)[:n_rows]
    return features[drawn], labels[drawn]


def answers(
    problem: str, n_labelled: int, seed: int, trees: Sequence[int], unlabelled: Sequence[int], all_trees: int
) -> dict[Key, Answer]:
    """Return what forests on one sample of labelled rows tell, from each kind of rows and with each number of trees."""
    features, labels = rows_of(problem, n_labelled + max(unlabelled), np.random.default_rng(seed))
    X, y, others = features[:n_labelled], labels[:n_labelled], features[n_labelled:].astype(np.float32)
    large = RandomForestClassifier(all_trees, random_state=seed + 10_000).fit(X, y)
    outputs = np.array([tree.predict_proba(others) for tree in large.estimators_], dtype=np.float32)
    needed = size_of_agreement(outputs, np.random.default_rng(seed))
    found = {}
    for n_trees in trees:
        forest = RandomForestClassifier(n_trees, random_state=seed).fit(X, y)
        sizes = {FROM_LABELS: ens_plugin.analyze(forest, X, y, criterion="agreement").recommendation}
        for n_rows in unlabelled:
            sizes[f"{n_rows} rows without labels"] = ens_plugin.agreement(forest, others[:n_rows]).recommendation
        for source, each in sizes.items():
            low, high = each.interval
            size = math.nan if each.size is None else float(each.size)
            found[source, n_trees] = Answer(size, low, math.inf if high is None else float(high), needed)
    return found


def cells(found: Sequence[Answer]) -> list[str]:
    """Return how many sizes are stated, how far they are off, how wide the intervals are and how many hold the size."""
    off = distances(found)
    wide = np.median([each.high / each.low for each in found])
    return [
        f"{np.median([each.needed for each in found]):.0f}",
        f"{100 * off.size / len(found):.0f}",
        f"{np.mean(off):+.2f}" if off.size else "-",
        f"{root_mean_square(off):.2f}" if off.size else "-",
        f"{wide:.2f}" if math.isfinite(wide) else "-",
        f"{100 * np.mean([each.low <= each.needed <= each.high for each in found]):.0f}",
    ]


def distances(found: Sequence[Answer]) -> Array:
    """Return the logarithms to base 2 of the stated sizes over those needed."""
    ratios = np.array([each.size / each.needed for each in found])
    return np.asarray(np.log2(ratios[np.isfinite(ratios)]))


def claims(found: dict[Key, list[Answer]], trees: Sequence[int], most: int) -> list[Claim]:
    """Return the targets for the most rows without labels; beside labelled rows where these state a size at all."""
    source = f"{most} rows without labels"
    every = [each for n_trees in trees for each in found[source, n_trees]]
    wide = float(np.median([each.high / each.low for each in every]))
    held = 100.0 * float(np.mean([each.low <= each.needed <= each.high for each in every]))
    few, many = distances(found[source, trees[0]]), distances(found[FROM_LABELS, trees[-1]])
    measured = [
        Claim(f"{source}: rms of log2 of the size", root_mean_square(distances(every)), high=0.3, tried=TRIED),
        Claim(f"{source}: upper end of the interval over the lower one, median", wide, high=1.35, tried=TRIED),
        Claim(f"{source}: intervals that hold the size needed (%)", held, None, 90, 99, 1, TRIED),
    ]
    if not many.size:
        return measured
    name = f"{trees[0]} trees, {source}: rms of log2, at most that of {trees[-1]} trees and labelled rows"
    return [*measured, Claim(name, root_mean_square(few), high=root_mean_square(many), tried=TRIED)]


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 20, arguments)
    without_data = missing_keel()
    problems = OF_FORMULAS[:1] if options.smoke else (*OF_FORMULAS, *(() if without_data else REAL))
    labelled, trees, unlabelled, all_trees = (
        ((200,), (25, 50), (400, 2000), 100) if options.smoke else (LABELLED, TREES, UNLABELLED, ALL_TREES)
    )
    plans = [
        (problem, n_rows, seed)
        for problem in problems
        for n_rows in labelled
        for seed in range(options.seed, options.seed + options.repetitions)
    ]
    done = Parallel(n_jobs=options.n_jobs)(delayed(answers)(*plan, trees, unlabelled, all_trees) for plan in plans)
    of_all: dict[Key, list[Answer]] = {}
    by_row: dict[tuple[str, int, Key], list[Answer]] = {}
    for (problem, n_rows, _), found in zip(plans, done, strict=True):
        for key, answer in found.items():
            of_all.setdefault(key, []).append(answer)
            by_row.setdefault((problem, n_rows, key), []).append(answer)
    return conclude(
        __name__,
        options,
        claims(of_all, trees, max(unlabelled)),
        [
            table(
                [
                    "data", "labelled", "agreement from", "trees", "needed", "stated (%)", "mean log2", "rms log2",
                    "interval", "held (%)",
                ],
                [
                    [problem, str(n_rows), source, str(n_trees), *cells(found)]
                    for (problem, n_rows, (source, n_trees)), found in by_row.items()
                ],
            )
        ],
        without_data,
    )  # fmt: skip
