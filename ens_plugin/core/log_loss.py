r"""The log loss by the number of members, where some members give a row's own label a probability of 0.

Of infinitely many members' votes, a share :math:`\theta` is for a row's own label.  It has a smooth density over rows,
fitted to the votes by empirical Bayes (:mod:`ens_plugin.core.row_model`), and given its votes each row has a posterior
of it.  The log loss at any size and the chance that all members give the label 0 are means over these posteriors
(``docs/methods/log-loss.md``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import expit, logsumexp, ndtri

from ens_plugin.core.row_model import (
    GRID,
    MAX_VOTES,
    N_CELLS,
    Density,
    PowerPrior,
    RowGroups,
    binomial_likelihood,
    cell_weights,
    design,
    end_power,
    fit_density,
    rougher_density,
)
from ens_plugin.core.validation import AnyIntArray, FloatArray
from ens_plugin.core.votes import group_counts

# What scikit-learn's log loss is of a row whose label has probability 0.
CLIPPED_LOSS = float(-np.log(np.finfo(np.float64).eps))
# Near 0 the density of the shares is in proportion to a power of them: in the mean to the share itself, and to powers
# from -0.75 to 4.6 with a chance of 95 %.  Of forests on nine simulated problems they were -0.3 and more.
POWER_NEAR_ZERO = PowerPrior(mean=1.0, sd=1.25)
# Densities that stand for all that are as likely, evenly spaced in the chance of their power near 0.
N_POWERS = 5
# The grid has its last cell at shares up to 1/400, where a log loss changes most.  It is divided evenly in their
# logarithm, down to where probabilities are clipped.
STEP = 0.2
NEAR_ZERO: FloatArray = np.exp(-np.arange(STEP / 2.0, CLIPPED_LOSS - np.log(N_CELLS), STEP)) / N_CELLS
SHARES: FloatArray = np.append(1.0 - GRID[:-1], NEAR_ZERO)
# Between the last two points of the grid, in the logarithm of the share.
END_DISTANCE = float(np.log1p(-GRID[-2]) - np.log1p(-GRID[-1]))
# Logarithms of t in an integral whose integrand is proportional to t at 0 and falls as exp(-t).
LOG_NODES: FloatArray = np.arange(-32.0, 4.0, 0.25)


@dataclass(frozen=True, eq=False)
class VoteShares:
    """What is known of the shares of infinitely many votes for the rows' own labels, each member worth some `votes`.

    Groups of rows with equal votes have a posterior over :data:`SHARES` by the density of the other votes' share, and
    one by all densities that are as likely; both have shape (n_groups, n_shares).
    """

    votes: float
    density: Density
    posterior: FloatArray
    open_posterior: FloatArray
    group: AnyIntArray

    def means(self, by_share: FloatArray) -> FloatArray:
        """Return the mean of each row of quantities given by share, shape (n_quantities, n_rows)."""
        return np.asarray((by_share @ self.posterior.T)[:, self.group])

    def covariance(self, by_share: FloatArray, share: FloatArray) -> FloatArray:
        """Return the covariance (Laplace) of means over rows, due to the density, which changes what votes tell."""
        columns, weight = _columns(self.density), np.bincount(self.group, share, len(self.posterior))
        together = by_share * (weight @ self.posterior) @ columns
        gradient = together - ((by_share @ self.posterior.T) * weight) @ (self.posterior @ columns)
        return np.asarray(gradient @ self.density.covariance @ gradient.T)


@dataclass(frozen=True, eq=False)
class OwnShares:
    """What is known of the rows' own labels: their mean probability, and the share of members that give more than 0."""

    probability: VoteShares
    positive: VoteShares

    def losses(self, sizes: FloatArray) -> FloatArray:
        """Return the expected log loss of each row at each size, infinity allowed, shape (n_sizes, n_rows)."""
        return self.probability.means(self._of_some(sizes)) + self.positive.means(self._of_none(sizes))

    def zero_chances(self, sizes: FloatArray) -> FloatArray:
        """Return the chance of each row that so many members all give its label 0, shape (n_sizes, n_rows)."""
        # In large ensembles they are decided by the power near 0, which is hardly known.
        by_group = none_of(SHARES, sizes[:, None]) @ self.positive.open_posterior.T
        return np.asarray(by_group[:, self.positive.group])

    def density_covariance(self, sizes: FloatArray, share: FloatArray) -> FloatArray:
        """Return the covariance of the mean losses at some sizes that is due to the densities."""
        some, none = self._of_some(sizes), self._of_none(sizes)
        if self.positive is self.probability:
            return self.probability.covariance(some + none, share)
        return self.probability.covariance(some, share) + self.positive.covariance(none, share)

    def _of_some(self, sizes: FloatArray) -> FloatArray:
        return np.stack([_losses_by_share(self.probability.votes * float(size)) for size in sizes])

    def _of_none(self, sizes: FloatArray) -> FloatArray:
        """Return what a label that all members give 0 adds to the loss of one vote, by share of positive members."""
        finite = np.where(np.isfinite(sizes), sizes, 1.0)[:, None]
        added = none_of(SHARES, finite) * (CLIPPED_LOSS - np.log(self.probability.votes * finite))
        return np.asarray(np.where(np.isfinite(sizes)[:, None], added, 0.0))


def fit_vote_shares(own: FloatArray, trials: FloatArray, weight: FloatArray, votes: float = 1.0) -> VoteShares:
    """Fit the shares of the rows' own labels to what so many members, each worth some votes, give them together."""
    # Weights sum to the number of independent rows.
    wrong, n_votes, counts, group = group_counts(np.clip(trials - own, 0.0, trials), trials, weight, None, votes)
    likelihood = binomial_likelihood(wrong, n_votes)
    density = rougher_density(
        fit_density(
            RowGroups(likelihood, counts), beta_mean=(0.0, POWER_NEAR_ZERO.mean),
            beta_start=(0.0, POWER_NEAR_ZERO.mean), near_one=POWER_NEAR_ZERO,
        )
    )  # fmt: skip
    posterior = _posterior(density.coefficients, likelihood, n_votes, wrong)
    likely = np.mean([_posterior(each, likelihood, n_votes, wrong) for each in _likely(density)], axis=0)
    return VoteShares(votes, density, posterior, likely, group)


def _likely(density: Density) -> FloatArray:
    """Return coefficients of equally likely densities, of different powers near 0, shape (n_powers, n_columns)."""
    along = density.covariance @ end_power()
    distances = ndtri((np.arange(N_POWERS) + 0.5) / N_POWERS)
    return np.asarray(density.coefficients + np.outer(distances, along) / np.sqrt(end_power() @ along))


def _posterior(coefficients: FloatArray, likelihood: FloatArray, n_votes: FloatArray, wrong: FloatArray) -> FloatArray:
    """Return the distribution of each group of rows over :data:`SHARES` under one density."""
    # Rows that are unlike all others are where their votes are.
    posterior = likelihood * np.maximum(cell_weights(coefficients), 1e-300)
    posterior /= posterior.sum(axis=1, keepdims=True)
    within = np.outer(_power(coefficients) + n_votes - wrong, np.log(NEAR_ZERO)) + np.outer(wrong, np.log1p(-NEAR_ZERO))
    within -= logsumexp(within, axis=1, keepdims=True)
    return np.hstack([posterior[:, :-1], posterior[:, -1:] * np.exp(within)])


def _power(coefficients: FloatArray) -> float:
    """Return the power of a share that the chance to be below it is in proportion to near 0."""
    # The last cell has the mass of shares below 1/400, and the one before that of as many more.
    return float(np.logaddexp2(0.0, _log_ratio(coefficients) / np.log(2.0)))


def _log_ratio(coefficients: FloatArray) -> float:
    """Return the logarithm of the mass of the last cell but one over that of the last."""
    return float(END_DISTANCE * (end_power() @ coefficients))


def _columns(density: Density) -> FloatArray:
    """Return the columns of the log-density at each of :data:`SHARES`, shape (n_shares, n_columns)."""
    by_end = expit(_log_ratio(density.coefficients)) * END_DISTANCE / np.log(2.0)
    last = design()[-1] + by_end * np.outer(np.log(NEAR_ZERO) - np.log1p(-GRID[-1]), end_power())
    return np.vstack([design()[:-1], last])


def votes_per_member(mean: FloatArray, variance: FloatArray, trials: FloatArray, weight: FloatArray) -> float:
    """Return how many votes vary in their mean as one member's probability does, for the label of each row.

    Mean and variance (divisor n - 1) are of the members of each row.  A ratio of sums: rows weigh as their variance
    does in the log loss, by :math:`1/p^2`, with :math:`1/n` added to p.
    """
    precision = weight * (mean + 1.0 / trials) ** -2.0
    as_votes = float(precision @ (mean * (1.0 - mean) + variance / trials))
    return float(np.clip(as_votes / max(float(precision @ variance), 1e-300), 1.0, MAX_VOTES))


def none_of(share: FloatArray, n_votes: FloatArray | float) -> FloatArray:
    """Return the chance that none of so many votes is for a label with this share of them."""
    return np.asarray(np.exp(n_votes * np.log1p(-share)))


@lru_cache(maxsize=512)
def _losses_by_share(n_votes: float) -> FloatArray:
    """Return :func:`log_loss` of :data:`SHARES`, which an analysis needs several times."""
    losses = log_loss(SHARES, n_votes)
    losses.flags.writeable = False
    return losses


def log_loss(share: FloatArray, n_votes: float) -> FloatArray:
    r"""Return the expected log loss of so many votes, infinity allowed, for labels with these shares below 1.

    No vote counts as one.  The mean logarithm of the number K of votes for the label, where it has some, is
    :math:`\int_0^\infty (e^{-t} - e^{-Kt}) / t\, dt` (Frullani), and the mean of :math:`e^{-Kt}` is
    :math:`(1 - \theta (1 - e^{-t}))^n`, which has a value for any number n of votes, whole or not.
    """
    if np.isinf(n_votes):
        return np.asarray(np.minimum(-np.log(share), CLIPPED_LOSS))
    nodes, none = np.exp(LOG_NODES), none_of(share, n_votes)[:, None]
    transform = np.exp(n_votes * np.log1p(share[:, None] * np.expm1(-nodes)))
    integrand = (1.0 - none) * np.exp(-nodes) - (transform - none)
    return np.asarray(np.log(n_votes) - (LOG_NODES[1] - LOG_NODES[0]) * integrand.sum(axis=1))
