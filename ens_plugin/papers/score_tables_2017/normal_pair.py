r"""Members whose scores on a row are a mixture of two normals (2017, section A.3 (c))."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, logit, ndtr
from scipy.stats import binom

from ens_plugin.core.row_models.majority import majority_error
from ens_plugin.core.validation import FloatArray, as_weight
from ens_plugin.papers.score_tables_2017.score_means import log_mean_moments, mean_below_half
from ens_plugin.papers.score_tables_2017.score_models import NormalScores, as_outputs, moments_of_mean, row_moments
from ens_plugin.papers.score_tables_2017.score_tables import ScoreTables, score_quadrature

__all__ = ["NormalPair", "fit_normal_pair"]

EM_STEPS = 100
PRIOR_MEMBERS = 2.0
COUNTED_SIZE = 400


@dataclass(frozen=True, eq=False)
class NormalPair:
    """Weighted rows whose members' scores are a mixture of two normals.

    Attributes
    ----------
    share : ndarray, shape (n_rows,)
        Probability of the first component.
    mean, variance : ndarray, shape (2, n_rows)
        Moments of the two components.
    weight : ndarray, shape (n_rows,)
        Weight of each row.
    """

    share: FloatArray
    mean: FloatArray
    variance: FloatArray
    weight: FloatArray

    def flipped(self) -> NormalPair:
        """Return the same rows with the two labels exchanged."""
        return NormalPair(self.share, -self.mean, self.variance, self.weight)

    def pooled(self) -> NormalScores:
        """Return rows with normal scores of the mixtures' mean and variance."""
        shares = np.stack([self.share, 1.0 - self.share])
        mean = np.sum(shares * self.mean, axis=0)
        variance = np.sum(shares * (self.variance + (self.mean - mean) ** 2), axis=0)
        return NormalScores(mean, variance, self.weight)

    def wrong(self, size: float, aggregation: str, tables: ScoreTables) -> FloatArray:
        """Return the probability that an ensemble of `size` members prefers the wrong label, shape (n_rows,)."""
        if aggregation == "mean_score":
            return np.asarray(self._over_counts(lambda rows: rows.wrong(1, "mean_score", tables)[None], size)[0])
        if aggregation == "vote":
            single = self._over_counts(lambda rows: rows.wrong(1, "mean_score", tables)[None], 1)[0]
            return np.asarray(majority_error(single, [size])[0])
        if np.isinf(size):
            miss = self._over_counts(lambda rows: rows.miss_moments(1, "mean_score", tables), 1)[0]
            return np.asarray((1.0 + np.sign(np.round(miss - 0.5, 12))) / 2.0)
        return np.array([self._below_half(row, size) for row in range(self.share.size)])

    def log_moments(self, size: float, aggregation: str, tables: ScoreTables) -> FloatArray:
        """Return mean and variance of the ensemble's log probability of the true label, shape (2, n_rows)."""
        if aggregation == "mean_score":
            first, second = self._over_counts(lambda rows: tables.log_loss_moments(rows.mean, rows.spread), size)
            return np.stack([-first, np.maximum(second - first**2, 0.0)])
        return np.stack([self._log_mean(row, size) for row in range(self.share.size)], axis=1)

    def miss_moments(self, size: float, aggregation: str, tables: ScoreTables) -> FloatArray:
        """Return first to fourth moment of the ensemble's probability of the wrong label, shape (4, n_rows)."""
        if aggregation == "mean_score":
            return self._over_counts(lambda rows: tables.miss_moments(rows.mean, rows.spread), size)
        single = self._over_counts(lambda rows: tables.miss_moments(rows.mean, rows.spread), 1)
        return moments_of_mean(single, size)

    def _over_counts(self, moments: Callable[[NormalScores], FloatArray], size: float) -> FloatArray:
        """Return moments of the mean score, averaged over how many of `size` members are from the first component.

        Given that number the mean score is normal; above 400 members it is taken as normal.
        """
        if size > COUNTED_SIZE:
            return moments(self.pooled().mixed_scores(size))
        total: FloatArray = np.zeros(1)
        for first in range(int(size) + 1):
            chance: FloatArray = np.asarray(binom.pmf(first, int(size), self.share))
            if chance.max() < 1e-14:
                continue
            counts = np.array([first, size - first])[:, None]
            mean = np.sum(counts * self.mean, axis=0) / size
            variance = np.sum(counts * self.variance, axis=0) / size**2
            total = total + chance * moments(NormalScores(mean, variance, self.weight))
        return total

    def _below_half(self, row: int, size: float) -> float:
        share, mean, spread = self.share[row], self.mean[:, row], np.sqrt(self.variance[:, row])
        low, high = expit([float((mean - 9.0 * spread).min()), float((mean + 9.0 * spread).max())])

        def cumulative(p: FloatArray) -> FloatArray:
            with np.errstate(divide="ignore"):
                score = logit(p)
            below = ndtr((score - mean[:, None]) / spread[:, None])
            return np.asarray(share * below[0] + (1.0 - share) * below[1])

        return float(mean_below_half(cumulative, float(low), float(high), [size])[0])

    def _log_mean(self, row: int, size: float) -> FloatArray:
        parts = [score_quadrature(float(np.sqrt(self.variance[index, row]))) for index in range(2)]
        scores = [
            self.mean[index, row] + np.sqrt(self.variance[index, row]) * nodes for index, (nodes, _) in enumerate(parts)
        ]
        shares = (self.share[row], 1.0 - self.share[row])
        p = expit(np.concatenate(scores))
        weights = np.concatenate([share * part[1] for share, part in zip(shares, parts, strict=True)])
        if np.isinf(size):
            return np.array([float(np.log(weights @ p)), 0.0])
        mean, variance = log_mean_moments(p, weights, [size])
        return np.array([mean[0], variance[0]])


def fit_normal_pair(scores: ArrayLike, used: ArrayLike | None = None, weight: ArrayLike | None = None) -> NormalPair:
    """Return a mixture of two normals for each row, fitted to its scores by EM.

    Parameters
    ----------
    scores : array-like, shape (n_members, n_rows)
        Log odds of the true label.
    used : array-like of bool, shape (n_members, n_rows), optional
    weight : array-like, shape (n_rows,), optional

    Returns
    -------
    NormalPair

    Raises
    ------
    InputError, TooFewMembersError
        As :func:`ens_plugin.papers.score_tables_2017.score_models.row_moments`.

    Notes
    -----
    2017 section A.3 (c).  EM starts from the members below and above the row's mean and takes 100 steps;
    as a prior, each component has two more members with a tenth of the row's variance, and one more of its
    share, so that none degenerates to a single member.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.normal(np.where(rng.random((400, 1)) < 0.3, -2.0, 2.0), 0.5)
    >>> fit_normal_pair(scores).mean.round(1).ravel()
    array([-2.,  2.])
    """
    values = as_outputs(scores, "scores")
    centre, variance, trials = row_moments(values, used, "scores")
    mask = np.ones(values.shape) if used is None else np.asarray(used, dtype=np.float64)
    scale = np.maximum(variance, 1e-12)
    first = np.where(values < centre, 0.9, 0.1) * mask
    for _ in range(EM_STEPS):
        share, means, variances = _components(values, mask, first, scale, trials)
        deviations = (values - means[:, None]) ** 2 / variances[:, None]
        log_odds = 0.5 * (deviations[1] - deviations[0] + np.log(variances[1] / variances[0])) + logit(share)
        first = expit(log_odds) * mask
    share, means, variances = _components(values, mask, first, scale, trials)
    return NormalPair(share, means, variances, as_weight(weight, share.size))


def _components(
    values: FloatArray, mask: FloatArray, first: FloatArray, scale: FloatArray, trials: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    belongs = np.stack([first, mask - first])
    mass = belongs.sum(axis=1)
    means = np.sum(belongs * values, axis=1) / np.maximum(mass, 1e-12)
    squares = np.sum(belongs * (values - means[:, None]) ** 2, axis=1)
    variances = (squares + PRIOR_MEMBERS * 0.1 * scale) / (mass + PRIOR_MEMBERS)
    return (mass[0] + 1.0) / (trials + 2.0), means, variances
