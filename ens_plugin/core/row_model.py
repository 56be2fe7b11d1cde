"""The distribution of a quantity over rows: a density on a grid, fitted to what was counted by its likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import BSpline
from scipy.optimize import minimize

from ens_plugin.core.validation import FloatArray

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

    likelihood: FloatArray
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


def binomial_likelihood(k: FloatArray, n: FloatArray) -> FloatArray:
    """Return the likelihood of k of n votes for each group at each point of the grid, shape (n_groups, 400).

    The largest of each group is 1; columns are contiguous for the fit.
    """
    log_likelihood = np.column_stack([np.log(GRID), np.log1p(-GRID)]) @ np.stack([k, n - k])
    # The largest is at one of the two points around k/n; to look for it at all points takes as long as the rest.
    below, rows = np.clip(np.floor(k / n * GRID.size - 0.5).astype(np.intp), 0, GRID.size - 2), np.arange(k.size)
    log_likelihood -= np.maximum(log_likelihood[below, rows], log_likelihood[below + 1, rows])
    return np.asarray(np.exp(log_likelihood, out=log_likelihood).T)


def mean_posterior(rows: RowGroups, weights: FloatArray) -> FloatArray:
    """Return the mean over rows of their posterior on the grid, under a density of these cell probabilities."""
    evidence = np.maximum(rows.likelihood @ weights, 1e-300)
    return np.asarray((rows.counts / evidence) @ rows.likelihood * weights / rows.counts.sum())


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
