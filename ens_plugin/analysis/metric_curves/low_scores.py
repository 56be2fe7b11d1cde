"""What to think of a size by a score that is hardly above its lowest value."""

from __future__ import annotations

from math import inf

from ens_plugin.analysis.curves.estimates import ResolvedOptions
from ens_plugin.report.estimates import ErrorCurve

__all__ = ["low_score_caution", "low_score_doubt"]

# Share of a score that a tolerance may be without a warning.
LARGE_SHARE = 0.05


def low_score_doubt(curve: ErrorCurve, settings: ResolvedOptions, level: float) -> tuple[str, ...]:
    """Return a doubt where the score is within the tolerance of its lowest value, else nothing.

    Every size is then within the tolerance of it: F1 is 0 at all of them where no row is predicted to have the rare
    label.  Where it is so low on the rows themselves, samples of them show no variance, and no interval holds.

    Parameters
    ----------
    curve : ErrorCurve
    settings : ResolvedOptions
    level : float
        Score of the rows, each with all of its members.
    """
    tolerance, height = settings.metric_tolerance, _height(curve, settings)
    if height <= tolerance:
        found = (
            f"The {curve.metric} of the infinite ensemble is {curve.asymptote:.3g}, hardly above its lowest value, and "
            f"every size is within {tolerance:g} of it, so the recommended size is a guess."
        )
    elif height + level - curve.asymptote <= tolerance:
        found = (
            f"The {curve.metric} of all members is {level:.3g} on these rows, hardly above its lowest value, so its "
            "curve, its interval and the recommended size are a guess."
        )
    else:
        return ()
    advice = "Train a model that does better by this metric, or choose a metric of rankings or probabilities"
    return (f"{found} {advice}, such as 'roc_auc'.",)


def low_score_caution(curve: ErrorCurve, settings: ResolvedOptions) -> tuple[str, ...]:
    """Return a warning where the tolerance is a large share of the infinite ensemble's score, else nothing."""
    tolerance, height = settings.metric_tolerance, _height(curve, settings)
    if not LARGE_SHARE * height < tolerance < height:
        return ()
    return (
        f"The tolerance of {tolerance:g} is {100 * tolerance / height:.0f} % of the {curve.metric} of the infinite "
        f"ensemble, {curve.asymptote:.3g}. Pass a smaller one, tolerance={0.01 * height:.1g} for example, "
        "for a size that keeps more of it.",
    )


def _height(curve: ErrorCurve, settings: ResolvedOptions) -> float:
    """Return how far the infinite ensemble's score is above its lowest value; infinite for other metrics."""
    metric = settings.metric
    return curve.asymptote - metric.lowest if metric is not None and metric.is_absolute else inf
