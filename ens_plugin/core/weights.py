"""Weights of rows, rows that belong together, and how well weighted rows represent all."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri, stdtrit
from scipy.stats import binom

from ens_plugin.core.validation import (
    ROUNDING,
    STANDARD_ERRORS,
    AnyIntArray,
    FloatArray,
    add_by_code,
    as_values,
    as_weight,
    row_parts,
    sums_by_code,
    whole_counts,
)
from ens_plugin.errors import InputError


@dataclass(frozen=True, eq=False)
class RowWeight:
    """Weights of the entries of a tally, each of which is one row or several equal rows.

    Attributes
    ----------
    total : ndarray, shape (n_entries,)
        Summed weight of the entry's rows.
    rows : ndarray, shape (n_entries,), or None
        Number of rows; None where every entry is one row.
    squares : ndarray, shape (n_entries,), or None
        Sum of the squares of the rows' weights; None where every entry is one row.
    groups : ndarray of int, shape (n_entries,), or None
        Group of each row, where rows belong together; None where they are independent.
    design_effect : float
        Factor by which the groups raise the variance of a mean over rows.
    """

    total: FloatArray
    rows: FloatArray | None = None
    squares: FloatArray | None = None
    groups: NDArray[np.integer] | None = None
    design_effect: float = 1.0

    @property
    def n_rows(self) -> int:
        """Return the number of rows of all entries together."""
        return self.total.size if self.rows is None else round(float(self.rows.sum()))

    @property
    def n_effective(self) -> float:
        """Return Kish's effective number of rows, divided by the design effect of their groups."""
        scaled, squares = self._scaled()
        return float(scaled.sum() ** 2 / squares / self.design_effect)

    def effective(self) -> FloatArray:
        """Return the weights scaled so that they sum to the effective number of rows, shape (n_entries,)."""
        # Equal weights that take no memory have effective ones that take none.
        scaled, squares = self._scaled()
        some = scaled[:1] if scaled.strides == (0,) else scaled
        return np.broadcast_to(some * scaled.sum() / squares / self.design_effect, self.total.shape)

    def row_sum(self, values: FloatArray) -> float:
        """Return the sum over all rows of values given by entry: each value times the number of rows of its entry."""
        return float(values.sum() if self.rows is None else values @ self.rows)

    def select(self, usable: NDArray[np.bool_]) -> RowWeight:
        """Return the weights of some of the entries; the same object if all are usable."""
        # Equal weights that take no memory take none afterwards.
        if usable.all():
            return self
        one_number = self.total.strides == (0,)
        total = np.broadcast_to(self.total[0], int(np.count_nonzero(usable))) if one_number else self.total[usable]
        rows, squares = (None if part is None else part[usable] for part in (self.rows, self.squares))
        groups = None if self.groups is None else self.groups[usable]
        return RowWeight(total, rows, squares, groups, self.design_effect)

    def _scaled(self) -> tuple[FloatArray, float]:
        largest = self.total.max()
        if self.total.strides == (0,) and self.squares is None:
            return np.broadcast_to(np.float64(1.0), self.total.shape), float(self.total.size)
        scaled = self.total / largest
        squares = scaled @ scaled if self.squares is None else (self.squares / largest**2).sum()
        return scaled, float(squares)


def as_row_weight(weight: ArrayLike | RowWeight | None, length: int) -> RowWeight:
    """Return the weights of `length` entries, checked; those of an array are of one row each."""
    if not isinstance(weight, RowWeight):
        return RowWeight(as_weight(weight, length))
    as_weight(weight.total, length)
    if weight.rows is not None and as_values(weight.rows, "rows", length).min() < 0:
        raise InputError("rows has a negative value; give each entry a number of rows.")
    return weight


def row_quantiles(values: FloatArray, levels: ArrayLike, rows: FloatArray | None = None) -> FloatArray:
    """Return quantiles over rows of values given by entry, equal to those of numpy.quantile over all rows."""
    # `rows` is the number of rows of each entry; None for one each.
    wanted = np.asarray(levels, dtype=np.float64)
    if rows is None:
        found = whole_counts(values)
        if found is None:
            return np.asarray(np.quantile(values, wanted))
        values, rows = found
    if (rows == rows[0]).all():
        # Without an order, which takes several times as long.
        ascending, last = np.sort(values), np.cumsum(rows)
    else:
        order = np.argsort(values, kind="stable")
        ascending, last = values[order], np.cumsum(rows[order])
    place = wanted * (last[-1] - 1.0)
    around = np.stack([np.floor(place), np.minimum(np.floor(place) + 1.0, last[-1] - 1.0)])
    low, high = ascending[np.searchsorted(last, around, side="right")]
    part, gap = place - around[0], high - low
    # Interpolated from the nearer end, as in numpy.quantile, for the same bits.
    return np.asarray(np.where(part >= 0.5, high - gap * (1.0 - part), low + gap * part))


def group_sums(values: FloatArray, groups: AnyIntArray) -> FloatArray:
    """Return the sum of values over the rows of each group, groups in ascending order."""
    codes = np.unique(groups, return_inverse=True)[1]
    return np.asarray(np.bincount(codes, weights=values), dtype=np.float64)


def effective_groups(weight: FloatArray, groups: AnyIntArray) -> float:
    """Return Kish's effective number of groups."""
    sums = group_sums(weight, groups)
    return float(sums.sum() ** 2 / (sums @ sums))


def design_effect(losses: FloatArray, weight: FloatArray, groups: AnyIntArray) -> float:
    r"""Return the factor, at least 1, by which groups of rows raise the variance of a weighted mean loss.

    :math:`\frac{G}{G-1} \sum_g (\sum_{i \in g} w_i (l_i - \bar l))^2` over :math:`s^2 \sum_i w_i^2`, with
    :math:`s^2` the weighted variance of the losses: the cluster-robust variance over Kish's.  Where all losses are
    equal, rows of a group are taken as perfectly correlated: :math:`\sum_g w_g^2 / \sum_i w_i^2`.  At least two groups
    have weight.
    """
    share = weight / weight.sum()
    squares = float(share @ share)
    deviations = losses - share @ losses
    variance = float(share @ deviations**2)
    shares = group_sums(share, groups)
    whole = float(shares @ shares) / squares
    if variance <= 1e-12 * max(float(share @ losses**2), 1e-300):
        return max(whole, 1.0)
    sums = group_sums(share * deviations, groups)
    n_groups = int(np.count_nonzero(shares))
    found = float(sums @ sums) * n_groups / max(n_groups - 1, 1) / (variance * squares)
    return max(found, 1.0)


def small_number_factor(weight: FloatArray, groups: AnyIntArray, level: float) -> float:
    """Return the factor on a variance estimated from few groups by which a normal interval becomes Student's.

    :math:`(t_{G - 1} / z)^2`, G Kish's effective number of groups, taken as at least 2.
    """
    n_groups = max(effective_groups(weight, groups), 2.0)
    tail = 0.5 + level / 2.0
    return float(stdtrit(n_groups - 1.0, tail) / ndtri(tail)) ** 2


# Relative spread of the numbers of members of a label's rows that chance may give.
MOST_DISPERSION = 1.25
# Among rows of unequal chances, those with a lower chance to be usable are not represented: very few rows would have
# all their weight.
LEAST_CHANCE = 0.05
# A part of the rows with a fit of its own has at least this number, and this share, of the rows.
FEWEST_ROWS = 10
LEAST_SHARE = 0.005
# Gap of the means of 2 sqrt(n), whose standard deviation is at most 1 where all rows are left out equally often.
LEAST_GAP = 3.0
MOST_SPLITS = 2


@dataclass(frozen=True, eq=False)
class Representation:
    """Weights by which the usable rows represent all rows; arrays by label, with a single label for regression.

    Attributes
    ----------
    is_even : bool
        Whether the bags leave all rows out equally often, up to chance; every factor is then 1.
    looks_even : bool
        Whether the numbers of members alone show no difference beyond chance.
    factor : ndarray, shape (n_entries,)
        Factor of the weight of each usable entry; 1 for the others.
    n_rows, n_usable : ndarray, shape (n_labels,)
        Number of rows with weight, and of those among them that have enough members.
    weight : ndarray, shape (n_labels,)
        Share of the label in the weight of all rows.
    members, usable_members : ndarray, shape (n_labels,)
        Mean number of members of a row, and of a usable row; 0 where there is none.
    missing : ndarray, shape (n_labels,)
        Share of the label's weight on rows that no usable row represents.
    is_scarce : ndarray of bool, shape (n_labels,)
        Whether bags leave out rows of the label less often than others, beyond chance.
    left_out : ndarray, shape (n_labels,)
        Mean chance that one member leaves out a row of the label.
    """

    is_even: bool
    looks_even: bool
    factor: FloatArray
    n_rows: FloatArray
    n_usable: FloatArray
    weight: FloatArray
    members: FloatArray
    usable_members: FloatArray
    missing: FloatArray
    is_scarce: NDArray[np.bool_]
    left_out: FloatArray

    def mean_factor(self, label: AnyIntArray, usable: NDArray[np.bool_], weight: FloatArray) -> FloatArray:
        """Return the weighted mean factor of the usable rows of each label, shape (n_labels,); 1 if there are none."""
        if self.is_even:
            return np.ones(self.n_rows.size)
        mass = sums_by_code(label, weight * usable, self.n_rows.size)
        return _ratio(sums_by_code(label, weight * usable * self.factor, self.n_rows.size), mass, 1.0)


def represent(
    label: AnyIntArray,
    trials: FloatArray,
    weight: FloatArray,
    *,
    n_labels: int,
    n_members: int,
    needed: int,
    rows: FloatArray | None = None,
    chance: FloatArray | None = None,
) -> Representation:
    r"""Return the weights by which the rows with enough members represent all rows, and the share of rows they miss.

    A row's factor is :math:`1 / \max(P_i, 0.05)`, :math:`P_i = P[\mathrm{Bin}(M, q_i) \geq \mathrm{needed}]`, scaled so
    that the usable rows of its label carry the whole weight of the label (``docs/methods/uneven-bags.md``).  The chance
    :math:`q_i` that one member leaves the row out is `chance`, or the row's own frequency where the library reports
    none.  For regression all labels are 0.
    """
    entries = _Entries(label, trials, weight, rows)
    n_rows, n_usable, whole, all_members, all_usable_members = entries.sums(n_labels, needed)
    members = _ratio(all_members, n_rows, 0.0)
    shift = _shift(members, n_rows, n_members)
    looks_even = not ((np.abs(shift) > STANDARD_ERRORS).any() or entries.are_dispersed(members, n_members))
    is_even = looks_even and (chance is None or bool(np.ptp(chance[weight > 0]) <= 1e-12))
    factor, missing = np.broadcast_to(np.float64(1.0), trials.size), np.zeros(n_labels)
    if not is_even:
        q = trials / n_members if chance is None else chance
        usable = (weight > 0) & (trials >= needed)
        is_alike = entries.are_alike(members, n_members) if chance is None else entries.have_one(chance, n_labels)
        inverse = usable / np.maximum(binom.sf(needed - 1, n_members, q), LEAST_CHANCE)
        inverse = np.where(is_alike[label], usable, inverse)
        carried = sums_by_code(label, weight * inverse, n_labels)
        missing = np.where(is_alike & (n_usable > 0), 0.0, np.clip(1.0 - _ratio(carried, whole, 1.0), 0.0, 1.0))
        factor = np.where(usable, inverse * _ratio(whole, carried, 1.0)[label], 1.0)
    return Representation(
        is_even=is_even,
        looks_even=looks_even,
        factor=factor,
        n_rows=n_rows,
        n_usable=n_usable,
        weight=whole / whole.sum(),
        members=members,
        usable_members=_ratio(all_usable_members, n_usable, 0.0),
        missing=missing,
        is_scarce=np.asarray(shift < -STANDARD_ERRORS),
        left_out=members / n_members if chance is None else entries.mean_by_label(chance, n_rows),
    )


@dataclass(frozen=True, eq=False)
class _Entries:
    """The entries of a tally, with the parameters of :func:`represent` as attributes; some are read at a time."""

    label: AnyIntArray
    trials: FloatArray
    weight: FloatArray
    rows: FloatArray | None

    def sums(self, n_labels: int, needed: int) -> FloatArray:
        """Return the sums over the entries of each label, shape (5, n_labels)."""
        # They are of the rows with weight, of those of them that are usable, of the weight, and of the members of each
        # of the two kinds of rows.
        totals = np.zeros((5, n_labels))
        for part in row_parts(self.trials.size):
            trials, weight, rows = self.trials[part], self.weight[part], self._counted(part)
            usable = rows * ((weight > 0) & (trials >= needed))
            for total, values in zip(totals, (rows, usable, weight, rows * trials, usable * trials), strict=True):
                add_by_code(total, self.label[part], values)
        return totals

    def are_dispersed(self, members: FloatArray, n_members: int) -> bool:
        """Return whether numbers of members vary more within labels than if bags left out all rows equally often."""
        n_rows, chance, found = self._dispersion(members, n_members).sum(axis=1)
        most = MOST_DISPERSION + STANDARD_ERRORS * math.sqrt(2.0 / n_rows)
        return bool(found > chance * most + 1e-9 * n_rows)

    def are_alike(self, members: FloatArray, n_members: int) -> NDArray[np.bool_]:
        """Return, for each label, whether numbers of members vary no more than if all its rows had the same chance."""
        n_rows, chance, found = self._dispersion(members, n_members)
        most = MOST_DISPERSION + STANDARD_ERRORS * np.sqrt(2.0 / np.maximum(n_rows, 1.0))
        return np.asarray(found <= chance * most + 1e-9 * n_rows)

    def mean_by_label(self, values: FloatArray, n_rows: FloatArray) -> FloatArray:
        """Return the mean of values of the entries over the rows of each label."""
        totals = np.zeros(n_rows.size)
        for part in row_parts(self.trials.size):
            add_by_code(totals, self.label[part], self._counted(part) * values[part])
        return _ratio(totals, n_rows, 0.0)

    def have_one(self, values: FloatArray, n_labels: int) -> NDArray[np.bool_]:
        """Return, for each label, whether all entries with rows have the same value."""
        least, most = np.full(n_labels, np.inf), np.full(n_labels, -np.inf)
        for part in row_parts(self.trials.size):
            label, held = self.label[part], self._counted(part) > 0
            np.minimum.at(least, label[held], values[part][held])
            np.maximum.at(most, label[held], values[part][held])
        return np.asarray(most - least <= ROUNDING * np.abs(most))

    def _dispersion(self, members: FloatArray, n_members: int) -> FloatArray:
        """Return by label the rows, and their summed squared distance from the mean: by chance and found."""
        expected = members * (1.0 - members / n_members)
        totals = np.zeros((3, members.size))
        for part in row_parts(self.trials.size):
            label, rows = self.label[part], self._counted(part)
            apart = (self.trials[part] - members[label]) ** 2
            for total, values in zip(totals, (rows, rows * expected[label], rows * apart), strict=True):
                add_by_code(total, label, values)
        return totals

    def _counted(self, part: slice) -> FloatArray:
        """Return the number of rows of some entries; 0 where they have no weight."""
        return np.where(self.weight[part] > 0, 1.0 if self.rows is None else self.rows[part], 0.0)


def _ratio(values: FloatArray, by: FloatArray, otherwise: float) -> FloatArray:
    return np.where(by > 0, values / np.where(by > 0, by, 1.0), otherwise)


def _shift(members: FloatArray, n_rows: FloatArray, n_members: int) -> FloatArray:
    """Return how far the mean number of members of each label's rows is from that of all rows, in standard errors."""
    mean = float(members @ n_rows / n_rows.sum())
    variance = mean * (1.0 - mean / n_members)
    error = np.sqrt(np.maximum(variance, 1e-12) / np.maximum(n_rows, 1.0))
    return np.where(n_rows > 0, (members - mean) / error, 0.0)


def bounds_by_members(trials: FloatArray, rows: FloatArray | None = None) -> FloatArray:
    r"""Return the numbers of members at which to split rows into parts that bags leave out about equally often.

    One distribution for all rows assumes that their numbers of members are unrelated to their difficulty
    (``docs/methods/uneven-bags.md``).  The parts' means of :math:`2 \sqrt n`, whose spread by chance is at most 1, lie
    at least 3 apart; chance alone would part one population by about 1.6.  There are at most three bounds, none of them
    a number of members.
    """
    distinct, index = np.unique(trials, return_inverse=True)
    count = np.bincount(index, rows).astype(np.float64)
    least = max(FEWEST_ROWS, LEAST_SHARE * float(count.sum()))
    bounds = _parted(2.0 * np.sqrt(distinct), count, least, MOST_SPLITS)
    return np.sort(np.array(bounds, dtype=np.float64)) ** 2 / 4.0


def _parted(place: FloatArray, count: FloatArray, least: float, depth: int) -> list[float]:
    """Return the ascending bounds of a split with the least sum of squares within parts, and of splits of the parts."""
    if place.size < 2 or depth == 0:
        return []
    first = np.cumsum(count)[:-1]
    second = count.sum() - first
    total = np.cumsum(count * place)
    gap = (total[-1] - total[:-1]) / np.maximum(second, 1e-12) - total[:-1] / np.maximum(first, 1e-12)
    between = np.where((first >= least) & (second >= least), first * second * gap**2, -1.0)
    at = int(np.argmax(between))
    if between[at] < 0 or gap[at] < LEAST_GAP:
        return []
    bound = float(place[at] + place[at + 1]) / 2.0
    lower = _parted(place[: at + 1], count[: at + 1], least, depth - 1)
    upper = _parted(place[at + 1 :], count[at + 1 :], least, depth - 1)
    return [*lower, bound, *upper]
