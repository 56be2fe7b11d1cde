"""The variance of a metric over seeds, from halves of the members."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ens_plugin.analysis.metric_rows import MetricRows
from ens_plugin.core.jackknife import FEWEST_MEMBERS
from ens_plugin.core.seed_variance import LEAST_OWN_PART, OWN_PART
from ens_plugin.core.validation import BoolArray, FloatArray, IntArray, row_parts

# With 16 the estimate is noisier, and on fresh rows higher for it.
N_SPLITS = 24


def metric_sd_over_seeds(rows: MetricRows, groups: NDArray[np.integer] | None, rng: np.random.Generator) -> float:
    r"""Return the standard deviation over seeds of a metric of the whole ensemble; NaN where it is not known.

    For held-out rows it is that of the metric on these rows; for out-of-bag rows, on infinitely many new rows.  The
    variance is :math:`v = \mathrm{E}(\theta' - \theta'')^2 / 4`, of the metrics of two halves of the members.  Halves
    of each row's own give its own luck u.  On new rows it is :math:`\max(v - u + 0.8 f u, 0.25 f u)`, with f the share
    of the members that are out of bag for a row (``docs/methods/metrics.md``, over seeds).
    """
    n_members = rows.sample.block.counted.shape[0]
    if n_members < FEWEST_MEMBERS or rows.combine is not None:
        return float("nan")
    first = np.argsort(rng.random((N_SPLITS, n_members)), axis=1) < n_members // 2
    sums, counts = _sums_by_half(rows, first)
    together = _variance([_difference(rows, sums[:, split], counts[:, split]) for split in range(N_SPLITS)])
    if rows.sample.block.counted.all():
        return float(np.sqrt(together))
    own_splits = _splits_of_rows(rows, groups, rng)
    separate = _variance([_difference(rows, _of_split(sums, own), _of_split(counts, own)) for own in own_splits])
    if np.isnan(together) or np.isnan(separate):
        return float("nan")
    # Of the pairs of rows with splits of their own, one in N_SPLITS has the same.
    own = max((N_SPLITS * separate - together) / (N_SPLITS - 1.0), 0.0)
    own_at_size = own * float(rows.trials[rows.known].mean()) / n_members
    return float(np.sqrt(max(together - own + OWN_PART * own_at_size, LEAST_OWN_PART * own_at_size)))


def with_linear_logarithm(output: FloatArray, whole: FloatArray) -> FloatArray:
    """Return probabilities whose logarithms differ from those of `whole` by as much as their first derivative."""
    # Where a few members alone predict the label of a row, its probability without them is 0, and its logarithm would
    # outweigh all other rows: the variance would be that of this row in place of the ensemble's.
    positive = whole > 0.0
    change = np.where(positive, output / np.where(positive, whole, 1.0) - 1.0, 0.0)
    return np.asarray(np.minimum(whole * np.exp(change), 1.0))


def _variance(differences: list[float]) -> float:
    """Return the variance at the whole size from differences of halves; NaN where most have no value."""
    if np.isnan(differences).mean() > 0.5:
        return float("nan")
    return float(np.nanmean(np.square(differences))) / 4.0


def _splits_of_rows(rows: MetricRows, groups: NDArray[np.integer] | None, rng: np.random.Generator) -> IntArray:
    """Return a split for each row or group, as often as there are splits, each time the next; shape (24, n_rows)."""
    n_rows = rows.sample.block.counted.shape[1]
    unit = np.arange(n_rows) if groups is None else np.unique(groups, return_inverse=True)[1].reshape(-1)
    start = rng.integers(0, N_SPLITS, int(unit.max()) + 1)[unit]
    return np.asarray((start + np.arange(N_SPLITS)[:, None]) % N_SPLITS)


def _of_split(values: FloatArray, split: IntArray) -> FloatArray:
    """Return the values of one split for each row, from values of shape (2, n_splits, n_rows, ...)."""
    # On a flat axis, take is three times as fast as two indices.
    flat = values.reshape(2, -1, *values.shape[3:])
    return flat.take(split * split.size + np.arange(split.size), axis=1)


def _sums_by_half(rows: MetricRows, first: BoolArray) -> tuple[FloatArray, FloatArray]:
    """Return the summed outputs and the numbers of members of both halves of each split."""
    taken = np.vstack([first, np.ones(first.shape[1], dtype=np.bool_)]).astype(np.float64)
    parts = [
        (taken @ values.reshape(values.shape[0], -1), taken @ counted) for values, counted in _counted_outputs(rows)
    ]
    sums, counts = (np.concatenate(found, axis=1) for found in zip(*parts, strict=True))
    halves = np.stack([sums[:-1], sums[-1] - sums[:-1]]).reshape(2, -1, *rows.mean.shape)
    return halves, np.stack([counts[:-1], counts[-1] - counts[:-1]])


def _counted_outputs(rows: MetricRows) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield the outputs of some rows at a time, 0 where a member does not count, and 1 where it does."""
    block, is_values = rows.sample.block, rows.mean.ndim == rows.sample.block.outputs.ndim - 1
    for part in row_parts(rows.mean.shape[0]):
        outputs, counted = block.outputs[:, part], block.counted[:, part].astype(np.float64)
        values = outputs if is_values else outputs[..., None] == np.arange(block.n_labels)
        yield values * counted.reshape(*counted.shape, *(1,) * (values.ndim - 2)), counted


def _difference(rows: MetricRows, sums: FloatArray, counts: FloatArray) -> float:
    """Return the metric of the first halves less that of the second; NaN where it has no value."""
    known = np.flatnonzero(counts.min(axis=0) > 0)
    if not _has_value(rows, known):
        return float("nan")
    per_row = counts[:, known].reshape(2, known.size, *(1,) * (sums.ndim - 2))
    outputs = [rows.inverse_link(mean) for mean in sums[:, known] / per_row]
    if rows.losses == "log":
        outputs = [with_linear_logarithm(output, rows.linked[known]) for output in outputs]
    first, second = (rows.linked_value(output, known) for output in outputs)
    return first - second


def _has_value(rows: MetricRows, chosen: NDArray[np.intp]) -> bool:
    """Return whether some rows have all labels, or of a target of values two, without which r2 has no value."""
    target, n_labels = rows.sample.block.target, rows.sample.block.n_labels
    if not n_labels:
        return chosen.size > 0 and (np.ptp(target[chosen]) > 0 or np.ptp(target[rows.known]) == 0)
    present, left = (np.bincount(target[own].astype(np.intp), minlength=n_labels) > 0 for own in (rows.known, chosen))
    return bool((left >= present).all())
