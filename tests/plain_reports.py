"""The two plain reports of which :mod:`tests.reports` makes all others: of labels, and of values."""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc
from scipy.stats import beta

from ens_plugin import BiasVariance, EnsembleReport, ErrorCurve, SizeRecommendation
from ens_plugin.report.result import Criterion, EstimateBasis

__all__ = ["odd_sizes", "report_on_labels", "report_on_values"]

FloatArray = NDArray[np.float64]

VERSIONS = {"ens_plugin": "0.1.0", "numpy": "2.4.6", "scipy": "1.17.0", "scikit-learn": "1.9.1"}
BRIER_OF_BASE_RATES, TARGET_VARIANCE = 0.2337, 5930.0  # of breast cancer, and of diabetes


def report_on_labels(
    n_members: int,
    n_rows: int,
    weights: tuple[float, float],
    shapes: tuple[tuple[float, float], tuple[float, float]],
    aggregation: str = "vote",
) -> EnsembleReport:
    """Rows whose chances of error are a mixture of beta distributions, in these shares."""
    parts = [beta(*shape).cdf(np.linspace(0, 1, 2001)) for shape in shapes]
    density = np.diff(np.average(parts, axis=0, weights=weights))
    sizes = odd_sizes(20_001)
    centres, error_of, agreement_of = _votes()
    error, agreement = error_of @ density, agreement_of @ density
    limit = float(density[centres > 0.5].sum())
    lower, upper = _wilson(error, n_rows)
    low, high = _wilson(np.array([limit]), n_rows)
    curve = ErrorCurve(
        sizes,
        error,
        lower,
        upper,
        limit,
        (float(low[0]), float(high[0])),
        limit,
        "deconvolved",
        "0-1 error",
        0.95,
        0.0012,
    )
    advice = _criteria(
        n_members,
        {
            "agreement": _Law(1.0, 1.0 - agreement, 0.01),
            "error": _Law(limit, error - limit, max(0.02 * limit, 0.002)),
            "probability": _brier_law(density, sizes),
        },
        sizes,
    )
    bias_variance = BiasVariance(
        member_error=float(centres @ density),
        member_variance=float(np.minimum(centres, 1.0 - centres) @ density),
        ensemble_error=curve.at(n_members),
        asymptotic_error=limit,
        bias=limit,
        loss="0-1 error",
    )
    return EnsembleReport(
        task="classification",
        model="RandomForestClassifier",
        n_members=n_members,
        n_rows=n_rows,
        rows_without_oob=0,
        mean_oob_members=0.368 * n_members,
        aggregation=aggregation,
        bags="recorded",
        data="oob",
        error_curve=curve,
        recommendation=max(advice[1:], key=lambda found: found.size or math.inf),
        bias_variance=bias_variance,
        algorithmic_sd=0.0021,
        created="2026-11-21T06:32:10+00:00",
        versions=dict(VERSIONS),
        basis=EstimateBasis(baseline_error=0.3726),
        criteria=advice,
    )


def report_on_values(n_members: int, limit: float, variance: float, half_width: float) -> EnsembleReport:
    """Squared errors of the infinite ensemble's `limit`, and of members with this variance."""
    sizes = odd_sizes(20_001)
    error = limit + variance / sizes
    lower, upper = np.maximum(error - half_width, 0.0), error + half_width
    interval = (max(limit - half_width, 0.0), limit + half_width)
    curve = ErrorCurve(
        sizes, error, lower, upper, limit, interval, limit, "closed_form", "mean squared error", 0.95, 0.0
    )
    tolerance = max(0.01 * limit, 1e-4 * TARGET_VARIANCE) if limit else 0.0
    size = math.ceil(variance / tolerance) if limit else None
    recommendation = SizeRecommendation(
        size=size,
        criterion="error",
        tolerance=tolerance,
        loss=variance / n_members,
        limit=limit,
        agreement=None,
        interval=(size - 21, size + 26) if size else (4001, None),
        reason=f"With {n_members} members, the mean squared error is {variance / n_members:.2g} above that of "
        f"infinitely many; {tolerance:.2g} are allowed, which takes {size} members.",
        max_size=20_001,
        is_required=True,
        sizes=sizes,
        losses=variance / sizes,
    )
    bias_variance = BiasVariance(limit + variance, variance, limit + variance / n_members, limit, limit, "squared loss")
    return EnsembleReport(
        task="regression",
        model="RandomForestRegressor",
        n_members=n_members,
        n_rows=442,
        rows_without_oob=0,
        mean_oob_members=0.368 * n_members,
        aggregation="mean",
        bags="recorded",
        data="oob",
        error_curve=curve,
        recommendation=recommendation,
        bias_variance=bias_variance,
        algorithmic_sd=half_width / 20,
        created="2026-11-21T06:32:10+00:00",
        versions=dict(VERSIONS),
        basis=EstimateBasis(baseline_error=TARGET_VARIANCE if limit else math.nan),
        criteria=(recommendation,),
    )


class _Law(NamedTuple):
    """The quantity of infinitely many members, what each size loses against it, and the loss that is allowed."""

    limit: float
    losses: FloatArray
    tolerance: float


def _brier_law(density: FloatArray, sizes: NDArray[np.int64]) -> _Law:
    """Of the members' share of votes: the square of the chance of error, and its variance by size."""
    centres = _votes()[0]
    limit, variance = float(centres**2 @ density), float(centres * (1.0 - centres) @ density)
    return _Law(limit, variance / sizes, max(0.01 * limit, 0.002 * BRIER_OF_BASE_RATES))


def _criteria(n_members: int, laws: dict[Criterion, _Law], sizes: NDArray[np.int64]) -> tuple[SizeRecommendation, ...]:
    """The size in every respect; a real report's error and probabilities have to be enough, its agreement need not."""
    loss_now = {
        name: float(np.interp(1.0 / n_members, 1.0 / sizes[::-1], law.losses[::-1])) for name, law in laws.items()
    }
    return tuple(
        _sized(name, law, n_members, loss_now[name], 1.0 - loss_now["agreement"], sizes) for name, law in laws.items()
    )


def _sized(
    criterion: Criterion, law: _Law, n_members: int, loss: float, agreement: float, sizes: NDArray[np.int64]
) -> SizeRecommendation:
    # The last size that loses too much is followed by those that are enough.
    too_few = np.flatnonzero(law.losses > law.tolerance)
    after = int(too_few[-1]) + 1 if too_few.size else 0
    size = int(sizes[after]) if after < sizes.size else None
    high = None if size is None or size > 10_000 else size * 2 | 1
    return SizeRecommendation(
        size=size,
        criterion=criterion,
        tolerance=law.tolerance,
        loss=loss,
        limit=law.limit,
        agreement=agreement,
        interval=(max(1, (size or 20_001) // 2 | 1), high),
        reason=f"With {n_members} members, {loss:.2g} is lost against infinitely many; {law.tolerance:.2g} is "
        f"allowed, which takes {size or 'more than 20001'} members.",
        max_size=20_001,
        is_required=criterion != "agreement",
        sizes=sizes,
        losses=law.losses,
    )


def odd_sizes(largest: int) -> NDArray[np.int64]:
    """About 140 sizes from 1 on, log-spaced."""
    return np.unique(np.round(np.geomspace(1, largest, 140)).astype(np.int64) // 2 * 2 + 1)


@cache
def _votes() -> tuple[FloatArray, FloatArray, FloatArray]:
    """Chances that a member errs, and by size those that the majority errs or agrees with an infinite one: seconds."""
    centres, sizes = (np.arange(2000) + 0.5) / 2000, odd_sizes(20_001)
    return centres, _majority_tail(centres, sizes), _majority_tail(np.maximum(centres, 1.0 - centres), sizes)


def _majority_tail(probability: FloatArray, sizes: NDArray[np.int64]) -> FloatArray:
    half = (sizes[:, None] + 1) / 2
    return np.asarray(betainc(half, half, probability[None, :]), dtype=np.float64)


def _wilson(error: FloatArray, n_rows: int) -> tuple[FloatArray, FloatArray]:
    z = 1.96
    centre = (error + z**2 / (2 * n_rows)) / (1 + z**2 / n_rows)
    half = z * np.sqrt(error * (1 - error) / n_rows + z**2 / (4 * n_rows**2)) / (1 + z**2 / n_rows)
    return np.maximum(centre - half, 0.0), centre + half
