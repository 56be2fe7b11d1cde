r"""One model of a row's labels: what infinitely many members would predict for it, given its out-of-bag outputs.

Of infinitely many members, a share :math:`1 - w` predicts a row's true label and shares :math:`w d_j` the others.
Given the true label, w has a smooth density on (0, 1), near that of all labels together.  The division d among the
other labels is a mixture of Dirichlet distributions around the division on other rows of the label, part of whose mass
is on one main rival; the mixture depends on w, because near the border wrong votes are for one rival, and far from it
for many.  Both are fitted to the outputs by empirical Bayes, and draws of the shares given these outputs answer every
question about labels, at any size: each answer is a mean over rows and draws (``docs/methods/label-shares.md``).  With
two labels d is 1, and only w is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from ens_plugin.core.label_draws import (
    SEED_OF_DRAWS,
    SQRT_TWO_PI,
    Draws,
    LabelDensities,
    LabelDraws,
    LabelledRows,
    draws_of,
    find_cells,
    fit_by_label,
    spread_levels,
    value_order,
    victory,
)
from ens_plugin.core.row_model import (
    N_CELLS,
    RowGroups,
    binomial_likelihood,
    effective_votes,
    fit_density,
    is_close,
    rougher_density,
)
from ens_plugin.core.sample import Sample, SubsetRates
from ens_plugin.core.tally import RowBlock, member_margins, strongest_rival, sum_squares_over_members, value_sums
from ens_plugin.core.validation import AnyIntArray, FloatArray, IntArray
from ens_plugin.core.votes import group_counts

# Parts of the mass on one main rival, and masses in votes, of the Dirichlet distributions that are mixed.
PARTS = np.array([0.0, 0.1, 0.25, 0.5, 0.8])
MASSES = np.exp(np.array([0.0, 1.2, 2.4, 3.6, 4.8]))
# Bins of w, by cells of the grid, with mixtures of their own; each is near the mixture of all by so many rows.
EDGES = np.array([0, 140, 200, 260, 320, 350, 375, N_CELLS])
MIXTURE_ROWS = 5.0
EM_STEPS = 60
# A division is told by two wrong votes and more.
FEWEST_WRONG_VOTES = 2.0
# Votes added to each row of the confusion matrix as all wrong votes are divided, and to each of its entries.
PRIOR_VOTES, LEAST_VOTES = 0.5, 1e-3
# Rivals of a draw that are told apart, those with the largest shares.
MOST_RIVALS = 12
# Rivals whose shares an ensemble's label is decided by.
LEADING = 3
# Prior standard deviation of the power of the divisions, and the step that its effect is seen by.
EXPONENT_SD, EXPONENT_STEP = 0.05, -0.1
LEAST_MASS = 1e-12
LEAST_SHARE = np.float32(1e-30)
TINY = 1e-300
# Rows that the laws of the division are fitted to.
FITTED_ROWS = 1_500


class LabelRecord(NamedTuple):
    """What remains of the members' outputs: sums by row, of the members that count.

    Attributes
    ----------
    support : ndarray, shape (n_rows, n_labels)
        Summed votes or probabilities by label.
    trials : ndarray, shape (n_rows,)
        Number of members; at least two.
    target : ndarray of int, shape (n_rows,)
    weight : ndarray, shape (n_rows,)
        Weights that sum to the number of independent rows.
    of_shares, of_margins : float
        How many votes one member's probabilities are worth: as evidence of a row's shares, and where the label of a
        mean of some members is decided, which the margin of the two leading labels does.  1 for votes.
    """

    support: FloatArray
    trials: FloatArray
    target: IntArray
    weight: FloatArray
    of_shares: float = 1.0
    of_margins: float = 1.0


def record_labels(sample: Sample, weight: FloatArray) -> LabelRecord:
    """Return the record of some rows' votes or probabilities."""
    block = sample.block
    target = np.asarray(block.target, dtype=np.int64)
    if block.is_vote or bool(np.all((block.outputs == 0) | (block.outputs == 1))):
        return LabelRecord(block.support, block.trials, target, weight)
    return LabelRecord(block.support, block.trials, target, weight, *_votes_of_probabilities(block, weight))


def _votes_of_probabilities(block: RowBlock, weight: FloatArray) -> tuple[float, float]:
    """Return how many votes one member is worth: as evidence of the shares, and of the leading margin."""
    support, trials = block.support, block.trials
    share, n = support / trials[:, None], trials[:, None]
    squares = sum_squares_over_members(block.outputs, block.counted)
    lead = np.argmax(support, axis=1)
    rival = strongest_rival(support, lead)
    rows = np.arange(lead.size)
    margin = share[rows, lead] - share[rows, rival]
    within = np.maximum(squares - n * share**2, 0.0) / (n - 1.0)
    leading = RowBlock(block.outputs, block.counted, lead, block.n_labels)
    of_margin = value_sums(RowBlock(member_margins(leading, rival), block.counted, lead, 0))[2] / (trials - 1.0)
    close = is_close(margin)

    def worth(as_votes: FloatArray, observed: FloatArray) -> float:
        sums = np.stack([as_votes, observed]) * (trials * weight)
        return effective_votes(sums.sum(axis=1).tolist(), sums[:, close].sum(axis=1).tolist())

    as_margins = share[rows, lead] + share[rows, rival] - margin**2 + of_margin / trials
    return worth((share * (1.0 - share) + within / n).sum(axis=1), within.sum(axis=1)), worth(as_margins, of_margin)


@dataclass(frozen=True, eq=False)
class LabelShares:
    """The fitted distribution of every row's label shares, given its outputs.

    Attributes
    ----------
    record : LabelRecord
    densities : LabelDensities
        Of w.
    kind : ndarray of int, shape (n_rows,)
        Which of the densities is that of the row.
    posterior : ndarray, shape (n_pairs, 400)
        Distribution of w on the grid, for each pair of wrong votes and density that rows have.
    pair : ndarray of int, shape (n_rows,)
        Pair of each row.
    wrong_votes : ndarray, shape (n_rows, n_labels)
        Votes for the labels other than the true one.
    usual : ndarray, shape (n_rows, n_labels)
        How the wrong votes on the other rows of the same label are divided; rows sum to 1.
    by_law : ndarray, shape (n_rows, n_laws)
        Likelihood of a row's wrong votes under each law of the division, its largest 1.
    mixing : ndarray, shape (n_bins, n_laws)
        Share of each law in each bin of w; rows sum to 1.
    """

    record: LabelRecord
    densities: LabelDensities
    kind: IntArray
    posterior: FloatArray
    pair: IntArray
    wrong_votes: FloatArray
    usual: FloatArray
    by_law: FloatArray
    mixing: FloatArray

    @property
    def by_bin(self) -> FloatArray:
        """Return the probability of each bin of w, shape (n_rows, n_bins)."""
        return np.asarray(np.add.reduceat(self.posterior, EDGES[:-1], axis=1)[self.pair])

    def take(self, rows: AnyIntArray) -> LabelShares:
        """Return the shares of some of the rows."""
        support, trials, target, weight, *votes = self.record
        return replace(
            self,
            record=LabelRecord(support[rows], trials[rows], target[rows], weight[rows], *votes),
            kind=self.kind[rows],
            pair=self.pair[rows],
            wrong_votes=self.wrong_votes[rows],
            usual=self.usual[rows],
            by_law=self.by_law[rows],
        )


def fit_label_shares(record: LabelRecord) -> LabelShares:
    """Fit the distribution of label shares by empirical Bayes: all rows together first, then each label around them."""
    target, weight = record.target, record.weight
    n_labels = record.support.shape[1]
    wrong_support = record.support.copy()
    wrong_support[np.arange(target.size), target] = 0.0
    wrong = np.clip(record.trials - record.support[np.arange(target.size), target], 0.0, record.trials)
    k, n, counts, group = group_counts(wrong, record.trials, weight, votes_per_member=record.of_shares)
    likelihood = binomial_likelihood(k, n)
    overall = fit_density(RowGroups(likelihood, counts), beta_mean=(0.0, 0.0), beta_start=(0.0, 0.0))
    if record.of_shares == 1.0:
        # Many votes on few kinds of rows show gaps that a smooth density would fill.
        overall = rougher_density(overall)
    each = LabelledRows(group, target, weight, record.trials)
    densities, kind = fit_by_label(RowGroups(likelihood, counts), overall, each, n_labels)
    votes = wrong_support * record.of_shares
    one_law = np.ones((target.size, 1)), np.ones((EDGES.size - 1, 1))
    pairs, pair = np.unique(group * len(densities.own) + kind, return_inverse=True)
    groups, kinds = np.divmod(pairs, len(densities.own))
    posterior = likelihood[groups] * densities.weights[kinds]
    posterior /= np.maximum(posterior.sum(axis=1, keepdims=True), TINY)
    usual = _usual(votes, target, weight)
    whole = LabelShares(record, densities, kind, posterior, pair.reshape(-1), votes, usual, *one_law)
    return whole if n_labels == 2 else _with_divisions(whole)


def _usual(wrong: FloatArray, target: IntArray, weight: FloatArray) -> FloatArray:
    """Return how the wrong votes on the other rows of each row's label are divided, shape (n_rows, n_labels)."""
    # Its own votes would be no evidence of how far its division is from that of the others.
    n_labels = wrong.shape[1]
    votes = np.zeros((n_labels, n_labels))
    for label in np.unique(target):
        own = target == label
        votes[label] = weight[own] @ wrong[own]
    overall = votes.sum(axis=0)
    # A weight stands for as many equal rows.
    found = np.maximum(votes[target] - np.minimum(weight, 1.0)[:, None] * wrong, 0.0)
    found += PRIOR_VOTES * overall / max(float(overall.sum()), TINY) + LEAST_VOTES
    found[np.arange(target.size), target] = 0.0
    return np.asarray(found / found.sum(axis=1, keepdims=True))


def _laws() -> list[tuple[float, float]]:
    return [(float(part), float(mass)) for part in PARTS for mass in MASSES]


def _with_divisions(whole: LabelShares) -> LabelShares:
    """Return the shares with the laws of the division fitted to the votes for wrong labels, in each bin of w."""
    n_wrong = whole.wrong_votes.sum(axis=1)
    # Rows without a wrong vote tell nothing of the division.
    by_law, told = np.ones((n_wrong.size, len(_laws()))), np.flatnonzero(n_wrong > 0)
    if told.size:
        logs = _log_likelihoods(whole.wrong_votes[told], whole.usual[told])
        by_law[told] = np.exp(logs - logs.max(axis=1, keepdims=True))
    mixing = _fit_mixing(by_law, whole.by_bin, whole.record.weight * (n_wrong >= FEWEST_WRONG_VOTES))
    return replace(whole, by_law=by_law, mixing=mixing)


def _log_likelihoods(wrong: FloatArray, usual: FloatArray) -> FloatArray:
    """Return the log-likelihood of each row's wrong votes under each law, up to a constant, shape (n_rows, n_laws)."""
    # Each row has votes.
    row, label = np.nonzero(wrong)
    votes, share = wrong[row, label], usual[row, label]
    n, first = np.bincount(row, votes), np.flatnonzero(np.diff(row, prepend=-1))
    # A main rival may have no vote.
    unseen = np.maximum(1.0 - np.bincount(row, share), 0.0)
    found = []
    for part, mass in _laws():
        low = np.maximum(mass * (1.0 - part) * share, LEAST_MASS)
        terms = gammaln(low + votes) - gammaln(low)
        logs = gammaln(mass) - gammaln(mass + n) + np.bincount(row, terms)
        if part > 0.0:
            high = low + mass * part
            gain = gammaln(high + votes) - gammaln(high) - terms
            top = np.maximum.reduceat(gain, first)
            logs += top + np.log(unseen * np.exp(-top) + np.bincount(row, share * np.exp(gain - top[row])))
        found.append(logs)
    return np.column_stack(found)


def _fit_mixing(by_law: FloatArray, bins: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the share of each law in each bin of w by the EM algorithm, each bin near all bins together."""
    overall = np.full(by_law.shape[1], 1.0 / by_law.shape[1])
    mixing = np.repeat(overall[None], bins.shape[1], axis=0)
    told = np.flatnonzero(weight > 0)
    if not told.size:
        return mixing
    told = told[:: -(-told.size // FITTED_ROWS)]
    by_law, bins, weight = by_law[told], bins[told], weight[told]
    for _ in range(EM_STEPS):
        overall = overall * ((weight / (by_law @ overall)) @ by_law) / weight.sum()
    mixing = np.repeat(overall[None], bins.shape[1], axis=0)
    for _ in range(EM_STEPS):
        joint = bins * (by_law @ mixing.T)
        rows = mixing * ((bins * (weight / np.maximum(joint.sum(axis=1), TINY))[:, None]).T @ by_law)
        mixing = (rows + MIXTURE_ROWS * overall) / (rows.sum(axis=1, keepdims=True) + MIXTURE_ROWS)
    return np.asarray(mixing)


def _draw_votes(shares: FloatArray, size: int, rng: np.random.Generator) -> NDArray[np.integer]:
    """Return drawn votes for the labels along the last axis; labels that are not among them have the rest."""
    shares = np.concatenate([shares, np.maximum(1.0 - shares.sum(axis=-1, keepdims=True), 0.0)], axis=-1)
    return np.asarray(rng.multinomial(size, shares / shares.sum(axis=-1, keepdims=True))[..., :-1])


class VoteContest:
    """One label against its rivals by their shares of the votes; :class:`~ens_plugin.core.label_draws.Contest`.

    The label has shares `own`, shape (n_rows, n_draws), and each of the `others` is such an array too.
    """

    def __init__(self, own: Draws, others: Sequence[Draws], votes_per_member: float) -> None:
        both = [np.maximum(own + other, LEAST_SHARE) for other in others]
        self._votes = [votes_per_member * share for share in both]
        # Of equal shares, the logarithm of 4 p (1 - p) is 0; rounding must not make it positive.
        self._logs = [
            np.maximum(-np.log(np.maximum(4.0 * (own / share) * (other / share), LEAST_SHARE)), 0.0)
            for other, share in zip(others, both, strict=True)
        ]
        self._sides = [np.sign(own - other) for other in others]
        self._roots = [np.sqrt(own / share) for share in both]

    def distance(self, size: float, rival: int = 0) -> Draws:
        """Return by how many standard deviations so many members prefer the label to one rival."""
        # It is the normal distance of the chance of a majority among the votes for one of the two by Peizer and Pratt
        # (1968), which is that of the binomial distribution to three digits.
        n = self._votes[rival] * np.float32(size)
        distance = np.sqrt(n * self._logs[rival] / (1.0 + 1.0 / (6.0 * n)))
        distance *= self._sides[rival]
        distance *= 1.0 + 1.0 / (3.0 * n)
        return np.asarray(distance)

    def chance(self, size: float) -> Draws:
        """Return the chance that so many members predict the label."""
        if np.isinf(size):
            # A tie is half a victory.
            return np.asarray(np.prod([(side + 1.0) / 2.0 for side in self._sides], axis=0), dtype=np.float32)
        places = range(len(self._sides))
        # The label's own votes are part of all margins.
        correlations = {(i, j): self._roots[i] * self._roots[j] for j in places for i in range(j)}
        return victory([self.distance(size, place) for place in places], correlations)


@dataclass(frozen=True, eq=False)
class DrawnShares:
    """Shares of the true label and of its strongest rivals, drawn; :class:`~ens_plugin.core.label_draws.Outputs`.

    `shares` have shape (n_rows, n_draws, 1 + n_rivals), and a member is worth so many votes.
    """

    shares: Draws
    votes_per_member: float

    def contest(self, place: int) -> VoteContest:
        """Return the contest of the label in one place with all others."""
        others = [self.shares[..., other] for other in range(self.shares.shape[2]) if other != place]
        return VoteContest(self.shares[..., place], others, self.votes_per_member)

    def strongest_first(self) -> DrawnShares:
        """Return the same shares, descending."""
        return DrawnShares(-np.sort(-self.shares, axis=2), self.votes_per_member)

    def slopes(self, size: float) -> Draws:
        """Return the derivative of the chance of the true label in its mean margin over the strongest rival."""
        one, other = self.shares[..., 0], self.shares[..., 1]
        variance = np.maximum(one + other - (one - other) ** 2, LEAST_MASS)
        distance = VoteContest(one, [other], self.votes_per_member).distance(size)
        return np.asarray(np.exp(-0.5 * distance**2) * np.sqrt(size * self.votes_per_member / variance) / SQRT_TWO_PI)

    def tie_shift(self, size: int, rivals: IntArray, target: IntArray) -> FloatArray:
        """Return the error if the first label wins ties of votes, minus that if tied labels win alike, (n_rows,)."""
        votes = _draw_votes(self.shares.astype(np.float64), size, np.random.default_rng([SEED_OF_DRAWS, size]))
        tied = votes == votes.max(axis=2, keepdims=True)
        is_before = (tied[..., 1:] & (rivals >= 0) & (rivals < target[:, None, None])).any(axis=2)
        return np.asarray((tied[..., 0] * (is_before - 1.0 + 1.0 / tied.sum(axis=2))).mean(axis=1))

    def take(self, rows: AnyIntArray) -> DrawnShares:
        """Return the shares of some of the rows."""
        return DrawnShares(self.shares[rows], self.votes_per_member)


def draw_shares(fitted: LabelShares, rates: SubsetRates) -> LabelDraws:
    """Draw the label shares of every row from their distribution given its outputs."""
    # The divisions are such that as large ensembles as the subsets of the members have the same error.
    record = fitted.record
    right = record.support[np.arange(record.target.size), record.target] / record.trials
    order = value_order(record.target, right, record.trials, record.weight, *record.support.T)
    return _drawn_in_order(fitted.take(order), rates.take(order)).take(np.argsort(order))


def _drawn_in_order(fitted: LabelShares, rates: SubsetRates) -> LabelDraws:
    record, n_rows = fitted.record, fitted.record.target.size
    n_draws = draws_of(n_rows)
    rng = np.random.default_rng(SEED_OF_DRAWS)
    levels = spread_levels(rng, n_rows, n_draws)
    division, labels, laws = _draw_divisions(fitted, rng, n_draws)
    cells, wrong = _draw_wrong(fitted, levels, laws, rng)
    limit_sd, missed = 0.0, None
    if division.shape[2] > 1:
        exponent, sd, missed = _exponent(division, wrong, record, rates)
        ends = [_powered(division, exponent + side * sd)[..., 0] * wrong > 1.0 - wrong for side in (-1.0, 1.0)]
        share = record.weight / record.weight.sum()
        limit_sd = abs(float(share @ (ends[1].mean(axis=1) - ends[0].mean(axis=1)))) / 2.0
        division = _powered(division, exponent)
    others = division[..., :LEADING] * wrong[..., None]
    shares = np.concatenate([1.0 - wrong[..., None], others], axis=2, dtype=np.float32)
    return LabelDraws(
        record.target,
        record.weight,
        labels[..., :LEADING],
        DrawnShares(shares, record.of_margins),
        fitted.densities,
        fitted.kind,
        cells,
        record.support.shape[1],
        limit_sd,
        missed,
    )


def _draw_divisions(
    fitted: LabelShares, rng: np.random.Generator, n_draws: int
) -> tuple[FloatArray, IntArray, IntArray]:
    """Return the largest shares of what is not for the true label, descending, their labels, and the laws drawn."""
    # The first two have shape (n_rows, n_draws, n_rivals); other labels win for no row.
    target = fitted.record.target
    n_rows, n_labels = fitted.usual.shape
    if n_labels == 2:
        labels = np.broadcast_to(1 - target[:, None, None], (n_rows, n_draws, 1))
        return np.ones(labels.shape), labels, np.zeros((n_rows, n_draws), dtype=np.int64)
    reached = np.cumsum(fitted.by_law * (fitted.by_bin @ fitted.mixing), axis=1)
    laws = _drawn(reached, rng.random((n_rows, n_draws)))
    n_rivals = min(n_labels - 1, MOST_RIVALS)
    division, labels = np.empty((n_rows, n_draws, n_rivals)), np.empty((n_rows, n_draws, n_rivals), dtype=np.int64)
    for index, (part, mass) in enumerate(_laws()):
        row, draw = np.nonzero(laws == index)
        if row.size:
            shares = _dirichlet(fitted.wrong_votes[row], fitted.usual[row], part, mass, rng)
            shares[np.arange(row.size), target[row]] = -1.0
            order = np.argsort(-shares, axis=1, kind="stable")[:, :n_rivals]
            division[row, draw], labels[row, draw] = np.take_along_axis(shares, order, axis=1), order
    return division, labels, laws


def _powered(division: FloatArray, exponent: float) -> FloatArray:
    """Return divisions to a power, with the same sum: below 1 they are more even, above 1 more on the strongest."""
    found = division**exponent
    found *= division.sum(axis=2, keepdims=True) / np.maximum(found.sum(axis=2, keepdims=True), TINY)
    return found


def _exponent(
    division: FloatArray, wrong: FloatArray, record: LabelRecord, rates: SubsetRates
) -> tuple[float, float, float]:
    """Return the power of the divisions with which ensembles as large as the largest subsets are wrong as often."""
    # The laws of the division know two numbers of it, its part on one rival and its mass; what decides is its largest
    # share. The exponent is near 1 as far as the subsets' errors are noise. The second number is its standard
    # deviation, and the third by how much the subsets' error still differs.
    size, observed = float(rates.sizes[-1]), rates.wrong[-1]
    rows = np.flatnonzero(~np.isnan(observed))
    share = record.weight[rows] / record.weight[rows].sum()
    errors = [
        _simulated_error(_powered(division[rows], exponent), wrong[rows], size * record.of_margins)
        for exponent in (1.0, 1.0 + EXPONENT_STEP)
    ]
    apart = observed[rows] - errors[0]
    difference = float(share @ apart)
    noise = float(share**2 @ (apart - difference) ** 2)
    slope = float(share @ (errors[1] - errors[0])) / EXPONENT_STEP
    precision = EXPONENT_SD**-2 + slope**2 / max(noise, TINY)
    step = slope * difference / max(noise, TINY) / precision
    return 1.0 + step, precision**-0.5, abs(difference - slope * step)


def _simulated_error(division: FloatArray, wrong: FloatArray, n_votes: float) -> FloatArray:
    """Return how often so many drawn votes are for another label most, shape (n_rows,); a tie is part of an error."""
    shares = np.concatenate([1.0 - wrong[..., None], division * wrong[..., None]], axis=2)
    votes = _draw_votes(shares, round(n_votes), np.random.default_rng(SEED_OF_DRAWS))
    tied = votes == votes.max(axis=2, keepdims=True)
    return np.asarray(1.0 - (tied[..., 0] / tied.sum(axis=2)).mean(axis=1))


def _dirichlet(wrong: FloatArray, usual: FloatArray, part: float, mass: float, rng: np.random.Generator) -> FloatArray:
    """Return a draw of each row's division under one law, given its votes, shape (n_rows, n_labels)."""
    base = np.maximum(mass * (1.0 - part) * usual, LEAST_MASS)
    shape = base + wrong
    if part > 0.0:
        # How much more likely the votes are if each label in turn is the main rival.
        gain, seen = np.zeros_like(base), np.nonzero(wrong)
        low, votes = base[seen], wrong[seen]
        high = low + mass * part
        gain[seen] = gammaln(high + votes) - gammaln(high) - gammaln(low + votes) + gammaln(low)
        chance = np.cumsum(np.exp(gain - gain.max(axis=1, keepdims=True)) * usual, axis=1)
        main = _drawn(chance, rng.random((chance.shape[0], 1)))[:, 0]
        shape[np.arange(main.size), main] += mass * part
    drawn = rng.standard_gamma(shape)
    return np.asarray(drawn / np.maximum(drawn.sum(axis=1, keepdims=True), TINY))


def _drawn(reached: FloatArray, levels: FloatArray) -> IntArray:
    """Return the place at which each level is reached by cumulated weights, shape of `levels`."""
    goals = levels * reached[:, -1:]
    places = np.zeros(levels.shape, dtype=np.int64)
    for column in range(reached.shape[1] - 1):
        places += reached[:, column, None] < goals
    return places


def _draw_wrong(
    fitted: LabelShares, levels: FloatArray, laws: IntArray, rng: np.random.Generator
) -> tuple[IntArray, FloatArray]:
    """Return draws of w given the laws of the division: the cells of the grid, and the places in them."""
    record = fitted.record
    right = record.support[np.arange(record.target.size), record.target]
    for is_known, share in ((np.array_equal(right, record.trials), 0.0), (not right.any(), 1.0)):
        if is_known:
            # Members that are never wrong, or never right, leave nothing to draw.
            return np.full(levels.shape, round(share * (N_CELLS - 1))), np.full(levels.shape, share)
    by_bin = np.cumsum(fitted.by_bin[:, None, :] * fitted.mixing.T[laws], axis=2)
    goals = levels * by_bin[..., -1]
    place = np.minimum((by_bin <= goals[..., None]).sum(axis=2), EDGES.size - 2)
    below = np.concatenate([np.zeros((*goals.shape, 1)), by_bin], axis=2)
    before = np.take_along_axis(below, place[..., None], 2)[..., 0]
    inside = (goals - before) / np.maximum(fitted.mixing[place, laws], TINY)
    reached = np.cumsum(fitted.posterior, axis=1)
    ends = np.concatenate([np.zeros((len(reached), 1)), reached[:, EDGES[1:] - 1]], axis=1)
    cells = find_cells(reached, fitted.pair, ends[fitted.pair[:, None], place] + inside)
    return cells, (cells + rng.random(cells.shape)) / N_CELLS
