"""How often a label is that of the infinite ensemble, by the number of members."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincinv, expit, ndtr, stdtrit

from ens_plugin.core.error_curve import smallest_odd_size
from ens_plugin.core.intervals import interval_of_draws
from ens_plugin.core.row_model import MAX_ITERATIONS
from ens_plugin.core.sample import Sample
from ens_plugin.core.validation import NEGLIGIBLE, ROUNDING, FloatArray, as_sizes

__all__ = [
    "CellVotes",
    "LabelChances",
    "chances_of_labels",
    "gather_cells",
    "has_few_cells",
]

# Jeffreys' prior of a share.
PRIOR_VOTES = 0.5
ROWS_PER_CELL = 4.0
MAX_CELLS = 200
N_DRAWS = 400
# With 64, the size for 5 to 30 members differs by up to a factor 1.5 from that of the exact integral, with 256 by 1.05.
N_QUANTILES = 256


@dataclass(frozen=True, eq=False)
class CellVotes:
    """Mean and spread of the members' votes in each cell, a cell being the rows with equal features.

    It is the :class:`~ens_plugin.analysis.sizes.SizeLaw` of the agreement on these rows.

    Attributes
    ----------
    mean, sd : ndarray, shape (n_cells,)
        Mean and standard deviation of a member's lead: its support for the cell's leading label minus the next.
    members : ndarray, shape (n_cells,)
        Number of members for which at least one row of the cell is out of bag.
    share : ndarray, shape (n_cells,)
        Share of the weight on the cell's rows; sums to 1.
    rows : ndarray, shape (n_cells,)
        Effective number of rows of the cell.
    votes : bool
        Whether members vote for one of two labels, so that leads are -1 or 1.
    random_state : int
    """

    mean: FloatArray
    sd: FloatArray
    members: FloatArray
    share: FloatArray
    rows: FloatArray
    votes: bool
    random_state: int = 0

    def losses(self, sizes: ArrayLike) -> FloatArray:
        """Return the expected share of labels other than the infinite ensemble's at each size, shape (n_sizes,)."""
        mean = _quantiles(self)
        return np.asarray([_disagreement(self, mean, size).mean() for size in as_sizes(sizes)])

    def size_within(self, tolerance: float, max_size: int) -> int | None:
        """Return the smallest odd size with at most so large a share of other labels; None if above `max_size`."""
        mean = _quantiles(self)

        def mean_agreement(size: float) -> float:
            return float(1.0 - _disagreement(self, mean, size).mean())

        return smallest_odd_size(mean_agreement, 1.0 - tolerance, max_size)

    def size_draws(self, tolerance: float, max_size: int) -> FloatArray:
        """Return draws of the size from its posterior, shape (400,); infinity where above `max_size`.

        For each, the cells' leads are drawn given the members' votes (from a beta distribution for votes on two labels,
        else from Student's), and the cells' shares given the rows (Dirichlet distribution); the size solves for both.
        """
        rng = np.random.default_rng(self.random_state)
        mean = _draws(self, N_DRAWS, rng)
        shares = rng.standard_gamma(np.broadcast_to(np.maximum(self.rows, 1e-3), mean.shape))
        shares /= shares.sum(axis=1, keepdims=True)
        low, high = np.zeros(N_DRAWS, dtype=np.int64), np.full(N_DRAWS, (int(max_size) - 1) // 2)
        above = _disagreement(self, mean, 2.0 * high + 1.0, shares) > tolerance
        while (low < high).any():
            middle = (low + high) // 2
            enough = _disagreement(self, mean, 2.0 * middle + 1.0, shares) <= tolerance
            high = np.where(enough, middle, high)
            low = np.where(enough | (low >= high), low, middle + 1)
        return np.where(above, np.inf, 2.0 * high + 1.0)

    def size_interval(self, tolerance: float, max_size: int, level: float) -> tuple[int, int | None]:
        """Return the interval of :meth:`size_within` by the draws."""
        draws = self.size_draws(tolerance, max_size)
        return interval_of_draws(draws, self.size_within(tolerance, max_size), max_size, level)


def has_few_cells(cell: NDArray[np.integer]) -> bool:
    """Return whether there are at most 200 cells, with four rows or more on average."""
    n_cells = np.count_nonzero(np.bincount(cell))
    return bool(n_cells <= MAX_CELLS and cell.size >= ROWS_PER_CELL * n_cells)


def gather_cells(
    sample: Sample, cell: NDArray[np.integer], weight: FloatArray, n_effective: float, random_state: int
) -> CellVotes:
    """Return the mean and spread of the members' votes in each cell of rows with equal features.

    The rows of the sample are positions in `cell` and `weight`; `n_effective` is Kish's number of rows.
    """
    block = sample.block
    known, place = np.unique(cell[sample.rows], return_inverse=True)
    position = np.searchsorted(known, cell).clip(max=known.size - 1)
    inside = known[position] == cell
    mass = np.bincount(position[inside], weight[inside], known.size)
    share = mass / mass.sum()
    support = block.support
    total = np.stack([np.bincount(place, column, known.size) for column in support.T], axis=1)
    order = np.argsort(-total, axis=1, kind="stable")
    best, second = order[:, 0], order[:, 1]
    leads, counted = np.zeros((2, block.counted.shape[0], known.size))
    for member, (outputs, counts) in enumerate(zip(block.outputs, block.counted, strict=True)):
        rows = np.flatnonzero(counts)
        own, cells = outputs[rows], place[rows]
        # Rows of one cell have the same output, so any one of them is used.
        if own.ndim == 1:
            leads[member, cells] = (own == best[cells]).astype(np.float64) - (own == second[cells])
        else:
            at = np.arange(rows.size)
            leads[member, cells] = own[at, best[cells]] - own[at, second[cells]]
        counted[member, cells] = 1.0
    members = counted.sum(axis=0)
    mean = leads.sum(axis=0) / np.maximum(members, 1.0)
    squares = (((leads - mean) * counted) ** 2).sum(axis=0)
    hard = bool(block.n_labels == 2 and np.isin(leads[counted > 0], (-1.0, 1.0)).all())
    sd = np.sqrt(squares / np.maximum(members - 1.0, 1.0))
    return CellVotes(mean, sd, members, share, share * n_effective, hard, random_state)


def _quantiles(cells: CellVotes) -> FloatArray:
    """Return quantiles of each cell's mean lead given the votes, evenly spaced in probability, shape (256, n_cells)."""
    level = (np.arange(N_QUANTILES)[:, None] + 0.5) / N_QUANTILES
    if cells.votes:
        return np.asarray(2.0 * betaincinv(*_beta(cells), level) - 1.0)
    return np.asarray(cells.mean + _scale(cells) * stdtrit(np.maximum(cells.members - 1.0, 1.0), level))


def _draws(cells: CellVotes, n_draws: int, rng: np.random.Generator) -> FloatArray:
    """Return draws of the cells' mean leads given the votes, shape (n_draws, n_cells)."""
    shape = (n_draws, cells.mean.size)
    if cells.votes:
        return np.asarray(2.0 * rng.beta(*_beta(cells), shape) - 1.0)
    return np.asarray(cells.mean + _scale(cells) * rng.standard_t(np.maximum(cells.members - 1.0, 1.0), shape))


def _beta(cells: CellVotes) -> tuple[FloatArray, FloatArray]:
    first = cells.members * (1.0 + cells.mean) / 2.0
    return first + PRIOR_VOTES, cells.members - first + PRIOR_VOTES


def _scale(cells: CellVotes) -> FloatArray:
    return np.asarray(cells.sd / np.sqrt(np.maximum(cells.members, 1.0)))


def _disagreement(
    cells: CellVotes, mean: FloatArray, size: float | FloatArray, shares: FloatArray | None = None
) -> FloatArray:
    """Return the expected share of rows with another label than the infinite ensemble's, for each draw of the leads."""
    b = np.broadcast_to(np.asarray(size, dtype=np.float64), mean.shape[:1])[:, None]
    if cells.votes:
        half = np.ceil(b / 2.0)
        by_cell = betainc(half, half, (1.0 - np.minimum(np.abs(mean), 1.0)) / 2.0)
    else:
        by_cell = ndtr(-np.abs(mean) * np.sqrt(b) / np.maximum(cells.sd, ROUNDING)) * (cells.sd > ROUNDING)
    return np.asarray((by_cell * (cells.share if shares is None else shares)).sum(axis=1))


# Prior precision of the coefficients: a logistic line is fitted freely, more than that only where the data need it.
PRECISION: FloatArray = np.array([1e-6, 1e-3, 1.0, 1.0, 1.0])
SMALL_STEP = 1e-8


@dataclass(frozen=True, eq=False)
class LabelChances:
    """The chance of each row to have the second label, with the uncertainty of the fit.

    `columns`, shape (n_rows, n_columns), are those of the log-odds; `covariance` is that of their coefficients
    (Laplace).
    """

    second: FloatArray
    columns: FloatArray
    covariance: FloatArray


def chances_of_labels(score: FloatArray, is_second: FloatArray, weight: FloatArray) -> LabelChances:
    r"""Fit the chance of the second label as a smooth function of a score on the scale of log-odds.

    Logistic regression on the score and on Legendre polynomials of :math:`\tanh(\mathrm{score}/2)`, whose coefficients
    have a normal prior of variance 1, by Newton's method.  A step that makes the fit worse is halved: whole steps go
    past the optimum where the score nearly separates the labels.  The weights sum to the number of independent rows.
    """
    columns = _columns(score)
    coefficients = np.zeros(columns.shape[1])
    reached = _log_posterior(coefficients, columns, is_second, weight)
    for _ in range(MAX_ITERATIONS):
        chance = expit(columns @ coefficients)
        gradient = columns.T @ (weight * (is_second - chance)) - PRECISION * coefficients
        step = np.linalg.solve(_hessian(columns, weight, chance), gradient)
        least = reached - NEGLIGIBLE * abs(reached)
        while (found := _log_posterior(coefficients + step, columns, is_second, weight)) < least:
            step /= 2.0
        coefficients, reached = coefficients + step, found
        if float(np.abs(step).max()) < SMALL_STEP:
            break
    chance = expit(columns @ coefficients)
    covariance = np.linalg.inv(_hessian(columns, weight, chance))
    return LabelChances(np.asarray(chance, dtype=np.float64), columns, np.asarray(covariance, dtype=np.float64))


def _columns(score: FloatArray) -> FloatArray:
    inside = np.tanh(score / 2.0)
    polynomials = [inside, inside**2 - 1.0 / 3.0, inside**3 - 0.6 * inside]
    return np.asarray(np.column_stack([np.ones(score.size), score, *polynomials]))


def _log_posterior(coefficients: FloatArray, columns: FloatArray, is_second: FloatArray, weight: FloatArray) -> float:
    log_odds = columns @ coefficients
    likelihood = weight @ (is_second * log_odds - np.logaddexp(0.0, log_odds))
    return float(likelihood - PRECISION @ coefficients**2 / 2.0)


def _hessian(columns: FloatArray, weight: FloatArray, chance: FloatArray) -> FloatArray:
    return np.asarray((columns.T * (weight * chance * (1.0 - chance))) @ columns + np.diag(PRECISION))
