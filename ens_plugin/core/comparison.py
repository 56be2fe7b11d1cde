"""Differences between ensembles on the same rows, with their noise."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri, stdtrit

from ens_plugin.core.intervals import wilson_interval
from ens_plugin.core.judged_rows import JudgedRows, judged_by_both
from ens_plugin.core.tally import LabelTally, ValueTally
from ens_plugin.core.validation import FloatArray, as_weight


def squared_losses_at(tally: ValueTally, size: float) -> FloatArray:
    r"""Return the unbiased squared error of each row at an ensemble size; NaN for a row with fewer than two members.

    :math:`(\bar h_i - y_i)^2 - S_i^2 / n_i + S_i^2 / B`.
    """
    trials = np.maximum(tally.trials, 1.0)
    losses = (tally.mean - tally.target) ** 2 - tally.variance / trials + tally.variance / size
    return np.where(tally.trials >= 2, losses, np.nan)


def agreement_interval(
    first: ArrayLike, second: ArrayLike, weight: ArrayLike | None, level: float
) -> tuple[float, float, float]:
    """Return the share of rows to which two models give the same label, and the limits of its Wilson interval."""
    # The interval is for Kish's effective number of rows.
    same = np.asarray(first) == np.asarray(second)
    w = as_weight(weight, same.size)
    n_effective = float(w.sum() ** 2 / (w @ w))
    share = float(w @ same / w.sum())
    lower, upper = wilson_interval(share, np.sqrt(share * (1.0 - share) / n_effective), n_effective, level)
    return share, float(lower), float(upper)


def interval_over_seeds(
    error: float, interval: tuple[float, float], algorithmic_sd: float, level: float
) -> tuple[float, float]:
    r"""Return an interval of an error over samples of rows, widened to cover the variation over seeds.

    Each end is moved out from its distance d to `error` to :math:`\sqrt{d^2 + (z \, \mathrm{sd})^2}`.
    """
    seeds = float(ndtri(0.5 + level / 2.0)) * algorithmic_sd
    lower, upper = interval
    return error - float(np.hypot(error - lower, seeds)), error + float(np.hypot(upper - error, seeds))


# Bound on the variance of a mean of out-of-bag losses, in variances of a mean of as many independent ones.
OUT_OF_BAG_FACTOR = 2.0


class Difference(NamedTuple):
    """A difference of two mean losses, with the limits of its interval."""

    estimate: float
    lower: float
    upper: float


def row_losses(tally: LabelTally | ValueTally) -> FloatArray:
    """Return the 0-1 error or squared error, on each row, of the mean output of its out-of-bag members."""
    # A tie of labels counts as half an error. NaN for a row without out-of-bag members.
    losses = (tally.mean - tally.target) ** 2 if isinstance(tally, ValueTally) else tally.error
    return np.where(tally.trials > 0, losses, np.nan)


def share_difference(candidate: FloatArray, baseline: FloatArray, level: float) -> Difference:
    r"""Return the difference, candidate minus baseline, of two shares of wrong labels on the same rows; its interval.

    Agresti and Min (2005): half a row is added to each cell of the table of both losses, so that the interval has a
    width also where the ensembles never differ.  With :math:`N' = N + 2` and :math:`d' = \sum d / N'` it is
    :math:`d' \pm z \sqrt{(\sum d^2 + 1)/N' - d'^2} / \sqrt{N'}`.
    """
    difference = candidate - baseline
    n = difference.size + 2.0
    centre = float(difference.sum()) / n
    variance = (float(difference @ difference) + 1.0) / n - centre**2
    half = float(ndtri(0.5 + level / 2.0)) * math.sqrt(variance / n)
    return Difference(float(difference.mean()), max(centre - half, -1.0), min(centre + half, 1.0))


def mean_difference(candidate: FloatArray, baseline: FloatArray, level: float) -> Difference:
    """Return the difference, candidate minus baseline, of two mean losses on the same rows, with Student's interval."""
    difference = candidate - baseline
    estimate = float(difference.mean())
    sd = float(difference.std(ddof=1))
    half = float(stdtrit(difference.size - 1, 0.5 + level / 2.0)) * sd / math.sqrt(difference.size)
    return Difference(estimate, estimate - half, estimate + half)


def separate_difference(candidate: Difference, baseline: Difference) -> Difference:
    """Return the difference of two independent estimates, with the widest interval that their intervals allow."""
    return Difference(
        candidate.estimate - baseline.estimate, candidate.lower - baseline.upper, candidate.upper - baseline.lower
    )


# Rows whose differences vary, so that there is a variance.
FEWEST_PAIRS = 2


def paired_difference(candidate: JudgedRows, baseline: JudgedRows, task: str, level: float) -> Difference:
    """Return the candidate's error minus the baseline's, at their own sizes, on the rows that both predict.

    The interval includes the variance over seeds of both ensembles.

    Notes
    -----
    Squared errors out of bag are correlated in pairs: what row i does to the loss of row j goes with what j does to
    that of i.  At most, this doubles the variance over the rows.
    """
    both = judged_by_both(candidate, baseline)
    compare = share_difference if task == "classification" else mean_difference
    first, second = (judged.losses[both].astype(np.float64) for judged in (candidate, baseline))
    found = compare(first, second, level)
    reach = math.sqrt(max(candidate.row_factor, baseline.row_factor))
    over_rows = tuple(found.estimate + reach * (end - found.estimate) for end in (found.lower, found.upper))
    seeds = math.sqrt(candidate.seed_variance + baseline.seed_variance)
    lower, upper = interval_over_seeds(found.estimate, (over_rows[0], over_rows[1]), seeds, level)
    shift = candidate.shift - baseline.shift
    return Difference(found.estimate + shift, lower + shift, upper + shift)
