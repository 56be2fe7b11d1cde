"""The rows that are nearest to others in an ensemble: whether members profit from them, and how near they are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.tallies.row_sampling import spread_rows

__all__ = [
    "COMPARED_ROWS",
    "MateLosses",
    "Neighbours",
    "column_weights",
    "mate_losses",
    "nearest_in_ensemble",
    "nearness",
    "rank_scaled",
]

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
PlaceArray = NDArray[np.intp]

N_NEAREST = 12
COMPARED_ROWS = 200
# Of a squared distance in columns, against the share of members that predict two rows alike.
COLUMN_WEIGHT = 0.3
FARTHEST = 2.0
# Added to the number of members that left both rows out, of which there are few.
FEWER_MEMBERS = np.float32(1.0)
FEWEST_PAIRS = 100
# A row's mean over many members is no more certain than this, because rows differ too.
MOST_MEMBERS = 4.0


class Neighbours(NamedTuple):
    """Some rows with those that are nearest to them by one half of the members.

    Attributes
    ----------
    rows : ndarray of int, shape (n_queries,)
    nearest : ndarray of int, shape (n_queries, n_nearest)
        The nearest first.
    judges : slice
        The other half of the members.
    """

    rows: PlaceArray
    nearest: PlaceArray
    judges: slice


class MateLosses(NamedTuple):
    """Mean losses of what was trained on a mate of each row, a row near to it, and of what was not.

    Attributes
    ----------
    beside, without : float
        With the mate, and without it, of the same rows.
    standard_errors : float
        Difference of both in its standard errors.
    """

    beside: float
    without: float
    standard_errors: float

    @property
    def rise(self) -> float:
        """Return by which share the loss without the nearest row is larger; 0 without any loss."""
        return self.without / self.beside - 1.0 if self.beside > 0 else 0.0


def rank_scaled(values: FloatArray) -> NDArray[np.float32]:
    """Return the columns as ranks with mean 0 and variance 1, equal for equal values; missing values are in the middle.

    Parameters
    ----------
    values : ndarray, shape (n_rows, n_columns)

    Examples
    --------
    >>> rank_scaled(np.array([[1.0], [3.0], [900.0]]))[:, 0].round(2).tolist()
    [-1.2200000286102295, 0.0, 1.2200000286102295]
    """
    scaled = np.zeros(values.shape, dtype=np.float32)
    for column, own in enumerate(values.T):
        known = np.flatnonzero(np.isfinite(own))
        ordered = np.sort(own[known])
        ranks = np.searchsorted(ordered, own[known], "left") + np.searchsorted(ordered, own[known], "right")
        spread = float(ranks.std()) if known.size else 0.0
        if spread > 0:
            scaled[known, column] = (ranks - ranks.mean()) / spread
    return scaled


def nearest_in_ensemble(
    outputs: NDArray[np.generic], counted: BoolArray, scaled: NDArray[np.float32], queries: PlaceArray, most: int
) -> tuple[Neighbours, Neighbours]:
    """Return the nearest rows of some rows, by either half of the members.

    Parameters
    ----------
    outputs : ndarray, shape (n_members, n_rows)
        Equal where a member predicts the same.
    counted : ndarray of bool, shape (n_members, n_rows)
        Where a member left a row out.
    scaled : ndarray of float32, shape (n_rows, n_columns)
        As of :func:`rank_scaled`.
    queries : ndarray of int, shape (n_queries,)
        Positions of the rows whose neighbours are wanted.
    most : int
        Members of each half that are used.

    Notes
    -----
    Two rows are as near as the share of members, of those that left both out, that predict both alike, less 0.3 times
    their squared distance in the columns.  What members predict for rows in their bag is not read.  A column weighs as
    much as distances in it are correlated with unlike predictions.  The members that find the neighbours of a row do
    not judge it, so that neighbours are not chosen for the losses of these.
    """
    half = len(outputs) // 2
    first, second = slice(0, half), slice(half, 2 * half)
    found = []
    for own, judges in ((first, second), (second, first)):
        nearest = _nearest(outputs[own][:most], counted[own][:most], scaled, queries)
        found.append(Neighbours(queries, nearest, judges))
    return found[0], found[1]


def mate_losses(losses: FloatArray, counted: BoolArray, found: tuple[Neighbours, ...]) -> MateLosses | None:
    """Compare the losses of members that were trained on the row nearest to a row with those of the others.

    Parameters
    ----------
    losses : ndarray, shape (n_members, n_queries)
        Of each member for the rows whose neighbours were found.
    counted : ndarray of bool, shape (n_members, n_rows)
        Where a member left a row out.
    found : tuple of Neighbours
        Of the same rows, with different judges.

    Returns
    -------
    MateLosses or None
        None for fewer than 100 rows that members of both kinds predict.

    Notes
    -----
    Means are over differences by row, weighted by the number of members without the nearest row, up to 4 of each half.
    """
    n_queries = found[0].rows.size
    total, weight, level = np.zeros(n_queries), np.zeros(n_queries), 0.0
    for neighbours in found:
        own, out = losses[neighbours.judges], counted[neighbours.judges]
        without = out[:, neighbours.rows] & out[:, neighbours.nearest[:, 0]]
        beside = out[:, neighbours.rows] & ~without
        n_without, n_beside = without.sum(axis=0), beside.sum(axis=0)
        of_beside = (own * beside).sum(axis=0) / np.maximum(n_beside, 1)
        share = np.where(n_beside > 0, np.minimum(n_without, MOST_MEMBERS), 0.0)
        total += share * ((own * without).sum(axis=0) / np.maximum(n_without, 1) - of_beside)
        weight += share
        level += float(share @ of_beside)
    if np.count_nonzero(weight) < FEWEST_PAIRS:
        return None
    rise = float(total.sum() / weight.sum())
    error = float(np.sqrt(np.square(total - weight * rise).sum()) / weight.sum())
    level /= float(weight.sum())
    return MateLosses(level, level + rise, rise / error if error > 0 else 0.0)


def nearness(scaled: NDArray[np.float32], found: Neighbours) -> tuple[float, float]:
    r"""Return how near the nearest rows are in all columns: as a mean share of the rows, and as a volume.

    Parameters
    ----------
    scaled : ndarray of float32, shape (n_rows, n_columns)
    found : Neighbours

    Returns
    -------
    share : float
        Mean over columns and rows of the share of all rows that are nearer in the column; 0.5 by chance.
    power : float
        Mean of :math:`\log_n \prod_c 2 u_c` with these shares :math:`u_c`.  In whatever number of independent columns,
        the nearest of n independent rows takes a volume of about 1/n, so that this is about -1; it is less where
        columns follow from each other.
    """
    n_rows = len(scaled)
    own, other = scaled[found.rows], scaled[found.nearest[:, 0]]
    distance = np.abs(own - other)
    low, high = own - distance, own + distance
    nearer = np.empty(own.shape)
    for column in range(scaled.shape[1]):
        ordered = np.sort(scaled[:, column])
        last, first = np.searchsorted(ordered, high[:, column], "right"), np.searchsorted(ordered, low[:, column])
        inner = np.searchsorted(ordered, high[:, column]) - np.searchsorted(ordered, low[:, column], "right")
        nearer[:, column] = (np.maximum(inner, 0) + last - first - 1) / 2.0
    share = np.clip(nearer / (n_rows - 1), 0.5 / n_rows, 1.0)
    return float(share.mean()), float(np.log(2.0 * share).sum(axis=1).mean() / np.log(n_rows))


def _nearest(
    outputs: NDArray[np.generic], counted: BoolArray, scaled: NDArray[np.float32], queries: PlaceArray
) -> PlaceArray:
    alike = _alike(outputs, counted, queries)
    own, compared = (spread_rows(n, COMPARED_ROWS) for n in (queries.size, len(scaled)))
    weights = column_weights(scaled[queries[own]], scaled[compared], alike[np.ix_(own, compared)])
    weighted = scaled * np.sqrt(COLUMN_WEIGHT * weights)
    # Less the square of the row itself, which its neighbours share.
    alike += 2.0 * weighted[queries] @ weighted.T
    alike -= np.einsum("ij,ij->i", weighted, weighted)
    alike[np.arange(queries.size), queries] = -np.inf
    n_nearest = min(N_NEAREST, len(scaled) - 1)
    found = np.argpartition(-alike, n_nearest - 1, axis=1)[:, :n_nearest]
    order = np.argsort(-np.take_along_axis(alike, found, axis=1), axis=1, kind="stable")
    return np.asarray(np.take_along_axis(found, order, axis=1))


def _alike(outputs: NDArray[np.generic], counted: BoolArray, queries: PlaceArray) -> NDArray[np.float32]:
    """Return the share of members, of those that left both rows out, that predict them alike, less for few members."""
    n_alike = np.zeros((queries.size, outputs.shape[1]), dtype=np.float32)
    for own, is_out, left_out in zip(outputs, counted[:, queries], counted, strict=True):
        rows = np.flatnonzero(is_out)
        n_alike[rows] += (own[queries[rows], None] == own) & left_out
    left_out = counted.astype(np.float32)
    n_alike /= left_out[:, queries].T @ left_out + FEWER_MEMBERS
    return n_alike


def column_weights(
    own: NDArray[np.float32], others: NDArray[np.float32], alike: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return the weight of each column: the correlation of distances in it with unlike outputs, of sum 1.

    Parameters
    ----------
    own, others : ndarray of float32, shapes (n_queries, n_columns) and (n_rows, n_columns)
        As of :func:`rank_scaled`.
    alike : ndarray of float32, shape (n_queries, n_rows)
        How alike the outputs of two rows are.

    Examples
    --------
    >>> scaled = rank_scaled(np.array([[1.0, 1.0], [2.0, 0.0], [3.0, 1.0], [4.0, 0.0]]))
    >>> [round(weight, 2) for weight in column_weights(scaled, scaled, scaled[:, :1] @ scaled[:, :1].T).tolist()]
    [0.81, 0.19]
    """
    unlike = (alike.mean(axis=1, keepdims=True) - alike).ravel().astype(np.float64)
    unlike -= unlike.mean()
    spread = float(unlike @ unlike)
    weights = np.zeros(own.shape[1])
    for column in range(own.shape[1]):
        distance = np.minimum(np.abs(own[:, column, None] - others[:, column]), FARTHEST).ravel().astype(np.float64)
        distance -= distance.mean()
        scale = float(np.sqrt(distance @ distance * spread))
        if scale > 0:
            weights[column] = max(float(distance @ unlike) / scale, 0.0)
    total = weights.sum()
    return np.asarray(weights / total if total > 0 else weights, dtype=np.float32)
