r"""Intervals for two separate sources of uncertainty: the data (fresh rows) and the algorithm (another seed)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammainc, gammaincinv, ndtri

from ens_plugin.core.row_models.density import Density, cell_weights, design
from ens_plugin.core.row_models.row_model import RowModel, group_means, mean_posterior, posterior_products
from ens_plugin.core.validation import FloatArray

__all__ = [
    "PosteriorDraws",
    "algorithmic_variance",
    "density_error_sd",
    "density_gradient",
    "draw_posteriors",
    "odd_grid",
    "posterior_error_sd",
    "size_draws",
    "size_interval",
    "spread_sizes",
    "wilson_interval",
]

SD_INFLATION = 1.1
N_DRAWS = 200
ROUNDING = 1e-14
N_SIZES = 72
SUM_ROWS = 512


def density_error_sd(model: RowModel, sizes: ArrayLike) -> FloatArray:
    r"""Return the standard deviation, over samples of rows, of an error computed from the fitted density.

    Parameters
    ----------
    model : RowModel
    sizes : array-like, shape (n_sizes,)

    Returns
    -------
    ndarray, shape (n_sizes,)
        1.1 times the larger of :math:`\sqrt{e(1-e)/N}` and the Laplace approximation
        :math:`\sqrt{h^\top H^{-1} h}`, :math:`h = Q^\top (g \cdot (\pi - e))`.
    """
    wrong = model.error_by_point(sizes)
    share = model.point_weights
    error = np.tensordot(wrong, share, axes=1)
    naive = _naive_sd(model, error)
    if model.density is None:
        return np.asarray(SD_INFLATION * naive)
    gradient = density_gradient(model, model.density, wrong)
    return np.asarray(SD_INFLATION * np.maximum(naive, _laplace_sd(model.density, gradient)))


def density_gradient(model: RowModel, density: Density, wrong: FloatArray) -> FloatArray:
    r"""Return the derivatives of errors of the density in its coefficients, :math:`Q^\top (g \cdot (\pi - e))`.

    Parameters
    ----------
    model : RowModel
    density : Density
        That of the model.
    wrong : ndarray, shape (n_sizes, n_points)
        ``model.error_by_point`` of the sizes.

    Returns
    -------
    ndarray, shape (n_sizes, n_coefficients)
    """
    share = model.point_weights
    error = np.tensordot(wrong, share, axes=1)
    by_point = wrong * (share / np.maximum(share, 1e-300))
    return np.asarray((density.weights * (by_point - error[:, None])) @ design())


def posterior_error_sd(model: RowModel, sizes: ArrayLike) -> FloatArray:
    r"""Return the standard deviation, over samples of rows, of an error averaged over the rows' posteriors.

    Parameters
    ----------
    model : RowModel
        A model whose density is not None.
    sizes : array-like, shape (n_sizes,)

    Returns
    -------
    ndarray, shape (n_sizes,)
        1.1 times :math:`\sqrt{e(1-e)/N + h^\top H^{-1} h}`, h the mean over rows of the posterior
        covariance of :math:`\pi` with the columns of the log-density.
    """
    assert model.density is not None
    wrong = model.error_by_point(sizes)
    error = np.tensordot(wrong, model.point_weights, axes=1)
    columns = design()
    products = posterior_products(model, model.density.maximum.row_means)
    covariances = mean_posterior(model, model.density.weights)[:, None] * columns - products.T
    gradient = np.tensordot(wrong, covariances, axes=1)
    return np.asarray(SD_INFLATION * np.hypot(_naive_sd(model, error), _laplace_sd(model.density, gradient)))


def _naive_sd(model: RowModel, error: FloatArray) -> FloatArray:
    """Return the binomial standard deviation of an error that is a share of the rows, shape as `error`."""
    return np.asarray(np.sqrt(np.clip(error * (1.0 - error), 0.0, None) / model.counts.sum()))


def _laplace_sd(density: Density, gradient: FloatArray) -> FloatArray:
    """Return the standard deviation of functions of the density's coefficients from the gradients of the functions."""
    return np.asarray(np.sqrt(np.einsum("si,ij,sj->s", gradient, density.covariance, gradient)))


def wilson_interval(error: ArrayLike, sd: ArrayLike, n_rows: ArrayLike, level: float) -> tuple[FloatArray, FloatArray]:
    r"""Return the Wilson interval of a share whose standard deviation is `sd`.

    The effective number of rows is :math:`e(1-e)/\mathrm{sd}^2`, at most `n_rows`; `n_rows` where the share is 0 or 1.

    Returns
    -------
    lower, upper : ndarrays

    Examples
    --------
    >>> lower, upper = wilson_interval([0.0], [0.0], 100, 0.95)
    >>> float(upper[0].round(3))
    0.037
    """
    e = np.asarray(error, dtype=np.float64)
    spread = e * (1.0 - e)
    variance = np.maximum(np.asarray(sd, dtype=np.float64) ** 2, spread / np.asarray(n_rows, dtype=np.float64))
    # An error within rounding of 0 or 1 is treated as 0 or 1.
    certain = (spread <= ROUNDING) | (variance <= 0)
    n = np.where(certain, n_rows, spread / np.where(certain, 1.0, variance))
    z = float(ndtri(0.5 + level / 2.0))
    centre = (e + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(np.clip(spread, 0.0, None) / n + z**2 / (4 * n**2))
    return np.clip(centre - half, 0.0, e), np.clip(centre + half, e, 1.0)


class PosteriorDraws(NamedTuple):
    """Draws of a model's density from its Laplace approximation, and what belongs to each.

    Attributes
    ----------
    steps : ndarray, shape (n_draws, n_coefficients)
        By which the coefficients of the density are changed.
    means : ndarray, shape (n_draws, n_points)
        Mean posterior of the rows under each density.
    levels : ndarray, shape (n_draws, 1)
        Independent uniform numbers, for what is drawn given the density.
    """

    steps: FloatArray
    means: FloatArray
    levels: FloatArray


def draw_posteriors(model: RowModel, random_state: int, n_draws: int = N_DRAWS) -> PosteriorDraws | None:
    """Draw densities from the Laplace approximation of a model's density; None for a point mass."""
    if model.density is None:
        return None
    rng = np.random.default_rng(random_state)
    factor = np.linalg.cholesky(model.density.covariance)
    steps = rng.standard_normal((n_draws, factor.shape[0])) @ factor.T
    means = mean_posterior(model, cell_weights(model.density.coefficients + steps))
    return PosteriorDraws(steps, means, rng.random((n_draws, 1)))


def size_draws(
    model: RowModel,
    confidence: float,
    max_size: int,
    random_state: int,
    n_draws: int = N_DRAWS,
    *,
    drawn: PosteriorDraws | None = None,
) -> FloatArray:
    """Return draws of the recommended size from its posterior, shape (n_draws,); infinity where above `max_size`.

    For each, a density is drawn from its Laplace approximation, then the rows' parameters from their
    posteriors under that density.  The share of rows that disagree is then a sum of independent terms,
    whose posterior is taken as a gamma distribution with the exact mean and variance.

    `drawn` are the :func:`draw_posteriors` of a model of the same density, where they are known already.
    """
    drawn = draw_posteriors(model, random_state, n_draws) if drawn is None else drawn
    if drawn is None:
        return np.ones(n_draws)
    sizes = odd_grid(max_size)
    disagreement = 1.0 - model.agreement_by_point(sizes)
    variance = _disagreement_variance(model, disagreement)
    mean = np.maximum(np.tensordot(drawn.means, disagreement, axes=([1], [1])), 1e-12)
    levels = drawn.levels
    shape, scale = mean**2 / variance, variance / mean
    # The share falls with the size.  A quantile takes ten times as long as a probability: only the two on both sides of
    # the wanted share are computed.
    is_below = levels <= gammainc(shape, (1.0 - confidence) / scale)
    first = np.argmax(is_below, axis=1)[:, None]
    around = np.hstack([np.maximum(first - 1, 0), first])
    shape, scale = (np.take_along_axis(each, around, axis=1) for each in (shape, scale))
    shares = np.asarray(gammaincinv(shape, levels) * scale)
    found = _size_between(sizes[around], shares, 1.0 - confidence)
    return np.where(is_below.any(axis=1), found, np.inf)


def spread_sizes(draws: FloatArray, log_sd: float, random_state: int) -> FloatArray:
    """Return drawn odd sizes, moved by a normal error of their logarithms; infinite ones stay.

    Examples
    --------
    >>> spread_sizes(np.array([11.0, np.inf]), 0.0, 0)
    array([11., inf])
    """
    noise = np.random.default_rng([random_state, draws.size]).standard_normal(draws.size)
    moved = draws * np.exp(log_sd * noise)
    return np.asarray(2.0 * np.maximum(np.round((moved - 1.0) / 2.0), 0.0) + 1.0)


def odd_grid(max_size: int) -> NDArray[np.int64]:
    """Return log-spaced odd sizes up to `max_size`."""
    return np.asarray(np.unique((np.geomspace(1, max_size, N_SIZES).astype(np.int64) - 1) // 2 * 2 + 1))


def _disagreement_variance(model: RowModel, disagreement: FloatArray) -> FloatArray:
    """Return the variance of the share of rows that disagree, given the posteriors of the rows, shape (n_sizes,)."""
    squares, means = np.split(group_means(model, np.concatenate([disagreement**2, disagreement])), 2)
    spread = squares - means**2
    return np.asarray(np.maximum(spread @ model.counts / model.counts.sum() ** 2, 1e-18))


def _size_between(sizes: NDArray[np.int64], shares: FloatArray, wanted: float) -> FloatArray:
    """Return the odd size at which a decreasing share falls to `wanted`, interpolated in logarithms.

    Parameters
    ----------
    sizes : ndarray of int, shape (n_draws, 2)
        The last size whose share is above `wanted`, and the next one; both the first one where its share is below.
    shares : ndarray, shape (n_draws, 2)
    wanted : float
    """
    high, low = np.log(np.maximum(shares, 1e-300)).T
    part = (high - np.log(wanted)) / np.maximum(high - low, 1e-12)
    log_size = np.log(sizes[:, 0]) + part * np.log(sizes[:, 1] / sizes[:, 0])
    between = 2.0 * np.ceil((np.exp(log_size) - 1.0) / 2.0 - 1e-9) + 1.0
    return np.where(sizes[:, 0] == sizes[:, 1], sizes[:, 0], between)


def size_interval(draws: FloatArray, level: float, max_size: int) -> tuple[int, int | None]:
    """Return the ends of the recommended size's interval: the lower at most `max_size`, the upper None if above it."""
    low, high = np.quantile(draws, [0.5 - level / 2, 0.5 + level / 2], method="inverted_cdf")
    return int(min(low, max_size)), None if np.isinf(high) else int(high)


def algorithmic_variance(
    outputs: NDArray[Any],
    counted: NDArray[np.bool_],
    slopes: FloatArray,
    own_variance: FloatArray,
    size: float,
    n_rows: float,
) -> float:
    r"""Return the variance over seeds of the mean loss of an ensemble of one size on these rows.

    Parameters
    ----------
    outputs : ndarray, shape (n_members, n_sampled)
        The output of each member whose mean determines the loss (support for a wrong label, margin,
        value), for a random subset of the rows.
    counted : ndarray of bool, shape (n_members, n_sampled)
        True where the output counts (the member is out of bag for the row; all for held-out rows).
    slopes : ndarray, shape (n_sampled,)
        Derivative of each row's expected loss in the ensemble's mean output, times the row's weight
        divided by the mean weight.
    own_variance : ndarray, shape (n_sampled,)
        Variance over seeds of each row's own loss at that size, times the square of that weight.
    size : float
        Ensemble size B.
    n_rows : float
        Number of rows of the whole data, of which the sampled ones are a random subset.

    Returns
    -------
    float
        :math:`\sum_{i \neq j} w_i w_j C_{ij} / (N^2 B) + \sum_i v_i / N^2`, C the covariance of two
        rows' outputs over members and v_i a row's own variance; at least 0.

    Notes
    -----
    Pairs are not formed: with the number of members out of bag for both rows approximated by
    :math:`n_i n_j / M`, the double sum is :math:`\sum_t S_t^2 / M` with one sum per member; the
    diagonal, whose count is exact, is corrected.  The approximation is exact on held-out rows.
    """
    n_members, n_sampled = outputs.shape
    member_sums = np.zeros(n_members)
    own_in_sums = 0.0
    for start in range(0, n_sampled, SUM_ROWS):
        rows = slice(start, start + SUM_ROWS)
        deviations, n, variance = _deviations(outputs[:, rows], counted[:, rows])
        scale = slopes[rows] * np.sqrt(n / (n - 1.0)) * n_members / n
        member_sums += deviations @ scale
        own_in_sums += float((slopes[rows] ** 2 * variance) @ (n_members / n))
    pairs = float(member_sums @ member_sums) / n_members - own_in_sums
    n_pairs = max(n_sampled * (n_sampled - 1.0), 1.0)
    between = max(pairs, 0.0) * (n_rows - 1.0) / n_rows / n_pairs / size
    return float(between + own_variance.mean() / n_rows)


def _deviations(outputs: NDArray[Any], counted: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return deviations from each row's mean over the outputs that count, the number of outputs, and their variance.

    Rows with fewer than two such outputs have deviations and variance 0, and 2 as their number.
    """
    n = np.count_nonzero(counted, axis=0).astype(np.float64)
    # In one memory order whatever that of the outputs, because rounding depends on the order.
    deviations = np.ascontiguousarray(np.where(counted, outputs, 0.0))
    deviations -= deviations.sum(axis=0) / np.maximum(n, 1.0)
    deviations *= counted
    deviations[:, n < 2] = 0.0
    n = np.maximum(n, 2.0)
    return deviations, n, np.einsum("ti,ti->i", deviations, deviations) / (n - 1.0)
