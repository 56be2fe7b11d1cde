"""The time that the evaluations of a metric take, before they are made."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.analysis.metric_curves.metric_rows import metric_rows
from ens_plugin.analysis.metrics.resolved import ResolvedMetric
from ens_plugin.analysis.row_blocks import BlockReader
from ens_plugin.analysis.rows.targets import encode_target, target_array
from ens_plugin.core.tallies.bags import Bags
from ens_plugin.errors import InputError

__all__ = ["metric_seconds_per_row"]

PILOT_ROWS = (256, 2048)
# 30 random orders of the members at about 16 sizes, 320 evaluations for the interval, and 96 for the spread over seeds.
N_EVALUATIONS = 900


def metric_seconds_per_row(
    adapter: EnsembleAdapter,
    features: Any,
    bags: Bags,
    y: Any,
    metric: ResolvedMetric,
    *,
    enough: float,
    rng: np.random.Generator,
) -> float:
    """Return the estimated seconds for each row of all evaluations of a metric, from one evaluation on a few rows.

    0 where the metric cannot be computed on them; the analysis then shows whether it can be on all rows.

    Parameters
    ----------
    adapter : EnsembleAdapter
    features : prepared rows
        All training rows.
    bags : Bags
    y : array-like, shape (n_rows,) or (n_rows, n_outputs)
    metric : ResolvedMetric
    enough : float
        Seconds after which no larger sample is tried.
    rng : numpy Generator
    """
    labels, pace = target_array(y), 0.0
    # Of several outputs, the adapter is that of the first; each is evaluated alone and in the mean.
    n_times = 1 if labels.ndim == 1 or labels.shape[1] == 1 else 2 * labels.shape[1]
    labels = labels[:, 0] if labels.ndim == 2 else labels
    target = encode_target(adapter, labels)
    for size in PILOT_ROWS:
        rows = np.sort(rng.choice(target.size, min(size, target.size), replace=False))
        start = time.perf_counter()
        try:
            elapsed = _seconds_of_one(adapter, features[rows], bags.take(rows), labels[rows], target[rows], metric)
        except InputError:
            # Few rows may lack a label.
            continue
        pace = n_times * N_EVALUATIONS * elapsed / rows.size
        if rows.size < size or time.perf_counter() - start > enough:
            break
    return pace


def _seconds_of_one(
    adapter: EnsembleAdapter,
    features: Any,
    bags: Bags,
    labels: NDArray[Any],
    target: NDArray[Any],
    metric: ResolvedMetric,
) -> float:
    everything = slice(0, target.size)
    reader = BlockReader(adapter, features, bags, target, np.ones(target.size), np.arange(target.size), with_path=False)
    rows = metric_rows(metric, adapter, reader.read(everything).sample, labels)
    known = rows.known
    output = rows.linked[known]
    start = time.perf_counter()
    rows.linked_value(output, known)
    return time.perf_counter() - start
