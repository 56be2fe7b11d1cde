"""What an analysis estimates of the members' outputs, and the models of rows that it is estimated by."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.trees import vote_pairs
from ens_plugin.core.anchoring import LabelVotes, RivalShift, fit_rival_shift
from ens_plugin.core.intervals import ErrorDraws, algorithmic_variance
from ens_plugin.core.margins import MarginModel, fit_margins
from ens_plugin.core.pair_covariance import fold_groups, shared_variance
from ens_plugin.core.repeated_rows import are_alike
from ens_plugin.core.row_model import RowModel, effective_votes, is_close, model_error
from ens_plugin.core.tally import (
    AnyTally,
    MarginTally,
    PathTally,
    RowBlock,
    SupportTally,
    parts_of,
    sum_squares_over_members,
)
from ens_plugin.core.votes import Mixture, as_rough_as_known, fit_mixture, fixed_mixture
from ens_plugin.core.weights import RowWeight, effective_groups
from ens_plugin.errors import InputError
from ens_plugin.findings import Finding, finding

if TYPE_CHECKING:
    from ens_plugin.analysis.metrics import ResolvedMetric
    from ens_plugin.core.grouped_tally import CrossedMargins, GroupedValues
    from ens_plugin.core.sample import Sample
    from ens_plugin.core.validation import FloatArray, IntArray
    from ens_plugin.report.result import BiasVariance, ErrorCurve, SizeRecommendation

__all__ = [
    "Estimates",
    "ResolvedOptions",
    "algorithmic_sd",
    "are_votes",
    "correction_sd",
    "counts_hard_votes",
    "fit_support",
    "path_values",
    "rival_doubts",
    "row_models",
    "shift_errors",
    "soft_spreads",
]


@dataclass(frozen=True, eq=False)
class ResolvedOptions:
    """The checked options of an analysis.

    Attributes
    ----------
    estimator : str
        As the user chose it, ``"auto"`` replaced by a name.
    criterion : {"agreement", "excess_error", "probability", "metric"}
        What the recommended size has to meet.
    chooses_criterion : bool
        Whether another criterion may take its place where no size is known.
    probability_tolerance : float
        The tolerance of the Brier score; `tolerance` is that of the error.
    sizes : ndarray of int
        Sizes to tabulate.
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


@dataclass(frozen=True, eq=False)
class Estimates:
    """Error curve, size, bias, variance and deviation of an ensemble, with findings.

    `criteria` are the sizes by every criterion, of which `recommendation` is one; `metric_size` is that by a requested
    metric, and `error_draws` are of a classifier, for the size by its error.
    `seed_variance` is that of the mean loss of these rows, as of :class:`ens_plugin.core.judged_rows.JudgedRows`.
    """

    error_curve: ErrorCurve
    recommendation: SizeRecommendation
    bias_variance: BiasVariance
    algorithmic_sd: float
    findings: tuple[Finding, ...] = ()
    criteria: tuple[SizeRecommendation, ...] = ()
    error_draws: ErrorDraws | None = None
    metric_size: SizeRecommendation | None = None
    seed_variance: float = math.nan


def path_values(path: PathTally, sizes: IntArray) -> FloatArray:
    """Return the error of the first members in the order of growth, at each of the sizes."""
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


FittedModel = TypeVar("FittedModel", Mixture, "MarginModel")

SHIFT_ROWS = 2_000
# Relative error of a correction, from simulations with known truth.
SHIFT_ERROR = 0.2
CROSSING_ERROR = 0.25
# With subsets of five members and more, the curve between them and the infinite ensemble is known well enough.
MOST_DOUBTED_SUBSET, ENOUGH_MEMBERS = 3, 7.0
LARGE_CORRECTION = 0.25
NO_VARIANCE = 1e-14


def row_models(
    tally: SupportTally | MarginTally,
    weight: RowWeight,
    spreads: FloatArray | None,
    crossed: CrossedMargins | None,
    sample: Sample,
    has_scores: bool,
) -> list[RowModel]:
    """Return one row model fitted to the tally; two, with different rival labels, for raw scores of over two labels."""
    if isinstance(tally, SupportTally):
        fitted = fit_support(tally, weight, spreads)
        rougher = as_rough_as_known(fitted) if counts_hard_votes(tally) else fitted
        # Ordinary votes show no rougher density, and the rows need not be compared then.
        if rougher is not fitted and are_alike(sample):
            rougher = fitted
        return [_of_rows(rougher, sample.rows)]
    model = _of_rows(fit_margins(tally.mean, tally.sd, tally.trials, weight), sample.rows)
    if not has_scores:
        found = _rival_shift(sample)
        return [replace(model, shift=found.shift, shift_loss=found.shift_loss, left_out_shifts=found.left_out)]
    if crossed is None and np.array_equal(tally.mean, tally.cross_mean):
        return [model]
    return [model, _crossed_model(tally, weight, crossed, sample)]


def fit_support(tally: SupportTally, weight: RowWeight, spreads: FloatArray | None = None) -> Mixture:
    """Return the distribution over rows of the chance that a member supports the wrong one of two labels."""
    votes = _votes_per_member(tally, weight, spreads)
    if np.isinf(votes):
        return fixed_mixture(tally.wrong / tally.trials, weight)
    return fit_mixture(tally.wrong, tally.trials, weight, votes_per_member=votes)


def _crossed_model(
    tally: MarginTally, weight: RowWeight, crossed: CrossedMargins | None, sample: Sample
) -> MarginModel:
    if crossed is None:
        return _of_rows(fit_margins(tally.cross_mean, tally.cross_sd, tally.trials, weight), sample.rows)
    return _of_rows(fit_margins(crossed.mean, crossed.sd, crossed.trials, crossed.weight), crossed.sampled)


def _rival_shift(sample: Sample) -> RivalShift:
    """Return the shift of margins due to rival labels chosen by noisy votes, estimated on some sampled rows."""
    part = sample.some_rows(SHIFT_ROWS)
    block = part.block
    support = block.support
    is_vote = block.outputs.ndim == 2
    squares = support if is_vote else sum_squares_over_members(block.outputs, block.counted)
    votes = LabelVotes(support, squares, block.trials, block.target)
    return fit_rival_shift(votes, part.weight)


def _of_rows(model: FittedModel, rows: NDArray[np.intp]) -> FittedModel:
    """Return a fitted model of only some of the rows, given by their positions in the tally."""
    return replace(model, group=model.group[rows])


def _votes_per_member(tally: SupportTally, weight: RowWeight, spreads: FloatArray | None) -> float:
    """Return how many votes one member's probability is worth: 1 for hard votes, infinite where all members agree."""
    if counts_hard_votes(tally):
        return 1.0
    every_row, close_rows = soft_spreads(tally) if spreads is None else spreads
    if every_row[1] < NO_VARIANCE * weight.row_sum(tally.trials):
        return np.inf
    return effective_votes(every_row, close_rows)


def soft_spreads(tally: SupportTally) -> FloatArray:
    """Return two sums over rows, which compare the spread of the members with that of hard votes, shape (2, 2).

    A row's n members have a mean support q for wrong labels, with variance v (ddof 1).  The sums are of n q(1 - q) + v,
    in which q(1 - q) is too low by v/n, and of n v; over all rows, and over those with close votes.
    """
    return np.asarray(np.sum([_spreads(part) for _, part in parts_of(tally)], axis=0))


def _spreads(tally: SupportTally) -> FloatArray:
    trials = tally.trials
    share = tally.wrong / trials
    variance = (tally.squares - trials * share**2) / (trials - 1.0)
    close = is_close(1.0 - 2.0 * share)
    spreads = np.stack([trials * share * (1.0 - share) + variance, trials * variance])
    return np.stack([spreads.sum(axis=1), spreads[:, close].sum(axis=1)])


def counts_hard_votes(tally: AnyTally | GroupedValues) -> bool:
    """Return whether the tally counts hard votes for one of two labels."""
    if not isinstance(tally, SupportTally):
        return False
    # Of votes both are mostly one array.
    wrong, squares = vars(tally)["wrong"], vars(tally)["squares"]
    return wrong is squares or all(np.array_equal(part.wrong, part.squares) for _, part in parts_of(tally))


def are_votes(block: RowBlock) -> bool:
    """Return whether each member gives all of its support to one label, so that an ensemble's labels often tie."""
    if block.is_vote:
        return True
    # The sums are known already, and those of probabilities are hardly ever whole.
    return not np.any(block.support % 1.0) and bool(np.all((block.outputs == 0) | (block.outputs == 1)))


def correction_sd(models: list[RowModel], sizes: FloatArray) -> FloatArray:
    """Return the standard error, by size, of the models' correction for rival labels chosen by noisy votes."""
    other = _without_correction(models)
    if other is None:
        return np.zeros(sizes.size)
    relative = CROSSING_ERROR if len(models) > 1 else SHIFT_ERROR
    return relative * np.abs(model_error(models[0], sizes) - model_error(other, sizes))


def shift_errors(model: RowModel, sizes: FloatArray) -> FloatArray:
    r"""Return independent errors of the shift for noisily selected rivals, as changes of the error at each size.

    The shift comes from few simulations.  By the jackknife, with :math:`\theta_{(g)}` computed without simulation g of
    G, the errors are :math:`\sqrt{(G - 1) / G} \, (\theta_{(g)} - \bar\theta)`: their squares add up to the variance.
    """
    if isinstance(model, Mixture) or not isinstance(model, MarginModel) or model.left_out_shifts is None:
        return np.empty((0, sizes.size))
    shifted = [replace(model, shift=shift, shift_loss=loss) for shift, loss in model.left_out_shifts]
    left_out = np.array([model_error(each, sizes) for each in shifted])
    return np.asarray(np.sqrt(1.0 - 1.0 / len(left_out)) * (left_out - left_out.mean(axis=0)))


def rival_doubts(
    models: list[RowModel], largest_subset: int, tally: AnyTally, weight: RowWeight
) -> tuple[Finding, ...]:
    """Return a doubt where rows have too few members to tell which label is the strongest rival of the true one.

    The error of three members and fewer is known from subsets.  Beyond, it then rests on the correction for rivals that
    noisy votes chose, which errs where it is a quarter of the error or more.
    """
    other = _without_correction(models)
    if other is None or largest_subset > MOST_DOUBTED_SUBSET:
        return ()
    corrected = float(np.mean([model_error(model, [np.inf]) for model in models]))
    # Of raw scores, the first model is the one without a correction.
    uncorrected = float(model_error(models[0] if len(models) > 1 else other, [np.inf])[0])
    if abs(corrected - uncorrected) < LARGE_CORRECTION * max(corrected, uncorrected):
        return ()
    n_members = weight.row_sum(tally.trials) / weight.n_rows
    sentence = (
        f"Each row is judged by {n_members:.1f} members on average, too few to tell which label is the strongest rival "
        f"of the true one. A correction for this moves the error of the infinite ensemble from "
        f"{100 * uncorrected:.3g} to {100 * corrected:.3g} %, so that the error beyond {MOST_DOUBTED_SUBSET} members, "
        "its interval and its spread over seeds may be wrong. Train about "
        f"{np.ceil(ENOUGH_MEMBERS / n_members):.0f} times as many members."
    )
    numbers = {"members_per_row": n_members, "uncorrected_error": uncorrected, "corrected_error": corrected}
    return (finding("uncertain-rival", sentence, **numbers),)


def _without_correction(models: list[RowModel]) -> RowModel | None:
    """Return the model that differs from the first by the correction for rivals; None where there is none."""
    first = models[0]
    if len(models) > 1:
        return models[1]
    if isinstance(first, Mixture):  # of two labels, which need no correction
        return None
    return replace(first, shift=0.0, shift_loss=0.0) if isinstance(first, MarginModel) and first.shift != 0.0 else None
