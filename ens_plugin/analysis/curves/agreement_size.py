"""The size by agreement with the infinite ensemble, and how often a member's label differs from that ensemble's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.analysis.curves.label_models import are_votes, counts_hard_votes
from ens_plugin.analysis.curves.size_reasons import agreement_reason
from ens_plugin.core import estimates
from ens_plugin.core.estimates.ensemble_size import smallest_odd_size
from ens_plugin.core.likeness.equal_outputs import are_alike
from ens_plugin.core.row_models.mixture import Mixture, mixture_of_counts
from ens_plugin.core.row_models.roughness import as_rough_as_known, rougher_than_known
from ens_plugin.core.row_models.row_model import RowModel, model_agreement, row_means
from ens_plugin.core.tallies.tally import MarginTally, SupportTally, mean_share
from ens_plugin.core.uncertainty.comparison_noise import luck_variance
from ens_plugin.core.uncertainty.intervals import PosteriorDraws, size_draws, size_interval, spread_sizes
from ens_plugin.core.validation import FloatArray
from ens_plugin.records import record
from ens_plugin.report.estimates import SizeRecommendation

if TYPE_CHECKING:
    from ens_plugin.analysis.curves.estimates import ResolvedOptions
    from ens_plugin.core.tallies.row_weight import RowWeight
    from ens_plugin.core.tallies.subset_rates import SubsetRates
    from ens_plugin.core.tallies.subsets import Sample

__all__ = ["SizeLuck", "agreement_size", "gap_doubts", "member_variance", "size_model", "without_lower_end"]

# Of the logarithms to base 2 of both disagreements: what a rougher density changes for ordinary votes, and how much
# the change spreads by the number of rows that disagree.
ORDINARY_CHANGE, SPREAD_BY_ROWS = 0.25, 0.5
# With fewer votes a row, either density is as likely as the other whatever the distribution.
LEAST_VOTES = 15.0
# The disagreement falls with the root of the size where votes are smooth, so that a size moves by twice its error.
BY_LOG = 2.0


def size_model(model: RowModel, contests: RowModel | None, rates: SubsetRates | None, sample: Sample) -> RowModel:
    """Return the row model of the agreement, corrected by subset rates and, for over two labels, by leading labels."""
    if rates is None or (isinstance(model, Mixture) and model.density is None):
        return model
    n_rows = sample.rows.size
    known, rows = (model, sample.rows) if contests is None else (contests, np.arange(n_rows))
    ratio = estimates.subset_ratio(known, rates, rows, sample.weight)
    return estimates.anchor_agreement(model, contests, ratio, sample.rows, sample.weight)


def agreement_size(
    model: RowModel, drawn: PosteriorDraws | None, n_members: int, settings: ResolvedOptions, luck: SizeLuck
) -> SizeRecommendation:
    """Return the recommended size by agreement, its interval, and the agreement at the current and other sizes."""

    def mean_agreement(size: float) -> float:
        return float(model_agreement(model, [size])[0])

    size = smallest_odd_size(mean_agreement, settings.confidence, settings.max_size)
    draws = size_draws(model, settings.confidence, settings.max_size, settings.random_state, drawn=drawn)
    known = draws[np.isfinite(draws)]
    if known.size:
        of_ratio = _ratio_sd(model, float(np.median(known)))
        of_seeds = 0.0 if size is None else luck.log_sd(model, size, settings.confidence)
        draws = spread_sizes(draws, float(np.hypot(of_ratio, of_seeds)), settings.random_state)
    agreement = mean_agreement(n_members)
    sizes = settings.sizes
    low, high = size_interval(draws, settings.interval_level, settings.max_size)
    return SizeRecommendation(
        size=size,
        criterion="agreement",
        confidence=settings.confidence,
        tolerance=None,
        agreement=agreement,
        interval=(low, high),
        reason=agreement_reason(size, agreement, n_members, settings),
        max_size=settings.max_size,
        sizes=sizes.copy(),
        values=model_agreement(model, sizes),
    )


def without_lower_end(found: SizeRecommendation, sample: Sample) -> SizeRecommendation:
    """Return a size by labels whose interval begins at 1 where rows of more than two labels have few votes.

    The two labels that lead on a row are then chosen by noise, and seem closer than they are: from 20 trees, sizes were
    up to four times too large.
    """
    if sample.block.n_labels <= 2 or float(sample.block.trials.mean()) >= LEAST_VOTES:
        return found
    return replace(found, interval=(1, found.interval[1]))


def _ratio_sd(model: RowModel, size: float) -> float:
    """Return the standard deviation of the logarithm of the size, as far as the ratio of disagreements is not known."""
    # The agreement of a mixture alone is not anchored, and nothing that anchors one need be loaded.
    if isinstance(model, Mixture) or not isinstance(model, estimates.AnchoredAgreement):
        return 0.0
    return BY_LOG * model.ratio.sd_at(size)


@record
class SizeLuck:
    """What the size by agreement owes to the members that were trained: another seed gives another one.

    Attributes
    ----------
    outputs : ndarray, shape (n_members, n_sampled)
        The output of each member whose mean determines the label.
    counted : ndarray of bool, shape (n_members, n_sampled)
    slopes_by : ndarray, shape (n_sampled,)
        Sign of each row's outputs, times its relative weight.
    n_rows : float
        Number of rows of the whole data.
    """

    outputs: NDArray[Any]
    counted: NDArray[np.bool_]
    slopes_by: FloatArray
    n_rows: float

    def log_sd(self, model: RowModel, size: int, confidence: float) -> float:
        """Return the standard deviation over seeds of the logarithm of a size, by the delta method."""
        apart, further = 1.0 - model_agreement(model, [size, 2 * size + 1])
        if not 0.0 < further < apart:
            return 0.0
        # Towards the infinite ensemble's label, an output makes the other label rarer on either side.
        side = 1.0 - 2.0 * model.error_by_point([np.inf])[0]
        slopes = row_means(model, (side * model.slope_by_point(size))[None])[0]
        variance = luck_variance(self.outputs, self.counted, slopes * self.slopes_by, self.n_rows)
        by_log = np.log((2 * size + 1) / size) / np.log(apart / further)
        # Of one member, the disagreement may be far below the one that is allowed.
        return float(by_log * np.sqrt(variance) / max(apart, 1.0 - confidence))


def gap_doubts(
    model: RowModel,
    tally: SupportTally | MarginTally,
    sample: Sample,
    weight: RowWeight,
    n_members: int,
    settings: ResolvedOptions,
) -> tuple[str, ...]:
    """Return a doubt where too few votes leave open whether rows have close votes at all.

    The density of the votes of ordinary ensembles is as smooth as assumed, and one that may be four times as rough
    hardly changes the agreement.  Where it has fewer rows with close votes, the smooth one may fill a gap.  Of more
    than two labels, the votes for the true label are compared with all others.

    Parameters
    ----------
    model : RowModel
        Of two labels, that of hard votes is compared.
    tally : SupportTally or MarginTally
    sample : Sample
    weight : RowWeight
    n_members : int
    settings : ResolvedOptions
        There is a doubt only where the size is wanted by the agreement.
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
    return (
        f"The agreement of {100 * (1 - smooth_apart):.4g} % and the size by it assume that the members' votes are "
        f"distributed smoothly over the rows, which {votes:.3g} votes a row cannot confirm. Under a weaker assumption "
        f"the agreement is {100 * (1 - rough_apart):.4g} %, and if no row has close votes it is higher still, and the "
        "size much too large. Train four times as many members, or use criterion='probability'.",
    )


def _gap_doubts_of_labels(
    tally: MarginTally, sample: Sample, weight: RowWeight, n_members: int, votes: float
) -> tuple[str, ...]:
    """Return a doubt where fewer rows than assumed may have as many votes for the true label as for all others."""
    if not are_votes(sample.block):
        return ()
    smooth = mixture_of_counts(tally.wrong_labels, tally.trials, weight, 1.0)
    known = as_rough_as_known(smooth)
    # Margins have no rougher density, so that what the rows know does not change the agreement.
    rough = rougher_than_known(known) or known
    if smooth.density is None or not _are_fewer_close(smooth, rough, n_members) or are_alike(sample):
        return ()
    return (
        "The agreement and the size by it assume that the members' votes are distributed smoothly over the rows, which "
        f"{votes:.3g} votes a row do not confirm: fewer rows may have about as many votes for their label as for the "
        "others. The agreement may then be higher, and the size much too large. Train four times as many members, or "
        "use criterion='probability'.",
    )


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
    found = float(share @ estimates.member_dissent(model, contests, sample))
    if isinstance(tally, SupportTally):
        return found
    # How often members differ from the other members is known of all rows, and little else differs from row to row.
    of_all = mean_share(tally, lambda part: part.dissent, weight.total)
    of_sample = float(share @ (tally.dissent[sample.rows] / tally.trials[sample.rows]))
    return float(np.clip(found + of_all - of_sample, 0.0, 1.0))
