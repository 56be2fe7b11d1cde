"""A smooth density on [0, 1], fitted to noisy rows by penalised maximum likelihood (docs/methods.md, section 2)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.interpolate import BSpline

from ens_plugin.core.validation import FloatArray

__all__ = ["GRID", "Density", "fit_density"]

N_CELLS = 400
GRID: FloatArray = (np.arange(1, N_CELLS + 1) - 0.5) / N_CELLS
BETA_VARIANCE = 100.0
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
    covariance : ndarray, shape (n_columns, n_columns)
        Inverse of the penalised Hessian: covariance of the coefficients (Laplace).
    """

    weights: FloatArray
    coefficients: FloatArray
    covariance: FloatArray


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
    columns = design()
    coefficients: FloatArray = np.zeros(columns.shape[1])
    coefficients[:2] = beta_start
    centre = np.zeros_like(coefficients)
    centre[:2] = beta_mean
    precision = np.full(coefficients.size, 1.0 / ROUGHNESS_SCALE**2)
    precision[:2] = 1.0 / BETA_VARIANCE
    coefficients = _maximize(likelihood, counts, coefficients, centre, precision)
    weights = cell_weights(coefficients)
    _, hessian = _derivatives(likelihood, counts, weights)
    covariance = _positive_inverse(hessian + np.diag(precision))
    return Density(weights, coefficients, covariance)


def cell_weights(coefficients: FloatArray) -> FloatArray:
    """Return the cell probabilities of one or more coefficient vectors, shape (..., 400)."""
    log_density = coefficients @ design().T
    log_density -= log_density.max(axis=-1, keepdims=True)
    weights = np.exp(log_density)
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def _objective(
    likelihood: FloatArray, counts: FloatArray, coefficients: FloatArray, centre: FloatArray, precision: FloatArray
) -> float:
    fit = counts @ np.log(np.maximum(likelihood @ cell_weights(coefficients), 1e-300))
    return float(fit - 0.5 * precision @ (coefficients - centre) ** 2)


def _derivatives(likelihood: FloatArray, counts: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the gradient of the log-likelihood, and its negated Hessian, in the coefficients."""
    columns = design()
    total = counts.sum()
    evidence = np.maximum(likelihood @ weights, 1e-300)
    expected = weights * ((counts / evidence) @ likelihood)
    row_means = (likelihood @ (columns * weights[:, None])) / evidence[:, None]
    mean = weights @ columns
    prior_spread = (columns.T * weights) @ columns - np.outer(mean, mean)
    row_spread = (columns.T * expected) @ columns - (row_means.T * counts) @ row_means
    return columns.T @ expected - total * mean, total * prior_spread - row_spread


def _maximize(
    likelihood: FloatArray, counts: FloatArray, coefficients: FloatArray, centre: FloatArray, precision: FloatArray
) -> FloatArray:
    """Return the coefficients that maximize the objective, by Newton's method with step halving."""
    value = _objective(likelihood, counts, coefficients, centre, precision)
    for _ in range(MAX_ITERATIONS):
        gradient, hessian = _derivatives(likelihood, counts, cell_weights(coefficients))
        gradient = gradient - precision * (coefficients - centre)
        step = _positive_inverse(hessian + np.diag(precision)) @ gradient
        change = np.abs(design() @ step).max()
        step *= min(1.0, MAX_LOG_STEP / max(change, 1e-12))
        candidate = _objective(likelihood, counts, coefficients + step, centre, precision)
        while candidate < value and np.abs(step).max() > 1e-12:
            step /= 2.0
            candidate = _objective(likelihood, counts, coefficients + step, centre, precision)
        if candidate < value:
            return coefficients
        coefficients = coefficients + step
        if candidate - value < MIN_GAIN:
            return coefficients
        value = candidate
    return coefficients


def _positive_inverse(matrix: FloatArray) -> FloatArray:
    """Return the inverse of a symmetric matrix, its eigenvalues first made positive: absolute, and at least 0.01."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2.0)
    values = np.maximum(np.abs(values), 1.0 / BETA_VARIANCE)
    return np.asarray((vectors / values) @ vectors.T)
