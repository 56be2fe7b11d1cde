"""What to think of a metric without a value at probability 0, such as the log loss, where probabilities are 0."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from ens_plugin.analysis.metric_curves.metric_rows import MetricRows
from ens_plugin.core.estimates.low_chances import LowChances, none_of
from ens_plugin.core.validation import FloatArray, counted
from ens_plugin.errors import InputError
from ens_plugin.records import record
from ens_plugin.report.estimates import ErrorCurve, ZeroProbabilities
from ens_plugin.report.quantities import error_text, interval_text

__all__ = ["ZeroRows", "expected_zeros", "refuse_no_value", "zero_findings", "zero_probability_texts"]

# Weights of equal probabilities mixed into the mean outputs, to check whether the metric has a value at 0.
PULLS = (1e-9, 1e-6)
NO_VALUE = 1e-4
# A log loss counts as finite from the size on at which as many rows have no probability of 0 with this chance.
CHANCE = 0.9


def refuse_no_value(rows: MetricRows) -> None:
    """Raise InputError if some mean probabilities are 0, where the metric has no value, as a user's own log loss.

    To find out, a small and a smaller share of the uniform distribution are mixed into the probabilities.  Of a metric
    with a value at 0, both mixtures have nearly the same value; a logarithm differs between them.
    """
    if rows.losses == "log":
        return
    known = rows.known
    mean = rows.linked[known]
    if not rows.sample.block.n_labels or mean.ndim != 2 or mean.min() > 0 or mean.min() < 0:
        return
    little, more = (rows.linked_value((1.0 - pull) * mean + pull / mean.shape[1], known) for pull in PULLS)
    if abs(little - more) <= NO_VALUE * max(abs(more), 1e-12):
        return
    found = rows.linked_value(mean, known)
    remedy = (
        "Pass a function of your own that clips the probabilities (for example lambda y, p: log_loss(y, np.clip(p, "
        "0.01, 1)))"
        if rows.metric.greater_is_better
        else "Clip the probabilities in your metric (for example np.clip(p, 0.01, 1))"
    )
    raise InputError(
        f"metric {rows.metric.name!r} has no value of its own on these rows: some out-of-bag mean probabilities are 0, "
        f"and the metric is {found:.4g}, {little:.4g} or {more:.4g} if they are replaced by 0, "
        f"{PULLS[0] / mean.shape[1]:.0e} or {PULLS[1] / mean.shape[1]:.0e}. {remedy}, train members whose leaves are "
        "not pure (min_samples_leaf), or train more members."
    )


@record
class ZeroRows:
    """Rows whose label has probability 0 by all members of an ensemble, as far as they are to be expected.

    Attributes
    ----------
    positive, trials : ndarray, shape (n_cells,)
        Members that give the label of a row that is not low a probability above 0, and members; of rows alike.
    n_alike : ndarray, shape (n_cells,)
        Number of these rows.
    low : LowChances
        Of the low rows.
    n_zero, n_rows : int
        Rows whose label has probability 0 by all of their own members, and all rows.
    change : float
        By how much one of them moves the metric.
    """

    positive: FloatArray
    trials: FloatArray
    n_alike: FloatArray
    low: LowChances
    n_zero: int
    n_rows: int
    change: float

    def number(self, sizes: ArrayLike) -> FloatArray:
        """Return the expected number of them among as many fresh rows at each size."""
        wanted = np.atleast_1d(np.asarray(sizes, dtype=np.float64))[:, None]
        others = none_of(self.positive + 1.0, self.trials - self.positive + 1.0, wanted)
        return np.asarray(others @ self.n_alike + self.low.zero_chances(wanted[:, 0]).sum(axis=1))

    def effect(self, sizes: ArrayLike) -> FloatArray:
        """Return by how much these rows move the metric at each size."""
        return np.asarray(self.number(sizes) * self.change)

    def chance(self, size: float) -> float:
        """Return the chance that as many fresh rows have no probability of 0 at a size."""
        return math.exp(-float(self.number(size)[0]))

    def finite_from(self, most: int, allowed: float) -> int | None:
        """Return the smallest size from which on the log loss counts as finite; None if above `most`.

        It does where as many fresh rows have no probability of 0 in nine of ten cases, or where they move the metric by
        no more than `allowed`.
        """
        fewest = max(-math.log(CHANCE), allowed / abs(self.change) if self.change else math.inf)
        return _first_size(lambda size: float(self.number(size)[0]) <= fewest, most)


def expected_zeros(rows: MetricRows) -> ZeroRows | None:
    """Return the rows with probability 0 to expect among fresh rows; None for other metrics than a log loss.

    By how many members a row's label has a probability above 0 tells how often all members of an ensemble give 0.
    """
    known = rows.known
    if rows.losses != "log" or np.all(rows.positive_members[known] == rows.trials[known]):
        return None
    others = known[~rows.low[known]]
    cells, n_alike = np.unique(
        np.stack([rows.positive_members[others], rows.trials[others]]), axis=1, return_counts=True
    )
    n_zero = int(np.count_nonzero(rows.own_probability[known] <= 0.0))
    return ZeroRows(
        cells[0], cells[1], n_alike.astype(np.float64), rows.low_chances, n_zero, known.size, _change_of_one(rows)
    )


def _change_of_one(rows: MetricRows) -> float:
    """Return by how much a log loss changes if the label of one row has probability 0 in place of nearly 1."""
    known = rows.known
    surest = known[np.argmax(rows.own_probability[known])]
    output = rows.finite[known].copy()
    level = rows.linked_value(output, known)
    output[known == surest] = np.eye(output.shape[1])[(rows.sample.block.target[surest] + 1) % output.shape[1]]
    return rows.linked_value(output, known) - level


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
    zeros: ZeroRows | None, curve: ErrorCurve, finite_from: int | None, n_members: int, max_size: int
) -> ZeroProbabilities | None:
    """Return what a report states of probabilities of 0; None where no member gives a row's label one.

    Parameters
    ----------
    zeros : ZeroRows or None
        Of :func:`expected_zeros`.
    curve : ErrorCurve
        With the clipped values at all sizes.
    finite_from : int or None
        Of :meth:`ZeroRows.finite_from`.
    n_members, max_size : int
    """
    if zeros is None:
        return None
    last = max_size if finite_from is None else finite_from
    share, last_share = zeros.number([n_members, max_size]) / zeros.n_rows
    return ZeroProbabilities(
        finite_from=finite_from,
        chance=zeros.chance(last),
        share=float(share),
        share_at_most=float(last_share),
        clipped=curve.at(n_members),
        clipped_interval=curve.interval_at(n_members),
    )


def zero_probability_texts(
    found: ZeroProbabilities | None, curve: ErrorCurve, n_rows: int, n_members: int, max_size: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return warnings and doubts about probabilities of 0.

    There is a warning where the log loss is finite only of more members than there are, and a doubt where it is not of
    as many as are considered.
    """
    if found is None or (found.finite_from is not None and n_members >= found.finite_from):
        return (), ()
    metric = curve.metric
    printed = f"{error_text(found.clipped, metric)} ({interval_text(found.clipped_interval, metric)})"
    here = (
        f"On about {100.0 * found.share:.2g} % of fresh rows, all of {counted(n_members, 'member')} give the row's own "
        f"label probability 0, which makes the {metric} infinite. scikit-learn would print about {printed}, because it "
        "replaces 0 by 2e-16"
    )
    if found.finite_from is not None:
        return (
            f"{here}. From {counted(found.finite_from, 'member')} on, that of {n_rows} rows is finite with a chance of "
            f"{100.0 * found.chance:.0f} % or more; the curve begins there.",
        ), ()
    return (), (
        f"{here}. Even of {max_size} members it would be on about {100.0 * found.share_at_most:.1g} % of rows, so no "
        "size makes it finite, and the curve is of what scikit-learn would print. Train members whose leaves are not "
        "pure (min_samples_leaf), calibrate the probabilities (sklearn.calibration.CalibratedClassifierCV), or choose "
        "'neg_brier_score'.",
    )
