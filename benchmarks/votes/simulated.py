"""The majority of repeated answers at more samples than there are, where the answers' shares are known.

300 questions; shares of the answers are drawn for each question from a known distribution. The truth is that of these
questions, and for new ones that of 200000. The plug-in takes the votes at hand for the shares. The samples needed are
those within a percentage point of infinitely many on these questions; they depend on how many of the 300 questions are
close to a tie, so that even the median of the kind is not within a factor of 2 of each. The kinds whose name has a star
were used once, for the last run.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

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

SIZES = (32.0, 64.0, np.inf)
TOLERANCE = 0.01
GRID = np.unique(np.geomspace(1, 2_001, 20).astype(int) // 2 * 2 + 1)
TRIED = (
    "EM of a grid with 20 to 500 steps, the same smoothed in each "
    "step, polynomials of fewer powers: larger bias on these eight kinds, or larger errors. Where no question is close "
    "to a tie, every smooth density has some that are, and its limit is too low"
)


def dirichlet(*weights: float) -> Draw:
    """Return a draw of shares of a Dirichlet distribution."""
    return lambda n_questions, rng: rng.dirichlet(weights, n_questions)


def mixture(share: float, first: tuple[float, ...], second: tuple[float, ...]) -> Draw:
    """Return a draw of shares of one of two Dirichlet distributions."""

    def draw(n_questions: int, rng: np.random.Generator) -> Array:
        chosen = rng.random((n_questions, 1)) < share
        return np.where(chosen, rng.dirichlet(first, n_questions), rng.dirichlet(second, n_questions))

    return draw


def second(n_questions: int, rng: np.random.Generator) -> Array:
    """Draw shares of seven answers; of a quarter of the questions the second most frequent is right."""
    shares = -np.sort(-rng.dirichlet(np.array([4.5, 2.5, 1.0, 0.7, 0.5, 0.4, 0.4]), n_questions), axis=1)
    chosen = rng.random(n_questions) < 0.25
    shares[chosen] = shares[chosen][:, [1, 0, 2, 3, 4, 5, 6]]
    return np.asarray(shares)


def geometric(n_questions: int, rng: np.random.Generator) -> Array:
    """Draw shares that fall by a factor of the question's own, of which the right one is any, early ones more often."""
    factor = rng.uniform(0.2, 0.8, (n_questions, 1))
    shares = factor ** np.arange(8)
    rank = np.minimum(rng.geometric(0.65, n_questions) - 1, 7)
    shares[np.arange(n_questions), rank], shares[:, 0] = shares[:, 0].copy(), shares[np.arange(n_questions), rank]
    return np.asarray(shares / shares.sum(axis=1, keepdims=True))


def logistic(n_questions: int, rng: np.random.Generator) -> Array:
    """Draw shares of normal logits, as of a model with a temperature."""
    logits = rng.normal([2.0, 0.5, 0.0, 0.0, -0.5, -1.0], 1.3, (n_questions, 6))
    return np.asarray(np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True))


KINDS: dict[str, Draw] = {
    "easy": dirichlet(6.0, *[0.5] * 5),
    "hard": dirichlet(1.5, *[0.8] * 5),
    "bimodal": mixture(0.7, (8.0, *[0.3] * 5), (0.5, 4.0, *[0.3] * 4)),
    "many wrong answers": dirichlet(2.0, *[0.1] * 29),
    "second is right": second,
    "yes or no": dirichlet(3.0, 1.5),
    "four choices, guessed": mixture(0.6, (8.0, 1.0, 1.0, 1.0), (20.0, 20.0, 20.0, 20.0)),
    "clear, or one of twelve": mixture(0.5, (95.0, *[0.5] * 11), (5.0,) * 12),
    "geometric *": geometric,
    "logistic *": logistic,
    "never right or nearly always *": mixture(0.8, (12.0, 0.5, 0.5, 0.5), (0.01, 2.0, 2.0, 1.0)),
    "yes or no, two heaps *": mixture(0.75, (9.0, 1.5), (2.0, 4.0)),
}


class Found(NamedTuple):
    """What samples of some questions tell: of SIZES the error of the estimate, whether intervals hold, the samples."""

    apart: Array
    holds: NDArray[np.bool_]
    holds_new: NDArray[np.bool_]
    plug_in: Array
    size: float
    true_size: float
    size_holds: bool


def won(counts: NDArray[np.int64]) -> Array:
    """Return the share of the first answer in each question's win."""
    winners = counts == counts.max(axis=1, keepdims=True)
    return np.asarray(winners[:, 0] / winners.sum(axis=1))


def right_at(shares: Array, size: float, rng: np.random.Generator, times: int = 1) -> float:
    """Return the share of right majorities of a number of samples."""
    if np.isinf(size):
        return float(np.mean(shares.argmax(axis=1) == 0))
    return float(np.mean([won(rng.multinomial(int(size), shares)).mean() for _ in range(times)]))


def true_size(shares: Array, rng: np.random.Generator) -> float:
    """Return the samples from which on the majority is within the tolerance of its limit on these questions."""
    limit = right_at(shares, np.inf, rng)
    return size_within(np.array([abs(right_at(shares, size, rng, 200) - limit) for size in GRID]), GRID)


def size_within(apart: Array, sizes: NDArray[np.int64]) -> float:
    """Return the size from which on a distance that is known at some sizes is within the tolerance."""
    above = np.flatnonzero(apart > TOLERANCE)
    if not above.size:
        return 1.0
    last = min(int(above[-1]), sizes.size - 2)
    place = np.interp(-TOLERANCE, -apart[last : last + 2], np.log(sizes[last : last + 2]))
    return float(np.exp(place))


def found(draw: Draw, n_questions: int, n_samples: int, seed: int, true_of_new: Array) -> Found:
    """Return what `n_samples` of some questions tell."""
    rng = np.random.default_rng(seed)
    shares = draw(n_questions, rng)
    counts = rng.multinomial(n_samples, shares)
    answers = [np.repeat(np.arange(own.size), own).tolist() for own in counts]
    true = np.array([right_at(shares, size, rng, 40) for size in SIZES])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", EnsPluginWarning)
        result = ens_plugin.analyze_votes(answers, [0] * n_questions, tolerance=TOLERANCE)
    frame = result.at(SIZES)
    first, last = result.size_interval
    wanted = true_size(shares, rng)
    at_hand = counts / n_samples
    return Found(
        frame.maj_at_k.to_numpy() - true,
        ((frame.lower <= true) & (true <= frame.upper)).to_numpy(),
        ((frame.new_lower <= true_of_new) & (true_of_new <= frame.new_upper)).to_numpy(),
        np.array([right_at(at_hand, size, rng, 20) for size in SIZES]) - true,
        result.recommended_size,
        wanted,
        # An odd size is stated, and the true one lies between odd sizes.
        first - 2 <= wanted <= last + 2,
    )


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 20, arguments)
    n_questions, many = (100, 2_000) if options.smoke else (300, 200_000)
    samples = (5,) if options.smoke else (4, 5, 8, 16)
    kinds = dict(list(KINDS.items())[:1]) if options.smoke else KINDS
    lines, cells = [], []
    for kind, draw in kinds.items():
        rng = np.random.default_rng(options.seed)
        big = draw(many, rng)
        true_of_new = np.array([right_at(big, size, rng) for size in SIZES])
        for n_samples in samples:
            run = partial(found, draw, n_questions, n_samples, true_of_new=true_of_new)
            runs = Parallel(n_jobs=options.n_jobs)(
                delayed(run)(seed=options.seed + 1 + each) for each in range(options.repetitions)
            )
            cells.append(runs)
            lines.append([kind, str(n_samples), *_cells(runs)])
    every = [run for runs in cells for run in runs]
    bias = 100.0 * np.array([np.mean([run.apart for run in runs], axis=0) for runs in cells])
    held, held_new = (
        100.0 * float(np.mean(each)) for each in zip(*((run.holds, run.holds_new) for run in every), strict=True)
    )
    sizes_held = 100.0 * float(np.mean([run.size_holds for run in every]))
    factors = np.array([abs(np.log2(run.size / run.true_size)) for run in every])
    spread = 100.0 * np.array([np.std([run.apart for run in runs], axis=0) for runs in cells])
    by_median = 100.0 * float(np.mean([_within_two_of_median(runs) for runs in cells]))
    rms, plug_in = (
        root_mean_square(np.concatenate(each) * 100.0)
        for each in zip(*((r.apart, r.plug_in) for r in every), strict=True)
    )
    return conclude(
        __name__,
        options,
        [
            Claim("largest bias at 32, 64 and infinity of any kind (points)", float(np.abs(bias).max()), high=1.0,
                  tried=TRIED),
            Claim("mean of the absolute biases (points)", float(np.abs(bias).mean()), high=1.0, tried=TRIED),
            Claim("of it standard error of each bias (points)", float(spread.mean()) / np.sqrt(options.repetitions)),
            Claim("rms error over that of the plug-in", rms / plug_in, high=1.0, tried=TRIED),
            Claim("95 % intervals that hold for these questions (%)", held, None, 90, 99, 1, TRIED),
            Claim("95 % intervals that hold for new questions (%)", held_new, None, 90, 99, 1, TRIED),
            Claim("samples within a point: within a factor 2 (%)", 100.0 * float(np.mean(factors <= 1.0)), low=85.0,
                  tried=TRIED),
            Claim("samples within a point: within a factor 2 by the median of the kind's true ones (%)", by_median),
            Claim("95 % intervals that hold the samples within a point (%)", sizes_held, None, 90, 99, 1, TRIED),
        ],
        [
            table(
                [
                    "kind", "samples", "bias at 32, 64, infinity (points)", "rms", "plug-in: rms",
                    "held, these questions (%)", "held, new questions (%)", "samples within a point: true", "median",
                    "within a factor 2 (%)",
                ],
                lines,
            )
        ],
    )  # fmt: skip


def _within_two_of_median(runs: list[Found]) -> float:
    """Return the share of questionnaires whose true samples are within a factor of 2 of the median of the kind."""
    true = np.log2([run.true_size for run in runs])
    return float(np.mean(np.abs(true - np.median(true)) <= 1.0))


def _cells(runs: list[Found]) -> list[str]:
    def joined(values: Array, digits: int = 1) -> str:
        return ", ".join(f"{value:.{digits}f}" for value in np.ravel(values))

    apart, plug_in = (100.0 * np.array(each) for each in zip(*((run.apart, run.plug_in) for run in runs), strict=True))
    factors = np.array([abs(np.log2(run.size / run.true_size)) for run in runs])
    return [
        joined(apart.mean(axis=0)),
        joined(np.sqrt((apart**2).mean(axis=0))),
        joined(np.sqrt((plug_in**2).mean(axis=0))),
        joined(100.0 * np.mean([run.holds for run in runs], axis=0), 0),
        joined(100.0 * np.mean([run.holds_new for run in runs], axis=0), 0),
        f"{np.median([run.true_size for run in runs]):.0f}",
        f"{np.median([run.size for run in runs]):.0f}",
        f"{100.0 * np.mean(factors <= 1.0):.0f}",
    ]
