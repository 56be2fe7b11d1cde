"""Moments of a metric over bootstrap samples of the rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.analysis.metric_curves.expected_outputs import OUT_OF_BAG_INFLATION
from ens_plugin.analysis.metric_curves.metric_rows import MetricRows
from ens_plugin.analysis.metric_curves.rare_labels import FEWEST_OF_LABEL
from ens_plugin.analysis.metric_curves.subset_averages import SubsetAverages, end_outputs
from ens_plugin.core.validation import FloatArray

__all__ = ["Resampled", "bootstrap_counts", "resample_level", "resample_rows"]

N_RESAMPLES = 200
# More samples where a metric has a formula, so that few rows' skewness is known; so many rows are drawn in all.
MOST_RESAMPLES = 1000
ROWS_DRAWN = 2_000_000
# Bootstrap samples for the change between two sizes, each with two more calls of a metric without a formula.
N_STEPS = 60
MAX_TRIES = 20
# With fewer rows of a label that are predicted right, bootstrap samples have too little spread.  Labels of fewer rows
# than FEWEST_OF_LABEL lead to a doubt.
FEW_RIGHT = 5


@dataclass(frozen=True)
class Resampled:
    """Moments of the metric of all members over bootstrap samples of the rows.

    Attributes
    ----------
    sd : float
        Of out-of-bag rows 1.1 times that of the samples.
    skewness : float
        Shrunk towards 0 by its own noise: the skewness of n normal values has a standard error of about sqrt(6/n).
    step_variance : float
        Variance of the metric's change from half the largest subset to the largest, less its variance over orders.
    shared : float
        Covariance of the metric and that change.
    """

    sd: float
    skewness: float
    step_variance: float = 0.0
    shared: float = 0.0


def resample_level(rows: MetricRows, groups: NDArray[np.integer] | None, rng: np.random.Generator) -> Resampled:
    """Return the standard deviation and the skewness of the metric of all members over bootstrap samples."""
    known = rows.known
    level = rows.of_counts(rows.finite[known], known)
    codes = _codes(rows)
    n_levels, least = _n_levels(rows), _least(rows, codes[known])
    draws = (np.bincount(_draw(known, codes, least, groups, rng), minlength=codes.size)[known] for _ in range(n_levels))
    levels = np.array([level(counts.astype(np.float64)) for counts in draws])
    return _of_levels(rows, levels, _metrics_of_few_right(rows, groups, rng))


def resample_rows(
    rows: MetricRows,
    averages: SubsetAverages,
    groups: NDArray[np.integer] | None,
    rng: np.random.Generator,
) -> Resampled:
    """Return the moments, over bootstrap samples of rows, of the metric and of its change between two subset sizes."""
    known, codes = rows.known, _codes(rows)
    level = rows.of_counts(rows.finite[known], known)
    ends, usable = list(averages.ends), averages.rows
    small, large = end_outputs(rows, averages, rng)
    change = rows.change_of_counts(small, large, usable)
    least, inside_least = _least(rows, codes[known]), _least(rows, codes[usable])
    n_steps = N_STEPS if rows.formula is None else N_RESAMPLES
    levels, steps = np.empty(_n_levels(rows)), np.empty(n_steps)
    for index in range(levels.size):
        counts = np.bincount(_draw(known, codes, least, groups, rng), minlength=codes.size).astype(np.float64)
        levels[index] = level(counts[known])
        if index >= n_steps:
            continue
        inside = counts[usable]
        # Where a label is missing, rows are drawn anew, independent of the level; this is rare.
        if np.count_nonzero(np.bincount(codes[usable], weights=inside)) < inside_least:
            drawn = _draw(usable, codes, inside_least, groups, rng)
            inside = np.bincount(drawn, minlength=codes.size)[usable].astype(np.float64)
        steps[index] = change(counts, inside)
    shared = np.cov(levels[:n_steps], steps)
    contrast = np.array([-1.0, 1.0])
    one_order = float(contrast @ averages.covariance[np.ix_(ends, ends)] @ contrast)
    found = _of_levels(rows, levels, _metrics_of_few_right(rows, groups, rng))
    return Resampled(found.sd, found.skewness, max(float(shared[1, 1]) - one_order, 0.0), float(shared[0, 1]))


def bootstrap_counts(
    rows: MetricRows, chosen: NDArray[np.intp], n_draws: int, rng: np.random.Generator
) -> Iterator[FloatArray]:
    """Yield how often each of the `chosen` rows, by position, is in bootstrap samples of them that have every label."""
    codes = _codes(rows)
    least = _least(rows, codes[chosen])
    for _ in range(n_draws):
        yield np.bincount(_draw(chosen, codes, least, None, rng), minlength=codes.size)[chosen].astype(np.float64)


def _n_levels(rows: MetricRows) -> int:
    """Return the number of bootstrap samples on which the metric is computed."""
    if rows.formula is None:
        return N_RESAMPLES
    return int(np.clip(ROWS_DRAWN // rows.known.size, N_RESAMPLES, MOST_RESAMPLES))


def _metrics_of_few_right(
    rows: MetricRows, groups: NDArray[np.integer] | None, rng: np.random.Generator
) -> FloatArray | None:
    """Return draws of a metric of labels where hardly a row of some label is right; None elsewhere.

    Samples of rows that are all wrong have no spread.  The shares of a label's rows that are predicted to have each of
    K labels are therefore drawn from their posterior, a Dirichlet distribution with 1/K added to each number of rows.
    """
    formula, known = rows.formula, rows.known
    if formula is None or not rows.is_of_labels:
        return None
    n_labels = rows.sample.block.n_labels
    target, labels = rows.sample.block.target[known].astype(np.intp), np.argmax(rows.linked[known], axis=1)
    matrix = np.zeros((n_labels, n_labels))
    np.add.at(matrix, (target, labels), 1.0)
    has_rows = matrix.sum(axis=1) > 0
    is_few = (np.diag(matrix) < FEW_RIGHT) & (matrix.sum(axis=1) >= FEWEST_OF_LABEL)
    if not is_few.any():
        return None
    weight = np.bincount(target, None if rows.weight is None else rows.weight[known], n_labels)[has_rows]
    units = 1.0 if groups is None else np.unique(groups[known]).size / known.size
    shares = [rng.dirichlet(units * own + 1.0 / n_labels, N_RESAMPLES) for own in matrix[has_rows]]
    cells = np.repeat(np.flatnonzero(has_rows), n_labels)
    level = formula(cells, np.tile(np.eye(n_labels), (weight.size, 1)))
    drawn = np.stack(shares, axis=1) * weight[:, None]
    return np.array([level(own.reshape(-1)) for own in drawn])


def _of_levels(rows: MetricRows, levels: FloatArray, of_few_right: FloatArray | None) -> Resampled:
    """Return the moments of the metric by bootstrap sample, or of other draws of it that spread more."""
    widest = levels if of_few_right is None or of_few_right.std() <= levels.std() else of_few_right
    deviations, sd = widest - widest.mean(), float(widest.std(ddof=1))
    skewness = float(np.mean(deviations**3) / sd**3) if sd > 0 else 0.0
    # Within two standard errors of 0 it counts as 0; one that jumped there would depend on the random state.
    noise = 4.0 * 6.0 / widest.size
    inflation = 1.0 if rows.sample.block.counted.all() else OUT_OF_BAG_INFLATION
    return Resampled(inflation * sd, skewness * max(1.0 - noise / skewness**2, 0.0) if skewness else 0.0)


def _codes(rows: MetricRows) -> NDArray[Any]:
    block = rows.sample.block
    if block.n_labels:
        return block.target
    if rows.metric.is_joint:
        return np.zeros(block.target.size, dtype=np.int64)
    return np.unique(block.target, return_inverse=True)[1].reshape(-1)


def _least(rows: MetricRows, own: NDArray[Any]) -> int:
    """Return how many different labels or values a sample must have: all labels, or the two values that r2 needs."""
    n_present = int(np.count_nonzero(np.bincount(own)))
    return n_present if rows.sample.block.n_labels else min(n_present, 2)


def _draw(
    rows: NDArray[np.intp],
    codes: NDArray[Any],
    least: int,
    groups: NDArray[np.integer] | None,
    rng: np.random.Generator,
) -> NDArray[np.intp]:
    """Return a bootstrap sample of rows, or of groups, with at least so many different labels or values.

    A sample that has fewer is drawn again; after too many attempts, the rows of each are drawn separately.
    """
    own = codes[rows]
    members = None if groups is None else _rows_by_group(groups[rows])
    for _ in range(MAX_TRIES):
        if members is None:
            drawn = rng.integers(0, rows.size, size=rows.size)
        else:
            drawn = np.concatenate([members[index] for index in rng.integers(0, len(members), size=len(members))])
        if np.count_nonzero(np.bincount(own[drawn])) >= least:
            return np.asarray(rows[drawn])
    return np.concatenate(
        [rng.choice(rows[own == code], size=np.count_nonzero(own == code)) for code in np.unique(own)]
    )


def _rows_by_group(groups: NDArray[np.integer]) -> list[NDArray[np.int64]]:
    order = np.argsort(groups, kind="stable").astype(np.int64)
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)
