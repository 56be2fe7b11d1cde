r"""Loss of an ensemble of any size, with bias and variance, from a model of its rows' scores (2017).

Losses of a row whose true label has probability p: ``"zero_one"`` 1[p < 1/2] (a tie is broken at random), ``"log"``
-log p, ``"squared"`` the squared distance of the probability vectors, 2 (1 - p)^2.  Aggregation:
``"mean_score"`` (parameter mixing: the logistic function of the mean score), ``"mean_proba"`` (voting
in the paper's sense: the mean probability) or ``"vote"`` (hard labels; 0-1 loss only).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from ens_plugin.core.validation import FloatArray, as_sizes
from ens_plugin.errors import InputError
from ens_plugin.papers.score_tables_2017.score_tables import ScoreTables

__all__ = [
    "AGGREGATIONS",
    "LOSSES",
    "BiasVarianceCurve",
    "ScoreRows",
    "expected_loss",
    "loss_curve",
    "score_bias_variance",
    "smallest_size_within",
]

LOSSES = ("zero_one", "log", "squared")
AGGREGATIONS = ("mean_score", "mean_proba", "vote")
Rows = TypeVar("Rows", bound="ScoreRows")


class ScoreRows(Protocol):
    """Protocol of a model of the rows, which returns an ensemble's error and moments by size and row."""

    @property
    def weight(self) -> FloatArray:
        """Weight of each row, shape (n_rows,)."""
        ...

    def flipped(self: Rows) -> Rows:
        """Return the same rows with the two labels exchanged."""
        ...

    def wrong(self, size: float, aggregation: str, tables: ScoreTables) -> FloatArray:
        """Return the probability that an ensemble of `size` members prefers the wrong label."""
        ...

    def log_moments(self, size: float, aggregation: str, tables: ScoreTables) -> FloatArray:
        """Return mean and variance of the ensemble's log probability of the true label."""
        ...

    def miss_moments(self, size: float, aggregation: str, tables: ScoreTables) -> FloatArray:
        """Return first to fourth moment of the ensemble's probability of the wrong label."""
        ...


@dataclass(frozen=True, eq=False)
class BiasVarianceCurve:
    """Bias and variance by size, over seeds given one training set; their sum is the expected loss.

    Attributes
    ----------
    sizes, bias, variance : ndarray, shape (n_sizes,)
    loss : str
        "log" or "squared".
    """

    sizes: FloatArray
    bias: FloatArray
    variance: FloatArray
    loss: str


def expected_loss(
    rows: ScoreRows, sizes: ArrayLike, tables: ScoreTables, *, loss: str = "zero_one", aggregation: str = "mean_proba"
) -> FloatArray:
    r"""Return the expected loss of an ensemble of each size on each row.

    Parameters
    ----------
    rows : NormalScores, NormalPair or BetaProbabilities
    sizes : array-like, shape (n_sizes,)
        Whole numbers of at least 1, or infinity.
    tables : ScoreTables
        From :func:`ens_plugin.papers.score_tables_2017.score_tables.build_score_tables`, or `cache.load_score_tables`.
    loss : {"zero_one", "log", "squared"}
    aggregation : {"mean_proba", "mean_score", "vote"}

    Returns
    -------
    ndarray of float64, shape (n_sizes, n_rows)

    Raises
    ------
    InputError
        If a size, the loss or the aggregation is not allowed.

    Notes
    -----
    :math:`T_v(a, b, K)` and :math:`T_{pm}(a, b, K)` of 2017 sections 4.3.1 and 4.3.2 for y = 1.

    Examples
    --------
    >>> from ens_plugin.papers.score_tables_2017.score_models import fit_normal_scores
    >>> from ens_plugin.papers.score_tables_2017.cache import load_score_tables
    >>> rows = fit_normal_scores([[0.0, 1.0], [2.0, 1.0]])
    >>> expected_loss(rows, [1, 8], load_score_tables(), aggregation="mean_score").round(4)
    array([[0.2398, 0.    ],
           [0.0228, 0.    ]])
    """
    wanted = as_sizes(sizes)
    _check(loss, aggregation)
    return np.stack([_mean_loss(rows, size, tables, loss, aggregation) for size in wanted])


def loss_curve(
    rows: ScoreRows, sizes: ArrayLike, tables: ScoreTables, *, loss: str = "zero_one", aggregation: str = "mean_proba"
) -> FloatArray:
    """Return the weighted mean over rows of :func:`expected_loss`: the generalization error G (2017, Algorithm 1).

    Parameters and errors are those of :func:`expected_loss`.

    Returns
    -------
    ndarray of float64, shape (n_sizes,)
    """
    by_row = expected_loss(rows, sizes, tables, loss=loss, aggregation=aggregation)
    return np.asarray(by_row @ rows.weight / rows.weight.sum())


def score_bias_variance(
    rows: ScoreRows, sizes: ArrayLike, tables: ScoreTables, *, loss: str = "log", aggregation: str = "mean_proba"
) -> BiasVarianceCurve:
    r"""Return bias and variance of the log or the squared loss at each size (2017 section 5).

    Parameters
    ----------
    rows, sizes, tables
        See :func:`expected_loss`.
    loss : {"log", "squared"}
    aggregation : {"mean_proba", "mean_score"}

    Returns
    -------
    BiasVarianceCurve

    Raises
    ------
    InputError
        If the loss is "zero_one", or as :func:`expected_loss`.

    Notes
    -----
    Log loss: :math:`\bar p \propto \exp E\log p`, bias :math:`-\log\bar p`, variance :math:`-\log Z`,
    :math:`Z = e^{E\log p} + e^{E\log(1-p)}`.  Squared loss: :math:`\bar p = E\,p`, bias
    :math:`2(1-\bar p)^2`, variance :math:`2\,\mathrm{Var}\,p`.
    """
    wanted = as_sizes(sizes)
    _check(loss, aggregation)
    if loss == "zero_one":
        raise InputError("loss must be 'log' or 'squared': 2017 has no bias and variance for the 0-1 loss.")
    split = _log_split if loss == "log" else _squared_split
    share = rows.weight / rows.weight.sum()
    parts = np.array([[part @ share for part in split(rows, size, aggregation, tables)] for size in wanted])
    return BiasVarianceCurve(wanted, parts[:, 0], parts[:, 1], loss)


def smallest_size_within(
    rows: ScoreRows,
    tables: ScoreTables,
    *,
    loss: str = "zero_one",
    aggregation: str = "mean_proba",
    tolerance: float = 0.01,
    max_size: int = 20001,
) -> int | None:
    """Return the smallest odd size from which on the loss is within a tolerance of the asymptote (2017 section 6.5).

    Parameters
    ----------
    rows, tables, loss, aggregation
        See :func:`expected_loss`.
    tolerance : float, default=0.01
        Relative to the loss of infinitely many members; positive.
    max_size : int, default=20001

    Returns
    -------
    int or None
        None if it is above `max_size`.

    Raises
    ------
    InputError
        If `tolerance` or `max_size` is out of range.

    Notes
    -----
    Sizes are tried from `max_size` down in ratios of about 1.4, and between the last two by bisection.
    From above, because a 0-1 loss may fall below its limit and rise again: small ensembles can be right by
    chance for rows on which the infinite one is wrong.
    The error of a row's mean score is its spread over the root of the number of probes: a size many times that
    number is an extrapolation, and tends to be too small.  Fit more probes for larger sizes.
    """
    if not 0.0 < tolerance < np.inf:
        raise InputError(f"tolerance must be positive and finite, got {tolerance!r}.")
    if not 1 <= max_size < np.inf:
        raise InputError(f"max_size must be at least 1, got {max_size!r}.")
    limit = float(loss_curve(rows, [np.inf], tables, loss=loss, aggregation=aggregation)[0])

    def within(size: int) -> bool:
        found = float(loss_curve(rows, [size], tables, loss=loss, aggregation=aggregation)[0])
        return abs(found - limit) <= tolerance * limit

    top = max(1, (int(max_size) + 1) // 2)
    grid = np.unique(np.geomspace(1, top, 2 + int(3 * np.log(top))).round().astype(np.int64)) * 2 - 1
    good: int | None = None
    for size in grid[::-1]:
        if not within(int(size)):
            return good if good is None else _first_within(within, int(size), good)
        good = int(size)
    return good


def _first_within(within: Callable[[int], bool], bad: int, good: int) -> int:
    """Return the smallest odd size within the tolerance, by bisection between `bad` outside and `good` within it."""
    while good - bad > 2:
        middle = bad + (good - bad) // 4 * 2
        if within(middle):
            good = middle
        else:
            bad = middle
    return good


def _check(loss: str, aggregation: str) -> None:
    if loss not in LOSSES:
        raise InputError(f"loss must be one of {', '.join(LOSSES)}, got {loss!r}.")
    if aggregation not in AGGREGATIONS:
        raise InputError(f"aggregation must be one of {', '.join(AGGREGATIONS)}, got {aggregation!r}.")
    if aggregation == "vote" and loss != "zero_one":
        raise InputError(
            "aggregation='vote' gives labels, for which only the 0-1 loss is defined. Pass loss='zero_one'."
        )


def _mean_loss(rows: ScoreRows, size: float, tables: ScoreTables, loss: str, aggregation: str) -> FloatArray:
    if loss == "zero_one":
        return rows.wrong(size, aggregation, tables)
    if loss == "squared":
        return np.asarray(2.0 * rows.miss_moments(size, aggregation, tables)[1])
    return np.asarray(-rows.log_moments(size, aggregation, tables)[0])


def _log_split(rows: ScoreRows, size: float, aggregation: str, tables: ScoreTables) -> tuple[FloatArray, FloatArray]:
    right, wrong = _log_means(rows, size, aggregation, tables)
    log_z = np.logaddexp(right, wrong)
    if aggregation == "mean_proba":
        # For infinitely many members log_z is 0 up to the tables' error, which is nearly the same for many members.
        log_z = log_z - np.logaddexp(*_log_means(rows, np.inf, aggregation, tables))
    log_z = np.minimum(log_z, 0.0)
    return log_z - right, -log_z


def _log_means(rows: ScoreRows, size: float, aggregation: str, tables: ScoreTables) -> tuple[FloatArray, FloatArray]:
    """Return the mean logarithms of the mixed probabilities of the true label and of the other, by row."""
    sides = (rows, rows.flipped())
    right, wrong = (side.log_moments(size, aggregation, tables)[0] for side in sides)
    return right, wrong


def _squared_split(
    rows: ScoreRows, size: float, aggregation: str, tables: ScoreTables
) -> tuple[FloatArray, FloatArray]:
    moments = rows.miss_moments(size, aggregation, tables)
    return 2.0 * moments[0] ** 2, 2.0 * np.maximum(moments[1] - moments[0] ** 2, 0.0)
