"""The chance that a verdict is another one with other repeats, where the chances of the cases to pass are known.

Of each case the chance to pass is drawn from a known distribution. The truth is of new runs of as many repeats, against
infinitely many: the share of cases with another verdict, whether the pass rate lies on the other side of a bound, and
whether the other one of two systems wins, whose cases are drawn from the same distribution, a little lower.

Votes of k repeats tell no more of the distribution than its first k moments. The risks of all distributions with those
of a kind have a range, by linear programming, and no estimate is nearer to both of its ends than half of it, from
whatever number of cases.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.stats import binom

from benchmarks.shared.markdown import table
from benchmarks.shared.options import read_options
from benchmarks.shared.results import Claim, conclude
from ens_plugin.votes import analyze_verdicts

Array = NDArray[np.float64]
Draw = Callable[[int, np.random.Generator], Array]

SHAPES = ((25, 3), (50, 5), (200, 5))
# New runs of the same cases, by which the truth is known to half a point.
N_RUNS = 2000
TRIED = "three repeats, of any number of cases, leave the risk open by more, on both sides: see the last measures"
# Chances on a grid, and how many cases a kind is known by.
CHANCES, MANY = (np.arange(1000) + 0.5) / 1000.0, 400_000
# By how much the pass rate of the second system's cases is lower.
LOWER = 0.05


def mixture(*parts: tuple[float, float, float]) -> Draw:
    """Return a draw of chances from Beta distributions, each with its share."""

    def draw(n_cases: int, rng: np.random.Generator) -> Array:
        kind = rng.choice(len(parts), n_cases, p=[share for share, _, _ in parts])
        return np.asarray(rng.beta([parts[place][1] for place in kind], [parts[place][2] for place in kind]))

    return draw


KINDS: dict[str, Draw] = {
    "mostly pass": mixture((1.0, 8.0, 2.0)),
    "spread": mixture((1.0, 1.0, 1.0)),
    "sure either way": mixture((1.0, 0.4, 0.4)),
    "tosses of a coin": mixture((1.0, 30.0, 30.0)),
    "sure, and a fifth coins": mixture((0.8, 60.0, 1.0), (0.2, 30.0, 30.0)),
    "two heaps": mixture((0.7, 20.0, 2.0), (0.3, 2.0, 20.0)),
    "rising": mixture((1.0, 3.0, 1.0)),
    "nearly all pass": mixture((0.95, 90.0, 1.0), (0.05, 2.0, 4.0)),
}


class Risks(NamedTuple):
    """Risks of another verdict, as told and as they are."""

    told: tuple[float, float, float]
    true: tuple[float, float, float]


def found(draw: Draw, n_cases: int, n_repeats: int, seed: int) -> Risks:
    """Return the risks of one suite, compared with a second system."""
    rng = np.random.default_rng(seed)
    chances = draw(n_cases, rng)
    others = np.clip(draw(n_cases, rng) - LOWER, 0.0, 1.0)
    bound = float(np.clip(np.mean(chances > 0.5) - 0.03, 0.02, 0.98))
    judged, compared = (rng.random((n_cases, n_repeats)) < each[:, None] for each in (chances, others))
    report = analyze_verdicts(judged.tolist(), compared.tolist(), least_pass_rate=bound)
    now = report.risk_at(n_repeats)
    # An odd number of repeats does not tie.
    runs, second = (rng.binomial(n_repeats, each, (N_RUNS, n_cases)) * 2 > n_repeats for each in (chances, others))
    ahead = np.sign(runs.mean(axis=1) - second.mean(axis=1))
    sure = np.sign(np.mean(chances > 0.5) - np.mean(others > 0.5))
    true = (
        float(np.mean(runs != (chances > 0.5))),
        float(np.mean((runs.mean(axis=1) >= bound) != (np.mean(chances > 0.5) >= bound))),
        float(np.mean(np.abs(ahead - sure)) / 2.0),
    )
    return Risks((float(now["case"]), float(now["suite"]), float(now["winner"])), true)


def half_range(draw: Draw, n_repeats: int, rng: np.random.Generator) -> float:
    """Return half of the range of the risks of a case under all distributions that have the same votes as a kind."""
    share = np.histogram(draw(MANY, rng), bins=CHANCES.size, range=(0.0, 1.0))[0] / MANY
    votes: Array = np.asarray(binom.pmf(np.arange(n_repeats + 1)[:, None], n_repeats, CHANCES))
    fails = binom.cdf(n_repeats // 2, n_repeats, CHANCES)
    risk = np.where(CHANCES > 0.5, fails, 1.0 - fails)
    low, high = (float(linprog(sign * risk, A_eq=votes, b_eq=votes @ share)["fun"]) for sign in (1.0, -1.0))
    return float(-high - low) / 2.0


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 40, arguments)
    shapes = SHAPES[:1] if options.smoke else SHAPES
    lines, claims = [], []
    for n_cases, n_repeats in shapes:
        errors = []
        for kind, draw in KINDS.items():
            runs = Parallel(n_jobs=options.n_jobs)(
                delayed(found)(draw, n_cases, n_repeats, options.seed + 1 + run) for run in range(options.repetitions)
            )
            told, true = (np.mean([getattr(run, name) for run in runs], axis=0) for name in ("told", "true"))
            errors.append(told - true)
            cells = [f"{100.0 * each:.1f}" for pair in zip(true, told, strict=True) for each in pair]
            lines.append([kind, f"{n_cases} x {n_repeats}", *cells])
        of_case, of_suite, of_winner = np.abs(errors).mean(axis=0)
        shape = f"{n_cases} x {n_repeats}: mean error over {len(KINDS)} kinds of the risk of"
        claims += [
            Claim(f"{shape} a case", float(of_case), high=0.02, digits=3, tried=TRIED),
            Claim(f"{shape} the suite", float(of_suite), digits=3),
            Claim(f"{shape} the winner", float(of_winner), digits=3),
        ]
    for n_repeats in sorted({repeats for _, repeats in shapes}):
        ranges = [half_range(draw, n_repeats, np.random.default_rng(options.seed)) for draw in KINDS.values()]
        measure = f"{n_repeats} repeats of any number of cases: half of the range of the risk of a case that fits them"
        claims.append(Claim(measure, float(np.mean(ranges)), digits=3))
    heads = ["kind", "cases x repeats", *(f"{name}: {which} (%)" for name in ("case", "suite", "winner")
                                          for which in ("true", "told"))]  # fmt: skip
    return conclude(__name__, options, claims, [table(heads, lines)])
