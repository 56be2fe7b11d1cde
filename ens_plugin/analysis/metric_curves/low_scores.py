"""What a score has above chance, and what to think of a size by one that is hardly above its lowest value."""

from __future__ import annotations

from dataclasses import replace

from ens_plugin.analysis.curves.estimates import ResolvedOptions
from ens_plugin.report.estimates import ErrorCurve

__all__ = ["low_score_caution", "low_score_doubt", "with_chance"]

# Share of what a score has above chance that a tolerance may be without a warning.
LARGE_SHARE = 0.05


def with_chance(settings: ResolvedOptions, chance: float) -> ResolvedOptions:
    """Return the settings with chance as what a relative tolerance of a score is measured from; else unchanged."""
    if settings.metric is None or not settings.metric.is_absolute or settings.metric_reference is None:
        return settings
    return replace(settings, metric_reference=chance)


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
    metric = settings.metric
    if metric is None or not metric.is_absolute:
        return ()
    tolerance = float(settings.metric_distances(curve.asymptote))
    if curve.asymptote - metric.lowest <= tolerance:
        found = (
            f"The {curve.metric} of the infinite ensemble is {curve.asymptote:.3g}, hardly above its lowest value, and "
            f"every size is within {tolerance:.2g} of it, so the recommended size is a guess."
        )
    elif level - metric.lowest <= tolerance:
        found = (
            f"The {curve.metric} of all members is {level:.3g} on these rows, hardly above its lowest value, so its "
            "curve, its interval and the recommended size are a guess."
        )
    else:
        return ()
    advice = "Train a model that does better by this metric, or choose a metric of rankings or probabilities"
    return (f"{found} {advice}, such as 'roc_auc'.",)


def low_score_caution(curve: ErrorCurve, settings: ResolvedOptions, chance: float) -> tuple[str, ...]:
    """Return a warning where a given tolerance is a large share of what the infinite ensemble's score has above chance.

    Parameters
    ----------
    curve : ErrorCurve
    settings : ResolvedOptions
    chance : float
        Score of predictions that know only how often each label occurs.
    """
    if settings.metric is None or not settings.metric.is_absolute:
        return ()
    tolerance, height = float(settings.metric_distances(curve.asymptote)), curve.asymptote - chance
    is_doubted = curve.asymptote - settings.metric.lowest <= tolerance
    if is_doubted or height <= 0.0 or tolerance <= LARGE_SHARE * height:
        return ()
    return (
        f"The tolerance of {tolerance:g} is {100 * tolerance / height:.0f} % of what the {curve.metric} of the "
        f"infinite ensemble, {curve.asymptote:.3g}, has above that of chance, {chance:.3g}. Pass a smaller one, "
        f"tolerance={0.01 * height:.1g} for example, for a size that keeps more of it.",
    )
