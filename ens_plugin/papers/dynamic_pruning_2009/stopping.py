r"""How many members a row needs until the others cannot change its label, for votes, probabilities and scores.

Of T members, t have voted about a row, and K of all T will have voted for the second of two labels.  Given K, every
order of the members is equally likely, so the prior of a row is the distribution of K, and drawing without replacement
gives the chance :math:`r_t(k)` of k votes among t:

.. math:: r_t(k) = r_{t+1}(k + 1) \frac{k + 1}{t + 1} + r_{t+1}(k) \frac{t + 1 - k}{t + 1}, \qquad r_T(k) = P(K = k),

and alike :math:`j_t(k)`, jointly with the event that the target chooses the second label.  The target is the whole
ensemble's label (the rule of 2009) or the infinite one's (that of 2011).  The posterior chance of the second label
after k of t votes is :math:`j_t(k) / r_t(k)`, whenever one looks; under a uniform prior it is the beta-binomial tail of
2009 and :math:`1 - I_{1/2}(k + 1, t - k + 1)` of 2011.  A row is settled where the label with most votes has at least
the wanted chance, also with the prior odds of the two labels made even.

That is exact for votes on two labels.  The other tables are approximations.

**Probabilities of two labels.**  A sum of t probabilities counts as :math:`\phi t` votes, :math:`\phi` the hard votes
that one member is worth, 1 without learning: no probability of a given mean varies more than a vote.

**More labels.**  The votes for the leader and the runner-up are taken as votes on two labels, and all other members as
still to come, so that rather too many members are queried.

**Raw scores.**  The mean of t scores is normal with a standard deviation :math:`\sigma / \sqrt t`, the same for all
rows.

References
----------
Hernandez-Lobato, D., Martinez-Munoz, G., Suarez, A. (2009). Statistical instance-based pruning in ensembles of
independent classifiers. IEEE Transactions on Pattern Analysis and Machine Intelligence 31, 364-369.

Hernandez-Lobato, D., Martinez-Munoz, G., Suarez, A. (2011). Inference on the prediction of ensembles of infinite size.
Pattern Recognition 44, 1426-1434.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainc, betaincc, ndtr, ndtri
from scipy.stats import binom

from ens_plugin.core.certificate import log_wealth
from ens_plugin.core.row_model import GRID
from ens_plugin.core.validation import FloatArray, IntArray, as_count, as_probability, as_weight
from ens_plugin.papers.wrong_votes import as_confidence

__all__ = [
    "DuelTable",
    "LeadTable",
    "RowPrior",
    "StoppingTable",
    "VotePrior",
    "certificate_table",
    "checkpoints",
    "duel_table",
    "even_prior",
    "expected_stopping",
    "lead_table",
    "learned_prior",
    "score_table",
    "stopping_table",
    "symmetric",
    "uniform_prior",
    "vote_share_table",
]

STEPS = 8
BISECTIONS = 24
# Means of members are within so many standard deviations of the largest mean score.
HIGHEST_SPREADS = 16.0


@dataclass(frozen=True, eq=False)
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

        The target is the "full" ensemble, in which the first label wins ties, or the "infinite" one.
        """
        if target == "infinite":
            return self.infinite
        return np.where(2 * np.arange(self.full.size) > self.n_members, self.full, 0.0)


@dataclass(frozen=True, eq=False)
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
        """Return which rows need no further member at the checkpoint at `place`, shape (n_rows,).

        Votes are those for the second label so far (or its summed probability, or score); or those for both labels.
        """
        second = votes if votes.ndim == 1 else votes[:, 1]
        return np.asarray((second <= self.lower[place]) | (second >= self.upper[place]))


def uniform_prior(n_members: int) -> VotePrior:
    """Return the prior of the rules of 2009 and 2011: every share of votes is as likely as any other."""
    size = as_count(n_members, "n_members")
    votes = np.arange(size + 1.0)
    full = np.full(size + 1, 1.0 / (size + 1))
    return VotePrior(full, full * betaincc(votes + 1.0, size - votes + 1.0, 0.5))


def learned_prior(support: ArrayLike, weights: ArrayLike, n_members: int) -> VotePrior:
    """Return the prior of votes whose probability follows a distribution estimated from other rows.

    `support` are probabilities of a vote for the second label; the weights may have any sum.
    """
    p = as_probability(support, "support")
    w = as_weight(weights, p.size, "weights")
    size = as_count(n_members, "n_members")
    joint = binom.pmf(np.arange(size + 1)[:, None], size, p) * (w / w.sum())
    side = np.where(p > 0.5, 1.0, np.where(p < 0.5, 0.0, 0.5))
    return VotePrior(joint.sum(axis=1), joint @ side)


def checkpoints(n_members: int, together: int = 1) -> IntArray:
    """Return the numbers of queried members after which a row may be settled, in steps of an eighth or less.

    The smallest step, `together`, is the number of members that are hardly slower to query together than one alone.
    """
    size = as_count(n_members, "n_members")
    step = as_count(together, "together")
    found = [min(step, size)]
    while found[-1] < size:
        found.append(min(found[-1] + max(found[-1] // STEPS, step), size))
    return np.array(found, dtype=np.int64)


def stopping_table(prior: VotePrior, schedule: IntArray, confidence: float, target: str = "full") -> StoppingTable:
    """Return the counts of votes at which the target's label has a wanted posterior probability, by checkpoint.

    The target is the "full" ensemble (2009) or the "infinite" one (2011).  The label with most votes must have the
    probability under the prior, and under the prior with the same weight for either label of the target: otherwise a
    label of few rows could be excluded too early.  At the last checkpoint every row is settled.
    """
    wanted = as_confidence(confidence)
    second = prior.chooses_second(target)
    first = prior.full - second
    rarer = _rarer_weights(float(first.sum()), float(second.sum()))
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
    return _closed(schedule, lower, upper)


def certificate_table(schedule: IntArray, level: float) -> StoppingTable:
    """Return the counts of votes at which a label is proved to be the infinite ensemble's, whatever the distribution.

    For each row, the wrong one of two labels is settled with a chance of at most `level`.  The chance is highest where
    votes are even, and is computed exactly for these checkpoints.  So the wealth of :mod:`ens_plugin.core.certificate`
    may be smaller than 1/level, which holds for any number of members and looks.  At the last checkpoint every row is
    settled, without proof.
    """
    wealth = [log_wealth(np.arange(size + 1), size - np.arange(size + 1)) for size in schedule]
    steps = [binom.pmf(np.arange(step + 1), step, 0.5) for step in np.diff(schedule, prepend=0)]
    enough, too_low = -np.log(level), 0.0
    for _ in range(BISECTIONS):
        middle = (enough + too_low) / 2.0
        if _chance_of_crossing(_needed_votes(wealth, middle), steps) <= level:
            enough = middle
        else:
            too_low = middle
    upper = _needed_votes(wealth, enough).astype(np.float64)
    return _closed(schedule, schedule - upper, upper)


def _closed(schedule: IntArray, lower: FloatArray, upper: FloatArray) -> StoppingTable:
    """Return the table of counts with these bounds, and at the last checkpoint with bounds that settle every row."""
    lower[-1] = schedule[-1] // 2
    upper[-1] = lower[-1] + 1
    return StoppingTable(schedule, lower, upper)


def _needed_votes(wealth: Sequence[FloatArray], needed: float) -> IntArray:
    """Return the smallest count of votes whose wealth is enough at each checkpoint; if none, one above all."""
    return np.array([np.searchsorted(by_votes, needed) for by_votes in wealth], dtype=np.int64)


def _chance_of_crossing(upper: IntArray, steps: Sequence[FloatArray]) -> float:
    """Return the chance that even votes reach the bound at a checkpoint before the last one."""
    alive, crossed = np.ones(1), 0.0
    for bound, step in zip(upper[:-1], steps[:-1], strict=True):
        reached = np.convolve(alive, step)
        crossed += float(reached[bound:].sum())
        alive = reached[:bound]
    return crossed


def expected_stopping(table: StoppingTable, prior: VotePrior) -> tuple[float, float]:
    """Return the exact mean number of members queried, and share of rows with another label than the whole ensemble's.

    `prior` is the rows' true distribution of votes, which may differ from the prior of the table.
    """
    second = prior.chooses_second("full")
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


def _rarer_weights(first: float, second: float) -> tuple[float, float]:
    """Return factors of the rival chance of each label, by which a rare label is settled no earlier than a common one.

    `first` and `second` are the chances that the target predicts either label.
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


@dataclass(frozen=True, eq=False)
class RowPrior:
    """Distribution over rows of one member's mean output, with the number of votes that a member is worth.

    Attributes
    ----------
    support : ndarray, shape (n_points,)
        Mean support of the second label (votes and probabilities, in [0, 1]) or mean score.
    weights : ndarray, shape (n_points,)
    spread : float
        Votes and probabilities: hard votes that one member is worth, at least 1.  Scores: standard deviation of
        one member's score.
    """

    support: FloatArray
    weights: FloatArray
    spread: float


@dataclass(frozen=True, eq=False)
class DuelTable:
    """Support at which the leader of several labels is settled against the runner-up, by their joint support.

    `total`, shape (n_points,), is the support of leader and runner-up together; `needed`, by which the leader is
    settled.
    """

    checkpoints: IntArray
    total: FloatArray
    needed: FloatArray

    def settled(self, place: int, support: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which rows need no further member at the checkpoint at `place`, shape (n_rows,).

        `support`, shape (n_rows, n_labels), are the votes for each label so far, or its summed probability.
        """
        leader, runner_up = _top_two(support)
        to_come = self.checkpoints[-1] - self.checkpoints[place]
        enough = np.interp(leader + runner_up, self.total, self.needed)
        return np.asarray((leader >= enough) | (leader - runner_up > to_come) | (to_come == 0))


@dataclass(frozen=True, eq=False)
class LeadTable:
    """Differences of summed scores, at each checkpoint, at which the leader among the labels is settled."""

    checkpoints: IntArray
    lead: FloatArray

    def settled(self, place: int, support: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which rows need no further member at a checkpoint, by summed scores of shape (n_rows, n_labels)."""
        leader, runner_up = _top_two(support)
        return np.asarray(leader - runner_up >= self.lead[place])


def _top_two(support: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the largest and the second largest support of each row, from support of shape (n_rows, n_labels)."""
    # With each label contiguous in memory, the comparison is four times as fast.
    first, other, *rest = np.ascontiguousarray(support.T)
    highest, second = np.maximum(first, other), np.minimum(first, other)
    for own in rest:
        np.maximum(second, np.minimum(highest, own), out=second)
        np.maximum(highest, own, out=highest)
    return highest, second


def even_prior() -> RowPrior:
    """Return the even prior: every mean support is equally likely, and a member is worth one hard vote.

    No support of a given mean varies more from member to member than a vote does.
    """
    return RowPrior(GRID, np.full(GRID.size, 1.0 / GRID.size), 1.0)


def symmetric(prior: RowPrior, centre: float) -> RowPrior:
    """Return a prior averaged with its mirror image at `centre`, for labels in no particular order."""
    return RowPrior(
        np.concatenate([prior.support, 2.0 * centre - prior.support]),
        np.concatenate([prior.weights, prior.weights]) / 2.0,
        prior.spread,
    )


def vote_share_table(prior: RowPrior, schedule: IntArray, confidence: float, target: str) -> StoppingTable:
    """Return bounds on the summed probability of the second of two labels, beyond which a row's label is settled.

    A sum over t members counts as phi t votes, phi the hard votes that one member is worth: exact for hard votes,
    and right in mean and variance for members whose variance is 1/phi of a vote's.  The other arguments are those of
    :func:`stopping_table`.
    """
    mirrored = RowPrior(1.0 - prior.support, prior.weights, prior.spread)
    lower, upper = (_needed_shares(of, schedule, confidence, target) for of in (mirrored, prior))
    return _bounds_on_sums(schedule, 1.0 - lower, upper, 0.5)


def duel_table(prior: RowPrior, schedule: IntArray, confidence: float, target: str) -> DuelTable:
    """Return the support at which the leader of more than two labels is settled against the runner-up.

    All members that did not support one of the two yet are treated as not yet queried: with more votes open, a change
    of leader is likelier, so the approximation errs on the side of querying more members.  The prior is that of one
    label's share of the support of two labels, symmetric in the two.
    """
    totals = checkpoints(int(schedule[-1]))
    shares = _needed_shares(prior, totals, confidence, target)
    needed = np.where(shares <= 1.0, shares * totals, totals[-1] + 1.0)
    return DuelTable(schedule, totals.astype(np.float64), needed)


def score_table(
    prior: RowPrior | None, spread: float, schedule: IntArray, confidence: float, target: str
) -> StoppingTable:
    """Return bounds on the summed score of the second of two labels, which wins where its mean score is positive.

    Sums of scores are taken as normal, and `spread`, the standard deviation of one member's score, as the same for all
    rows.  Without a prior, every mean score is equally likely.
    """
    if prior is None:
        lower = upper = _needed_without_prior(spread, schedule, confidence, target)
    else:
        mirrored = RowPrior(-prior.support, prior.weights, prior.spread)
        lower, upper = (_needed_scores(of, schedule, confidence, target) for of in (mirrored, prior))
    return _bounds_on_sums(schedule, -lower, upper, 0.0)


def lead_table(prior: RowPrior | None, spread: float, schedule: IntArray, confidence: float, target: str) -> LeadTable:
    """Return the lead of the highest summed score over the next at which a row of more than two labels is settled.

    `prior`, symmetric, and `spread` are of the difference of two labels' scores, of which without a prior every mean is
    equally likely.
    """
    # At the last checkpoint the bound is 0, and every row is settled.
    return LeadTable(schedule, score_table(prior, spread, schedule, confidence, target).upper)


def _bounds_on_sums(schedule: IntArray, lower: FloatArray, upper: FloatArray, centre: float) -> StoppingTable:
    """Return the table of sums from bounds on means; at the last checkpoint every row is settled."""
    sums = np.array([lower, upper], dtype=np.float64) * schedule
    sums[:, -1] = centre * schedule[-1]
    return StoppingTable(schedule, *sums)


def _needed_shares(prior: RowPrior, queried: IntArray, confidence: float, target: str) -> FloatArray:
    """Return the smallest mean support that settles the second label at each checkpoint; infinity where none does."""
    n_members = int(queried[-1])
    votes = prior.spread * queried[:, None]
    p = np.clip(prior.support, 1e-9, 1.0 - 1e-9)
    to_come = prior.spread * (n_members - queried[:, None])
    wins = _sides(p, 0.5)

    def chance(share: FloatArray) -> tuple[FloatArray, FloatArray]:
        supporting = votes * share[:, None]
        log_posterior = supporting * np.log(p) + (votes - supporting) * np.log1p(-p)
        if target == "infinite":
            return log_posterior, np.broadcast_to(wins, log_posterior.shape)
        missing = prior.spread * n_members / 2.0 - supporting
        inside = np.clip(missing + 0.5, 1e-9, to_come + 1.0 - 1e-9)
        return log_posterior, np.asarray(betainc(inside, to_come + 1.0 - inside, p), dtype=np.float64)

    return _least(chance, prior, queried.size, confidence, 0.5, 1.0)


def _needed_without_prior(spread: float, queried: IntArray, confidence: float, target: str) -> FloatArray:
    """Return the smallest mean score that settles the second label, if every mean score is equally likely."""
    share_to_come = 1.0 - queried / queried[-1] if target == "full" else np.ones(queried.size)
    return np.asarray(spread * ndtri(as_confidence(confidence)) * np.sqrt(share_to_come / queried))


def _needed_scores(prior: RowPrior, queried: IntArray, confidence: float, target: str) -> FloatArray:
    """Return the smallest mean score that settles the second label at each checkpoint; infinity where none does."""
    t = queried[:, None].astype(np.float64)
    to_come = t[-1] - t
    mu, spread = prior.support, prior.spread
    wins = _sides(mu, 0.0)

    def chance(mean: FloatArray) -> tuple[FloatArray, FloatArray]:
        log_posterior = -t * (mean[:, None] - mu) ** 2 / (2.0 * spread**2)
        if target == "infinite":
            return log_posterior, np.broadcast_to(wins, log_posterior.shape)
        reached = t * mean[:, None] + to_come * mu
        return log_posterior, ndtr(reached / (spread * np.sqrt(np.maximum(to_come, 1e-9))))

    highest = float(np.abs(mu).max()) + HIGHEST_SPREADS * spread
    return _least(chance, prior, queried.size, confidence, 0.0, highest)


def _least(
    chance: Callable[[FloatArray], tuple[FloatArray, FloatArray]],
    prior: RowPrior,
    n_checkpoints: int,
    confidence: float,
    low: float,
    high: float,
) -> FloatArray:
    """Return, by bisection, the smallest mean that settles the second label at each checkpoint, or infinity."""
    wanted = as_confidence(confidence)
    second_wins = float(prior.weights @ _sides(prior.support, low))
    _, rarer = _rarer_weights(1.0 - second_wins, second_wins)

    def enough(mean: FloatArray) -> NDArray[np.bool_]:
        log_posterior, second = chance(mean)
        posterior = prior.weights * np.exp(log_posterior - log_posterior.max(axis=1, keepdims=True))
        for_second = (posterior * second).sum(axis=1)
        return np.asarray((1.0 - wanted) * for_second >= wanted * rarer * (posterior.sum(axis=1) - for_second))

    below, above = np.full(n_checkpoints, low), np.full(n_checkpoints, high)
    never = ~enough(above)
    for _ in range(BISECTIONS):
        middle = (below + above) / 2.0
        settles = enough(middle)
        above = np.where(settles, middle, above)
        below = np.where(settles, below, middle)
    return np.where(never, np.inf, above)


def _sides(support: FloatArray, draw: float) -> FloatArray:
    """Return 1 where the infinite ensemble predicts the second label, 0 where the first, 1/2 at a tie."""
    return np.asarray((np.sign(support - draw) + 1.0) / 2.0)
