"""Curves of the 0-1 error, of stratified rows and of the squared error, with their limits and intervals."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ens_plugin.adapters.trees import subset_counts
from ens_plugin.analysis.estimates import (
    SLOW_ROWS,
    Estimates,
    ResolvedOptions,
    algorithmic_sd,
    correction_sd,
    counts_hard_votes,
    rival_doubts,
    row_models,
    shift_errors,
)
from ens_plugin.analysis.evidence import Evidence
from ens_plugin.analysis.sizes import (
    PROMISED_LEVEL,
    Goal,
    agreement_size,
    gap_doubts,
    member_variance,
    recommendation_reason,
    size_model,
    target_variance,
    values_size,
)
from ens_plugin.core.agreement import AgreementLaw, SizeLuck, fit_contests
from ens_plugin.core.comparison import deconvolution_variance, influence_on_variance, shared_luck_variance
from ens_plugin.core.error_curve import (
    Anchor,
    anchor_first_size,
    anchor_models,
    even_size_shift,
    hypergeometric_curve,
    hypergeometric_limit,
    mean_error,
    subset_limit,
    subset_sizes,
)
from ens_plugin.core.grouped_tally import GroupedValues
from ens_plugin.core.intervals import (
    ErrorDraws,
    FittedTail,
    combine_draws,
    density_error_sd,
    draw_errors,
    draw_posteriors,
    posterior_error_sd,
    wilson_interval,
)
from ens_plugin.core.jackknife import left_out_sd
from ens_plugin.core.losses import LossMoments, SquaredLoss, fit_moments, loss_moments
from ens_plugin.core.row_model import RowModel, row_slopes, row_variances
from ens_plugin.core.sample import Sample, ScoreBlock, SubsetRates, rates_of_subsets
from ens_plugin.core.tally import (
    MarginTally,
    RowBlock,
    SupportTally,
    ValueTally,
    mean_share,
    member_margins,
    strongest_rival,
    tally_values,
    wrong_support,
)
from ens_plugin.core.validation import NEGLIGIBLE, BoolArray, FloatArray, IntArray, counted, is_tied, previous_odd_size
from ens_plugin.core.votes import Mixture
from ens_plugin.core.weights import RowWeight, as_row_weight, bounds_by_members
from ens_plugin.errors import WeakEstimateWarning
from ens_plugin.findings import Finding, distinct, finding
from ens_plugin.report.result import BiasVariance, ErrorCurve, SizeRecommendation

__all__ = [
    "N_SIZES",
    "combine_estimates",
    "draw_errors_by_members",
    "draw_label_errors",
    "estimate_by_members",
    "estimate_classification",
    "estimate_regression",
    "largest_shared_size",
    "parts_by_members",
    "signed_outputs",
    "subset_rates",
]

MAX_ANCHOR = 51
CHECK_SIZES = (1, 3, 5, 9, 15, 25)
# Smallest mismatch that widens an interval, as a share of its half-width.
CONTRADICTION = 0.5


def estimate_classification(
    rows: Evidence, n_members: int, settings: ResolvedOptions, *, has_scores: bool
) -> Estimates:
    """Return the error curve, recommended size, bias, variance and uncertainty of a classifier."""
    tally = rows.tally
    assert isinstance(tally, (SupportTally, MarginTally))
    weight = as_row_weight(rows.weight, tally.n_rows)
    models = row_models(tally, weight, rows.spreads, rows.crossed, rows.sample, has_scores)
    groups = None if weight.groups is None else weight.groups[rows.sample.rows]
    sample = replace(rows.sample, rows=np.arange(rows.sample.rows.size))
    member_error = mean_share(tally, lambda part: part.wrong_labels, weight.total)
    rates = subset_rates(tally, sample, weight, settings)
    anchor = _anchor(models, rates, sample, member_error, weight)
    contests = fit_contests(sample) if sample.block.n_labels > 2 else None
    agreeing = size_model(models[0], contests, rates, sample)
    ties_to = _ties_to(tally, sample)
    outputs, sign, of_members = signed_outputs(tally, sample.block)
    slopes, own_variance = _row_noise(models[0], n_members)
    sd = algorithmic_sd(outputs, sample, slopes * sign, own_variance, weight, n_members, groups, of_members)
    member_sd = _member_sd((outputs, sign), sample, weight.n_rows, settings, ties_to, sd) if has_scores else sd
    curve, notes = _classification_curve(models, anchor, tally, weight, settings, ties_to, member_sd)
    now, limit = _deconvolved(models, anchor, previous_odd_size(np.array([n_members, np.inf]), ties_to))
    drawn = [draw_posteriors(model, settings.random_state) for model in models]
    draws = draw_errors(models, anchor, settings.max_size, drawn)
    draws = draws.spread(shift_errors(models[0], draws.sizes), settings.random_state)
    if np.isinf(ties_to):
        shift = _even_shift(models[0], sample, np.concatenate([settings.sizes, [n_members], draws.sizes[:-1]]))
        own, at_now, above = np.split(shift, [settings.sizes.size, settings.sizes.size + 1])
        curve = _with_even_sizes(curve, own)
        now = np.clip(now + at_now[0] * is_tied(n_members, ties_to), 0.0, 1.0)
        draws = replace(draws, even_shift=np.append(above, 0.0))
    bias_variance = BiasVariance(
        member_error=member_error,
        member_variance=member_variance(models[0], contests, tally, rows.sample, weight),
        ensemble_error=float(now),
        asymptotic_error=float(limit),
        bias=float(limit),
        loss="0-1 error",
    )
    relative = sample.weight / sample.weight.mean()
    luck = SizeLuck(outputs, sample.block.counted, sign * relative, weight.n_rows)
    law = AgreementLaw(agreeing, drawn[0], luck, settings.random_state)
    recommendation = agreement_size(law, n_members, settings)
    doubts = rival_doubts(models, int(anchor.sizes[-1]), tally, weight)
    doubts += gap_doubts(models[0], tally, sample, weight, n_members, settings)
    luck_of_rows = shared_luck_variance(outputs, sample.block.counted, slopes * sign, weight.n_rows)
    return Estimates(
        curve,
        recommendation,
        bias_variance,
        sd,
        (*doubts, *notes),
        error_draws=draws,
        error_sd=_limit_sd(curve),
        seed_variance=luck_of_rows + _extrapolation_variance(models[0], tally, sample, n_members),
    )


def _limit_sd(curve: ErrorCurve) -> float:
    """Return the standard error of the infinite ensemble's error, from its interval; 0 where it is not known."""
    low, high = curve.asymptote_interval
    width = 0.0 if math.isnan(high - low) else high - low
    return width / (2.0 * float(ndtri(0.5 + curve.interval_level / 2.0)))


def draw_label_errors(rows: Evidence, settings: ResolvedOptions, *, has_scores: bool) -> ErrorDraws:
    """Return the error of the rows of one label at each size, with draws from its posterior."""
    tally = rows.tally
    assert isinstance(tally, (SupportTally, MarginTally))
    weight = as_row_weight(rows.weight, tally.n_rows)
    models = row_models(tally, weight, rows.spreads, rows.crossed, rows.sample, has_scores)
    sample = replace(rows.sample, rows=np.arange(rows.sample.rows.size))
    member_error = mean_share(tally, lambda part: part.wrong_labels, weight.total)
    anchor = _anchor(models, subset_rates(tally, sample, weight, settings), sample, member_error, weight)
    drawn = [draw_posteriors(model, settings.random_state) for model in models]
    draws = draw_errors(models, anchor, settings.max_size, drawn)
    return draws.spread(shift_errors(models[0], draws.sizes), settings.random_state)


def _ties_to(tally: SupportTally | MarginTally, sample: Sample) -> float:
    """Return the largest even size up to which an ensemble has exactly the error of one with a member less.

    It is infinite for hard votes on two labels, 2 for votes on more labels, and 0 for probabilities and scores.
    """
    if counts_hard_votes(tally):
        return np.inf
    votes_on_more_labels = sample.block.n_labels > 2 and sample.block.outputs.ndim == 2
    return 2.0 if votes_on_more_labels else 0.0


def subset_rates(
    tally: SupportTally | MarginTally, sample: Sample, weight: RowWeight, settings: ResolvedOptions
) -> SubsetRates | None:
    """Return error rates of random subsets of the members, which correct approximate row models; None if not needed."""
    limit = min(subset_limit(tally.trials, weight.rows), MAX_ANCHOR)
    if limit < 1 or counts_hard_votes(tally):
        return None
    rng = np.random.default_rng(settings.random_state)
    return rates_of_subsets(sample.block, _odd_sizes(limit), rng, subset_counts())


def _anchor(
    models: list[RowModel], rates: SubsetRates | None, sample: Sample, member_error: float, weight: RowWeight
) -> Anchor:
    if rates is None:
        return anchor_first_size(models, member_error)
    return anchor_models(models, rates, sample.rows, sample.weight, member_error, weight.n_rows)


def _odd_sizes(limit: int) -> IntArray:
    """Return log-spaced odd sizes up to `limit`: at even ones votes tie, and the curve is not smooth."""
    sizes = subset_sizes(limit)
    return np.asarray(np.unique(sizes - (sizes % 2 == 0)))


def _deconvolved(models: list[RowModel], anchor: Anchor, sizes: FloatArray) -> FloatArray:
    return np.clip(mean_error(models, sizes) + anchor.at(sizes), 0.0, 1.0)


def _classification_curve(
    models: list[RowModel],
    anchor: Anchor,
    tally: SupportTally | MarginTally,
    weight: RowWeight,
    settings: ResolvedOptions,
    ties_to: float,
    seed_sd: float | FloatArray,
) -> tuple[ErrorCurve, tuple[Finding, ...]]:
    """Return the error curve with its intervals, and notes on them.

    An interval includes the uncertainty from the rows, from the members trained, and from the models' corrections.
    """
    sizes = np.append(previous_odd_size(settings.sizes, ties_to), np.inf)
    sd_of = density_error_sd if isinstance(tally, SupportTally) else posterior_error_sd
    of_models = np.ones(sizes.size) if counts_hard_votes(tally) else _share_of_models(anchor, sizes)
    sd = np.hypot(np.mean([sd_of(model, sizes) for model in models], axis=0), seed_sd)
    sd = np.hypot(sd, of_models * correction_sd(models, sizes))
    error = _deconvolved(models, anchor, sizes)
    check = _check(models, anchor, tally, weight)
    n_rows = float(models[0].counts.sum())
    lower, upper = wilson_interval(error, sd, n_rows, settings.interval_level)
    lower, upper, notes = _widened(lower, upper, check, of_models)
    curve = ErrorCurve(
        sizes=settings.sizes,
        error=error[:-1],
        lower=lower[:-1],
        upper=upper[:-1],
        asymptote=float(error[-1]),
        asymptote_interval=(float(lower[-1]), float(upper[-1])),
        asymptote_raw=float(error[-1]),
        estimator="deconvolved",
        metric="0-1 error",
        interval_level=settings.interval_level,
        check=check,
        ties_to=ties_to,
    )
    return curve, notes


def _member_sd(
    signed: tuple[FloatArray, FloatArray],
    sample: Sample,
    n_rows: int,
    settings: ResolvedOptions,
    ties_to: float,
    seed_sd: float,
) -> FloatArray:
    """Return the error's standard deviation over members by size and at infinity, for raw scores of any form."""
    rows = sample.random_rows(SLOW_ROWS)
    # By a take, whose memory order is always the same: rounding depends on it.
    outputs, sign = signed
    margins, counted = outputs.take(rows, axis=1), sample.block.counted.take(rows, axis=1)
    margins *= sign[rows]
    weight = RowWeight(sample.weight[rows], None if rows.size == n_rows else np.full(rows.size, n_rows / rows.size))
    sizes = np.append(previous_odd_size(settings.sizes, ties_to), np.inf)
    return np.maximum(seed_sd, left_out_sd(margins, counted, weight, sizes))


def _deciding_outputs(tally: SupportTally | MarginTally, block: RowBlock) -> NDArray[Any]:
    """Return the members' outputs whose mean decides whether a row's label is wrong, shape (n_members, n_rows).

    Of two labels the support for the wrong one; else the margin over the wrong label that all members support most.
    """
    if isinstance(tally, SupportTally):
        return wrong_support(block)
    return member_margins(block, strongest_rival(block.support, block.target))


def signed_outputs(
    tally: SupportTally | MarginTally, block: RowBlock
) -> tuple[NDArray[Any], FloatArray, FloatArray | None]:
    """Return outputs that are :func:`_deciding_outputs` once multiplied by a sign of each row, and that sign.

    The third is the variance of each row's outputs that count, where it is known.
    """
    if isinstance(block, ScoreBlock):
        # A margin of two labels is the score of the second one, or minus it: no copy of all is needed.
        return block.score, np.where(block.target == 1, 1.0, -1.0), block.variance
    return _deciding_outputs(tally, block), np.ones(block.target.size), None


def _share_of_models(anchor: Anchor, sizes: FloatArray) -> FloatArray:
    """Return the share of the curve that rests on models, by size: 0 up to the largest subsets, 1 at infinity."""
    return np.asarray(np.clip(1.0 - float(anchor.sizes[-1]) / sizes, 0.0, 1.0))


def _widened(
    lower: FloatArray, upper: FloatArray, check: float | None, of_models: FloatArray
) -> tuple[FloatArray, FloatArray, tuple[Finding, ...]]:
    """Return the intervals, widened where models and subsets differ much by that difference, and a note."""
    if check is None or check <= CONTRADICTION * (upper[-1] - lower[-1]) / 2.0:
        return lower, upper, ()
    extra = check * of_models
    sentence = (
        f"The estimated error differs from that of small groups of the members by {100.0 * check:.2g} points, which is "
        "much for its interval. The intervals are widened by it. Train more members for narrower ones."
    )
    note = finding("contradicting-subsets", sentence, difference=check)
    return np.maximum(lower - extra, 0.0), np.minimum(upper + extra, 1.0), (note,)


def _even_shift(model: RowModel, sample: Sample, sizes: FloatArray) -> FloatArray:
    """Return by how much the error of hard votes rises at even sizes, where ties of two labels give the first label."""
    assert isinstance(model, Mixture)
    return even_size_shift(model, sample, sizes)


def _with_even_sizes(curve: ErrorCurve, shift: FloatArray) -> ErrorCurve:
    """Return the curve with ties resolved as by the model."""
    here = shift * is_tied(curve.sizes, curve.ties_to)
    values = {name: np.clip(getattr(curve, name) + here, 0.0, 1.0) for name in ("error", "lower", "upper")}
    return replace(curve, **values, even_shift=shift)


def _check(
    models: list[RowModel], anchor: Anchor, tally: SupportTally | MarginTally, weight: RowWeight
) -> float | None:
    """Return the largest difference between the row models' error and its unbiased average over subsets of members.

    Models of other than hard votes are corrected by these averages; the difference at the largest subset is returned.
    """
    if not isinstance(tally, SupportTally) or not counts_hard_votes(tally):
        return anchor.mismatch
    limit = hypergeometric_limit(tally.trials, weight.rows)
    sizes = np.array([size for size in CHECK_SIZES if size <= limit])
    if sizes.size == 0:
        return None
    unbiased = hypergeometric_curve(tally.wrong, tally.trials, sizes, weight)
    return float(np.abs(mean_error(models, sizes) - unbiased).max())


def _row_noise(model: RowModel, n_members: int) -> tuple[FloatArray, FloatArray]:
    """Return the slope and the own variance of each sampled row."""
    odd_size = n_members - (n_members + 1) % 2
    return row_slopes(model, odd_size), row_variances(model, odd_size)


def _extrapolation_variance(
    model: RowModel, tally: SupportTally | MarginTally, sample: Sample, n_members: int
) -> float:
    """Return the variance of the error that comes from judging each row by fewer members than there are."""
    if sample.block.counted.all():
        return 0.0
    return deconvolution_variance(model, n_members, counts_votes=isinstance(tally, SupportTally))


# A part with fewer rows in the sample of members' outputs is joined to another.
FEWEST_SAMPLED = 5
N_SIZES = 220


def estimate_by_members(rows: Evidence, n_members: int, settings: ResolvedOptions, *, has_scores: bool) -> Estimates:
    """Return the estimates of a classifier, combined from parts of the rows with similar numbers of members."""
    parts = parts_by_members(rows.tally.trials, rows.sample.rows)
    if len(parts) == 1:
        return estimate_classification(rows, n_members, settings, has_scores=has_scores)
    of_parts = [rows.part(part) for part in parts]
    share = np.array([rows.weight.total[part].sum() for part in parts])

    with warnings.catch_warnings():
        # Few rows in a part need no warning: the interval of all rows includes their uncertainty.
        warnings.simplefilter("ignore", WeakEstimateWarning)
        estimates = [estimate_classification(part, n_members, settings, has_scores=has_scores) for part in of_parts]
        return combine_estimates(estimates, share / share.sum(), rows.weight.n_effective, n_members, settings)


def draw_errors_by_members(rows: Evidence, settings: ResolvedOptions, *, has_scores: bool) -> ErrorDraws:
    """Return the error by size, with draws, combined from parts of the rows with similar numbers of members."""
    parts = parts_by_members(rows.tally.trials, rows.sample.rows)
    if len(parts) == 1:
        return draw_label_errors(rows, settings, has_scores=has_scores)
    share = np.array([rows.weight.total[part].sum() for part in parts])
    found = [draw_label_errors(rows.part(part), settings, has_scores=has_scores) for part in parts]
    return combine_draws(found, share / share.sum())


def parts_by_members(trials: FloatArray, sampled: NDArray[np.integer]) -> list[BoolArray]:
    """Return a mask of the rows of each part, by number of members; one part where these hardly differ."""
    bounds = bounds_by_members(trials)
    while bounds.size:
        place = np.searchsorted(bounds, trials)
        held = np.bincount(place[sampled], minlength=bounds.size + 1)
        if held.min() >= FEWEST_SAMPLED:
            return [place == part for part in range(bounds.size + 1)]
        bounds = np.delete(bounds, min(int(held.argmin()), bounds.size - 1))
    return [np.ones(trials.size, dtype=bool)]


def largest_shared_size(trials: FloatArray, sampled: NDArray[np.integer]) -> int:
    """Return the largest odd size for which most rows of every part have enough members."""
    return min(hypergeometric_limit(trials[part]) for part in parts_by_members(trials, sampled))


def combine_estimates(
    estimates: Sequence[Estimates], share: FloatArray, n_effective: float, n_members: int, settings: ResolvedOptions
) -> Estimates:
    r"""Return the estimates for all rows, combined from those of disjoint parts of the rows.

    Errors and agreements add up by their shares.  An end of the interval lies
    :math:`\sqrt{\sum_s (w_s (u_s - e_s))^2 + z^2 \sum_s w_s (e_s - e)^2 / N}` from the estimate (Zou and Donner 2008;
    ``docs/methods/uneven-bags.md``).  The algorithmic standard deviation adds up as if the parts were fully correlated,
    an upper bound.
    """
    curve = _curve([part.error_curve for part in estimates], share, n_effective, settings)
    bias_variance = _bias_variance([part.bias_variance for part in estimates], share)
    return replace(
        estimates[0],
        error_curve=curve,
        recommendation=_recommendation([part.recommendation for part in estimates], share, n_members, settings),
        bias_variance=bias_variance,
        algorithmic_sd=float(share @ [part.algorithmic_sd for part in estimates]),
        seed_variance=float(share @ [math.sqrt(part.seed_variance) for part in estimates]) ** 2,
        findings=distinct(found for part in estimates for found in part.findings),
        error_draws=combine_draws([part.error_draws for part in estimates if part.error_draws is not None], share),
        error_sd=_limit_sd(curve),
    )


def _curve(curves: list[ErrorCurve], share: FloatArray, n_effective: float, settings: ResolvedOptions) -> ErrorCurve:
    error, lower, upper = (
        np.array([np.append(getattr(curve, name), last) for curve, last in zip(curves, lasts, strict=True)])
        for name, lasts in (
            ("error", [curve.asymptote for curve in curves]),
            ("lower", [curve.asymptote_interval[0] for curve in curves]),
            ("upper", [curve.asymptote_interval[1] for curve in curves]),
        )
    )
    z = float(ndtri(0.5 + settings.interval_level / 2.0))
    whole = share @ error
    between = z**2 * (share @ (error - whole) ** 2) / n_effective
    below = np.sqrt(share**2 @ (error - lower) ** 2 + between)
    above = np.sqrt(share**2 @ (upper - error) ** 2 + between)
    low, high = np.clip(whole - below, 0.0, 1.0), np.clip(whole + above, 0.0, 1.0)
    checks = [curve.check for curve in curves]
    return replace(
        curves[0],
        error=whole[:-1],
        lower=low[:-1],
        upper=high[:-1],
        asymptote=float(whole[-1]),
        asymptote_interval=(float(low[-1]), float(high[-1])),
        asymptote_raw=float(whole[-1]),
        check=None if any(check is None for check in checks) else float(share @ np.array(checks, dtype=np.float64)),
        ties_to=min(curve.ties_to for curve in curves),
        even_shift=_mean_even_shift(curves, share),
    )


def _mean_even_shift(curves: list[ErrorCurve], share: FloatArray) -> FloatArray | None:
    shifts = [np.zeros(curve.sizes.size) if curve.even_shift is None else curve.even_shift for curve in curves]
    return None if all(curve.even_shift is None for curve in curves) else np.asarray(share @ np.array(shifts))


def _bias_variance(parts: list[BiasVariance], share: FloatArray) -> BiasVariance:
    def mean(name: str) -> float:
        return float(share @ [getattr(part, name) for part in parts])

    return replace(
        parts[0],
        member_error=mean("member_error"),
        member_variance=mean("member_variance"),
        ensemble_error=mean("ensemble_error"),
        asymptotic_error=mean("asymptotic_error"),
        bias=mean("bias"),
    )


def _recommendation(
    parts: list[SizeRecommendation], share: FloatArray, n_members: int, settings: ResolvedOptions
) -> SizeRecommendation:
    """Return the size by the agreement of all rows, whose losses add up by the shares of the parts."""
    wanted = parts[0].tolerance
    sizes = _tabulated(parts[0].sizes, settings.max_size)
    by_part = np.array([np.interp(sizes, part.sizes, part.losses) for part in parts])
    disagreement = share @ by_part
    bounds = np.array([_relative_bounds(part, wanted) for part in parts])
    weight = (share[:, None] * by_part) / np.maximum(disagreement, NEGLIGIBLE)
    below, above = (np.sqrt(np.sum((weight.T * (bounds[:, side] - 1.0)) ** 2, axis=1)) for side in (0, 1))
    # The bound on one side at 95 % is this share of the distance of the upper ends, which hold what parts promise.
    one_sided = float(ndtri(0.95) / ndtri(0.5 + max(settings.interval_level, PROMISED_LEVEL) / 2.0))
    factors = (np.maximum(1.0 - below, NEGLIGIBLE), 1.0 + above, 1.0 + one_sided * above)
    low, high, promise = (_first_size(sizes, disagreement * by, wanted, settings.max_size) for by in factors)
    loss = float(share @ [part.loss for part in parts])
    goal = Goal("agreement", "agreement", wanted, 1.0)
    return replace(
        parts[0],
        size=promise,
        loss=loss,
        agreement=1.0 - loss,
        interval=(settings.max_size if low is None else low, high),
        reason=recommendation_reason(goal, promise, loss, n_members, settings.max_size),
        losses=share @ np.array([part.losses for part in parts]),
    )


def _tabulated(sizes: NDArray[np.int64], max_size: int) -> FloatArray:
    """Return the odd sizes at which the agreement is tabulated, up to `max_size`."""
    odd = sizes[(sizes % 2 == 1) & (sizes <= max_size)]
    return (odd if odd.size else sizes).astype(np.float64)


def _relative_bounds(part: SizeRecommendation, wanted: float) -> tuple[float, float]:
    """Return the limits of a part's disagreement, over its estimate, that follow from its interval of the size."""
    disagreement = np.interp([part.interval[0], part.interval[1] or part.max_size], part.sizes, part.losses)
    if part.size == 1 and disagreement.max() <= NEGLIGIBLE:
        return 1.0, 1.0
    high, low = wanted / np.maximum(disagreement, NEGLIGIBLE)[::-1]
    return min(float(low), 1.0), max(float(high), 1.0)


def _first_size(sizes: FloatArray, disagreement: FloatArray, wanted: float, max_size: int) -> int | None:
    """Return the smallest odd size with the wanted disagreement, interpolated in logarithms; None above the largest."""
    below = np.flatnonzero(disagreement <= wanted)
    if below.size == 0:
        return None
    index = int(below[0])
    if index == 0:
        return int(sizes[0])
    high, low = np.log(np.maximum(disagreement[[index - 1, index]], NEGLIGIBLE))
    part = (high - np.log(wanted)) / max(high - low, NEGLIGIBLE)
    size = np.exp(np.log(sizes[index - 1]) + part * np.log(sizes[index] / sizes[index - 1]))
    odd = int(2 * np.ceil((size - 1.0) / 2.0 - 1e-9) + 1)
    return odd if odd <= max_size else None


# The frequency of rows with half of the squared error can be estimated only from more rows than these.
FEWEST_CARRIERS = 5
FEWEST_SHARE = 0.05
CONCENTRATED = 0.01
# Values whose tail has a shape of 1/2 have no variance; with 1 they have no mean.
LONGEST_TAIL = 0.75


def estimate_regression(data: Evidence, n_members: int, settings: ResolvedOptions) -> Estimates:
    """Return the error curve, recommended size, bias, variance and uncertainty of a regressor under squared loss."""
    tally, sample = data.tally, data.sample
    assert isinstance(tally, (ValueTally, GroupedValues))
    weight = as_row_weight(data.weight, tally.trials.size)
    moments = _moments(tally, weight)
    luck = _luck_of_members(sample, weight)
    loss = replace(fit_moments(moments), luck=luck.member_sd)
    rows = tally_values(sample.block)
    slopes = 2.0 * (rows.mean - rows.target)
    own_variance = slopes**2 * rows.variance / n_members
    outputs = sample.block.outputs.astype(np.float64)
    groups = None if weight.groups is None else weight.groups[sample.rows]
    bias_variance = BiasVariance(
        member_error=float(loss.error([1])[0]),
        member_variance=loss.member_variance,
        ensemble_error=float(loss.error([n_members])[0]),
        asymptotic_error=loss.asymptote,
        bias=loss.asymptote,
        loss="squared loss",
    )
    return Estimates(
        error_curve=_regression_curve(loss, settings),
        recommendation=values_size(loss, target_variance(sample), n_members, settings),
        bias_variance=bias_variance,
        algorithmic_sd=algorithmic_sd(outputs, sample, slopes, own_variance, weight, n_members, groups),
        seed_variance=luck.seed_variance,
        findings=(*_tail_doubts(moments, loss.tails[0]), *_concentration(moments)),
    )


class _Luck(NamedTuple):
    """What depends on by which members rows were judged, for all rows alike.

    `member_sd` is the standard deviation of the members' mean variance: members of small bags differ, and one that drew
    an outlier errs on all rows.  `seed_variance` is the variance over seeds of the mean squared error, without what is
    independent from row to row.
    """

    member_sd: float
    seed_variance: float


def _luck_of_members(sample: Sample, weight: RowWeight) -> _Luck:
    part = sample.some_rows(SLOW_ROWS)
    block, rows = part.block, tally_values(part.block)
    deviations = np.square(block.outputs - rows.mean) * influence_on_variance(rows.trials)
    relative = part.weight / part.weight.mean()
    of_variance = shared_luck_variance(deviations, block.counted, relative, weight.n_rows)
    slopes = 2.0 * (rows.mean - rows.target)
    return _Luck(math.sqrt(of_variance), shared_luck_variance(block.outputs, block.counted, slopes, weight.n_rows))


def _concentration(moments: LossMoments) -> tuple[Finding, ...]:
    """Return a note where one row in a hundred, or a single row, has half of the squared error."""
    carriers = moments.carriers()
    if carriers is None or carriers > max(1.0, CONCENTRATED * moments.n_rows):
        return ()
    rows = counted(carriers, "row has", "rows have")
    sentence = (
        f"{rows} more than half of the squared error of all {counted(moments.n_rows, 'row')}: the mean squared error "
        "depends on them more than on all others. Check these rows, or model a transformed target such as its "
        "logarithm."
    )
    return (finding("concentrated-error", sentence, n_carriers=carriers),)


def _tail_doubts(moments: LossMoments, tail: FittedTail | None) -> tuple[Finding, ...]:
    """Return a doubt about the intervals where the largest losses are too few, or have no finite variance."""
    carriers = moments.carriers()
    if carriers is not None and carriers <= min(FEWEST_CARRIERS, FEWEST_SHARE * moments.n_rows):
        few = (
            f"Half of the squared error lies on {carriers} of {counted(moments.n_rows, 'row')}, and how often such "
            "rows occur cannot be estimated from so few: use more rows, or another target or loss that these rows do "
            "not dominate."
        )
        return (finding("few-large-errors", few, n_carriers=carriers),)
    if tail is not None and tail.shape > LONGEST_TAIL:
        heavy = (
            "The tail of the squared errors is too heavy for an interval of their mean (the fitted shape is "
            f"{tail.shape:.2f}; from 0.5 on there is no variance, from 1 on no mean). Model a transformed target such "
            "as its logarithm, or use another loss."
        )
        return (finding("heavy-tail", heavy, shape=tail.shape),)
    return ()


def _moments(tally: ValueTally | GroupedValues, weight: RowWeight) -> LossMoments:
    if isinstance(tally, GroupedValues):
        assert tally.moments is not None
        return tally.moments
    return loss_moments(tally.mean, tally.variance, tally.trials, tally.target, weight.total, weight.groups)


def _regression_curve(loss: SquaredLoss, settings: ResolvedOptions) -> ErrorCurve:
    sizes = np.append(settings.sizes.astype(np.float64), np.inf)
    lower, upper = loss.interval(sizes, settings.interval_level)
    error = loss.error(sizes)
    return ErrorCurve(
        sizes=settings.sizes,
        error=error[:-1],
        lower=lower[:-1],
        upper=upper[:-1],
        asymptote=float(error[-1]),
        asymptote_interval=(float(lower[-1]), float(upper[-1])),
        asymptote_raw=loss.raw_asymptote,
        estimator="closed_form",
        metric="mean squared error",
        interval_level=settings.interval_level,
    )
