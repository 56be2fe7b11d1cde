"""The size by agreement on rows without labels: its error and its interval, where the truth is known.

The chance over rows that a member votes for the second of two labels is drawn from a known distribution: beta(0.5,
3), easy; beta(2, 3), hard; beta(2, 10) or beta(10, 2), bimodal. All members vote on all rows. A size is stated where
the upper end of its interval is at most four times the lower one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

import ens_plugin
from benchmarks.shared.markdown import table
from benchmarks.shared.options import read_options
from benchmarks.shared.results import Claim, conclude, root_mean_square
from ens_plugin.core.error_curve import smallest_odd_size
from ens_plugin.core.votes import soft_majority_error

FloatArray = NDArray[np.float64]

CONFIDENCE, MAX_SIZE = 0.99, 20001
ROWS, MEMBERS = (1000, 10_000), (25, 50, 100)
GRID = 20_000


def _quantiles(draw: Callable[[np.random.Generator, int], FloatArray]) -> FloatArray:
    """Return many equally likely chances that stand for a whole distribution."""
    return np.asarray(np.quantile(draw(np.random.default_rng(987), 400_000), (np.arange(GRID) + 0.5) / GRID))


def _two_humps(rng: np.random.Generator, n_rows: int) -> FloatArray:
    low, high = rng.beta(2.0, 10.0, n_rows), rng.beta(10.0, 2.0, n_rows)
    return np.where(rng.random(n_rows) < 0.5, low, high)


# The chance over rows that a member votes for the second label.
DISTRIBUTIONS: dict[str, Callable[[np.random.Generator, int], FloatArray]] = {
    "easy": lambda rng, n_rows: rng.beta(0.5, 3.0, n_rows),
    "hard": lambda rng, n_rows: rng.beta(2.0, 3.0, n_rows),
    "bimodal": _two_humps,
}


class VotesOfRows:
    """A member whose votes are known: row i of X is the number i."""

    def __init__(self, votes: NDArray[np.int64]) -> None:
        self.votes = votes
        self.classes_ = np.array([0, 1])

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return the votes for these rows."""
        rows: NDArray[np.int64] = self.votes[np.asarray(X)[:, 0].astype(np.int64)]
        return rows


class Outcome(NamedTuple):
    """One estimate: the logarithms to base 2 of its sizes over the true one, and whether its interval holds that.

    The middle of the interval is that of the logarithms; above the largest size, an end is that size.
    """

    log_middle: float
    log_promise: float
    covered: bool

    @property
    def is_kept(self) -> bool:
        """Return whether the promised size is enough."""
        return self.log_promise >= 0.0


@lru_cache(maxsize=8)
def true_size(distribution: str) -> int:
    """Return the smallest odd size that agrees with the infinite ensemble as wanted, over all rows there could be."""
    chances = _quantiles(DISTRIBUTIONS[distribution])
    minority = np.minimum(chances, 1.0 - chances)

    def agreement(size: float) -> float:
        return float(1.0 - soft_majority_error(minority, [size]).mean())

    size = smallest_odd_size(agreement, CONFIDENCE, MAX_SIZE)
    assert size is not None
    return size


def outcome(distribution: str, n_rows: int, n_members: int, seed: int) -> Outcome:
    """Return what one sample of rows and members leads to."""
    rng = np.random.default_rng([seed, n_rows, n_members])
    chances = DISTRIBUTIONS[distribution](rng, n_rows)
    models = [VotesOfRows((rng.random(n_rows) < chances).astype(np.int64)) for _ in range(n_members)]
    ensemble = ens_plugin.CustomEnsemble.from_estimators(models, None)
    found = ens_plugin.agreement(ensemble, np.arange(n_rows, dtype=np.float64)[:, None], tolerance=1.0 - CONFIDENCE)
    size, (low, high) = true_size(distribution), found.recommendation.interval
    promise = found.recommended_size or found.recommendation.max_size
    middle = math.sqrt(low * (high or found.recommendation.max_size))
    is_covered = low <= size <= (math.inf if high is None else high)
    return Outcome(math.log2(middle / size), math.log2(promise / size), is_covered)


def claims_of(cells: dict[tuple[str, int, int], list[Outcome]]) -> list[Claim]:
    """List the coverage over all cells, that of the worst cell, the promises kept, and the error of the estimate."""
    coverage = [_percent([each.covered for each in found]) for found in cells.values()]
    kept = _percent([each.is_kept for found in cells.values() for each in found])
    middle = root_mean_square([each.log_middle for found in cells.values() for each in found])
    return [
        Claim("95 % intervals that hold the true size (%)", float(np.mean(coverage)), None, 90, 99, 1),
        Claim("95 % intervals that hold the true size, worst cell (%)", float(np.min(coverage)), None, 85, digits=1),
        Claim("promised sizes that are enough (%)", kept, None, 93, digits=1),
        Claim("root mean square of log2 of the interval's middle over the true size", middle, None, high=0.5),
    ]


def _percent(are_true: Sequence[bool]) -> float:
    return 100.0 * float(np.mean(are_true))


def row_of(cell: tuple[str, int, int], found: Sequence[Outcome]) -> list[str]:
    """Return one cell as text."""
    distribution, n_rows, n_members = cell
    return [
        distribution,
        str(n_rows),
        str(n_members),
        str(true_size(distribution)),
        f"{np.median([each.log_middle for each in found]):+.2f}",
        f"{root_mean_square([each.log_middle for each in found]):.2f}",
        f"{_percent([each.covered for each in found]):.0f}",
        f"{np.median([each.log_promise for each in found]):+.2f}",
        f"{_percent([each.is_kept for each in found]):.0f}",
    ]


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 100, arguments, smoke=2)
    sizes = [(n_rows, n_members) for n_rows in ROWS for n_members in MEMBERS]
    cells = [(name, *size) for name in DISTRIBUTIONS for size in (sizes[:1] if options.smoke else sizes)]
    plans = [(cell, options.seed + index) for cell in cells for index in range(options.repetitions)]
    done = Parallel(n_jobs=options.n_jobs)(delayed(outcome)(*cell, seed) for cell, seed in plans)
    by_cell: dict[tuple[str, int, int], list[Outcome]] = {cell: [] for cell in cells}
    for (cell, _), found in zip(plans, done, strict=True):
        by_cell[cell].append(found)
    return conclude(
        __name__,
        options,
        claims_of(by_cell),
        [
            table(
                [
                    *("rows are", "rows", "members", "true size"),
                    *("middle, median log2", "rms log2", "covered (%)", "promise, median log2", "kept (%)"),
                ],
                [row_of(cell, found) for cell, found in by_cell.items()],
            )
        ],
    )
