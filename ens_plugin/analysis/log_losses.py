"""The log loss of ensembles some members of which give a row's own label probability 0, and what is stated of zeros."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ens_plugin.analysis.metric_rows import MetricRows
from ens_plugin.core.intervals import SD_INFLATION
from ens_plugin.core.log_loss import CLIPPED_LOSS, OwnShares, fit_vote_shares, votes_per_member
from ens_plugin.core.validation import FloatArray, counted
from ens_plugin.core.weights import effective_groups, group_sums
from ens_plugin.findings import Finding, finding
from ens_plugin.report.result import ErrorCurve, ZeroProbabilities
from ens_plugin.report.text import error_text, interval_text

# A log loss counts as finite from the size on at which as many rows have no probability of 0 with this chance.
CHANCE = 0.9


@dataclass(frozen=True, eq=False)
class LogLosses:
    """The log loss of the rows with members by the number of members, where 0 counts as scikit-learn's smallest number.

    `share` is that of each row in the mean loss; `line` is the metric's intercept and slope in it; `inflation` is of
    standard deviations over samples of the rows.
    """

    shares: OwnShares
    share: FloatArray
    line: tuple[float, float]
    groups: NDArray[np.integer] | None
    inflation: float

    def values(self, sizes: FloatArray) -> FloatArray:
        """Return the metric at each size, infinity allowed."""
        intercept, slope = self.line
        return np.asarray(intercept + slope * (self.shares.losses(sizes) @ self.share))

    def covariance(self, sizes: FloatArray) -> FloatArray:
        """Return the covariance of :meth:`values` over samples of the rows, of which the densities are a part."""
        apart = self._apart(sizes)
        of_rows = self.inflation**2 * (apart @ apart.T)
        return np.asarray(self.line[1] ** 2 * (of_rows + self.shares.density_covariance(sizes, self.share)))

    @property
    def skewness(self) -> float:
        """Return the skewness of the infinite ensemble's metric over samples of the rows."""
        apart = self._apart(np.array([np.inf]))[0]
        spread = float(apart @ apart) ** 1.5
        return math.copysign(1.0, self.line[1]) * float((apart**3).sum()) / spread if spread else 0.0

    def _apart(self, sizes: FloatArray) -> FloatArray:
        """Return what each row, or group, adds to the mean loss's distance from its expectation, (n_sizes, n_units)."""
        losses = self.shares.losses(sizes)
        losses -= (losses @ self.share)[:, None]
        losses *= self.share
        return losses if self.groups is None else np.stack([group_sums(each, self.groups) for each in losses])

    def number(self, sizes: FloatArray) -> FloatArray:
        """Return how many of as many fresh rows all members give probability 0, as expected at each size."""
        return np.asarray(self.shares.zero_chances(sizes).sum(axis=1))

    def finite_from(self, most: int, allowed: float) -> int | None:
        """Return the smallest size from which on the log loss counts as finite; None if above `most`."""
        # As many fresh rows have no probability of 0 in nine of ten cases, or move the metric by no more than
        # `allowed`.
        change = abs(self.line[1]) * CLIPPED_LOSS / self.share.size
        fewest = max(-math.log(CHANCE), allowed / change if change else math.inf)
        return _first_size(lambda size: float(self.number(np.array([float(size)]))[0]) <= fewest, most)


def log_losses(rows: MetricRows, groups: NDArray[np.integer] | None) -> LogLosses | None:
    """Return the log loss by the number of members; None for other metrics, and where no member gives a row 0."""
    if rows.losses != "log":
        return None
    known, block = rows.known, rows.sample.block
    weight = np.ones(known.size) if rows.weight is None else rows.weight[known]
    own_groups = None if groups is None else groups[known]
    share = weight / weight.sum()
    n_effective = 1.0 / float(share @ share) if own_groups is None else effective_groups(weight, own_groups)
    as_rows = share * n_effective
    own, variance = rows.own_moments
    trials, several = rows.trials[known], rows.trials[known] > 1
    votes = votes_per_member(own[several], variance[several], trials[several], share[several])
    truth = np.eye(block.n_labels)[block.target[known].astype(np.intp)]
    perfect, worse = (rows.linked_value(output, known) for output in (truth, truth * math.exp(-1.0)))
    inflation = 1.0 if block.counted.all() else SD_INFLATION
    n_positive = rows.positive_members[known]
    positive = fit_vote_shares(n_positive, trials, as_rows)
    are_votes = np.allclose(own * trials, n_positive)
    probability = positive if are_votes else fit_vote_shares(own * trials, trials, as_rows, votes)
    return LogLosses(OwnShares(probability, positive), share, (perfect, worse - perfect), own_groups, inflation)


def _first_size(is_reached: Callable[[int], bool], most: int) -> int | None:
    """Return the smallest size at which a condition holds that holds at all larger ones; None if above `most`."""
    if not is_reached(most):
        return None
    low, high = 0, most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_reached(middle) else (middle, high)
    return high


def zero_findings(
    losses: LogLosses | None, curve: ErrorCurve, finite_from: int | None, n_members: int, max_size: int
) -> ZeroProbabilities | None:
    """Return what a report states of probabilities of 0; None where no member gives a row's label one."""
    if losses is None:
        return None
    last = max_size if finite_from is None else finite_from
    now, then, at_most = losses.number(np.array([n_members, last, max_size], dtype=np.float64))
    return ZeroProbabilities(
        finite_from=finite_from,
        chance=math.exp(-float(then)),
        share=float(now) / losses.share.size,
        share_at_most=float(at_most) / losses.share.size,
        clipped=curve.at(n_members),
        clipped_interval=curve.interval_at(n_members),
    )


def findings_on_zeros(
    found: ZeroProbabilities | None, curve: ErrorCurve, n_rows: int, n_members: int, max_size: int
) -> tuple[Finding, ...]:
    """Return a note where the log loss is finite only of more members than there are, and a doubt where never."""
    if found is None or (found.finite_from is not None and n_members >= found.finite_from):
        return ()
    metric = curve.metric
    printed = f"{error_text(found.clipped, metric)} ({interval_text(found.clipped_interval, metric)})"
    here = (
        f"On about {100.0 * found.share:.2g} % of fresh rows, all of {counted(n_members, 'member')} give the row's own "
        f"label probability 0, which makes the {metric} infinite. scikit-learn would print about {printed}, because it "
        "replaces 0 by 2e-16"
    )
    numbers = {"share": found.share, "chance": found.chance}
    if found.finite_from is None:
        return (finding("infinite-log-loss", f"{here}. {_never_finite(found, max_size)}", **numbers),)
    finite = (
        f"From {counted(found.finite_from, 'member')} on, that of {n_rows} rows is finite with a chance of "
        f"{100.0 * found.chance:.0f} % or more; the curve begins there."
    )
    return (finding("zero-probabilities", f"{here}. {finite}", **numbers),)


def _never_finite(found: ZeroProbabilities, max_size: int) -> str:
    return (
        f"Even of {max_size} members it would be on about {100.0 * found.share_at_most:.1g} % of rows, so no "
        "size makes it finite, and the curve is of what scikit-learn would print. Train members whose leaves are not "
        "pure (min_samples_leaf), calibrate the probabilities (sklearn.calibration.CalibratedClassifierCV), or choose "
        "'neg_brier_score'."
    )
