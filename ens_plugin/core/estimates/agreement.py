"""Agreement with the infinite ensemble, corrected by how often subsets disagree (docs/methods.md, section 5)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import PchipInterpolator

from ens_plugin.core.row_models.density import Density
from ens_plugin.core.row_models.likelihoods.band import Likelihood
from ens_plugin.core.row_models.margins import fit_margins
from ens_plugin.core.row_models.row_model import RowModel, model_agreement, row_means
from ens_plugin.core.tallies.margin_tally import member_margins, strongest_rival
from ens_plugin.core.tallies.row_weight import RowWeight
from ens_plugin.core.tallies.subset_rates import SubsetRates
from ens_plugin.core.tallies.subsets import Sample
from ens_plugin.core.tallies.tally import RowBlock, count_members, member_labels
from ens_plugin.core.validation import FloatArray, IntArray, as_sizes
from ens_plugin.records import record

__all__ = [
    "AnchoredAgreement",
    "SubsetRatio",
    "anchor_agreement",
    "fit_contests",
    "member_dissent",
    "subset_ratio",
]

N_SIZES = 48
LARGEST_SIZE = 100_001
POWERS = np.array([0.5, 1.0, 3.0])
PRIOR_SD = np.array([1.0, 3.0, 3.0])
LEAST_SD = 0.02
TINY = 1e-12


@record
class SubsetRatio:
    r"""Logarithm of the ratio of the disagreement observed between subsets to the disagreement that a model predicts.

    Attributes
    ----------
    coefficients : ndarray, shape (3,)
        Coefficients of :math:`B^{-1/2}`, :math:`B^{-1}` and :math:`B^{-3}`; the ratio is 1 at infinity.
    covariance : ndarray, shape (3, 3)
    """

    coefficients: FloatArray
    covariance: FloatArray

    def log_at(self, sizes: ArrayLike) -> FloatArray:
        """Return the logarithm of the ratio of observed to predicted disagreement at each size, shape (n_sizes,)."""
        return np.asarray(_ratio_columns(as_sizes(sizes)) @ self.coefficients)

    def sd_at(self, size: float) -> float:
        """Return the standard deviation of the logarithm of the ratio of disagreements at one size."""
        column = _ratio_columns(np.array([float(size)]))[0]
        return float(np.sqrt(column @ self.covariance @ column))


@record
class AnchoredAgreement:
    """A row model whose disagreement with the infinite ensemble is multiplied by a factor of the size.

    It implements the protocol :class:`ens_plugin.core.row_models.row_model.RowModel`.

    Attributes
    ----------
    model : RowModel
    density, likelihood, counts, group, point_weights
        The attributes of `model` with these names.
    log_factor : PchipInterpolator
        Logarithm of the factor as a function of log B, between sizes 1 and 100001.
    ratio : SubsetRatio
        The part of the factor that is estimated from subsets, for its noise.
    """

    model: RowModel
    density: Density | None
    likelihood: Likelihood
    counts: FloatArray
    group: NDArray[np.integer]
    point_weights: FloatArray
    log_factor: PchipInterpolator
    ratio: SubsetRatio

    def error_by_point(self, sizes: ArrayLike) -> FloatArray:
        """Return the probability of a wrong label at each size and grid point, shape (n_sizes, n_points)."""
        return self.model.error_by_point(sizes)

    def agreement_by_point(self, sizes: ArrayLike) -> FloatArray:
        """Return the estimated chance of the infinite ensemble's label, shape (n_sizes, n_points), not cut at 0."""
        place = np.log(np.clip(as_sizes(sizes), 1.0, LARGEST_SIZE))
        factor = np.exp(self.log_factor(place))[:, None]
        return np.asarray(1.0 - factor * (1.0 - self.model.agreement_by_point(sizes)))

    def slope_by_point(self, size: float) -> FloatArray:
        """Return the derivative of the error in the mean output at each grid point, shape (n_points,)."""
        return self.model.slope_by_point(size)


def fit_contests(sample: Sample) -> RowModel:
    """Fit a model of the margins of each row's leading label over the runner-up, whatever the true label.

    Parameters
    ----------
    sample : Sample
        Rows with at least two members each.

    Notes
    -----
    Before the votes are counted, either label is as likely to lead, so that the density of true margins is symmetric:
    each row enters with both signs and half of its weight.  The first entries are the sample's rows in their order,
    with the leading label's sign.
    """
    block = sample.block
    support = block.support
    lead = np.argmax(support, axis=1)
    against = strongest_rival(support, lead)
    margins = member_margins(RowBlock(block.outputs, block.counted, lead, block.n_labels), against)
    trials = block.trials
    # In one memory order whatever that of the outputs, because rounding depends on the order.
    deviations = np.multiply(margins, block.counted, dtype=np.float64, order="C")
    mean = deviations.sum(axis=0) / trials
    deviations -= mean
    deviations *= block.counted
    sd = np.sqrt(np.einsum("ti,ti->i", deviations, deviations) / (trials - 1.0))
    weight = RowWeight(np.tile(sample.weight / 2, 2), np.full(2 * trials.size, 0.5), np.tile(sample.weight**2 / 2, 2))
    return fit_margins(np.append(mean, -mean), np.tile(sd, 2), np.tile(trials, 2), weight)


def member_dissent(model: RowModel, contests: RowModel | None, sample: Sample) -> FloatArray:
    r"""Return the estimated chance that a member's label is not the infinite ensemble's, for each sampled row.

    Parameters
    ----------
    model : RowModel
        Model of the sampled rows, in their order, of two labels.
    contests : RowModel or None
        :func:`fit_contests` of the sample, used in place of `model` for more than two labels; None for two.
    sample : Sample

    Notes
    -----
    A share a of a row's members predict the first of two labels and b the second; r is the chance, given the row's
    members, that the infinite ensemble predicts the second.  The estimate is :math:`(1 - r)(1 - a) + r(1 - b)`.  Its
    mean over rows is unbiased where the model is right, whatever the form of the members' outputs, because it needs no
    relation of the mean of the outputs to the shares of the labels.
    """
    block = sample.block
    if contests is None:
        first, used = block.target, model
    else:
        first, used = np.argmax(block.support, axis=1), contests
    second = strongest_rival(block.support, first)
    labels, trials = member_labels(block), block.trials
    of_first, of_second = (count_members((labels == label) & block.counted) / trials for label in (first, second))
    is_second = row_means(used, used.error_by_point([np.inf]), np.arange(trials.size))[0]
    return np.asarray((1.0 - is_second) * (1.0 - of_first) + is_second * (1.0 - of_second))


def subset_ratio(model: RowModel, rates: SubsetRates, rows: IntArray, weight: FloatArray) -> SubsetRatio:
    r"""Return the ratio of the observed disagreement of subsets with a row's other members to that of a model.

    Parameters
    ----------
    model : RowModel
    rates : SubsetRates
        Labels of subsets of the sampled rows' members.
    rows : ndarray of int, shape (n_sampled,)
        The sampled rows, numbered as in the model.
    weight : ndarray, shape (n_sampled,)

    Notes
    -----
    Subset and other members are disjoint, so that their labels are independent draws given the row.  Where the
    density of margins is flat around 0, ensembles of B and C members differ as often as one of
    :math:`1/(1/B + 1/C)` members differs from the infinite one, which is the size assigned to a ratio.
    """
    predicted, size = np.full((2, *rates.apart.shape), np.nan)
    for n_members in np.unique(rates.members):
        halves = rates.sizes[2 * rates.sizes <= n_members]
        own = np.flatnonzero(rates.members == n_members)
        if halves.size == 0:
            continue
        first, other = model.error_by_point(halves), model.error_by_point(n_members - halves)
        here = np.ix_(np.arange(halves.size), own)
        predicted[here] = row_means(model, first * (1.0 - other) + other * (1.0 - first), rows[own])
        size[here] = (halves * (n_members - halves) / n_members)[:, None]
    points = [
        _log_ratio(apart, expected, sizes, weight)
        for apart, expected, sizes in zip(rates.apart, predicted, size, strict=True)
    ]
    known = np.array([point for point in points if point is not None])
    precision = np.diag(1.0 / PRIOR_SD**2)
    if known.size == 0:
        return SubsetRatio(np.zeros(POWERS.size), np.zeros((POWERS.size, POWERS.size)))
    columns = _ratio_columns(known[:, 0]) / known[:, 2:]
    # Ratios at all sizes are from the same rows and so correlated: together they are hardly more precise than one.
    fitted = np.linalg.inv(columns.T @ columns + precision)
    covariance = fitted @ (columns.T @ columns * known.shape[0] + precision) @ fitted
    return SubsetRatio(fitted @ (columns.T @ (known[:, 1] / known[:, 2])), covariance)


def _log_ratio(
    apart: FloatArray, expected: FloatArray, size: FloatArray, weight: FloatArray
) -> tuple[float, float, float] | None:
    """Return effective size, logarithm of observed over expected disagreement, and its sd; None for too few rows."""
    known = ~np.isnan(apart) & ~np.isnan(expected)
    share = np.where(known, weight, 0.0)
    if 2 * np.count_nonzero(known) < known.size or share.sum() <= 0:
        return None
    share = share[known] / share.sum()
    observed, predicted = share @ apart[known], share @ expected[known]
    if observed <= TINY or predicted <= TINY:
        return None
    residual = apart[known] - observed / predicted * expected[known]
    sd = np.hypot(np.sqrt(np.sum((share * residual) ** 2)) / observed, LEAST_SD)
    return float(share @ size[known]), float(np.log(observed / predicted)), float(sd)


def _ratio_columns(sizes: FloatArray) -> FloatArray:
    return np.asarray(sizes[:, None] ** -POWERS)


def anchor_agreement(
    model: RowModel, contests: RowModel | None, ratio: SubsetRatio, rows: IntArray, weight: FloatArray
) -> AnchoredAgreement:
    """Return a model whose disagreement is multiplied by two corrections, from leading labels and from subsets.

    Parameters
    ----------
    model : RowModel
        Model of all rows.
    contests : RowModel or None
        :func:`fit_contests` of the sampled rows; None where there are two labels, whose contest is `model`.
    ratio : SubsetRatio
        Ratio for `contests`, or for `model` if `contests` is None.
    rows : ndarray of int, shape (n_sampled,)
        The sampled rows, numbered as in the model.
    weight : ndarray, shape (n_sampled,)
    """
    sizes = np.unique(np.geomspace(1, LARGEST_SIZE, N_SIZES).astype(np.int64) // 2 * 2 + 1).astype(np.float64)
    whole = np.maximum(1.0 - model_agreement(model, sizes), TINY)
    factor = ratio.log_at(sizes)
    if contests is not None:
        by_row = row_means(model, 1.0 - model.agreement_by_point(sizes), rows)
        same_rows = np.maximum(by_row @ weight / weight.sum(), TINY)
        factor += np.log(np.maximum(1.0 - model_agreement(contests, sizes), TINY) / same_rows)
    disagreement = np.minimum.accumulate(np.minimum(whole * np.exp(factor), 1.0))
    log_factor = PchipInterpolator(np.log(sizes), np.log(disagreement / whole))
    own = (model.density, model.likelihood, model.counts, model.group, model.point_weights)
    return AnchoredAgreement(model, *own, log_factor, ratio)
