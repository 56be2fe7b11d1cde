"""Uncertainty of estimates: intervals, jackknives, paired differences."""

from __future__ import annotations

from typing import TYPE_CHECKING

# This function has the name of its module, which would hide it if the function were loaded later.
from ens_plugin.core.uncertainty.dyadic_variance import dyadic_variance
from ens_plugin.lazy_names import lazy_names

if TYPE_CHECKING:
    from ens_plugin.core.uncertainty.comparison_noise import (
        deconvolution_variance,
        influence_on_variance,
        luck_variance,
        shared_luck_variance,
        squared_losses_at,
    )
    from ens_plugin.core.uncertainty.cut_comparison import agreement_interval, interval_over_seeds
    from ens_plugin.core.uncertainty.error_draws import ErrorDraws, combine_draws
    from ens_plugin.core.uncertainty.infinitesimal_jackknife import (
        left_out_covariances,
        squared_covariance,
        variance_over_seeds,
    )
    from ens_plugin.core.uncertainty.intervals import (
        N_DRAWS,
        algorithmic_variance,
        density_error_sd,
        posterior_error_sd,
        size_draws,
        size_interval,
        spread_sizes,
        wilson_interval,
    )
    from ens_plugin.core.uncertainty.mean_curvature import mean_terms, shared_terms, terms_of_variance
    from ens_plugin.core.uncertainty.member_jackknife import N_GROUPS, left_out_sd
    from ens_plugin.core.uncertainty.pair_covariance import (
        Voters,
        fold_groups,
        mean_pair_covariance,
        shared_variance,
        sum_pairs,
    )
    from ens_plugin.core.uncertainty.paired_losses import Difference, mean_difference, row_losses, share_difference
    from ens_plugin.core.uncertainty.skewed_mean import FittedTail, LargestValues, fit_tail, hall_limits, largest_values
    from ens_plugin.core.uncertainty.training_ratio import pooled_ratio, pooled_variance

__all__ = [
    "N_DRAWS",
    "N_GROUPS",
    "Difference",
    "ErrorDraws",
    "FittedTail",
    "LargestValues",
    "Voters",
    "agreement_interval",
    "algorithmic_variance",
    "combine_draws",
    "deconvolution_variance",
    "density_error_sd",
    "dyadic_variance",
    "fit_tail",
    "fold_groups",
    "hall_limits",
    "influence_on_variance",
    "interval_over_seeds",
    "largest_values",
    "left_out_covariances",
    "left_out_sd",
    "luck_variance",
    "mean_difference",
    "mean_pair_covariance",
    "mean_terms",
    "pooled_ratio",
    "pooled_variance",
    "posterior_error_sd",
    "row_losses",
    "share_difference",
    "shared_luck_variance",
    "shared_terms",
    "shared_variance",
    "size_draws",
    "size_interval",
    "spread_sizes",
    "squared_covariance",
    "squared_losses_at",
    "sum_pairs",
    "terms_of_variance",
    "variance_over_seeds",
    "wilson_interval",
]

_HOME_OF = {
    "Difference": "ens_plugin.core.uncertainty.paired_losses",
    "ErrorDraws": "ens_plugin.core.uncertainty.error_draws",
    "FittedTail": "ens_plugin.core.uncertainty.skewed_mean",
    "LargestValues": "ens_plugin.core.uncertainty.skewed_mean",
    "N_DRAWS": "ens_plugin.core.uncertainty.intervals",
    "N_GROUPS": "ens_plugin.core.uncertainty.member_jackknife",
    "Voters": "ens_plugin.core.uncertainty.pair_covariance",
    "agreement_interval": "ens_plugin.core.uncertainty.cut_comparison",
    "algorithmic_variance": "ens_plugin.core.uncertainty.intervals",
    "combine_draws": "ens_plugin.core.uncertainty.error_draws",
    "deconvolution_variance": "ens_plugin.core.uncertainty.comparison_noise",
    "density_error_sd": "ens_plugin.core.uncertainty.intervals",
    "fit_tail": "ens_plugin.core.uncertainty.skewed_mean",
    "fold_groups": "ens_plugin.core.uncertainty.pair_covariance",
    "hall_limits": "ens_plugin.core.uncertainty.skewed_mean",
    "influence_on_variance": "ens_plugin.core.uncertainty.comparison_noise",
    "interval_over_seeds": "ens_plugin.core.uncertainty.cut_comparison",
    "largest_values": "ens_plugin.core.uncertainty.skewed_mean",
    "left_out_covariances": "ens_plugin.core.uncertainty.infinitesimal_jackknife",
    "left_out_sd": "ens_plugin.core.uncertainty.member_jackknife",
    "mean_difference": "ens_plugin.core.uncertainty.paired_losses",
    "mean_pair_covariance": "ens_plugin.core.uncertainty.pair_covariance",
    "mean_terms": "ens_plugin.core.uncertainty.mean_curvature",
    "pooled_ratio": "ens_plugin.core.uncertainty.training_ratio",
    "pooled_variance": "ens_plugin.core.uncertainty.training_ratio",
    "posterior_error_sd": "ens_plugin.core.uncertainty.intervals",
    "row_losses": "ens_plugin.core.uncertainty.paired_losses",
    "share_difference": "ens_plugin.core.uncertainty.paired_losses",
    "luck_variance": "ens_plugin.core.uncertainty.comparison_noise",
    "shared_luck_variance": "ens_plugin.core.uncertainty.comparison_noise",
    "shared_terms": "ens_plugin.core.uncertainty.mean_curvature",
    "shared_variance": "ens_plugin.core.uncertainty.pair_covariance",
    "size_draws": "ens_plugin.core.uncertainty.intervals",
    "size_interval": "ens_plugin.core.uncertainty.intervals",
    "spread_sizes": "ens_plugin.core.uncertainty.intervals",
    "squared_covariance": "ens_plugin.core.uncertainty.infinitesimal_jackknife",
    "squared_losses_at": "ens_plugin.core.uncertainty.comparison_noise",
    "sum_pairs": "ens_plugin.core.uncertainty.pair_covariance",
    "terms_of_variance": "ens_plugin.core.uncertainty.mean_curvature",
    "variance_over_seeds": "ens_plugin.core.uncertainty.infinitesimal_jackknife",
    "wilson_interval": "ens_plugin.core.uncertainty.intervals",
}

__getattr__ = lazy_names(__name__, _HOME_OF)
