"""What an analysis estimates of the members' outputs, the models of rows that it is by, and errors by label."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.core.intervals import DrawnCurve
from ens_plugin.core.sample import Sample
from ens_plugin.core.seed_variance import variance_on_fresh_rows, variance_on_held_out_rows
from ens_plugin.core.tally import RowBlock
from ens_plugin.core.validation import FloatArray
from ens_plugin.core.weights import RowWeight, effective_groups
from ens_plugin.findings import Finding

if TYPE_CHECKING:
    from ens_plugin.analysis.metrics import ResolvedMetric
    from ens_plugin.core.sample import Sample
    from ens_plugin.core.validation import FloatArray, IntArray
    from ens_plugin.report.result import BiasVariance, ErrorCurve, SizeRecommendation


@dataclass(frozen=True, eq=False)
class ResolvedOptions:
    """The checked options of an analysis.

    Attributes
    ----------
    respects : tuple of {"agreement", "error", "probability", "metric"}
        In which the recommended size has to be enough.
    tolerance : float or None
        Loss of the error or the Brier score that is allowed, as a share of that of the infinite ensemble, where the
        user named one.
    agreement_tolerance : float
        Share of labels that may differ from those of the infinite ensemble.
    sizes : ndarray of int
        Sizes to tabulate.
    metric_tolerance : float
        Wanted distance of the metric from its limit: in its unit, or as a share of the limit's distance from the
        reference.
    metric_reference : float or None
        0 of losses, chance of scores with a largest value; None where the tolerance is in the unit of the metric.
    """

    data: str
    respects: tuple[str, ...]
    tolerance: float | None
    agreement_tolerance: float
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


@dataclass(frozen=True, eq=False)
class Estimates:
    """Error curve, sizes, bias, variance and deviation of an ensemble, with findings.

    What not every report needs is a function, which computes it when it is first called: `algorithmic_sd` the deviation
    over seeds, and `sizes`, by the name of a criterion, the size by it, or None where the model has none.  `agreement`
    is that of the current size.  `error_draws` are of a classifier, for the size by its error, and `error_sd` is the
    standard error of the infinite ensemble's.  `baseline_error` is that of always predicting the commonest label, or
    the mean.  `seed_variance` is that of the mean loss of these rows, as of
    :class:`ens_plugin.core.judged_rows.JudgedRows`.
    """

    error_curve: ErrorCurve
    bias_variance: BiasVariance
    algorithmic_sd: Callable[[], float]
    sizes: Mapping[str, Callable[[], SizeRecommendation | None]]
    agreement: float | None = None
    findings: tuple[Finding, ...] = ()
    error_draws: DrawnCurve | None = None
    error_sd: float = math.nan
    baseline_error: float = math.nan
    seed_variance: float = math.nan

    def sizes_by(self, criteria: Iterable[str]) -> tuple[SizeRecommendation, ...]:
        """Return the sizes by some criteria, without those that the model has none by."""
        found = (self.sizes[criterion]() for criterion in criteria if criterion in self.sizes)
        return tuple(each for each in found if each is not None)


def algorithmic_sd(
    outputs: NDArray[Any],
    sample: Sample,
    slopes: FloatArray,
    own_variance: FloatArray,
    weight: RowWeight,
    n_members: int,
    groups: NDArray[np.integer] | None,
) -> float:
    """Return the standard deviation of the error over seeds."""
    # It is estimated from the sampled rows, each with its slope, own variance and, where there are any, group. For
    # held-out rows it is that of the error on these rows; for out-of-bag rows, on infinitely many new rows.
    n_rows, counted = weight.n_rows, sample.block.counted
    relative = sample.weight / (weight.total.sum() / n_rows)
    if counted.all():
        own = own_variance * relative**2
        return math.sqrt(variance_on_held_out_rows(outputs, slopes * relative, own, n_members, n_rows))
    n_effective = weight.n_effective if weight.groups is None else effective_groups(weight.total, weight.groups)
    return math.sqrt(variance_on_fresh_rows(outputs, counted, slopes * relative, n_members, n_effective, groups))


# Rows of a random sample that slow estimates are made on.
SLOW_ROWS = 2_000


def are_votes(block: RowBlock) -> bool:
    """Return whether each member gives all of its support to one label, so that an ensemble's labels often tie."""
    if block.is_vote:
        return True
    # The sums are known already, and those of probabilities are hardly ever whole.
    return not np.any(block.support % 1.0) and bool(np.all((block.outputs == 0) | (block.outputs == 1)))
