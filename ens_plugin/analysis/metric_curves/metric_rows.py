"""The rows that a metric is computed on, and its averages over subsets of their members."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.adapters.capabilities import CombinesMembers
from ens_plugin.analysis.metrics.formulas import Formula, OfWeights, find_formula, of_labels, squared_error
from ens_plugin.analysis.metrics.resolved import ResolvedMetric
from ens_plugin.core.estimates.extrapolation import subset_sizes
from ens_plugin.core.estimates.log_loss import expected_log_loss, relative_variance
from ens_plugin.core.tallies.subsets import (
    Combine,
    Sample,
    combined_outputs,
    subset_combinations,
    subset_mean_orders,
    subset_means,
)
from ens_plugin.core.validation import FloatArray, IntArray
from ens_plugin.errors import TooFewMembersError

__all__ = ["MetricRows", "SubsetAverages", "end_outputs", "largest_subsets", "metric_rows", "subset_averages"]

# The noise of the orders falls with the rows, as that of the metric does.
N_ORDERS, FEWEST_ORDERS = 30, 8
ROWS_OF_ORDERS = 200_000
MIN_LIMIT = 3
# Sizes beyond the largest subset at which an expected loss is computed.
FARTHEST, N_BEYOND = 100_000, 24


@dataclass(frozen=True, eq=False)
class MetricRows:
    """The rows that a metric is computed on.

    Attributes
    ----------
    metric : ResolvedMetric
    sample : Sample
    target : ndarray, shape (n_sampled,)
        As the user gave it.
    inverse_link : callable
        Returns probabilities or values for mean outputs.
    weight : ndarray, shape (n_sampled,), or None
        None where all rows count the same, or the metric takes no weights.
    combine : callable or None
        What members predict together, where that is not their mean.
    formula : Formula or None
        Of the metric, where one is known.
    losses : str
        ``"squared"`` or ``"log"`` where the metric depends on the outputs through these losses of the rows only, before
        any inverse link; else empty.
    is_of_labels : bool
        Whether it is a scorer that depends on the labels with the largest output only.
    """

    metric: ResolvedMetric
    sample: Sample
    target: NDArray[Any]
    inverse_link: Callable[[FloatArray], FloatArray]
    weight: FloatArray | None
    combine: Combine | None = field(default=None, kw_only=True)
    formula: Formula | None = field(default=None, kw_only=True)
    losses: str = field(default="", kw_only=True)
    is_of_labels: bool = field(default=False, kw_only=True)

    def recognised(self, classes: NDArray[np.generic] | None) -> MetricRows:
        """Return the same rows with the formula of the metric, if one is known."""
        known = self.known
        mean, linked = self.mean[known], self.linked[known]
        weight = None if self.weight is None else self.weight[known]
        found = None
        if self.sample.block.n_labels == 0 or linked.ndim == 2:
            found = find_formula(self.metric, self.target[known], self.sample.block.target[known], linked, weight)
        if found is not None:
            of_means = self.combine is None and np.array_equal(linked, mean)
            return replace(self, formula=found[0], losses=found[1] if of_means else "")
        if not self._is_of_labels(linked, known):
            return self
        is_weighted = self.metric.takes_weights and classes is not None
        formula = of_labels(self.metric, classes) if is_weighted and classes is not None else None
        return replace(self, formula=formula, is_of_labels=True)

    def without_members(self, left_out: NDArray[np.bool_]) -> MetricRows:
        """Return the same rows with the other members only; `left_out` has shape (n_members,)."""
        block = self.sample.block
        others = replace(block, outputs=block.outputs[~left_out], counted=block.counted[~left_out])
        return replace(self, sample=replace(self.sample, block=others))

    @cached_property
    def mean(self) -> FloatArray:
        """Return the mean output of each row over its members, or what else they predict together."""
        if self.combine is not None:
            return combined_outputs(self.sample.block, self.combine)
        return self.sample.mean_outputs()

    @cached_property
    def linked(self) -> FloatArray:
        """Return the probabilities or values for the mean outputs."""
        return self.inverse_link(self.mean)

    @cached_property
    def known(self) -> NDArray[np.intp]:
        """Return the positions of the rows with members."""
        return np.flatnonzero(self.sample.block.counted.any(axis=0))

    def value(self, mean: FloatArray, rows: NDArray[np.intp]) -> float:
        """Return the metric of some rows by their mean outputs, before the inverse link."""
        return self.linked_value(self.inverse_link(mean), rows)

    def linked_value(self, output: FloatArray, rows: NDArray[np.intp]) -> float:
        """Return the metric of some rows by their probabilities or values."""
        if self.formula is not None:
            return self.of_counts(output, rows)(np.ones(rows.size))
        return self.metric.value(self.target[rows], output, None if self.weight is None else self.weight[rows])

    def library_warnings(self) -> tuple[str, ...]:
        """Return the warnings that scikit-learn issues where the metric is computed on the rows with members."""
        rows = self.known
        weight = None if self.weight is None else self.weight[rows]
        return self.metric.warnings_on(self.target[rows].copy(), self.linked[rows].copy(), weight)

    def of_counts(self, output: FloatArray, rows: NDArray[np.intp]) -> OfWeights:
        """Return a function of how often each of some rows counts, whose value is the metric of their outputs."""
        if self.formula is None:
            return lambda counts: self._of_repeated(output, rows, counts)
        of_weights = self.formula(self.sample.block.target[rows], output)
        own = 1.0 if self.weight is None else self.weight[rows]
        return lambda counts: of_weights(counts * own)

    def _of_repeated(self, output: FloatArray, rows: NDArray[np.intp], counts: FloatArray) -> float:
        places = np.repeat(np.arange(rows.size), counts.astype(np.intp))
        return self.linked_value(output[places], rows[places])

    def _is_of_labels(self, linked: FloatArray, known: NDArray[np.intp]) -> bool:
        """Return whether the metric is a scorer that depends on the labels with the largest mean output only.

        It is compared on the outputs and on their labels, both in the order of the rows and in a random one: where all
        labels are right, other metrics may be equal too.
        """
        if linked.ndim != 2 or not self.metric.greater_is_better:
            return False
        orders = (np.arange(known.size), np.random.default_rng(0).permutation(known.size))
        labels = np.eye(linked.shape[1])[np.argmax(linked, axis=1)]
        return all(
            self.linked_value(labels[order], known) == self.linked_value(linked[order], known) for order in orders
        )


@dataclass(frozen=True, eq=False)
class SubsetAverages:
    """Values of a metric by random order of the members and size of the subset.

    Attributes
    ----------
    sizes : ndarray of int, shape (n_sizes,)
    by_order : ndarray, shape (n_orders, n_sizes)
    ends : tuple of two ints
        Positions of the two sizes whose difference, from row to row, gives the noise of the curve's slope.
    rows : ndarray of int
        Positions of the rows for which this difference is taken.
    is_expected : bool
        Whether the difference is one of expected losses, not of the losses of one random subset for each row.
    """

    sizes: IntArray
    by_order: FloatArray
    ends: tuple[int, int]
    rows: NDArray[np.intp]
    is_expected: bool

    @property
    def mean_covariance(self) -> FloatArray:
        """Return the covariance, between sizes, of the means of `by_order` over orders, shape (n_sizes, n_sizes)."""
        return np.asarray(self.covariance / self.by_order.shape[0])

    @property
    def covariance(self) -> FloatArray:
        """Return the covariance of `by_order` between sizes, over random orders, shape (n_sizes, n_sizes)."""
        return np.asarray(np.cov(self.by_order, rowvar=False))


def metric_rows(metric: ResolvedMetric, adapter: EnsembleAdapter, sample: Sample, y: NDArray[Any]) -> MetricRows:
    """Return the rows of a sample as a metric of an ensemble takes them, with its formula if one is known.

    Parameters
    ----------
    metric : ResolvedMetric
    adapter : EnsembleAdapter
    sample : Sample
    y : ndarray, shape (n_sampled,)
        Target of the sampled rows as the user gave it.
    """
    if metric.greater_is_better and adapter.classes is not None and not metric.is_joint:
        # In the type of the labels, whatever the container of y.
        y = adapter.classes[sample.block.target]
    is_weighted = metric.takes_weights and bool(np.ptp(sample.weight) > 0)
    weight = sample.weight if is_weighted else None
    combine = adapter.combined if isinstance(adapter, CombinesMembers) else None
    rows = MetricRows(metric, sample, y, adapter.inverse_link, weight, combine=combine)
    # Formulas are of one output.
    return rows if metric.is_joint else rows.recognised(adapter.classes)


def largest_subsets(trials: IntArray, limit: int | None) -> tuple[int, int]:
    """Return the largest subset sizes for which 90 % and 50 % of the rows have members; twice `limit` if it is given.

    Raises
    ------
    TooFewMembersError
        If half of the rows have fewer than three members.
    """
    common, largest = (int(np.quantile(trials, q, method="lower")) if trials.size else 0 for q in (0.1, 0.5))
    if limit is not None:
        common = largest = limit
    if largest < MIN_LIMIT:
        raise TooFewMembersError(
            f"Half of the rows have {largest} out-of-bag members or fewer: subsets of at least {MIN_LIMIT} are needed "
            "to estimate how a metric depends on size. Train more members."
        )
    return common, largest


def _reached_by_labels(rows: MetricRows) -> int:
    """Return the largest size of a subset, MIN_LIMIT or more, that some row of every label has members for.

    A metric that ranks the rows of one label against those of another has no value without one of them.  Of a target of
    values, rows of two different ones must have them, without which r2 has no value.
    """
    trials = np.count_nonzero(rows.sample.block.counted, axis=0)[rows.known]
    target = rows.sample.block.target[rows.known]
    if rows.metric.is_joint:
        return int(trials.max())
    if rows.sample.block.n_labels == 0:
        values, codes = np.unique(target, return_inverse=True)
        reached = np.zeros(values.size, dtype=np.int64)
        np.maximum.at(reached, codes, trials)
        return max(MIN_LIMIT, int(np.sort(reached)[-2:].min()))
    most = np.zeros(rows.sample.block.n_labels, dtype=np.int64)
    np.maximum.at(most, target, trials)
    return max(MIN_LIMIT, int(most[most > 0].min()))


def subset_averages(rows: MetricRows, limits: tuple[int, int], rng: np.random.Generator) -> SubsetAverages:
    """Return the metric by random order of the members and size.

    Up to the first of the two limits, the metric is computed on the nine in ten rows that have as many members; beyond,
    its changes are those on the half of the rows that have more.  The rows left out shift the whole curve, by their
    effect on the metric of all members.  For a metric of labels all sizes are odd, because votes tie at even ones.
    """
    reached = _reached_by_labels(rows)
    common, largest = (min(limit, reached) for limit in limits)
    common, largest = (limit - (rows.is_of_labels and limit % 2 == 0) for limit in (common, largest))
    sizes = np.union1d(subset_sizes(largest), [common])
    sizes = np.unique(sizes - (sizes % 2 == 0)) if rows.is_of_labels else sizes
    trials = np.count_nonzero(rows.sample.block.counted, axis=0)
    near = np.flatnonzero(trials >= max(common, 1))
    is_far = trials[near] >= largest
    is_all = bool(is_far.all())
    level = rows.linked_value(rows.linked[rows.known], rows.known)
    shift = level - rows.linked_value(rows.linked[near], near)
    last = int(np.searchsorted(sizes, common))

    def curve(outputs: Iterable[FloatArray]) -> FloatArray:
        found, beyond = np.empty(sizes.size), 0.0
        for place, output in enumerate(outputs):
            if place <= last or is_all:
                found[place] = rows.linked_value(output, near)
            if place >= last and not is_all:
                here = rows.linked_value(output[is_far], near[is_far])
                beyond = here if place == last else beyond
                found[place] = found[last] + here - beyond
        return found + shift

    by_order = np.array([curve(outputs) for outputs in _orders(rows, near, sizes, rng)])
    if rows.losses == "log" and np.all(_own_probability(rows, rows.known) > 0):
        return _continued(rows, sizes, by_order)
    half = min(int(np.searchsorted(sizes, sizes[-1] / 2.0)), sizes.size - 2)
    far = np.flatnonzero(trials >= largest)
    return SubsetAverages(sizes, by_order, (half, sizes.size - 1), far, rows.losses == "squared")


def _continued(rows: MetricRows, sizes: IntArray, by_order: FloatArray) -> SubsetAverages:
    """Return averages of a log loss up to half the largest subset, and its expected values by row from the largest on.

    A line through the largest subsets would be too steep: on a few rows, the mean probability of the true label is next
    to 0 in some of these subsets, but not in larger ensembles.
    """
    largest = int(sizes[-1])
    kept = sizes <= largest / 2.0
    beyond = np.unique(np.append(np.geomspace(2 * largest, FARTHEST, N_BEYOND).astype(np.int64), largest))
    values = [rows.linked_value(output, rows.known) for output in _expected_outputs(rows, rows.known, beyond)]
    added = np.tile(values, (by_order.shape[0], 1))
    start = int(np.count_nonzero(kept))
    found, by_order = np.append(sizes[kept], beyond), np.hstack([by_order[:, kept], added])
    return SubsetAverages(found, by_order, (start, start + 1), rows.known, True)


def end_outputs(rows: MetricRows, averages: SubsetAverages, rng: np.random.Generator) -> list[FloatArray]:
    """Return the outputs, through the inverse link, of the averaged rows at the two sizes ``averages.ends``."""
    sizes = averages.sizes[list(averages.ends)]
    if averages.is_expected:
        return list(_expected_outputs(rows, averages.rows, sizes))
    block = rows.sample.select(averages.rows).block
    if rows.combine is not None:
        return list(next(subset_combinations(block, sizes, 1, rng, rows.combine)))
    return [rows.inverse_link(mean) for mean in subset_means(block, sizes, rng)]


def _orders(
    rows: MetricRows, chosen: NDArray[np.intp], sizes: IntArray, rng: np.random.Generator
) -> Iterator[Iterable[FloatArray]]:
    """Yield the linked outputs of subsets of each size, for several random orders of the members."""
    if rows.losses == "squared":
        # The same twice, as orders without noise.
        outputs = list(_expected_outputs(rows, chosen, sizes))
        yield from (outputs, outputs)
        return
    n_orders = int(np.clip(ROWS_OF_ORDERS // max(chosen.size, 1), FEWEST_ORDERS, N_ORDERS))
    block = rows.sample.select(chosen).block
    if rows.combine is not None:
        yield from subset_combinations(block, sizes, n_orders, rng, rows.combine)
        return
    for means in subset_mean_orders(block, sizes, n_orders, rng):
        yield (rows.inverse_link(mean) for mean in means)


def _expected_outputs(rows: MetricRows, chosen: NDArray[np.intp], sizes: IntArray) -> Iterator[FloatArray]:
    """Yield, for each size, outputs whose loss is the one expected of that many members, for some rows."""
    return (_log_outputs if rows.losses == "log" else _squared_outputs)(rows, chosen, sizes)


def _squared_outputs(rows: MetricRows, chosen: NDArray[np.intp], sizes: IntArray) -> Iterator[FloatArray]:
    """Yield, for each size, outputs whose squared error is the mean over all subsets of that size.

    Of n members with mean m and variance s² (with divisor n - 1), that is (m - y)² + s² (1/size - 1/n).
    """
    block, mean = rows.sample.select(chosen).block, rows.mean[chosen]
    trials = np.count_nonzero(block.counted, axis=0).astype(np.float64)
    at_all = squared_error(block.target, mean)
    squares = np.zeros(trials.size)
    for output, counts in zip(block.outputs, block.counted, strict=True):
        squares += _squared_distance(output, mean, block.n_labels) * counts
    variance = squares / np.maximum(trials - 1.0, 1.0)
    for size in sizes:
        expected = at_all + variance * np.maximum(1.0 / size - 1.0 / trials, 0.0)
        yield _outputs_with_error(block.target, np.maximum(expected, 0.0), block.n_labels)


def _log_outputs(rows: MetricRows, chosen: NDArray[np.intp], sizes: IntArray) -> Iterator[FloatArray]:
    """Yield, for each size, outputs with the log loss expected of that size; rows of one member add no variance."""
    block = rows.sample.select(chosen).block
    trials = np.count_nonzero(block.counted, axis=0).astype(np.float64)
    codes = block.target.astype(np.intp)
    mean = np.minimum(_own_probability(rows, chosen), 1.0)
    squares = np.zeros(trials.size)
    for output, counts in zip(block.outputs, block.counted, strict=True):
        own = output == codes if output.ndim == 1 else np.take_along_axis(output, codes[:, None], axis=1)[:, 0]
        squares += (own - mean) ** 2 * counts
    several = trials > 1
    variance = squares[several] / (trials[several] - 1.0)
    share = relative_variance(mean[several], variance, trials[several])
    for size in sizes:
        own = np.exp(-expected_log_loss(mean, trials, share, float(size)))
        outputs = np.zeros((codes.size, block.n_labels))
        outputs[np.arange(codes.size), codes] = own
        yield outputs


def _own_probability(rows: MetricRows, chosen: NDArray[np.intp]) -> FloatArray:
    codes = rows.sample.block.target[chosen].astype(np.intp)
    return np.asarray(np.take_along_axis(rows.linked[chosen], codes[:, None], axis=1)[:, 0])


def _squared_distance(output: NDArray[Any], mean: FloatArray, n_labels: int) -> FloatArray:
    if n_labels and output.ndim == 1:
        return squared_error(output, mean)
    apart = output - mean
    return np.asarray(apart**2 if apart.ndim == 1 else np.einsum("ij,ij->i", apart, apart))


def _outputs_with_error(target: NDArray[Any], error: FloatArray, n_labels: int) -> FloatArray:
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
