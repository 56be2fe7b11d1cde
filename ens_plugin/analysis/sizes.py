"""Recommended sizes by agreement, error and probabilities, and their reasons in sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.analysis.copies import RowLikeness
from ens_plugin.analysis.estimates import SLOW_ROWS, Estimates, ResolvedOptions, are_votes, counts_hard_votes
from ens_plugin.analysis.evidence import Evidence
from ens_plugin.core.agreement import (
    CellVotes,
    anchor_agreement,
    gather_cells,
    has_few_cells,
    member_dissent,
    subset_ratio,
)
from ens_plugin.core.alike_rows import are_alike, output_cells
from ens_plugin.core.intervals import ErrorDraws
from ens_plugin.core.losses import brier_loss
from ens_plugin.core.row_model import RowModel, model_agreement
from ens_plugin.core.sample import Sample, SubsetRates
from ens_plugin.core.tally import MarginTally, SupportTally, mean_share
from ens_plugin.core.validation import SINGLE_ROUNDING, FloatArray, counted
from ens_plugin.core.votes import Mixture, as_rough_as_known, mixture_of_counts, rougher_than_known
from ens_plugin.findings import Finding, finding
from ens_plugin.report.result import RARE, LabelBasis, SizeRecommendation, rarest_label
from ens_plugin.report.text import criterion_words, level_text, size_interval_text

if TYPE_CHECKING:
    from ens_plugin.core.weights import RowWeight

__all__ = [
    "Goal",
    "NoLimit",
    "SizeLaw",
    "agreement_reason",
    "agreement_size",
    "as_told",
    "choose_criterion",
    "count_distinct_rows",
    "excess_size",
    "gap_doubts",
    "law_of_alike_rows",
    "member_variance",
    "metric_reason",
    "probability_size",
    "rare_label_notes",
    "recommend",
    "resize_by_distinct_rows",
    "size_model",
    "with_criteria",
    "without_lower_end",
]


class SizeLaw(Protocol):
    """How close an ensemble of each size is to the infinite ensemble, in one respect.

    Agreement of labels, error, Brier score and every metric have a law each: the recommended size, its interval and the
    table of a criterion come from these three methods alone (:func:`ens_plugin.analysis.sizes.recommend`).  Another way
    to one of these sizes is a class with them.  Another *criterion* needs its words too, where
    :attr:`ens_plugin.SizeRecommendation.criterion` is read.
    """

    def values(self, sizes: ArrayLike) -> FloatArray:
        """Return the closeness at each size, shape (n_sizes,): an agreement, which grows, or an excess, which falls.

        An excess is signed where the quantity may lie on either side of its limit.

        NaN where nothing can be relative to the infinite ensemble, whose error is 0.
        """
        ...

    def size_within(self, wanted: float, max_size: int) -> int | None:
        """Return the smallest size from which on the closeness is as wanted; None if above `max_size`, or unknown.

        Of votes, odd sizes alone are considered: an even one errs as often as the odd one below it.
        """
        ...

    def size_interval(self, wanted: float, max_size: int, level: float) -> tuple[int, int | None]:
        """Return the ends of that size's interval: the lower at most `max_size`, the upper None if above it."""
        ...


class NoLimit:
    """The law of a quantity that cannot be distinguished from 0 for the infinite ensemble: no size is known."""

    def values(self, sizes: ArrayLike) -> FloatArray:
        """Return NaN for each size."""
        return np.full(np.shape(sizes), np.nan)

    def size_within(self, wanted: float, max_size: int) -> None:
        """Return None."""
        return

    def size_interval(self, wanted: float, max_size: int, level: float) -> tuple[int, None]:
        """Return 1 and no upper end."""
        return 1, None


# A size is stated where it is known to a factor of two either way.
MOST_TIMES = 4.0


def as_told(found: SizeRecommendation, level: float) -> SizeRecommendation:
    """Return a recommendation without its size, and with the reason, if its interval is too wide to tell a size.

    The upper end may be four times the lower one.  A size above all that are considered is told by an interval above
    them.
    """
    low, high = found.interval
    is_told = high <= MOST_TIMES * low if high is not None else low >= found.max_size
    if is_told or not found.has_interval:
        return found
    interval = size_interval_text(found.interval, found.max_size)
    reason = (
        f"How many members are needed for {criterion_words(found)} cannot be told from these rows: {interval} "
        f"({level_text(level)} interval), and a size is stated only where the upper end is at most {MOST_TIMES:g} "
        "times the lower one. Pass more rows, or train more members."
    )
    return replace(found, size=None, reason=reason)


def agreement_reason(size: int | None, agreement: float, n_members: int, settings: ResolvedOptions) -> str:
    """Return one sentence with the agreement of the members, and the size needed for the wanted agreement."""
    now = (
        f"With {counted(n_members, 'member')}, {100 * agreement:.2f} % of the labels are those of the infinite ensemble"
    )
    return _with_size(now, f"an agreement of {100 * settings.confidence:.6g} %", size, n_members, settings)


class Goal(NamedTuple):
    """What a size has to reach by one criterion: `wanted` is the agreement, or the excess.

    ``reason(size, now)`` returns one sentence with the size and the closeness of the current size.
    """

    criterion: Literal["agreement", "excess_error", "probability", "metric"]
    wanted: float
    reason: Callable[[int | None, float], str]


def recommend(
    law: SizeLaw, goal: Goal, agreement: float | None, n_members: int, settings: ResolvedOptions
) -> SizeRecommendation:
    """Return the size at which a law reaches a goal, with its interval and the table of the closeness by size.

    `agreement` is that of the current size; a law of the agreement has its own in its place.
    """
    size = law.size_within(goal.wanted, settings.max_size)
    is_agreement, now = goal.criterion == "agreement", float(law.values([n_members])[0])
    return SizeRecommendation(
        size=size,
        criterion=goal.criterion,
        confidence=goal.wanted if is_agreement else None,
        tolerance=None if is_agreement else goal.wanted,
        agreement=now if is_agreement else agreement,
        interval=law.size_interval(goal.wanted, settings.max_size, settings.interval_level),
        reason=goal.reason(size, now),
        max_size=settings.max_size,
        sizes=settings.sizes.copy(),
        values=law.values(settings.sizes),
    )


def excess_size(
    law: SizeLaw,
    criterion: Literal["excess_error", "probability"],
    loss: str,
    agreement: float | None,
    n_members: int,
    settings: ResolvedOptions,
) -> SizeRecommendation:
    """Return the size by the excess of a loss over that of the infinite ensemble."""
    wanted = settings.probability_tolerance if criterion == "probability" else settings.tolerance
    reason = partial(_excess_reason, loss, wanted=wanted, n_members=n_members, settings=settings)
    return recommend(law, Goal(criterion, wanted, reason), agreement, n_members, settings)


def metric_reason(
    size: int | None,
    difference: float,
    *,
    allowed: float,
    n_members: int,
    settings: ResolvedOptions,
    is_typical: bool,
) -> str:
    """Return one sentence with the distance of the metric from that of the infinite ensemble, and the size needed."""
    metric = settings.metric
    assert metric is not None
    if np.isnan(difference):
        nothing = f"{settings.metric_reference:.3g}, that of chance," if metric.is_absolute else "0,"
        return f"The infinite ensemble's {metric.name} cannot be distinguished from {nothing} so no distance is small."
    side = "below" if difference < 0 else "above"
    if metric.is_absolute:
        distance, wanted = f"{abs(difference):.4f}", f"a difference of {allowed:.6g}"
    else:
        distance, wanted = f"{100 * abs(difference):.2f} %", f"a difference of {100 * allowed:.6g} %"
    state = f"With {counted(n_members, 'member')}, the {metric.name} is {distance} {side} that of the infinite ensemble"
    reason = _with_size(state, wanted, size, n_members, settings)
    seems_close = abs(difference) <= allowed
    if not is_typical or size is None or seems_close == (size <= n_members):
        return reason
    return f"{reason} The size is the geometric mean of those of many curves that these rows allow."


def _excess_reason(
    loss: str, size: int | None, now: float, *, wanted: float, n_members: int, settings: ResolvedOptions
) -> str:
    if np.isnan(now):
        return f"The infinite ensemble's {loss} cannot be distinguished from 0, so no relative excess exists."
    below = "below" if now < 0 else "above"
    distance = f"{100 * abs(now):.2f} % {below}"
    state = f"With {counted(n_members, 'member')}, the {loss} is {distance} that of the infinite ensemble"
    return _with_size(state, f"an excess of {100 * wanted:.6g} %", size, n_members, settings)


def _with_size(state: str, wanted: str, size: int | None, n_members: int, settings: ResolvedOptions) -> str:
    if size is None:
        return f"{state}; {wanted} takes more than {counted(settings.max_size, 'member')}."
    if size <= n_members:
        return f"{state}; {counted(size, 'member is', 'members are')} enough for {wanted}."
    return f"{state}; {wanted} takes {counted(size, 'member')}."


# Of the logarithms to base 2 of both disagreements: what a rougher density changes for ordinary votes, and how much
# the change spreads by the number of rows that disagree.
ORDINARY_CHANGE, SPREAD_BY_ROWS = 0.25, 0.5
# With fewer votes a row, either density is as likely as the other whatever the distribution.
LEAST_VOTES = 15.0


def size_model(model: RowModel, contests: RowModel | None, rates: SubsetRates | None, sample: Sample) -> RowModel:
    """Return the row model of the agreement, corrected by subset rates and, for over two labels, by leading labels."""
    if rates is None or (isinstance(model, Mixture) and model.density is None):
        return model
    n_rows = sample.rows.size
    known, rows = (model, sample.rows) if contests is None else (contests, np.arange(n_rows))
    ratio = subset_ratio(known, rates, rows, sample.weight)
    return anchor_agreement(model, contests, ratio, sample.rows, sample.weight)


def agreement_size(law: SizeLaw, n_members: int, settings: ResolvedOptions) -> SizeRecommendation:
    """Return the recommended size by agreement, its interval, and the agreement at the current and other sizes."""
    goal = Goal("agreement", settings.confidence, partial(agreement_reason, n_members=n_members, settings=settings))
    return recommend(law, goal, None, n_members, settings)


def without_lower_end(found: SizeRecommendation, sample: Sample) -> SizeRecommendation:
    """Return a size by labels whose interval begins at 1 where rows of more than two labels have few votes.

    The two labels that lead on a row are then chosen by noise, and seem closer than they are: from 20 trees, sizes were
    up to four times too large.
    """
    if sample.block.n_labels <= 2 or float(sample.block.trials.mean()) >= LEAST_VOTES:
        return found
    return replace(found, interval=(1, found.interval[1]))


def gap_doubts(
    model: RowModel,
    tally: SupportTally | MarginTally,
    sample: Sample,
    weight: RowWeight,
    n_members: int,
    settings: ResolvedOptions,
) -> tuple[Finding, ...]:
    """Return a doubt where too few votes leave open whether rows have close votes at all.

    The density of the votes of ordinary ensembles is as smooth as assumed, and one that may be four times as rough
    hardly changes the agreement.  Where it has fewer rows with close votes, the smooth one may fill a gap.  Of more
    than two labels, the votes for the true label are compared with all others.
    """
    votes = float(sample.block.trials.mean())
    if settings.criterion != "agreement" or votes < LEAST_VOTES:
        return ()
    if isinstance(tally, MarginTally):
        return _gap_doubts_of_labels(tally, sample, weight, n_members, votes)
    if not isinstance(model, Mixture) or model.votes_per_member != 1.0:
        return ()
    rough = rougher_than_known(model)
    if rough is None or not _are_fewer_close(model, rough, n_members) or are_alike(sample):
        return ()
    smooth_apart, rough_apart = (1.0 - float(model_agreement(found, [n_members])[0]) for found in (model, rough))
    sentence = (
        f"The agreement of {100 * (1 - smooth_apart):.4g} % and the size by it assume that the members' votes are "
        f"distributed smoothly over the rows, which {votes:.3g} votes a row cannot confirm. Under a weaker assumption "
        f"the agreement is {100 * (1 - rough_apart):.4g} %, and if no row has close votes it is higher still, and the "
        "size much too large. Train four times as many members, or use criterion='probability'."
    )
    numbers = {"agreement": 1.0 - smooth_apart, "weaker_agreement": 1.0 - rough_apart, "votes_per_row": votes}
    return (finding("unknown-roughness", sentence, **numbers),)


def _gap_doubts_of_labels(
    tally: MarginTally, sample: Sample, weight: RowWeight, n_members: int, votes: float
) -> tuple[Finding, ...]:
    """Return a doubt where fewer rows than assumed may have as many votes for the true label as for all others."""
    if not are_votes(sample.block):
        return ()
    smooth = mixture_of_counts(tally.wrong_labels, tally.trials, weight, 1.0)
    known = as_rough_as_known(smooth)
    # Margins have no rougher density, so that what the rows know does not change the agreement.
    rough = rougher_than_known(known) or known
    if smooth.density is None or not _are_fewer_close(smooth, rough, n_members) or are_alike(sample):
        return ()
    sentence = (
        "The agreement and the size by it assume that the members' votes are distributed smoothly over the rows, which "
        f"{votes:.3g} votes a row do not confirm: fewer rows may have about as many votes for their label as for the "
        "others. The agreement may then be higher, and the size much too large. Train four times as many members, or "
        "use criterion='probability'."
    )
    return (finding("unknown-roughness", sentence, votes_per_row=votes),)


def _are_fewer_close(smooth: Mixture, rough: Mixture, n_members: int) -> bool:
    """Return whether fewer rows have close votes by a rougher density than by a smooth one, beyond what is usual."""
    smooth_apart, rough_apart = (1.0 - float(model_agreement(found, [n_members])[0]) for found in (smooth, rough))
    usual = ORDINARY_CHANGE + SPREAD_BY_ROWS / np.sqrt(max(smooth_apart * smooth.counts.sum(), 1e-9))
    return bool(rough_apart <= smooth_apart * 2.0**-usual)


def member_variance(
    model: RowModel, contests: RowModel | None, tally: SupportTally | MarginTally, sample: Sample, weight: RowWeight
) -> float:
    """Return the chance that a member's label is not the infinite ensemble's, from its labels on the sampled rows."""
    if counts_hard_votes(tally):
        return float(1.0 - model_agreement(model, [1])[0])
    share = sample.weight / sample.weight.sum()
    found = float(share @ member_dissent(model, contests, sample))
    if isinstance(tally, SupportTally):
        return found
    # How often members differ from the other members is known of all rows, and little else differs from row to row.
    of_all = mean_share(tally, lambda part: part.dissent, weight.total)
    of_sample = float(share @ (tally.dissent[sample.rows] / tally.trials[sample.rows]))
    return float(np.clip(found + of_all - of_sample, 0.0, 1.0))


BRIER = "mean Brier score of the probabilities"
# The order in which criteria replace one whose size is not known.
INSTEAD = ("probability", "excess_error", "agreement")
# A row with chances of one half for two labels has this error and, halved for two labels, this Brier score.  Losses of
# the infinite ensemble below that of one such row are made of rounding and of the tails of the fitted distribution.
UNDECIDED = 0.5


def with_criteria(
    estimates: Estimates,
    adapter: EnsembleAdapter,
    sample: Sample,
    groups: NDArray[np.integer] | None,
    n_rows: float,
    settings: ResolvedOptions,
) -> Estimates:
    """Return the estimates with the size by every criterion, and the recommendation by the chosen one."""
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
    law: SizeLaw = NoLimit() if found.error[-1] < UNDECIDED / n_rows else found
    return excess_size(law, "excess_error", "error", agreement, n_members, settings)


def rare_label_notes(
    found: SizeRecommendation, criteria: Sequence[SizeRecommendation], labels: Sequence[LabelBasis]
) -> tuple[Finding, ...]:
    """Return a note where the wanted agreement hardly depends on the rarest label."""
    rarest = rarest_label(labels)
    if found.confidence is None or rarest is None or rarest.share >= RARE * (1.0 - found.confidence):
        return ()
    has_better = any(other.criterion == "probability" and other.is_known for other in criteria)
    advice = " Use criterion='probability'." if has_better else ""
    sentence = (
        f"Only {100 * rarest.share:.2g} % of the rows have label {rarest.label!r}, so an agreement of labels of "
        f"{100 * found.confidence:.4g} % hardly depends on it: the recommended size may be far too small for this "
        f"label, for rankings and for probabilities.{advice}"
    )
    return (finding("rare-label", sentence, share=rarest.share),)


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
    inverse_link = adapter.inverse_link if adapter.output_kind == "scores" else None
    if inverse_link is not None and not _are_shares(inverse_link(sample.mean_outputs())):
        return None
    loss = brier_loss(sample, inverse_link, groups)
    if loss is None:
        return None
    assert loss.moments is not None
    of_one_row = UNDECIDED / loss.moments.n_rows / (2.0 if sample.block.n_labels == 2 else 1.0)
    is_known = loss.asymptote >= of_one_row and (loss.member_variance > 0 or inverse_link is None)
    return excess_size(loss if is_known else NoLimit(), "probability", BRIER, agreement, adapter.n_members, settings)


def _are_shares(values: NDArray[np.float64]) -> bool:
    return bool(np.all((values >= -SINGLE_ROUNDING) & (values <= 1.0 + SINGLE_ROUNDING)))


def count_distinct_rows(evidence: Evidence, likeness: RowLikeness) -> int | None:
    """Return the number of different rows of features among those used; None where it was not counted."""
    used = _used(evidence)
    if likeness.cell is not None:
        return int(np.count_nonzero(np.bincount(likeness.cell[used])))
    return int(np.count_nonzero(used)) if likeness.all_differ else None


def resize_by_distinct_rows(
    estimates: Estimates,
    adapter: EnsembleAdapter,
    evidence: Evidence,
    likeness: RowLikeness,
    settings: ResolvedOptions,
) -> Estimates:
    """Return the estimates with another recommended size if few rows are distinct, or told apart by members.

    That size is computed from the members' votes on each distinct row, not from a distribution fitted to all rows.
    """
    if adapter.info.task != "classification":
        return estimates
    used = _used(evidence)
    cell = None if likeness.cell is None else likeness.cell[used]
    if cell is None or not has_few_cells(cell):
        return _resized_by_alike_rows(estimates, adapter, evidence, settings)
    n_distinct = int(np.count_nonzero(np.bincount(cell)))
    weight = evidence.weight.select(used)
    sample = evidence.sample.keep(used)
    cells = gather_cells(sample, cell, weight.total, weight.n_effective, settings.random_state)
    by_agreement = agreement_size(cells, adapter.n_members, settings)
    by_probability = probability_size(adapter, sample, cell[sample.rows], by_agreement.agreement, settings)
    note = (
        f"The size rests on the members' outputs for {counted(n_distinct, 'different row')} of features "
        f"among {cell.size}."
    )
    found_sizes = (found for found in (by_agreement, by_probability) if found is not None)
    by_name = {found.criterion: _with_note(as_told(found, settings.interval_level), note) for found in found_sizes}
    criteria = tuple(
        replace(by_name.get(found.criterion, found), agreement=by_agreement.agreement) for found in estimates.criteria
    )
    advice = choose_criterion(criteria, settings)
    findings = estimates.findings
    if advice.criterion == "agreement" and advice.interval[1] is None:
        findings = (*findings, _doubt_about_distinct_rows(advice, n_distinct))
    return replace(estimates, recommendation=advice, criteria=criteria, findings=findings)


def _used(evidence: Evidence) -> NDArray[np.bool_]:
    """Return which rows have weight and a member that counts."""
    return np.asarray((evidence.tally.trials >= 1) & (evidence.weight.total > 0))


def _resized_by_alike_rows(
    estimates: Estimates, adapter: EnsembleAdapter, evidence: Evidence, settings: ResolvedOptions
) -> Estimates:
    """Return estimates with another agreement if no member tells most rows with close votes from several others."""
    kinds = law_of_alike_rows(evidence.sample.keep(_used(evidence)), evidence.weight.n_effective, settings)
    if kinds is None:
        return estimates
    by_agreement = agreement_size(kinds, adapter.n_members, settings)
    note = f"The size rests on the members' outputs for {counted(kinds.share.size, 'kind')} of rows."
    by_agreement = _with_note(as_told(by_agreement, settings.interval_level), note)
    criteria = tuple(
        replace(by_agreement if found.criterion == "agreement" else found, agreement=by_agreement.agreement)
        for found in estimates.criteria
    )
    return replace(estimates, recommendation=choose_criterion(criteria, settings), criteria=criteria)


def law_of_alike_rows(sample: Sample, n_effective: float, settings: ResolvedOptions) -> CellVotes | None:
    """Return the law of the agreement by kinds of rows that members do not tell apart; None where they tell rows."""
    if not are_alike(sample):
        return None
    part = sample.some_rows(SLOW_ROWS)
    kind = output_cells(part.block)
    if kind is None:
        return None
    part = replace(part, rows=np.arange(kind.size))
    return gather_cells(part, kind, part.weight, n_effective, settings.random_state)


def _with_note(advice: SizeRecommendation, note: str) -> SizeRecommendation:
    """Return the recommendation with how its size was estimated, which changes nothing about its use."""
    return replace(advice, reason=f"{advice.reason} {note}".strip())


def _doubt_about_distinct_rows(advice: SizeRecommendation, n_distinct: int) -> Finding:
    return finding(
        "few-distinct-rows",
        f"The recommended size is not known: there {'is' if n_distinct == 1 else 'are'} only "
        f"{counted(n_distinct, 'different row')} of features, and the members are so evenly split over one of them "
        f"that any size from {advice.interval[0]} to more than {advice.max_size} may be needed. Train more members.",
        n_distinct=n_distinct,
    )
