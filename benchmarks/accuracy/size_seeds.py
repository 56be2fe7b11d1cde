"""Sizes over seeds: how often each criterion states one, and whether its interval holds those of other seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from benchmarks.accuracy.recommendation import DATA
from benchmarks.shared.options import read_options
from benchmarks.shared.results import Claim, conclude, table

TREES = (20, 50, 200)
REFERENCE = 200
CRITERIA = {"agreement": "99 % agreement", "excess_error": "error within 1 %", "probability": "Brier within 0.5 %"}
PROBLEMS = (
    "breast cancer",
    "diabetes, above the median",
    "3 % positives",
    "30 % positives, very noisy",
    "five labels, uneven",
    "12 Gaussians",
)
TRIED = "the variance over seeds of the size, and the jackknife over the simulations of rivals, in the intervals."


class Stated(NamedTuple):
    """The size by one criterion from one forest; None where none is stated, or the end is above all sizes."""

    size: int | None
    low: int
    high: int | None

    def holds(self, size: int) -> bool:
        """Return whether the interval holds a size."""
        return self.low <= size and (self.high is None or size <= self.high)


Cell = tuple[str, int, str]


def sizes_of(problem: str, seed: int) -> dict[tuple[int, str], Stated]:
    """Return the size by each criterion from the first trees of one forest; the rows are the same for all seeds."""
    features, labels = DATA[problem](0)[:2]
    forest = RandomForestClassifier(TREES[-1], random_state=seed).fit(features, labels)
    found: dict[tuple[int, str], Stated] = {}
    for n_trees in TREES:
        report = ens_plugin.analyze(ens_plugin.truncate(forest, n_trees), features, labels)
        for each in report.criteria:
            found[n_trees, each.criterion] = Stated(each.size, *each.interval)
    return found


def held(intervals: Sequence[Stated], sizes: Sequence[Stated]) -> list[bool]:
    """Return whether the interval of each seed that states a size holds those stated from other seeds."""
    return [
        one.holds(other.size)
        for place, one in enumerate(intervals)
        for seed, other in enumerate(sizes)
        if seed != place and one.size is not None and other.size is not None
    ]


def _share(values: Sequence[bool]) -> float:
    return 100.0 * float(np.mean(values)) if values else math.nan


def claims_of(cells: dict[Cell, list[Stated]]) -> list[Claim]:
    """List the share of stated sizes, and of other seeds' sizes that their intervals hold, over all problems."""
    claims = []
    for criterion, name in CRITERIA.items():
        for n_trees in TREES:
            own = [found for (_, trees, by), found in cells.items() if (trees, by) == (n_trees, criterion)]
            further = [found for (_, trees, by), found in cells.items() if (trees, by) == (REFERENCE, criterion)]
            stated = [each.size is not None for found in own for each in found]
            claims.append(Claim(f"{name}, {n_trees} trees: a size is stated (%)", _share(stated), digits=0))
            kinds = {"other seeds": own} | ({} if n_trees == REFERENCE else {f"{REFERENCE} trees": further})
            for whose, others in kinds.items():
                pairs = [each for found, other in zip(own, others, strict=True) for each in held(found, other)]
                if pairs:
                    label = f"{name}, {n_trees} trees: interval of a stated size holds that of {whose} (%)"
                    claims.append(Claim(label, _share(pairs), None, 90, digits=1, tried=TRIED))
    return claims


def row_of(cell: Cell, found: Sequence[Stated]) -> list[str]:
    """Return what one criterion states on one problem, as text."""
    problem, n_trees, criterion = cell
    sizes = [each.size for each in found if each.size is not None]
    pairs = held(found, found)
    return [
        problem,
        str(n_trees),
        CRITERIA[criterion],
        f"{len(sizes)} of {len(found)}",
        f"{np.median(sizes):.0f}" if sizes else "-",
        f"{min(sizes)} to {max(sizes)}" if sizes else "-",
        f"{_share(pairs):.0f}" if pairs else "-",
    ]


def main(arguments: list[str] | None = None) -> str:
    """Run, write the section unless this is a smoke run, and return it."""
    options = read_options("benchmarks.accuracy.size_seeds", __doc__, 20, arguments, smoke=2)
    problems = PROBLEMS[:1] if options.smoke else PROBLEMS
    plans = [(problem, options.seed + index) for problem in problems for index in range(options.repetitions)]
    done = Parallel(n_jobs=options.n_jobs)(delayed(sizes_of)(problem, seed) for problem, seed in plans)
    cells: dict[Cell, list[Stated]] = {}
    for (problem, _), found in zip(plans, done, strict=True):
        for (n_trees, criterion), stated in found.items():
            cells.setdefault((problem, n_trees, criterion), []).append(stated)
    return conclude(
        "benchmarks.accuracy.size_seeds",
        options,
        [
            "## Sizes over seeds",
            __doc__ or "",
            "Fully grown random forests on the same rows, one for each seed, analysed from their first trees. A size "
            "is stated where the upper end of its interval is at most four times the lower one. The interval of each "
            f"seed is compared with the sizes that other seeds state, from as many trees and from {REFERENCE}.",
        ],
        claims_of(cells),
        [
            table(
                ["problem", "trees", "criterion", "stated", "median size", "range", "held (%)"],
                [row_of(cell, found) for cell, found in cells.items()],
            )
        ],
    )


if __name__ == "__main__":
    print(main())
