"""Doubts about a metric that depends on few rows of a label."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import UndefinedMetricWarning

from ens_plugin.analysis.metric_curves.metric_rows import MetricRows
from ens_plugin.core.validation import FloatArray, IntArray, shown

__all__ = ["FEWEST_OF_LABEL", "rare_label_doubts"]

FEWEST_OF_LABEL = 10


def rare_label_doubts(rows: MetricRows, interval: tuple[float, float]) -> tuple[str, ...]:
    """Return a doubt for each label whose few rows can move the metric further than its interval is wide.

    Bootstrap samples of three rows that are all predicted wrong have no spread, and the interval no width.  So the
    metric is also computed with the rows of a rare label all predicted right, and all wrong.

    Parameters
    ----------
    rows : MetricRows
        Rows of two labels or more.  Other metrics than those of labels and of ranks lead to no doubt.
    interval : tuple of two floats
        Of the metric.
    """
    if rows.metric.is_joint or not (rows.is_of_labels or rows.metric.compares_rows) or rows.linked.ndim != 2:
        return ()
    known = rows.known
    target, output = rows.sample.block.target[known], rows.linked[known]
    counts = np.bincount(target, minlength=output.shape[1])
    return tuple(
        doubt
        for code in np.flatnonzero((counts > 0) & (counts < FEWEST_OF_LABEL))
        for doubt in _doubt(rows, target, output, int(code), interval)
    )


def _doubt(
    rows: MetricRows, target: IntArray, output: FloatArray, code: int, interval: tuple[float, float]
) -> tuple[str, ...]:
    of_label = target == code
    others = np.bincount(target[~of_label], minlength=output.shape[1])
    right, wrong = output.copy(), output.copy()
    right[of_label] = np.eye(output.shape[1])[code]
    wrong[of_label] = np.eye(output.shape[1])[int(np.argmax(others))]
    with warnings.catch_warnings():
        # Without a row that is predicted to have a label, scikit-learn's precision is 0, with a warning.
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        worst, best = (rows.linked_value(changed, rows.known) for changed in (wrong, right))
    if abs(best - worst) <= interval[1] - interval[0]:
        return ()
    label = shown(rows.target[rows.known][of_label].tolist()[0])
    n_rows = int(np.count_nonzero(of_label))
    have = "row has" if n_rows == 1 else "rows have"
    return (
        f"Only {n_rows} out-of-bag {have} the label {label}, and the {rows.metric.name} depends on them: it is "
        f"{worst:.3g} if all of them are predicted wrong, and {best:.3g} if right. Add rows of that label.",
    )
