"""The figure of the recommended size: what it is recommended by, against the ensemble size."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from ens_plugin.report.chart_style import axes_or_new
from ens_plugin.report.estimates import SizeRecommendation
from ens_plugin.report.plots.size_chart import add_curves
from ens_plugin.report.plots.size_curve import SizeCurve
from ens_plugin.report.quantities import distance_label, error_text, wanted_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_agreement"]


def plot_agreement(
    recommendation: SizeRecommendation,
    *,
    n_members: int | None = None,
    label: str | None = None,
    size_name: str = "recommended",
    ax: Axes | None = None,
) -> Axes:
    """Draw the agreement or the relative excess error, from which the size is recommended, against the ensemble size.

    Classification: the agreement with the infinite ensemble, and the wanted agreement.
    Regression: the error in excess of the infinite ensemble's, relative to it, and the tolerance.
    A bar on the wanted level shows the interval of the recommended size; it ends in an arrow where
    the interval exceeds the largest size considered.

    Parameters
    ----------
    recommendation : SizeRecommendation
    n_members : int, optional
        Current size, to be marked.
    label : str, optional
        Name of the curve in a legend; that of the criterion if None.
    size_name : str, default="recommended"
        Name of the size beside its mark.
    ax : matplotlib Axes, optional
        Axes to draw on; a new figure with one if None.  On axes that already show such a curve, the bar is left out
        and the sizes are marked on the curves, in the next colours of the axes' property cycle.

    Returns
    -------
    matplotlib Axes

    Raises
    ------
    InputError
        If `n_members` is below 1, or the axes show curves of another criterion.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from ens_plugin import SizeRecommendation
    >>> from ens_plugin.report.plots import plot_agreement
    >>> sizes = np.array([1, 11, 101, 1001])
    >>> advice = SizeRecommendation(101, "agreement", 0.99, None, 0.985, (51, 201), "", 20001, sizes,
    ...                             np.array([0.9, 0.96, 0.99, 0.999]))
    >>> ax = plot_agreement(advice, n_members=50, ax=Figure().subplots())
    >>> ax.get_xscale()
    'log'
    """
    name = label or recommendation.criterion.replace("_", " ")
    drawn = _size_curve(recommendation, n_members, name, size_name)
    return add_curves(axes_or_new(ax), [drawn])


def _size_curve(found: SizeRecommendation, n_members: int | None, name: str, size_name: str) -> SizeCurve:
    is_agreement = found.criterion == "agreement"
    wanted = found.confidence or found.tolerance
    metric = (found.of_metric if found.is_absolute else None) or "0-1 error"
    beyond = found.size or found.max_size
    reach = max(beyond, found.interval[1] or beyond)

    def value_at(size: float) -> float:
        if not found.sizes[0] <= size <= found.sizes[-1]:
            return math.nan
        value = float(np.interp(1.0 / size, 1.0 / found.sizes[::-1], found.values[::-1]))
        return value if math.isfinite(value) else math.nan

    return SizeCurve(
        quantity="Agreement with the\ninfinite ensemble (%)" if is_agreement else distance_label(found),
        kind=("recommended size", found.criterion, found.of_metric, found.is_absolute),
        name=name,
        sizes=found.sizes,
        value_at=value_at,
        as_text=lambda value: error_text(value, metric),
        n_members=n_members,
        recommended_size=found.size,
        covered=(reach,) if n_members is None else (n_members, reach),
        level=math.nan if wanted is None else wanted,
        level_name="wanted",
        level_text=wanted_text(found),
        size_interval=found.interval,
        is_share=not found.is_absolute,
        is_log=not is_agreement,
        ceiling=1.0 if is_agreement else math.inf,
        size_name=size_name,
    )
