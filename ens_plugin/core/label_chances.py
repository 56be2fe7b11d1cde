"""The chance of a row's second label, given a score."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit

from ens_plugin.core.row_model import MAX_ITERATIONS
from ens_plugin.core.validation import NEGLIGIBLE, ROUNDING, FloatArray

# Prior precision of the coefficients: a logistic line is fitted freely, more than that only where the data need it.
PRECISION: FloatArray = np.array([1e-6, 1e-3, 1.0, 1.0, 1.0])
SMALL_STEP = 1e-8


@dataclass(frozen=True, eq=False)
class LabelChances:
    """The chance of each row to have the second label, with the columns of its log-odds and what they were fitted to.

    `covariance` is that of the columns' coefficients (Laplace).
    """

    second: FloatArray
    columns: FloatArray
    covariance: FloatArray
    is_second: FloatArray
    weight: FloatArray

    def refitted(self, counts: FloatArray) -> FloatArray:
        """Return the chances fitted to a bootstrap sample in which each row is so many times, by one Newton step."""
        residual = self.weight * (counts - 1.0) * (self.is_second - self.second)
        step = self.covariance @ (self.columns.T @ residual)
        return np.asarray(expit(logit(self.second) + self.columns @ step), dtype=np.float64)


def chances_by_output(
    output: FloatArray, trials: FloatArray, is_second: FloatArray, weight: FloatArray
) -> LabelChances:
    """Fit the chance of the second label by the mean output of so many members for it."""
    if output.min() >= 0.0 and output.max() <= 1.0:
        score = logit((output * trials + 0.5) / (trials + 1.0))
    else:
        score = 2.0 * output / max(float(np.sqrt(np.mean(output**2))), ROUNDING)
    # Kish's effective number of rows.
    return chances_of_labels(score, is_second, weight * weight.sum() / (weight @ weight))


def chances_of_labels(score: FloatArray, is_second: FloatArray, weight: FloatArray) -> LabelChances:
    r"""Fit the chance of the second label as a smooth function of a score on the scale of log-odds.

    Logistic regression on the score and on Legendre polynomials of :math:`\tanh(\mathrm{score}/2)` with a normal prior,
    by Newton's method.  The weights sum to the number of independent rows.
    """
    columns = _columns(score)
    coefficients = np.zeros(columns.shape[1])
    reached = _log_posterior(coefficients, columns, is_second, weight)
    for _ in range(MAX_ITERATIONS):
        chance = expit(columns @ coefficients)
        gradient = columns.T @ (weight * (is_second - chance)) - PRECISION * coefficients
        step = np.linalg.solve(_hessian(columns, weight, chance), gradient)
        least = reached - NEGLIGIBLE * abs(reached)
        # Whole steps go past the optimum where the score nearly separates the labels.
        while (found := _log_posterior(coefficients + step, columns, is_second, weight)) < least:
            step /= 2.0
        coefficients, reached = coefficients + step, found
        if float(np.abs(step).max()) < SMALL_STEP:
            break
    chance = expit(columns @ coefficients)
    covariance = np.linalg.inv(_hessian(columns, weight, chance))
    return LabelChances(np.asarray(chance, dtype=np.float64), columns, np.asarray(covariance), is_second, weight)


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
