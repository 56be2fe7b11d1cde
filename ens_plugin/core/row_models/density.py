"""A smooth density on [0, 1], fitted to noisy rows by penalised maximum likelihood (docs/methods.md, section 2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.interpolate import BSpline

from ens_plugin.core.validation import FloatArray

__all__ = ["GRID", "Density", "fit_density"]

N_CELLS = 400
GRID: FloatArray = (np.arange(1, N_CELLS + 1) - 0.5) / N_CELLS
BETA_VARIANCE = 100.0
LEAST_EIGENVALUE = 1.0 / BETA_VARIANCE
ROUGHNESS_SCALE = 2.0
MAX_LOG_STEP = 20.0
# After a Newton step that raises the log-likelihood by 1e-3, about 1e-6 remains to gain.
MIN_GAIN = 1e-3
MAX_ITERATIONS = 200


@dataclass(frozen=True, eq=False)
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
        _, hessian = self.maximum.derivatives()
        return _positive_inverse(hessian)


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
def _ones_and_design() -> FloatArray:
    """Return a row of ones above the columns of the design, shape (1 + n_columns, 400)."""
    return np.vstack([np.ones(N_CELLS), design().T])


def fit_density(
    likelihood: FloatArray, counts: FloatArray, *, beta_mean: tuple[float, float], beta_start: tuple[float, float]
) -> Density:
    """Fit the density of the rows' parameters by penalised maximum likelihood.

    Parameters
    ----------
    likelihood : ndarray, shape (n_groups, 400)
        Likelihood of each group of equal rows at each grid point, scaled so that its maximum is 1.
    counts : ndarray, shape (n_groups,)
        Rows (or their weight) in each group.
    beta_mean : tuple of two floats
        Prior mean of the coefficients of log p and log(1-p); the prior variance is 100.
    beta_start : tuple of two floats
        Values of these two coefficients from which Newton's method starts.
    """
    coefficients: FloatArray = np.zeros(design().shape[1])
    coefficients[:2] = beta_start
    centre = np.zeros_like(coefficients)
    centre[:2] = beta_mean
    precision = np.full(coefficients.size, 1.0 / ROUGHNESS_SCALE**2)
    precision[:2] = 1.0 / BETA_VARIANCE
    reached = _maximize(_Objective(likelihood, counts, centre, precision), coefficients)
    return Density(reached.weights, reached.coefficients, reached)


def cell_weights(coefficients: FloatArray) -> FloatArray:
    """Return the cell probabilities of one or more coefficient vectors, shape (..., 400)."""
    log_density = coefficients @ design().T
    log_density -= log_density.max(axis=-1, keepdims=True)
    weights = np.exp(log_density)
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


@dataclass(frozen=True, eq=False)
class _Objective:
    """The penalised log-likelihood of the coefficients: the rows, and the normal prior of the coefficients."""

    likelihood: FloatArray
    counts: FloatArray
    centre: FloatArray
    precision: FloatArray

    def at(self, coefficients: FloatArray) -> _Reached:
        """Return the objective at one vector of coefficients."""
        weights = cell_weights(coefficients)
        # One product for the evidence and its derivatives: the likelihood is by far the largest array here.
        products = (_ones_and_design() * weights) @ self.likelihood.T
        evidence = np.maximum(products[0], 1e-300)
        penalty = 0.5 * self.precision @ (coefficients - self.centre) ** 2
        value = float(self.counts @ np.log(evidence) - penalty)
        return _Reached(self, coefficients, value, weights, evidence, products[1:])


@dataclass(frozen=True, eq=False)
class _Reached:
    """The objective at one vector of coefficients, and what its derivatives are computed from."""

    objective: _Objective
    coefficients: FloatArray
    value: float
    weights: FloatArray
    evidence: FloatArray
    column_sums: FloatArray

    def derivatives(self) -> tuple[FloatArray, FloatArray]:
        """Return the gradient of the objective, and its negated Hessian, in the coefficients."""
        objective, columns, weights = self.objective, design(), self.weights
        counts, total = objective.counts, objective.counts.sum()
        expected = weights * ((counts / self.evidence) @ objective.likelihood)
        row_means = self.column_sums / self.evidence
        mean = weights @ columns
        prior_spread = (columns.T * weights) @ columns - np.outer(mean, mean)
        row_spread = (columns.T * expected) @ columns - (row_means * counts) @ row_means.T
        gradient = columns.T @ expected - total * mean - objective.precision * (self.coefficients - objective.centre)
        return gradient, total * prior_spread - row_spread + np.diag(objective.precision)


def _maximize(objective: _Objective, start: FloatArray) -> _Reached:
    """Return where Newton's method with step halving ends."""
    reached = objective.at(start)
    for _ in range(MAX_ITERATIONS):
        gradient, hessian = reached.derivatives()
        step = _newton_step(hessian, gradient)
        change = np.abs(design() @ step).max()
        step *= min(1.0, MAX_LOG_STEP / max(change, 1e-12))
        candidate = objective.at(reached.coefficients + step)
        while candidate.value < reached.value and np.abs(step).max() > 1e-12:
            step /= 2.0
            candidate = objective.at(reached.coefficients + step)
        gain = candidate.value - reached.value
        if gain < 0.0:
            return reached
        reached = candidate
        if gain < MIN_GAIN:
            return reached
    return reached


def _newton_step(hessian: FloatArray, gradient: FloatArray) -> FloatArray:
    """Return :func:`_positive_inverse` of the Hessian times the gradient."""
    try:
        # It exists if all eigenvalues are above the least, which is so nearly always.
        np.linalg.cholesky(hessian - LEAST_EIGENVALUE * np.eye(gradient.size))
    except np.linalg.LinAlgError:
        return _positive_inverse(hessian) @ gradient
    return np.asarray(np.linalg.solve(hessian, gradient))


def _positive_inverse(matrix: FloatArray) -> FloatArray:
    """Return the inverse of a symmetric matrix, with absolute eigenvalues of at least 0.01 in place of its own."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2.0)
    values = np.maximum(np.abs(values), LEAST_EIGENVALUE)
    return np.asarray((vectors / values) @ vectors.T)
