"""The recommended size by every criterion, and the choice of one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.analysis.curves.agreement_size import without_lower_end
from ens_plugin.analysis.curves.estimates import Estimates, ResolvedOptions
from ens_plugin.analysis.curves.size_reasons import as_told, excess_recommendation
from ens_plugin.core.estimates.brier_score import brier_loss
from ens_plugin.core.tallies.subsets import Sample
from ens_plugin.core.uncertainty.error_draws import ErrorDraws
from ens_plugin.core.uncertainty.intervals import size_interval
from ens_plugin.core.validation import FloatArray
from ens_plugin.report.estimates import LabelBasis, SizeRecommendation

__all__ = [
    "choose_criterion",
    "probability_size",
    "rare_label_caution",
    "with_criteria",
]

BRIER = "mean Brier score of the probabilities"
# The order in which criteria replace one whose size is not known.
INSTEAD = ("probability", "excess_error", "agreement")
# Rounding of sums of probabilities.
CLOSE_TO_SHARE = 1e-6
# A row with chances of one half for two labels has this error and, halved for two labels, this Brier score.  Losses of
# the infinite ensemble below that of one such row are made of rounding and of the tails of the fitted distribution.
UNDECIDED = 0.5
# Times the disagreement that is allowed: rarer labels hardly move the mean agreement.
RARE = 10.0


def with_criteria(
    estimates: Estimates,
    adapter: EnsembleAdapter,
    sample: Sample,
    groups: NDArray[np.integer] | None,
    n_rows: float,
    settings: ResolvedOptions,
) -> Estimates:
    """Return the estimates with the size by every criterion, and the recommendation by the chosen one.

    Parameters
    ----------
    estimates : Estimates
        With the recommendation of the task: by agreement for labels, by the excess error for values.
    adapter : EnsembleAdapter
    sample : Sample
        Of the rows that can be used.
    groups : ndarray of int, shape (n_sampled,), or None
    n_rows : float
        Number of all rows that can be used.
    settings : ResolvedOptions
    """
    own = estimates.recommendation
    of_metric = () if estimates.metric_size is None else (estimates.metric_size,)
    if adapter.info.task == "regression":
        return _chosen(estimates, (own, *of_metric), settings)
    assert estimates.error_draws is not None
    by_error = without_lower_end(
        _error_size(estimates.error_draws, n_rows, adapter.n_members, own.agreement, settings), sample
    )
    by_probability = probability_size(adapter, sample, groups, own.agreement, settings)
    criteria = (own, by_error) if by_probability is None else (own, by_error, by_probability)
    return _chosen(estimates, (*criteria, *of_metric), settings)


def _chosen(estimates: Estimates, criteria: tuple[SizeRecommendation, ...], settings: ResolvedOptions) -> Estimates:
    criteria = tuple(as_told(found, settings.interval_level) for found in criteria)
    return replace(estimates, criteria=criteria, recommendation=choose_criterion(criteria, settings))


def choose_criterion(criteria: tuple[SizeRecommendation, ...], settings: ResolvedOptions) -> SizeRecommendation:
    """Return the recommendation by the chosen criterion, or by another one if that has no size and none was named."""
    by_name: dict[str, SizeRecommendation] = {found.criterion: found for found in criteria}
    wanted = by_name.get(settings.criterion)
    if wanted is not None and (wanted.is_known or not settings.chooses_criterion):
        return wanted
    names = [name for name in INSTEAD if name in by_name]
    return next((by_name[name] for name in names if by_name[name].is_known), criteria[0])


def _error_size(
    found: ErrorDraws, n_rows: float, n_members: int, agreement: float | None, settings: ResolvedOptions
) -> SizeRecommendation:
    """Return the smallest size from which on the error is at most ``1 + tolerance`` times that of the infinite one."""
    tolerance, max_size = settings.tolerance, settings.max_size
    if found.error[-1] < UNDECIDED / n_rows:
        return excess_recommendation(
            "excess_error", "error", None, (1, None), _not_known, agreement, n_members, settings
        )
    close = found.close_size(tolerance)
    size = None if np.isinf(close) else int(close)
    low, high = size_interval(found.close_size_draws(tolerance), settings.interval_level, max_size)
    if size is not None:
        low, high = min(low, size), None if high is None else max(high, size)
    interval = (low, high if size is not None else None)
    return excess_recommendation("excess_error", "error", size, interval, found.excess, agreement, n_members, settings)


def rare_label_caution(
    found: SizeRecommendation, criteria: Sequence[SizeRecommendation], labels: Sequence[LabelBasis]
) -> tuple[str, ...]:
    """Return a warning where the wanted agreement hardly depends on the rarest label.

    Parameters
    ----------
    found : SizeRecommendation
        The one that the report recommends; by another criterion than the agreement there is no warning.
    criteria : sequence of SizeRecommendation
        Those of all criteria: the one by the probabilities is named where its size is known.
    labels : sequence of LabelBasis
    """
    n_rows = sum(basis.n_rows for basis in labels)
    if found.confidence is None or not n_rows:
        return ()
    rarest = min((basis for basis in labels if basis.n_rows), key=lambda basis: basis.n_rows)
    share = rarest.n_rows / n_rows
    if share >= RARE * (1.0 - found.confidence):
        return ()
    has_better = any(other.criterion == "probability" and other.is_known for other in criteria)
    advice = " Use criterion='probability'." if has_better else ""
    return (
        f"Only {100 * share:.2g} % of the rows have label {rarest.label!r}, so an agreement of labels of "
        f"{100 * found.confidence:.4g} % hardly depends on it: the recommended size may be far too small for this "
        f"label, for rankings and for probabilities.{advice}",
    )


def probability_size(
    adapter: EnsembleAdapter,
    sample: Sample,
    groups: NDArray[np.integer] | None,
    agreement: float | None,
    settings: ResolvedOptions,
) -> SizeRecommendation | None:
    """Return the smallest size whose Brier score is at most ``1 + tolerance`` times that of the infinite ensemble.

    None where the model's scores are no probabilities, or too few rows have two members.  Without a size where the
    infinite ensemble's Brier score is below that of one undecided row among them: nothing is relative to it.
    """
    settings = replace(settings, tolerance=settings.probability_tolerance)
    inverse_link = adapter.inverse_link if adapter.output_kind == "scores" else None
    if inverse_link is not None and not _are_shares(inverse_link(sample.mean_outputs())):
        return None
    loss = brier_loss(sample, inverse_link, groups)
    if loss is None:
        return None
    assert loss.moments is not None
    of_one_row = UNDECIDED / loss.moments.n_rows / (2.0 if sample.block.n_labels == 2 else 1.0)
    is_known = loss.asymptote >= of_one_row and (loss.member_variance > 0 or inverse_link is None)
    if not is_known:
        return excess_recommendation(
            "probability", BRIER, None, (1, None), _not_known, agreement, adapter.n_members, settings
        )
    size = loss.recommended_size(settings.tolerance, settings.max_size)
    interval = loss.size_interval(settings.tolerance, settings.max_size, settings.interval_level)
    return excess_recommendation(
        "probability", BRIER, size, interval, loss.excess, agreement, adapter.n_members, settings
    )


def _not_known(sizes: ArrayLike) -> FloatArray:
    return np.full(np.shape(sizes), np.nan)


def _are_shares(values: NDArray[np.float64]) -> bool:
    return bool(np.all((values >= -CLOSE_TO_SHARE) & (values <= 1.0 + CLOSE_TO_SHARE)))
