r"""Shares of the answers to each question, from how the votes of its samples fall into equal answers.

Answers to different questions have nothing in common, so that all one question tells is the partition of its samples
into equal ones: "5 of 8 gave one answer, 2 another, and 1 a third".  The shares of its answers are modelled as one
**leading** share :math:`\lambda`, and the rest split at random by a Poisson-Dirichlet distribution of concentration
:math:`\theta`: near 0 the rest is one rival, and large it is many answers that hardly come twice.  Counts
:math:`c_1, \dots, c_m` with the sum n, of a rest alone, have the chance (Ewens 1972)

.. math:: E_\theta(c) = \frac{\theta^m \prod_i (c_i - 1)!}{\theta (\theta + 1) \cdots (\theta + n - 1)},

and a question's partition, whose leading answer may be any of those seen or one that is not,

.. math:: (1-\lambda)^n E_\theta(c) + \sum_i \lambda^{c_i} (1-\lambda)^{n - c_i} E_\theta(c_{-i}).

The distribution of :math:`(\lambda, \theta)` over questions is a weight for each point of a grid, fitted by the EM
algorithm.  It stops early, which keeps it smooth.  Nothing is assumed of how the two depend on each other.

The agreement with infinitely many samples is the mean over the grid of the chance that the majority of k draws is the
answer with the largest share, for random shares of each point.

References
----------
Ewens, W. J. (1972). The sampling theory of selectively neutral alleles. Theoretical Population Biology 3, 87-112.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, ndtr

from ens_plugin.core.error_curve import smallest_odd_size
from ens_plugin.core.intervals import interval_of_draws
from ens_plugin.core.validation import NEGLIGIBLE, FloatArray, IntArray, as_sizes

LEADS = np.append(np.linspace(0.02, 0.98, 25), [0.99, 0.997])
CONCENTRATIONS = np.geomspace(0.02, 1000.0, 20)
POINTS = np.stack([axis.ravel() for axis in np.meshgrid(LEADS, CONCENTRATIONS, indexing="ij")])
# Up to 65 votes are drawn; of more, those of the two answers with the largest shares are normal.
DRAWN_SIZES = (1, 2, 3, 5, 9, 17, 33, 65)
SIZES = np.unique(np.concatenate([DRAWN_SIZES, np.geomspace(129, 1_000_001, 16).astype(np.int64)]))
# Of the table of the agreement by grid point: how many rests are drawn by concentration, and their largest parts.
N_RESTS, N_RIVALS = 8192, 30
TABLE = Path(__file__).with_name("partitions.npz")
N_ITERATIONS = 50
N_DRAWS = 100
# More partitions are sampled: their fit takes a second.
MOST_PARTITIONS = 2000


@dataclass(frozen=True, eq=False)
class PartitionLaw:
    """The :class:`~ens_plugin.analysis.sizes.SizeLaw` of the agreement of majorities of answers.

    Attributes
    ----------
    likelihood : ndarray, shape (n_partitions, n_points)
        Of each partition at each grid point, relative to its largest.
    counts : ndarray, shape (n_partitions,)
        Number of questions with this partition.
    drawn : ndarray, shape (n_draws, n_partitions)
        The same for random draws of the questions, or of their groups.
    starts : ndarray, shape (n_draws, n_points)
        The weights of the grid from which the fit to each of these draws starts.  What the votes do not tell stays as
        different as they are.
    """

    likelihood: FloatArray
    counts: FloatArray
    drawn: FloatArray
    starts: FloatArray

    @cached_property
    def _weights(self) -> FloatArray:
        even = np.full((1, self.likelihood.shape[1]), 1.0 / self.likelihood.shape[1])
        return _fitted(self.likelihood, self.counts[None], even)

    def losses(self, sizes: ArrayLike) -> FloatArray:
        """Return the share of majorities other than that of infinitely many answers at each size, shape (n_sizes,)."""
        return np.asarray(1.0 - _agreement(self._weights, as_sizes(sizes))[0])

    def loss_interval(self, size: float, level: float) -> tuple[float, float]:
        """Return the ends of the interval of :meth:`losses` at a size, by the draws of the questions."""
        found = 1.0 - _agreement(_fitted(self.likelihood, self.drawn, self.starts), as_sizes([size]))[:, 0]
        low, high = np.quantile(found, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
        return float(low), float(high)

    def size_within(self, tolerance: float, max_size: int) -> int | None:
        """Return the smallest odd size with at most so large a share of other majorities; None if above `max_size`."""
        return smallest_odd_size(lambda size: 1.0 - float(self.losses([size])[0]), 1.0 - tolerance, max_size)

    def size_interval(self, tolerance: float, max_size: int, level: float) -> tuple[int, int | None]:
        """Return the interval of :meth:`size_within`, over other questions and other samples of them."""
        wanted = 1.0 - tolerance
        agreement = _agreement(_fitted(self.likelihood, self.drawn, self.starts), SIZES)
        sizes = np.array([np.interp(wanted, values, np.log(SIZES)) for values in agreement])
        draws = np.where(agreement[:, -1] < wanted, np.inf, np.ceil(np.exp(sizes)))
        draws[draws > max_size] = np.inf
        return interval_of_draws(draws, self.size_within(tolerance, max_size), max_size, level)


def fit_partitions(codes: IntArray, groups: NDArray[np.integer] | None, random_state: int | None) -> PartitionLaw:
    """Return the law of the agreement of votes on answers, of the questions alone or drawn by group.

    Parameters
    ----------
    codes : ndarray of int, shape (n_samples, n_questions)
        Codes of the answers to a question, -1 where there is none.
    groups : ndarray of int, shape (n_questions,), or None
    random_state : int or None
    """
    rng = np.random.default_rng(random_state)
    partitions, kind = np.unique(_partitions(codes), axis=0, return_inverse=True)
    kind = kind.reshape(-1)
    if partitions.shape[0] > MOST_PARTITIONS:
        chosen = np.sort(rng.permutation(kind.size)[:MOST_PARTITIONS])
        groups = None if groups is None else groups[chosen]
        kept, kind = np.unique(kind[chosen], return_inverse=True)
        partitions = partitions[kept]
    counts = np.bincount(kind).astype(np.float64)
    return PartitionLaw(_likelihood(partitions), counts, _resampled(kind, groups, rng), _random_starts(rng))


def _partitions(codes: IntArray) -> IntArray:
    """Return the numbers of votes for the answers to each question in falling order, shape (n_questions, n_answers)."""
    n_codes = int(codes.max()) + 1
    votes = np.zeros((codes.shape[1], n_codes), dtype=np.int64)
    for sample in codes:
        known = np.flatnonzero(sample >= 0)
        votes[known, sample[known]] += 1
    return np.asarray(-np.sort(-votes, axis=1))


def _resampled(kind: IntArray, groups: NDArray[np.integer] | None, rng: np.random.Generator) -> FloatArray:
    """Return how often each partition is among random draws of the groups, or of the questions, with replacement."""
    group = np.arange(kind.size) if groups is None else np.unique(groups, return_inverse=True)[1]
    n_groups, n_partitions = int(group.max()) + 1, int(kind.max()) + 1
    drawn = np.empty((N_DRAWS, n_partitions))
    for counts in drawn:
        times = np.bincount(rng.integers(n_groups, size=n_groups), minlength=n_groups)
        counts[:] = np.bincount(kind, weights=times[group], minlength=n_partitions)
    return drawn


def _likelihood(partitions: IntArray) -> FloatArray:
    """Return the likelihood of each partition at each grid point, relative to its largest, as in the module."""
    lead, theta = POINTS
    n_votes = partitions.sum(axis=1)[:, None]
    log = n_votes * np.log1p(-lead) + _log_ewens(partitions, theta)
    for answer, votes in enumerate(partitions.T):
        rest = partitions.copy()
        rest[:, answer] = 0
        as_lead = votes[:, None] * np.log(lead) + (n_votes - votes[:, None]) * np.log1p(-lead) + _log_ewens(rest, theta)
        log = np.logaddexp(log, np.where(votes[:, None] > 0, as_lead, -np.inf))
    return np.asarray(np.exp(log - log.max(axis=1, keepdims=True)))


def _log_ewens(votes: IntArray, theta: FloatArray) -> FloatArray:
    """Return the logarithm of the chance of a partition by Ewens' formula, shape (n_partitions, n_points)."""
    n_answers = (votes > 0).sum(axis=1)[:, None]
    of_answers = np.where(votes > 0, gammaln(np.maximum(votes, 1)), 0.0).sum(axis=1)[:, None]
    of_rest = gammaln(theta) - gammaln(theta + votes.sum(axis=1)[:, None])
    return np.asarray(n_answers * np.log(theta) + of_answers + of_rest)


def _random_starts(rng: np.random.Generator) -> FloatArray:
    """Draw weights of the grid whose logarithm is a smooth surface, shape (n_draws, n_points)."""
    lead, rest = ((axis - axis.mean()) / axis.std() for axis in (POINTS[0], np.log(POINTS[1])))
    surface = np.stack([lead, rest, lead**2, rest**2, lead * rest])
    weights = np.exp(rng.standard_normal((N_DRAWS, len(surface))) @ surface)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _fitted(likelihood: FloatArray, counts: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the weight of each grid point by the EM algorithm, for each draw of counts, shape (n_draws, n_points)."""
    n_questions = counts.sum(axis=1, keepdims=True)
    for _ in range(N_ITERATIONS):
        weights = weights * ((counts / (weights @ likelihood.T)) @ likelihood) / n_questions
    return weights


def _agreement(weights: FloatArray, sizes: ArrayLike) -> FloatArray:
    """Return the mean agreement by weights of the grid points at each size, shape (n_draws, n_sizes)."""
    known, place = weights @ _agreement_by_point(), np.log(np.minimum(sizes, SIZES[-1]))
    values = np.stack([np.interp(place, np.log(SIZES), each) for each in known])
    return np.where(np.isinf(sizes), 1.0, values)


@lru_cache(maxsize=1)
def _agreement_by_point() -> FloatArray:
    """Return the table of :func:`build_agreement_table`, which is kept beside this module."""
    with np.load(TABLE) as kept:
        return np.asarray(kept["agreement"], dtype=np.float64)


def build_agreement_table() -> FloatArray:
    """Return the chance that a majority has the answer with the largest share, shape (n_points, n_sizes)."""
    # The rests of one concentration are the same for all leading shares, and a point stands for the leads around it.
    rng = np.random.default_rng(0)
    rests = [_rests(concentration, rng) for concentration in CONCENTRATIONS]
    edges = np.concatenate([[0.0], (LEADS[1:] + LEADS[:-1]) / 2.0, [1.0]])
    around = (np.arange(N_RESTS) + 0.5) / N_RESTS
    chances = []
    for low, high in pairwise(edges):
        for rest in rests:
            lead = low + (high - low) * rng.permutation(around)
            chances.append(np.append(_drawn_chances(lead, rest, rng), _normal_chances(lead, rest)))
    return np.asarray(np.maximum.accumulate(chances, axis=1))


def _rests(concentration: float, rng: np.random.Generator) -> FloatArray:
    """Draw how the rest is split, in falling order; the last is the sum of parts too small to be given twice."""
    # It is broken like a stick, shape (N_RESTS, N_RIVALS + 1).
    broken = rng.beta(1.0, concentration, (N_RESTS, N_RIVALS))
    left = np.cumprod(1.0 - broken, axis=1)
    parts = broken * np.column_stack([np.ones(N_RESTS), left[:, :-1]])
    return np.column_stack([-np.sort(-parts, axis=1), left[:, -1]])


def _drawn_chances(lead: FloatArray, rest: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return the mean chance that the majority of a small number of votes has the answer with the largest share."""
    own = lead[:, None]
    shares = np.hstack([own, (1.0 - own) * rest])
    shares /= shares.sum(axis=1, keepdims=True)
    best = shares[:, :-1].argmax(axis=1)
    return np.array([np.mean(_won(rng.multinomial(size, shares), best)) for size in DRAWN_SIZES])


def _normal_chances(lead: FloatArray, rest: FloatArray) -> FloatArray:
    """Return the mean chance that the answer with the largest share beats the next, of a large number of votes."""
    top, second = (1.0 - lead) * rest[:, 0], (1.0 - lead) * rest[:, 1]
    first, runner_up = np.maximum(lead, top), np.maximum(np.minimum(lead, top), second)
    apart = (first - runner_up) / np.sqrt(np.maximum(first + runner_up - (first - runner_up) ** 2, NEGLIGIBLE))
    sizes = np.sqrt(SIZES[len(DRAWN_SIZES) :])
    return np.array([ndtr(apart * size).mean() for size in sizes])


def _won(votes: IntArray, best: NDArray[np.intp]) -> FloatArray:
    """Return the chance of one answer to win, shape (n_draws,); the last column counts answers given once each."""
    own, rare = votes[:, :-1], votes[:, -1]
    most = np.maximum(own.max(axis=1), np.minimum(rare, 1))
    wins = own == most[:, None]
    n_tied = wins.sum(axis=1) + np.where(most == 1, rare, 0)
    return np.asarray(wins[np.arange(best.size), best] / np.maximum(n_tied, 1))
