"""Estimates from tallies and row models: error curves, recommended sizes, agreement, squared losses."""

from __future__ import annotations

from ens_plugin.core.estimates.agreement import (
    AnchoredAgreement,
    SubsetRatio,
    anchor_agreement,
    fit_contests,
    member_dissent,
    subset_ratio,
)
from ens_plugin.core.estimates.brier_score import brier_loss, brier_terms_of_scores, member_terms
from ens_plugin.core.estimates.cell_votes import cell_agreement, cell_size, cell_size_draws, gather_cells, has_few_cells
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
from ens_plugin.core.estimates.label_chances import PRECISION, label_chances
from ens_plugin.core.estimates.log_loss import expected_log_loss, inverse_probability, relative_variance
from ens_plugin.core.estimates.prediction_limits import residual_limits, residuals_at_size
from ens_plugin.core.estimates.squared_loss import LossMoments, SquaredLoss, fit_moments, loss_moments
from ens_plugin.core.estimates.tied_sizes import previous_odd_size

__all__ = [
    "PRECISION",
    "AnchoredAgreement",
    "Groups",
    "LossMoments",
    "SquaredLoss",
    "SubsetRatio",
    "anchor_agreement",
    "binomial_curve",
    "brier_loss",
    "brier_terms_of_scores",
    "cell_agreement",
    "cell_size",
    "cell_size_draws",
    "expected_log_loss",
    "extrapolate",
    "fit_contests",
    "fit_moments",
    "gather_cells",
    "group_rows",
    "has_few_cells",
    "hypergeometric_curve",
    "hypergeometric_limit",
    "inverse_probability",
    "label_chances",
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
