"""Models of the rows: the distribution of the members' outputs for a row, and how often a majority of them is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

# This function has the name of its module, which would hide it if the function were loaded later.
from ens_plugin.core.row_models.effective_votes import effective_votes
from ens_plugin.lazy_names import lazy_names

if TYPE_CHECKING:
    from ens_plugin.core.row_models.anchoring import (
        Anchor,
        anchor_first_size,
        anchor_models,
        mean_error,
        subset_limit,
    )
    from ens_plugin.core.row_models.density import GRID, cell_weights, design
    from ens_plugin.core.row_models.effective_votes import is_close
    from ens_plugin.core.row_models.label_shares import LabelVotes, fit_label_shares
    from ens_plugin.core.row_models.likelihoods.binomial import binomial_likelihood
    from ens_plugin.core.row_models.likelihoods.product import ProductMatrix
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
    "ProductMatrix",
    "RowModel",
    "anchor_first_size",
    "anchor_models",
    "as_rough_as_known",
    "binomial_likelihood",
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

_HOME_OF = {
    "Anchor": "ens_plugin.core.row_models.anchoring",
    "GRID": "ens_plugin.core.row_models.density",
    "LabelVotes": "ens_plugin.core.row_models.label_shares",
    "MarginModel": "ens_plugin.core.row_models.margins",
    "Mixture": "ens_plugin.core.row_models.mixture",
    "ProductMatrix": "ens_plugin.core.row_models.likelihoods.product",
    "RowModel": "ens_plugin.core.row_models.row_model",
    "anchor_first_size": "ens_plugin.core.row_models.anchoring",
    "anchor_models": "ens_plugin.core.row_models.anchoring",
    "as_rough_as_known": "ens_plugin.core.row_models.roughness",
    "binomial_likelihood": "ens_plugin.core.row_models.likelihoods.binomial",
    "cell_weights": "ens_plugin.core.row_models.density",
    "design": "ens_plugin.core.row_models.density",
    "even_size_shift": "ens_plugin.core.row_models.tied_votes",
    "fit_label_shares": "ens_plugin.core.row_models.label_shares",
    "fit_margins": "ens_plugin.core.row_models.margins",
    "fit_mixture": "ens_plugin.core.row_models.mixture",
    "fit_rival_shift": "ens_plugin.core.row_models.rival_shift",
    "fixed_mixture": "ens_plugin.core.row_models.mixture",
    "group_counts": "ens_plugin.core.row_models.mixture",
    "group_means": "ens_plugin.core.row_models.row_model",
    "is_close": "ens_plugin.core.row_models.effective_votes",
    "majority_curve": "ens_plugin.core.row_models.majority",
    "majority_error": "ens_plugin.core.row_models.majority",
    "majority_slope": "ens_plugin.core.row_models.majority",
    "mean_error": "ens_plugin.core.row_models.anchoring",
    "mean_posterior": "ens_plugin.core.row_models.row_model",
    "model_agreement": "ens_plugin.core.row_models.row_model",
    "model_error": "ens_plugin.core.row_models.row_model",
    "posterior_products": "ens_plugin.core.row_models.row_model",
    "rougher_than_known": "ens_plugin.core.row_models.roughness",
    "row_means": "ens_plugin.core.row_models.row_model",
    "row_slopes": "ens_plugin.core.row_models.row_model",
    "soft_majority_error": "ens_plugin.core.row_models.majority",
    "subset_limit": "ens_plugin.core.row_models.anchoring",
    "subset_majority_error": "ens_plugin.core.row_models.majority",
    "tie_probability": "ens_plugin.core.row_models.tied_votes",
    "tied_label_shift": "ens_plugin.core.row_models.tied_labels",
}

__getattr__ = lazy_names(__name__, _HOME_OF)
