"""The recommended size where many rows share their features (docs/methods.md, section 5)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincinv, ndtr, stdtrit

from ens_plugin.core.estimates.ensemble_size import smallest_odd_size
from ens_plugin.core.tallies.subsets import Sample
from ens_plugin.core.validation import FloatArray, as_sizes
from ens_plugin.records import record

__all__ = ["CellVotes", "cell_agreement", "cell_size", "cell_size_draws", "gather_cells", "has_few_cells"]

ROWS_PER_CELL = 4.0
MAX_CELLS = 200
N_DRAWS = 400
# With 64, the size for 5 to 30 members differs by up to a factor 1.5 from that of the exact integral, with 256 by 1.05.
N_QUANTILES = 256
PRIOR_VOTES = 0.5
LEAST_SD = 1e-9


@record
class CellVotes:
    """Mean and spread of the members' votes in each cell, a cell being the rows with equal features.

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
    """

    mean: FloatArray
    sd: FloatArray
    members: FloatArray
    share: FloatArray
    rows: FloatArray
    votes: bool


def has_few_cells(cell: NDArray[np.integer]) -> bool:
    """Return whether there are at most 200 cells, with four rows or more on average."""
    n_cells = np.count_nonzero(np.bincount(cell))
    return bool(n_cells <= MAX_CELLS and cell.size >= ROWS_PER_CELL * n_cells)


def gather_cells(sample: Sample, cell: NDArray[np.integer], weight: FloatArray, n_effective: float) -> CellVotes:
    """Return the mean and spread of the members' votes in each cell of rows with equal features.

    Parameters
    ----------
    sample : Sample
        Outputs of a classifier; its rows are positions in `cell`.
    cell : ndarray of int64, shape (n_rows,)
        Number of each row's cell.
    weight : ndarray, shape (n_rows,)
    n_effective : float
        Kish's effective number of rows.
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
    return CellVotes(mean, sd, members, share, share * n_effective, hard)


def cell_agreement(cells: CellVotes, sizes: ArrayLike) -> FloatArray:
    """Return the expected agreement with the infinite ensemble at each size, given the votes, shape (n_sizes,)."""
    mean = _quantiles(cells)
    return np.asarray([1.0 - _disagreement(cells, mean, size).mean() for size in as_sizes(sizes)])


def cell_size(cells: CellVotes, confidence: float, max_size: int) -> int | None:
    """Return the smallest odd size whose expected agreement is at least `confidence`; None if above `max_size`."""
    mean = _quantiles(cells)

    def mean_agreement(size: float) -> float:
        return float(1.0 - _disagreement(cells, mean, size).mean())

    return smallest_odd_size(mean_agreement, confidence, max_size)


def cell_size_draws(cells: CellVotes, confidence: float, max_size: int, random_state: int) -> FloatArray:
    """Return draws of the recommended size from its posterior, shape (400,); infinity where above `max_size`.

    For each, the cells' leads are drawn given the members' votes (from a beta distribution for votes on two labels,
    else from Student's), and the cells' shares given the rows (Dirichlet distribution); the size solves for both.
    """
    rng = np.random.default_rng(random_state)
    mean = _draws(cells, N_DRAWS, rng)
    shares = rng.standard_gamma(np.broadcast_to(np.maximum(cells.rows, 1e-3), mean.shape))
    shares /= shares.sum(axis=1, keepdims=True)
    low, high = np.zeros(N_DRAWS, dtype=np.int64), np.full(N_DRAWS, (int(max_size) - 1) // 2)
    above = _disagreement(cells, mean, 2.0 * high + 1.0, shares) > 1.0 - confidence
    while (low < high).any():
        middle = (low + high) // 2
        enough = _disagreement(cells, mean, 2.0 * middle + 1.0, shares) <= 1.0 - confidence
        high = np.where(enough, middle, high)
        low = np.where(enough | (low >= high), low, middle + 1)
    return np.where(above, np.inf, 2.0 * high + 1.0)


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
        by_cell = ndtr(-np.abs(mean) * np.sqrt(b) / np.maximum(cells.sd, LEAST_SD)) * (cells.sd > LEAST_SD)
    return np.asarray((by_cell * (cells.share if shares is None else shares)).sum(axis=1))
