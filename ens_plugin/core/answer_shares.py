"""What infinitely many samples would answer to each question, drawn given the few samples that there are.

The model is that of ``docs/methods/answers.md``.  Of one question, the **right** answer has a share t; of the rest, one
wrong answer, the **rival**, has a share w; and what is left is split at random by a Poisson-Dirichlet distribution of
concentration theta (Ewens 1972).  Without truth t is 0 and the rival is the leading answer.  The density of
(t, w, theta) over questions is constant in the cells of a grid, and its logarithm is a polynomial, fitted by penalised
likelihood (Efron 2016).  Given a question's votes, its shares are drawn: a cell, which answer is the rival, t and w by
their Beta distributions within the cell, and the split by its Dirichlet distribution.  Every figure is an average over
these draws.  Its variance is that of the questions' chances, and that of the coefficients along the slopes of the
posterior means.

References
----------
Clopper, C. J., Pearson, E. S. (1934). The use of confidence or fiducial limits. Biometrika 26, 404-413.
Efron, B. (2016). Empirical Bayes deconvolution estimates. Biometrika 103, 1-20.
Ewens, W. J. (1972). The sampling theory of selectively neutral alleles. Theoretical Population Biology 3, 87-112.
Rubin, D. B. (1981). The Bayesian bootstrap. The Annals of Statistics 9, 130-134.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import betainc, betaincc, betainccinv, betaincinv, betaln, gammaln, ndtri

from ens_plugin.core.label_draws import find_cells
from ens_plugin.core.validation import NEGLIGIBLE, ROUNDING, FloatArray, IntArray

# Both edges of cells at equal distances of asin(sqrt(share)), at which the votes of a share have the same variance.
RIGHT, RIVAL = (sliding_window_view(np.sin(np.linspace(0.0, np.pi / 2.0, size)) ** 2, 2) for size in (17, 9))
CONCENTRATIONS = np.geomspace(0.05, 300.0, 8)
# The largest powers of t, w and theta in the logarithm of the density, and of their products.
POWERS, MOST_POWERS = (6, 3, 3), 4
# Of the squared coefficients, which keeps those that no vote tells of from growing.
PENALTY = 0.3
N_DRAWS = 60
# Questions for which shares are drawn; of more, so many spread over all kinds of votes stand for the others.
MOST_QUESTIONS = 1000
# Parts of the split that were not given yet and are told apart; the rest is of answers that come once.
N_PARTS = 8
# Answers with the largest shares, which are told apart where votes are drawn.
N_RIVALS = 6
# What other answers than two can have of the shares where two are possible.
ONE_ANSWER = 1e-9
SMALLEST = 1e-300
# A ratio whose exponential is still finite where hundreds are added.
LARGEST_LOG = 690.0
# Numbers of samples that are tabulated; between them figures are interpolated in the logarithm of the size.
SIZES = np.unique(np.concatenate([np.arange(1, 9), np.geomspace(10, 1_000_000, 16).astype(np.int64)]))


@dataclass(frozen=True, eq=False)
class AnswerVotes:
    """How often each answer to each question was given, shape (n_questions, n_answers), in columns of its own.

    Column 0 is the right answer where `has_truth`, and empty otherwise; the others are wrong answers, the most frequent
    first.  `n_answers` is how many answers a question has at most, and `groups` tells which belong together.
    """

    counts: FloatArray
    has_truth: bool
    n_answers: float
    groups: NDArray[np.integer] | None = None


class Share(NamedTuple):
    """A share of questions at each size of :data:`SIZES` and at infinity, shape (n_sizes + 1,)."""

    mean: FloatArray
    variance: FloatArray
    # Of the distance from infinity, which has less of the luck of the questions.
    distance_variance: FloatArray

    def size_within(self, tolerance: float, level: float) -> tuple[int, tuple[int, int]]:
        """Return the size from which on it is no farther than a tolerance from that at infinity, with its interval."""
        apart, reach = np.abs(self.mean - self.mean[-1]), ndtri((1.0 + level) / 2.0) * np.sqrt(self.distance_variance)
        ends = np.maximum(apart - reach, 0.0), apart, apart + reach
        first, size, last = (first_within(each[:-1], tolerance) for each in ends)
        return size, (min(first, size), max(last, size))


def share_interval(mean: FloatArray, variance: FloatArray, level: float) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the intervals of shares, quantiles of a Beta distribution where one has this variance."""
    tails = (1.0 - level) / 2.0, (1.0 + level) / 2.0
    strength = mean * (1.0 - mean) / np.maximum(variance, SMALLEST) - 1.0
    is_beta = (strength > 0.0) & (variance > SMALLEST)
    shape = np.where(is_beta, strength * mean, 1.0), np.where(is_beta, strength * (1.0 - mean), 1.0)
    normal = (np.clip(mean + ndtri(tail) * np.sqrt(variance), 0.0, 1.0) for tail in tails)
    lower, upper = (
        np.where(is_beta, betaincinv(*shape, tail), other) for tail, other in zip(tails, normal, strict=True)
    )
    return lower, upper


def new_interval(mean: FloatArray, variance: FloatArray, n_units: float, level: float) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the intervals of new questions, some of which are of a kind that was not seen.

    Their share is that of what n units have not shown (Rubin 1981, with one unit more).  At the lower end none of them
    is right, and at the upper one all are: where every unit is right, both are those of Clopper and Pearson (1934).
    """
    seen, squared = n_units / (n_units + 1.0), n_units / (n_units + 2.0)
    of_seen, of_unseen = squared * variance, squared / (n_units + 1.0) ** 2
    lower = share_interval(seen * mean, of_seen + of_unseen * mean**2, level)[0]
    upper = share_interval(1.0 - seen * (1.0 - mean), of_seen + of_unseen * (1.0 - mean) ** 2, level)[1]
    return lower, upper


@dataclass(frozen=True, eq=False)
class ShareDraws:
    """What majorities of :data:`SIZES` samples, and of infinitely many, do by draws of the shares of the answers."""

    right: Share  # of these questions, those whose majority is right
    agreed: Share  # those whose majority is that of infinitely many samples
    new_variance: FloatArray  # of right ones among other questions like these
    n_units: float  # questions, or groups of them, that are independent
    # Right ones in each draw, of the outcome of as many samples, for two independent sets of votes, shape
    # (2, n_draws, n_sizes + 1).
    drawn: FloatArray
    one_right: FloatArray  # questions with at least one right answer among as many samples, shape (n_sizes + 1,)
    all_right: FloatArray  # with right ones only
    right_of_question: FloatArray  # chance of a right majority, shape (n_questions, n_sizes + 1)
    agreed_of_question: FloatArray
    luck_of_question: FloatArray  # variance of a right majority over votes of one share, of the same shape
    overturned: FloatArray  # chance of each question that infinitely many have another majority than those at hand


@dataclass(frozen=True, eq=False)
class _Grid:
    """Cells of the right answer's share, the rival's and the concentration, in this order; some may be one alone."""

    right: FloatArray  # edges, shape (n_cells, 2); an empty cell at 0 is a share of exactly 0
    rival: FloatArray
    concentration: FloatArray

    @property
    def shape(self) -> tuple[int, int, int]:
        return len(self.right), len(self.rival), self.concentration.size

    @cached_property
    def basis(self) -> FloatArray:
        """Orthonormal polynomials of the cells, shape (n_cells, n_terms), without the constant."""
        axes = [np.arcsin(np.sqrt(edges.mean(axis=1))) for edges in (self.right, self.rival)]
        places = [place.reshape(-1) for place in np.meshgrid(*axes, np.log(self.concentration), indexing="ij")]
        scaled = [(place - place.mean()) / (np.ptp(place) or 1.0) for place in places]
        powers = sorted(product(*(range(most + 1) for most in POWERS)), key=lambda each: (sum(each), each))
        columns = [
            np.prod([place**own for place, own in zip(scaled, power, strict=True)], axis=0)
            for power in powers
            if np.count_nonzero(power) < 2 or sum(power) <= MOST_POWERS
        ]
        # Questions that are never answered right are a kind of their own.
        columns.append((self.right[:, 1] == 0.0).repeat(places[0].size // len(self.right)).astype(np.float64))
        # Of a single cell there are no powers.
        columns = [columns[0], *(column for column in columns[1:] if np.ptp(column) > 0.0)]
        return np.asarray(np.linalg.qr(np.column_stack(columns))[0][:, 1:] * np.sqrt(places[0].size))


def _grid(votes: AnswerVotes) -> _Grid:
    """Return the cells; without truth nothing is right, and of two answers the rival is the only other one."""
    never = np.zeros((1, 2))
    if votes.n_answers > 2:
        return _Grid(np.vstack([never, RIGHT]) if votes.has_truth else never, RIVAL, CONCENTRATIONS)
    if votes.has_truth:
        return _Grid(RIGHT, np.array([[1.0 - ONE_ANSWER, 1.0]]), np.ones(1))
    return _Grid(never, RIGHT, np.array([ONE_ANSWER]))


@dataclass(frozen=True, eq=False)
class _Records:
    """Questions with different votes, and what the cells of the grid give them."""

    grid: _Grid
    votes: FloatArray  # shape (n_records, n_answers)
    kind: IntArray  # the record of each question
    weights: FloatArray  # of the cells, relative to each other: likelihoods, later posterior ones
    # The chance that the rival has v of n wrong votes, for each such pair that occurs, relative to that of a rival that
    # was not given, shape (n_pairs, n_rival_cells, n_concentrations).
    rivals: FloatArray
    pair: IntArray  # of each wrong answer, shape (n_records, n_answers - 1)

    @cached_property
    def expected(self) -> FloatArray:
        """The means of the terms by these weights, shape (n_records, n_terms)."""
        return np.asarray((self.weights / self.weights.sum(axis=1, keepdims=True)) @ self.grid.basis)


def _records(counts: FloatArray, grid: _Grid) -> _Records:
    """Return the different votes, of which k of n for the right answer and c_i for others have in each cell the chance.

    t^k (1 - t)^(n - k) {(1 - w)^(n - k) E(c) + sum_i w^c_i (1 - w)^(n - k - c_i) E(c without c_i)}, E as in _log_ewens.
    """
    records, kind = np.unique(counts, axis=0, return_inverse=True)
    right, wrong = records[:, 0], records[:, 1:]
    n_wrong = wrong.sum(axis=1)
    pairs, pair = np.unique(
        np.column_stack([wrong.reshape(-1), np.repeat(n_wrong, wrong.shape[1])]), axis=0, return_inverse=True
    )
    rivals = _log_rivals(pairs, grid)
    pair = pair.reshape(wrong.shape)
    ratio = np.exp(np.minimum(rivals, LARGEST_LOG))
    total = 1.0 + np.where((wrong > 0)[..., None, None], ratio[pair], 0.0).sum(axis=1)
    log_rest = (
        _log_mean(np.zeros_like(n_wrong), n_wrong, grid.rival)[:, :, None]
        + _log_ewens(wrong, grid.concentration)[:, None, :]
        + np.log(total)
    )
    log = _log_mean(right, n_wrong, grid.right)[:, :, None, None] + log_rest[:, None]
    log = log.reshape(len(records), -1)
    weights = np.exp(log - log.max(axis=1, keepdims=True))
    return _Records(grid, records, kind.reshape(-1), weights, ratio, np.asarray(pair, dtype=np.int64))


def _log_mean(successes: FloatArray, failures: FloatArray, cells: FloatArray) -> FloatArray:
    """Return the logarithm of the mean of s^successes (1 - s)^failures over shares s in each cell."""
    a, b = successes[:, None] + 1.0, failures[:, None] + 1.0
    low, high = cells.T
    found = betaln(a, b) + np.log(np.maximum(_mass(a, b, low, high), SMALLEST) / np.maximum(high - low, SMALLEST))
    # An empty cell at 0 is a share of exactly 0.
    return np.where(high == 0.0, np.where(successes[:, None] > 0.0, -np.inf, 0.0), found)


def _mass(a: FloatArray, b: FloatArray, low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the mass of Beta distributions between two shares, precise in both tails."""
    lower, upper = betainc(a, b, high) - betainc(a, b, low), betaincc(a, b, low) - betaincc(a, b, high)
    return np.asarray(np.where(low > a / (a + b), upper, lower))


def _log_ewens(votes: FloatArray, concentration: FloatArray) -> FloatArray:
    """Return the logarithm of the chance of votes for the answers of a split, shape (n_records, n_concentrations)."""
    n_answers = (votes > 0).sum(axis=1)[:, None]
    of_answers = np.where(votes > 0, gammaln(np.where(votes > 0, votes, 1.0)), 0.0).sum(axis=1)[:, None]
    of_rest = gammaln(concentration) - gammaln(concentration + votes.sum(axis=1)[:, None])
    return np.asarray(n_answers * np.log(concentration) + of_answers + of_rest)


def _log_rivals(pairs: FloatArray, grid: _Grid) -> FloatArray:
    """Return the logarithm of the chance that the rival has v of n wrong votes, relative to none of them."""
    own, total = pairs.T
    as_rival = _log_mean(own, total - own, grid.rival) - _log_mean(np.zeros_like(own), total, grid.rival)
    theta = grid.concentration
    without = (
        gammaln(theta + total[:, None])
        - gammaln(theta + (total - own)[:, None])
        - np.log(theta)
        - gammaln(np.maximum(own, 1e-9))[:, None]
    )
    return np.asarray(as_rival[:, :, None] + without[:, None, :])


def _density(coefficients: FloatArray, basis: FloatArray) -> FloatArray:
    """Return the share of questions in each cell, for each row of coefficients."""
    log = coefficients @ basis.T
    density = np.exp(log - log.max(axis=-1, keepdims=True))
    return np.asarray(density / density.sum(axis=-1, keepdims=True))


def _fit(records: _Records, kind: IntArray, groups: NDArray[np.integer] | None) -> tuple[FloatArray, FloatArray]:
    """Return the density, and the covariance of its coefficients; `kind` is the record of each question."""
    basis, likelihood, counts = records.grid.basis, records.weights, np.bincount(kind).astype(np.float64)

    def loss(coefficients: FloatArray) -> tuple[float, FloatArray]:
        density = _density(coefficients, basis)
        chance = likelihood @ density
        expected = density * ((counts / chance) @ likelihood)
        slope = basis.T @ (expected - counts.sum() * density) - PENALTY * coefficients
        return float(-counts @ np.log(chance) + 0.5 * PENALTY * coefficients @ coefficients), -slope

    fitted = minimize(loss, np.zeros(basis.shape[1]), jac=True, method="L-BFGS-B").x
    density = _density(fitted, basis)
    scores = (likelihood * density / (likelihood @ density)[:, None]) @ basis - density @ basis
    penalty = PENALTY * np.eye(fitted.size)
    information = scores.T @ (scores * counts[:, None])
    spread = information
    if groups is not None:
        # Questions of one group are not independent.
        summed = np.zeros((int(groups.max()) + 1, fitted.size))
        np.add.at(summed, groups, scores[kind])
        spread = summed.T @ summed
    # What the votes do not tell of is as uncertain as the penalty says; 95 % intervals without it hold 90 %.
    inverse = np.linalg.inv(information + penalty)
    return density, inverse @ (spread + penalty) @ inverse


def first_within(distance: FloatArray, allowed: float, sizes: IntArray = SIZES) -> int:
    """Return the size from which on a distance is no longer above the allowed one; else one more than the largest."""
    above = np.flatnonzero(distance > allowed)
    if not above.size:
        return int(sizes[0])
    last = int(above[-1])
    if last == sizes.size - 1:
        return int(sizes[last]) + 1
    # Between two sizes the distance is interpolated in the logarithm of the size.
    before, after = distance[last], distance[last + 1]
    share = min((before - allowed) / max(before - after, NEGLIGIBLE), 1.0)
    return int(np.ceil(sizes[last] * (sizes[last + 1] / sizes[last]) ** share - ROUNDING))


class _Draw(NamedTuple):
    """What majorities do for one draw of the shares, or the sum over all draws; its figures are parts of means."""

    both: FloatArray  # right, and as infinitely many, for two sets of votes, shape (2, 2, n_questions, n_sizes + 1)
    between: FloatArray  # variance over groups
    all_right: FloatArray
    none_right: FloatArray
    slopes: FloatArray  # of the posterior means, shape (2, n_sizes + 1, n_terms)
    terms: FloatArray  # apart from their means, which the sum of few draws is not, shape (n_questions, n_terms)
    overturned: FloatArray  # chance of each question


def draw_majorities(votes: AnswerVotes, random_state: int, votes_per_sample: float = 1.0) -> ShareDraws:
    """Return what majorities of each size do, by draws of the shares of the answers to these questions."""
    rng = np.random.default_rng(random_state)
    some, stand_in = _spread_over_kinds(votes.counts)
    records = _records(votes.counts[some], _grid(votes))
    density, covariance = _fit(records, records.kind[stand_in], votes.groups)
    records = replace(records, weights=records.weights * density)
    groups = np.arange(some.size) if votes.groups is None else np.unique(votes.groups[some], return_inverse=True)[1]
    sizes = np.maximum(np.round(SIZES * votes_per_sample), 1.0).astype(np.int64)
    draws = [_drawn(records, groups, sizes, rng) for _ in range(N_DRAWS)]
    total = _Draw(*(reduce(np.add, each) for each in zip(*draws, strict=True)))
    # Of more questions than were drawn, the luck of each counts for less.
    fewer = some.size / stand_in.size
    slopes = (total.slopes - _slopes(total.both, total.terms / N_DRAWS)) / (N_DRAWS - 1.0)
    right, agreed = (_share([draw.both[kind] for draw in draws], slopes[kind], covariance, fewer) for kind in range(2))
    # Draws tell of no chance that is smaller than one of all.
    right = right._replace(variance=np.maximum(right.variance, fewer / (N_DRAWS * some.size**2)))
    drawn = np.stack([draw.both[0].mean(axis=1) for draw in draws], axis=1)
    noise = rng.multivariate_normal(np.zeros(len(covariance)), covariance, N_DRAWS, method="eigh")
    along = (noise - noise.mean(axis=0)) @ slopes[0].T
    variance = total.between * fewer + _variance_of_fit(slopes[0], covariance)
    right_of_question, agreed_of_question = (total.both.mean(axis=1) / N_DRAWS)[:, stand_in]
    luck = reduce(np.add, (np.diff(draw.both[0], axis=0)[0] ** 2 for draw in draws)) / (2.0 * N_DRAWS)
    return ShareDraws(
        right=right,
        agreed=agreed,
        new_variance=np.maximum(variance, right.variance),
        n_units=float(groups.max() + 1) / fewer,
        drawn=right.mean + (drawn - right.mean) * np.sqrt(fewer) + along,
        one_right=1.0 - total.none_right,
        all_right=total.all_right,
        right_of_question=right_of_question,
        agreed_of_question=agreed_of_question,
        luck_of_question=luck[stand_in],
        overturned=total.overturned[stand_in] / N_DRAWS,
    )


def _drawn(records: _Records, groups: IntArray, sizes: IntArray, rng: np.random.Generator) -> _Draw:
    """Draw the shares of the answers to each question, and votes by them."""
    reached, ends = np.cumsum(records.weights, axis=1), np.append(sizes, np.inf)
    cell = find_cells(reached / reached[:, -1:], records.kind, rng.random((records.kind.size, 1)))[:, 0]
    shares = _drawn_shares(records, cell, rng)
    both = np.stack(_majorities(shares, sizes, rng))
    # The slope of a posterior mean is its covariance with the terms: that of the draws has less of their luck.
    terms = records.grid.basis[cell] - records.expected[records.kind]
    return _Draw(
        both=both,
        between=_variance_of_groups(both[0], groups) / N_DRAWS,
        all_right=(shares[:, :1] ** ends).mean(axis=0) / N_DRAWS,
        none_right=((1.0 - shares[:, :1]) ** ends).mean(axis=0) / N_DRAWS,
        slopes=_slopes(both, terms),
        terms=terms,
        overturned=1.0 - _leads(records.votes[records.kind], shares[:, :-1].argmax(axis=1)),
    )


def _slopes(both: FloatArray, terms: FloatArray) -> FloatArray:
    """Return the products of outcomes and terms, the mean over questions, shape (2, n_sizes + 1, n_terms)."""
    return np.asarray(both.mean(axis=1).transpose(0, 2, 1) @ terms / len(terms))


def _share(outcomes: list[FloatArray], slopes: FloatArray, covariance: FloatArray, fewer: float) -> Share:
    """Return a share from each draw's outcomes, shape (2, n_questions, n_sizes + 1), for two sets of votes.

    Their covariance is the variance of a question's chance, without the luck of the votes.
    """
    sums, variances = reduce(np.add, outcomes), []
    for from_end in (0.0, 1.0):
        first, second = sums - from_end * sums[..., -1:]
        products = reduce(np.add, (np.prod(each - from_end * each[..., -1:], axis=0) for each in outcomes))
        of_question = (products - first * second / N_DRAWS) / (N_DRAWS - 1.0)
        of_fit = _variance_of_fit(slopes - from_end * slopes[-1], covariance)
        variances.append(np.maximum(of_question.mean(axis=0), 0.0) / len(first) * fewer + of_fit)
    return Share(sums.mean(axis=(0, 1)) / N_DRAWS, *variances)


def _variance_of_fit(slopes: FloatArray, covariance: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("st,tu,su->s", slopes, covariance, slopes))


def _variance_of_groups(right: FloatArray, groups: IntArray) -> FloatArray:
    """Return the variance of the share of right majorities over groups of questions, without the luck of the votes."""
    apart = right - right.mean(axis=1, keepdims=True)
    sums = np.zeros((2, int(groups.max()) + 1, right.shape[2]))
    np.add.at(sums.transpose(1, 0, 2), groups, apart.transpose(1, 0, 2))
    return np.asarray(np.maximum((sums[0] * sums[1]).sum(axis=0), 0.0) / right.shape[1] ** 2)


def _spread_over_kinds(counts: FloatArray) -> tuple[IntArray, IntArray]:
    """Return questions that stand for all, evenly spread over their votes, and which of them stands for each."""
    kind = np.unique(counts, axis=0, return_inverse=True)[1].reshape(-1)
    n_some = min(kind.size, MOST_QUESTIONS)
    order = np.argsort(kind, kind="stable")
    some = order[(np.arange(n_some) * 2 + 1) * kind.size // (2 * n_some)]
    stand_in = np.empty(kind.size, dtype=np.int64)
    stand_in[order] = np.arange(kind.size) * n_some // kind.size
    return some, stand_in


def _drawn_shares(records: _Records, cell: IntArray, rng: np.random.Generator) -> FloatArray:
    """Draw the shares of the answers to each question, shape (n_questions, n_columns).

    The columns are those of the votes, a rival that was not given, other answers that were not, and last the sum of
    those that come once.
    """
    kind, grid = records.kind, records.grid
    of_right, of_rival, of_rest = np.unravel_index(cell, grid.shape)
    votes, place = records.votes[kind], np.arange(kind.size)
    n_wrong = votes[:, 1:].sum(axis=1)
    chances = np.where(votes[:, 1:] > 0, records.rivals[records.pair[kind], of_rival[:, None], of_rest[:, None]], 0.0)
    # The last column is the rival that was not given.
    total = np.cumsum(np.column_stack([chances, np.ones(kind.size)]), axis=1)
    rival = (total <= rng.random((kind.size, 1)) * total[:, -1:]).sum(axis=1)
    rest = np.column_stack([votes[:, 1:], np.zeros(kind.size)])
    own = rest[place, rival]
    right = _drawn_in_cell(votes[:, 0], n_wrong, grid.right[of_right], rng)
    share = _drawn_in_cell(own, n_wrong - own, grid.rival[of_rival], rng)
    rest[place, rival] = 0.0
    split = _drawn_split(rest, grid.concentration[of_rest], rng) * ((1.0 - right) * (1.0 - share))[:, None]
    split[place, rival] = (1.0 - right) * share
    return np.column_stack([right, split])


def _drawn_in_cell(
    successes: FloatArray, failures: FloatArray, cells: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Draw shares by their Beta distribution given the votes, within a cell each."""
    a, b = successes + 1.0, failures + 1.0
    low, high = cells.T
    is_upper = low > a / (a + b)
    part = rng.random(a.size) * _mass(a, b, low, high)
    found = np.where(
        is_upper, betainccinv(a, b, betaincc(a, b, low) - part), betaincinv(a, b, betainc(a, b, low) + part)
    )
    return np.clip(found, low, high)


def _drawn_split(votes: FloatArray, concentration: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Draw how the rest is split given the votes, shape (n_questions, n_answers + N_PARTS + 1)."""
    given = rng.standard_gamma(votes)
    others = rng.standard_gamma(concentration)
    total = given.sum(axis=1) + others
    # Of a small concentration the draw may be 0, and without votes all is of others.
    others = np.where(total > 0.0, others, 1.0) / np.where(total > 0.0, total, 1.0)
    given /= np.where(total > 0.0, total, 1.0)[:, None]
    broken = rng.beta(1.0, concentration[:, None], (concentration.size, N_PARTS))
    left = np.cumprod(1.0 - broken, axis=1)
    parts = broken * np.column_stack([np.ones(concentration.size), left[:, :-1]])
    return np.column_stack([given, others[:, None] * parts, others * left[:, -1]])


def _leads(votes: FloatArray, answer: IntArray) -> FloatArray:
    """Return the chance that an answer wins by the votes at hand, of which equal ones win equally often."""
    columns = np.column_stack([votes, np.zeros(len(votes))])
    wins = columns == columns.max(axis=1, keepdims=True)
    own = np.minimum(answer, votes.shape[1])
    return np.asarray(wins[np.arange(own.size), own] / wins.sum(axis=1))


def _majorities(shares: FloatArray, sizes: IntArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """Return the chances that majorities are right, and those of infinitely many samples, for two sets of votes.

    Both have the shape (2, n_questions, n_sizes + 1); the last size is infinity.
    """
    wrong = shares[:, 1:-1]
    n_told = min(N_RIVALS, wrong.shape[1])
    told = -np.sort(-wrong, axis=1)[:, :n_told]
    columns = np.column_stack([shares[:, 0], told])
    columns = np.column_stack([columns, np.maximum(1.0 - columns.sum(axis=1), 0.0)])
    columns /= columns.sum(axis=1, keepdims=True)
    best, place = columns[:, :-1].argmax(axis=1), np.arange(len(shares))
    right = np.empty((2, len(shares), sizes.size + 1))
    agreed = np.ones_like(right)
    right[:, :, -1] = best == 0
    for half in range(2):
        votes = np.zeros(columns.shape, dtype=np.int64)
        for index, more in enumerate(np.diff(sizes, prepend=0)):
            # The votes of a size are among those of the next, so that sizes are compared without their luck.
            votes += rng.multinomial(more, columns)
            wins = _wins(votes)
            right[half, :, index], agreed[half, :, index] = wins[:, 0], wins[place, best]
    return right, agreed


def _wins(votes: IntArray) -> FloatArray:
    """Return the share of each answer in the win of a question; the last column counts answers given once each."""
    told, once = votes[:, :-1], votes[:, -1]
    most = np.maximum(told.max(axis=1), np.minimum(once, 1))
    wins = told == most[:, None]
    n_tied = wins.sum(axis=1) + np.where(most == 1, once, 0)
    return np.asarray(wins / np.maximum(n_tied, 1)[:, None])
