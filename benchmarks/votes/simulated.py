"""The majority of repeated answers at more samples than there are, where the answers' shares are known.

300 questions; shares of the answers are drawn for each question from a known distribution. The truth is of 200000
questions. The plug-in takes the votes at hand for the shares. The samples needed are those for 95 % agreement with
infinitely many, which need no truth; they are compared whether the result states them or says that they cannot be
told.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

import ens_plugin
from benchmarks.shared.markdown import table
from benchmarks.shared.options import read_options
from benchmarks.shared.results import Claim, conclude, root_mean_square
from ens_plugin.errors import EnsPluginWarning

Array = NDArray[np.float64]
# The shares of a question's answers, of which the first is right.
Draw = Callable[[int, np.random.Generator], Array]

LARGE = 64
CONFIDENCE = 0.95
GRID = np.unique(np.geomspace(1, 2_001, 60).astype(int) // 2 * 2 + 1)
TRIED = (
    "the agreement of the contests of forests (rms of log2 1.64), and coarser grids of the leading share and the rest "
    "(.6 to .9), on six other kinds; the error by a fit of the truth's share and the rest: no better. Where half of "
    "the questions are clear and half a draw among twelve, the samples needed come out a factor 2 to 4 too small."
)


def dirichlet(*weights: float) -> Draw:
    """Return a draw of shares of a Dirichlet distribution."""
    return lambda n_questions, rng: rng.dirichlet(weights, n_questions)


def bimodal(n_questions: int, rng: np.random.Generator) -> Array:
    """Draw shares where most samples are right, or most give the same wrong answer."""
    known = rng.dirichlet((8.0, 0.3, 0.3, 0.3, 0.3, 0.3), n_questions)
    mistaken = rng.dirichlet((0.5, 4.0, 0.3, 0.3, 0.3, 0.3), n_questions)
    return np.where(rng.random((n_questions, 1)) < 0.7, known, mistaken)


KINDS: dict[str, Draw] = {
    "easy": dirichlet(6.0, *[0.5] * 5),
    "hard": dirichlet(1.5, *[0.8] * 5),
    "bimodal": bimodal,
    "many wrong answers": dirichlet(2.0, *[0.1] * 29),
}


class Truth(NamedTuple):
    """Of infinitely many questions: the error at 64 and at infinity, and the samples for the wanted agreement."""

    error: float
    limit: float
    size: float


class Found(NamedTuple):
    """What samples of some questions tell, and what the votes at hand have themselves."""

    error: float
    limit: float
    holds: bool
    size: float
    size_holds: bool
    is_stated: bool
    plug_in: float


def sampled(shares: Array, n_samples: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return how often each answer is given, shape (n_questions, n_answers)."""
    return rng.multinomial(n_samples, shares)


def counted_answers(answers: NDArray[np.int64], n_answers: int) -> NDArray[np.int64]:
    """Return how often each answer was given, shape (n_questions, n_answers)."""
    return np.stack([(answers == code).sum(axis=1) for code in range(n_answers)], axis=1)


def won(counts: NDArray[np.int64], answer: NDArray[np.int64]) -> Array:
    """Return the share of a question's win that one answer has, shape (n_questions,)."""
    winners = counts == counts.max(axis=1, keepdims=True)
    return np.asarray(winners[np.arange(answer.size), answer] / winners.sum(axis=1))


def truth(draw: Draw, n_questions: int, seed: int) -> Truth:
    """Return the truth by simulation of many questions."""
    rng = np.random.default_rng(seed)
    shares = draw(n_questions, rng)
    best, right = shares.argmax(axis=1), np.zeros(n_questions, dtype=np.int64)
    error = 1.0 - float(np.mean(won(sampled(shares, LARGE, rng), right)))
    agreement = np.array([np.mean(won(sampled(shares, size, rng), best)) for size in GRID])
    size = float(np.exp(np.interp(CONFIDENCE, agreement, np.log(GRID))))
    return Truth(error, float(np.mean(best != 0)), size)


def found(draw: Draw, n_questions: int, n_samples: int, seed: int, true: Truth) -> Found:
    """Return what `n_samples` of some questions tell of the error at 64, at infinity, and of the samples needed."""
    rng = np.random.default_rng(seed)
    shares = draw(n_questions, rng)
    edges = np.cumsum(shares, axis=1)[:, None, :-1]
    answers = (rng.random((n_questions, n_samples, 1)) > edges).sum(axis=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EnsPluginWarning)
        result = ens_plugin.analyze_votes(answers, np.zeros(n_questions), tolerance=1.0 - CONFIDENCE, n_jobs=1)
    assert result.report is not None
    curve, advice = result.report.error_curve, result.agreement.recommendation
    low, high = curve.asymptote_interval
    size = float(np.exp(np.interp(CONFIDENCE, 1.0 - advice.losses, np.log(advice.sizes))))
    first, last = advice.interval
    # The plug-in takes the votes at hand for the chances of infinitely many.
    shares_at_hand = counted_answers(answers, shares.shape[1]) / n_samples
    plug_in = 1.0 - np.mean(
        [np.mean(won(sampled(shares_at_hand, LARGE, rng), np.zeros(n_questions, dtype=np.int64))) for _ in range(20)]
    )
    return Found(
        curve.at(LARGE),
        curve.asymptote,
        low <= true.limit <= high,
        size,
        # An odd size is stated, and the true one lies between odd sizes.
        first - 2 <= true.size <= (np.inf if last is None else last + 2),
        advice.size is not None,
        float(plug_in),
    )


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 50, arguments)
    n_questions, many = (100, 2_000) if options.smoke else (300, 200_000)
    samples = (5,) if options.smoke else (5, 8, 16)
    lines, cells = [], []
    for kind, draw in KINDS.items():
        true = truth(draw, many, options.seed)
        for n_samples in samples:
            runs = Parallel(n_jobs=options.n_jobs)(
                delayed(found)(draw, n_questions, n_samples, options.seed + 1 + run, true)
                for run in range(options.repetitions)
            )
            cells.append((runs, true))
            lines.append([kind, str(n_samples), *_cells(runs, true)])
    bias = [100.0 * (np.mean([run.error for run in runs]) - true.error) for runs, true in cells]
    bias += [100.0 * (np.mean([run.limit for run in runs]) - true.limit) for runs, true in cells]
    held = 100.0 * float(np.mean([run.holds for runs, _ in cells for run in runs]))
    sizes_held = 100.0 * float(np.mean([run.size_holds for runs, _ in cells for run in runs]))
    doublings = root_mean_square([np.log2(run.size / true.size) for runs, true in cells for run in runs])
    worst = float(np.max(np.abs(bias)))
    return conclude(
        __name__,
        options,
        [
            Claim(f"largest bias of the error at {LARGE} and infinity (points)", worst, high=1.0, tried=TRIED),
            Claim("95 % intervals that hold the error at infinity (%)", held, None, 90, 99, 1, TRIED),
            Claim("95 % intervals that hold the samples needed (%)", sizes_held, None, 90, 99, 1, TRIED),
            Claim("rms of log2 of the samples needed over the true ones", doublings, high=0.6, tried=TRIED),
        ],
        [
            table(
                [
                    "kind", "samples", f"error at {LARGE}: true", "mean", "rms (points)", "plug-in: rms",
                    "at infinity: true", "mean", "rms (points)", "held (%)", "needed: true", "median", "rms log2",
                    "held (%)", "stated (%)",
                ],
                lines,
            )
        ],
    )  # fmt: skip


def _cells(runs: list[Found], true: Truth) -> list[str]:
    def rms(values: list[float], wanted: float) -> str:
        return f"{100.0 * root_mean_square(np.subtract(values, wanted)):.2f}"

    errors, limits = [run.error for run in runs], [run.limit for run in runs]
    sizes = [run.size for run in runs]
    texts: list[Any] = [
        f"{100 * true.error:.2f}", f"{100 * np.mean(errors):.2f}", rms(errors, true.error),
        rms([run.plug_in for run in runs], true.error),
        f"{100 * true.limit:.2f}", f"{100 * np.mean(limits):.2f}", rms(limits, true.limit),
        f"{100 * np.mean([run.holds for run in runs]):.0f}",
        f"{true.size:.0f}", f"{np.median(sizes):.0f}", f"{root_mean_square(np.log2(np.divide(sizes, true.size))):.2f}",
        f"{100 * np.mean([run.size_holds for run in runs]):.0f}",
        f"{100 * np.mean([run.is_stated for run in runs]):.0f}",
    ]  # fmt: skip
    return texts
