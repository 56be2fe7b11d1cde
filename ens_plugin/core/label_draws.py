"""Draws of what infinitely many members would predict for each row, and what follows from them at any size.

A row model fits the distribution of each row's outputs (:mod:`ens_plugin.core.label_shares`, of votes and
probabilities; :mod:`ens_plugin.core.margins`, of raw scores) and draws from it.  Every quantity of labels is a mean
over rows and draws: the error, the share of labels that change with more members, the confusion matrix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from ens_plugin.core.row_model import (
    ROUGHNESS_SCALE,
    Density,
    RowGroups,
    design,
    fit_density_near,
    fit_tilt,
    refit_density,
    tilted,
)
from ens_plugin.core.validation import AnyIntArray, FloatArray, IntArray, as_sizes
from ens_plugin.core.weights import bounds_by_members

# Single precision is far more than the draws have, and takes half the time.
Draws: TypeAlias = NDArray[np.float32]

# Of the coefficients of a label's density around those of all rows together; 0.3 to 2 give the same error of the
# infinite ensemble to 0.1 points.
NEAR_SD = 0.6
# Rows times draws, which bounds time and memory.
N_DRAWN, FEWEST_DRAWS = 12_000, 2
# The draws are a numerical integration: their seed is fixed, so that no random_state changes an estimate.
SEED_OF_DRAWS = 20_130_703
GOLDEN_RATIO = (1.0 + 5.0**0.5) / 2.0
TINY, LEAST_CHANCE = 1e-300, np.float32(1e-30)
LEAST_DISTANCE, LARGEST_DISTANCE = np.float32(-8.0), np.float32(40.0)
# How many times as rough a density may be where the rows do not tell.
TIMES_AS_ROUGH = 8.0
# Of a variance that a victory leaves.
LEAST_LEFT = np.float32(1e-3)
SQRT_TWO_PI = np.float32(np.sqrt(2.0 * np.pi))


class Contest(Protocol):
    """One label of each row and draw against all others, as the members decide it."""

    def chance(self, size: float) -> Draws:
        """Return the chance that so many members predict the label, shape (n_rows, n_draws)."""
        ...


class Outputs(Protocol):
    """The outputs of infinitely many members for some rows, one set of them by draw.

    Place 0 is the true label, and places from 1 on are the rivals, the strongest first.
    """

    def contest(self, place: int) -> Contest:
        """Return the contest of the label in one place."""
        ...

    def strongest_first(self) -> Outputs:
        """Return the same outputs with the label of infinitely many members in place 0."""
        ...

    def slopes(self, size: float) -> Draws:
        """Return the derivative of the chance of the true label in its mean margin over the strongest rival."""
        ...

    def take(self, rows: AnyIntArray) -> Outputs:
        """Return the outputs of some of the rows."""
        ...


@dataclass(frozen=True, eq=False)
class LabelDensities:
    """The densities of kinds of rows: the labels, and parts of a label's rows by number of members.

    Attributes
    ----------
    overall : Density
    own : tuple of Density
        Of each label, near that of all rows (that itself for a label without rows), and of the parts, near that of
        their label.
    label : ndarray of int, shape (n_kinds,)
        Label of each kind.
    number : ndarray, shape (n_kinds,)
        By how much the logarithm of a part's number of members exceeds its label's mean; 0 for labels.
    covariance_of_powers : ndarray, shape (2, 2)
        Of the powers, for each unit of that, by which the density of a part leans from that of its label.
    """

    overall: Density
    own: tuple[Density, ...]
    label: IntArray
    number: FloatArray
    covariance_of_powers: FloatArray

    @property
    def weights(self) -> FloatArray:
        """Return the probabilities of the grid's cells under each kind's density, shape (n_kinds, 400)."""
        return np.stack([density.weights for density in self.own])

    def covariance(self, gradients: Mapping[int, FloatArray]) -> FloatArray:
        """Return the covariance (Laplace) of quantities with these derivatives in the coefficients of some kinds."""
        # A kind's coefficients vary around those that they are near, with which they move as far as the kind's own rows
        # do not tell them. The derivatives have shape (n_quantities, n_columns).
        zeros = np.zeros_like(next(iter(gradients.values())))
        found, of_powers, of_all = np.zeros((len(zeros), len(zeros))), zeros[:, :2], zeros
        of_kinds = dict(gradients)
        # Parts, whose label comes before them, are last.
        for kind in range(len(self.own) - 1, -1, -1):
            if kind not in of_kinds:
                continue
            moved = of_kinds[kind] @ self.own[kind].covariance
            found += moved @ of_kinds[kind].T
            through, label = moved / NEAR_SD**2, int(self.label[kind])
            if label == kind:
                of_all = of_all + through
            else:
                of_kinds[label] = of_kinds.get(label, zeros) + through
                of_powers = of_powers + self.number[kind] * through[:, :2]
        found += of_powers @ self.covariance_of_powers @ of_powers.T
        return np.asarray(found + of_all @ self.overall.covariance @ of_all.T)


@dataclass(frozen=True, eq=False)
class LabelDraws:
    """Draws of the members' outputs for each row, from a fitted row model.

    Attributes
    ----------
    target : ndarray of int, shape (n_rows,)
    weight : ndarray, shape (n_rows,)
        Weights that sum to the number of independent rows of the whole data.
    rivals : ndarray of int, shape (n_rows, n_draws, n_rivals)
        Labels other than the true one, the strongest first; -1 for those that are not told apart.
    outputs : Outputs
        Of the true label and the rivals.
    densities : LabelDensities
    kind : ndarray of int, shape (n_rows,)
        Which of the densities is that of the row.
    cells : ndarray of int, shape (n_rows, n_draws)
        Cell of the density's grid that the draw is from.
    n_labels : int
    limit_sd : float
        Standard deviation of the infinite ensemble's error that the division of wrong outputs among labels leaves.
    missed : float or None
        By how much the error of the largest subsets of the members differs from that of as many drawn votes, where
        these tell it better than :meth:`errors`, which takes the strongest rivals and normal margins only.
    unseen : ndarray, shape (n_rows,), or float
        Part of each row that other samples of rows replace by rows unlike it: 1, and 1/n of a record that stands for n
        alike rows.
    """

    target: IntArray
    weight: FloatArray
    rivals: IntArray
    outputs: Outputs
    densities: LabelDensities
    kind: IntArray
    cells: IntArray
    n_labels: int
    limit_sd: float = 0.0
    missed: float | None = None
    unseen: FloatArray | float = 1.0

    @cached_property
    def share(self) -> FloatArray:
        """Return the share of the weight that each row has, shape (n_rows,); sums to 1."""
        return np.asarray(self.weight / self.weight.sum())

    def standing_for(self, n_rows: FloatArray) -> LabelDraws:
        """Return the draws of records, each of which stands for so many independent rows that are alike."""
        return replace(self, weight=n_rows, unseen=1.0 / np.maximum(n_rows, 1.0))

    def take(self, rows: AnyIntArray) -> LabelDraws:
        """Return the draws of some of the rows, in ascending order."""
        return replace(
            self,
            target=self.target[rows],
            weight=self.weight[rows],
            rivals=self.rivals[rows],
            outputs=self.outputs.take(rows),
            kind=self.kind[rows],
            cells=self.cells[rows],
            unseen=self._unseen_of(rows),
        )

    def _unseen_of(self, rows: AnyIntArray) -> FloatArray | float:
        return self.unseen if isinstance(self.unseen, float) else self.unseen[rows]

    def errors(self, sizes: ArrayLike) -> Draws:
        """Return the chance of a wrong label, shape (n_sizes, n_rows, n_draws)."""
        return np.stack([1.0 - self._of_truth.chance(float(size)) for size in as_sizes(sizes)])

    def changes(self, sizes: ArrayLike) -> Draws:
        """Return the chance of another label than the infinite ensemble's, shape (n_sizes, n_rows, n_draws)."""
        of_leader = self.outputs.strongest_first().contest(0)
        return np.stack([1.0 - of_leader.chance(float(size)) for size in as_sizes(sizes)])

    def differences(self, sizes: ArrayLike) -> Draws:
        """Return the chance that two ensembles of one size predict different labels, (n_sizes, n_rows, n_draws)."""
        ordered = self.outputs.strongest_first()
        rivals = [ordered.contest(place) for place in range(1, self.rivals.shape[2] + 1)]
        found = []
        for size in as_sizes(sizes).tolist():
            first, others = ordered.contest(0).chance(size), np.stack([each.chance(size) for each in rivals])
            others *= (1.0 - first) / np.maximum(others.sum(axis=0), LEAST_CHANCE)
            found.append(1.0 - first**2 - np.square(others).sum(axis=0))
        return np.stack(found)

    @cached_property
    def _of_truth(self) -> Contest:
        return self.outputs.contest(0)

    def confusion(self, size: float, weights: FloatArray) -> FloatArray:
        """Return the confusion matrix of so many members under some weights of the rows."""
        # Weights have shape (n_weights, n_rows), and matrices, of which rows are true labels, (n_weights, n_labels,
        # n_labels).
        n_rows, n_draws, n_rivals = self.rivals.shape
        right = self._of_truth.chance(size)
        of_rivals = np.stack([self.outputs.contest(place).chance(size) for place in range(1, n_rivals + 1)], axis=2)
        of_rivals *= ((1.0 - right) / np.maximum(of_rivals.sum(axis=2), LEAST_CHANCE))[..., None]
        row = np.broadcast_to(np.arange(n_rows)[:, None, None], self.rivals.shape)
        told = self.rivals >= 0
        code = row[told] * self.n_labels + self.rivals[told]
        by_row = np.bincount(code, of_rivals[told] / n_draws, n_rows * self.n_labels).reshape(n_rows, self.n_labels)
        by_row[np.arange(n_rows), self.target] = right.mean(axis=1)
        matrices = np.zeros((weights.shape[0], self.n_labels, self.n_labels))
        for label in np.unique(self.target):
            own = self.target == label
            matrices[:, label] = weights[:, own] @ by_row[own]
        return matrices

    def leaders(self) -> FloatArray:
        """Return the chance that each label is the infinite ensemble's, shape (n_rows, n_labels)."""
        n_rows, n_draws = self.cells.shape
        leads = self._of_truth.chance(np.inf) >= 0.5
        labels = np.where(leads, self.target[:, None], self.rivals[..., 0])
        code = (labels + self.n_labels * np.arange(n_rows)[:, None]).ravel()
        counts = np.bincount(code, minlength=n_rows * self.n_labels)
        return np.asarray(counts.reshape(n_rows, self.n_labels) / n_draws)

    def slopes(self, size: float) -> FloatArray:
        """Return the derivative of each row's error in the mean margin over its strongest rival, shape (n_rows,)."""
        return np.asarray(-self.outputs.slopes(size).mean(axis=1, dtype=np.float64))

    def mean(self, values: Draws) -> FloatArray:
        """Return the mean of quantities given by row and draw, shape (n_quantities,)."""
        return np.asarray(values.mean(axis=2, dtype=np.float64) @ self.share)

    def means_by_luck(self, values: Draws, rng: np.random.Generator, n_draws: int) -> FloatArray:
        """Return the means for draws of what the members happen to predict for records, shape (n_draws, n_quantities).

        The luck of a row of its own is part of how rows differ; that of a record is common to all of its rows.
        """
        means = np.tile(self.mean(values), (n_draws, 1))
        scale = self.share * np.sqrt(1.0 - self.unseen)
        records = np.flatnonzero(scale)
        apart = values[:, records] * scale[records, None]
        apart -= apart.mean(axis=2, keepdims=True)
        for mean, place in zip(means, rng.integers(values.shape[2], size=(n_draws, records.size)), strict=True):
            mean += apart[:, np.arange(records.size), place].sum(axis=1)
        return np.maximum(means, 0.0)

    def means_if_rougher(self, values: Draws) -> FloatArray:
        """Return the means where the density of all rows is eight times as rough, unless it is known to be rougher."""
        smooth = self.densities.overall
        if smooth.roughness > ROUGHNESS_SCALE:
            return self.mean(values)
        rough = refit_density(smooth, TIMES_AS_ROUGH * ROUGHNESS_SCALE)
        chance = (rough.weights / np.maximum(smooth.weights, TINY))[self.cells] * self.share[:, None]
        return np.asarray((values * chance).sum(axis=(1, 2)) / chance.sum())

    def covariance(self, values: Draws) -> FloatArray:
        """Return the covariance, over samples of the rows, of the means of what is smooth in the outputs."""
        # It is that of other rows, and that of other densities (Laplace) for all of them. Quantities have shape
        # (n_quantities, n_rows, n_draws).
        by_row = values.mean(axis=2, dtype=np.float64)
        apart = (by_row - (by_row @ self.share)[:, None]) * np.sqrt(self.row_factor * self.unseen) * self.share
        return np.asarray(apart @ apart.T + self._of_densities(values, self.unseen))

    def sd(self, values: Draws) -> FloatArray:
        """Return the standard deviation, over samples of the rows, of the means of chances of labels."""
        # It is that of other rows, of other labels given these rows' outputs, of other outputs given what was observed
        # of them, and of other densities (Laplace) given the rows. Quantities have shape (n_quantities, n_rows,
        # n_draws).
        by_row = values.mean(axis=2, dtype=np.float64)
        spread = (by_row - (by_row @ self.share)[:, None]) ** 2 + 2.0 * by_row * (1.0 - by_row)
        return np.asarray(np.sqrt(spread @ self.share**2 * self.row_factor + self.density_variance(values)))

    def density_variance(self, values: Draws) -> FloatArray:
        """Return the variance of mean values that is due to other densities (Laplace) given the rows."""
        return np.asarray(np.diag(self._of_densities(values, 0.0)))

    @property
    def row_factor(self) -> float:
        """Return how many times the variance of a mean over the drawn rows is that over all independent rows."""
        return 1.0 / (float(self.unseen * self.share @ self.share) * float(self.weight.sum()))

    @cached_property
    def _columns(self) -> FloatArray:
        """Return the columns of the log-density at each draw, shape (n_rows, n_draws, n_columns)."""
        return design()[self.cells]

    def _of_densities(self, values: Draws, unseen: FloatArray | float) -> FloatArray:
        """Return the covariance of mean values that is due to the densities, shape (n_quantities, n_quantities)."""
        kinds = np.unique(self.kind).tolist()
        return self.densities.covariance({kind: self.density_gradient(values, kind, unseen) for kind in kinds})

    def label_variances(self, values: Draws) -> FloatArray:
        """Return the variance of each label's part of one mean value that is due to its densities, (n_labels,)."""
        found = np.zeros(self.n_labels)
        for label in np.unique(self.target).tolist():
            kinds = np.unique(self.kind[self.target == label]).tolist()
            gradients = {kind: self.density_gradient(values, kind, self.unseen) for kind in kinds}
            found[label] = max(float(self.densities.covariance(gradients)[0, 0]), 0.0)
        return found

    def density_gradient(self, values: Draws, kind: int, unseen: FloatArray | float) -> FloatArray:
        """Return the derivatives of mean values in the coefficients of a kind's density, (n_quantities, n_columns)."""
        # It changes the outputs of these rows given what was observed of them, and of an unseen part of each those of
        # all rows of the kind.
        rows, n_draws = np.flatnonzero(self.kind == kind), values.shape[2]
        own, columns, share = values[:, rows], self._columns[rows], self.share[rows]
        flat = (own * (share / n_draws)[:, None]).reshape(values.shape[0], rows.size * n_draws)
        product = flat @ columns.reshape(rows.size * n_draws, columns.shape[2])
        by_row, row_columns = own.mean(axis=2, dtype=np.float64) * share, columns.mean(axis=1)
        mean_column = share @ row_columns / max(float(share.sum()), TINY)
        new = by_row * np.broadcast_to(unseen, self.share.shape)[rows]
        return np.asarray(product - (by_row - new) @ row_columns - new.sum(axis=1)[:, None] * mean_column)


class LabelledRows(NamedTuple):
    """Which line of a likelihood each row has, with its label, weight and number of members; shape (n_rows,) each."""

    group: AnyIntArray
    target: IntArray
    weight: FloatArray
    trials: FloatArray


def fit_by_label(
    rows: RowGroups, overall: Density, each: LabelledRows, n_labels: int
) -> tuple[LabelDensities, IntArray]:
    """Return the densities of the rows of each label, near that of all rows, and which of them each row has."""
    # Where bags leave out some rows of a label far more often than others, these may be easier or harder: their
    # densities lean with the logarithm of the number of members.

    def rows_of(chosen: NDArray[np.bool_]) -> RowGroups:
        counts = np.bincount(each.group[chosen], each.weight[chosen], rows.counts.size).astype(np.float64)
        own = np.flatnonzero(counts)
        return RowGroups(rows.likelihood[own], counts[own])

    own = [overall] * n_labels
    for label in np.unique(each.target[each.weight > 0]).tolist():
        own[label] = fit_density_near(rows_of(each.target == label), overall.coefficients, NEAR_SD)
    kind, labels, numbers = _kinds(each, n_labels)
    parts = [(rows_of(kind == place), own[labels[place]], numbers[place]) for place in range(n_labels, labels.size)]
    powers, covariance = fit_tilt(parts) if parts else (np.zeros(2), np.zeros((2, 2)))
    own += [fit_density_near(rows, tilted(density, number * powers), NEAR_SD) for rows, density, number in parts]
    return LabelDensities(overall, tuple(own), labels, numbers, covariance), kind


def _kinds(each: LabelledRows, n_labels: int) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the kind of each row, and the label and the number of each kind, as of :class:`LabelDensities`."""
    kind, labels, numbers = each.target.copy(), np.arange(n_labels), np.zeros(n_labels)
    counts = each.weight > 0
    for label in np.unique(each.target[counts]).tolist():
        is_own = each.target == label
        bounds = bounds_by_members(each.trials[is_own & counts])
        if bounds.size:
            part = np.searchsorted(bounds, each.trials[is_own])
            mass = np.bincount(part, each.weight[is_own])
            number = np.bincount(part, each.weight[is_own] * np.log(each.trials[is_own])) / mass
            kind[is_own] = labels.size + part
            labels = np.append(labels, np.full(mass.size, label))
            numbers = np.append(numbers, number - mass @ number / mass.sum())
    return kind, labels, numbers


def victory(distances: Sequence[Draws], correlations: Mapping[tuple[int, int], Draws | float]) -> Draws:
    """Return the chance of a label to win against all of its rivals, one after the other, given those before."""
    # The distances, of the margins over the rivals from 0 in standard deviations, have these correlations (of pairs i <
    # j). Given a victory, the margins over the other rivals are normal with the mean and variance that it leaves them
    # (Mendell and Elston 1974).
    distance, *others = distances
    chance = np.maximum(ndtr(distance), LEAST_CHANCE)
    if not others:
        return np.asarray(chance)
    # Farther below, chance and hazard would be too small for single precision.
    near = np.clip(distance, LEAST_DISTANCE, LARGEST_DISTANCE)
    hazard = np.exp(-0.5 * near * near) / (SQRT_TWO_PI * ndtr(near))
    shrinkage = hazard * (hazard + near)
    own = [correlations[0, place] for place in range(1, len(distances))]
    left = [np.sqrt(np.maximum(1.0 - each * each * shrinkage, LEAST_LEFT)) for each in own]
    later: list[Draws] = [
        np.asarray((other + each * hazard) / root) for other, each, root in zip(others, own, left, strict=True)
    ]
    among = {
        (i, j): (correlations[i + 1, j + 1] - own[i] * own[j] * shrinkage) / (left[i] * left[j])
        for j in range(len(others))
        for i in range(j)
    }
    return np.asarray(chance * victory(later, among))


def value_order(*columns: NDArray[Any]) -> NDArray[np.intp]:
    """Return an order of rows by their values alone, in which rows of alike first values follow each other."""
    # The random numbers of a row do not depend on the order given. Single precision keeps rounding from changing it.
    return np.lexsort([column.astype(np.float32) for column in columns[::-1]])


def draws_of(n_rows: int) -> int:
    """Return the number of draws of each row, which bounds time and memory."""
    return max(N_DRAWN // max(n_rows, 1), FEWEST_DRAWS)


def spread_levels(rng: np.random.Generator, n_rows: int, n_draws: int) -> FloatArray:
    """Return uniform levels, evenly spread for each row and among rows that follow each other, in random order."""
    # Rows that follow each other are alike (value_order), so that a mean over their draws is nearly an integral.
    # Multiples of the golden ratio leave no gap and fill no place twice, however many rows are alike.
    start = (GOLDEN_RATIO * np.arange(n_rows) + rng.random()) % 1.0
    return rng.permuted((np.arange(n_draws) + start[:, None]) / n_draws, axis=1)


def draw_cells(posterior: FloatArray, levels: FloatArray) -> IntArray:
    """Return the cells at which the levels of each row are reached by its posterior weights, (n_rows, n_draws)."""
    reached = np.cumsum(posterior, axis=1)
    return find_cells(reached / np.maximum(reached[:, -1:], TINY), np.arange(len(reached)), levels)


def find_cells(reached: FloatArray, line: AnyIntArray, levels: FloatArray) -> IntArray:
    """Return the cells at which the levels of each row are reached by the weights cumulated in its line."""
    # Lines have shape (n_lines, n_cells) and end at 1, and levels (n_rows, n_draws).
    n_lines, n_cells = reached.shape
    # One search for all rows: the sums of each line are above those of the line before.
    goals = np.minimum(levels, 1.0 - 1e-9) + 2.0 * line[:, None]
    found = np.searchsorted((reached + 2.0 * np.arange(n_lines)[:, None]).ravel(), goals.ravel())
    return np.asarray(np.clip(found.reshape(goals.shape) - n_cells * line[:, None], 0, n_cells - 1))


def normal_draws(rng: np.random.Generator, covariance: FloatArray, n_draws: int) -> FloatArray:
    """Return normal draws with mean 0 and this covariance, shape (n_draws, n_quantities)."""
    values, vectors = np.linalg.eigh(covariance)
    # The symmetric root does not depend on the signs of the eigenvectors, which rounding may change.
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return np.asarray(rng.standard_normal((n_draws, values.size)) @ root)
