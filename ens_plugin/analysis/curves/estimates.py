"""Options and estimates of an analysis, and functions shared by classification and regression."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.shared.compiled_sums import vote_pairs
from ens_plugin.core.tallies.row_groups import effective_groups
from ens_plugin.core.uncertainty.intervals import algorithmic_variance
from ens_plugin.core.uncertainty.pair_covariance import fold_groups, shared_variance
from ens_plugin.errors import InputError
from ens_plugin.records import record

if TYPE_CHECKING:
    from ens_plugin.analysis.metrics.resolved import ResolvedMetric
    from ens_plugin.core.tallies.growth_path import PathTally
    from ens_plugin.core.tallies.row_weight import RowWeight
    from ens_plugin.core.tallies.subsets import Sample
    from ens_plugin.core.uncertainty.error_draws import ErrorDraws
    from ens_plugin.core.validation import FloatArray, IntArray
    from ens_plugin.report.estimates import BiasVariance, ErrorCurve, SizeRecommendation

__all__ = ["Estimates", "ResolvedOptions", "algorithmic_sd", "path_values"]


@record
class ResolvedOptions:
    """The checked options of an analysis.

    Attributes
    ----------
    estimator : str
        As the user chose it, ``"auto"`` replaced by a name.
    data : {"oob", "holdout"}
    criterion : {"agreement", "excess_error", "probability", "metric"}
        What the recommended size has to meet.
    chooses_criterion : bool
        Whether another criterion may take its place where no size is known.
    confidence, tolerance, interval_level : float
    probability_tolerance : float
        The tolerance of the Brier score; `tolerance` is that of the error.
    max_size : int
    sizes : ndarray of int
        Sizes to tabulate.
    random_state : int
        Seed of all random numbers.
    metric : ResolvedMetric or None
    metric_tolerance : float
        Wanted distance of the metric from its limit: in its unit, or as a share of the limit's distance from the
        reference.
    metric_reference : float or None
        0 of losses, chance of scores with a largest value; None where the tolerance is in the unit of the metric.
    """

    estimator: str
    data: str
    criterion: str
    chooses_criterion: bool
    confidence: float
    tolerance: float
    probability_tolerance: float
    interval_level: float
    max_size: int
    sizes: IntArray
    random_state: int
    metric: ResolvedMetric | None = None
    metric_tolerance: float = math.nan
    metric_reference: float | None = None

    def metric_distances(self, limit: ArrayLike) -> FloatArray:
        """Return how far the metric may be from each of some limits, in its unit."""
        values = np.asarray(limit, dtype=np.float64)
        if self.metric_reference is None:
            return np.full(values.shape, self.metric_tolerance)
        return np.asarray(self.metric_tolerance * np.abs(values - self.metric_reference))


@record
class Estimates:
    """Error curve, size, bias, variance and deviation of an ensemble, with warnings and doubts.

    Attributes
    ----------
    criteria : tuple of SizeRecommendation
        The size by every criterion; `recommendation` is one of them.
    error_draws : ErrorDraws or None
        Of a classifier, for the size by its error.
    metric_size : SizeRecommendation or None
        Where a metric was requested.
    """

    error_curve: ErrorCurve
    recommendation: SizeRecommendation
    bias_variance: BiasVariance
    algorithmic_sd: float
    cautions: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    criteria: tuple[SizeRecommendation, ...] = ()
    error_draws: ErrorDraws | None = None
    metric_size: SizeRecommendation | None = None


def path_values(path: PathTally, sizes: IntArray) -> FloatArray:
    """Return the error of the first members in the order of growth, at each of the sizes.

    Raises
    ------
    InputError
        If a size is above the number of members.
    """
    curve = path.curve()
    if sizes.max() > curve.size:
        raise InputError(
            f"size {sizes.max()} is above {curve.size}, the number of members, where the path estimator ends; use "
            "estimator='auto'."
        )
    return curve[sizes - 1]


def algorithmic_sd(
    outputs: NDArray[Any],
    sample: Sample,
    slopes: FloatArray,
    own_variance: FloatArray,
    weight: RowWeight,
    n_members: int,
    groups: NDArray[np.integer] | None,
    of_members: FloatArray | None = None,
) -> float:
    """Return the standard deviation of the error over seeds.

    It is estimated from the sampled rows, each with its slope, own variance and, where there are any, group; and the
    variance of its members' outputs that count, where it is known.

    For held-out rows it is that of the error on these rows; for out-of-bag rows, on infinitely many new rows.
    """
    n_rows, counted = weight.n_rows, sample.block.counted
    relative = sample.weight / (weight.total.sum() / n_rows)
    if counted.all():
        own = own_variance * relative**2
        variance = algorithmic_variance(outputs, counted, slopes * relative, own, n_members, n_rows)
    else:
        slopes, n_effective = slopes * relative, weight.n_effective
        if groups is not None:
            outputs, counted, slopes = fold_groups(outputs, counted, slopes, groups)
            of_members = None
            assert weight.groups is not None
            n_effective = effective_groups(weight.total, weight.groups) * slopes.size / np.unique(groups).size
        variance = shared_variance(outputs, counted, slopes, n_members, n_effective, vote_pairs(), of_members)
    return float(np.sqrt(variance))
