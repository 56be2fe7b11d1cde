r"""What single members add to a loss that is smooth in the mean of their outputs, by its curvature.

With the mean :math:`\bar h` of n outputs, :math:`d_m` the deviation of member m from it and H the second derivatives
of the loss at the mean, the loss of B members is that of the infinite ensemble plus V/B, up to terms in
:math:`1/B^2`, where V is the mean over the members of :math:`\frac12 d_m' H d_m \, n/(n - 1)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.comparison import influence_on_variance
from ens_plugin.core.validation import ROUNDING, FloatArray

# Of differences of losses, whose derivatives change over steps of 1, the relative error is about this, and rounding
# adds a share of its inverse square.
STEP = 1e-4
# Third derivatives are differences that are divided by its cube.
WIDE_STEP = 1e-2
MOST_DIRECTIONS = 2
MOST_LABELS = 20
# Few, so that they stay in a processor's cache.
CELLS_AT_ONCE = 2**15

Loss = Callable[[FloatArray], FloatArray]
LossOfRows = Callable[[slice], Loss]


def curvatures(loss: Loss, mean: FloatArray) -> FloatArray:
    """Return the second derivatives of each row's loss in its mean output, shape (n_labels, n_labels, n_rows)."""
    # They are from differences. `loss` returns the loss of each row from mean outputs, shape (n_rows, n_labels).
    n_rows, n_labels = mean.shape
    steps, found = STEP * np.eye(n_labels), np.empty((n_labels, n_labels, n_rows))
    here, moved = loss(mean), [loss(mean + step) for step in steps]
    for one in range(n_labels):
        for other in range(one + 1):
            both = loss(mean + steps[one] + steps[other])
            found[one, other] = found[other, one] = (both - moved[one] - moved[other] + here) / STEP**2
    return found


def curved_terms(curvature: FloatArray, deviations: list[FloatArray]) -> FloatArray:
    r"""Return :math:`\frac12 d_m' H d_m`, H the :func:`curvatures`, of each member and row: (n_members, n_rows)."""
    terms = np.zeros(deviations[0].shape)
    for label, own in enumerate(deviations):
        half = own * (0.5 * curvature[label, label])
        for other in range(label):
            half += deviations[other] * curvature[label, other]
        half *= own
        terms += half
    return terms


def terms_along(loss: Loss, mean: FloatArray, deviations: list[FloatArray]) -> FloatArray:
    """Return the terms of :func:`curved_terms` from differences along each member's own deviation."""
    # Fewer losses are computed than for all pairs of labels, where these are more than twice as many as the members.
    here, terms = loss(mean), np.empty(deviations[0].shape)
    for member, own in enumerate(terms):
        step = STEP * np.stack([deviation[member] for deviation in deviations], axis=1)
        own[:] = (loss(mean + step) + loss(mean - step) - 2.0 * here) / (2.0 * STEP**2)
    return terms


def mean_terms(loss_of: LossOfRows, outputs: NDArray[np.floating], counted: NDArray[np.bool_]) -> FloatArray:
    """Return V of each row, shape (n_rows,), of which at least two members count."""
    # `loss_of` returns the loss, a function as for curvatures, of a slice of the rows.
    found = np.empty(counted.shape[1])
    for rows in _slices(*counted.shape):
        mean, deviations = _deviations(outputs[:, rows], counted[:, rows])
        found[rows] = _terms(loss_of(rows), mean, deviations).sum(axis=0)
    return np.asarray(found / (np.count_nonzero(counted, axis=0) - 1.0))


def terms_of_variance(loss: Loss, mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Return what :func:`mean_terms` does of one output by member, from mean and variance (ddof 1) over members."""
    return np.asarray(0.5 * curvatures(loss, mean)[0, 0] * variance)


def shared_terms(
    loss_of: LossOfRows, outputs: NDArray[np.floating], counted: NDArray[np.bool_], weight: FloatArray
) -> tuple[FloatArray, float]:
    r"""Return V of each row, and the variance of its mean by the members that were trained, as far as rows share it.

    The latter is :math:`\sum_t [(\sum_i e_{ti})^2 - \sum_i e_{ti}^2] / N^2`, at least 0, with the influence
    :math:`e_{ti}` of member t on V of row i: its own term less the mean, and its deviation times the slope of the
    curvature.
    """
    n_members, n_rows = counted.shape
    variance, sums, squares = np.empty(n_rows), np.zeros(n_members), 0.0
    relative = weight / weight.mean()
    for rows in _slices(n_members, n_rows):
        mean, deviations = _deviations(outputs[:, rows], counted[:, rows])
        influence = _terms(loss_of(rows), mean, deviations)
        trials = np.count_nonzero(counted[:, rows], axis=0).astype(np.float64)
        variance[rows] = influence.sum(axis=0) / (trials - 1.0)
        influence -= influence.sum(axis=0) / trials
        influence *= influence_on_variance(trials) * counted[:, rows]
        for slope, deviation in zip(_slopes(loss_of(rows), mean, deviations, trials), deviations, strict=False):
            influence += deviation * slope
        influence *= relative[rows] / np.sqrt(trials * (trials - 1.0))
        sums += influence.sum(axis=1)
        squares += float(np.einsum("mr,mr->", influence, influence))
    pairs = max(float(sums @ sums) - squares, 0.0)
    return variance, pairs / n_rows**2 if n_rows > 1 else 0.0


def _slices(n_members: int, n_rows: int) -> Iterator[slice]:
    height = max(CELLS_AT_ONCE // n_members, 1)
    return (slice(start, start + height) for start in range(0, n_rows, height))


def _deviations(outputs: NDArray[np.floating], counted: NDArray[np.bool_]) -> tuple[FloatArray, list[FloatArray]]:
    """Return the mean of the members that count, (n_rows, n_labels), and for each label their deviations, else 0."""
    # In one order of memory: that of a sum's terms would follow it, and differences of losses magnify rounding.
    counts, means, deviations = counted.astype(np.float64, order="C"), list[FloatArray](), list[FloatArray]()
    trials = counts.sum(axis=0)
    for label in range(outputs.shape[2]):
        own = np.multiply(outputs[:, :, label], counts, order="C")
        means.append(own.sum(axis=0) / trials)
        own -= means[-1] * counts
        deviations.append(own)
    return np.stack(means, axis=1), deviations


def _terms(loss: Loss, mean: FloatArray, deviations: list[FloatArray]) -> FloatArray:
    """Return the terms of all members by the way that computes fewer losses, shape (n_members, n_rows)."""
    n_labels = len(deviations)
    if n_labels * (n_labels + 1) // 2 > 2 * deviations[0].shape[0]:
        return terms_along(loss, mean, deviations)
    return curved_terms(curvatures(loss, mean), deviations)


def _slopes(loss: Loss, mean: FloatArray, deviations: list[FloatArray], trials: FloatArray) -> FloatArray:
    """Return the slopes of the curvature, (n_labels, n_rows); none of many labels, where rows share little."""
    if len(deviations) > MOST_LABELS:
        return np.empty((0, trials.size))
    covariance = np.array([[(one * other).sum(axis=0) for other in deviations] for one in deviations])
    return curvature_slopes(loss, mean, (covariance / (trials - 1.0)).transpose(2, 0, 1)).T


def curvature_slopes(loss: Loss, mean: FloatArray, covariance: FloatArray) -> FloatArray:
    """Return by how much half the curvature over a covariance changes with the mean output, shape (n_rows, n_labels).

    Members that happen to be trained change V through the curvature at their mean, too.  The covariance is that of the
    outputs of one member, by row; its two largest components are used.
    """
    lengths, directions = np.linalg.eigh(covariance)
    slopes, here = np.zeros(mean.shape), 2.0 * _gradient(loss, mean)
    for place in range(-1, -min(MOST_DIRECTIONS, mean.shape[1]) - 1, -1):
        # The scores of two labels may be each other's negative, and have one direction.
        if lengths[:, place].max() <= ROUNDING * lengths[:, -1].max():
            break
        step = WIDE_STEP * directions[:, :, place]
        second = _gradient(loss, mean + step) + _gradient(loss, mean - step) - here
        slopes += 0.5 * np.maximum(lengths[:, place, None], 0.0) * second / WIDE_STEP**2
    return slopes


def _gradient(loss: Loss, mean: FloatArray) -> FloatArray:
    here = loss(mean)
    return np.stack([(loss(mean + step) - here) / WIDE_STEP for step in WIDE_STEP * np.eye(mean.shape[1])], axis=1)
