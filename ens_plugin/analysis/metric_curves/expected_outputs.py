"""Outputs whose squared or logarithmic loss is the one expected of an ensemble of some size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ens_plugin.analysis.metric_curves.metric_rows import MetricRows
from ens_plugin.analysis.metrics.formulas import squared_error
from ens_plugin.core.estimates.log_loss import expected_log_loss, relative_variance
from ens_plugin.core.validation import FloatArray, IntArray

__all__ = ["expected_outputs"]


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
    codes, trials = rows.sample.block.target[chosen].astype(np.intp), rows.trials[chosen]
    mean = np.minimum(rows.own_probability[chosen], 1.0)
    several = trials > 1
    variance = rows.own_squares[chosen[several]] / (trials[several] - 1.0)
    share = relative_variance(mean[several], variance, trials[several])
    places = np.arange(codes.size)
    for loss in expected_log_loss(mean, trials, share, sizes):
        outputs = np.zeros((codes.size, rows.sample.block.n_labels))
        outputs[places, codes] = np.exp(-loss)
        yield outputs


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
