r"""Recommended sizes: one rule for "enough" in every respect.

A size is enough where its loss against the infinite ensemble is at most the tolerance.  The present size is judged by
the estimated loss.  The recommended size is a promise: the smallest size at which the upper bound of the loss,
one-sided at 95 %, is within the tolerance in every respect that was asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.analysis.estimates import Estimates, ResolvedOptions
from ens_plugin.core.losses import SquaredLoss, squared_loss
from ens_plugin.core.sample import Sample
from ens_plugin.core.validation import SINGLE_ROUNDING, FloatArray, counted
from ens_plugin.errors import InputError
from ens_plugin.findings import Finding, finding
from ens_plugin.report.result import RARE, Criterion, LabelBasis, SizeRecommendation, rarest_label

if TYPE_CHECKING:
    pass


class SizeLaw(Protocol):
    """How much an ensemble of each size loses against the infinite ensemble, in one respect.

    Agreement of labels, error, Brier score and every metric have a law each: the recommended size, its interval and the
    table of a criterion come from these three methods alone (:func:`ens_plugin.analysis.sizes.recommend`).  Another way
    to one of these sizes is a class with them.  Another *criterion* needs its words too, where
    :attr:`ens_plugin.SizeRecommendation.criterion` is read.
    """

    def losses(self, sizes: ArrayLike) -> FloatArray:
        """Return the estimated loss at each size, in the unit of the quantity, shape (n_sizes,)."""
        # NaN where the limit of the quantity is not known.
        ...

    def size_within(self, tolerance: float, max_size: int) -> int | None:
        """Return the smallest size from which on the loss is within the tolerance; None if above `max_size`."""
        # Of votes, odd sizes alone are considered: an even one errs as often as the odd one below it.
        ...

    def size_interval(self, tolerance: float, max_size: int, level: float) -> tuple[int, int | None]:
        """Return the ends of that size's interval: the lower at most `max_size`, the upper None if above it."""
        ...


class NoLimit:
    """The law of a quantity whose tolerance is a share of what cannot be distinguished from 0: no size is known."""

    def losses(self, sizes: ArrayLike) -> FloatArray:
        """Return NaN for each size."""
        return np.full(np.shape(sizes), np.nan)

    def size_within(self, tolerance: float, max_size: int) -> None:
        """Return None."""
        return

    def size_interval(self, tolerance: float, max_size: int, level: float) -> tuple[int, None]:
        """Return 1 and no upper end."""
        return 1, None


class Goal(NamedTuple):
    """What a size has to reach in one respect.

    Attributes
    ----------
    criterion : {"agreement", "error", "probability", "metric"}
    name : str
        Of the quantity, in sentences.
    tolerance : float
        Loss that is allowed, in the unit of the quantity.
    limit : float
        The quantity of the infinite ensemble; 1 for an agreement.
    """

    criterion: Criterion
    name: str
    tolerance: float
    limit: float


# Two-sided; the upper end of such an interval is a bound at 95 %.
PROMISED_LEVEL = 0.9


def recommend(
    law: SizeLaw,
    goal: Goal,
    agreement: float | None,
    n_members: int,
    settings: ResolvedOptions,
    loss: float | None = None,
) -> SizeRecommendation:
    """Return the size by one respect: the promise, the interval of the size that is needed, and the loss by size."""
    # `agreement` is that of the current size; a law of the agreement has its own in its place. So is `loss`, which a
    # law has by interpolation only.
    promise = promised_size(law, goal.tolerance, settings.max_size)
    low, high = law.size_interval(goal.tolerance, settings.max_size, settings.interval_level)
    loss = float(law.losses([n_members])[0]) if loss is None else loss
    return SizeRecommendation(
        size=promise,
        criterion=goal.criterion,
        tolerance=goal.tolerance,
        loss=loss,
        limit=goal.limit,
        agreement=1.0 - loss if goal.criterion == "agreement" else agreement,
        interval=_around(promise, low, high),
        reason=recommendation_reason(goal, promise, loss, n_members, settings.max_size),
        max_size=settings.max_size,
        is_required=goal.criterion in settings.respects,
        sizes=settings.sizes.copy(),
        losses=law.losses(settings.sizes),
    )


def promised_size(law: SizeLaw, tolerance: float, max_size: int) -> int | None:
    """Return the smallest size at which the upper bound of the loss is within the tolerance; None above `max_size`."""
    return law.size_interval(tolerance, max_size, PROMISED_LEVEL)[1]


def _around(promise: int | None, low: int, high: int | None) -> tuple[int, int | None]:
    """Return an interval that holds the promise too, which a level below 90 % would leave outside."""
    if promise is None:
        return low, None
    return min(low, promise), None if high is None else max(high, promise)


def recommendation_reason(goal: Goal, size: int | None, loss: float, n_members: int, max_size: int) -> str:
    """Return one sentence with the loss of the present size, what is allowed, and the size that keeps within it."""
    if np.isnan(loss):
        return (
            f"The infinite ensemble's {goal.name} cannot be distinguished from that of chance, or from 0, so no "
            "difference from it is small."
        )
    now, allowed = (_loss_text(goal, value) for value in (abs(loss), goal.tolerance))
    takes = f"more than {counted(max_size, 'member')}" if size is None else counted(size, "member")
    if goal.criterion == "agreement":
        state = f"{now} of the labels of {counted(n_members, 'member')} would change with infinitely many"
    else:
        apart = "from" if goal.criterion == "metric" else "below" if loss < 0 else "above"
        state = f"With {counted(n_members, 'member')}, the {goal.name} is {now} {apart} that of infinitely many"
    return f"{state}; {allowed} {'is' if goal.criterion == 'metric' else 'are'} allowed, which takes {takes}."


def _loss_text(goal: Goal, value: float) -> str:
    if goal.criterion == "agreement":
        return f"{100.0 * value:.2g} %"
    return f"{100.0 * value:.2g} percentage points" if goal.name == "error" else f"{value:.2g}"


# What nobody would notice: of the accuracy this much, or so many of its standard errors; of a Brier score such a share
# of that of the base rates; of a mean squared error such a share of the variance of the target.
MATERIAL_ERROR, MATERIAL_ERRORS, MATERIAL_BRIER, MATERIAL_VARIANCE = 0.002, 0.3, 0.002, 1e-4
# Of the infinite ensemble's.
RELATIVE_ERROR, RELATIVE_BRIER, RELATIVE_SQUARES = 0.02, 0.01, 0.01


def _tolerance(limit: float, relative: float, material: float, settings: ResolvedOptions) -> float:
    """Return the loss that is allowed: the larger of both parts, or the share of the limit that the user named."""
    if settings.tolerance is not None:
        return settings.tolerance * max(limit, 0.0)
    return max(relative * limit, material)


def agreement_size(
    law: SizeLaw, n_members: int, settings: ResolvedOptions, agreement: float | None = None
) -> SizeRecommendation:
    """Return the recommended size by agreement, and the agreement at the current size, where it is not given."""
    goal = Goal("agreement", "agreement", settings.agreement_tolerance, 1.0)
    loss = None if agreement is None else 1.0 - agreement
    return recommend(law, goal, None, n_members, settings, loss)


def values_size(
    loss: SquaredLoss, target_variance: float, n_members: int, settings: ResolvedOptions
) -> SizeRecommendation:
    """Return the size by the mean squared error."""
    material = MATERIAL_VARIANCE * target_variance
    tolerance = _tolerance(loss.asymptote, RELATIVE_SQUARES, material, settings)
    return recommend(loss, Goal("error", "mean squared error", tolerance, loss.asymptote), None, n_members, settings)


def with_sizes(
    estimates: Estimates,
    adapter: EnsembleAdapter,
    sample: Sample,
    groups: NDArray[np.integer] | None,
    settings: ResolvedOptions,
) -> Estimates:
    """Return the estimates with the size by every criterion that the model has."""
    estimates = replace(estimates, baseline_error=_baseline_error(adapter, sample))
    if adapter.info.task == "regression":
        return estimates
    by_error = partial(_error_size, estimates, adapter.n_members, settings)
    by_probability = partial(probability_size, adapter, sample, groups, estimates.agreement, settings)
    return replace(estimates, sizes={**estimates.sizes, "error": cache(by_error), "probability": cache(by_probability)})


def choose_recommendation(criteria: Iterable[SizeRecommendation]) -> SizeRecommendation:
    """Return the largest of the required sizes, at which all of them are kept."""
    return max(
        (found for found in criteria if found.is_required),
        key=lambda found: np.inf if found.size is None else found.size,
    )


def recommended_size(estimates: Estimates, adapter: EnsembleAdapter, settings: ResolvedOptions) -> SizeRecommendation:
    """Return the largest of the sizes that were asked for."""
    found = estimates.sizes_by(settings.respects)
    if not found:
        raise InputError(
            f"criterion='probability' needs probabilities, and this {type(adapter.model).__name__} has none that can "
            "be judged: its scores are no probabilities, or too few rows have two members. Use criterion='error'."
        )
    return choose_recommendation(found)


def _error_size(estimates: Estimates, n_members: int, settings: ResolvedOptions) -> SizeRecommendation:
    """Return the size by the error, and so by the accuracy."""
    law = estimates.error_draws
    assert law is not None
    limit = estimates.bias_variance.asymptotic_error
    material = max(MATERIAL_ERROR, MATERIAL_ERRORS * estimates.error_sd)
    goal = Goal("error", "error", _tolerance(limit, RELATIVE_ERROR, material, settings), limit)
    return recommend(law, goal, estimates.agreement, n_members, settings)


def rare_label_notes(
    found: SizeRecommendation, estimates: Estimates, labels: Sequence[LabelBasis]
) -> tuple[Finding, ...]:
    """Return a note where the wanted agreement hardly depends on the rarest label."""
    rarest = rarest_label(labels)
    if found.criterion != "agreement" or rarest is None or rarest.share >= RARE * found.tolerance:
        return ()
    advice = " Use criterion='probability'." if estimates.sizes_by(["probability"]) else ""
    sentence = (
        f"Only {100 * rarest.share:.2g} % of the rows have label {rarest.label!r}, so an agreement of labels of "
        f"{100 * (1.0 - found.tolerance):.4g} % hardly depends on it: the recommended size may be far too small for "
        f"this label, for rankings and for probabilities.{advice}"
    )
    return (finding("rare-label", sentence, share=rarest.share),)


def probability_size(
    adapter: EnsembleAdapter,
    sample: Sample,
    groups: NDArray[np.integer] | None,
    agreement: float | None,
    settings: ResolvedOptions,
) -> SizeRecommendation | None:
    """Return the size by the mean Brier score of the probabilities."""
    # None where the model's scores are no probabilities, or too few rows have two members.
    inverse_link = adapter.inverse_link if adapter.output_kind == "scores" else None
    if inverse_link is not None and not _are_shares(inverse_link(sample.mean_outputs())):
        return None
    loss = squared_loss(sample, inverse_link, groups)
    if loss is None:
        return None
    material = MATERIAL_BRIER * _brier_of_base_rates(sample)
    tolerance = _tolerance(loss.asymptote, RELATIVE_BRIER, material, settings)
    goal = Goal("probability", "Brier score", tolerance, loss.asymptote)
    return recommend(loss, goal, agreement, adapter.n_members, settings)


def _baseline_error(adapter: EnsembleAdapter, sample: Sample) -> float:
    """Return the error of always predicting the commonest label, or the mean squared error of the mean."""
    if adapter.info.task == "regression":
        return target_variance(sample)
    return float(1.0 - _label_shares(sample).max())


def target_variance(sample: Sample) -> float:
    """Return the variance of the target over the sampled rows."""
    target, weight = sample.block.target.astype(np.float64), sample.weight / sample.weight.sum()
    return float(weight @ (target - weight @ target) ** 2)


def _label_shares(sample: Sample) -> FloatArray:
    shares: FloatArray = np.bincount(sample.block.target, sample.weight, sample.block.n_labels) / sample.weight.sum()
    return shares


def _brier_of_base_rates(sample: Sample) -> float:
    """Return the Brier score of always predicting how often each label occurs; of two labels that of one."""
    shares = _label_shares(sample)
    return float(shares @ (1.0 - shares)) / (2.0 if shares.size == 2 else 1.0)


def _are_shares(values: NDArray[np.float64]) -> bool:
    return bool(np.all((values >= -SINGLE_ROUNDING) & (values <= 1.0 + SINGLE_ROUNDING)))
