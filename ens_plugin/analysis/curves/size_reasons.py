"""Recommendations by an excess loss, and the reasons for recommended sizes, in sentences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ens_plugin.analysis.curves.estimates import ResolvedOptions
from ens_plugin.core.validation import FloatArray, counted
from ens_plugin.report.estimates import SizeRecommendation
from ens_plugin.report.quantities import criterion_words, level_text, size_interval_text

__all__ = ["agreement_reason", "as_told", "excess_recommendation", "metric_reason"]

# A size is stated where it is known to a factor of two either way.
MOST_TIMES = 4.0


def as_told(found: SizeRecommendation, level: float) -> SizeRecommendation:
    """Return a recommendation without its size, and with the reason, if its interval is too wide to tell a size.

    The upper end may be four times the lower one.  A size above all that are considered is told by an interval above
    them.

    Parameters
    ----------
    found : SizeRecommendation
    level : float
        Of its interval.
    """
    low, high = found.interval
    is_told = high <= MOST_TIMES * low if high is not None else low >= found.max_size
    if is_told or not found.has_interval:
        return found
    interval = size_interval_text(found.interval, found.max_size)
    reason = (
        f"How many members are needed for {criterion_words(found)} cannot be told from these rows: {interval} "
        f"({level_text(level)} interval), and a size is stated only where the upper end is at most {MOST_TIMES:g} "
        "times the lower one. Pass more rows, or train more members."
    )
    return replace(found, size=None, reason=reason)


def agreement_reason(size: int | None, agreement: float, n_members: int, settings: ResolvedOptions) -> str:
    """Return one sentence with the agreement of the members, and the size needed for the wanted agreement."""
    now = (
        f"With {counted(n_members, 'member')}, {100 * agreement:.2f} % of the labels are those of the infinite ensemble"
    )
    return _with_size(now, f"an agreement of {100 * settings.confidence:.6g} %", size, n_members, settings)


def excess_recommendation(
    criterion: Literal["excess_error", "probability"],
    loss: str,
    size: int | None,
    interval: tuple[int, int | None],
    excess: Callable[[ArrayLike], FloatArray],
    agreement: float | None,
    n_members: int,
    settings: ResolvedOptions,
) -> SizeRecommendation:
    """Return the recommendation of a size by the excess of a loss over that of the infinite ensemble.

    Parameters
    ----------
    criterion : {"excess_error", "probability"}
    loss : str
        Its name without an article, such as ``"mean squared error"``.
    size, interval, agreement
        Fields of the recommendation.
    excess : callable
        Returns the relative excess at some sizes; NaN where the loss of the infinite ensemble may be 0.
    n_members : int
    settings : ResolvedOptions
    """
    return SizeRecommendation(
        size=size,
        criterion=criterion,
        confidence=None,
        tolerance=settings.tolerance,
        agreement=agreement,
        interval=interval,
        reason=_excess_reason(loss, size, float(excess([n_members])[0]), n_members, settings),
        max_size=settings.max_size,
        sizes=settings.sizes.copy(),
        values=excess(settings.sizes),
    )


def metric_reason(
    size: int | None,
    difference: float,
    allowed: float,
    n_members: int,
    settings: ResolvedOptions,
    *,
    is_typical: bool = False,
) -> str:
    """Return one sentence with the distance of the metric from that of the infinite ensemble, and the size needed.

    Parameters
    ----------
    size : int or None
    difference : float
        Metric at the current size less that of the infinite ensemble: in its unit, or relative; NaN if not known.
    allowed : float
        Wanted distance, alike.
    n_members : int
    settings : ResolvedOptions
    is_typical : bool
        Whether the size is that of many curves, and not of the one that the difference is of.
    """
    metric = settings.metric
    assert metric is not None
    if np.isnan(difference):
        nothing = f"{settings.metric_reference:.3g}, that of chance," if metric.is_absolute else "0,"
        return f"The infinite ensemble's {metric.name} cannot be distinguished from {nothing} so no distance is small."
    side = "below" if difference < 0 else "above"
    if metric.is_absolute:
        distance, wanted = f"{abs(difference):.4f}", f"a difference of {allowed:.6g}"
    else:
        distance, wanted = f"{100 * abs(difference):.2f} %", f"a difference of {100 * allowed:.6g} %"
    state = f"With {counted(n_members, 'member')}, the {metric.name} is {distance} {side} that of the infinite ensemble"
    reason = _with_size(state, wanted, size, n_members, settings)
    seems_close = abs(difference) <= allowed
    if not is_typical or size is None or seems_close == (size <= n_members):
        return reason
    return f"{reason} The size is the geometric mean of those of many curves that these rows allow."


def _excess_reason(loss: str, size: int | None, now: float, n_members: int, settings: ResolvedOptions) -> str:
    if np.isnan(now):
        return f"The infinite ensemble's {loss} cannot be distinguished from 0, so no relative excess exists."
    below = "below" if now < 0 else "above"
    distance = f"{100 * abs(now):.2f} % {below}"
    state = f"With {counted(n_members, 'member')}, the {loss} is {distance} that of the infinite ensemble"
    return _with_size(state, f"an excess of {100 * settings.tolerance:.6g} %", size, n_members, settings)


def _with_size(state: str, wanted: str, size: int | None, n_members: int, settings: ResolvedOptions) -> str:
    if size is None:
        return f"{state}; {wanted} takes more than {counted(settings.max_size, 'member')}."
    if size <= n_members:
        return f"{state}; {counted(size, 'member is', 'members are')} enough for {wanted}."
    return f"{state}; {wanted} takes {counted(size, 'member')}."
