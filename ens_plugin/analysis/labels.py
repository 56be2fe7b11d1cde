"""Estimates of a classifier: means over draws of what infinitely many members would predict for each row."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import PchipInterpolator
from scipy.special import ndtri

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.analysis.estimates import SLOW_ROWS, Estimates, ResolvedOptions, algorithmic_sd, are_votes
from ens_plugin.analysis.evidence import Evidence
from ens_plugin.analysis.sizes import agreement_size
from ens_plugin.core.alike_rows import merge_alike
from ens_plugin.core.comparison import row_losses
from ens_plugin.core.error_curve import Anchor, anchor_models, subset_limit, subset_sizes
from ens_plugin.core.intervals import DrawnCurve, wilson_interval
from ens_plugin.core.jackknife import left_out_sd
from ens_plugin.core.label_draws import Draws, LabelDraws, normal_draws
from ens_plugin.core.label_shares import DrawnShares, draw_shares, fit_label_shares, record_labels
from ens_plugin.core.margins import RivalMargins, draw_margins
from ens_plugin.core.sample import Sample, SubsetRates, rates_of_subsets, rates_of_votes
from ens_plugin.core.seed_variance import shared_luck_variance
from ens_plugin.core.tally import (
    LabelTally,
    RowBlock,
    count_members,
    mean_and_sd,
    member_labels,
    member_margins,
    strongest_rival,
    value_sums,
    wrong_support,
)
from ens_plugin.core.validation import (
    MAX_SIZE,
    NEGLIGIBLE,
    AnyIntArray,
    FloatArray,
    counted,
    previous_odd_size,
)
from ens_plugin.core.votes import warn_of_few_rows
from ens_plugin.core.weights import RowWeight, as_row_weight, effective_groups
from ens_plugin.findings import Finding, finding
from ens_plugin.report.result import FEWEST_ROWS, BiasVariance, ErrorCurve, LabelErrors, SizeRecommendation

# Rows whose shares are drawn; the error of all rows corrects that of these.
DRAWN_ROWS = 6_000
MAX_ANCHOR, SEED_OF_SUBSETS = 51, 20_130_704
# Between the logarithms of two sizes of a curve, which is interpolated.
LOG_STEP, LOG_STEP_OF_LAWS = 0.9, 0.1
N_DRAWS = 1_000
# Draws of a confusion matrix, of which a metric is computed at each of some sizes.
N_MATRICES = 100
# Relative errors of what the row model takes off the error observed, which is largest where many labels have few votes
# each, and of what an error is above its limit.
MODEL_ERROR, EXCESS_ERROR = 0.3, 0.2
# Votes of more members tie so rarely that a label's error changes by less than its noise.
LARGEST_TIED = 200
# Of each label, at least; of all together, SLOW_ROWS.
LEAST_OF_LABEL = 300
# Luck of the members that is a smaller part of that of the rows hardly widens an interval.
LEAST_LUCK = 0.25
# Logarithm of a disagreement: beyond, it is not known at all.
MOST_LOG_SD = 5.0
# Of the logarithms to base 2 of both disagreements: what a rougher density changes for ordinary votes, at least, and
# where one row disagrees.
ORDINARY_CHANGE, CHANGE_OF_ONE_ROW = 0.25, 1.5
# With fewer votes a row, either density is as likely as the other whatever the distribution.
LEAST_VOTES = 15.0
# Members of a row, of which none can be left out.
FEWEST_LEFT = 2


@dataclass(frozen=True, eq=False)
class LabelEstimates:
    """What is known of the labels of an ensemble: draws of the rows' label shares, and what was observed.

    Attributes
    ----------
    draws : LabelDraws
    sample : Sample
        Of the rows that are drawn.
    sizes : ndarray, shape (n_sizes,)
        Ascending, with the present size and infinity, at which quantities are computed; odd where votes tie.
    errors : ndarray, shape (n_sizes, n_rows, n_draws)
        Chance of a wrong label at each of these sizes.
    anchor : Anchor
        What subsets of the members add to the error of the draws.
    first_factor, factor : float
        Error of one member, and out-of-bag error, of all rows over those of the drawn rows.
    observed : float
        Out-of-bag error of the drawn rows.
    has_votes, has_scores : bool
        Whether members vote for one label each, or have raw scores.
    groups : ndarray of int, shape (n_rows,), or None
        Group of each drawn row, where rows belong together.
    alike : LabelDraws or None
        Of records of alike rows, of which the agreement is; None where the rows differ.
    """

    draws: LabelDraws
    sample: Sample
    sizes: FloatArray
    errors: Draws
    anchor: Anchor
    first_factor: float
    factor: float
    observed: float
    has_votes: bool
    has_scores: bool
    groups: NDArray[np.integer] | None = None
    alike: LabelDraws | None = None

    @property
    def of_agreement(self) -> LabelDraws:
        """Return the draws that the agreement is a mean over."""
        return self.draws if self.alike is None else self.alike

    @property
    def ties_to(self) -> float:
        """Return the largest even size up to which an ensemble has exactly the error of one with a member less."""
        # It is infinite for votes on two labels, 2 for votes on more labels, and 0 for probabilities and scores.
        return largest_tied(self.draws.n_labels, has_votes=self.has_votes)

    @cached_property
    def error(self) -> FloatArray:
        """Return the error of all rows at each of the sizes, shape (n_sizes,)."""
        # A factor, unlike a shift, leaves an error that is hardly above 0 there.
        factor = self.factor + (self.first_factor - self.factor) / self.sizes
        return np.asarray(np.clip((self.draws.mean(self.errors) + self.anchor.at(self.sizes)) * factor, 0.0, 1.0))

    @property
    def missed(self) -> float:
        """Return by how much the model misses the error of the largest subsets, and may miss that of larger ones."""
        return self.anchor.mismatch if self.draws.missed is None else self.draws.missed

    @cached_property
    def sd(self) -> FloatArray:
        """Return the standard deviation of the error at each of the sizes, over samples of the rows."""
        correction = MODEL_ERROR * float((self.observed - self.draws.mean(self.errors[-1:]))[0])
        of_model = math.hypot(correction, self.missed, self.draws.limit_sd) * self.share_of_model
        of_rows = np.hypot(self.draws.sd(self.errors), of_model)
        return np.asarray(np.hypot(of_rows, self._member_sd) if self.has_scores else of_rows)

    @cached_property
    def _member_sd(self) -> FloatArray:
        """Return the error's standard deviation over members at each of the sizes, for raw scores of any form."""
        part = self.sample.some_rows(SLOW_ROWS)
        margins = member_margins(part.block, strongest_rival(part.block.support, part.block.target))
        return left_out_sd(margins, part.block.counted, part.weight, self.sizes)

    @property
    def share_of_model(self) -> FloatArray:
        """Return which part of the curve rests on the row model: 0 up to the largest subsets, 1 at infinity."""
        return np.asarray(np.clip(1.0 - float(self.anchor.sizes[-1]) / self.sizes, 0.0, 1.0))

    def between(self, values: FloatArray, wanted: ArrayLike) -> FloatArray:
        """Return values at any size, interpolated between those at :attr:`sizes`."""
        return between(self.sizes, values, wanted)

    def error_at(self, wanted: FloatArray) -> FloatArray:
        """Return the error at any size; a tie is half an error."""
        return self.between(self.error, previous_odd_size(wanted, self.ties_to))

    def agreement(self, n_members: int) -> float:
        """Return the share of labels of so many members that are the infinite ensemble's."""
        size = previous_odd_size(float(n_members), self.ties_to)
        return 1.0 - float(self.of_agreement.mean(self.of_agreement.changes(size))[0])

    def error_law(self, random_state: int) -> DrawnCurve:
        """Return by how much the error exceeds its limit, by size, with draws of it."""
        rng = np.random.default_rng([random_state, 1])
        noise = normal_draws(rng, self.draws.covariance(self.errors), N_DRAWS)
        of_excess, of_limit = rng.standard_normal((2, N_DRAWS, 1))
        noise += EXCESS_ERROR * of_excess * (self.error - self.error[-1])
        noise += self.draws.limit_sd * of_limit * self.share_of_model
        # The law itself is interpolated in straight lines.
        sizes = _close_sizes(self.sizes)
        curves = self.between(np.vstack([self.error, self.error + noise]), sizes)
        excess = np.maximum(curves - curves[:, -1:], 0.0)
        return DrawnCurve(sizes, excess[0], excess[1:], self.ties_to)

    def of_label(self, code: int, wanted: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the error of the rows of one label at any size, and its standard deviation over samples of rows."""
        rows = np.flatnonzero(self.draws.target == code)
        part = self.draws.take(rows)
        values = part.errors(previous_odd_size(wanted, self.ties_to))
        error = part.mean(values)
        if self.has_votes:
            # Libraries give a tie to the first label. Of the error of all rows, that changes next to nothing.
            assert isinstance(part.outputs, DrawnShares)
            for place in np.flatnonzero(wanted <= LARGEST_TIED):
                error[place] += part.share @ part.outputs.tie_shift(int(wanted[place]), part.rivals, part.target)
        return error, part.sd(values)

    def confusions(self, place: int, weights: FloatArray) -> FloatArray:
        """Return the confusion matrix at one of the sizes under some weights of the drawn rows, (n_weights, k, k)."""
        # The wrong labels are multiplied by one factor, so that their share is the estimated error.
        matrices = self.draws.confusion(self.sizes[place], weights)
        wrong = float(self.draws.mean(self.errors[[place]])[0])
        factor = self.error[place] / wrong if wrong > 0.0 else 1.0
        return scaled_errors(matrices, np.full(matrices.shape[:2], factor))

    def metric_draws(self, place: int, rng: np.random.Generator) -> FloatArray:
        """Return the confusion matrix at one of the sizes, and draws of it over samples of rows, (1 + n_draws, k, k).

        The first matrix is the estimate.
        """
        n_rows = self.draws.share.size
        codes = np.arange(n_rows) if self.groups is None else np.unique(self.groups, return_inverse=True)[1]
        luck = rng.standard_exponential((N_MATRICES, codes.max() + 1))[:, codes] - 1.0
        weights = np.maximum(1.0 + luck * math.sqrt(self.draws.row_factor), 0.0) * self.draws.share
        weights = np.vstack([self.draws.share, weights / weights.sum(axis=1, keepdims=True)])
        matrices = self.confusions(place, weights)
        variance = self.draws.label_variances(self.errors[[place]])
        wrong = matrices[0].sum(axis=1) - np.diag(matrices[0])
        relative = np.divide(np.sqrt(variance), wrong, out=np.zeros_like(wrong), where=wrong > 0.0)
        factors = np.ones(matrices.shape[:2])
        factors[1:] += relative * rng.standard_normal((N_MATRICES, variance.size))
        return scaled_errors(matrices, factors)


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelledEstimates(Estimates):
    """The estimates of a classifier, with what is known of its labels."""

    labels: LabelEstimates


def scaled_errors(matrices: FloatArray, factors: FloatArray) -> FloatArray:
    """Return confusion matrices whose wrong labels on the rows of each label are multiplied by factors, (n, k)."""
    # As many rows more or fewer are right, and no more than all of them are wrong.
    total = matrices.sum(axis=2)
    right = np.einsum("nkk->nk", matrices)
    wrong = total - right
    most = np.where(wrong > 0.0, total / np.where(wrong > 0.0, wrong, 1.0), 1.0)
    scaled = matrices * np.clip(factors, 0.0, most)[:, :, None]
    diagonal = np.arange(matrices.shape[1])
    scaled[:, diagonal, diagonal] = 0.0
    scaled[:, diagonal, diagonal] = total - scaled.sum(axis=2)
    return scaled


def agreement_law(draws: LabelDraws, sizes: FloatArray, random_state: int, ties_to: float = 0.0) -> DrawnCurve:
    """Return the share of labels that are not the infinite ensemble's at some sizes, with draws of it."""
    return _law_of(draws, draws.changes(sizes), sizes, random_state, ties_to)


def overlap_law(draws: LabelDraws, sizes: FloatArray, random_state: int, ties_to: float = 0.0) -> DrawnCurve:
    """Return the share of labels that two ensembles of a size do not have in common, with draws of it."""
    return _law_of(draws, draws.differences(sizes), sizes, random_state, ties_to)


def _law_of(draws: LabelDraws, changes: Draws, sizes: FloatArray, random_state: int, ties_to: float) -> DrawnCurve:
    # `ties_to` is the largest even size up to which votes change as many labels as those of a member less.
    loss = draws.mean(changes)
    relative = draws.covariance(changes) / np.maximum(np.outer(loss, loss), NEGLIGIBLE**2)
    rng = np.random.default_rng([random_state, 2])
    noise, by_luck = normal_draws(rng, relative, N_DRAWS), draws.means_by_luck(changes, rng, N_DRAWS)
    wanted = _close_sizes(sizes)
    loss, noise, by_luck = (between(sizes, values, wanted) for values in (loss, noise, by_luck))
    return DrawnCurve(wanted, loss, by_luck * np.exp(np.clip(noise, -MOST_LOG_SD, MOST_LOG_SD)), ties_to)


def draw_alike_rows(
    sample: Sample, cell: AnyIntArray | None, n_effective: float, *, has_scores: bool
) -> LabelDraws | None:
    """Return draws of records of alike rows, on which members' luck is the same; None where most rows differ."""
    # Each record is one observation of the densities, and stands for as many independent rows as it has of the weight.
    found = merge_alike(sample, cell)
    if found is None:
        return None
    records = labelled_by_members(found.sample)
    share = records.weight / records.weight.sum()
    rates = subset_rates(records.block)
    draws = draw_labels(records, np.ones(share.size), rates, has_scores=has_scores, are_records=True)
    return draws.standing_for(share * min(n_effective, found.n_rows))


def labelled_by_members(sample: Sample) -> Sample:
    """Return rows with the label that a member of each, drawn at random, predicts; it no longer counts."""
    # The row model is about rows with labels and other members' outputs. Given a row, a member's label is drawn as
    # independently of the others' as a true label is. Two members are too few to leave one out.
    block = sample.block
    if block.trials.min() <= FEWEST_LEFT:
        return sample
    # The rows are in an order of their content, whatever that of X.
    keys = np.random.default_rng(0).random(block.counted.shape)
    member, rows = np.argmax(keys * block.counted, axis=0), np.arange(sample.rows.size)
    counted = block.counted.copy()
    counted[member, rows] = False
    labels = np.asarray(member_labels(block)[member, rows], dtype=np.int64)
    return Sample(block.like(block.outputs, counted, labels), sample.rows, sample.weight)


def gap_doubts(draws: LabelDraws, block: RowBlock, n_members: int, settings: ResolvedOptions) -> tuple[Finding, ...]:
    """Return a doubt where too few votes leave open whether rows have close votes at all."""
    # The density of the votes of ordinary ensembles is as smooth as assumed, and one that may be eight times as rough
    # hardly changes the agreement. Where it has fewer rows with close votes, the smooth one may fill a gap. Records of
    # alike rows have votes enough to show gaps.
    are_records, votes = bool(np.any(draws.unseen < 1.0)), float(block.trials.mean())
    if settings.respects != ("agreement",) or votes < LEAST_VOTES or not are_votes(block) or are_records:
        return ()
    changes = draws.changes([n_members])
    smooth, rough = float(draws.mean(changes)[0]), float(draws.means_if_rougher(changes)[0])
    n_apart = max(smooth * float(draws.weight.sum()), NEGLIGIBLE)
    usual = max(ORDINARY_CHANGE, CHANGE_OF_ONE_ROW / math.sqrt(n_apart))
    if rough > smooth * 2.0**-usual or smooth <= 0.0:
        return ()
    sentence = (
        "The agreement and the size by it assume that the members' votes are distributed smoothly over the rows, which "
        f"{votes:.3g} votes a row do not confirm: fewer rows may have about as many votes for their label as for the "
        "others. The agreement may then be higher, and the size much too large. Train four times as many members, or "
        "use criterion='probability'."
    )
    return (finding("unknown-roughness", sentence, votes_per_row=votes),)


def _close_sizes(sizes: FloatArray) -> FloatArray:
    """Return odd sizes so close to each other that straight lines in 1/size between them are good enough."""
    n_sizes = 1 + math.ceil(math.log(sizes[-2]) / LOG_STEP_OF_LAWS)
    close = np.geomspace(1, sizes[-2], n_sizes).astype(np.int64) // 2 * 2 + 1
    return np.union1d(close[close <= sizes[-2]], sizes)


def read_labels(rows: Evidence, n_members: int, settings: ResolvedOptions, *, has_scores: bool) -> LabelEstimates:
    """Return what the draws tell of the labels of some rows."""
    tally = rows.tally
    assert isinstance(tally, LabelTally)
    weight = as_row_weight(rows.weight, tally.n_rows)
    sample = drawn_rows(rows.sample)
    relative = sample.weight / sample.weight.sum()
    rates = subset_rates(sample.block)
    draws = draw_labels(sample, relative * weight.n_effective, rates, has_scores=has_scores)
    has_votes = are_votes(sample.block)
    ties_to = largest_tied(draws.n_labels, has_votes=has_votes)
    sizes = curve_sizes(settings.max_size, float(previous_odd_size(n_members, ties_to)))
    errors = draws.errors(sizes)
    losses, dissent = row_losses(tally), tally.wrong_members / tally.trials
    first, observed = (float(relative @ values[sample.rows]) for values in (dissent, losses))
    first_of_all, of_all = (float(values @ weight.total / weight.total.sum()) for values in (dissent, losses))
    anchor = _anchor(draws, partial(between, sizes, draws.mean(errors)), rates, sample, first, weight)
    factors = [all_rows / own if own > 0.0 else 1.0 for all_rows, own in ((first_of_all, first), (of_all, observed))]
    groups = None if weight.groups is None else weight.groups[sample.rows]
    alike = draw_alike_rows(rows.sample, rows.sampled_cell, weight.n_effective, has_scores=has_scores)
    return LabelEstimates(
        draws, sample, sizes, errors, anchor, factors[0], factors[1], observed, has_votes, has_scores, groups, alike
    )


def between(sizes: FloatArray, values: FloatArray, wanted: ArrayLike) -> FloatArray:
    """Return values of curves at any size, interpolated in the root of 1/size between those at some sizes."""
    # The sizes are along the last axis of the values.
    places = np.asarray(wanted, dtype=np.float64) ** -0.5
    # Slopes of nearly flat curves have inverses that overflow to infinity, which stands for no slope.
    with np.errstate(over="ignore", divide="ignore"):
        return np.asarray(PchipInterpolator(sizes[::-1] ** -0.5, values[..., ::-1], axis=-1)(places))


def largest_tied(n_labels: int, *, has_votes: bool) -> float:
    """Return the largest even size up to which an ensemble has exactly the error of one with a member less."""
    if not has_votes:
        return 0.0
    return np.inf if n_labels == 2 else 2.0


def drawn_rows(sample: Sample) -> Sample:
    """Return the rows that are drawn: all, or so many of each label at most, which then stand for the others."""
    target = sample.block.target
    counts = np.bincount(target)
    if target.size <= DRAWN_ROWS:
        return sample
    # The largest number of rows of a label with which there are not too many in all.
    ascending = np.sort(counts)
    left = DRAWN_ROWS - np.concatenate([[0], np.cumsum(ascending)[:-1]])
    most = int(np.max(left // (counts.size - np.arange(counts.size)), initial=1, where=left > 0))
    order = np.random.default_rng(0).permutation(target.size)
    chosen = np.sort(np.concatenate([order[target[order] == code][:most] for code in range(counts.size)]))
    part = sample.select(chosen)
    stands_for = counts / np.maximum(np.minimum(counts, most), 1)
    return replace(part, weight=part.weight * stands_for[part.block.target])


def curve_sizes(max_size: int, present: float) -> FloatArray:
    """Return odd sizes up to the largest, evenly spaced in the logarithm, the present size, and infinity."""
    largest = max(max_size, present, 3)
    n_sizes = 1 + math.ceil(math.log(largest) / LOG_STEP)
    sizes = np.minimum(np.geomspace(1, largest, n_sizes).astype(np.int64) // 2 * 2 + 1, MAX_SIZE - 1)
    return np.append(np.unique(np.append(sizes, present)).astype(np.float64), np.inf)


def draw_labels(
    sample: Sample, weight: FloatArray, rates: SubsetRates, *, has_scores: bool, are_records: bool = False
) -> LabelDraws:
    """Return draws of what infinitely many members would predict for some rows, from the row model of their outputs."""
    # Of raw scores, they are of the margins over the strongest rival by all members and by half of them. So they are of
    # probabilities of records of alike rows, each with a spread of its own.
    block = sample.block
    if not has_scores and not (are_records and not are_votes(block)):
        return draw_shares(fit_label_shares(record_labels(sample, weight)), rates)
    moments = _own_moments if are_records else _moments
    target = np.asarray(block.target, dtype=np.int64)
    if block.n_labels == 2:
        strongest = [moments(block, member_margins(block, 1 - target), 1 - target)]
        return draw_margins(strongest, None, block.trials, target, weight, block.n_labels)
    rival = strongest_rival(block.support, target)
    halves = np.empty(block.counted.shape)
    for own, other in ((slice(0, None, 2), slice(1, None, 2)), (slice(1, None, 2), slice(0, None, 2))):
        parts = [RowBlock(block.outputs[half], block.counted[half], target, block.n_labels) for half in (own, other)]
        halves[own] = member_margins(parts[0], strongest_rival(parts[1].support, target))
    strongest = [moments(block, margins, rival) for margins in (member_margins(block, rival), halves)]
    support = block.support.copy()
    support[np.arange(rival.size), rival] = -np.inf
    second = strongest_rival(support, target)
    others = moments(block, member_margins(block, second), second)
    return draw_margins(strongest, others, block.trials, target, weight, block.n_labels)


def _moments(block: RowBlock, margins: FloatArray, rival: NDArray[np.int64]) -> RivalMargins:
    trials, total, squares = value_sums(RowBlock(margins, block.counted, block.target, 0))
    return RivalMargins(*mean_and_sd(total, squares, trials), rival)


def _own_moments(block: RowBlock, margins: FloatArray, rival: NDArray[np.int64]) -> RivalMargins:
    return _moments(block, margins, rival).in_own_spreads()


def _anchor(
    draws: LabelDraws,
    curve: Callable[[FloatArray], FloatArray],
    rates: SubsetRates,
    sample: Sample,
    member_error: float,
    weight: RowWeight,
) -> Anchor:
    """Return what random subsets of the members add to the error of the draws, whose mean is a curve."""
    expected = draws.errors(rates.sizes).mean(axis=2)
    return anchor_models(expected, curve, rates, sample.weight, member_error, weight.n_rows)


def subset_rates(block: RowBlock) -> SubsetRates:
    """Return how often random subsets of each row's members, of odd sizes, are wrong."""
    sizes = subset_sizes(max(min(subset_limit(block.trials), MAX_ANCHOR), 1))
    sizes = np.unique(sizes - (sizes % 2 == 0))
    if block.n_labels == 2 and are_votes(block):
        right = block.support[np.arange(block.target.size), block.target]
        return rates_of_votes(block.trials - right, block.trials, sizes)
    # As of the draws, the seed is fixed, so that no random_state changes an estimate.
    return rates_of_subsets(block, sizes, np.random.default_rng(SEED_OF_SUBSETS))


def estimate_labels(
    rows: Evidence, n_members: int, settings: ResolvedOptions, *, has_scores: bool
) -> LabelledEstimates:
    """Return the error curve, recommended size, bias, variance and uncertainty of a classifier."""
    tally = rows.tally
    assert isinstance(tally, LabelTally)
    weight = as_row_weight(rows.weight, tally.n_rows)
    warn_of_few_rows(weight.n_effective)
    found = read_labels(rows, n_members, settings, has_scores=has_scores)
    sample, draws = found.sample, found.draws
    outputs, sign = _deciding_outputs(sample.block)
    slopes, chance = draws.slopes(n_members), draws.errors([n_members])[0]
    own_variance = (chance * (1.0 - chance)).mean(axis=1)
    seed_sd = partial(algorithmic_sd, outputs, sample, slopes * sign, own_variance, weight, n_members, found.groups)
    now = found.error_at(np.array([float(n_members)]))[0]
    limit = float(found.error[-1])
    luck = shared_luck_variance(outputs, sample.block.counted, slopes * sign, weight.n_rows)
    # Of rows that all members predict, nothing is extrapolated to more members.
    extrapolated = 0.0 if sample.block.counted.all() else float(draws.density_variance(chance[None])[0])
    curve = _curve(found, settings, weight)
    # As of an interval at 95 %, which has a width where the error is 0.
    low, high = (float(ends[0]) for ends in wilson_interval(found.error[-1:], found.sd[-1:], weight.n_effective, 0.95))
    agreement = found.agreement(n_members)
    return LabelledEstimates(
        error_curve=curve,
        sizes={"agreement": cache(partial(_size_by_agreement, found, agreement, n_members, settings))},
        agreement=agreement,
        bias_variance=BiasVariance(
            member_error=float(np.average(tally.wrong_members / tally.trials, weights=weight.total)),
            member_variance=_member_variance(found),
            ensemble_error=float(now),
            asymptotic_error=limit,
            bias=limit,
            loss="0-1 error",
        ),
        algorithmic_sd=cache(seed_sd),
        findings=gap_doubts(found.of_agreement, sample.block, n_members, settings),
        error_draws=found.error_law(settings.random_state),
        error_sd=(high - low) / (2.0 * float(ndtri(0.975))),
        seed_variance=luck + extrapolated,
        labels=found,
    )


def _size_by_agreement(
    found: LabelEstimates, agreement: float, n_members: int, settings: ResolvedOptions
) -> SizeRecommendation:
    law = agreement_law(found.of_agreement, found.sizes, settings.random_state, found.ties_to)
    advice = agreement_size(law, n_members, settings, agreement)
    if found.alike is None:
        return advice
    note = f"The size rests on the members' outputs for {counted(found.alike.weight.size, 'kind')} of rows."
    return replace(advice, reason=f"{advice.reason} {note}")


def _deciding_outputs(block: RowBlock) -> tuple[NDArray[Any], FloatArray]:
    """Return outputs that are the members' margins over the strongest rival once multiplied by a sign of each row."""
    if block.n_labels == 2:
        # Support for the wrong label is half as far from its mean, on the other side, and votes take a bit each.
        return wrong_support(block), np.full(block.target.size, -2.0)
    return member_margins(block, strongest_rival(block.support, block.target)), np.ones(block.target.size)


def _curve(found: LabelEstimates, settings: ResolvedOptions, weight: RowWeight) -> ErrorCurve:
    lower, upper = wilson_interval(found.error, found.sd, weight.n_effective, settings.interval_level)
    untied = previous_odd_size(settings.sizes, found.ties_to)
    error, low, high = (np.clip(found.between(values, untied), 0.0, 1.0) for values in (found.error, lower, upper))
    return ErrorCurve(
        sizes=settings.sizes,
        error=error,
        lower=low,
        upper=high,
        asymptote=float(found.error[-1]),
        asymptote_interval=(float(lower[-1]), float(upper[-1])),
        asymptote_raw=float(found.error[-1]),
        estimator="deconvolved",
        metric="0-1 error",
        interval_level=settings.interval_level,
        check=found.missed,
        ties_to=found.ties_to,
    )


def _member_variance(found: LabelEstimates) -> float:
    """Return the chance that a member's label is not the infinite ensemble's."""
    block, draws = found.sample.block, found.draws
    if isinstance(draws.outputs, DrawnShares) and found.has_votes:
        # Of votes, the share of a label is the chance of a member's.
        return float(draws.share @ (1.0 - draws.outputs.shares.max(axis=2)).mean(axis=1))
    leaders, labels, same = draws.leaders(), member_labels(block), np.zeros(block.target.size)
    for code in range(block.n_labels):
        held = np.flatnonzero(leaders[:, code])
        of_label = count_members((labels[:, held] == code) & block.counted[:, held])
        same[held] += leaders[held, code] * of_label / block.trials[held]
    return float(draws.share @ (1.0 - same))


def label_errors(
    estimates: Estimates,
    recommended: int | None,
    adapter: EnsembleAdapter,
    sample: Sample,
    groups: NDArray[np.integer] | None,
) -> tuple[LabelErrors, ...]:
    """Return the error of each label at the current and recommended size and at infinity, and the confusion matrix."""
    # All errors are multiplied so that their mean is the error of the report, which is corrected by subsets of the
    # members.
    if adapter.classes is None or not isinstance(estimates, LabelledEstimates):
        return ()
    found = estimates.labels
    block = sample.block
    predicted = np.argmax(block.support, axis=1)
    # The outputs of one member have no variance, which the distribution over rows is fitted with.
    is_used = (block.trials >= 2) & (sample.weight > 0)
    rows_of = [np.flatnonzero(is_used & (block.target == code)) for code in range(block.n_labels)]
    sizes = np.array([adapter.n_members, recommended or np.nan, np.inf])
    error, n_worth = _errors(found, sample, rows_of, predicted, sizes)
    share = np.bincount(block.target, sample.weight, minlength=block.n_labels).astype(np.float64)
    level = np.array([estimates.bias_variance.ensemble_error, np.nan, estimates.bias_variance.asymptotic_error])
    error = np.clip(error * _factors(error, share, level, sizes)[:, None], 0.0, 1.0)
    # The members that happened to be trained move a label's error by at least as much as the error of all rows.
    of_rows = np.sqrt(error[0] * (1.0 - error[0]) / n_worth)
    of_members = np.maximum(_sd_over_members(sample, rows_of, groups, adapter, of_rows), estimates.algorithmic_sd())
    sd = np.hypot(of_rows, of_members)
    lower, upper = wilson_interval(error[0], sd, n_worth, estimates.error_curve.interval_level)
    return tuple(
        LabelErrors(
            label=str(label),
            error=float(error[0, code]),
            interval=(float(lower[code]), float(upper[code])),
            recommended_error=float(error[1, code]),
            asymptote=float(error[2, code]),
            predicted=tuple(np.bincount(predicted[rows_of[code]], minlength=block.n_labels).tolist()),
        )
        for code, label in enumerate(adapter.classes.tolist())
    )


def _errors(
    found: LabelEstimates,
    sample: Sample,
    rows_of: list[NDArray[np.intp]],
    predicted: NDArray[np.intp],
    sizes: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the errors, shape (n_sizes, n_labels), and the independent rows that each label's first error is worth."""
    # With few rows, the error at the first size is the share of rows whose members together predict a wrong label.
    error = np.full((sizes.size, len(rows_of)), np.nan)
    n_worth, known, draws = np.full(len(rows_of), np.nan), ~np.isnan(sizes), found.draws
    for code, rows in enumerate(rows_of):
        if not rows.size:
            continue
        own = draws.weight[draws.target == code]
        n_rows = float(own.sum()) if own.size else float(rows.size)
        if n_rows < FEWEST_ROWS:
            error[0, code], n_worth[code] = np.average(predicted[rows] != code, weights=sample.weight[rows]), n_rows
        else:
            error[known, code], sd = found.of_label(code, sizes[known])
            n_worth[code] = _rows_worth(float(error[0, code]), float(sd[0]), n_rows)
    return error, n_worth


def _sd_over_members(
    sample: Sample,
    rows_of: list[NDArray[np.intp]],
    groups: NDArray[np.integer] | None,
    adapter: EnsembleAdapter,
    of_rows: FloatArray,
) -> FloatArray:
    """Return the standard deviation of each label's error over draws of the members, for raw scores."""
    # Members that lean to one label raise the errors of the others, so that each varies far more than their mean. 0
    # where it is small beside `of_rows`, that over samples of rows.
    found = np.zeros(len(rows_of))
    if adapter.output_kind != "scores":
        return found
    n_used = max(SLOW_ROWS // len(rows_of), LEAST_OF_LABEL)
    size, rival = np.array([float(adapter.n_members)]), strongest_rival(sample.block.support, sample.block.target)

    def margins_of(rows: NDArray[np.intp]) -> tuple[FloatArray, NDArray[np.bool_]]:
        block = sample.select(rows).block
        return member_margins(block, rival[rows]), block.counted

    for code, rows in enumerate(rows_of):
        if rows.size < FEWEST_ROWS:
            continue
        shuffled = np.random.default_rng(0).permutation(rows)
        if _linear_luck(*margins_of(np.sort(shuffled[:LEAST_OF_LABEL]))) < LEAST_LUCK * of_rows[code]:
            continue
        some = np.sort(shuffled[:n_used])
        weight = replace(_row_weight(sample, groups, some), rows=np.full(some.size, rows.size / some.size))
        found[code] = left_out_sd(*margins_of(some), weight, size)[0]
    return found


def _linear_luck(margins: FloatArray, counted: NDArray[np.bool_]) -> float:
    """Return to the first order the luck of the members that all rows share, as a standard deviation of their error."""
    # The mean margins are normal.
    known, n = margins * counted, counted.sum(axis=0)
    mean = known.sum(axis=0) / n
    variance = np.einsum("mr,mr->r", known, known) / n - np.square(mean)
    spread = np.sqrt(np.maximum(variance, NEGLIGIBLE) / n)
    slopes = np.exp(-0.5 * np.square(mean / spread)) / (np.sqrt(2.0 * np.pi) * spread)
    shared = shared_luck_variance(margins, counted, slopes, float(n.size))
    return float(np.sqrt(shared * n.mean() / counted.shape[0]))


def _rows_worth(error: float, sd: float, n_rows: float) -> float:
    """Return the number of independent rows whose share of errors would have this deviation; `n_rows` for 0 and 1."""
    spread = error * (1.0 - error)
    return spread / sd**2 if spread > NEGLIGIBLE and sd > 0 else n_rows


def _factors(error: FloatArray, share: FloatArray, level: FloatArray, sizes: FloatArray) -> FloatArray:
    """Return the factor of the errors at each size, by which their mean over labels becomes the level."""
    # A level that is not known is interpolated in 1/size above the first size; below it, the first factor holds. The
    # factors themselves may differ by any power of ten where hardly a row is wrong, and are not interpolated.
    present = (share > 0) & ~np.isnan(error[0])
    if not present.any():
        return np.ones_like(level)
    # Where the error of an infinite ensemble is not known, it is near that of the current size.
    filled = np.where(np.isnan(error), error[0], error)[:, present]
    mean = filled @ share[present] / share[present].sum()
    nearness = np.clip(sizes[0] / sizes, 0.0, 1.0)
    level = np.where(np.isnan(level), nearness * level[0] + (1.0 - nearness) * level[-1], level)
    factors = np.where((mean > 0) & (level > 0), level / np.where(mean > 0, mean, 1.0), 1.0)
    return np.where(sizes < sizes[0], factors[0], factors)


def _row_weight(sample: Sample, groups: NDArray[np.integer] | None, rows: NDArray[np.intp]) -> RowWeight:
    """Return the weights of some sampled rows, which count as fewer where rows of one group are among them."""
    weight = RowWeight(sample.weight[rows])
    if groups is None:
        return weight
    n_groups = effective_groups(weight.total, groups[rows])
    return replace(weight, design_effect=max(weight.n_effective / n_groups, 1.0))
