"""Averages of a metric over random subsets of the members."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from ens_plugin.analysis.metric_curves.expected_outputs import expected_outputs
from ens_plugin.analysis.metric_curves.metric_rows import MetricRows
from ens_plugin.core.estimates.extrapolation import subset_sizes
from ens_plugin.core.tallies.subsets import subset_combinations, subset_mean_orders, subset_means
from ens_plugin.core.validation import FloatArray, IntArray
from ens_plugin.errors import TooFewMembersError
from ens_plugin.records import record

__all__ = ["SubsetAverages", "end_outputs", "largest_subsets", "subset_averages"]

# The noise of the orders falls with the rows, as that of the metric does.
N_ORDERS, FEWEST_ORDERS = 30, 8
ROWS_OF_ORDERS = 200_000
MIN_LIMIT = 3
# Sizes beyond the largest subset at which an expected loss is computed.
FARTHEST, N_BEYOND = 100_000, 24


@record
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


def largest_subsets(trials: FloatArray, limit: int | None) -> tuple[int, int]:
    """Return the largest subset sizes for which 90 % and 50 % of the rows have members.

    Parameters
    ----------
    trials : ndarray, shape (n_rows,)
        Number of members of each row.
    limit : int or None
        Taken for both sizes if it is given.

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
    trials = rows.trials[rows.known].astype(np.int64)
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


def subset_averages(
    rows: MetricRows, limits: tuple[int, int], rng: np.random.Generator, finite_from: int = 1
) -> SubsetAverages:
    """Return the metric by random order of the members and size.

    Up to the first of the two limits, the metric is computed on the nine in ten rows that have as many members; beyond,
    its changes are those on the half of the rows that have more.  The rows left out shift the whole curve, by their
    effect on the metric of all members.  For a metric of labels all sizes are odd, because votes tie at even ones.

    The changes of a ranking are those of the expected one, whose level is moved to that of the metric of all members.
    Those of a log loss are taken from `finite_from` on, where a probability of 0 is no longer to be expected.
    """
    reached = _reached_by_labels(rows)
    common, largest = (min(limit, reached) for limit in limits)
    common, largest = (limit - (rows.is_of_labels and limit % 2 == 0) for limit in (common, largest))
    sizes = np.union1d(subset_sizes(largest), [common])
    sizes = np.unique(sizes - (sizes % 2 == 0)) if rows.is_of_labels else sizes
    trials = rows.trials
    fewest = max(common, 1)
    near = _with_members(rows, fewest)
    is_far = trials[near] >= largest
    is_all = bool(is_far.all())
    level = rows.linked_value(rows.finite[rows.known], rows.known)
    shift = level - rows.expected_value(rows.finite[near], near)
    last = int(np.searchsorted(sizes, common))
    is_log = rows.losses == "log"
    averaged = sizes[sizes <= largest / 2.0] if is_log else sizes

    def curve(outputs: Iterable[FloatArray]) -> FloatArray:
        found, beyond = np.empty(averaged.size), 0.0
        for place, output in enumerate(outputs):
            if place <= last or is_all:
                found[place] = rows.expected_value(output, near)
            if place >= last and not is_all:
                here = rows.expected_value(output[is_far], near[is_far])
                beyond = here if place == last else beyond
                found[place] = found[last] + here - beyond
        return found + shift

    by_order = np.array([curve(outputs) for outputs in _orders(rows, fewest, averaged, rng)])
    if is_log:
        return _continued(rows, averaged, by_order, largest, finite_from)
    half = min(int(np.searchsorted(sizes, sizes[-1] / 2.0)), sizes.size - 2)
    far = _with_members(rows, largest)
    return SubsetAverages(sizes, by_order, (half, sizes.size - 1), far, rows.losses == "squared")


def _with_members(rows: MetricRows, fewest: int) -> NDArray[np.intp]:
    """Return the positions of the rows that have at least so many members, in the order of :func:`_orders`."""
    if rows.losses == "squared":
        return np.flatnonzero(rows.trials >= fewest)
    return rows.packed.with_members(fewest).rows


def _continued(
    rows: MetricRows, kept: IntArray, by_order: FloatArray, largest: int, finite_from: int
) -> SubsetAverages:
    """Return averages of a log loss up to half the largest subset, and its expected values by row from the largest on.

    A line through the largest subsets would be too steep: on a few rows, the mean probability of the true label is next
    to 0 in some of these subsets, but not in larger ensembles.
    """
    first = int(np.clip(finite_from, largest, max(largest, FARTHEST // 4)))
    beyond = np.unique(
        np.concatenate(
            [
                np.geomspace(2 * first, max(FARTHEST, 4 * first), N_BEYOND).astype(np.int64),
                np.rint(np.geomspace(largest, first, N_BEYOND // 2)).astype(np.int64),
            ]
        )
    )
    values = [rows.linked_value(output, rows.known) for output in expected_outputs(rows, rows.known, beyond)]
    added = np.tile(values, (by_order.shape[0], 1))
    found, by_order = np.append(kept, beyond), np.hstack([by_order, added])
    end = kept.size + int(np.searchsorted(beyond, first))
    return SubsetAverages(found, by_order, (end, end + 1), rows.known, True)


def end_outputs(rows: MetricRows, averages: SubsetAverages, rng: np.random.Generator) -> list[FloatArray]:
    """Return the outputs, through the inverse link, of the averaged rows at the two sizes ``averages.ends``."""
    sizes = averages.sizes[list(averages.ends)]
    if averages.is_expected:
        return list(expected_outputs(rows, averages.rows, sizes))
    packed = rows.packed.with_members(int(sizes[1]))
    if rows.combine is not None:
        return list(next(subset_combinations(packed, sizes, 1, rng, rows.combine)))
    return [rows.inverse_link(mean) for mean in subset_means(packed, sizes, rng)]


def _orders(rows: MetricRows, fewest: int, sizes: IntArray, rng: np.random.Generator) -> Iterator[Iterable[FloatArray]]:
    """Yield the linked outputs of subsets of each size, for several random orders, of rows with `fewest` members."""
    chosen = _with_members(rows, fewest)
    if rows.losses == "squared":
        # The same twice, as orders without noise.
        outputs = list(expected_outputs(rows, chosen, sizes))
        yield from (outputs, outputs)
        return
    n_orders = int(np.clip(ROWS_OF_ORDERS // max(chosen.size, 1), FEWEST_ORDERS, N_ORDERS))
    packed = rows.packed.with_members(fewest)
    if rows.combine is not None:
        yield from subset_combinations(packed, sizes, n_orders, rng, rows.combine)
        return
    for means in subset_mean_orders(packed, sizes, n_orders, rng):
        yield (rows.inverse_link(mean) for mean in means)
