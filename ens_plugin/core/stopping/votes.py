r"""Tables of when the counting of votes may stop, for ensembles whose members vote for one of two labels.

Members are exchangeable: of T members, K of which vote for the second label, every order is as likely.
So what is known beforehand about a row is the distribution of K, and all else follows from drawing
members without replacement (``docs/methods.md``, section 13).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincc
from scipy.stats import binom

from ens_plugin.core.validation import FloatArray, IntArray, as_confidence, as_count, as_probability, as_weight
from ens_plugin.errors import InputError

__all__ = [
    "StoppingTable",
    "VotePrior",
    "checkpoints",
    "expected_stopping",
    "learned_prior",
    "rarer_weights",
    "stopping_table",
    "uniform_prior",
]

STEPS = 8


@dataclass(frozen=True, eq=False)
class VotePrior:
    """Distribution of a row's votes before any member is queried.

    Attributes
    ----------
    full : ndarray, shape (n_members + 1,)
        Probability that 0, 1, ..., n_members members vote for the second label.
    infinite : ndarray, shape (n_members + 1,)
        The same, together with the event that the infinite ensemble chooses the second label.
    """

    full: FloatArray
    infinite: FloatArray

    @property
    def n_members(self) -> int:
        """Members of the whole ensemble."""
        return self.full.size - 1

    def chooses_second(self, target: str) -> FloatArray:
        """Probability of each number of votes together with the target's label being the second.

        Parameters
        ----------
        target : {"full", "infinite"}
            The whole ensemble, whose ties go to the first label, or the infinite one.
        """
        if target == "infinite":
            return self.infinite
        return np.where(2 * np.arange(self.full.size) > self.n_members, self.full, 0.0)


@dataclass(frozen=True, eq=False)
class StoppingTable:
    """The counts of votes at which a row's label is settled.

    Attributes
    ----------
    checkpoints : ndarray of int, shape (n_checkpoints,)
        Members queried when the count is compared with the bounds, ascending; the last is the whole ensemble.
    lower : ndarray, shape (n_checkpoints,)
        The first label is settled by at most that many votes for the second; below 0 where it never is.
    upper : ndarray, shape (n_checkpoints,)
        The second label is settled by at least that many votes for it; above the checkpoint where it never is.
    """

    checkpoints: IntArray
    lower: FloatArray
    upper: FloatArray

    def settled(self, place: int, votes: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which rows need no further member.

        Parameters
        ----------
        place : int
            Position of the checkpoint.
        votes : ndarray, shape (n_rows,) or (n_rows, 2)
            Votes for the second label so far (or its summed probability, or score); or for both labels.
        """
        second = votes if votes.ndim == 1 else votes[:, 1]
        return np.asarray((second <= self.lower[place]) | (second >= self.upper[place]))


def uniform_prior(n_members: int) -> VotePrior:
    """Return the prior of the rules of 2009 and 2011: every share of votes is as likely as any other.

    Parameters
    ----------
    n_members : int

    Raises
    ------
    InputError
        If `n_members` is not a positive whole number.

    Examples
    --------
    >>> uniform_prior(3).full.tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    size = as_count(n_members, "n_members")
    votes = np.arange(size + 1.0)
    full = np.full(size + 1, 1.0 / (size + 1))
    return VotePrior(full, full * betaincc(votes + 1.0, size - votes + 1.0, 0.5))


def learned_prior(support: ArrayLike, weights: ArrayLike, n_members: int) -> VotePrior:
    """Return the prior of votes whose probability follows a distribution learned from other rows.

    Parameters
    ----------
    support : array-like, shape (n_points,)
        Probabilities of a vote for the second label.
    weights : array-like, shape (n_points,)
        Their weights, of any sum; see :func:`ens_plugin.core.row_models.mixture.fit_mixture`.
    n_members : int

    Raises
    ------
    InputError
        If a probability is outside [0, 1], or shapes differ.

    Examples
    --------
    >>> learned_prior([0.0, 1.0], [3, 1], 2).full.tolist()
    [0.75, 0.0, 0.25]
    """
    p = as_probability(support, "support")
    w = as_weight(weights, p.size, "weights")
    size = as_count(n_members, "n_members")
    joint = binom.pmf(np.arange(size + 1)[:, None], size, p) * (w / w.sum())
    side = np.where(p > 0.5, 1.0, np.where(p < 0.5, 0.0, 0.5))
    return VotePrior(joint.sum(axis=1), joint @ side)


def checkpoints(n_members: int, together: int = 1) -> IntArray:
    """Return the numbers of queried members at which rows can be settled: small steps at first, then of an eighth.

    Parameters
    ----------
    n_members : int
    together : int, default=1
        Smallest step: members that cost little more together than one does.

    Examples
    --------
    >>> checkpoints(20).tolist()
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20]
    """
    size = as_count(n_members, "n_members")
    step = as_count(together, "together")
    found = [min(step, size)]
    while found[-1] < size:
        found.append(min(found[-1] + max(found[-1] // STEPS, step), size))
    return np.array(found, dtype=np.int64)


def stopping_table(prior: VotePrior, confidence: float, *, target: str = "full", together: int = 1) -> StoppingTable:
    r"""Return the counts of votes at which the target's label is known with a wanted confidence.

    Parameters
    ----------
    prior : VotePrior
    confidence : float
        Wanted probability that the label with most votes so far is the target's, strictly between 0.5 and 1.
    target : {"full", "infinite"}, default="full"
        The whole ensemble (2009) or the infinite one (2011).
    together : int, default=1
        Smallest step from checkpoint to checkpoint.

    Returns
    -------
    StoppingTable
        At the last checkpoint everything is settled.

    Raises
    ------
    InputError
        If `confidence` is outside (0.5, 1).

    Notes
    -----
    A row is settled where the posterior probability of the label with most votes is at least `confidence`, both
    under the prior and under the prior that gives either label of the target the same weight: else a label that
    few rows get could be dropped too early.

    Examples
    --------
    >>> table = stopping_table(uniform_prior(101), 0.99)
    >>> int(table.checkpoints[5]), float(table.lower[5]), float(table.upper[5])
    (6, 0.0, 6.0)
    """
    wanted = as_confidence(confidence)
    schedule = checkpoints(prior.n_members, together)
    second = prior.chooses_second(target)
    first = prior.full - second
    rarer = rarer_weights(float(first.sum()), float(second.sum()))
    lower, upper = np.empty((2, schedule.size))
    for place, (for_first, for_second) in enumerate(
        zip(_thinned(first, schedule), _thinned(second, schedule), strict=True)
    ):
        votes = np.arange(schedule[place] + 1)
        leads = 2 * votes > schedule[place]
        settles_first = ~leads & ((1.0 - wanted) * for_first >= wanted * rarer[0] * for_second)
        settles_second = leads & ((1.0 - wanted) * for_second >= wanted * rarer[1] * for_first)
        lower[place] = _last(settles_first)
        upper[place] = schedule[place] - _last(settles_second[::-1])
    lower[-1] = prior.n_members // 2
    upper[-1] = lower[-1] + 1
    return StoppingTable(schedule, lower, upper)


def expected_stopping(table: StoppingTable, prior: VotePrior, *, target: str = "full") -> tuple[float, float]:
    """Return the exact mean number of members queried, and share of rows with another label than the target's.

    Parameters
    ----------
    table : StoppingTable
    prior : VotePrior
        The rows' true distribution of votes: need not be the one the table was made from.
    target : {"full", "infinite"}, default="full"

    Returns
    -------
    queries : float
    disagreement : float

    Raises
    ------
    InputError
        If the table is for another number of members.

    Examples
    --------
    >>> prior = learned_prior([0.05, 0.4], [1, 1], 101)
    >>> queries, disagreement = expected_stopping(stopping_table(prior, 0.99), prior)
    >>> bool(1 < queries < 101 and 0 < disagreement < 0.01)
    True
    """
    if table.checkpoints[-1] != prior.n_members:
        raise InputError(f"The table is for {table.checkpoints[-1]} members and the prior for {prior.n_members}.")
    second = prior.chooses_second(target)
    alive = np.ones(1)
    queries, disagreement = 0.0, 0.0
    begun = 0
    parts = zip(_thinned(prior.full - second, table.checkpoints), _thinned(second, table.checkpoints), strict=True)
    for place, (for_first, for_second) in enumerate(parts):
        for size in range(begun + 1, int(table.checkpoints[place]) + 1):
            alive = _one_more(alive, size)
        begun = int(table.checkpoints[place])
        votes = np.arange(begun + 1)
        as_first, as_second = votes <= table.lower[place], votes >= table.upper[place]
        stopped = alive * (as_first | as_second)
        queries += begun * float(stopped @ (for_first + for_second))
        disagreement += float(stopped @ np.where(as_first, for_second, for_first))
        alive = alive - stopped
    return queries, disagreement


def rarer_weights(first: float, second: float) -> tuple[float, float]:
    """Return what to multiply each label's rival chance by, so that a rare label is settled no more easily.

    Parameters
    ----------
    first, second : float
        Chance that the first and the second label is the target's.
    """
    if first <= 0.0 or second <= 0.0:
        return 1.0, 1.0
    return max(first / second, 1.0), max(second / first, 1.0)


def _thinned(joint: FloatArray, schedule: IntArray) -> list[FloatArray]:
    """Distribution of the votes among as many members as at each checkpoint, drawn without replacement from all."""
    found = {joint.size - 1: joint}
    for size in range(joint.size - 2, 0, -1):
        votes = np.arange(size + 1)
        joint = (joint[1:] * (votes + 1) + joint[:-1] * (size + 1 - votes)) / (size + 1)
        found[size] = joint
    return [found[int(size)] for size in schedule]


def _one_more(alive: FloatArray, size: int) -> FloatArray:
    """Share of the orders of members that are not stopped, by votes among `size`, from that among one fewer."""
    votes = np.arange(size + 1)
    padded = np.concatenate([[0.0], alive, [0.0]])
    return np.asarray((padded[:-1] * votes + padded[1:] * (size - votes)) / size)


def _last(settled: NDArray[np.bool_]) -> int:
    """Position of the last of the leading True values, -1 if there are none."""
    return int(settled.size if settled.all() else np.argmin(settled)) - 1
