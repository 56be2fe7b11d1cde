"""How often the intervals contain what they should, and how good the algorithmic standard deviation is.

Coverage: each repetition draws new training rows, grows a forest and tests its first 50 and 200 trees on 20 000 fresh
rows; the reference size is the plug-in's from 2000 trees of the same forest, at 0.99 agreement. Algorithmic sd: one
training set, as many seeds as repetitions, the same 2000 held-out rows; estimates are root mean squares of the first
20 forests'. Spread: standard error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import ens_plugin
from benchmarks.shared.forests import (
    FRESH_ROWS,
    HELD_OUT_ROWS,
    TRAINING_ROWS,
    Plan,
    Record,
    grow_all,
    hard_votes,
    seed_votes,
)
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.results import Claim, conclude, percent_se
from ens_plugin.core.error_curve import recommended_size
from ens_plugin.core.intervals import wilson_interval

Array = NDArray[Any]

LEVEL = 0.95
CONFIDENCE = 0.99
MAX_SIZE = 20001
LARGE = 500
MEMBERS = (50, 200)
COVERAGE_SETS = ("twonorm", "ringnorm", "noisy logistic")
SEED_SETS = {"twonorm": 300, "ringnorm": 300, "noisy logistic": 500, "circle": 300, "hard/easy mixture": 500}
SEED_MEMBERS = 101
SEED_FRESH_ROWS = 20_000
ANALYSED_FORESTS = 20
TINY = 1e-12
TRIED = (
    "nothing. The interval has the noise of the seed besides that of the rows, and the former is estimated too large "
    "(last table). The first 60 training sets are easy ones: plain Wilson intervals hold the error in 95.8 % of their "
    "cells, and in 93.7 % of those of 200."
)


class Outcome(NamedTuple):
    """Comparison of the intervals from one forest's first members with the values that they estimate.

    Attributes
    ----------
    covered : bool
        The interval at the current size contains that forest's error on fresh rows.
    covered_large : bool
        The interval at 500 trees contains the error of the first 500 trees.
    covered_naive : bool
        A plain Wilson interval from the number of rows contains the former.
    covered_size : bool
        The interval of the recommended size contains the reference size.
    size_factor : float
        Square root of the interval's upper end over its lower end; infinite if open.
    """

    covered: bool
    covered_large: bool
    covered_naive: bool
    covered_size: bool
    size_factor: float


def outcome(record: Record, members: int, all_members: int) -> Outcome:
    """Analyse the first `members` trees and compare."""
    trials = record[f"trials_{members}"]
    ensemble, target = ensemble_of_counts(record[f"wrong_{members}"], trials)
    report = ens_plugin.analyze(ensemble, None, target, criterion="agreement", tolerance=1.0 - CONFIDENCE)
    curve = report.error_curve
    error = curve.at(members)
    naive_sd = math.sqrt(error * (1 - error) / target.size)
    naive_lower, naive_upper = wilson_interval([error], [naive_sd], target.size, LEVEL)
    lower, upper = curve.interval_at(members)
    lower_large, upper_large = curve.interval_at(LARGE)
    truth, large = float(record[f"fresh_error_{members}"]), float(record[f"fresh_error_{LARGE}"])
    low, high = report.recommendation.interval
    reference = reference_size(record, all_members)
    return Outcome(
        covered=lower <= truth <= upper,
        covered_large=lower_large <= large <= upper_large,
        covered_naive=bool(naive_lower[0] <= truth <= naive_upper[0]),
        covered_size=low <= reference <= (math.inf if high is None else high),
        size_factor=math.inf if high is None else math.sqrt(high / low),
    )


def ensemble_of_counts(wrong: Array, trials: Array) -> tuple[ens_plugin.CustomEnsemble, Array]:
    """Make an ensemble with these counts of votes by row, each cast by members drawn at random.

    Curve and size depend on the counts alone; members that were wrong about many rows at once would raise the variance
    over seeds.
    """
    turn = np.random.default_rng(0).random((int(trials.max()), trials.size)).argsort(axis=0)
    target = np.arange(trials.size) % 2
    outputs = np.where(turn < wrong, 1 - target, target)
    return ens_plugin.CustomEnsemble(outputs, turn >= trials, aggregation="vote", classes=np.array([0, 1])), target


def reference_size(record: Record, members: int) -> float:
    """Return the recommended size by the plug-in from all trees; infinite above the largest size looked at."""
    share = record[f"wrong_{members}"] / record[f"trials_{members}"]
    return recommended_size(share, confidence=CONFIDENCE, max_size=MAX_SIZE) or math.inf


def percent(outcomes: Sequence[Outcome], field: str) -> float:
    """Return the percentage of repetitions in which the interval covers."""
    return 100.0 * float(np.mean([getattr(found, field) for found in outcomes]))


def coverage_claims(cells: Mapping[tuple[str, int], Sequence[Outcome]]) -> list[Claim]:
    """List the targets over all cells (problem, trees); cells of one problem share their forests."""
    problems = len({problem for problem, _ in cells})
    independent = problems * min(len(found) for found in cells.values())

    def average(field: str) -> tuple[float, float]:
        mean = float(np.mean([percent(found, field) for found in cells.values()]))
        return mean, percent_se(mean, independent)

    worst = min(cells.values(), key=lambda found: percent(found, "covered"))
    low = percent(worst, "covered")
    return [
        Claim(
            "95 % interval contains the error on fresh rows, mean of the cells (%)",
            *average("covered"),
            93,
            98,
            1,
            tried=TRIED,
        ),
        Claim(
            "95 % interval contains the error on fresh rows, worst cell (%)",
            low,
            percent_se(low, len(worst)),
            91,
            digits=1,
        ),
        Claim("95 % interval of the size contains the reference, mean of the cells (%)", *average("covered_size"), 90),
    ]


def coverage_section(options: Options) -> tuple[list[Claim], str]:
    """Coverage of the data interval and of the recommended size's interval."""
    n_trees = 500 if options.smoke else 2000
    cells: dict[tuple[str, int], list[Outcome]] = {}
    for problem in COVERAGE_SETS[:1] if options.smoke else COVERAGE_SETS:
        fresh = 500 if options.smoke else FRESH_ROWS[problem]
        plans = [
            Plan(problem, TRAINING_ROWS[problem], n_trees, None, fresh, options.seed, repetition)
            for repetition in range(options.repetitions)
        ]
        records = grow_all(options.cache, "votes", plans, hard_votes, options.n_jobs)
        for members in MEMBERS:
            cells[problem, members] = [outcome(record, members, n_trees) for record in records]
    header = [
        "coverage (%)",
        "error, current size",
        f"error, {LARGE} trees",
        "plain Wilson, current size",
        "recommended size",
        "size interval: factor each way",
    ]
    rows = [
        [
            f"{problem}, {members} trees",
            *(
                f"{percent(found, field):.1f}"
                for field in ("covered", "covered_large", "covered_naive", "covered_size")
            ),
            f"{np.median([each.size_factor for each in found]):.1f}",
        ]
        for (problem, members), found in cells.items()
    ]
    return coverage_claims(cells), table(header, rows)


class SeedSpread(NamedTuple):
    """Standard deviation of the error over seeds, and its estimates from single forests (shares).

    Attributes
    ----------
    truth : float
        Over all forests, on the 2000 held-out rows of the estimates.
    fresh : float
        On fresh rows without end: from 20 000, without what each row adds on its own.
    held_out, out_of_bag : float
        Root mean square of single forests' estimates.
    relative_se : float
        Relative standard error of the ratio of an estimate to the truth.
    """

    truth: float
    fresh: float
    held_out: float
    out_of_bag: float
    relative_se: float


def seed_spread(records: Sequence[Record]) -> SeedSpread:
    """Compare the spread of many forests' errors with the estimates of the first few."""
    wrong = np.array([record["wrong"] for record in records])
    variance = float(wrong.mean(axis=1).var(ddof=1))
    own_rows = float(wrong.var(axis=0, ddof=1).sum()) / wrong.shape[1] ** 2
    analysed = records[:ANALYSED_FORESTS]
    held_out = [_algorithmic_sd(record["held_out_labels"], None, record["held_out_target"]) for record in analysed]
    out_of_bag = [_algorithmic_sd(record["labels"], record["in_bag"], record["target"]) for record in analysed]
    estimate = float(np.sqrt(np.mean(np.square(held_out))))
    own = float(np.std(held_out, ddof=1)) / math.sqrt(len(held_out)) / max(estimate, TINY)
    return SeedSpread(
        truth=float(wrong[:, :HELD_OUT_ROWS].mean(axis=1).std(ddof=1)),
        fresh=math.sqrt(max(variance - own_rows, 0.0)),
        held_out=estimate,
        out_of_bag=float(np.sqrt(np.mean(np.square(out_of_bag)))),
        relative_se=math.hypot(own, 1.0 / math.sqrt(2.0 * (len(records) - 1))),
    )


def _algorithmic_sd(labels: Array, in_bag: Array | None, target: Array) -> float:
    ensemble = ens_plugin.CustomEnsemble(labels, in_bag, aggregation="vote", classes=np.array([0, 1]))
    report = ens_plugin.analyze(ensemble, None, target, data="holdout" if in_bag is None else "oob")
    return report.algorithmic_sd


def seed_section(options: Options) -> tuple[list[Claim], str]:
    """Algorithmic standard deviation against the truth over seeds."""
    claims, rows, ratios = [], [], []
    for problem, n_rows in list(SEED_SETS.items())[: 1 if options.smoke else None]:
        fresh_rows = 2 * HELD_OUT_ROWS if options.smoke else SEED_FRESH_ROWS
        plans = [
            Plan(problem, n_rows, SEED_MEMBERS, None, fresh_rows, options.seed, repetition)
            for repetition in range(options.repetitions)
        ]
        spread = seed_spread(grow_all(options.cache, "seeds", plans, seed_votes, options.n_jobs))
        claims += seed_claims(problem, spread)
        ratios.append(claims[-1])
        points = [f"{100 * value:.3f}" for value in spread[:4]]
        rows.append([f"{problem}, {SEED_MEMBERS} trees", *points])
    mean = float(np.mean([claim.value for claim in ratios]))
    error = math.sqrt(sum((claim.spread or 0.0) ** 2 for claim in ratios)) / len(ratios)
    claims.append(
        Claim("algorithmic sd on out-of-bag rows / truth on fresh rows, mean of the problems", mean, error, 0.9, 1.6)
    )
    header = ["algorithmic sd (points)", f"truth, {HELD_OUT_ROWS} held-out rows", "truth, fresh rows"]
    return claims, table([*header, "estimate, held-out", "estimate, out of bag"], rows)


def seed_claims(problem: str, spread: SeedSpread) -> list[Claim]:
    """List the targets of the algorithmic standard deviation on one problem."""
    ratio, bound = (top / max(below, TINY) for top, below in zip(spread[2:4], spread[:2], strict=True))
    se = spread.relative_se
    return [
        Claim(f"{problem}: algorithmic sd on held-out rows / truth on these rows", ratio, ratio * se, 0.8, 1.2),
        Claim(f"{problem}: algorithmic sd on out-of-bag rows / truth on fresh rows", bound, bound * se, 0.9),
    ]


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 200, arguments, smoke=3)
    sections = [coverage_section(options), seed_section(options)]
    claims = [claim for found, _ in sections for claim in found]
    return conclude(__name__, options, claims, [text for _, text in sections])
