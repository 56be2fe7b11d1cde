"""The distribution of a quantity over rows: a density on a grid, fitted to what was counted by its likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import BSpline
from scipy.optimize import minimize

from ens_plugin.core.validation import AnyIntArray, FloatArray


class ProductMatrix:
    """A matrix as the product of two smaller ones; multiplied from both sides as the whole matrix would be."""

    # Else NumPy's arrays would take it for a number.
    __array_ufunc__ = None

    def __init__(self, left: FloatArray, right: FloatArray) -> None:
        self.shape = (left.shape[0], right.shape[1])
        self._left, self._right = left, right

    def __matmul__(self, vector: FloatArray) -> FloatArray:
        """Return the product with a vector, or with the columns of a matrix."""
        return np.asarray(self._left @ (self._right @ vector))

    def __rmatmul__(self, left: FloatArray) -> FloatArray:
        """Return the product of a vector, or of the rows of a matrix, with this matrix."""
        return np.asarray((left @ self._left) @ self._right)

    @property
    def T(self) -> ProductMatrix:
        """Return the transposed matrix."""
        return ProductMatrix(self._right.T, self._left.T)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the whole matrix."""
        return np.asarray(self._left @ self._right, dtype)


class BandMatrix:
    """Blocks of a matrix outside of which it is 0; multiplied from both sides as the whole matrix would be.

    `order` are the rows in the order in which they form blocks.  A block is its place in that order, its columns, and
    its transposed values.
    """

    # Else NumPy's arrays would take it for a number.
    __array_ufunc__ = None

    def __init__(self, order: NDArray[np.intp], n_columns: int, blocks: list[tuple[slice, slice, FloatArray]]) -> None:
        self.shape = (order.size, n_columns)
        self._order, self._blocks = order, blocks

    def __matmul__(self, vector: FloatArray) -> FloatArray:
        """Return the product with a vector, shape (n_rows,)."""
        return self.T.product(vector)

    def __rmatmul__(self, left: FloatArray) -> FloatArray:
        """Return the product of a vector, or of the rows of a matrix, with this matrix, shape (..., n_columns)."""
        product, ordered = np.zeros((*left.shape[:-1], self.shape[1])), left.take(self._order, axis=-1)
        for rows, columns, values in self._blocks:
            product[..., columns] += ordered[..., rows] @ values.T
        return product

    @property
    def T(self) -> _Transposed:
        """Return the transposed matrix, for products with it from the left."""
        return _Transposed(self._order, self._blocks)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the whole matrix with its zeros."""
        whole = np.zeros(self.shape, dtype)
        for rows, columns, values in self._blocks:
            whole[self._order[rows], columns] = values.T
        return whole


class _Transposed:
    """The transposed matrix, with the same parameters."""

    __array_ufunc__ = None

    def __init__(self, order: NDArray[np.intp], blocks: list[tuple[slice, slice, FloatArray]]) -> None:
        self._order, self._blocks = order, blocks

    def __rmatmul__(self, left: FloatArray) -> FloatArray:
        return self.product(left)

    def product(self, left: FloatArray) -> FloatArray:
        """Return the product of a vector, or of the rows of a matrix, with this matrix."""
        ordered, product = np.empty((2, *left.shape[:-1], self._order.size))
        for rows, columns, values in self._blocks:
            ordered[..., rows] = left[..., columns] @ values
        product[..., self._order] = ordered
        return np.asarray(product)


# Of groups of rows at the points of a grid, shape (n_groups, n_points).
Likelihood: TypeAlias = FloatArray | BandMatrix | ProductMatrix


N_CELLS = 400
GRID: FloatArray = (np.arange(1, N_CELLS + 1) - 0.5) / N_CELLS
# Of the coefficients of a beta distribution, which are large where the rows are alike: votes between 0.3 and 0.5, as of
# trees on many columns without a strong one, have coefficients of 30 and more.
BETA_VARIANCE = 1e4
LEAST_EIGENVALUE = 1.0 / BETA_VARIANCE
ROUGHNESS_SCALE = 2.0
# How many times as rough a density may be, and by how much its evidence must exceed that of the one before.
ROUGHER, LEAST_EVIDENCE = (2.0, 4.0, 8.0), 1.0
# Prior standard deviation of the powers of a tilt.
TILT_SD = 1.0
MAX_LOG_STEP = 20.0
MAX_ITERATIONS = 200
# The log-likelihood that may remain to be gained, with the relative rounding of its sum over rows.
LEAST_GAIN, ROUNDING = 1e-8, 1e-14
# A step that gains no more than this keeps the Hessian, unless more than this share of the gain is left.
STALE_GAIN, SLOW = 0.05, 0.1
EM_STEPS = 3
LEAST_START, LEAST_WEIGHT = 1e-4, 1e-12


class PowerPrior(NamedTuple):
    """Normal prior of the power of 1 - p that a density of p is in proportion to near p = 1."""

    mean: float
    sd: float


class RowGroups(NamedTuple):
    """Groups of equal rows, with the number (or weight) of these.

    The likelihood of each group's rows at each grid point, shape (n_groups, 400), is scaled so that its maximum is 1.
    """

    likelihood: Likelihood
    counts: FloatArray


@dataclass(frozen=True, eq=False)
class Density:
    """A fitted density on a grid, with the covariance of its coefficients.

    `weights`, shape (400,), are the probabilities of the grid's cells; `maximum` is the penalised log-likelihood at the
    coefficients.
    """

    weights: FloatArray
    coefficients: FloatArray
    maximum: _Reached

    @cached_property
    def covariance(self) -> FloatArray:
        """Return the inverse of the penalised Hessian, covariance of the coefficients (Laplace); symmetric."""
        # Many fits serve an estimate only, without its uncertainty.
        return _positive_inverse(self.maximum.hessian())

    @property
    def precision(self) -> FloatArray:
        """Return the inverse prior variances of the coefficients, shape (n_columns,)."""
        return self.maximum.objective.precision

    @property
    def roughness(self) -> float:
        """Return the scale of the roughness, the prior standard deviation of the coefficients of the smooth part."""
        return float(self.precision[-1] ** -0.5)

    @cached_property
    def evidence(self) -> float:
        """Return the logarithm of the rows' marginal likelihood (Laplace), up to a constant."""
        return float(
            self.maximum.value + 0.5 * np.sum(np.log(self.precision)) + 0.5 * np.linalg.slogdet(self.covariance)[1]
        )


@lru_cache(maxsize=1)
def design() -> FloatArray:
    """Return the columns of the log-density on the grid, shape (400, n_columns): two beta terms, then smooth ones."""
    null = np.column_stack([np.log(GRID), np.log1p(-GRID)])
    knots = np.concatenate([np.zeros(3), np.linspace(0.0, 1.0, 12), np.ones(3)])
    splines = BSpline.design_matrix(GRID, knots, 3).toarray()
    differences = np.diff(np.eye(splines.shape[1]), n=2, axis=0)
    values, vectors = np.linalg.eigh(differences.T @ differences + 1e-4 * np.eye(splines.shape[1]))
    smooth = splines @ vectors / np.sqrt(values)
    smooth -= smooth.mean(axis=0)
    fixed = np.linalg.qr(np.column_stack([np.ones(N_CELLS), null]))[0]
    smooth -= fixed @ (fixed.T @ smooth)
    left, singular, _ = np.linalg.svd(smooth, full_matrices=False)
    kept = singular > 1e-4 * singular[0]
    smooth = left[:, kept] * singular[kept]
    smooth /= np.sqrt(np.mean(np.sum(smooth**2, axis=1)))
    # The signs of the decomposition depend on the processor's rounding, and draws of coefficients on the signs.
    smooth *= np.where(smooth[0] < 0.0, -1.0, 1.0)
    return np.column_stack([null, smooth])


@lru_cache(maxsize=1)
def end_power() -> FloatArray:
    """Return the power of 1 - p that each column of the design is in proportion to between its last two points."""
    slope = (design()[-1] - design()[-2]) / (np.log1p(-GRID[-1]) - np.log1p(-GRID[-2]))
    slope.flags.writeable = False
    return np.asarray(slope)


def fit_density(
    rows: RowGroups,
    *,
    beta_mean: tuple[float, float],
    beta_start: tuple[float, float],
    near_one: PowerPrior | None = None,
) -> Density:
    """Fit the density of the rows' parameters by penalised maximum likelihood."""
    # `beta_mean` is the prior mean of the coefficients of log p and log(1-p), whose prior variance is 10 000; the fit
    # starts from `beta_start`. `near_one` is a prior of the density near p = 1, with the mean of the coefficient of
    # log(1-p).
    coefficients: FloatArray = np.zeros(design().shape[1])
    coefficients[:2] = beta_start
    centre = np.zeros_like(coefficients)
    centre[:2] = beta_mean
    precision = np.full(coefficients.size, 1.0 / ROUGHNESS_SCALE**2)
    precision[:2] = 1.0 / BETA_VARIANCE
    of_power = 0.0 if near_one is None else near_one.sd**-2.0
    objective = _Objective(rows, centre, precision, of_power)
    start = objective.at(_near_start(objective, coefficients))
    reached, _ = _maximize(start, start.hessian())
    return Density(reached.weights, reached.coefficients, reached)


def fit_density_near(rows: RowGroups, coefficients: FloatArray, sd: float) -> Density:
    """Fit a density whose coefficients are near some others, with this prior standard deviation."""
    start = _Objective(rows, coefficients, np.full(coefficients.size, sd**-2.0)).at(coefficients)
    reached, _ = _maximize(start, start.hessian())
    return Density(reached.weights, reached.coefficients, reached)


def tilted(density: Density, powers: FloatArray) -> FloatArray:
    """Return the coefficients of a density times p and 1 - p to these powers."""
    coefficients = density.coefficients.copy()
    coefficients[:2] += powers
    return coefficients


def fit_tilt(parts: Sequence[tuple[RowGroups, Density, float]]) -> tuple[FloatArray, FloatArray]:
    """Fit the powers of p and 1 - p by which the densities of parts of the rows lean, and their covariance (Laplace).

    Each part has a density, which is multiplied by these powers times the part's number.
    """

    def reached(powers: FloatArray) -> list[_Reached]:
        free = np.zeros(design().shape[1])
        return [_Objective(rows, free, free).at(tilted(density, number * powers)) for rows, density, number in parts]

    def losses(powers: FloatArray) -> tuple[float, FloatArray]:
        found = reached(powers)
        gradient = sum((part[2] * each.gradient()[:2] for part, each in zip(parts, found, strict=True)), np.zeros(2))
        value = sum(each.value for each in found) - 0.5 * float(powers @ powers) / TILT_SD**2
        return -value, powers / TILT_SD**2 - gradient

    powers = minimize(losses, np.zeros(2), jac=True, method="BFGS").x
    hessian = np.eye(2) / TILT_SD**2
    for part, each in zip(parts, reached(powers), strict=True):
        hessian += part[2] ** 2 * each.hessian()[:2, :2]
    return np.asarray(powers), _positive_inverse(hessian)


def rougher_density(density: Density) -> Density:
    """Return a density fitted to the same rows whose roughness is penalised less, as far as the rows show that it is.

    The scale of the roughness is doubled for as long as the evidence grows by more than 1.  The fitted density fills a
    gap that is narrower than its scale allows, and rows of many members show the gap.
    """
    smooth = density
    for factor in ROUGHER:
        found = refit_density(density, factor * smooth.roughness)
        if found.evidence < density.evidence + LEAST_EVIDENCE:
            break
        density = found
    return density


def refit_density(density: Density, roughness: float) -> Density:
    """Return the density of the same rows under another scale of its roughness."""
    objective = density.maximum.objective
    precision = objective.precision.copy()
    precision[2:] = 1.0 / roughness**2
    start = replace(objective, precision=precision).at(density.coefficients)
    reached, _ = _maximize(start, start.hessian())
    return Density(reached.weights, reached.coefficients, reached)


def cell_weights(coefficients: FloatArray) -> FloatArray:
    """Return the cell probabilities of one or more coefficient vectors, shape (..., 400)."""
    log_density = coefficients @ design().T
    log_density -= log_density.max(axis=-1, keepdims=True)
    weights = np.exp(log_density)
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


@dataclass(frozen=True, eq=False)
class _Objective:
    """The penalised log-likelihood of the coefficients: the rows, and the normal prior of the coefficients.

    `of_power` is the prior precision of the density's power of 1 - p near p = 1, 0 for none.
    """

    rows: RowGroups
    centre: FloatArray
    precision: FloatArray
    of_power: float = 0.0

    def at(self, coefficients: FloatArray) -> _Reached:
        """Return the objective at one vector of coefficients."""
        weights = cell_weights(coefficients)
        evidence = np.maximum(self.rows.likelihood @ weights, 1e-300)
        apart = coefficients - self.centre
        penalty = 0.5 * (self.precision @ apart**2 + self.of_power * (end_power() @ apart) ** 2)
        value = float(self.rows.counts @ np.log(evidence) - penalty)
        return _Reached(self, coefficients, value, weights, evidence)


@dataclass(frozen=True, eq=False)
class _Reached:
    """The objective at one vector of coefficients, and what its derivatives are computed from."""

    objective: _Objective
    coefficients: FloatArray
    value: float
    weights: FloatArray
    evidence: FloatArray

    @cached_property
    def excess(self) -> FloatArray:
        """Return the rows in each cell by their posteriors, less those by the density, shape (400,)."""
        rows = self.objective.rows
        return np.asarray(self.weights * ((rows.counts / self.evidence) @ rows.likelihood - rows.counts.sum()))

    def gradient(self) -> FloatArray:
        """Return the gradient of the objective in the coefficients."""
        objective = self.objective
        apart = self.coefficients - objective.centre
        by_power = objective.of_power * float(end_power() @ apart)
        return np.asarray(self.excess @ design() - objective.precision * apart - by_power * end_power())

    @cached_property
    def row_means(self) -> FloatArray:
        """Return the mean of the design's columns under each group's posterior, shape (n_columns, n_groups)."""
        # By far the longest part, which is why few Hessians are computed.
        return np.asarray((design().T * self.weights) @ self.objective.rows.likelihood.T / self.evidence)

    def hessian(self) -> FloatArray:
        """Return the negated Hessian of the objective in the coefficients."""
        rows, columns = self.objective.rows, design()
        mean = self.weights @ columns
        found = (self.row_means * rows.counts) @ self.row_means.T - (columns.T * self.excess) @ columns
        found -= rows.counts.sum() * mean[:, None] * mean
        found.ravel()[:: found.shape[0] + 1] += self.objective.precision
        found += self.objective.of_power * np.outer(end_power(), end_power())
        return np.asarray(found)


def _near_start(objective: _Objective, coefficients: FloatArray) -> FloatArray:
    """Return coefficients of a density close to the rows' mean posterior after some steps of the EM algorithm."""
    # Newton's method needs half as many steps from there, each of which takes ten times as long.
    rows, weights = objective.rows, cell_weights(coefficients)
    total = rows.counts.sum()
    for _ in range(EM_STEPS):
        evidence = np.maximum(rows.likelihood @ weights, 1e-300)
        weights = weights * ((rows.counts / evidence) @ rows.likelihood) / total
    # The nearest log-density of the design by weighted least squares with the prior's penalty; any constant is free.
    columns = np.column_stack([design(), np.ones(N_CELLS)])
    weighted = columns.T * (total * (weights + LEAST_START / N_CELLS))
    precision = np.append(objective.precision, LEAST_START)
    target = weighted @ np.log(np.maximum(weights, LEAST_WEIGHT)) + precision * np.append(objective.centre, 0.0)
    return np.asarray(np.linalg.solve(weighted @ columns + np.diag(precision), target)[:-1])


def _maximize(reached: _Reached, hessian: FloatArray) -> tuple[_Reached, FloatArray]:
    """Return where Newton's method with step halving ends, and the last negated Hessian that it used."""
    # The given Hessian is the negated one at the start, or one close to it.
    is_fresh, last = False, np.inf
    for _ in range(MAX_ITERATIONS):
        step, expected = _newton_step(hessian, reached.gradient())
        if not is_fresh and expected > SLOW * last:
            hessian = reached.hessian()
            step, expected = _newton_step(hessian, reached.gradient())
        if expected < LEAST_GAIN + ROUNDING * abs(reached.value):
            break
        candidate = _ahead(reached, step)
        gain = candidate.value - reached.value
        if gain <= 0.0:
            break
        reached, last = candidate, expected
        # Close to the maximum the Hessian changes little, and it takes ten times as long as the gradient.
        is_fresh = gain > STALE_GAIN
        if is_fresh:
            hessian = reached.hessian()
    return reached, hessian


def _ahead(reached: _Reached, step: FloatArray) -> _Reached:
    """Return the objective after a step, or after the first half, quarter and so on of it that does not lower it."""
    change = np.abs(design() @ step).max()
    step = step * min(1.0, MAX_LOG_STEP / max(change, 1e-12))
    candidate = reached.objective.at(reached.coefficients + step)
    while candidate.value < reached.value and np.abs(step).max() > 1e-12:
        step /= 2.0
        candidate = reached.objective.at(reached.coefficients + step)
    return candidate


def _newton_step(hessian: FloatArray, gradient: FloatArray) -> tuple[FloatArray, float]:
    """Return :func:`_positive_inverse` of the Hessian times the gradient, and what such a step is expected to gain."""
    shifted = hessian.copy()
    shifted.ravel()[:: gradient.size + 1] -= LEAST_EIGENVALUE
    try:
        # It exists if all eigenvalues are above the least, which is so nearly always.
        np.linalg.cholesky(shifted)
        step = np.linalg.solve(hessian, gradient)
    except np.linalg.LinAlgError:
        step = _positive_inverse(hessian) @ gradient
    return np.asarray(step, dtype=np.float64), 0.5 * float(gradient @ step)


def _positive_inverse(matrix: FloatArray) -> FloatArray:
    """Return the inverse of a symmetric matrix, with absolute eigenvalues of at least 1e-4 in place of its own."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2.0)
    values = np.maximum(np.abs(values), LEAST_EIGENVALUE)
    return np.asarray((vectors / values) @ vectors.T)


# Binomial coefficients and powers of so many votes are far from the largest and smallest numbers, where p is near k/n.
MOST_VOTES = 200
# How many times fewer numbers the two matrices have than their product.
LEAST_REDUCTION = 1.5


def binomial_likelihood(k: FloatArray, n: FloatArray) -> FloatArray | ProductMatrix:
    r"""Return the likelihood of k of n votes for each group at each point of the grid, shape (n_groups, 400).

    The largest of each group is 1, to rounding; what is below 1e-240 may be 0.  Votes on many groups in whole numbers
    make a product: with N the largest n, :math:`p^k (1-p)^{n-k} = \sum_j \binom{N-n}{j} p^{k+j} (1-p)^{N-k-j}`, so that
    the powers of N votes are enough; all factors are positive, and nothing is lost to rounding.
    """
    most = n.max()
    n_numbers = (most + 1.0) * (k.size + GRID.size)
    are_few = most <= MOST_VOTES and n_numbers * LEAST_REDUCTION <= k.size * GRID.size
    if not are_few or np.any(k % 1.0) or np.any(n % 1.0):
        return _likelihood(k, n)
    choices = _choices(int(most - n.min()))[(most - n).astype(np.intp)] * np.exp(-_largest_log(k, n))[:, None]
    return ProductMatrix(_shifted(choices, k.astype(np.intp), int(most) + 1), _powers(int(most)))


@lru_cache(maxsize=8)
def _powers(most: int) -> FloatArray:
    """Return p^k (1-p)^(most-k) of each k at each point of the grid, shape (most + 1, 400)."""
    k = np.arange(most + 1.0)
    powers = np.exp(np.outer(k, np.log(GRID)) + np.outer(most - k, np.log1p(-GRID)))
    powers.flags.writeable = False
    return np.asarray(powers)


def _shifted(rows: FloatArray, places: NDArray[np.intp], width: int) -> FloatArray:
    """Return rows that each start at a place of their own, shape (n_rows, width); 0 before, and beyond is cut off."""
    n_rows, length = rows.shape
    wide = width + length
    shifted = np.zeros(n_rows * wide)
    # No two of these overlap.
    windows = np.lib.stride_tricks.sliding_window_view(shifted, length, writeable=True)
    windows[np.arange(n_rows) * wide + places] = rows
    return shifted.reshape(n_rows, wide)[:, :width]


@lru_cache(maxsize=8)
def _choices(largest: int) -> FloatArray:
    """Return the binomial coefficients of numbers up to `largest`, shape (largest + 1, largest + 1)."""
    table = np.zeros((largest + 1, largest + 1))
    table[:, 0] = 1.0
    for row in range(1, largest + 1):
        table[row, 1:] = table[row - 1, 1:] + table[row - 1, :-1]
    table.flags.writeable = False
    return table


def _largest_log(k: FloatArray, n: FloatArray) -> FloatArray:
    """Return the largest log-likelihood of each group at a point of the grid."""
    below = _point_below(k, n)
    return np.maximum(*(k * np.log(GRID[at]) + (n - k) * np.log1p(-GRID[at]) for at in (below, below + 1)))


def _likelihood(k: FloatArray, n: FloatArray) -> FloatArray:
    """Return the whole matrix, columns contiguous for the fit."""
    log_likelihood = np.column_stack([np.log(GRID), np.log1p(-GRID)]) @ np.stack([k, n - k])
    # To look for the largest value at all points takes as long as the rest.
    below, rows = _point_below(k, n), np.arange(k.size)
    log_likelihood -= np.maximum(log_likelihood[below, rows], log_likelihood[below + 1, rows])
    return np.asarray(np.exp(log_likelihood, out=log_likelihood).T)


def _point_below(k: FloatArray, n: FloatArray) -> NDArray[np.intp]:
    """Return the first of the two points around k/n, at one of which the likelihood is largest."""
    return np.clip(np.floor(k / n * GRID.size - 0.5).astype(np.intp), 0, GRID.size - 2)


ALL_ROWS = slice(None)


class RowModel(Protocol):
    """A fitted distribution of the rows' parameters, on a grid of points."""

    @property
    def density(self) -> Density | None:
        """Return the fitted density on the grid; None for a point mass."""
        ...

    @property
    def likelihood(self) -> Likelihood:
        """Return the likelihood of each group of rows at each point, shape (n_groups, n_points)."""
        ...

    @property
    def counts(self) -> FloatArray:
        """Return the weight of each group of rows, shape (n_groups,)."""
        ...

    @property
    def group(self) -> AnyIntArray:
        """Return the group of each row, shape (n_rows,)."""
        ...

    @property
    def point_weights(self) -> FloatArray:
        """Return the estimated distribution of the rows over the points, shape (n_points,); sums to 1."""
        ...

    def error_by_point(self, sizes: ArrayLike) -> FloatArray:
        """Return the probability of a wrong label at each size and point, shape (n_sizes, n_points)."""
        ...


def model_error(model: RowModel, sizes: ArrayLike) -> FloatArray:
    """Return the expected error at each size, shape (n_sizes,)."""
    return np.asarray(np.tensordot(model.error_by_point(sizes), model.point_weights, axes=1))


def mean_posterior(model: RowModel, weights: FloatArray) -> FloatArray:
    """Return the mean over rows of their posterior on the grid, under one or more prior densities."""
    # Weights and means have shape (..., n_points).
    densities = np.atleast_2d(weights)
    # In place, because memory of many densities times groups takes longer to get than to fill.
    evidence = densities @ model.likelihood.T
    np.maximum(evidence, 1e-300, out=evidence)
    np.divide(model.counts, evidence, out=evidence)
    means = (evidence @ model.likelihood) * densities / model.counts.sum()
    return np.asarray(means.reshape(weights.shape))


def group_means(model: RowModel, by_point: FloatArray) -> FloatArray:
    """Return the posterior mean, for each group of rows, of quantities given at every grid point."""
    # Quantities have shape (n_quantities, n_points), means (n_quantities, n_groups).
    weights = _grid_weights(model)
    evidence = np.maximum(model.likelihood @ weights, 1e-300)
    return np.asarray((by_point * weights) @ model.likelihood.T / evidence)


def _grid_weights(model: RowModel) -> FloatArray:
    return np.ones(model.likelihood.shape[1]) if model.density is None else model.density.weights


def row_means(model: RowModel, by_point: FloatArray, rows: AnyIntArray | slice = ALL_ROWS) -> FloatArray:
    """Return the posterior mean, for some rows, of quantities given at every point, shape (n_quantities, n_rows)."""
    return np.asarray(group_means(model, by_point)[:, model.group[rows]])


CLOSE_MARGIN = 0.3
MAX_VOTES = 1000.0


def is_close(margin: ArrayLike) -> NDArray[np.bool_]:
    """Return which rows have a mean margin of less than 0.3 in absolute value; these rows determine the size."""
    # The margin is the mean probability of one of two labels minus that of the other.
    return np.asarray(np.abs(np.asarray(margin, dtype=np.float64)) < CLOSE_MARGIN)


def effective_votes(every_row: Sequence[float], close_rows: Sequence[float]) -> float:
    """Return the number of hard votes whose mean varies as much as one member's probability, from 1 to 1000."""
    # It is estimated from the close rows, or from all rows where none is close. Both arguments are the variance of the
    # members' hard votes, and that of their probabilities, each summed over rows, weighted by the members of a row.
    as_votes, observed = close_rows if close_rows[0] > 0 else every_row
    return float(np.clip(as_votes / max(observed, 1e-300), 1.0, MAX_VOTES))
