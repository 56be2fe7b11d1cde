r"""Rows whose label gets a probability above 0 from few members: how often from none of more, and the log loss then."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, betaln, digamma, gammaln
from scipy.stats import poisson

from ens_plugin.core.validation import BoolArray, FloatArray
from ens_plugin.records import record

__all__ = ["CLIPPED_LOSS", "LowChances", "fit_low_chances", "is_low", "none_of"]

# What scikit-learn's log loss is of a row whose label has probability 0.
CLIPPED_LOSS = float(-np.log(np.finfo(np.float64).eps))
# Rows count as low whose label has a probability above 0 by so many members, and such a share of them, at most.
FEW = 5
LOW_SHARE = 1.0 / 7.0
# The power of the density near 0: its values, and the lognormal prior.  The powers of forests on nine simulated
# problems were 0.7 to 20.
POWERS = np.geomspace(0.1, 40.0, 300)
PRIOR_POWER, PRIOR_SD = 2.0, 0.7
# Quantiles of the posterior of the power, and of the chances given the counts.
KEPT_POWERS = (np.arange(9) + 0.5) / 9
NODES = (np.arange(40) + 0.5) / 40
# Means of counts between which the mean logarithm of a count is interpolated.
MEANS = np.geomspace(1e-3, 100.0, 300)
MOST_COUNTED = 200


@record
class LowChances:
    r"""What is known of the chances p that a member gives a row's label a probability above 0, of low rows.

    Attributes
    ----------
    positive, trials : ndarray, shape (n_cells,)
        Members that gave it one, and members, of rows alike.
    place : ndarray of int, shape (n_rows,)
        Cell of each row.
    powers : ndarray, shape (n_powers,)
        Equally likely ones.

    Notes
    -----
    Near 0 the rows' chances are taken to have a density in proportion to :math:`p^{a-1}`.  Of n members, k give the
    label a probability above 0 in numbers of rows in proportion to :math:`\Gamma(k + a)/k!`, and p given k is
    :math:`\mathrm{Beta}(k + a, n - k + 1)`.  The posterior of the power a is that of these counts, with a lognormal
    prior.
    """

    positive: FloatArray
    trials: FloatArray
    place: NDArray[np.intp]
    powers: FloatArray

    def zero_chances(self, sizes: ArrayLike) -> FloatArray:
        """Return the chance of each row that none of so many other members gives its label more than 0.

        Returns
        -------
        ndarray, shape (n_sizes, n_rows)
        """
        wanted = np.asarray(sizes, dtype=np.float64)[:, None, None]
        first, second = self._shapes()
        return np.asarray(none_of(first, second, wanted).mean(axis=1)[:, self.place])

    def log_losses(self, sizes: ArrayLike) -> FloatArray:
        """Return the expected log loss of each row at each size, infinity allowed, if members predict 0 or 1.

        A probability of 0 counts as scikit-learn's smallest number.

        Returns
        -------
        ndarray, shape (n_powers, n_sizes, n_rows)
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
    """Fit the power of the density of low rows' chances to their counts.

    Parameters
    ----------
    positive, trials : ndarray, shape (n_rows,)
        Of low rows only.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> chance, trials = rng.random(40000), np.full(40000, 40.0)
    >>> positive = rng.binomial(40, chance).astype(float)
    >>> low = is_low(positive, trials)
    >>> found = fit_low_chances(positive[low], trials[low])
    >>> bool(abs(found.zero_chances([100.0]).sum() / np.sum((1.0 - chance) ** 100) - 1.0) < 0.15)
    True
    """
    cells, place, n_alike = np.unique(
        np.stack([positive, trials]), axis=1, return_inverse=True, return_counts=True
    )  # fmt: skip
    most, powers = _most_of(cells[1]), POWERS[:, None]
    each = gammaln(cells[0] + powers) - gammaln(powers)
    total = gammaln(most + 1.0 + powers) - gammaln(1.0 + powers) - gammaln(most + 1.0)
    evidence = (each - total) @ n_alike - (np.log(POWERS / PRIOR_POWER) / PRIOR_SD) ** 2 / 2.0
    belief = np.cumsum(np.exp(evidence - evidence.max()))
    kept = np.interp(KEPT_POWERS, belief / belief[-1], POWERS)
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
