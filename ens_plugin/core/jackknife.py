"""The variance of predictions and errors, by jackknives over rows and over members."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.core.margins import fit_margins
from ens_plugin.core.tally import count_members
from ens_plugin.core.validation import FloatArray
from ens_plugin.core.weights import RowWeight, as_row_weight

FEWEST_MEMBERS = 4
COLUMNS = 2048


@dataclass(frozen=True, eq=False)
class SquaredCovariance:
    """Sum over training rows of the squared covariance, over members, of a row's variable with the prediction.

    Attributes
    ----------
    raw : ndarray of float64, shape (n_predictions,)
        Sum of the members' squared sample covariances: too large by their noise, however many rows there are.
    unbiased : ndarray of float64, shape (n_predictions,)
        Estimate whose expectation is the sum for infinitely many members; may be negative.
    noise : ndarray of float64, shape (n_predictions,)
        Standard deviation of `unbiased` over members, as if the variables were independent of each other.
    """

    raw: FloatArray
    unbiased: FloatArray
    noise: FloatArray


def squared_covariance(variables: NDArray[np.number], predictions: FloatArray, scale: FloatArray) -> SquaredCovariance:
    """Return the sums of squared covariances of row variables with predictions, with and without the members' noise."""
    # A variable of each training row is drawn anew for each member: the row's count in the member's bag, for example;
    # `scale` is its factor. The unbiased sum is the U-statistic of L. Song et al. (2012), *Feature selection via
    # dependence maximization*, JMLR 13, eq. 4, with linear kernels. For kernels centred over members, row sums without
    # the diagonal are the negative diagonal, so that no array of shape (n_members, n_members) is made.
    n_members, n_rows = variables.shape
    deviation = predictions - predictions.mean(axis=0)
    raw, norm = np.zeros(predictions.shape[1]), np.zeros(n_members)
    for start in range(0, n_rows, COLUMNS):
        rows = slice(start, start + COLUMNS)
        centred = variables[:, rows] * scale[rows]
        centred -= centred.mean(axis=0)
        raw += np.square(deviation.T @ centred / n_members).sum(axis=1)
        norm += np.square(centred).sum(axis=1)
    square = deviation**2
    pairs = n_members**2 * raw - norm @ square
    unbiased = (
        pairs
        + norm.sum() * square.sum(axis=0) / ((n_members - 1) * (n_members - 2))
        - 2 / (n_members - 2) * (norm @ square)
    ) / (n_members * (n_members - 3))
    return SquaredCovariance(raw, unbiased, _noise(norm, square, unbiased, n_rows))


def left_out_covariances(
    variables: NDArray[np.number], predictions: FloatArray, used: NDArray[np.bool_], scale: FloatArray, n_parts: int
) -> FloatArray:
    """Return the unbiased sums of :func:`squared_covariance` of some members for each prediction, and with fewer."""
    # `used`, shape (n_members, n_predictions), says which members count: of a training row, those that were trained
    # without it. Every `n_parts`-th member is in one part; the sums are of all members used, then without each part,
    # with NaN where fewer than 4 members are left. Sums over the members of each part are added up once, and those of a
    # part are subtracted to leave it out.
    n_members, n_rows = variables.shape
    # By powers 0, 1 and 2 of the predictions, which are centred to lose no digits.
    known = used.astype(np.float64)
    values = (predictions - predictions.mean(axis=0)) * known
    powers = np.stack([known, values, values**2])
    parts = [slice(one, None, n_parts) for one in range(n_parts)]
    width = max(COLUMNS // (n_parts + 1), 1)
    norm = np.zeros(n_members)
    raw, mean_norm, crossed = np.zeros((3, n_parts + 1, predictions.shape[1]))
    moments = _without_parts(np.array([powers[:, part].sum(axis=1) for part in parts]))
    count, total, _ = moments
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = total / count
        for start in range(0, n_rows, width):
            columns = slice(start, start + width)
            scaled = variables[:, columns] * scale[columns]
            norm += np.square(scaled).sum(axis=1)
            sums = np.array([[power[part].T @ scaled[part] for power in powers] for part in parts])
            drawn, first, second = _without_parts(sums)
            of_columns, center = drawn / count[..., None], mean[..., None]
            raw += np.square((first - center * drawn) / count[..., None]).sum(axis=2)
            mean_norm += np.square(of_columns).sum(axis=2)
            crossed += np.sum(of_columns * (second - 2 * center * first + center**2 * drawn), axis=2)
        norms = _without_parts(np.array([np.einsum("pmr,m->pr", powers[:, part], norm[part]) for part in parts]))
        square = moments[2] - mean**2 * count
        norm_square = norms[2] - 2 * mean * norms[1] + mean**2 * norms[0] - 2 * crossed + mean_norm * square
        pairs = count**2 * raw - norm_square
        spread = (norms[0] - count * mean_norm) * square / ((count - 1) * (count - 2))
        found = (pairs + spread - 2 / (count - 2) * norm_square) / (count * (count - 3))
    found[count < FEWEST_MEMBERS] = np.nan
    return np.asarray(found)


def variance_over_seeds(predictions: FloatArray) -> FloatArray:
    """Return the variance of the mean prediction over seeds, given the training set, shape (n_predictions,)."""
    spread: FloatArray = predictions.var(axis=0, ddof=1) / predictions.shape[0]
    return spread


def _without_parts(sums: FloatArray) -> FloatArray:
    """Return sums over all parts, then over all but each, with the first two axes exchanged."""
    total = sums.sum(axis=0)
    return np.asarray(np.concatenate([total[None], total - sums]).swapaxes(0, 1))


def _noise(norm: FloatArray, square: FloatArray, unbiased: FloatArray, n_rows: int) -> FloatArray:
    n_members = norm.size
    row_variance = norm.sum() / (n_rows * (n_members - 1))
    spread = row_variance * square.sum(axis=0) / (n_members - 1) / n_members
    noise: FloatArray = np.sqrt(2 * n_rows * spread**2 + 4 * spread * np.maximum(unbiased, 0))
    return noise


N_GROUPS = 8


def left_out_sd(
    margins: FloatArray, counted: NDArray[np.bool_], weight: ArrayLike | RowWeight, sizes: ArrayLike
) -> FloatArray:
    r"""Return the standard deviation, over draws of the members, of a fitted margin model's errors, by size.

    The delete-a-group jackknife, :math:`\sqrt{\frac{G-1}{G} \sum_g (\theta_{(g)} - \bar\theta)^2}` (J. Shao, D. Tu
    1995, The Jackknife and Bootstrap, section 5.1).  Unlike a linear expansion it holds where a few members of extreme
    scores move many rows at once.  It is 0 for fewer than 4 members.  Of more than 2000 rows, nearly equal ones are
    fitted together, as in the fit of all members.
    """
    wanted = np.asarray(sizes, dtype=np.float64)
    n_members = margins.shape[0]
    # Two members in a group, and two outside it.
    if n_members < FEWEST_MEMBERS:
        return np.zeros(wanted.size)
    n_groups, row_weight = min(N_GROUPS, n_members // 2), as_row_weight(weight, margins.shape[1])
    parts = np.array([_sums(margins[one::n_groups], counted[one::n_groups]) for one in range(n_groups)])
    errors = [_error(sums, row_weight, wanted) for sums in parts.sum(axis=0) - parts]
    return np.asarray(np.sqrt(len(errors) - 1.0) * np.std(errors, axis=0))


def _sums(margins: FloatArray, counted: NDArray[np.bool_]) -> FloatArray:
    """Return the number of members that count, and their summed margins and squared margins, shape (3, n_rows)."""
    # Margins are finite, so that a product with the mask drops those that do not count.
    known = margins * counted
    return np.array([count_members(counted), known.sum(axis=0), np.einsum("mr,mr->r", known, known)])


def _error(sums: FloatArray, weight: RowWeight, sizes: FloatArray) -> FloatArray:
    used = (sums[0] >= 2) & (weight.total > 0)
    if not used.any():
        return np.zeros(sizes.size)
    trials, total, squares = sums[:, used]
    mean = total / trials
    variance = np.maximum(squares - trials * mean**2, 0.0) / (trials - 1.0)
    return fit_margins(mean, np.sqrt(variance), trials, weight.select(used)).error(sizes)
