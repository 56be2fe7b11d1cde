"""The chance of a row's second label, given a score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from ens_plugin.core.row_model import MAX_ITERATIONS
from ens_plugin.core.validation import NEGLIGIBLE, FloatArray

# Prior precision of the coefficients: a logistic line is fitted freely, more than that only where the data need it.
PRECISION: FloatArray = np.array([1e-6, 1e-3, 1.0, 1.0, 1.0])
SMALL_STEP = 1e-8


@dataclass(frozen=True, eq=False)
class LabelChances:
    """The chance of each row to have the second label, with the uncertainty of the fit.

    `columns`, shape (n_rows, n_columns), are those of the log-odds; `covariance` is that of their coefficients
    (Laplace).
    """

    second: FloatArray
    columns: FloatArray
    covariance: FloatArray


def chances_of_labels(score: FloatArray, is_second: FloatArray, weight: FloatArray) -> LabelChances:
    r"""Fit the chance of the second label as a smooth function of a score on the scale of log-odds.

    Logistic regression on the score and on Legendre polynomials of :math:`\tanh(\mathrm{score}/2)`, whose coefficients
    have a normal prior of variance 1, by Newton's method.  A step that makes the fit worse is halved: whole steps go
    past the optimum where the score nearly separates the labels.  The weights sum to the number of independent rows.
    """
    columns = _columns(score)
    coefficients = np.zeros(columns.shape[1])
    reached = _log_posterior(coefficients, columns, is_second, weight)
    for _ in range(MAX_ITERATIONS):
        chance = expit(columns @ coefficients)
        gradient = columns.T @ (weight * (is_second - chance)) - PRECISION * coefficients
        step = np.linalg.solve(_hessian(columns, weight, chance), gradient)
        least = reached - NEGLIGIBLE * abs(reached)
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
