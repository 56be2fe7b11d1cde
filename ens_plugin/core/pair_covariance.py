r"""The variance of an error over seeds, from pairs of members, and its curvature.

What single members add to a loss that is smooth in the mean of their outputs. With the mean :math:`\bar h` of n
outputs, :math:`d_m` the deviation of member m from it and H the second derivatives of the loss at the mean, the loss
of B members is that of the infinite ensemble plus V/B, up to terms in :math:`1/B^2`, where V is the mean over the
members of :math:`\frac12 d_m' H d_m \, n/(n - 1)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.comparison import influence_on_variance
from ens_plugin.core.tally import count_members
from ens_plugin.core.validation import ROUNDING, BoolArray, FloatArray

MAX_PRODUCTS = 200_000_000
LEAST_BLOCK = 100
# Strided blocks are copied together up to so many bytes of outputs; rows of fewer do not fill a line of the cache.
BYTES_TOGETHER, FEWEST_TOGETHER = 2**23, 8
# Members whose outputs stay in the cache while they are copied.
MEMBERS_AT_ONCE = 8


def row_blocks(n_rows: int, n_members: int) -> Iterator[slice]:
    """Return blocks of rows at equal strides, so that each is spread over all rows, however they are sorted."""
    most_rows = max(MAX_PRODUCTS // (n_members * LEAST_BLOCK), LEAST_BLOCK)
    n_used = min(n_rows, most_rows)
    per_block = min(max(MAX_PRODUCTS // (n_members * n_used), LEAST_BLOCK), n_rows)
    n_blocks = -(-n_rows // per_block)
    return (slice(start, None, n_blocks) for start in range(max(n_used // per_block, 1)))


def copied_blocks(
    outputs: NDArray[Any], is_oob: BoolArray, slopes: FloatArray
) -> Iterator[tuple[NDArray[Any], BoolArray, FloatArray]]:
    """Yield outputs, members that count and slopes of the rows of each of :func:`row_blocks`.

    Several blocks are copied together: a copy of one strided block reads nearly all of the outputs from memory.
    """
    n_members, n_rows = outputs.shape
    blocks = list(row_blocks(n_rows, n_members))
    step = blocks[0].step
    if step == 1:
        yield np.ascontiguousarray(outputs), np.ascontiguousarray(is_oob), slopes
        return
    # A row is in one of `step` blocks.
    together = max(BYTES_TOGETHER * step // outputs.nbytes, FEWEST_TOGETHER)
    for start in range(0, len(blocks), together):
        some = blocks[start : start + together]
        copied, counted = (_by_block(values, range(start, start + len(some)), step) for values in (outputs, is_oob))
        for place, rows in enumerate(some):
            own = slice(0, slopes[rows].size)
            yield copied[place, :, own], counted[place, :, own], slopes[rows]


def _by_block(values: NDArray[Any], blocks: range, step: int) -> NDArray[Any]:
    """Return the values of every `step`-th row from each of some rows on, shape (n_blocks, n_members, n_rows_of_block).

    The last row of a block that has one less than the first is not set.
    """
    n_members, n_rows = values.shape
    whole = n_rows // step
    rest = values[:, whole * step :][:, blocks.start : blocks.stop]
    copied = np.empty((len(blocks), n_members, whole + (rest.shape[1] > 0)), values.dtype)
    strided = values[:, : whole * step].reshape(n_members, whole, step)[:, :, blocks.start : blocks.stop]
    for start in range(0, n_members, MEMBERS_AT_ONCE):
        members = slice(start, start + MEMBERS_AT_ONCE)
        copied[:, members, :whole] = strided[members].transpose(2, 0, 1)
    copied[: rest.shape[1], :, whole:] = rest.T[:, :, None]
    return copied


OWN_PAIRS = 0.8
LEAST_OWN_PAIRS = 0.25
# Slopes that are so much smaller than the largest of a block change no sum.
NEGLIGIBLE = 1e-15
# Deviations of all rows at once would be the largest array of an analysis.
PART_ROWS = 1024


class PairMean(NamedTuple):
    """Mean of the scaled covariance over pairs of different rows, with its variance.

    It is the variance as if the pairs were independent; infinite without any pair.
    """

    mean: float
    variance: float


class _Rows(NamedTuple):
    """The members' outputs for some rows, in single precision: 0, as `counted`, where they do not count."""

    values: NDArray[np.float32]
    counted: NDArray[np.float32]
    slopes: NDArray[np.float32]

    def part(self, start: int) -> _Rows:
        """Return the rows from one on that are multiplied together."""
        rows = slice(start, start + PART_ROWS)
        return _Rows(self.values[:, rows], self.counted[:, rows], self.slopes[rows])


def shared_variance(
    outputs: NDArray[Any],
    is_oob: BoolArray,
    slopes: FloatArray,
    size: float,
    n_rows: float,
    variance: FloatArray | None = None,
) -> float:
    r"""Return the variance over seeds of an ensemble's mean loss on infinitely many fresh rows.

    It is :math:`(\kappa c + 0.8 d / N) / B`, at least :math:`0.25 \, d / (N B)`, with c the mean of :math:`w_i w_j
    C_{ij}` over pairs of different rows, d the mean of :math:`w_i^2 C_{ii}`, and :math:`\kappa = S / (S + \tau^2)`,
    :math:`\tau^2` the variance of c, :math:`S = (d/N)^2 + [c^2 - \tau^2]^+` (``docs/methods/uncertainty.md``). The
    slopes :math:`w_i` are the derivative of each row's expected loss in the mean output, times its relative weight. The
    outputs determine the loss, of a random subset of the N rows; `variance` (ddof 1) is that of each row's outputs that
    count, where known.
    """
    own = _own_variance(outputs, is_oob) if variance is None else variance
    from_own = float(slopes**2 @ own) / (slopes.size * n_rows)
    pairs = mean_pair_covariance(outputs, is_oob, slopes)
    signal = from_own**2 + max(pairs.mean**2 - pairs.variance, 0.0)
    kept = 0.0 if np.isinf(pairs.variance) or signal == 0.0 else signal / (signal + pairs.variance)
    return max(kept * pairs.mean + OWN_PAIRS * from_own, LEAST_OWN_PAIRS * from_own) / size


def fold_groups(
    outputs: NDArray[Any], is_oob: BoolArray, slopes: FloatArray, groups: NDArray[np.integer]
) -> tuple[NDArray[Any], BoolArray, FloatArray]:
    """Return outputs, members that count and slopes, with the rows of each group added up into one row.

    Rows of a group are folded where the same members count for them.  Among infinitely many fresh groups, pairs of rows
    of one group have no share; among few rows they would raise the mean over pairs.  The outputs are sums of those of
    the rows times their slopes, divided by the mean number of rows that were folded; the slopes are then ones.
    """
    keys = np.column_stack([groups.astype(np.int64).view(np.uint8).reshape(groups.size, 8), np.packbits(is_oob, 0).T])
    keys = np.ascontiguousarray(keys).view(np.dtype((np.void, keys.shape[1])))[:, 0]
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    place = place.reshape(-1)
    if first.size == groups.size:
        return outputs, is_oob, slopes
    order = np.argsort(place, kind="stable")
    starts = np.searchsorted(place[order], np.arange(first.size))
    folded = np.add.reduceat((outputs * slopes)[:, order], starts, axis=1) * (first.size / groups.size)
    return folded, np.ascontiguousarray(is_oob[:, first]), np.ones(first.size)


def mean_pair_covariance(outputs: NDArray[Any], is_oob: BoolArray, slopes: FloatArray) -> PairMean:
    """Return the mean of :math:`w_i w_j C_{ij}` over pairs of different rows, weighted by their members less one.

    :math:`C_{ij}` is about the means over the members that are out of bag for both rows: means over all out-of-bag
    members of a row would count variation by the bags as covariance.  Sums over all pairs are products of matrices, of
    at most 1024 rows at a time; for many rows, only pairs within strided blocks are used, about 2e8 products in all.
    """
    weighted, squares, degrees = 0.0, 0.0, 0.0
    for own, is_counted, own_slopes in copied_blocks(outputs, is_oob, slopes):
        whole, unit = _scaled(own, is_counted, own_slopes)
        parts = [whole.part(start) for start in range(0, own_slopes.size, PART_ROWS)]
        # Each pair of rows is taken once.
        for first, second in combinations_with_replacement(parts, 2):
            total, total_of_squares, freedom = _sum_pairs(first, second)
            weighted += total * unit**2
            squares += total_of_squares * unit**4
            degrees += freedom
    return PairMean(weighted / degrees, squares / degrees**2) if degrees else PairMean(0.0, np.inf)


def _sum_pairs(first: _Rows, second: _Rows) -> tuple[float, float, float]:
    """Return the sum over pairs of rows of their covariance times members less one and slopes; of squares; the freedom.

    A pair has a row of each of both; where both are the same object, two different rows of it.  The freedom is the sum
    over pairs of the members that count for both rows, less one; 0 for pairs without any.
    """
    is_same = second is first
    weights = np.multiply.outer(first.slopes, second.slopes)
    sums = first.values.T @ second.counted
    sums = sums * (sums if is_same else second.values.T @ first.counted).T
    members = np.maximum(first.counted.T @ second.counted, 1.0)
    # 0 for pairs with one member in common, to the bit.
    products = first.values.T @ second.values
    products -= np.divide(sums, members, out=sums)
    products *= np.triu(weights, 1) if is_same else weights
    members -= 1.0
    freedom = float(members.sum(dtype=np.float64))
    if is_same:
        freedom = (freedom - float(members.trace(dtype=np.float64))) / 2.0
    return _total(products), _total(np.square(products, dtype=np.float64)), freedom


def _total(products: NDArray[Any]) -> float:
    """Return the sum of products in double precision: of each column, one row after the other, then of the columns."""
    if products.shape[1] == 1:
        # NumPy adds the numbers of a single column in pairs.
        return float(products.cumsum(axis=0, dtype=np.float64)[-1, 0])
    return float(products.sum(axis=0, dtype=np.float64).sum())


def _scaled(outputs: NDArray[Any], is_oob: BoolArray, slopes: FloatArray) -> tuple[_Rows, float]:
    """Return rows in single precision, and the unit of their values times slopes.

    Sums of products of small whole numbers, such as votes, are exact.  Other outputs are taken as deviations from each
    row's mean, times its slope.
    """
    counted = is_oob.astype(np.float32)
    if _are_votes(outputs):
        unit = float(np.abs(slopes).max(initial=0.0)) or 1.0
        votes = np.multiply(outputs, counted, dtype=np.float32, casting="unsafe")
        return _Rows(votes, counted, (slopes / unit).astype(np.float32)), unit
    # Processors multiply numbers below 1e-38, such as the products of small ones, a hundred times as slowly.
    size = np.abs(slopes)
    deviations = _centred(outputs, is_oob)
    deviations *= np.where(size < NEGLIGIBLE * size.max(initial=0.0), 0.0, slopes)
    unit = float(max(deviations.max(initial=0.0), -deviations.min(initial=0.0))) or 1.0
    values = np.empty(deviations.shape, np.float32)
    np.divide(deviations, unit, out=values, casting="same_kind")
    return _Rows(values, counted, np.ones(slopes.size, np.float32)), unit


def _are_votes(outputs: NDArray[Any]) -> bool:
    """Return whether all outputs are small whole numbers, of any type: probabilities of 0 and 1 are votes too."""
    # Nearly always, the first member shows that some are not.
    return outputs.dtype.kind in "bi" or (_are_whole(outputs[:1]) and _are_whole(outputs))


def _are_whole(outputs: NDArray[Any]) -> bool:
    return bool((np.clip(np.rint(outputs), -1.0, 1.0) == outputs).all())


def _centred(outputs: NDArray[Any], is_oob: BoolArray) -> FloatArray:
    # Converted once: a product with a mask converts it again, a few numbers at a time.
    counted = is_oob.astype(np.float64)
    values = np.multiply(outputs, counted, dtype=np.float64)
    values -= values.sum(axis=0) / np.maximum(counted.sum(axis=0), 1.0)
    values *= counted
    return np.asarray(values)


def _own_variance(outputs: NDArray[Any], is_oob: BoolArray) -> FloatArray:
    """Return the variance (ddof 1) of each row's outputs that count; 0 with fewer than two."""
    n = count_members(is_oob)
    if outputs.dtype == np.bool_:
        ones = count_members(outputs & is_oob)
        squares = ones * (n - ones) / np.maximum(n, 1.0)
    else:
        parts = [slice(start, start + PART_ROWS) for start in range(0, n.size, PART_ROWS)]
        squares = np.concatenate([_squared_deviations(outputs[:, rows], is_oob[:, rows]) for rows in parts])
    return np.asarray(squares / np.maximum(n - 1.0, 1.0))


def _squared_deviations(outputs: NDArray[Any], is_oob: BoolArray) -> FloatArray:
    deviations = _centred(outputs, is_oob)
    return np.asarray(np.einsum("ti,ti->i", deviations, deviations))


# Of differences of losses, whose derivatives change over steps of 1, the relative error is about this, and rounding
# adds a share of its inverse square.
STEP = 1e-4
# Third derivatives are differences that are divided by its cube.
WIDE_STEP = 1e-2
MOST_DIRECTIONS = 2
MOST_LABELS = 20
# Few, so that they stay in a processor's cache.
CELLS_AT_ONCE = 2**15

Loss = Callable[[FloatArray], FloatArray]
LossOfRows = Callable[[slice], Loss]


def curvatures(loss: Loss, mean: FloatArray) -> FloatArray:
    """Return the second derivatives of each row's loss in its mean output, shape (n_labels, n_labels, n_rows).

    They are from differences.  `loss` returns the loss of each row from mean outputs, shape (n_rows, n_labels).
    """
    n_rows, n_labels = mean.shape
    steps, found = STEP * np.eye(n_labels), np.empty((n_labels, n_labels, n_rows))
    here, moved = loss(mean), [loss(mean + step) for step in steps]
    for one in range(n_labels):
        for other in range(one + 1):
            both = loss(mean + steps[one] + steps[other])
            found[one, other] = found[other, one] = (both - moved[one] - moved[other] + here) / STEP**2
    return found


def curved_terms(curvature: FloatArray, deviations: list[FloatArray]) -> FloatArray:
    r"""Return :math:`\frac12 d_m' H d_m`, H the :func:`curvatures`, of each member and row: (n_members, n_rows)."""
    terms = np.zeros(deviations[0].shape)
    for label, own in enumerate(deviations):
        half = own * (0.5 * curvature[label, label])
        for other in range(label):
            half += deviations[other] * curvature[label, other]
        half *= own
        terms += half
    return terms


def terms_along(loss: Loss, mean: FloatArray, deviations: list[FloatArray]) -> FloatArray:
    """Return the terms of :func:`curved_terms` from differences along each member's own deviation.

    Fewer losses are computed than for all pairs of labels, where these are more than twice as many as the members.
    """
    here, terms = loss(mean), np.empty(deviations[0].shape)
    for member, own in enumerate(terms):
        step = STEP * np.stack([deviation[member] for deviation in deviations], axis=1)
        own[:] = (loss(mean + step) + loss(mean - step) - 2.0 * here) / (2.0 * STEP**2)
    return terms


def mean_terms(loss_of: LossOfRows, outputs: NDArray[np.floating], counted: NDArray[np.bool_]) -> FloatArray:
    """Return V of each row, shape (n_rows,), of which at least two members count.

    `loss_of` returns the loss, a function as for :func:`curvatures`, of a slice of the rows.
    """
    found = np.empty(counted.shape[1])
    for rows in _slices(*counted.shape):
        mean, deviations = _deviations(outputs[:, rows], counted[:, rows])
        found[rows] = _terms(loss_of(rows), mean, deviations).sum(axis=0)
    return np.asarray(found / (np.count_nonzero(counted, axis=0) - 1.0))


def terms_of_variance(loss: Loss, mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Return what :func:`mean_terms` does of one output by member, from mean and variance (ddof 1) over members."""
    return np.asarray(0.5 * curvatures(loss, mean)[0, 0] * variance)


def shared_terms(
    loss_of: LossOfRows, outputs: NDArray[np.floating], counted: NDArray[np.bool_], weight: FloatArray
) -> tuple[FloatArray, float]:
    r"""Return V of each row, and the variance of its mean by the members that were trained, as far as rows share it.

    The latter is :math:`\sum_t [(\sum_i e_{ti})^2 - \sum_i e_{ti}^2] / N^2`, at least 0, with the influence
    :math:`e_{ti}` of member t on V of row i: its own term less the mean, and its deviation times the slope of the
    curvature.
    """
    n_members, n_rows = counted.shape
    variance, sums, squares = np.empty(n_rows), np.zeros(n_members), 0.0
    relative = weight / weight.mean()
    for rows in _slices(n_members, n_rows):
        mean, deviations = _deviations(outputs[:, rows], counted[:, rows])
        influence = _terms(loss_of(rows), mean, deviations)
        trials = np.count_nonzero(counted[:, rows], axis=0).astype(np.float64)
        variance[rows] = influence.sum(axis=0) / (trials - 1.0)
        influence -= influence.sum(axis=0) / trials
        influence *= influence_on_variance(trials) * counted[:, rows]
        for slope, deviation in zip(_slopes(loss_of(rows), mean, deviations, trials), deviations, strict=False):
            influence += deviation * slope
        influence *= relative[rows] / np.sqrt(trials * (trials - 1.0))
        sums += influence.sum(axis=1)
        squares += float(np.einsum("mr,mr->", influence, influence))
    pairs = max(float(sums @ sums) - squares, 0.0)
    return variance, pairs / n_rows**2 if n_rows > 1 else 0.0


def _slices(n_members: int, n_rows: int) -> Iterator[slice]:
    height = max(CELLS_AT_ONCE // n_members, 1)
    return (slice(start, start + height) for start in range(0, n_rows, height))


def _deviations(outputs: NDArray[np.floating], counted: NDArray[np.bool_]) -> tuple[FloatArray, list[FloatArray]]:
    """Return the mean of the members that count, (n_rows, n_labels), and for each label their deviations, else 0."""
    # In one order of memory: that of a sum's terms would follow it, and differences of losses magnify rounding.
    counts, means, deviations = counted.astype(np.float64, order="C"), list[FloatArray](), list[FloatArray]()
    trials = counts.sum(axis=0)
    for label in range(outputs.shape[2]):
        own = np.multiply(outputs[:, :, label], counts, order="C")
        means.append(own.sum(axis=0) / trials)
        own -= means[-1] * counts
        deviations.append(own)
    return np.stack(means, axis=1), deviations


def _terms(loss: Loss, mean: FloatArray, deviations: list[FloatArray]) -> FloatArray:
    """Return the terms of all members by the way that computes fewer losses, shape (n_members, n_rows)."""
    n_labels = len(deviations)
    if n_labels * (n_labels + 1) // 2 > 2 * deviations[0].shape[0]:
        return terms_along(loss, mean, deviations)
    return curved_terms(curvatures(loss, mean), deviations)


def _slopes(loss: Loss, mean: FloatArray, deviations: list[FloatArray], trials: FloatArray) -> FloatArray:
    """Return the slopes of the curvature, (n_labels, n_rows); none of many labels, where rows share little."""
    if len(deviations) > MOST_LABELS:
        return np.empty((0, trials.size))
    covariance = np.array([[(one * other).sum(axis=0) for other in deviations] for one in deviations])
    return curvature_slopes(loss, mean, (covariance / (trials - 1.0)).transpose(2, 0, 1)).T


def curvature_slopes(loss: Loss, mean: FloatArray, covariance: FloatArray) -> FloatArray:
    """Return by how much half the curvature over a covariance changes with the mean output, shape (n_rows, n_labels).

    Members that happen to be trained change V through the curvature at their mean, too.  The covariance is that of the
    outputs of one member, by row; its two largest components are used.
    """
    lengths, directions = np.linalg.eigh(covariance)
    slopes, here = np.zeros(mean.shape), 2.0 * _gradient(loss, mean)
    for place in range(-1, -min(MOST_DIRECTIONS, mean.shape[1]) - 1, -1):
        # The scores of two labels may be each other's negative, and have one direction.
        if lengths[:, place].max() <= ROUNDING * lengths[:, -1].max():
            break
        step = WIDE_STEP * directions[:, :, place]
        second = _gradient(loss, mean + step) + _gradient(loss, mean - step) - here
        slopes += 0.5 * np.maximum(lengths[:, place, None], 0.0) * second / WIDE_STEP**2
    return slopes


def _gradient(loss: Loss, mean: FloatArray) -> FloatArray:
    here = loss(mean)
    return np.stack([(loss(mean + step) - here) / WIDE_STEP for step in WIDE_STEP * np.eye(mean.shape[1])], axis=1)
