r"""Tables of when the counting of votes may stop, for ensembles whose members vote for one of two labels.

Members are exchangeable: of T members, K of which vote for the second label, every order is equally
likely.  The prior of a row is therefore the distribution of K, and the tables follow from drawing
members without replacement (``docs/methods.md``, section 13).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincc
from scipy.stats import binom

from ens_plugin.core.validation import FloatArray, IntArray, as_confidence, as_count, as_probability, as_weight, counted
from ens_plugin.errors import InputError
from ens_plugin.records import record

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


@record
class VotePrior:
    """Distribution of a row's votes before any member is queried.

    Attributes
    ----------
    full : ndarray, shape (n_members + 1,)
        Probability that 0, 1, ..., n_members members vote for the second label.
    infinite : ndarray, shape (n_members + 1,)
        The same, jointly with the event that the infinite ensemble predicts the second label.
    """

    full: FloatArray
    infinite: FloatArray

    @property
    def n_members(self) -> int:
        """Return the number of members of the whole ensemble."""
        return self.full.size - 1

    def chooses_second(self, target: str) -> FloatArray:
        """Return the probability of each number of votes jointly with the target predicting the second label.

        Parameters
        ----------
        target : {"full", "infinite"}
            Ensemble that predicts: the whole one, in which the first label wins ties, or the infinite one.
        """
        if target == "infinite":
            return self.infinite
        return np.where(2 * np.arange(self.full.size) > self.n_members, self.full, 0.0)


@record
class StoppingTable:
    """The counts of votes, at each checkpoint, at which a row's label is settled.

    Attributes
    ----------
    checkpoints : ndarray of int, shape (n_checkpoints,)
        Numbers of queried members at which counts are compared with the bounds, ascending; the last is all members.
    lower : ndarray, shape (n_checkpoints,)
        Largest count of votes for the second label that settles the first; below 0 where none does.
    upper : ndarray, shape (n_checkpoints,)
        Smallest count of votes for the second label that settles it; above the checkpoint where none does.
    """

    checkpoints: IntArray
    lower: FloatArray
    upper: FloatArray

    def settled(self, place: int, votes: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which rows need no further member at a checkpoint, shape (n_rows,).

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
    """Return the prior of votes whose probability follows a distribution estimated from other rows.

    Parameters
    ----------
    support : array-like, shape (n_points,)
        Probabilities of a vote for the second label.
    weights : array-like, shape (n_points,)
        Weights of the points, of any sum; see :func:`ens_plugin.core.row_models.mixture.fit_mixture`.
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
    """Return the numbers of queried members after which a row may be settled, in steps of an eighth or less.

    Parameters
    ----------
    n_members : int
    together : int, default=1
        Smallest step: number of members that are hardly slower to query together than one alone.

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
    r"""Return the counts of votes at which the target's label has a wanted posterior probability.

    Parameters
    ----------
    prior : VotePrior
    confidence : float
        Wanted probability that the label with most votes so far is the target's, strictly between 0.5 and 1.
    target : {"full", "infinite"}, default="full"
        Ensemble whose label is wanted: the whole one (2009) or the infinite one (2011).
    together : int, default=1
        Smallest step from checkpoint to checkpoint.

    Returns
    -------
    StoppingTable
        At the last checkpoint every row is settled.

    Raises
    ------
    InputError
        If `confidence` is outside (0.5, 1).

    Notes
    -----
    A row is settled where the posterior probability of the label with most votes is at least `confidence`, both
    under the prior and under the prior with the same weight for either label of the target: otherwise a label of
    few rows could be excluded too early.

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
    """Return the exact mean number of members queried, and share of rows with another final label than the target's.

    Parameters
    ----------
    table : StoppingTable
    prior : VotePrior
        The rows' true distribution of votes, which may differ from the prior of the table.
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
        raise InputError(
            f"prior has {counted(prior.n_members, 'member')} and table {table.checkpoints[-1]}; pass equal numbers."
        )
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
    """Return factors of the rival chance of each label, by which a rare label is settled no earlier than a common one.

    Parameters
    ----------
    first, second : float
        Chance that the target predicts the first, and the second label.
    """
    if first <= 0.0 or second <= 0.0:
        return 1.0, 1.0
    return max(first / second, 1.0), max(second / first, 1.0)


def _thinned(joint: FloatArray, schedule: IntArray) -> list[FloatArray]:
    """Return the distribution of votes among as many members as at each checkpoint, drawn without replacement."""
    found = {joint.size - 1: joint}
    for size in range(joint.size - 2, 0, -1):
        votes = np.arange(size + 1)
        joint = (joint[1:] * (votes + 1) + joint[:-1] * (size + 1 - votes)) / (size + 1)
        found[size] = joint
    return [found[int(size)] for size in schedule]


def _one_more(alive: FloatArray, size: int) -> FloatArray:
    """Return the shares of member orders not yet settled, by votes among `size` members, from those among size - 1."""
    votes = np.arange(size + 1)
    padded = np.concatenate([[0.0], alive, [0.0]])
    return np.asarray((padded[:-1] * votes + padded[1:] * (size - votes)) / size)


def _last(settled: NDArray[np.bool_]) -> int:
    """Return the position of the last of the leading True values, -1 if there are none."""
    return int(settled.size if settled.all() else np.argmin(settled)) - 1
