"""Outputs whose squared or logarithmic loss is the one expected of an ensemble of some size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ens_plugin.analysis.metric_curves.metric_rows import MetricRows
from ens_plugin.analysis.metrics.formulas import squared_error
from ens_plugin.core.estimates.log_loss import expected_log_loss, relative_variance
from ens_plugin.core.estimates.low_chances import CLIPPED_LOSS, none_of
from ens_plugin.core.validation import FloatArray, IntArray

__all__ = ["OUT_OF_BAG_INFLATION", "expected_outputs", "low_row_variance"]

# Rows that are not low have no probability of 0 with so many times their own members.
MOST_OF_ZEROS = 10.0
# Out of bag, losses are correlated in pairs, because rows trained members that predict each other.
OUT_OF_BAG_INFLATION = 1.1


def expected_outputs(rows: MetricRows, chosen: NDArray[np.intp], sizes: IntArray) -> Iterator[FloatArray]:
    """Yield, for each size, outputs whose loss is the one expected of that many members, for some rows.

    Parameters
    ----------
    rows : MetricRows
        Whose metric depends on squared or logarithmic losses of the rows only.
    chosen : ndarray of int, shape (n_chosen,)
        Positions of rows with members.
    sizes : ndarray of int, shape (n_sizes,)
    """
    return (_log_outputs if rows.losses == "log" else _squared_outputs)(rows, chosen, sizes)


def low_row_variance(rows: MetricRows, sizes: FloatArray) -> FloatArray:
    """Return what low rows add to the variance of a log loss at each size, infinity allowed.

    It is the variance by the power of their chances, and over samples of the rows by probabilities of 0, which the
    level of the curve is without.
    """
    known, low = rows.known, rows.low
    if not low.any():
        return np.zeros(sizes.size)
    by_power = rows.low_chances.log_losses(sizes).sum(axis=2).var(axis=0)
    codes = rows.sample.block.target.astype(np.intp)
    level = -np.log(np.maximum(rows.finite[known, codes[known]], np.exp(-CLIPPED_LOSS)))
    above = -np.log(rows.finite[low, codes[low]]) - level.mean()
    zeros = np.zeros((sizes.size, above.size))
    finite = np.isfinite(sizes)
    zeros[finite] = CLIPPED_LOSS * rows.low_chances.zero_chances(sizes[finite])
    of_samples = OUT_OF_BAG_INFLATION**2 * (zeros * (zeros + 2.0 * above)).sum(axis=1)
    # The metric is a multiple of the mean loss, but for a constant.
    lower = rows.finite[known] * np.exp(-1.0 / known.size)
    by_loss = rows.linked_value(lower, known) - rows.linked_value(rows.finite[known], known)
    return np.asarray(by_loss**2 * (by_power + np.maximum(of_samples, 0.0)))


def _squared_outputs(rows: MetricRows, chosen: NDArray[np.intp], sizes: IntArray) -> Iterator[FloatArray]:
    """Yield, for each size, outputs whose squared error is the mean over all subsets of that size.

    Of n members with mean m and variance s² (with divisor n - 1), that is (m - y)² + s² (1/size - 1/n).
    """
    n_labels, target = rows.sample.block.n_labels, rows.sample.block.target[chosen]
    trials = rows.trials[chosen]
    at_all = squared_error(target, rows.mean[chosen])
    variance = rows.squares[chosen] / np.maximum(trials - 1.0, 1.0)
    for size in sizes:
        expected = at_all + variance * np.maximum(1.0 / size - 1.0 / trials, 0.0)
        yield _outputs_with_error(target, np.maximum(expected, 0.0), n_labels)


def _log_outputs(rows: MetricRows, chosen: NDArray[np.intp], sizes: IntArray) -> Iterator[FloatArray]:
    """Yield, for each size, outputs with the log loss expected of that size; rows of one member add no variance."""
    codes, low = rows.sample.block.target[chosen].astype(np.intp), rows.low[chosen]
    losses = np.empty((sizes.size, codes.size))
    losses[:, ~low] = _losses_of_means(rows, chosen[~low], sizes)
    if low.any():
        losses[:, low] = _losses_of_low(rows, chosen[low], sizes)
    places = np.arange(codes.size)
    for loss in losses:
        outputs = np.zeros((codes.size, rows.sample.block.n_labels))
        outputs[places, codes] = np.exp(-loss)
        yield outputs


def _losses_of_means(rows: MetricRows, chosen: NDArray[np.intp], sizes: IntArray) -> FloatArray:
    """Return the expected log loss at each size, from beta distributions of the rows' mean probabilities.

    Rows whose label some member gives probability 0 have it from all of some ensembles.
    """
    trials, mean = rows.trials[chosen], np.minimum(rows.own_probability[chosen], 1.0)
    several = trials > 1
    variance = rows.own_squares[chosen[several]] / (trials[several] - 1.0)
    share = relative_variance(mean[several], variance, trials[several])
    losses = expected_log_loss(mean, trials, share, sizes)
    positive = rows.positive_members[chosen]
    some = positive < trials
    first, second = positive[some] + 1.0, trials[some] - positive[some] + 1.0
    for loss, size in zip(losses, sizes, strict=True):
        # A chance that is far below one in as many rows moves nothing.
        if size < MOST_OF_ZEROS * trials.max(initial=1.0):
            none = none_of(first, second, float(size))
            loss[some] += none * (CLIPPED_LOSS - loss[some])
    return losses


def _losses_of_low(rows: MetricRows, chosen: NDArray[np.intp], sizes: IntArray) -> FloatArray:
    """Return the expected log loss at each size of rows whose label few members give a probability above 0."""
    place = np.searchsorted(np.flatnonzero(rows.low), chosen)
    losses = rows.low_chances.log_losses(sizes).mean(axis=0)[:, place]
    return np.asarray(np.minimum(losses - np.log(rows.low_values[place]), CLIPPED_LOSS))


def _outputs_with_error(target: NDArray[np.generic], error: FloatArray, n_labels: int) -> FloatArray:
    """Return outputs with the given squared errors, over all labels where there are some."""
    if not n_labels:
        return np.asarray(target + np.sqrt(error))
    apart = np.sqrt(error / 2.0)
    codes = target.astype(np.intp)
    outputs = np.zeros((target.size, n_labels))
    places = np.arange(target.size)
    outputs[places, codes] = 1.0 - apart
    outputs[places, (codes + 1) % n_labels] += apart
    return outputs
