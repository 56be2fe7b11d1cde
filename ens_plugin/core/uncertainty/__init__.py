"""Uncertainty of estimates: intervals, jackknives, paired differences."""

from __future__ import annotations

from ens_plugin.core.uncertainty.comparison_noise import deconvolution_variance, shared_luck_variance, squared_losses_at
from ens_plugin.core.uncertainty.cut_comparison import agreement_interval, interval_over_seeds
from ens_plugin.core.uncertainty.dyadic_variance import dyadic_variance
from ens_plugin.core.uncertainty.error_draws import ErrorDraws, combine_draws
from ens_plugin.core.uncertainty.infinitesimal_jackknife import squared_covariance, variance_over_seeds
from ens_plugin.core.uncertainty.intervals import (
    N_DRAWS,
    algorithmic_variance,
    density_error_sd,
    posterior_error_sd,
    size_draws,
    size_interval,
    wilson_interval,
)
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
    "interval_over_seeds",
    "largest_values",
    "left_out_sd",
    "mean_difference",
    "mean_pair_covariance",
    "posterior_error_sd",
    "row_losses",
    "share_difference",
    "shared_luck_variance",
    "shared_variance",
    "size_draws",
    "size_interval",
    "squared_covariance",
    "squared_losses_at",
    "sum_pairs",
    "variance_over_seeds",
    "wilson_interval",
]
