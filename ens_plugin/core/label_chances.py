"""Chances of a row's labels: of the second one given a score, and of a label to which few members give a chance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, betaln, digamma, expit, gammaln
from scipy.stats import poisson

from ens_plugin.core.row_model import MAX_ITERATIONS
from ens_plugin.core.validation import NEGLIGIBLE, BoolArray, FloatArray

__all__ = [
    "CLIPPED_LOSS",
    "LabelChances",
    "LowChances",
    "chances_of_labels",
    "fit_low_chances",
    "is_low",
    "none_of",
]

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


# What scikit-learn's log loss is of a row whose label has probability 0.
CLIPPED_LOSS = float(-np.log(np.finfo(np.float64).eps))
# Rows count as low whose label has a probability above 0 by so many members, and such a share of them, at most.
FEW = 5
LOW_SHARE = 1.0 / 7.0
# The power of the density near 0: its values, and the lognormal prior.  The powers of forests on nine simulated
# problems were 0.7 to 20.
POWERS_NEAR_ZERO = np.geomspace(0.1, 40.0, 300)
PRIOR_POWER, PRIOR_SD_OF_POWER = 2.0, 0.7
# Quantiles of the posterior of the power, and of the chances given the counts.
KEPT_POWERS = (np.arange(9) + 0.5) / 9
NODES = (np.arange(40) + 0.5) / 40
# Means of counts between which the mean logarithm of a count is interpolated.
MEANS = np.geomspace(1e-3, 100.0, 300)
MOST_COUNTED = 200


@dataclass(frozen=True, eq=False)
class LowChances:
    r"""What is known of the chances p that a member gives a row's label a probability above 0, of low rows.

    Near 0 they have a density in proportion to :math:`p^{a-1}`: k of n members are then in proportion to
    :math:`\Gamma(k + a)/k!`, and p given k is :math:`\mathrm{Beta}(k + a, n - k + 1)` (``docs/methods/log-loss.md``,
    probabilities of 0).

    Attributes
    ----------
    positive, trials : ndarray, shape (n_cells,)
        Members that gave it one, and members, of rows alike.
    place : ndarray of int, shape (n_rows,)
        Cell of each row.
    powers : ndarray, shape (n_powers,)
        Equally likely ones.
    """

    positive: FloatArray
    trials: FloatArray
    place: NDArray[np.intp]
    powers: FloatArray

    def zero_chances(self, sizes: ArrayLike) -> FloatArray:
        """Return the chance of each row, by size, that none of so many other members gives its label more than 0."""
        wanted = np.asarray(sizes, dtype=np.float64)[:, None, None]
        first, second = self._shapes()
        return np.asarray(none_of(first, second, wanted).mean(axis=1)[:, self.place])

    def log_losses(self, sizes: ArrayLike) -> FloatArray:
        """Return the expected log loss of each row at each size, infinity allowed, if members predict 0 or 1.

        The shape is (n_powers, n_sizes, n_rows).  A probability of 0 counts as scikit-learn's smallest number.
        """
        first, second = self._shapes()
        chances = np.asarray(betaincinv(first[..., None], second[..., None], NODES), dtype=np.float64)
        found = [
            _limits(first, second) if np.isinf(size) else _losses(first, second, chances, size)
            for size in np.asarray(sizes, dtype=np.float64)
        ]
        return np.stack(found, axis=1)[..., self.place]

    def _shapes(self) -> tuple[FloatArray, FloatArray]:
        """Return the parameters of the beta distributions of the chances, shape (n_powers, n_cells)."""
        first = self.positive + self.powers[:, None]
        return first, np.broadcast_to(self.trials - self.positive + 1.0, first.shape)


def is_low(positive: FloatArray, trials: FloatArray) -> BoolArray:
    """Return which rows are low: whose label gets a probability above 0 from few members."""
    return np.asarray(positive <= _most_of(trials))


def fit_low_chances(positive: FloatArray, trials: FloatArray) -> LowChances:
    """Fit the power of the density of low rows' chances to their counts."""
    cells, place, n_alike = np.unique(
        np.stack([positive, trials]), axis=1, return_inverse=True, return_counts=True
    )  # fmt: skip
    most, powers = _most_of(cells[1]), POWERS_NEAR_ZERO[:, None]
    each = gammaln(cells[0] + powers) - gammaln(powers)
    total = gammaln(most + 1.0 + powers) - gammaln(1.0 + powers) - gammaln(most + 1.0)
    evidence = (each - total) @ n_alike - (np.log(POWERS_NEAR_ZERO / PRIOR_POWER) / PRIOR_SD_OF_POWER) ** 2 / 2.0
    belief = np.cumsum(np.exp(evidence - evidence.max()))
    kept = np.interp(KEPT_POWERS, belief / belief[-1], POWERS_NEAR_ZERO)
    return LowChances(cells[0], cells[1], place.reshape(-1), kept)


def none_of(first: FloatArray, second: FloatArray, size: FloatArray | float) -> FloatArray:
    """Return the expectation of (1 - p)^size under Beta(first, second)."""
    return np.asarray(np.exp(betaln(first, second + size) - betaln(first, second)))


def _most_of(trials: FloatArray) -> FloatArray:
    return np.asarray(np.minimum(np.floor(LOW_SHARE * trials), FEW))


def _limits(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the expected log loss with infinitely many members."""
    # Below the clipping, the distribution of the chance is a power of it.
    beyond = np.exp(-first * CLIPPED_LOSS - betaln(first, second)) / first**2
    return np.asarray(digamma(first + second) - digamma(first) - beyond)


def _losses(first: FloatArray, second: FloatArray, chances: FloatArray, size: float) -> FloatArray:
    """Return the expected log loss at a size; `chances` are equally likely ones, along a last axis."""
    none = none_of(first, second, size)
    some = np.log(size) * (1.0 - none) - _mean_logarithm(chances * size).mean(axis=-1)
    return np.asarray(some + none * CLIPPED_LOSS)


def _mean_logarithm(mean: FloatArray) -> FloatArray:
    """Return the expected logarithm of a Poisson count with this mean, of 1 in place of 0."""
    far = np.maximum(mean, MEANS[-1])
    series = np.log(far) - 1.0 / (2.0 * far) - 5.0 / (12.0 * far**2)
    near = np.interp(np.log(np.maximum(mean, MEANS[0])), np.log(MEANS), _tabulated_logarithms())
    return np.asarray(np.where(mean > MEANS[-1], series, near))


@lru_cache(maxsize=1)
def _tabulated_logarithms() -> FloatArray:
    counts = np.arange(1, MOST_COUNTED + 1)
    return np.asarray(poisson.pmf(counts, MEANS[:, None]) @ np.log(counts))
