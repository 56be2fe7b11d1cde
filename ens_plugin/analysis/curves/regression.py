"""Estimates for a regressor from its tallies: error curve, size, bias and variance."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ens_plugin.analysis.curves.estimates import Estimates, ResolvedOptions, algorithmic_sd, path_values
from ens_plugin.analysis.curves.size_reasons import excess_recommendation
from ens_plugin.analysis.tallied_rows import TalliedRows
from ens_plugin.core.estimates.grouped_tally import GroupedValues
from ens_plugin.core.estimates.squared_loss import LossMoments, SquaredLoss, fit_moments, loss_moments
from ens_plugin.core.tallies.growth_path import PathTally
from ens_plugin.core.tallies.row_weight import RowWeight, as_row_weight
from ens_plugin.core.tallies.subsets import Sample
from ens_plugin.core.tallies.tally import ValueTally, tally_values
from ens_plugin.core.uncertainty.comparison_noise import influence_on_variance, shared_luck_variance
from ens_plugin.core.uncertainty.skewed_mean import FittedTail
from ens_plugin.core.validation import counted
from ens_plugin.report.estimates import BiasVariance, ErrorCurve, SizeRecommendation

__all__ = ["estimate_regression"]

# The frequency of rows with half of the squared error can be estimated only from more rows than these.
FEWEST_CARRIERS = 5
FEWEST_SHARE = 0.05
CONCENTRATED = 0.01
# Values whose tail has a shape of 1/2 have no variance; with 1 they have no mean.
LONGEST_TAIL = 0.75
ROWS_OF_LUCK = 2000


def estimate_regression(data: TalliedRows, n_members: int, settings: ResolvedOptions) -> Estimates:
    """Return the error curve, recommended size, bias, variance and uncertainty of a regressor under squared loss.

    Parameters
    ----------
    data : TalliedRows
        Tallies of values, of rows with at least two members only.
    n_members : int
    settings : ResolvedOptions
    """
    tally, sample = data.tally, data.sample
    assert isinstance(tally, (ValueTally, GroupedValues))
    weight = as_row_weight(data.weight, tally.trials.size)
    moments = _moments(tally, weight)
    loss = replace(fit_moments(moments), luck=_luck_of_members(sample, weight))
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
        error_curve=_regression_curve(loss, data.path, settings),
        recommendation=_regression_size(loss, n_members, settings),
        bias_variance=bias_variance,
        algorithmic_sd=algorithmic_sd(outputs, sample, slopes, own_variance, weight, n_members, groups),
        cautions=_concentration(moments),
        doubts=_tail_doubts(moments, loss.tails[0]),
    )


def _luck_of_members(sample: Sample, weight: RowWeight) -> float:
    """Return the standard deviation of the members' mean variance by which members were trained, over all rows alike.

    Members of small bags differ: one that drew an outlier errs on all rows.
    """
    part = sample.some_rows(ROWS_OF_LUCK)
    rows = tally_values(part.block)
    deviations = np.square(part.block.outputs - rows.mean) * influence_on_variance(rows.trials)
    relative = part.weight / part.weight.mean()
    return math.sqrt(shared_luck_variance(deviations, part.block.counted, relative, weight.n_rows))


def _concentration(moments: LossMoments) -> tuple[str, ...]:
    """Return a warning where one row in a hundred, or a single row, has half of the squared error."""
    carriers = moments.carriers()
    if carriers is None or carriers > max(1.0, CONCENTRATED * moments.n_rows):
        return ()
    rows = counted(carriers, "row has", "rows have")
    return (
        f"{rows} more than half of the squared error of all {counted(moments.n_rows, 'row')}: the mean squared error "
        "depends on them more than on all others. Check these rows, or model a transformed target such as its "
        "logarithm.",
    )


def _tail_doubts(moments: LossMoments, tail: FittedTail | None) -> tuple[str, ...]:
    """Return a doubt about the intervals where the largest losses are too few, or have no finite variance."""
    carriers = moments.carriers()
    if carriers is not None and carriers <= min(FEWEST_CARRIERS, FEWEST_SHARE * moments.n_rows):
        return (
            f"Half of the squared error lies on {carriers} of {counted(moments.n_rows, 'row')}, and how often such "
            "rows occur cannot be estimated from so few: use more rows, or another target or loss that these rows do "
            "not dominate.",
        )
    if tail is not None and tail.shape > LONGEST_TAIL:
        return (
            "The tail of the squared errors is too heavy for an interval of their mean (the fitted shape is "
            f"{tail.shape:.2f}; from 0.5 on there is no variance, from 1 on no mean). Model a transformed target such "
            "as its logarithm, or use another loss.",
        )
    return ()


def _moments(tally: ValueTally | GroupedValues, weight: RowWeight) -> LossMoments:
    if isinstance(tally, GroupedValues):
        assert tally.moments is not None
        return tally.moments
    return loss_moments(tally.mean, tally.variance, tally.trials, tally.target, weight.total, weight.groups)


def _regression_curve(loss: SquaredLoss, path: PathTally | None, settings: ResolvedOptions) -> ErrorCurve:
    sizes = np.append(settings.sizes.astype(np.float64), np.inf)
    lower, upper = loss.interval(sizes, settings.interval_level)
    error = loss.error(sizes)
    if path is not None:
        error = np.append(path_values(path, settings.sizes), np.nan)
        shift = error - loss.error(sizes)
        lower, upper = np.maximum(lower + shift, 0.0), upper + shift
    return ErrorCurve(
        sizes=settings.sizes,
        error=error[:-1],
        lower=lower[:-1],
        upper=upper[:-1],
        asymptote=float(error[-1]),
        asymptote_interval=(float(lower[-1]), float(upper[-1])),
        asymptote_raw=loss.raw_asymptote if path is None else float("nan"),
        estimator=settings.estimator,
        metric="mean squared error",
        interval_level=settings.interval_level,
    )


def _regression_size(loss: SquaredLoss, n_members: int, settings: ResolvedOptions) -> SizeRecommendation:
    size = loss.recommended_size(settings.tolerance, settings.max_size)
    interval = loss.size_interval(settings.tolerance, settings.max_size, settings.interval_level)
    return excess_recommendation(
        "excess_error", "mean squared error", size, interval, loss.excess, None, n_members, settings
    )
