"""The errors of the rows of each of two labels by size, for a metric of labels."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
from scipy.special import logit

from ens_plugin.analysis.curves.classification import draw_label_errors
from ens_plugin.analysis.curves.estimates import ResolvedOptions
from ens_plugin.analysis.curves.label_models import counts_hard_votes, fit_support, row_models
from ens_plugin.analysis.curves.stratified import draw_errors_by_members
from ens_plugin.analysis.metric_curves.label_metric import TwoErrors
from ens_plugin.analysis.tallied_rows import TalliedRows
from ens_plugin.core.estimates.label_chances import LabelChances, chances_of_labels
from ens_plugin.core.row_models.row_model import row_means
from ens_plugin.core.row_models.tied_votes import tie_probability
from ens_plugin.core.tallies.tally import MarginTally, SupportTally
from ens_plugin.core.uncertainty.error_draws import ErrorDraws
from ens_plugin.core.validation import FloatArray
from ens_plugin.errors import WeakEstimateWarning

__all__ = ["two_errors"]

# With more rows, their labels alone determine how the errors change with the size, at less cost.
SMOOTHED_ROWS = 10_000
LEAST_CHANCE = 1e-9


def two_errors(
    rows: TalliedRows, settings: ResolvedOptions, whole: ErrorDraws, *, has_scores: bool, is_even: bool
) -> TwoErrors:
    """Return the errors of the rows of each label by size: their limits, and how they approach these.

    The limit is that of each label's own rows.  How an error approaches it depends on few rows, those with close votes.
    Up to 10 000 rows, every row therefore counts for both labels, by the chance that a row with its votes has them.

    Parameters
    ----------
    rows : TalliedRows
        Usable rows, each an entry of the tally, with their labels.
    settings : ResolvedOptions
    whole : ErrorDraws
        Of all rows.  The mean of both limits is its limit.
    has_scores : bool
        True for raw scores, False for votes and probabilities.
    is_even : bool
        Whether all rows are out of bag equally often.
    """
    with warnings.catch_warnings():
        # Few rows of a label need no warning: the interval of the metric is from bootstrap samples of all rows.
        warnings.simplefilter("ignore", WeakEstimateWarning)
        own = _by_own_rows(rows, settings, has_scores=has_scores, is_even=is_even).with_mean(whole.error)
        assert rows.label is not None
        parts = [rows.part(rows.label == code) for code in range(2)]
        if rows.tally.trials.size <= SMOOTHED_ROWS:
            chances = _chances(rows)
            shared = _by_chances(rows, chances, settings, has_scores=has_scores, is_even=is_even)
            first, second = (_with_limit(change, limit) for change, limit in zip(shared, own.errors, strict=True))
            own = replace(own, errors=(first, second))
            parts = _both_labels(rows, chances)
        return replace(own, ties=_ties(parts, own.errors[0].sizes))


def _ties(parts: list[TalliedRows], sizes: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """Return, for each label, the probability of a tie at the even size above each size; None without hard votes."""
    if not all(counts_hard_votes(part.tally) for part in parts):
        return None
    even = sizes[:-1] + 1.0
    models = [fit_support(part.tally, part.weight) for part in parts if isinstance(part.tally, SupportTally)]
    first, second = (np.append(tie_probability(model.support, even) @ model.weights, 0.0) for model in models)
    return first, second


def _by_own_rows(rows: TalliedRows, settings: ResolvedOptions, *, has_scores: bool, is_even: bool) -> TwoErrors:
    assert rows.label is not None
    masks = [rows.label == code for code in range(2)]
    draw = draw_label_errors if is_even else draw_errors_by_members
    first, second = (draw(rows.part(mask), settings, has_scores=has_scores) for mask in masks)
    # The labels are independent, and their draws came from one seed: the second's are taken in an order of its own.
    order = np.random.default_rng(1).permutation(len(second.draws))
    weights = [float(rows.weight.total[mask].sum()) for mask in masks]
    return TwoErrors((first, replace(second, draws=second.draws[order])), (weights[0], weights[1]))


def _chances(rows: TalliedRows) -> LabelChances:
    assert rows.label is not None
    return chances_of_labels(_scores(rows), rows.label.astype(np.float64), rows.weight.effective())


def _both_labels(rows: TalliedRows, found: LabelChances) -> list[TalliedRows]:
    """Return all rows as rows of each label, weighted by their chances to have it."""
    chances = [np.maximum(chance, LEAST_CHANCE) for chance in (1.0 - found.second, found.second)]
    return [_weighted(_as_label(rows, code), chance) for code, chance in enumerate(chances)]


def _by_chances(
    rows: TalliedRows, found: LabelChances, settings: ResolvedOptions, *, has_scores: bool, is_even: bool
) -> tuple[ErrorDraws, ErrorDraws]:
    """Return the errors of each label from all rows, weighted by their chances to have it.

    The draws of both labels belong together: they have the same draws of the chances.
    """
    parts = _both_labels(rows, found)
    draw = draw_label_errors if is_even else draw_errors_by_members
    errors = [draw(part, settings, has_scores=has_scores) for part in parts]
    slopes = _slopes_by_coefficient(_as_label(rows, 1), found, errors[1].sizes, has_scores=has_scores)
    rng = np.random.default_rng(settings.random_state)
    steps = rng.multivariate_normal(np.zeros(len(slopes)), found.covariance, len(errors[1].draws)) @ slopes
    first, second = (
        replace(each, draws=each.draws + steps / part.weight.total.sum())
        for each, part in zip(errors, parts, strict=True)
    )
    return first, second


def _slopes_by_coefficient(
    rows: TalliedRows, found: LabelChances, sizes: FloatArray, *, has_scores: bool
) -> FloatArray:
    """Return by how much a coefficient of the chances raises the weighted sum of the error less its limit.

    The result is the same for both labels: as a row's chance of one label rises, that of the other falls.

    Returns
    -------
    ndarray, shape (n_coefficients, n_sizes)
    """
    tally = rows.tally
    assert isinstance(tally, (SupportTally, MarginTally))
    model = row_models(tally, rows.weight, None, None, rows.sample, has_scores)[0]
    wrong = row_means(model, model.error_by_point(sizes))
    change = wrong - wrong[-1]
    sampled = rows.sample.rows
    chance, total = found.second[sampled], float(rows.weight.total.sum())
    weight = rows.sample.weight * total / rows.sample.weight.sum()
    return np.asarray((found.columns[sampled].T * (weight * chance * (1.0 - chance))) @ change.T)


def _with_limit(change: ErrorDraws, limit: ErrorDraws) -> ErrorDraws:
    """Return the errors with another limit, changing with the size as before."""
    return replace(
        change,
        error=np.clip(change.error + (limit.error[-1] - change.error[-1]), 0.0, 1.0),
        draws=np.clip(change.draws + (limit.draws[:, -1:] - change.draws[:, -1:]), 0.0, 1.0),
    )


def _scores(rows: TalliedRows) -> FloatArray:
    """Return the support of each row's members for the second label, on the scale of log-odds."""
    tally = _as_label(rows, 0).tally
    if isinstance(tally, SupportTally):
        return np.asarray(logit((tally.wrong + 0.5) / (tally.trials + 1.0)))
    assert isinstance(tally, MarginTally)
    return np.asarray(-2.0 * tally.mean / max(float(np.sqrt(np.mean(tally.mean**2))), LEAST_CHANCE))


def _as_label(rows: TalliedRows, code: int) -> TalliedRows:
    """Return the same rows as if all had one label."""
    assert rows.label is not None
    tally, sample = rows.tally, rows.sample
    assert isinstance(tally, (SupportTally, MarginTally))
    other = rows.label != code
    block = replace(sample.block, target=np.full_like(sample.block.target, code))
    wrong_labels = np.where(other, tally.trials - tally.wrong_labels, tally.wrong_labels)
    if isinstance(tally, SupportTally):
        flipped: SupportTally | MarginTally = replace(
            tally,
            wrong=np.where(other, tally.trials - tally.wrong, tally.wrong),
            squares=np.where(other, tally.trials - 2.0 * tally.wrong + tally.squares, tally.squares),
            wrong_labels=wrong_labels,
        )
    else:
        sign = np.where(other, -1.0, 1.0)
        flipped = replace(tally, mean=sign * tally.mean, cross_mean=sign * tally.cross_mean, wrong_labels=wrong_labels)
    return replace(rows, tally=flipped, sample=replace(sample, block=block))


def _weighted(rows: TalliedRows, factor: FloatArray) -> TalliedRows:
    sample = rows.sample
    return replace(
        rows,
        weight=replace(rows.weight, total=rows.weight.total * factor),
        sample=replace(sample, weight=sample.weight * factor[sample.rows]),
    )
