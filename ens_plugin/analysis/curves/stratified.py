"""Estimates combined from parts of the rows with similar numbers of members (docs/methods.md, section 16)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ens_plugin.analysis.curves.classification import draw_label_errors, estimate_classification
from ens_plugin.analysis.curves.estimates import Estimates, ResolvedOptions
from ens_plugin.analysis.curves.size_reasons import agreement_reason
from ens_plugin.analysis.tallied_rows import TalliedRows
from ens_plugin.core.estimates.error_curve import hypergeometric_limit
from ens_plugin.core.tallies.representation import bounds_by_members
from ens_plugin.core.uncertainty.error_draws import ErrorDraws, combine_draws
from ens_plugin.core.validation import BoolArray, FloatArray
from ens_plugin.errors import WeakEstimateWarning
from ens_plugin.report.estimates import BiasVariance, ErrorCurve, SizeRecommendation

__all__ = [
    "combine_estimates",
    "draw_errors_by_members",
    "estimate_by_members",
    "largest_shared_size",
    "parts_by_members",
]

# A part with fewer rows in the sample of members' outputs is joined to another.
FEWEST_SAMPLED = 5
FEWEST_SIZES = 100
N_SIZES = 220
LEAST = 1e-12


def estimate_by_members(rows: TalliedRows, n_members: int, settings: ResolvedOptions, *, has_scores: bool) -> Estimates:
    """Return the estimates of a classifier, combined from parts of the rows with similar numbers of members.

    Parameters
    ----------
    rows, n_members, settings, has_scores
        As for :func:`~ens_plugin.analysis.curves.classification.estimate_classification`; each entry is one row.
    """
    parts = parts_by_members(rows.tally.trials, rows.sample.rows)
    if len(parts) == 1:
        return estimate_classification(rows, n_members, settings, has_scores=has_scores)
    of_parts = [rows.part(part) for part in parts]
    share = np.array([rows.weight.total[part].sum() for part in parts])

    def combined(options: ResolvedOptions) -> Estimates:
        estimates = [estimate_classification(part, n_members, options, has_scores=has_scores) for part in of_parts]
        return combine_estimates(estimates, share / share.sum(), rows.weight.n_effective, n_members, options)

    with warnings.catch_warnings():
        # Few rows in a part need no warning: the interval of all rows includes their uncertainty.
        warnings.simplefilter("ignore", WeakEstimateWarning)
        found = combined(settings)
        if settings.sizes.size >= FEWEST_SIZES and settings.sizes[-1] >= settings.max_size:
            return found
        # The recommended size is interpolated from tabulated agreement, which must not depend on the curve's sizes.
        grid = np.geomspace(1, settings.max_size, N_SIZES).astype(np.int64) // 2 * 2 + 1
        wide = combined(replace(settings, sizes=np.unique(grid), estimator="deconvolved")).recommendation
    return replace(
        found, recommendation=replace(wide, sizes=found.recommendation.sizes, values=found.recommendation.values)
    )


def draw_errors_by_members(rows: TalliedRows, settings: ResolvedOptions, *, has_scores: bool) -> ErrorDraws:
    """Return the error by size, with draws, combined from parts of the rows with similar numbers of members.

    Parameters
    ----------
    rows, settings, has_scores
        As for :func:`estimate_by_members`.
    """
    parts = parts_by_members(rows.tally.trials, rows.sample.rows)
    if len(parts) == 1:
        return draw_label_errors(rows, settings, has_scores=has_scores)
    share = np.array([rows.weight.total[part].sum() for part in parts])
    found = [draw_label_errors(rows.part(part), settings, has_scores=has_scores) for part in parts]
    return combine_draws(found, share / share.sum())


def parts_by_members(trials: FloatArray, sampled: NDArray[np.integer]) -> list[BoolArray]:
    """Return a mask of the rows of each part, by number of members; one part where these hardly differ.

    Parameters
    ----------
    trials : ndarray, shape (n_rows,)
    sampled : ndarray of int, shape (n_sampled,)
        Rows whose members' outputs are kept; every part has some.
    """
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

    Parameters
    ----------
    estimates : sequence of Estimates
        All with the same sizes.
    share : ndarray, shape (n_parts,)
        Share of the weight of each part; sums to 1.
    n_effective : float
        Effective number of rows of all parts.
    n_members : int
    settings : ResolvedOptions

    Notes
    -----
    Errors and agreements add up by their shares.  The interval is recovered from those of the parts (Zou and Donner
    2008): its end lies :math:`\sqrt{\sum_s (w_s (u_s - e_s))^2 + z^2 \sum_s w_s (e_s - e)^2 / N}` from the
    estimate, the second term for the shares, which are those of a sample.  The algorithmic standard deviation
    adds up as if the parts were fully correlated, an upper bound.
    """
    curve = _curve([part.error_curve for part in estimates], share, n_effective, settings)
    bias_variance = _bias_variance([part.bias_variance for part in estimates], share)
    return replace(
        estimates[0],
        error_curve=curve,
        recommendation=_recommendation([part.recommendation for part in estimates], share, n_members, settings),
        bias_variance=bias_variance,
        algorithmic_sd=float(share @ [part.algorithmic_sd for part in estimates]),
        cautions=tuple(dict.fromkeys(caution for part in estimates for caution in part.cautions)),
        doubts=tuple(dict.fromkeys(doubt for part in estimates for doubt in part.doubts)),
        error_draws=combine_draws([part.error_draws for part in estimates if part.error_draws is not None], share),
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
    sizes = _tabulated(parts[0].sizes, settings.max_size)
    wanted = 1.0 - settings.confidence
    by_part = np.array([1.0 - np.interp(sizes, part.sizes, part.values) for part in parts])
    disagreement = share @ by_part
    size = _first_size(sizes, disagreement, wanted, settings.max_size)
    bounds = np.array([_relative_bounds(part, wanted) for part in parts])
    weight = (share[:, None] * by_part) / np.maximum(disagreement, LEAST)
    below, above = (np.sqrt(np.sum((weight.T * (bounds[:, side] - 1.0)) ** 2, axis=1)) for side in (0, 1))
    low = _first_size(sizes, disagreement * np.maximum(1.0 - below, LEAST), wanted, settings.max_size)
    high = _first_size(sizes, disagreement * (1.0 + above), wanted, settings.max_size)
    agreement = float(share @ [np.nan if part.agreement is None else part.agreement for part in parts])
    return replace(
        parts[0],
        size=size,
        agreement=agreement,
        interval=(settings.max_size if low is None else low, high),
        reason=agreement_reason(size, agreement, n_members, settings),
        values=share @ np.array([part.values for part in parts]),
    )


def _tabulated(sizes: NDArray[np.int64], max_size: int) -> FloatArray:
    """Return the odd sizes at which the agreement is tabulated, up to `max_size`."""
    odd = sizes[(sizes % 2 == 1) & (sizes <= max_size)]
    return (odd if odd.size else sizes).astype(np.float64)


def _relative_bounds(part: SizeRecommendation, wanted: float) -> tuple[float, float]:
    """Return the limits of a part's disagreement, over its estimate, that follow from its interval of the size."""
    disagreement = 1.0 - np.interp([part.interval[0], part.interval[1] or part.max_size], part.sizes, part.values)
    if part.size == 1 and disagreement.max() <= LEAST:
        return 1.0, 1.0
    high, low = wanted / np.maximum(disagreement, LEAST)[::-1]
    return min(float(low), 1.0), max(float(high), 1.0)


def _first_size(sizes: FloatArray, disagreement: FloatArray, wanted: float, max_size: int) -> int | None:
    """Return the smallest odd size with the wanted disagreement, interpolated in logarithms; None above the largest."""
    below = np.flatnonzero(disagreement <= wanted)
    if below.size == 0:
        return None
    index = int(below[0])
    if index == 0:
        return int(sizes[0])
    high, low = np.log(np.maximum(disagreement[[index - 1, index]], LEAST))
    part = (high - np.log(wanted)) / max(high - low, LEAST)
    size = np.exp(np.log(sizes[index - 1]) + part * np.log(sizes[index] / sizes[index - 1]))
    odd = int(2 * np.ceil((size - 1.0) / 2.0 - 1e-9) + 1)
    return odd if odd <= max_size else None
