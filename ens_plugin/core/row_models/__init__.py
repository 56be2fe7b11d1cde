"""Models of the rows: the distribution of the members' outputs for a row, and how often a majority of them is wrong."""

from __future__ import annotations

from ens_plugin.core.row_models.anchoring import (
    Anchor,
    anchor_first_size,
    anchor_models,
    mean_error,
    subset_limit,
)
from ens_plugin.core.row_models.density import GRID, cell_weights, design
from ens_plugin.core.row_models.effective_votes import effective_votes, is_close
from ens_plugin.core.row_models.label_shares import LabelVotes, fit_label_shares
from ens_plugin.core.row_models.majority import (
    majority_curve,
    majority_error,
    majority_slope,
    soft_majority_error,
    subset_majority_error,
)
from ens_plugin.core.row_models.margins import MarginModel, fit_margins
from ens_plugin.core.row_models.mixture import Mixture, fit_mixture, fixed_mixture, group_counts
from ens_plugin.core.row_models.rival_shift import fit_rival_shift
from ens_plugin.core.row_models.roughness import as_rough_as_known, rougher_than_known
from ens_plugin.core.row_models.row_model import (
    RowModel,
    group_means,
    mean_posterior,
    model_agreement,
    model_error,
    posterior_products,
    row_means,
    row_slopes,
)
from ens_plugin.core.row_models.tied_labels import tied_label_shift
from ens_plugin.core.row_models.tied_votes import even_size_shift, tie_probability

__all__ = [
    "GRID",
    "Anchor",
    "LabelVotes",
    "MarginModel",
    "Mixture",
    "RowModel",
    "anchor_first_size",
    "anchor_models",
    "as_rough_as_known",
    "cell_weights",
    "design",
    "effective_votes",
    "even_size_shift",
    "fit_label_shares",
    "fit_margins",
    "fit_mixture",
    "fit_rival_shift",
    "fixed_mixture",
    "group_counts",
    "group_means",
    "is_close",
    "majority_curve",
    "majority_error",
    "majority_slope",
    "mean_error",
    "mean_posterior",
    "model_agreement",
    "model_error",
    "posterior_products",
    "rougher_than_known",
    "row_means",
    "row_slopes",
    "soft_majority_error",
    "subset_limit",
    "subset_majority_error",
    "tie_probability",
    "tied_label_shift",
]
