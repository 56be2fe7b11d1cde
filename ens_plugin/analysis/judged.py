"""Two models judged by the same rows."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.analysis.evidence import Evidence
from ens_plugin.analysis.metric_curves import bootstrap_counts
from ens_plugin.analysis.metric_rows import MetricRows, metric_rows
from ens_plugin.analysis.metric_seeds import metric_sd_over_seeds
from ens_plugin.analysis.metrics import ResolvedMetric
from ens_plugin.core.comparison import OUT_OF_BAG_FACTOR, Difference
from ens_plugin.errors import InputError

N_RESAMPLES = 400
# Jeffreys' prior of the mean of a Poisson count adds half a row to its variance.
PRIOR_ROWS = 0.5


class JudgedMetric(NamedTuple):
    """The rows that a metric of one ensemble is computed on.

    `seed_variance` is the variance of the metric over seeds, for its members of these rows.  `shift` is the metric of
    all members less that of each row's out-of-bag members; NaN where the first is infinite.
    """

    rows: MetricRows
    seed_variance: float
    shift: float


def judge_metric(
    adapter: EnsembleAdapter, evidence: Evidence, labels: NDArray[Any], metric: ResolvedMetric, error: float
) -> JudgedMetric:
    """Return the rows of a metric, from their out-of-bag members alone."""
    sample = evidence.rows_of_metric
    rows = metric_rows(metric, adapter, sample, labels[sample.rows])
    level = rows.linked_value(rows.linked[rows.known], rows.known)
    return JudgedMetric(rows, metric_sd_over_seeds(rows, None, np.random.default_rng(0)) ** 2, error - level)


def rows_of_both(candidate: JudgedMetric, baseline: JudgedMetric) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the places, in each of the two, of the rows that members of both predict, in the same order."""
    first, second = (judged.rows.sample.rows[judged.rows.known] for judged in (candidate, baseline))
    _, own, other = np.intersect1d(first, second, assume_unique=True, return_indices=True)
    return candidate.rows.known[own], baseline.rows.known[other]


def metric_difference(candidate: JudgedMetric, baseline: JudgedMetric, level: float) -> Difference:
    """Return by how much the candidate is worse than the baseline, at their own sizes, on the rows that both predict.

    The interval is from bootstrap samples of the rows, and includes the variance over seeds of both ensembles.  Why the
    variance may double out of bag is in ``docs/methods/comparison.md``.
    """
    if math.isnan(candidate.shift) or math.isnan(baseline.shift):
        raise InputError(
            f"The {candidate.rows.metric.name} of one of the ensembles is infinite at its size: all members give the "
            "labels of some rows probability 0. Its report states from which size on it is finite. Compare by "
            "'neg_brier_score', or train members whose leaves are not pure (min_samples_leaf)."
        )
    if math.isnan(candidate.seed_variance) or math.isnan(baseline.seed_variance):
        raise InputError(
            f"Nothing tells how the {candidate.rows.metric.name} of one of the ensembles varies over seeds: halves "
            "of its members have no value, are fewer than two members, or are not combined by their mean. Train more "
            "members, or compare by another metric."
        )
    places = rows_of_both(candidate, baseline)
    values = [
        judged.rows.of_counts(judged.rows.linked[here], here)
        for judged, here in zip((candidate, baseline), places, strict=True)
    ]
    sign = -1.0 if candidate.rows.metric.greater_is_better else 1.0

    def worse(counts: NDArray[np.float64]) -> float:
        return sign * (values[0](counts) - values[1](counts))

    rng = np.random.default_rng(0)
    draws = [worse(counts) for counts in bootstrap_counts(candidate.rows, places[0], N_RESAMPLES, rng)]
    variance = _row_factor(candidate.rows) * float(np.var(draws, ddof=1))
    variance += candidate.seed_variance + baseline.seed_variance
    if candidate.rows.is_of_labels and baseline.rows.is_of_labels:
        variance += _variance_of_unseen(candidate.rows, baseline.rows, places)
    estimate = worse(np.ones(places[0].size)) + sign * (candidate.shift - baseline.shift)
    reach = float(norm.ppf(0.5 + level / 2.0)) * np.sqrt(variance)
    return Difference(estimate, float(estimate - reach), float(estimate + reach))


def _variance_of_unseen(
    candidate: MetricRows, baseline: MetricRows, places: tuple[NDArray[np.intp], NDArray[np.intp]]
) -> float:
    """Return the variance of the difference that rows of a kind not among these rows may add."""
    # For each label and each ensemble, half a row of this label is assumed that this ensemble alone predicts right.
    pair = (candidate, baseline)
    outputs = [rows.linked[here] for rows, here in zip(pair, places, strict=True)]
    target = candidate.sample.block.target[places[0]].astype(np.intp)
    wrong = [_commonest_other(target, np.argmax(output, axis=1), candidate.sample.block.n_labels) for output in outputs]

    def level(right: int, row: int) -> float:
        own, other = np.eye(outputs[0].shape[1])[[target[row], wrong[1 - right][target[row]]]]
        first, second = (
            rows.linked_value(np.vstack([output, own if of == right else other]), np.append(here, here[row]))
            for of, (rows, output, here) in enumerate(zip(pair, outputs, places, strict=True))
        )
        return first - second

    without = [rows.linked_value(output, here) for rows, output, here in zip(pair, outputs, places, strict=True)]
    first_rows = np.unique(target, return_index=True)[1]
    changes = [level(right, row) - (without[0] - without[1]) for row in first_rows for right in (0, 1)]
    return PRIOR_ROWS * float(np.sum(np.square(changes)))


def _commonest_other(target: NDArray[np.intp], predicted: NDArray[np.intp], n_labels: int) -> NDArray[np.intp]:
    """Return, for each label, the one that is most often predicted in its place; without any, the most frequent one."""
    confused = np.zeros((n_labels, n_labels))
    np.add.at(confused, (target, predicted), 1.0)
    # Less than one row, so that it decides only where nothing else does.
    confused += np.bincount(target, minlength=n_labels) / (2.0 * target.size)
    np.fill_diagonal(confused, -1.0)
    return np.asarray(np.argmax(confused, axis=1))


def _row_factor(rows: MetricRows) -> float:
    """Return the factor from the variance over bootstrap samples to that over rows: losses out of bag go together."""
    return 1.0 if rows.is_of_labels or rows.sample.block.counted.all() else OUT_OF_BAG_FACTOR
