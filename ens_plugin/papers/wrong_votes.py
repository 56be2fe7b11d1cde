"""Wrong votes by row as the papers count them: curves by size, and a density of the chance that a vote is wrong.

The analysis draws what infinitely many members would say of each row (``core/label_shares.py``); the papers' methods
are judged by the models that they state.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from ens_plugin.core.error_curve import hypergeometric_limit
from ens_plugin.core.row_model import (
    GRID,
    Density,
    RowGroups,
    binomial_likelihood,
    fit_density,
    mean_posterior,
)
from ens_plugin.core.validation import (
    AnyIntArray,
    FloatArray,
    as_sizes,
    as_values,
    pair_index,
    row_parts,
    sums_by_code,
)
from ens_plugin.core.votes import (
    group_counts,
    majority_curve,
    majority_error,
    soft_majority_error,
    warn_of_few_rows,
)
from ens_plugin.core.weights import RowWeight, as_row_weight
from ens_plugin.errors import InputError

MANY_VOTES = 60.0


def as_counts(wrong: ArrayLike, trials: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return wrong votes and votes by row as floats, or raise InputError unless 0 <= wrong <= trials and trials > 0."""
    k = as_values(wrong, "wrong")
    n = as_values(trials, "trials", k.size)
    if n.min() <= 0:
        raise InputError("trials must be positive for every row; leave out rows without out-of-bag members.")
    if k.min() < 0 or np.any(k > n):
        raise InputError("wrong must lie between 0 and trials for every row.")
    return k, n


def as_confidence(value: float) -> float:
    """Return a confidence strictly between 1/2 and 1 as a float, or raise InputError."""
    if not isinstance(value, Real) or not 0.5 < value < 1.0:
        raise InputError(f"confidence must lie strictly between 0.5 and 1, got {value!r}.")
    return float(value)


def binomial_curve(
    wrong: ArrayLike, trials: ArrayLike, sizes: ArrayLike, weight: ArrayLike | RowWeight | None = None
) -> FloatArray:
    r"""Return the plug-in estimate of the error at each size: shares of wrong votes taken as probabilities (2007).

    :math:`\sum_i w_i \pi(k_i/n_i, B) / \sum_i w_i` (2007 eq. 7, 11).  Biased, mostly upwards; the bias vanishes as the
    number of members grows (2007 eq. 9-10).
    """
    k, n = as_counts(wrong, trials)
    w = as_row_weight(weight, k.size).total
    probability, index = np.unique(k / n, return_inverse=True)
    shares = np.bincount(index, w) / w.sum()
    return majority_curve(probability, shares, sizes)


def hypergeometric_curve(
    wrong: ArrayLike, trials: ArrayLike, sizes: ArrayLike, weight: ArrayLike | RowWeight | None = None
) -> FloatArray:
    r"""Return the unbiased estimate of the error at small sizes: the mean over all subsets of the members.

    The weighted mean over rows of :math:`P[\mathrm{Hypergeom}(n_i, k_i, B) > B/2]`.  Rows with fewer members than a
    size do not enter its mean; an InputError is raised where these are more than 10 % of the rows.
    """
    k, n = as_counts(wrong, trials)
    row_weight = as_row_weight(weight, k.size)
    wanted = as_sizes(sizes)
    limit = hypergeometric_limit(n, row_weight.rows)
    odd = 2.0 * np.ceil(wanted / 2.0) - 1.0
    if odd.max() > limit:
        raise InputError(
            f"size {wanted.max():g} is above {limit}, the largest size for which 90 % of the rows have enough "
            "out-of-bag members; pass smaller sizes."
        )
    k_pair, n_pair, shares = _pairs(k, n, row_weight.total)
    tails = subset_majority_error(k_pair, n_pair, int(odd.max()))
    rows = tails[((odd - 1) // 2).astype(np.int64)]
    is_reached = ~np.isnan(rows)
    return np.asarray((np.where(is_reached, rows, 0.0) @ shares) / (is_reached @ shares))


def _pairs(k: FloatArray, n: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the distinct pairs of k and n, and the weight of the rows of each."""
    index = pair_index(k, n)
    pairs = np.empty((2, int(index.max()) + 1))
    for part in row_parts(k.size):
        pairs[:, index[part]] = k[part], n[part]
    return pairs[0], pairs[1], sums_by_code(index, weight, pairs.shape[1])


def subset_majority_error(wrong: ArrayLike, trials: ArrayLike, max_size: int) -> FloatArray:
    """Return the probability that the majority of a random subset of a row's members is wrong.

    P[Hypergeometric(trials, wrong, B) > B/2] at B = 1, 3, 5, ... up to `max_size`, shape (n_odd_sizes, n_rows); NaN
    where B exceeds the row's trials.  The exact mean over all subsets of size B, by recurrence over odd B: absolute
    error about 1e-15.
    """
    k, n = as_counts(wrong, trials)
    if max_size < 1:
        raise InputError(f"max_size must be at least 1, got {max_size}.")
    if np.any(k != np.floor(k)) or np.any(n != np.floor(n)):
        raise InputError("wrong and trials must be whole numbers: subsets of members are counted; pass hard votes.")
    right = n - k
    steps = (int(max_size) - 1) // 2
    rows = np.full((steps + 1, k.size), np.nan)
    tail = k / n
    scale = 1.0 / n
    rows[0] = tail
    for a in range(steps):
        size = 2 * a + 1
        left = n - size
        alive = left >= 2
        spare = np.where(alive, left * (left - 1.0), 1.0)
        base = scale * (k - a) * (right - a) / spare
        tail = tail + base * (k - right)
        scale = base * 2.0 * (2 * a + 3) / (a + 2)
        rows[a + 1] = np.where(alive, np.clip(tail, 0.0, 1.0), np.nan)
    return rows


@dataclass(frozen=True, eq=False)
class Mixture:
    """A fitted distribution over rows of the probability that one member is wrong.

    Attributes
    ----------
    support, weights : ndarray, shape (n_points,)
        The distribution G: points in [0, 1] and their probabilities.
    votes_per_member : float
        Effective votes that one member is worth; 1 for hard votes.
    density : Density or None
        None for a point mass (no member is wrong on any row, or all are).
    likelihood : ndarray, shape (n_groups, n_points)
        Likelihood of each group of equal rows at each point.
    counts : ndarray, shape (n_groups,)
        Weight of each group.
    group : ndarray of int, shape (n_rows,)
        Group of each row.
    """

    support: FloatArray
    weights: FloatArray
    votes_per_member: float
    density: Density | None
    likelihood: FloatArray
    counts: FloatArray
    group: AnyIntArray

    def error_by_point(self, sizes: ArrayLike) -> FloatArray:
        """Return the probability that the ensemble is wrong at each point, shape (n_sizes, n_points)."""
        b = as_sizes(sizes)
        if self.votes_per_member == 1.0:
            return majority_error(self.support, b)
        return soft_majority_error(self.support, b * self.votes_per_member)

    def error(self, sizes: ArrayLike) -> FloatArray:
        """Return the expected error of an ensemble of each size, shape (n_sizes,); infinity is allowed."""
        return np.asarray(self.error_by_point(sizes) @ self.weights)

    @property
    def asymptote(self) -> float:
        """Return the error of the infinite ensemble, G(p > 1/2)."""
        return float(self.error([np.inf])[0])


def fit_mixture(
    wrong: ArrayLike, trials: ArrayLike, weight: ArrayLike | RowWeight | None = None, *, votes_per_member: float = 1.0
) -> Mixture:
    """Fit the distribution over rows of the probability that one member is wrong, by penalised maximum likelihood.

    `wrong` of `trials` out-of-bag members are wrong about each row, or their support for wrong labels is summed; each
    is worth `votes_per_member` votes, 1 for hard votes.  Weights are scaled to Kish's effective number of rows, of
    which fewer than 30 warn.  With 60 or more votes a row on average, the fitted density is replaced by the mean of the
    rows' posteriors (one EM step): so many votes determine a row better than the smooth density does.
    """
    k, n = as_counts(wrong, trials)
    entry_weight = as_row_weight(weight, k.size)
    row_weight, votes = entry_weight.effective(), votes_per_member
    warn_of_few_rows(float(row_weight.sum()))
    if not k.any() or np.array_equal(k, n):
        return _point_mass(0.0 if not k.any() else 1.0, row_weight, votes)
    k_group, n_group, counts, group = group_counts(k, n, row_weight, entry_weight.rows, votes)
    likelihood = binomial_likelihood(k_group, n_group)
    start = _moment_beta(k_group, n_group, counts)
    density = fit_density(
        RowGroups(likelihood, counts),
        beta_mean=(-0.5, 0.5),
        beta_start=start,
    )
    mixture = Mixture(GRID, density.weights, votes, density, likelihood, counts, group)
    # Rounding must not decide at exactly MANY_VOTES.
    if counts @ n_group / counts.sum() < MANY_VOTES * (1.0 - 1e-9):
        return mixture
    return replace(mixture, weights=mean_posterior(RowGroups(likelihood, counts), density.weights))


def _point_mass(at: float, row_weight: FloatArray, votes_per_member: float) -> Mixture:
    return Mixture(
        support=np.array([at]),
        weights=np.ones(1),
        votes_per_member=votes_per_member,
        density=None,
        likelihood=np.ones((1, 1)),
        counts=np.array([row_weight.sum()]),
        group=np.zeros(row_weight.size, dtype=np.int64),
    )


def _moment_beta(k: FloatArray, n: FloatArray, counts: FloatArray) -> tuple[float, float]:
    """Return the exponents of the beta density that matches the mean and variance of the rows' probabilities."""
    total = counts.sum()
    mean = float(np.clip(counts @ (k / n) / total, 1e-3, 1 - 1e-3))
    observed = counts @ (k / n - mean) ** 2 / total
    noise = float(counts @ (1.0 / n) / total)
    spread = (observed / (mean * (1 - mean)) - noise) / max(1.0 - noise, 1e-9)
    concentration = 1.0 / float(np.clip(spread, 1e-2, 0.95)) - 1.0
    return mean * concentration - 1.0, (1.0 - mean) * concentration - 1.0
