"""The error of a classifier by label, and its confusion matrix."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.analysis.estimates import Estimates, are_votes, counts_hard_votes, fit_support
from ens_plugin.core.anchoring import LabelVotes, mean_error, tie_probability, tied_label_shift
from ens_plugin.core.comparison import shared_luck_variance
from ens_plugin.core.intervals import density_error_sd, posterior_error_sd, wilson_interval
from ens_plugin.core.jackknife import left_out_sd
from ens_plugin.core.margins import fit_margins
from ens_plugin.core.sample import Sample
from ens_plugin.core.tally import (
    AnyTally,
    MarginTally,
    RowBlock,
    SupportTally,
    member_margins,
    strongest_rival,
    take_rows,
)
from ens_plugin.core.validation import FloatArray, is_tied, previous_odd_size
from ens_plugin.core.weights import RowWeight, effective_groups
from ens_plugin.report.result import FEWEST_ROWS, LabelErrors

__all__ = ["label_errors"]

# The outputs of one member have no variance, which the distribution over rows is fitted with.
MIN_MEMBERS = 2
# Bounds the time and the memory of one label.
MOST_ROWS = 5_000
# Rows that votes are drawn for, of all labels together: far more than any label's rows, whose error is noisier.
DRAWN_ROWS = 10_000
CERTAIN = 1e-12
# Of all labels together, and at least of each.
JACKKNIFE_ROWS, LEAST_OF_LABEL = 2_000, 300
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
    is_used = (block.trials >= MIN_MEMBERS) & (sample.weight > 0)
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
    n_used = max(JACKKNIFE_ROWS // len(rows_of), LEAST_OF_LABEL)
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
    spread = np.sqrt(np.maximum(variance, CERTAIN) / n)
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
    return spread / sd**2 if spread > CERTAIN and sd > 0 else n_rows


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
