"""Estimates for a classifier from its tallies: error curve, size, bias and variance."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.shared.compiled_sums import subset_counts
from ens_plugin.analysis.curves.agreement_size import (
    SizeLuck,
    agreement_size,
    gap_doubts,
    member_variance,
    size_model,
    without_lower_end,
)
from ens_plugin.analysis.curves.estimates import Estimates, ResolvedOptions, algorithmic_sd, path_values
from ens_plugin.analysis.curves.label_models import (
    correction_sd,
    counts_hard_votes,
    rival_doubts,
    row_models,
    shift_errors,
)
from ens_plugin.core import estimates, uncertainty
from ens_plugin.core.estimates.error_curve import binomial_curve, hypergeometric_curve, hypergeometric_limit
from ens_plugin.core.estimates.tied_sizes import is_tied, previous_odd_size
from ens_plugin.core.row_models.anchoring import (
    Anchor,
    anchor_first_size,
    anchor_models,
    mean_error,
    subset_limit,
)
from ens_plugin.core.row_models.mixture import Mixture
from ens_plugin.core.row_models.row_model import RowModel, row_slopes, row_variances
from ens_plugin.core.row_models.tied_votes import even_size_shift
from ens_plugin.core.tallies.margin_tally import member_margins, strongest_rival
from ens_plugin.core.tallies.row_weight import RowWeight, as_row_weight
from ens_plugin.core.tallies.samples import ScoreBlock
from ens_plugin.core.tallies.tally import (
    MarginTally,
    RowBlock,
    SupportTally,
    mean_share,
    wrong_support,
)
from ens_plugin.core.uncertainty.comparison_noise import deconvolution_variance, shared_luck_variance
from ens_plugin.core.uncertainty.error_draws import ErrorDraws, draw_errors
from ens_plugin.core.uncertainty.intervals import (
    density_error_sd,
    draw_posteriors,
    posterior_error_sd,
    wilson_interval,
)
from ens_plugin.errors import InputError
from ens_plugin.report.estimates import BiasVariance, ErrorCurve

if TYPE_CHECKING:
    from ens_plugin.analysis.tallied_rows import TalliedRows
    from ens_plugin.core.tallies.growth_path import PathTally
    from ens_plugin.core.tallies.subset_rates import SubsetRates
    from ens_plugin.core.tallies.subsets import Sample
    from ens_plugin.core.validation import FloatArray, IntArray

__all__ = ["draw_label_errors", "estimate_classification", "seed_noise"]

MAX_ANCHOR = 51
CHECK_SIZES = (1, 3, 5, 9, 15, 25)
# Smallest mismatch that widens an interval, as a share of its half-width.
CONTRADICTION = 0.5
JACKKNIFE_ROWS = 2_000


def estimate_classification(
    rows: TalliedRows, n_members: int, settings: ResolvedOptions, *, has_scores: bool
) -> Estimates:
    """Return the error curve, recommended size, bias, variance and uncertainty of a classifier.

    Parameters
    ----------
    rows : TalliedRows
        Tallies of labels, of usable rows only.  The sample is sorted by content, so that the random draws do not
        depend on the order of the rows, which a cluster does not keep.
    n_members : int
    settings : ResolvedOptions
    has_scores : bool
        True for raw scores, False for votes and probabilities.
    """
    tally, path = rows.tally, rows.path
    assert isinstance(tally, (SupportTally, MarginTally))
    weight = as_row_weight(rows.weight, tally.n_rows)
    models = row_models(tally, weight, rows.spreads, rows.crossed, rows.sample, has_scores)
    groups = None if weight.groups is None else weight.groups[rows.sample.rows]
    sample = replace(rows.sample, rows=np.arange(rows.sample.rows.size))
    member_error = mean_share(tally, lambda part: part.wrong_labels, weight.total)
    rates = _subset_rates(tally, sample, weight, settings)
    anchor = _anchor(models, rates, sample, member_error, weight)
    contests = estimates.fit_contests(sample) if sample.block.n_labels > 2 else None
    agreeing = size_model(models[0], contests, rates, sample)
    ties_to = _ties_to(tally, sample)
    outputs, sign, of_members = _signed_outputs(tally, sample.block)
    slopes, own_variance = _row_noise(models[0], n_members)
    sd = algorithmic_sd(outputs, sample, slopes * sign, own_variance, weight, n_members, groups, of_members)
    member_sd = _member_sd((outputs, sign), sample, weight.n_rows, settings, ties_to, sd) if has_scores else sd
    curve, cautions = _classification_curve(models, anchor, tally, path, weight, settings, ties_to, member_sd)
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
    recommendation = agreement_size(agreeing, drawn[0], n_members, settings, luck)
    recommendation = without_lower_end(recommendation, sample)
    doubts = rival_doubts(models, int(anchor.sizes[-1]), tally, weight)
    doubts += gap_doubts(models[0], tally, sample, weight, n_members, settings)
    return Estimates(curve, recommendation, bias_variance, sd, cautions, doubts, error_draws=draws)


def draw_label_errors(rows: TalliedRows, settings: ResolvedOptions, *, has_scores: bool) -> ErrorDraws:
    """Return the error of the rows of one label at each size, with draws from its posterior.

    Parameters
    ----------
    rows, settings, has_scores
        As for :func:`estimate_classification`.
    """
    tally = rows.tally
    assert isinstance(tally, (SupportTally, MarginTally))
    weight = as_row_weight(rows.weight, tally.n_rows)
    models = row_models(tally, weight, rows.spreads, rows.crossed, rows.sample, has_scores)
    sample = replace(rows.sample, rows=np.arange(rows.sample.rows.size))
    member_error = mean_share(tally, lambda part: part.wrong_labels, weight.total)
    anchor = _anchor(models, _subset_rates(tally, sample, weight, settings), sample, member_error, weight)
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


def _subset_rates(
    tally: SupportTally | MarginTally, sample: Sample, weight: RowWeight, settings: ResolvedOptions
) -> SubsetRates | None:
    """Return error rates of random subsets of the members, which correct approximate row models; None if not needed."""
    limit = min(subset_limit(tally.trials, weight.rows), MAX_ANCHOR)
    if limit < 1 or counts_hard_votes(tally):
        return None
    # Hard votes on two labels need none.
    from ens_plugin.core.tallies.subset_rates import rates_of_subsets

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
    sizes = estimates.subset_sizes(limit)
    return np.asarray(np.unique(sizes - (sizes % 2 == 0)))


def _deconvolved(models: list[RowModel], anchor: Anchor, sizes: FloatArray) -> FloatArray:
    return np.clip(mean_error(models, sizes) + anchor.at(sizes), 0.0, 1.0)


def _classification_curve(
    models: list[RowModel],
    anchor: Anchor,
    tally: SupportTally | MarginTally,
    path: PathTally | None,
    weight: RowWeight,
    settings: ResolvedOptions,
    ties_to: float,
    seed_sd: float | FloatArray,
) -> tuple[ErrorCurve, tuple[str, ...]]:
    """Return the error curve with its intervals, and warnings about them.

    An interval includes the uncertainty from the rows, from the members trained, and from the models' corrections.
    """
    # The growth path uses the model's own rule, which resolves a tie for the first label.
    ties_to = ties_to if path is None else 0.0
    sizes = np.append(previous_odd_size(settings.sizes, ties_to), np.inf)
    sd_of = density_error_sd if isinstance(tally, SupportTally) else posterior_error_sd
    of_models = np.ones(sizes.size) if counts_hard_votes(tally) else _share_of_models(anchor, sizes)
    sd = np.hypot(np.mean([sd_of(model, sizes) for model in models], axis=0), seed_sd)
    sd = np.hypot(sd, of_models * correction_sd(models, sizes))
    if settings.estimator == "deconvolved":
        error = _deconvolved(models, anchor, sizes)
        check = _check(models, anchor, tally, weight)
    else:
        error, check = _compared_values(tally, path, weight, settings, sizes), None
    n_rows = float(models[0].counts.sum())
    lower, upper = wilson_interval(np.nan_to_num(error), sd, n_rows, settings.interval_level)
    unknown = np.isnan(error)
    lower[unknown] = upper[unknown] = np.nan
    lower, upper, cautions = _widened(lower, upper, check, of_models)
    curve = ErrorCurve(
        sizes=settings.sizes,
        error=error[:-1],
        lower=lower[:-1],
        upper=upper[:-1],
        asymptote=float(error[-1]),
        asymptote_interval=(float(lower[-1]), float(upper[-1])),
        asymptote_raw=float(error[-1]),
        estimator=settings.estimator,
        metric="0-1 error",
        interval_level=settings.interval_level,
        check=check,
        ties_to=ties_to,
    )
    return curve, cautions


def _member_sd(
    signed: tuple[FloatArray, FloatArray],
    sample: Sample,
    n_rows: int,
    settings: ResolvedOptions,
    ties_to: float,
    seed_sd: float,
) -> FloatArray:
    """Return the error's standard deviation over members by size and at infinity, for raw scores of any form."""
    rows = sample.random_rows(JACKKNIFE_ROWS)
    # By a take, whose memory order is always the same: rounding depends on it.
    outputs, sign = signed
    margins, counted = outputs.take(rows, axis=1), sample.block.counted.take(rows, axis=1)
    margins *= sign[rows]
    weight = RowWeight(sample.weight[rows], None if rows.size == n_rows else np.full(rows.size, n_rows / rows.size))
    sizes = np.append(previous_odd_size(settings.sizes, ties_to), np.inf)
    return np.maximum(seed_sd, uncertainty.left_out_sd(margins, counted, weight, sizes))


def _deciding_outputs(tally: SupportTally | MarginTally, block: RowBlock) -> NDArray[Any]:
    """Return the members' outputs whose mean decides whether a row's label is wrong, shape (n_members, n_rows).

    Of two labels the support for the wrong one; else the margin over the wrong label that all members support most.
    """
    if isinstance(tally, SupportTally):
        return wrong_support(block)
    return member_margins(block, strongest_rival(block.support, block.target))


def _signed_outputs(
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
) -> tuple[FloatArray, FloatArray, tuple[str, ...]]:
    """Return the intervals, widened where models and subsets differ much by that difference, and a warning."""
    if check is None or check <= CONTRADICTION * (upper[-1] - lower[-1]) / 2.0:
        return lower, upper, ()
    extra = check * of_models
    sentence = (
        f"The fitted distribution differs from subsets of the members by {100.0 * check:.2g} points of error, which is "
        "much compared with the interval. The intervals are widened by it. Train more members for narrower ones."
    )
    return np.maximum(lower - extra, 0.0), np.minimum(upper + extra, 1.0), (sentence,)


def _even_shift(model: RowModel, sample: Sample, sizes: FloatArray) -> FloatArray:
    """Return by how much the error of hard votes rises at even sizes, where ties of two labels give the first label."""
    assert isinstance(model, Mixture)
    return even_size_shift(model, sample, sizes)


def _with_even_sizes(curve: ErrorCurve, shift: FloatArray) -> ErrorCurve:
    """Return the curve with ties resolved as by the model; unchanged if the estimator counts a tie as half an error."""
    if curve.estimator != "deconvolved":
        return curve
    here = shift * is_tied(curve.sizes, curve.ties_to)
    values = {name: np.clip(getattr(curve, name) + here, 0.0, 1.0) for name in ("error", "lower", "upper")}
    return replace(curve, **values, even_shift=shift)


def _compared_values(
    tally: SupportTally | MarginTally,
    path: PathTally | None,
    weight: RowWeight,
    settings: ResolvedOptions,
    sizes: FloatArray,
) -> FloatArray:
    """Return the errors by an estimator other than the default; NaN at infinity, the last size, if it has no limit."""
    if path is not None:
        return np.append(path_values(path, settings.sizes), np.nan)
    if not counts_hard_votes(tally):
        raise InputError(
            f"estimator={settings.estimator!r} counts hard votes for one of two labels, and this ensemble averages "
            "probabilities or scores or has more labels; use estimator='auto'."
        )
    assert isinstance(tally, SupportTally)
    if settings.estimator == "binomial":
        return binomial_curve(tally.wrong, tally.trials, sizes, weight)
    return np.append(hypergeometric_curve(tally.wrong, tally.trials, settings.sizes, weight), np.nan)


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


def seed_noise(
    tally: SupportTally | MarginTally, sample: Sample, n_members: int, *, has_scores: bool, extrapolates: bool
) -> float:
    """Return the variance over seeds of the error at the current size, without what is independent from row to row.

    Parameters
    ----------
    tally : SupportTally or MarginTally
        One entry for each row that can be used, all of equal weight.
    sample : Sample
    n_members : int
    has_scores : bool
        True for raw scores.
    extrapolates : bool
        Whether the rows have fewer members than the ensemble.
    """
    weight = as_row_weight(None, tally.n_rows)
    model = row_models(tally, weight, None, None, sample, has_scores)[0]
    slopes, _ = _row_noise(model, n_members)
    shared = shared_luck_variance(_deciding_outputs(tally, sample.block), sample.block.counted, slopes, tally.n_rows)
    if not extrapolates:
        return shared
    return shared + deconvolution_variance(model, n_members, counts_votes=isinstance(tally, SupportTally))
