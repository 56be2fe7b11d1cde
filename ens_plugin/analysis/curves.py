"""Curves of the 0-1 error, of stratified rows and of the squared error, with their limits and intervals."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial

import numpy as np
from numpy.typing import NDArray

from ens_plugin.analysis.estimates import (
    Estimates,
    ResolvedOptions,
    algorithmic_sd,
)
from ens_plugin.analysis.evidence import Evidence
from ens_plugin.analysis.sizes import (
    target_variance,
    values_size,
)
from ens_plugin.core.error_curve import (
    hypergeometric_limit,
)
from ens_plugin.core.intervals import (
    FittedTail,
)
from ens_plugin.core.losses import LossMoments, SquaredLoss, fit_moments, loss_moments, luck_of_members
from ens_plugin.core.seed_variance import shared_luck_variance
from ens_plugin.core.tally import (
    Tally,
    ValueTally,
    tally_values,
)
from ens_plugin.core.validation import BoolArray, FloatArray, counted
from ens_plugin.core.weights import RowWeight, as_row_weight, bounds_by_members
from ens_plugin.findings import Finding, finding
from ens_plugin.report.result import BiasVariance, ErrorCurve

# A part with fewer rows in the sample of members' outputs is joined to another.
FEWEST_SAMPLED = 5
N_SIZES = 220


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


# The frequency of rows with half of the squared error can be estimated only from more rows than these.
FEWEST_CARRIERS = 5
FEWEST_SHARE = 0.05
CONCENTRATED = 0.01
# Values whose tail has a shape of 1/2 have no variance; with 1 they have no mean.
LONGEST_TAIL = 0.75


def estimate_regression(data: Evidence, n_members: int, settings: ResolvedOptions) -> Estimates:
    """Return the error curve, recommended size, bias, variance and uncertainty of a regressor under squared loss."""
    sample = data.sample
    weight = as_row_weight(data.weight, data.tally.n_rows)
    moments = data.moments or _moments(data.tally, weight)
    loss = replace(fit_moments(moments), luck=luck_of_members(sample))
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
        sizes={"error": cache(partial(values_size, loss, target_variance(sample), n_members, settings))},
        bias_variance=bias_variance,
        algorithmic_sd=cache(partial(algorithmic_sd, outputs, sample, slopes, own_variance, weight, n_members, groups)),
        seed_variance=shared_luck_variance(outputs, sample.block.counted, slopes, weight.n_rows),
        findings=(*_tail_doubts(moments, loss.tails[0]), *_concentration(moments)),
    )


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


def _moments(tally: Tally, weight: RowWeight) -> LossMoments:
    assert isinstance(tally, ValueTally)
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
