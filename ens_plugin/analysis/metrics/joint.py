"""The mean over several outputs of a metric of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.analysis.metrics.resolved import ResolvedMetric
from ens_plugin.records import record

__all__ = ["OutputMetric", "mean_over_outputs"]


@record
class OutputMetric:
    """The metric of one output, and the rows of this output.

    Attributes
    ----------
    metric : ResolvedMetric
    labels : ndarray, shape (n_rows,)
        Target of this output as the metric takes it.
    n_labels : int
        0 for values.
    """

    metric: ResolvedMetric
    labels: NDArray[Any]
    n_labels: int


def mean_over_outputs(outputs: Sequence[OutputMetric]) -> ResolvedMetric:
    """Return the mean of the outputs' metrics, as a metric of rows that are those of all outputs, one after the other.

    In place of y it takes the positions of these rows, shape (n_rows, 1).

    Parameters
    ----------
    outputs : sequence of OutputMetric
        Of the same metric, one for each output.

    Examples
    --------
    >>> def largest(y, mean):
    ...     return float(np.abs(y - mean).max())
    >>> one = ResolvedMetric("largest", lambda y, mean, weight: largest(y, mean), False, 0.0, np.inf, False, False)
    >>> joint = mean_over_outputs([OutputMetric(one, np.zeros(2), 0), OutputMetric(one, np.ones(3), 0)])
    >>> joint.value(np.arange(5)[:, None], np.array([1.0, 0.0, 1.0, 1.0, 4.0]))
    2.0
    """
    starts = np.cumsum([0, *(output.labels.shape[0] for output in outputs)])

    def evaluate(positions: NDArray[Any], mean: NDArray[Any], weight: NDArray[Any] | None) -> float:
        place = positions[:, 0]
        values = []
        for output, start, stop in zip(outputs, starts[:-1], starts[1:], strict=True):
            here = np.flatnonzero((place >= start) & (place < stop))
            own = mean[here, : output.n_labels] if mean.ndim == 2 and output.n_labels else mean[here]
            values.append(
                output.metric.value(output.labels[place[here] - start], own, None if weight is None else weight[here])
            )
        return float(np.mean(values))

    def chance(positions: NDArray[Any], weight: NDArray[Any] | None) -> float:
        place, levels = positions[:, 0], []
        for output, start, stop in zip(outputs, starts[:-1], starts[1:], strict=True):
            here = np.flatnonzero((place >= start) & (place < stop))
            own = None if weight is None else weight[here]
            levels.append(output.metric.chance_level(output.labels[place[here] - start], own))
        return float(np.mean(levels))

    first = outputs[0].metric
    labels = {output.metric.positive_label for output in outputs}
    return ResolvedMetric(
        name=first.name,
        evaluate=evaluate,
        greater_is_better=first.greater_is_better,
        lowest=min(output.metric.lowest for output in outputs),
        highest=max(output.metric.highest for output in outputs),
        is_absolute=first.is_absolute,
        takes_weights=first.takes_weights,
        is_joint=True,
        chance=None if first.chance is None else chance,
        positive_label=labels.pop() if len(labels) == 1 else None,
    )
