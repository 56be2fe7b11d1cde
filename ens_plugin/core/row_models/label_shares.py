"""Random draws of a row's shares of votes by label in the infinite ensemble (docs/methods.md, section 3)."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.special import gammaln

from ens_plugin.core.row_models.mixture import Mixture, mixture_of_counts
from ens_plugin.core.tallies.row_weight import RowWeight
from ens_plugin.core.validation import FloatArray, IntArray
from ens_plugin.records import record

__all__ = ["LabelShares", "LabelVotes", "fit_label_shares"]

RIVAL_PARTS: FloatArray = np.arange(0.0, 0.96, 0.025)
# More mass would only compensate for small shares of soft votes, which vary less than hard votes.
CONCENTRATIONS: FloatArray = np.exp(np.arange(0.0, 3.6, 0.5))
PRIOR_VOTES = 0.5
LEAST_VOTES = 1e-3
LEAST_SHARE = 1e-9
FEWEST_WRONG_VOTES = 2.0
NEAR_MATCH = 0.1
MAX_VOTES = 1000.0


@record
class LabelVotes:
    """Votes or probabilities of the members for some rows, summed by label.

    Attributes
    ----------
    support : ndarray, shape (n_rows, n_labels)
        Summed votes, or probabilities, for each label.
    squares : ndarray, shape (n_rows, n_labels)
        Summed squares of the members' support; the same as `support` for votes.
    trials : ndarray, shape (n_rows,)
        Number of members that count for the row, at least 2.
    target : ndarray of int, shape (n_rows,)
    """

    support: FloatArray
    squares: FloatArray
    trials: FloatArray
    target: IntArray

    @cached_property
    def per_member(self) -> float:
        """Return the effective number of votes of one member: 1 for votes, more for probabilities."""
        n = self.trials[:, None]
        share = self.support / n
        observed = (self.squares - n * share**2) / (n - 1.0)
        as_votes = share * (1.0 - share) + observed / n
        return float(np.clip(np.sum(n * as_votes) / max(float(np.sum(n * observed)), 1e-300), 1.0, MAX_VOTES))

    def meetings(self) -> tuple[FloatArray, FloatArray]:
        """Return unbiased estimates, by row, of the chances that two members are wrong, and with one wrong label."""
        rows, pairs = np.arange(self.trials.size), self.trials * (self.trials - 1.0)
        right, right_squares = self.support[rows, self.target], self.squares[rows, self.target]
        wrong, wrong_squares = self.trials - right, self.trials - 2.0 * right + right_squares
        same = (self.support**2 - self.squares) / pairs[:, None]
        same[rows, self.target] = 0.0
        return (wrong**2 - wrong_squares) / pairs, same.sum(axis=1)


@record
class LabelShares:
    """The distribution of each row's label shares, given its votes.

    Attributes
    ----------
    target : ndarray of int, shape (n_rows,)
    rival_votes : ndarray, shape (n_rows, n_labels)
        Votes for each label, 0 for the true one.
    confusion : ndarray, shape (n_labels, n_labels)
        Mean shares of the other labels in the wrong votes on rows of each label; rows sum to 1.
    mixture : Mixture
        Distribution of the chance of a wrong vote.
    rival_part : float
        Part of the Dirichlet distribution's mass that is on one main rival.
    concentration : float
        Total mass of the Dirichlet distribution, in votes.
    """

    target: IntArray
    rival_votes: FloatArray
    confusion: FloatArray
    mixture: Mixture
    rival_part: float
    concentration: float

    def draw(self, rng: np.random.Generator) -> FloatArray:
        """Draw the label shares of every row from their distribution, shape (n_rows, n_labels); rows sum to 1."""
        wrong = self._wrong_shares(rng)
        shares = self._rival_shares(rng) * wrong[:, None]
        shares[np.arange(wrong.size), self.target] = 1.0 - wrong
        return np.asarray(shares / shares.sum(axis=1, keepdims=True))

    @cached_property
    def _reached(self) -> FloatArray:
        """Return the posterior probability of each point and those below it, by group of rows, (n_groups, n_points)."""
        posterior = np.ascontiguousarray(np.asarray(self.mixture.likelihood) * self.mixture.weights)
        return np.cumsum(posterior / posterior.sum(axis=1, keepdims=True), axis=1)

    def _wrong_shares(self, rng: np.random.Generator) -> FloatArray:
        mixture = self.mixture
        point = np.count_nonzero(self._reached[mixture.group] < rng.random((self.target.size, 1)), axis=1)
        return np.asarray(mixture.support[np.minimum(point, mixture.support.size - 1)])

    @cached_property
    def _reached_rivals(self) -> FloatArray:
        """Return the posterior probability that a label or one before it is the main rival, (n_rows, n_labels)."""
        gain = _by_rival(self.rival_votes, self._base, self._bonus)
        chance = np.exp(gain - gain.max(axis=1, keepdims=True)) * self.confusion[self.target]
        return np.cumsum(chance / chance.sum(axis=1, keepdims=True), axis=1)

    def _rival_shares(self, rng: np.random.Generator) -> FloatArray:
        rows = np.arange(self.target.size)
        rival = np.count_nonzero(self._reached_rivals < rng.random((rows.size, 1)), axis=1)
        shape = self._base + self.rival_votes
        shape[rows, np.minimum(rival, shape.shape[1] - 1)] += self._bonus
        drawn = rng.standard_gamma(shape)
        drawn[rows, self.target] = 0.0
        return np.asarray(drawn / np.maximum(drawn.sum(axis=1, keepdims=True), 1e-300))

    @cached_property
    def _base(self) -> FloatArray:
        """Return the mass of the Dirichlet distribution on each label without the main rival's, (n_rows, n_labels)."""
        spread = self.concentration * (1.0 - self.rival_part)
        return np.asarray(np.maximum(spread * self.confusion[self.target], LEAST_SHARE))

    @property
    def _bonus(self) -> float:
        """Return the mass on the main rival alone."""
        return self.concentration * self.rival_part


def fit_label_shares(votes: LabelVotes, weight: FloatArray) -> LabelShares:
    """Return the distribution, fitted to votes, of the shares of members that predict each label for a row.

    Parameters
    ----------
    votes : LabelVotes
    weight : ndarray, shape (n_rows,)

    Notes
    -----
    The wrong votes of a row follow a Dirichlet distribution, of which a part belongs to one main rival.  For each
    concentration, this part is chosen such that the wrong votes of two members are for the same label as often as in
    the data.  Of these pairs, the one with the largest likelihood of the wrong votes is taken (Minka 2000).

    Examples
    --------
    >>> import numpy as np
    >>> support = np.tile([[9.0, 1.0, 0.0], [4.0, 5.0, 1.0], [0.0, 3.0, 7.0]], (10, 1))
    >>> votes = LabelVotes(support, support, np.full(30, 10.0), np.tile([0, 1, 2], 10))
    >>> shares = fit_label_shares(votes, np.ones(30)).draw(np.random.default_rng(0))
    >>> shares.shape, float(shares.sum(axis=1).max().round(12))
    ((30, 3), 1.0)
    """
    target = votes.target
    rows = np.arange(target.size)
    support = votes.support * votes.per_member
    rival_votes = support.copy()
    rival_votes[rows, target] = 0.0
    confusion = _confusion(rival_votes, target, weight)
    trials = support.sum(axis=1)
    # fit_mixture would warn of few rows, as the report does already.
    mixture = mixture_of_counts(np.minimum(rival_votes.sum(axis=1), trials), trials, RowWeight(weight), 1.0)
    informative = rival_votes.sum(axis=1) >= FEWEST_WRONG_VOTES
    laws = _matching_laws(votes, confusion, weight)
    fits = [
        weight[informative] @ _log_likelihood(rival_votes[informative], confusion[target[informative]], part, mass)
        for part, mass in laws
    ]
    part, concentration = laws[int(np.argmax(fits))]
    return LabelShares(target, rival_votes, confusion, mixture, part, concentration)


def _matching_laws(votes: LabelVotes, confusion: FloatArray, weight: FloatArray) -> list[tuple[float, float]]:
    """Return pairs (rival_part, concentration) for which two wrong votes agree on a label as often as observed.

    If no pair matches, only the nearest one is returned.
    """
    both_wrong, meetings = votes.meetings()
    by_label = np.bincount(votes.target, weight * both_wrong, confusion.shape[0])
    if not by_label.sum() > 0.0 or not weight @ meetings > 0.0:
        return [(0.0, float(mass)) for mass in CONCENTRATIONS]
    observed = float(weight @ meetings / by_label.sum())
    once, twice = (float(by_label @ np.sum(confusion**power, axis=1)) for power in (1, 2))
    laws, misses = [], []
    for mass in CONCENTRATIONS:
        expected = _meeting_chance(once, twice, RIVAL_PARTS, mass)
        miss = np.abs(np.log(expected / by_label.sum() / observed))
        best = int(np.argmin(miss))
        laws.append((float(RIVAL_PARTS[best]), float(mass)))
        misses.append(float(miss[best]))
    near = [law for law, miss in zip(laws, misses, strict=True) if miss <= NEAR_MATCH]
    return near or [laws[int(np.argmin(misses))]]


def _meeting_chance(once: float, twice: float, part: FloatArray, mass: float) -> FloatArray:
    """Return the chance that two wrong votes on a row are for the same label, for each part on one main rival.

    Parameters
    ----------
    once, twice : float
        Sums over labels of the shares in the wrong votes, and of their squares, in the mean over true labels.
    part : ndarray
    mass : float
    """
    # The mean of x(x + 1) over the labels, x the mass on a label, with and without that on the main rival.
    base, bonus = mass * (1.0 - part), mass * part
    squares = (base**2 + 2.0 * base * bonus) * twice + (base + bonus**2 + bonus) * once
    return np.asarray(squares / (mass * (mass + 1.0)))


def _confusion(rival_votes: FloatArray, target: IntArray, weight: FloatArray) -> FloatArray:
    n_labels = rival_votes.shape[1]
    row, label = np.nonzero(rival_votes)
    cell = np.ravel_multi_index((target[row], label), (n_labels, n_labels))
    summed = np.bincount(cell, rival_votes[row, label] * weight[row], n_labels**2)
    votes = summed.astype(np.float64).reshape(n_labels, n_labels)
    overall = votes.sum(axis=0)
    votes += PRIOR_VOTES * overall / max(float(overall.sum()), LEAST_SHARE) + LEAST_VOTES
    np.fill_diagonal(votes, 0.0)
    return np.asarray(votes / votes.sum(axis=1, keepdims=True))


def _log_likelihood(rival_votes: FloatArray, confusion: FloatArray, part: float, mass: float) -> FloatArray:
    """Return the log-likelihood of each row's wrong votes, up to a constant, shape (n_rows,)."""
    base = np.maximum(mass * (1.0 - part) * confusion, LEAST_SHARE)
    n = rival_votes.sum(axis=1)
    row, label = np.nonzero(rival_votes)
    voted = base[row, label]
    terms = np.bincount(row, gammaln(voted + rival_votes[row, label]) - gammaln(voted), n.size)
    plain = gammaln(mass) - gammaln(mass + n) + terms
    if part == 0.0:
        return np.asarray(plain)
    gain = _by_rival(rival_votes, base, mass * part)
    largest = gain.max(axis=1, keepdims=True)
    mean = np.sum(confusion * np.exp(gain - largest), axis=1)
    return np.asarray(plain + largest[:, 0] + np.log(np.maximum(mean, 1e-300)))


def _by_rival(rival_votes: FloatArray, base: FloatArray, bonus: float) -> FloatArray:
    """Return the gain in a row's log-likelihood if each label in turn is the main rival, shape (n_rows, n_labels)."""
    gain = np.zeros_like(base)
    if bonus > 0.0:
        voted = rival_votes > 0.0
        votes, low = rival_votes[voted], base[voted]
        high = low + bonus
        gain[voted] = gammaln(high + votes) - gammaln(high) - gammaln(low + votes) + gammaln(low)
    return gain
