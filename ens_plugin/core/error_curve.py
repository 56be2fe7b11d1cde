"""An error by the number of members: averages over subsets, their limit, and curves that pass through them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq, minimize_scalar
from scipy.special import betaln, gammaln

from ens_plugin.core.margins import MarginModel, fit_margins, margin_errors
from ens_plugin.core.row_model import GRID, MAX_VOTES, RowModel, model_error, row_means
from ens_plugin.core.sample import Sample, SubsetRates
from ens_plugin.core.tally import strongest_rival
from ens_plugin.core.validation import (
    ROUNDING,
    BoolArray,
    FloatArray,
    IntArray,
    as_counts,
    as_probability,
    as_sizes,
    as_weight,
    pair_index,
    row_parts,
    sums_by_code,
    whole_counts,
)
from ens_plugin.core.votes import (
    FEW_ROWS,
    LOWER_HALF,
    MOST_CACHED,
    Mixture,
    fit_mixture,
    majority_curve,
    mixture_of_counts,
    soft_majority_error,
    subset_majority_error,
)
from ens_plugin.core.weights import RowWeight, as_row_weight, row_quantiles
from ens_plugin.errors import InputError

__all__ = [
    "ERROR_FACTOR",
    "PRIOR_VOTES",
    "Anchor",
    "Extrapolation",
    "LabelShares",
    "LabelVotes",
    "RivalShift",
    "agreement",
    "anchor_first_size",
    "anchor_models",
    "binomial_curve",
    "even_size_shift",
    "extrapolate",
    "fit_label_shares",
    "fit_rival_shift",
    "hypergeometric_curve",
    "hypergeometric_limit",
    "mean_error",
    "recommended_size",
    "smallest_odd_size",
    "subset_limit",
    "subset_sizes",
    "tie_probability",
    "tied_label_shift",
]

ROWS_PER_DROPPED_ROW = 10


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


def hypergeometric_limit(trials: ArrayLike, rows: FloatArray | None = None) -> int:
    """Return the largest odd size such that at least 90 % of the rows have as many members (0 if there is none).

    `rows` is the number of rows of each entry; None for one each.
    """
    n = np.asarray(trials, dtype=np.float64)
    found = whole_counts(n) if rows is None else None
    if found is not None:
        n, rows = found
    if rows is None:
        n = np.sort(n)
        place = n.size // ROWS_PER_DROPPED_ROW
    else:
        order = np.argsort(n, kind="stable")
        last = np.cumsum(rows[order])
        n, place = n[order], int(np.searchsorted(last, last[-1] // ROWS_PER_DROPPED_ROW, side="right"))
    largest = int(n[place])
    return largest if largest % 2 else max(largest - 1, 0)


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


STRAIGHT_RANGE = 2
CURVED_RANGE = 3
MAX_SUBSET_SIZES = 16
ERROR_FACTOR = 3.0


@dataclass(frozen=True, eq=False)
class Extrapolation:
    """Curve through subset averages of a metric, continued by a straight line fitted to the larger subsets.

    The line is one in the inverse, 1/(size + offset).

    Attributes
    ----------
    sizes : ndarray of int, shape (n_sizes,)
    averages : ndarray, shape (..., n_sizes)
        Mean of the metric over subsets of each size.
    straight, curved : ndarray, shape (..., 3)
        Coefficients of 1, the inverse and its square of a line and of a parabola.
    line_by_average : ndarray, shape (2, n_sizes)
        Derivatives of the first two coefficients of the line in each average.
    offset : float
    """

    sizes: IntArray
    averages: FloatArray
    straight: FloatArray
    curved: FloatArray
    line_by_average: FloatArray
    offset: float = 0.0

    @property
    def inverses(self) -> FloatArray:
        """Return the inverse of each size of the averages."""
        return np.asarray(1.0 / (self.sizes + self.offset))

    def inverse(self, sizes: ArrayLike) -> FloatArray:
        """Return the inverse of each size, infinity allowed."""
        return np.asarray(1.0 / (as_sizes(sizes) + self.offset))

    def at(self, sizes: ArrayLike) -> FloatArray:
        """Return the metric at each size, infinity allowed; at the sizes of the averages, the averages themselves."""
        return self._through_averages(self.straight, self.inverse(sizes))

    def model_error(self, sizes: ArrayLike) -> FloatArray:
        """Return a bound on the line's error: three times its distance from the parabola; 0 up to the largest subset.

        The metric is an average of smooth functions of means, so its expansion starts with 1/size, and the line
        omits the higher powers.  Where these matter, the parabola deviates from the line by the first of them.
        """
        apart = self.apart(sizes)
        return np.asarray(np.where(self.inverse(sizes) < self.inverses[-1], ERROR_FACTOR * np.abs(apart), 0.0))

    def apart(self, sizes: ArrayLike) -> FloatArray:
        """Return the parabola less the line at each size."""
        inverse = self.inverse(sizes)
        return self._through_averages(self.curved, inverse) - self._through_averages(self.straight, inverse)

    def order_variance(self, sizes: ArrayLike, covariance: FloatArray) -> FloatArray:
        """Return the metric's variance at each size, from the averages' covariance over orders of the members."""
        inverse = self.inverse(sizes)
        by_average = self._weights(inverse)
        return np.asarray(np.maximum(np.einsum("si,ij,sj->s", by_average, covariance, by_average), 0.0))

    def _weights(self, inverse: FloatArray) -> FloatArray:
        """Return the metric's derivatives at each size with respect to the averages, shape (n_sizes, n_averages)."""
        n_known = self.sizes.size
        line: FloatArray = self.line_by_average[0] + inverse[:, None] * self.line_by_average[1]
        residual = np.eye(n_known) - self.line_by_average[0] - self.line_by_average[1] * self.inverses[:, None]
        return np.asarray(line + (residual.T @ self._between(inverse)).T)

    def _through_averages(self, coefficients: FloatArray, inverse: FloatArray) -> FloatArray:
        residual = self.averages - _polynomial(coefficients, self.inverses)
        return np.asarray(_polynomial(coefficients, inverse) + residual @ self._between(inverse))

    def _between(self, inverse: FloatArray) -> FloatArray:
        """Return the share that each average has in a straight line between two of them, 0 towards infinity."""
        known = np.append(0.0, self.inverses[::-1])
        corners = np.eye(known.size)[:0:-1]
        return np.array([np.interp(inverse, known, corner) for corner in corners])


def _polynomial(coefficients: FloatArray, inverse: FloatArray) -> FloatArray:
    constant, slope, curvature = (coefficients[..., place : place + 1] for place in range(3))
    return np.asarray(constant + inverse * (slope + inverse * curvature))


def subset_sizes(limit: int) -> IntArray:
    """Return the sizes of subsets to average over: at most 16, log-spaced, up to `limit`."""
    return np.unique(np.geomspace(1, limit, MAX_SUBSET_SIZES).astype(np.int64))


def extrapolate(sizes: IntArray, averages: FloatArray, offset: float = 0.0) -> Extrapolation:
    """Fit a line in 1/(size + offset) to the averages from half the largest size on, and a parabola from a third on.

    Sizes are ascending; averages have shape (..., n_sizes).
    """
    line, parabola = (
        _projection(sizes, offset, span, degree) for span, degree in ((STRAIGHT_RANGE, 1), (CURVED_RANGE, 2))
    )
    return Extrapolation(sizes, averages, averages @ line.T, averages @ parabola.T, line[:2], offset)


def _projection(sizes: IntArray, offset: float, span: int, degree: int) -> FloatArray:
    """Return the matrix from averages to the coefficients of a least-squares polynomial, shape (3, n_sizes)."""
    degree = min(degree, sizes.size - 1)
    first = min(int(np.searchsorted(sizes, sizes[-1] / span)), sizes.size - degree - 1)
    columns = (1.0 / (sizes[first:, None] + offset)) ** np.arange(degree + 1)
    found = np.zeros((3, sizes.size))
    found[: degree + 1, first:] = np.linalg.pinv(columns)
    return found


def agreement(probability: ArrayLike, weight: ArrayLike | None, sizes: ArrayLike) -> FloatArray:
    r"""Return the mean probability that an ensemble of each size predicts the infinite ensemble's label.

    :math:`A(T) = \sum_i w_i I_{\max(p_i, 1-p_i)}(\lfloor T/2 \rfloor + 1, T - \lfloor T/2 \rfloor)` (2013 eq. 9 and
    17); even sizes as the odd size below.  Probabilities are those of one vote, of rows or of the points of a fitted
    distribution.
    """
    p = as_probability(probability, "probability")
    w = as_weight(weight, p.size)
    return 1.0 - majority_curve(np.minimum(p, 1.0 - p), w / w.sum(), sizes)


def recommended_size(
    probability: ArrayLike, weight: ArrayLike | None = None, confidence: float = 0.99, max_size: int = 20001
) -> int | None:
    """Return the smallest odd size whose agreement with the infinite ensemble is at least `confidence`.

    None if the size is above `max_size`.
    """
    p = as_probability(probability, "probability")
    w = as_weight(weight, p.size)
    folded, index = np.unique(np.minimum(p, 1.0 - p), return_inverse=True)
    shares = np.bincount(index, w) / w.sum()

    def mean_agreement(size: float) -> float:
        return float(1.0 - soft_majority_error(folded, [size])[0] @ shares)

    return smallest_odd_size(mean_agreement, confidence, max_size)


def smallest_odd_size(mean_agreement: Callable[[float], float], confidence: float, max_size: int) -> int | None:
    """Return the smallest odd size at which an increasing function reaches `confidence`; None if above `max_size`."""
    if not 0.5 < confidence < 1.0:
        raise InputError(f"confidence must lie strictly between 0.5 and 1, got {confidence}.")
    if max_size < 1:
        raise InputError(f"max_size must be at least 1, got {max_size}.")
    low, high = 0, (int(max_size) - 1) // 2
    if mean_agreement(2 * high + 1) < confidence:
        return None
    while low < high:
        middle = (low + high) // 2
        if mean_agreement(2 * middle + 1) >= confidence:
            high = middle
        else:
            low = middle + 1
    return 2 * low + 1


FEWER_POWERS = (4, 3)
EXACT_SD = 1e-7
LEAST_SD = 2e-4
BENDS_UP_TO, N_BEND_SIZES, FLAT = 2001, 30, 1e-3


@dataclass(frozen=True, eq=False)
class Anchor:
    r"""Difference between the error of random subsets of the members and that of a model, as a function of size.

    Attributes
    ----------
    sizes : ndarray of int, shape (n_sizes,)
        Subset sizes, ascending.
    differences : ndarray, shape (n_sizes,)
        Error of subsets minus error of the model, on the rows with enough members.
    sd : ndarray, shape (n_sizes,)
        Standard deviation of each difference over samples of rows and draws of subsets.
    coefficients : ndarray, shape (n_powers,)
        Coefficients of :math:`B^{-1}, B^{-2}, \dots` in the fitted difference.
    """

    sizes: IntArray
    differences: FloatArray
    sd: FloatArray
    coefficients: FloatArray

    def at(self, sizes: ArrayLike) -> FloatArray:
        """Return the fitted difference at each size, to be added to the model's error; 0 at infinity."""
        return np.asarray(_powers(as_sizes(sizes), self.coefficients.size) @ self.coefficients)

    @property
    def mismatch(self) -> float:
        """Return the absolute fitted difference between subsets and model at the largest subset size.

        It indicates the error of the model beyond that size.
        """
        return float(abs(self.at(self.sizes[-1:])[0]))


def mean_error(models: list[RowModel], sizes: ArrayLike) -> FloatArray:
    """Return the mean of the models' errors at each size, shape (n_sizes,)."""
    return np.asarray(np.mean([model_error(model, sizes) for model in models], axis=0))


def subset_limit(trials: FloatArray, rows: FloatArray | None = None) -> int:
    """Return the largest odd size such that at least half of the rows have as many members; 0 if there is none.

    `rows` is the number of rows of each entry; None for one each.
    """
    median = int(row_quantiles(trials, [0.5], rows)[0])
    return median if median % 2 else max(median - 1, 0)


def anchor_first_size(models: list[RowModel], first: float) -> Anchor:
    """Return the difference of the error of one member, which is known, and that of the mean of the models.

    It is divided by the size, as the first of the terms that are fitted to subsets.  `first` is over all rows and
    members.
    """
    differences = first - mean_error(models, [1])
    return Anchor(np.ones(1, dtype=np.int64), differences, np.zeros(1), differences)


def anchor_models(
    models: list[RowModel], rates: SubsetRates, rows: IntArray, weight: FloatArray, first: float, n_rows: float
) -> Anchor:
    """Return the difference of the errors of random subsets and of the mean of the models, on the sampled rows.

    Subsets of each size, up to that of most rows, are drawn independently, so that their covariance is diagonal.  A
    difference is noisy from its draws and from the rows left out; at size 1, where `first`, over all rows and members,
    is used in place of the sample's error, it is exact, and the fit interpolates it.  `rows` are numbered as in the
    models.
    """
    sizes = rates.sizes
    expected = np.mean([row_means(model, model.error_by_point(sizes), rows) for model in models], axis=0)
    reached = ~np.isnan(rates.wrong)
    shares = np.where(reached, weight, 0.0)
    shares /= shares.sum(axis=1, keepdims=True)
    residual = np.where(reached, rates.wrong - expected, 0.0)
    differences = np.sum(shares * residual, axis=1)
    of_rows = np.sum(shares**2 * (residual - differences[:, None]) ** 2, axis=1)
    of_draws = np.sum(shares**2 * np.where(reached, rates.noise, 0.0), axis=1)
    differences[0] = first - mean_error(models, sizes[:1])[0]
    left_out = np.clip(1.0 - np.count_nonzero(reached, axis=1) / n_rows, 0.0, 1.0)
    sd = np.sqrt(of_draws + left_out * of_rows + LEAST_SD**2)
    sd[0] = EXACT_SD
    coefficients = _smoothest(models, [_fit(sizes, differences, sd, count) for count in FEWER_POWERS])
    return Anchor(sizes, differences, np.sqrt(of_draws + of_rows), coefficients)


def _fit(sizes: IntArray, differences: FloatArray, sd: FloatArray, n_powers: int) -> FloatArray:
    columns = _powers(sizes.astype(np.float64), min(n_powers, sizes.size)) / sd[:, None]
    return np.asarray(np.linalg.lstsq(columns, differences / sd, rcond=None)[0])


def _smoothest(models: list[RowModel], fits: list[FloatArray]) -> FloatArray:
    """Return the fit whose curve changes direction least often in log B; of equals the first."""
    if all(fit.size == fits[0].size for fit in fits):
        return fits[0]
    sizes = np.unique(np.geomspace(1, BENDS_UP_TO, N_BEND_SIZES).astype(np.int64) // 2 * 2 + 1).astype(np.float64)
    error = mean_error(models, sizes)
    bends = []
    for fit in fits:
        slopes = np.diff(error + _powers(sizes, fit.size) @ fit) / np.diff(np.log(sizes))
        turns = np.diff(slopes)
        signs = np.sign(turns[np.abs(turns) > FLAT * np.abs(slopes).max()])
        bends.append(np.count_nonzero(np.diff(signs)))
    return fits[int(np.argmin(bends))]


def _powers(sizes: FloatArray, n_powers: int) -> FloatArray:
    return np.asarray(sizes[:, None] ** -np.arange(1.0, n_powers + 1.0))


RIVAL_PARTS: FloatArray = np.arange(0.0, 0.96, 0.025)
# More mass would only compensate for small shares of soft votes, which vary less than hard votes.
CONCENTRATIONS: FloatArray = np.exp(np.arange(0.0, 3.6, 0.5))
PRIOR_VOTES = 0.5
LEAST_VOTES = 1e-3
FEWEST_WRONG_VOTES = 2.0
NEAR_MATCH = 0.1


@dataclass(frozen=True, eq=False)
class LabelVotes:
    """Votes or probabilities of the members for some rows, summed by label, and their summed squares.

    Of votes, the squares are the same as the support.  At least two members count for each row.
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


@dataclass(frozen=True, eq=False)
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
        return np.asarray(np.maximum(spread * self.confusion[self.target], ROUNDING))

    @property
    def _bonus(self) -> float:
        """Return the mass on the main rival alone."""
        return self.concentration * self.rival_part


def fit_label_shares(votes: LabelVotes, weight: FloatArray) -> LabelShares:
    """Return the distribution, fitted to votes, of the shares of members that predict each label for a row.

    The wrong votes of a row follow a Dirichlet distribution, of which a part belongs to one main rival
    (``docs/methods/margins.md``).  Of the pairs of part and mass with which two members' wrong votes are for the
    same label as often as in the data, the one with the largest likelihood is taken (Minka 2000).
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

    `once` and `twice` are sums over labels of the shares in the wrong votes, and of their squares, in the mean over
    true labels.
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
    votes += PRIOR_VOTES * overall / max(float(overall.sum()), ROUNDING) + LEAST_VOTES
    np.fill_diagonal(votes, 0.0)
    return np.asarray(votes / votes.sum(axis=1, keepdims=True))


def _log_likelihood(rival_votes: FloatArray, confusion: FloatArray, part: float, mass: float) -> FloatArray:
    """Return the log-likelihood of each row's wrong votes, up to a constant, shape (n_rows,)."""
    base = np.maximum(mass * (1.0 - part) * confusion, ROUNDING)
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


# The simulation is a numerical integration: its seed is fixed, so that no random_state changes the estimate.
SEED_OF_RIVALS = 20_130_701
DRAWN_ROWS = 6_000
# With few rows, the sampling error of the shift is far larger than that of the simulation.
FEWEST_DRAWS, MOST_DRAWS = 2, 12
SIZES_PER_MEMBER = (1.0, 3.0, 9.0)


class RivalShift(NamedTuple):
    """The shift that corrects margins for noisily selected rivals, with its noise.

    `shift` and `shift_loss` are those of :class:`ens_plugin.core.margins.MarginModel`; `left_out`, shape
    (n_simulations, 2), are both without each of the independent simulations that they are from.
    """

    shift: float
    shift_loss: float
    left_out: FloatArray


def fit_rival_shift(votes: LabelVotes, weight: FloatArray) -> RivalShift:
    """Fit the shift that corrects margins for noisily selected rivals, and its loss in small ensembles."""
    rng = np.random.default_rng(SEED_OF_RIVALS)
    weight = weight / weight.mean()
    shares, votes_per_member = fit_label_shares(votes, weight), votes.per_member
    typical = float(np.average(votes.trials, weights=weight))
    sizes = np.array([*(np.ceil(ratio * typical) for ratio in SIZES_PER_MEMBER), np.inf])
    models, errors = [], []
    for _ in range(int(np.clip(-(-DRAWN_ROWS // votes.target.size), FEWEST_DRAWS, MOST_DRAWS))):
        drawn = shares.draw(rng)
        models.append(_simulated_model(drawn, votes, weight, votes_per_member, rng))
        errors.append([_true_error(drawn, votes.target, weight, size * votes_per_member, rng) for size in sizes])
    simulated = _Simulated(
        np.stack([model.distance for model in models]), np.stack([model.point_weights for model in models])
    )
    truth = np.array(errors)

    def fitted(kept: BoolArray) -> tuple[float, float]:
        used, mean = simulated.part(kept), truth[kept].mean(axis=0)
        shift = _shift(used, float(mean[-1]))
        return shift, _shift_loss(used, shift, sizes[:-1], mean[:-1])

    every = np.ones(len(models), dtype=np.bool_)
    left_out = [fitted(np.arange(every.size) != one) for one in range(every.size)]
    return RivalShift(*fitted(every), np.array(left_out))


class _Simulated(NamedTuple):
    """The grids of margin models fitted to simulated votes, and their distributions, shape (n_models, n_points)."""

    distance: FloatArray
    weights: FloatArray

    def part(self, kept: BoolArray) -> _Simulated:
        """Return some of the models."""
        return _Simulated(self.distance[kept], self.weights[kept])

    def mean_error(self, shift: float, shift_loss: float, sizes: FloatArray) -> FloatArray:
        """Return the mean of the models' errors at each size."""
        errors = margin_errors(self.distance, shift, shift_loss, sizes)
        return np.asarray(np.einsum("smp,mp->s", errors, self.weights) / len(self.distance))


def _simulated_model(
    drawn: FloatArray, votes: LabelVotes, weight: FloatArray, votes_per_member: float, rng: np.random.Generator
) -> MarginModel:
    """Fit a margin model to votes simulated from label shares."""
    n = np.maximum(np.round(votes.trials * votes_per_member), 2.0)
    found = rng.multinomial(n.astype(np.int64), drawn)
    rows = np.arange(n.size)
    true, rival = (
        found[rows, labels].astype(np.float64) for labels in (votes.target, strongest_rival(found, votes.target))
    )
    margin = (true - rival) / n
    variance = ((true + rival) / n - margin**2) * n / (n - 1.0) / votes_per_member
    return fit_margins(margin, np.sqrt(np.maximum(variance, 0.0)), votes.trials, weight)


def _true_error(
    drawn: FloatArray, target: IntArray, weight: FloatArray, votes: float, rng: np.random.Generator
) -> float:
    """Return the error of ensembles with a given number of votes, on rows with given label shares."""
    found = drawn if np.isinf(votes) else rng.multinomial(round(votes), drawn)
    return float(np.average(np.argmax(found, axis=1) != target, weights=weight))


def _shift(models: _Simulated, truth: float) -> float:
    """Return the shift at which the mean of the models has the true error at infinity; 0 if there is none."""

    def excess(shift: float) -> float:
        return float(models.mean_error(shift, 0.0, np.array([np.inf]))[0]) - truth

    reach = float(min(models.distance[:, -1].min(), -models.distance[:, 0].max()))
    unshifted = excess(0.0)
    if unshifted * excess(reach) < 0.0:
        return float(brentq(excess, 0.0, reach, xtol=1e-6))
    if unshifted * excess(-reach) < 0.0:
        return float(brentq(excess, -reach, 0.0, xtol=1e-6))
    return 0.0


def _shift_loss(models: _Simulated, shift: float, sizes: FloatArray, truth: FloatArray) -> float:
    """Return the loss of shift by 1/size with which the models fit the true errors at finite sizes best."""

    def miss(loss: float) -> float:
        return float(np.sum((models.mean_error(shift, loss, sizes) - truth) ** 2))

    reach = -float(models.distance[:, 0].max())
    return float(minimize_scalar(miss, bounds=(0.0, sizes[0] * reach), method="bounded", options={"xatol": 1e-3}).x)


# The simulation is a numerical integration: its seed is fixed, so that no random_state changes the estimate.
SEED_OF_TIES = 20_130_702
# Votes of more members tie so rarely that a label's error changes by less than its noise.
LARGEST_SIZE = 64


def tied_label_shift(votes: LabelVotes, weight: FloatArray, code: int, sizes: FloatArray, n_drawn: int) -> FloatArray:
    """Return the error of rows of one label if the first label wins ties, minus that if tied labels win alike, by size.

    The votes are hard ones for rows of the label `code`.  Each row's label shares are drawn from their distribution
    given its votes, and the votes of an ensemble from these, for `n_drawn` rows at each size and at least each row
    once.  Above size 64 the shift is taken as 0.
    """
    shift, small = np.zeros(sizes.size), np.flatnonzero(sizes <= LARGEST_SIZE)
    if small.size == 0:
        return shift
    shares, rng = fit_label_shares(votes, weight), np.random.default_rng(SEED_OF_TIES)
    n_draws = max(-(-n_drawn // votes.target.size), 1)
    for _ in range(n_draws):
        drawn = shares.draw(rng)
        for place in small:
            found = rng.multinomial(int(sizes[place]), drawn)
            wins = found == found.max(axis=1, keepdims=True)
            added = wins[:, :code].any(axis=1) - 1.0 + 1.0 / wins.sum(axis=1)
            shift[place] += float(np.average(added * wins[:, code], weights=weight))
    return shift / n_draws


def tie_probability(probability: ArrayLike, sizes: ArrayLike) -> FloatArray:
    r"""Return the probability that the votes of an even number of members tie, shape (n_sizes, n_points).

    :math:`\binom{B}{B/2} (p(1-p))^{B/2}`.
    """
    wanted = np.asarray(sizes, dtype=np.float64)
    if probability is GRID and 1 < wanted.size <= MOST_CACHED:
        return _grid_ties(tuple(wanted))
    half = wanted[:, None] / 2.0
    p = np.asarray(probability, dtype=np.float64)
    inside = (p > 0.0) & (p < 1.0)
    safe = np.where(inside, p * (1.0 - p), 0.25)
    log_choices = -betaln(half + 1.0, half + 1.0) - np.log(2.0 * half + 1.0)
    return np.asarray(np.where(inside, np.exp(log_choices + half * np.log(safe)), 0.0))


@lru_cache(maxsize=4)
def _grid_ties(sizes: tuple[float, ...]) -> FloatArray:
    """Return the probability of a tie on the points of the density's grid, shape (n_sizes, 400), read-only."""
    lower = tie_probability(LOWER_HALF, sizes)
    ties = np.hstack([lower, lower[:, ::-1]])
    ties.flags.writeable = False
    return ties


def even_size_shift(model: Mixture, sample: Sample, sizes: ArrayLike) -> FloatArray:
    r"""Return the error at even sizes if the first label wins ties, minus the error if a tie is half an error.

    :math:`(s_2 \bar t_2 - s_1 \bar t_1) / 2`, with s the shares of the two labels among the rows and :math:`\bar t` the
    mean probability of a tie among the rows of each, under a distribution of their own (``docs/methods/votes.md``); for
    fewer than 30 rows, of their posteriors under `model`. An odd size is replaced by the even one above it.
    """
    even = np.asarray(sizes, dtype=np.float64)
    even = even + even % 2.0
    block = sample.block
    trials, wrong = block.trials, np.where(block.target == 0, block.support[:, 1], block.support[:, 0])
    by_point = tie_probability(model.support, even)
    shift = np.zeros(even.size)
    for label, sign in ((0, -0.5), (1, 0.5)):
        rows = np.flatnonzero((block.target == label) & (trials > 0) & (sample.weight > 0))
        if rows.size == 0:
            continue
        weight = sample.weight[rows]
        share = weight.sum() / sample.weight[trials > 0].sum()
        if as_row_weight(weight, rows.size).n_effective >= FEW_ROWS:
            own = fit_mixture(wrong[rows], trials[rows], weight)
            # The points are the same unless no member is wrong about these rows, or all are.
            is_grid = own.support is model.support
            ties = (by_point if is_grid else tie_probability(own.support, even)) @ own.weights
        else:
            by_row = row_means(model, by_point, sample.rows[rows])
            ties = by_row @ weight / weight.sum()
        shift += sign * share * ties
    return shift
