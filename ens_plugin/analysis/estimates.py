"""What an analysis estimates of the members' outputs, the models of rows that it is by, and errors by label."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.adapters.trees import vote_pairs
from ens_plugin.core.alike_rows import are_alike
from ens_plugin.core.comparison import shared_luck_variance
from ens_plugin.core.error_curve import (
    LabelVotes,
    RivalShift,
    fit_rival_shift,
    mean_error,
    tie_probability,
    tied_label_shift,
)
from ens_plugin.core.intervals import (
    ErrorDraws,
    algorithmic_variance,
    density_error_sd,
    posterior_error_sd,
    wilson_interval,
)
from ens_plugin.core.jackknife import left_out_sd
from ens_plugin.core.margins import MarginModel, fit_margins
from ens_plugin.core.pair_covariance import fold_groups, shared_variance
from ens_plugin.core.row_model import RowModel, effective_votes, is_close, model_error
from ens_plugin.core.sample import Sample
from ens_plugin.core.tally import (
    AnyTally,
    MarginTally,
    RowBlock,
    SupportTally,
    member_margins,
    parts_of,
    strongest_rival,
    sum_squares_over_members,
    take_rows,
)
from ens_plugin.core.validation import NEGLIGIBLE, FloatArray, is_tied, previous_odd_size
from ens_plugin.core.votes import Mixture, as_rough_as_known, fit_mixture, fixed_mixture
from ens_plugin.core.weights import RowWeight, effective_groups
from ens_plugin.findings import Finding, finding
from ens_plugin.report.result import FEWEST_ROWS, LabelErrors

if TYPE_CHECKING:
    from ens_plugin.analysis.metrics import ResolvedMetric
    from ens_plugin.core.grouped_tally import CrossedMargins, GroupedValues
    from ens_plugin.core.sample import Sample
    from ens_plugin.core.validation import FloatArray, IntArray
    from ens_plugin.report.result import BiasVariance, ErrorCurve, SizeRecommendation

__all__ = [
    "SLOW_ROWS",
    "Estimates",
    "ResolvedOptions",
    "algorithmic_sd",
    "are_votes",
    "correction_sd",
    "counts_hard_votes",
    "fit_support",
    "label_errors",
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
    """Error curve, size, bias, variance and deviation of an ensemble, with findings.

    `criteria` are the sizes by every criterion, of which `recommendation` is one; `metric_size` is that by a requested
    metric.  `error_draws` are of a classifier, for the size by its error, and `error_sd` is the standard error of the
    infinite ensemble's.  `baseline_error` is that of always predicting the commonest label, or the mean.
    `seed_variance` is that of the mean loss of these rows, as of :class:`ens_plugin.core.judged_rows.JudgedRows`.
    """

    error_curve: ErrorCurve
    recommendation: SizeRecommendation
    bias_variance: BiasVariance
    algorithmic_sd: float
    findings: tuple[Finding, ...] = ()
    criteria: tuple[SizeRecommendation, ...] = ()
    error_draws: ErrorDraws | None = None
    error_sd: float = math.nan
    baseline_error: float = math.nan
    metric_size: SizeRecommendation | None = None
    seed_variance: float = math.nan


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

# Rows of a random sample that slow estimates are made on.
SLOW_ROWS = 2_000
# Relative error of a correction, from simulations with known truth.
SHIFT_ERROR = 0.2
CROSSING_ERROR = 0.25
# With subsets of five members and more, the curve between them and the infinite ensemble is known well enough.
MOST_DOUBTED_SUBSET, ENOUGH_MEMBERS = 3, 7.0
LARGE_CORRECTION = 0.25


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
    part = sample.some_rows(SLOW_ROWS)
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
    if every_row[1] < NEGLIGIBLE * weight.row_sum(tally.trials):
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


# Bounds the time and the memory of one label.
MOST_ROWS = 5_000
# Rows that votes are drawn for, of all labels together: far more than any label's rows, whose error is noisier.
DRAWN_ROWS = 10_000
# Of each label, at least; of all together, SLOW_ROWS.
LEAST_OF_LABEL = 300
# Luck of the members that is a smaller part of that of the rows hardly widens an interval.
LEAST_LUCK = 0.25


def label_errors(
    estimates: Estimates,
    adapter: EnsembleAdapter,
    sample: Sample,
    tally: AnyTally,
    groups: NDArray[np.integer] | None,
) -> tuple[LabelErrors, ...]:
    """Return the error of each label at the current and recommended size and at infinity, and the confusion matrix.

    The distribution over rows is fitted label by label: one of all rows would draw a rare label's errors towards the
    others'.  All errors are then multiplied so that their mean is the error of the report, which is corrected by
    subsets of the members.
    """
    if adapter.classes is None:
        return ()
    block = sample.block
    predicted = np.argmax(block.support, axis=1)
    # The outputs of one member have no variance, which the distribution over rows is fitted with.
    is_used = (block.trials >= 2) & (sample.weight > 0)
    rows_of = [np.flatnonzero(is_used & (block.target == code)) for code in range(block.n_labels)]
    sizes = np.array([adapter.n_members, estimates.recommendation.size or np.nan, np.inf])
    error, n_worth = _errors(sample, tally, groups, rows_of, predicted, sizes)
    share = np.bincount(block.target, sample.weight, minlength=block.n_labels).astype(np.float64)
    level = np.array([estimates.bias_variance.ensemble_error, np.nan, estimates.bias_variance.asymptotic_error])
    error = np.clip(error * _factors(error, share, level, sizes)[:, None], 0.0, 1.0)
    # The members that happened to be trained move a label's error by at least as much as the error of all rows.
    of_rows = np.sqrt(error[0] * (1.0 - error[0]) / n_worth)
    of_members = np.maximum(_sd_over_members(sample, rows_of, groups, adapter, of_rows), estimates.algorithmic_sd)
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
    sample: Sample,
    tally: AnyTally,
    groups: NDArray[np.integer] | None,
    rows_of: list[NDArray[np.intp]],
    predicted: NDArray[np.intp],
    sizes: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """Return the errors, shape (n_sizes, n_labels), and the independent rows that each label's first error is worth.

    With few rows, the error at the first size is the share of rows whose members together predict a wrong label.
    """
    error = np.full((sizes.size, len(rows_of)), np.nan)
    n_worth = np.full(len(rows_of), np.nan)
    known, is_tied_often = ~np.isnan(sizes), isinstance(tally, MarginTally) and are_votes(sample.block)
    for code, rows in enumerate(rows_of):
        if not rows.size:
            continue
        if rows.size > MOST_ROWS:
            rows = np.sort(np.random.default_rng(0).permutation(rows)[:MOST_ROWS])
        weight = _row_weight(sample, groups, rows)
        n_rows = float(weight.effective().sum())
        if n_rows < FEWEST_ROWS:
            error[0, code], n_worth[code] = np.average(predicted[rows] != code, weights=weight.total), n_rows
        else:
            error[known, code], sd = _fitted(take_rows(tally, rows), weight, sizes[known], code)
            if is_tied_often:
                error[known, code] += _tie_shift(sample.block, rows, weight, sizes[known], code)
            n_worth[code] = _rows_worth(float(error[0, code]), sd, n_rows)
    return error, n_worth


def _sd_over_members(
    sample: Sample,
    rows_of: list[NDArray[np.intp]],
    groups: NDArray[np.integer] | None,
    adapter: EnsembleAdapter,
    of_rows: FloatArray,
) -> FloatArray:
    """Return the standard deviation of each label's error over draws of the members, for raw scores.

    Members that lean to one label raise the errors of the others, so that each varies far more than their mean.  0
    where it is small beside `of_rows`, that over samples of rows.
    """
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
    """Return to the first order the luck of the members that all rows share, as a standard deviation of their error.

    The mean margins are normal.
    """
    known, n = margins * counted, counted.sum(axis=0)
    mean = known.sum(axis=0) / n
    variance = np.einsum("mr,mr->r", known, known) / n - np.square(mean)
    spread = np.sqrt(np.maximum(variance, NEGLIGIBLE) / n)
    slopes = np.exp(-0.5 * np.square(mean / spread)) / (np.sqrt(2.0 * np.pi) * spread)
    shared = shared_luck_variance(margins, counted, slopes, float(n.size))
    return float(np.sqrt(shared * n.mean() / counted.shape[0]))


def _tie_shift(block: RowBlock, rows: NDArray[np.intp], weight: RowWeight, sizes: FloatArray, code: int) -> FloatArray:
    """Return what ties of three labels or more, which the first label wins, add to the error of rows of one label."""
    support = block.support[rows]
    votes = LabelVotes(support, support, support.sum(axis=1), block.target[rows].astype(np.int64))
    return tied_label_shift(votes, weight.total, code, sizes, DRAWN_ROWS // block.n_labels)


def _rows_worth(error: float, sd: float, n_rows: float) -> float:
    """Return the number of independent rows whose share of errors would have this deviation; `n_rows` for 0 and 1."""
    spread = error * (1.0 - error)
    return spread / sd**2 if spread > NEGLIGIBLE and sd > 0 else n_rows


def _fitted(tally: AnyTally, weight: RowWeight, sizes: FloatArray, code: int) -> tuple[FloatArray, float]:
    """Return the error of one label's rows at the sizes, and its standard deviation over rows at the first size.

    Hard votes of two labels that tie at even sizes give the first label, which is no error for its own rows.
    """
    if isinstance(tally, SupportTally):
        model = fit_support(tally, weight)
        if not counts_hard_votes(tally):
            return mean_error([model], sizes), float(density_error_sd(model, sizes[:1])[0])
        untied, even = previous_odd_size(sizes, np.inf), is_tied(sizes, np.inf)
        error = mean_error([model], untied)
        ties = tie_probability(model.support, sizes[even]) @ model.weights
        error[even] += (0.5 if code else -0.5) * ties
        return error, float(density_error_sd(model, untied[:1])[0])
    assert isinstance(tally, MarginTally)
    margins = fit_margins(tally.mean, tally.sd, tally.trials, weight)
    return mean_error([margins], sizes), float(posterior_error_sd(margins, sizes[:1])[0])


def _factors(error: FloatArray, share: FloatArray, level: FloatArray, sizes: FloatArray) -> FloatArray:
    """Return the factor of the errors at each size, by which their mean over labels becomes the level.

    A level that is not known is interpolated in 1/size above the first size; below it, the first factor holds.  The
    factors themselves may differ by any power of ten where hardly a row is wrong, and are not interpolated.
    """
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
