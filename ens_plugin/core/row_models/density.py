"""A smooth density on [0, 1], fitted to noisy rows by penalised maximum likelihood (docs/methods.md, section 2)."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from scipy.interpolate import BSpline

from ens_plugin.core.row_models.likelihoods.band import Likelihood
from ens_plugin.core.validation import FloatArray
from ens_plugin.records import record

__all__ = ["GRID", "Density", "RowGroups", "fit_density", "refit_density", "rougher_density"]

N_CELLS = 400
GRID: FloatArray = (np.arange(1, N_CELLS + 1) - 0.5) / N_CELLS
# Of the coefficients of a beta distribution, which are large where the rows are alike: votes between 0.3 and 0.5, as of
# trees on many columns without a strong one, have coefficients of 30 and more.
BETA_VARIANCE = 1e4
LEAST_EIGENVALUE = 1.0 / BETA_VARIANCE
ROUGHNESS_SCALE = 2.0
# How many times as rough a density may be, and by how much its evidence must exceed that of the one before.
ROUGHER, LEAST_EVIDENCE = (2.0, 4.0, 8.0), 1.0
MAX_LOG_STEP = 20.0
MAX_ITERATIONS = 200
# The log-likelihood that may remain to be gained, with the relative rounding of its sum over rows.
LEAST_GAIN, ROUNDING = 1e-8, 1e-14
# A step that gains no more than this keeps the Hessian, unless more than this share of the gain is left.
STALE_GAIN, SLOW = 0.05, 0.1
EM_STEPS = 3
LEAST_START, LEAST_WEIGHT = 1e-4, 1e-12


class RowGroups(NamedTuple):
    """Groups of equal rows.

    Attributes
    ----------
    likelihood : ndarray, BandMatrix or ProductMatrix, shape (n_groups, 400)
        Likelihood of each group's rows at each grid point, scaled so that its maximum is 1.
    counts : ndarray, shape (n_groups,)
        Rows (or their weight) in each group.
    """

    likelihood: Likelihood
    counts: FloatArray


@record
class Density:
    """A fitted density on a grid, with the covariance of its coefficients.

    Attributes
    ----------
    weights : ndarray, shape (400,)
        Probability of each cell of the grid.
    coefficients : ndarray, shape (n_columns,)
    maximum : _Reached
        The penalised log-likelihood at these coefficients.
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
    def roughness(self) -> float:
        """Return the scale of the roughness, the prior standard deviation of the coefficients of the smooth part."""
        return float(self.maximum.objective.precision[-1] ** -0.5)

    @cached_property
    def evidence(self) -> float:
        """Return the logarithm of the rows' marginal likelihood (Laplace), up to a constant."""
        precision = self.maximum.objective.precision
        return float(self.maximum.value + 0.5 * np.sum(np.log(precision)) + 0.5 * np.linalg.slogdet(self.covariance)[1])


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


def fit_density(
    rows: RowGroups,
    *,
    beta_mean: tuple[float, float],
    beta_start: tuple[float, float],
    coarse: RowGroups | None = None,
) -> Density:
    """Fit the density of the rows' parameters by penalised maximum likelihood.

    Parameters
    ----------
    rows : RowGroups
    beta_mean : tuple of two floats
        Prior mean of the coefficients of log p and log(1-p); the prior variance is 10 000.
    beta_start : tuple of two floats
        Values of these two coefficients, a density from which the fit starts.
    coarse : RowGroups, optional
        The same rows in fewer groups, of nearly equal ones.  Their density is where the fit of all groups starts, and
        is close enough for a step or two; it changes how long the fit takes.
    """
    coefficients: FloatArray = np.zeros(design().shape[1])
    coefficients[:2] = beta_start
    centre = np.zeros_like(coefficients)
    centre[:2] = beta_mean
    precision = np.full(coefficients.size, 1.0 / ROUGHNESS_SCALE**2)
    precision[:2] = 1.0 / BETA_VARIANCE
    objective = _Objective(rows, centre, precision)
    first = objective if coarse is None else _Objective(coarse, centre, precision)
    start = first.at(_near_start(first, coefficients))
    reached, hessian = _maximize(start, start.hessian())
    if coarse is not None:
        reached, _ = _maximize(objective.at(reached.coefficients), hessian)
    return Density(reached.weights, reached.coefficients, reached)


def rougher_density(density: Density) -> Density:
    """Return a density fitted to the same rows whose roughness is penalised less, as far as the rows show that it is.

    The scale of the roughness is doubled for as long as the evidence grows by more than 1.  The fitted density fills a
    gap that is narrower than its scale allows, and rows of many members show the gap.

    Parameters
    ----------
    density : Density
        Of :func:`fit_density`, which is returned where no rougher one has more evidence.
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


@record
class _Objective:
    """The penalised log-likelihood of the coefficients: the rows, and the normal prior of the coefficients."""

    rows: RowGroups
    centre: FloatArray
    precision: FloatArray

    def at(self, coefficients: FloatArray) -> _Reached:
        """Return the objective at one vector of coefficients."""
        weights = cell_weights(coefficients)
        evidence = np.maximum(self.rows.likelihood @ weights, 1e-300)
        penalty = 0.5 * self.precision @ (coefficients - self.centre) ** 2
        value = float(self.rows.counts @ np.log(evidence) - penalty)
        return _Reached(self, coefficients, value, weights, evidence)


@record
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
        return np.asarray(self.excess @ design() - objective.precision * (self.coefficients - objective.centre))

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
        return np.asarray(found)


def _near_start(objective: _Objective, coefficients: FloatArray) -> FloatArray:
    """Return coefficients of a density close to the rows' mean posterior after some steps of the EM algorithm.

    Newton's method needs half as many steps from there, each of which takes ten times as long.
    """
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
    """Return where Newton's method with step halving ends, and the last negated Hessian that it used.

    Parameters
    ----------
    reached : _Reached
        Where it starts.
    hessian : ndarray
        The negated Hessian there, or one close to it.
    """
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
