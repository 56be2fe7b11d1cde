r"""Variance over seeds and bags of the difference between two ensembles' errors, apart from the noise of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.row_models.row_model import RowModel, model_error
from ens_plugin.core.tallies.tally import ValueTally, count_members
from ens_plugin.core.uncertainty.intervals import SD_INFLATION, density_error_sd, posterior_error_sd
from ens_plugin.core.validation import FloatArray

__all__ = [
    "deconvolution_variance",
    "influence_on_variance",
    "luck_variance",
    "shared_luck_variance",
    "squared_losses_at",
]


def shared_luck_variance(outputs: NDArray[Any], counted: NDArray[np.bool_], slopes: FloatArray, n_rows: float) -> float:
    r"""Return the variance of the measured mean loss over seeds and bags, without each row's own part.

    Parameters
    ----------
    outputs : ndarray, shape (n_members, n_sampled)
        The output of each member whose mean determines the loss, for a random subset of the rows.
    counted : ndarray of bool, shape (n_members, n_sampled)
        True where the output counts: the member is out of bag for the row, or the row is held out.
    slopes : ndarray, shape (n_sampled,)
        Derivative of each row's expected loss in its mean output.
    n_rows : float
        Number of rows of the whole data.

    Returns
    -------
    float
        :math:`\sum_t [(\sum_i e_{ti})^2 - \sum_i e_{ti}^2] / N^2`, at least 0, with
        :math:`e_{ti} = w_i (h_{ti} - \bar h_i) \sqrt{n_i / (n_i - 1)} / n_i` for the members that count.

    Examples
    --------
    >>> outputs = np.array([[1.0, 1.0], [0.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    >>> round(shared_luck_variance(outputs, np.ones((4, 2), dtype=bool), np.ones(2), 2), 6)
    0.041667
    """
    return _luck(outputs, counted, slopes, n_rows)[0]


def luck_variance(outputs: NDArray[Any], counted: NDArray[np.bool_], slopes: FloatArray, n_rows: float) -> float:
    r"""Return the variance of the measured mean loss over seeds and bags, with each row's own part.

    The parameters are those of :func:`shared_luck_variance`, and the squares :math:`e_{ti}^2` are not subtracted.

    Examples
    --------
    >>> outputs = np.array([[1.0, 1.0], [0.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    >>> round(luck_variance(outputs, np.ones((4, 2), dtype=bool), np.ones(2), 2), 6)
    0.083333
    """
    return sum(_luck(outputs, counted, slopes, n_rows))


def _luck(outputs: NDArray[Any], counted: NDArray[np.bool_], slopes: FloatArray, n_rows: float) -> tuple[float, float]:
    """Return the variance that rows share, and that of the rows on their own."""
    n_sampled = slopes.size
    if n_sampled < 2:
        return 0.0, 0.0
    n = count_members(counted)
    factors = np.where(n > 1, slopes / np.sqrt(np.maximum(n, 2.0) * np.maximum(n - 1.0, 1.0)), 0.0)
    sums, squares = (_vote_sums if outputs.dtype == np.bool_ else _output_sums)(outputs, counted, n, factors)
    pairs = float(sums @ sums) - squares
    shared = max(pairs, 0.0) / (n_sampled * (n_sampled - 1.0)) * (n_rows - 1.0) / n_rows
    return shared, squares / (n_sampled * n_rows)


def influence_on_variance(trials: FloatArray) -> FloatArray:
    """Return by what a member's squared deviation is multiplied to show its influence on the variance of all members.

    Deviations of the products from their mean are those of the pseudo-values of the jackknife: without a member, the
    variance (ddof 1) changes by its squared deviation times :math:`n / ((n - 1)(n - 2))`, less a constant.

    Parameters
    ----------
    trials : ndarray
        Number n of members of each row.  The squared deviations of two members are equal, with any factor.

    Examples
    --------
    >>> influence_on_variance(np.array([3.0, 12.0])).tolist()
    [3.0, 1.2]
    """
    return np.asarray(trials / np.maximum(trials - 2.0, 1.0))


def _output_sums(
    outputs: NDArray[Any], counted: NDArray[np.bool_], n: FloatArray, factors: FloatArray
) -> tuple[FloatArray, float]:
    """Return each member's sum of deviations from the rows' means times their factors, and the sum of all squares."""
    values = np.where(counted, outputs, 0.0)
    parts = np.ascontiguousarray((values - values.sum(axis=0) / np.maximum(n, 1.0)) * counted)
    parts *= factors
    return parts.sum(axis=1), float(np.einsum("ti,ti->", parts, parts))


def _vote_sums(
    votes: NDArray[np.bool_], counted: NDArray[np.bool_], n: FloatArray, factors: FloatArray
) -> tuple[FloatArray, float]:
    """Return the same sums of votes, whose squares are themselves."""
    ones = votes & counted
    share = count_members(ones) / np.maximum(n, 1.0)
    sums = ones @ factors - counted @ (factors * share)
    return np.asarray(sums), float(factors**2 @ (n * share * (1.0 - share)))


def deconvolution_variance(model: RowModel, size: float, *, counts_votes: bool) -> float:
    """Return the variance of an error estimated by a fitted distribution, beyond that of a share of the same rows.

    Parameters
    ----------
    model : RowModel
    size : float
        Ensemble size.
    counts_votes : bool
        Whether the model is fitted to counts of votes or support, not to margins.

    Returns
    -------
    float
        0 where nothing had to be fitted; tends to 0 as the number of members rises.
    """
    if model.density is None:
        return 0.0
    sd = (density_error_sd if counts_votes else posterior_error_sd)(model, [size])[0] / SD_INFLATION
    error = float(model_error(model, [size])[0])
    return max(float(sd**2) - error * (1.0 - error) / float(model.counts.sum()), 0.0)


def squared_losses_at(tally: ValueTally, size: float) -> FloatArray:
    r"""Return the unbiased squared error of each row at an ensemble size; NaN for a row with fewer than two members.

    Returns
    -------
    ndarray, shape (n_rows,)
        :math:`(\bar h_i - y_i)^2 - S_i^2 / n_i + S_i^2 / B`.

    Examples
    --------
    >>> tally = ValueTally(np.array([2.0]), np.array([1.0]), np.array([0.5]), np.array([0.0]))
    >>> squared_losses_at(tally, 10)
    array([0.8])
    """
    trials = np.maximum(tally.trials, 1.0)
    losses = (tally.mean - tally.target) ** 2 - tally.variance / trials + tally.variance / size
    return np.where(tally.trials >= 2, losses, np.nan)
