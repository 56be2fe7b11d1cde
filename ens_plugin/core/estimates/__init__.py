"""Estimates from tallies and row models: error curves, recommended sizes, agreement, squared losses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ens_plugin.lazy_names import lazy_names

if TYPE_CHECKING:
    from ens_plugin.core.estimates.agreement import (
        AnchoredAgreement,
        SubsetRatio,
        anchor_agreement,
        fit_contests,
        member_dissent,
        subset_ratio,
    )
    from ens_plugin.core.estimates.brier_score import brier_loss, brier_terms_of_scores, member_terms
    from ens_plugin.core.estimates.cell_votes import (
        cell_agreement,
        cell_size,
        cell_size_draws,
        gather_cells,
        has_few_cells,
    )
    from ens_plugin.core.estimates.ensemble_size import recommended_size, smallest_odd_size
    from ens_plugin.core.estimates.error_curve import binomial_curve, hypergeometric_curve, hypergeometric_limit
    from ens_plugin.core.estimates.extrapolation import extrapolate, subset_sizes
    from ens_plugin.core.estimates.grouped_tally import (
        Groups,
        group_rows,
        margin_codes,
        merge_groups,
        support_codes,
        vote_codes,
    )
    from ens_plugin.core.estimates.label_chances import PRECISION, chances_of_labels
    from ens_plugin.core.estimates.log_loss import expected_log_loss, inverse_probability, relative_variance
    from ens_plugin.core.estimates.low_chances import CLIPPED_LOSS, LowChances, fit_low_chances, is_low
    from ens_plugin.core.estimates.prediction_limits import residual_limits, residuals_at_size
    from ens_plugin.core.estimates.squared_loss import LossMoments, SquaredLoss, fit_moments, loss_moments
    from ens_plugin.core.estimates.tied_sizes import previous_odd_size

__all__ = [
    "CLIPPED_LOSS",
    "PRECISION",
    "AnchoredAgreement",
    "Groups",
    "LossMoments",
    "LowChances",
    "SquaredLoss",
    "SubsetRatio",
    "anchor_agreement",
    "binomial_curve",
    "brier_loss",
    "brier_terms_of_scores",
    "cell_agreement",
    "cell_size",
    "cell_size_draws",
    "chances_of_labels",
    "expected_log_loss",
    "extrapolate",
    "fit_contests",
    "fit_low_chances",
    "fit_moments",
    "gather_cells",
    "group_rows",
    "has_few_cells",
    "hypergeometric_curve",
    "hypergeometric_limit",
    "inverse_probability",
    "is_low",
    "loss_moments",
    "margin_codes",
    "member_dissent",
    "member_terms",
    "merge_groups",
    "previous_odd_size",
    "recommended_size",
    "relative_variance",
    "residual_limits",
    "residuals_at_size",
    "smallest_odd_size",
    "subset_ratio",
    "subset_sizes",
    "support_codes",
    "vote_codes",
]

_HOME_OF = {
    "CLIPPED_LOSS": "ens_plugin.core.estimates.low_chances",
    "LowChances": "ens_plugin.core.estimates.low_chances",
    "fit_low_chances": "ens_plugin.core.estimates.low_chances",
    "is_low": "ens_plugin.core.estimates.low_chances",
    "AnchoredAgreement": "ens_plugin.core.estimates.agreement",
    "Groups": "ens_plugin.core.estimates.grouped_tally",
    "LossMoments": "ens_plugin.core.estimates.squared_loss",
    "PRECISION": "ens_plugin.core.estimates.label_chances",
    "SquaredLoss": "ens_plugin.core.estimates.squared_loss",
    "SubsetRatio": "ens_plugin.core.estimates.agreement",
    "anchor_agreement": "ens_plugin.core.estimates.agreement",
    "binomial_curve": "ens_plugin.core.estimates.error_curve",
    "brier_loss": "ens_plugin.core.estimates.brier_score",
    "brier_terms_of_scores": "ens_plugin.core.estimates.brier_score",
    "cell_agreement": "ens_plugin.core.estimates.cell_votes",
    "cell_size": "ens_plugin.core.estimates.cell_votes",
    "cell_size_draws": "ens_plugin.core.estimates.cell_votes",
    "chances_of_labels": "ens_plugin.core.estimates.label_chances",
    "expected_log_loss": "ens_plugin.core.estimates.log_loss",
    "extrapolate": "ens_plugin.core.estimates.extrapolation",
    "fit_contests": "ens_plugin.core.estimates.agreement",
    "fit_moments": "ens_plugin.core.estimates.squared_loss",
    "gather_cells": "ens_plugin.core.estimates.cell_votes",
    "group_rows": "ens_plugin.core.estimates.grouped_tally",
    "has_few_cells": "ens_plugin.core.estimates.cell_votes",
    "hypergeometric_curve": "ens_plugin.core.estimates.error_curve",
    "hypergeometric_limit": "ens_plugin.core.estimates.error_curve",
    "inverse_probability": "ens_plugin.core.estimates.log_loss",
    "loss_moments": "ens_plugin.core.estimates.squared_loss",
    "margin_codes": "ens_plugin.core.estimates.grouped_tally",
    "member_dissent": "ens_plugin.core.estimates.agreement",
    "member_terms": "ens_plugin.core.estimates.brier_score",
    "merge_groups": "ens_plugin.core.estimates.grouped_tally",
    "previous_odd_size": "ens_plugin.core.estimates.tied_sizes",
    "recommended_size": "ens_plugin.core.estimates.ensemble_size",
    "relative_variance": "ens_plugin.core.estimates.log_loss",
    "residual_limits": "ens_plugin.core.estimates.prediction_limits",
    "residuals_at_size": "ens_plugin.core.estimates.prediction_limits",
    "smallest_odd_size": "ens_plugin.core.estimates.ensemble_size",
    "subset_ratio": "ens_plugin.core.estimates.agreement",
    "subset_sizes": "ens_plugin.core.estimates.extrapolation",
    "support_codes": "ens_plugin.core.estimates.grouped_tally",
    "vote_codes": "ens_plugin.core.estimates.grouped_tally",
}

__getattr__ = lazy_names(__name__, _HOME_OF)
