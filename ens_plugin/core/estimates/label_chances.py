"""The chance of a row to have the second of two labels, by its members' support (docs/methods.md, section 7)."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from ens_plugin.core.validation import FloatArray
from ens_plugin.records import record

__all__ = ["LabelChances", "chances_of_labels"]

# Prior precision of the coefficients: a logistic line is fitted freely, more than that only where the data need it.
PRECISION: FloatArray = np.array([1e-6, 1e-3, 1.0, 1.0, 1.0])
MAX_ITERATIONS, SMALL_STEP, ROUNDING = 200, 1e-8, 1e-12


@record
class LabelChances:
    """The chance of each row to have the second label, with the uncertainty of the fit.

    Attributes
    ----------
    second : ndarray, shape (n_rows,)
    columns : ndarray, shape (n_rows, n_columns)
        Of the log-odds.
    covariance : ndarray, shape (n_columns, n_columns)
        Of the coefficients (Laplace).
    """

    second: FloatArray
    columns: FloatArray
    covariance: FloatArray


def chances_of_labels(score: FloatArray, is_second: FloatArray, weight: FloatArray) -> LabelChances:
    r"""Fit the chance of the second label as a smooth function of a score.

    Parameters
    ----------
    score : ndarray, shape (n_rows,)
        On the scale of log-odds; greater where the members support the second label.
    is_second : ndarray, shape (n_rows,)
        1 for rows of the second label, 0 for those of the first.
    weight : ndarray, shape (n_rows,)
        Of independent rows: it sums to their number.

    Notes
    -----
    Logistic regression on the score and on Legendre polynomials of :math:`\tanh(\mathrm{score}/2)`, whose coefficients
    have a normal prior of variance 1, by Newton's method.  A step that makes the fit worse is halved: whole steps go
    past the optimum where the score nearly separates the labels.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> score = rng.normal(size=4000)
    >>> found = chances_of_labels(score, (rng.random(4000) < 1 / (1 + np.exp(-2 * score))).astype(float), np.ones(4000))
    >>> bool(np.abs(found.second - 1 / (1 + np.exp(-2 * score))).mean() < 0.02)
    True
    """
    columns = _columns(score)
    coefficients = np.zeros(columns.shape[1])
    reached = _log_posterior(coefficients, columns, is_second, weight)
    for _ in range(MAX_ITERATIONS):
        chance = expit(columns @ coefficients)
        gradient = columns.T @ (weight * (is_second - chance)) - PRECISION * coefficients
        step = np.linalg.solve(_hessian(columns, weight, chance), gradient)
        least = reached - ROUNDING * abs(reached)
        while (found := _log_posterior(coefficients + step, columns, is_second, weight)) < least:
            step /= 2.0
        coefficients, reached = coefficients + step, found
        if float(np.abs(step).max()) < SMALL_STEP:
            break
    chance = expit(columns @ coefficients)
    covariance = np.linalg.inv(_hessian(columns, weight, chance))
    return LabelChances(np.asarray(chance, dtype=np.float64), columns, np.asarray(covariance, dtype=np.float64))


def _columns(score: FloatArray) -> FloatArray:
    inside = np.tanh(score / 2.0)
    polynomials = [inside, inside**2 - 1.0 / 3.0, inside**3 - 0.6 * inside]
    return np.asarray(np.column_stack([np.ones(score.size), score, *polynomials]))


def _log_posterior(coefficients: FloatArray, columns: FloatArray, is_second: FloatArray, weight: FloatArray) -> float:
    log_odds = columns @ coefficients
    likelihood = weight @ (is_second * log_odds - np.logaddexp(0.0, log_odds))
    return float(likelihood - PRECISION @ coefficients**2 / 2.0)


def _hessian(columns: FloatArray, weight: FloatArray, chance: FloatArray) -> FloatArray:
    return np.asarray((columns.T * (weight * chance * (1.0 - chance))) @ columns + np.diag(PRECISION))
