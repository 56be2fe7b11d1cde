"""Standard errors of single predictions over training sets and seeds, by a ratio of variances that rows share."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.analysis.variance.training_variance import (
    TrainingDraws,
    blocks_of_rows,
    deletion_scale,
    member_predictions,
)
from ens_plugin.core.uncertainty.infinitesimal_jackknife import left_out_covariances
from ens_plugin.core.uncertainty.training_ratio import N_PARTS, TrainingRatio, pooled_ratio, pooled_variance
from ens_plugin.core.validation import FloatArray, rounded_up
from ens_plugin.records import record

__all__ = ["PredictionSpread", "SpreadKind", "prediction_spread"]

SpreadKind: TypeAlias = Literal["estimate", "upper bound", "unknown"]

# Predictions, of new and of training rows each, that the ratio is estimated from.
POOLED = 150
# By how much the infinitesimal jackknife is too small at most: members that depend on the presence of a row alone.
LARGEST_SHORTFALL = 2.0
# Times the present members; a ratio that is hardly known does not show how many it takes.
MOST_ADVISED = 20.0


@record
class PredictionSpread:
    """Standard errors of the predictions of new rows.

    Attributes
    ----------
    standard_error : ndarray of float64, shape (n_rows,) or (n_rows, n_labels)
    kind : {"estimate", "upper bound", "unknown"}
    cautions : tuple of str
    """

    standard_error: FloatArray
    kind: SpreadKind
    cautions: tuple[str, ...]


class _Pool(NamedTuple):
    """Members' predictions of some rows, shape (n_members, n_rows, n_labels), and the members that count for each."""

    predictions: FloatArray
    used: NDArray[np.bool_]


def prediction_spread(known: TrainingDraws) -> PredictionSpread:
    """Return the standard errors of the predictions of the new rows, over training sets and seeds.

    Notes
    -----
    Single variances over training sets are noisy, from few members and from the few training rows that a prediction
    rests on.  Their ratio to the variance over members differs less from row to row than either, so that it is taken
    over many rows together: rows to predict, and training rows, predicted by members that were trained without them.
    """
    pool = _joined([_new_rows(known), _training_rows(known)])
    flat = pool.predictions.reshape(known.adapter.n_members, -1)
    used = np.repeat(pool.used, pool.predictions.shape[2], axis=1)
    member_variances = np.array([_member_variance(flat, one) for one in _member_sets(used)])
    variances = _training_variances(known, flat, used)
    enough = np.isfinite(variances).all(axis=0)
    n_used = np.count_nonzero(used, axis=0)[enough].astype(np.float64)
    ratio = pooled_ratio(variances[:, enough], member_variances[:, enough], n_used**2)
    typical = np.nanmean(member_variances[0].reshape(pool.predictions.shape[1:]), axis=0)
    kind, cautions = _judged(known, ratio)
    value = min(ratio.value if ratio.is_estimated else ratio.upper, _largest_ratio(known))
    own = _variances_over_members(known.adapter, known.new)
    variance = pooled_variance(own, typical, value) + own / known.adapter.n_members
    error = np.sqrt(variance)
    return PredictionSpread(error[:, 0] if known.adapter.classes is None else error, kind, cautions)


def _new_rows(known: TrainingDraws) -> _Pool:
    predictions = _by_label(known.adapter, known.new[_evenly(known.adapter, known.new.shape[0])])
    return _Pool(predictions, np.ones(predictions.shape[:2], dtype=bool))


def _training_rows(known: TrainingDraws) -> _Pool:
    chosen = _evenly(known.adapter, known.codes.size)
    return _Pool(_by_label(known.adapter, known.features[chosen]), known.units.counts[:, known.codes[chosen]] == 0)


def _joined(pools: list[_Pool]) -> _Pool:
    return _Pool(
        np.concatenate([pool.predictions for pool in pools], axis=1),
        np.concatenate([pool.used for pool in pools], axis=1),
    )


def _evenly(adapter: EnsembleAdapter, n_rows: int) -> NDArray[np.intp]:
    """Return evenly spaced rows, fewer of them where each has many predictions."""
    n_chosen = min(n_rows, -(-POOLED // _n_labels(adapter)))
    return np.asarray(np.arange(n_chosen) * n_rows // n_chosen, dtype=np.intp)


def _n_labels(adapter: EnsembleAdapter) -> int:
    return 1 if adapter.classes is None else len(adapter.classes)


def _by_label(adapter: EnsembleAdapter, rows: NDArray[np.generic]) -> FloatArray:
    predictions = member_predictions(adapter, rows)
    return predictions.reshape(*predictions.shape[:2], -1)


def _member_sets(used: NDArray[np.bool_]) -> list[NDArray[np.bool_]]:
    """Return the members that count for each prediction: all of them, and all but those of each part."""
    part = np.arange(used.shape[0])[:, None] % N_PARTS
    return [used, *(used & (part != one) for one in range(N_PARTS))]


def _member_variance(predictions: FloatArray, used: NDArray[np.bool_]) -> FloatArray:
    """Return the variance over the members that count for each prediction; NaN for fewer than two."""
    n_used = np.count_nonzero(used, axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        deviation = predictions - np.sum(predictions * used, axis=0) / n_used
        return np.asarray(np.sum(deviation**2 * used, axis=0) / np.where(n_used > 1, n_used - 1, np.nan))


def _variances_over_members(adapter: EnsembleAdapter, new: NDArray[np.generic]) -> FloatArray:
    return np.concatenate(
        [_by_label(adapter, new[block]).var(axis=0, ddof=1) for block in blocks_of_rows(adapter, new.shape[0])]
    )


def _training_variances(known: TrainingDraws, predictions: FloatArray, used: NDArray[np.bool_]) -> FloatArray:
    """Return the variances over training sets, of all members and without each part; NaN of too few members.

    The mean of both jackknives, whose biases have opposite signs; of the one that there is, corrected for its bias.
    """
    counts, oob_chance = known.units.counts, known.oob_chance
    deleted = infinitesimal = None
    if oob_chance is not None:
        deleted = left_out_covariances(counts == 0, predictions, used, deletion_scale(oob_chance), N_PARTS)
    if known.units.rule == "with_replacement":
        infinitesimal = left_out_covariances(counts, predictions, used, np.ones(counts.shape[1]), N_PARTS)
    if infinitesimal is None:
        assert deleted is not None
        assert oob_chance is not None
        # By so much it is too large for the nearest neighbour's target among the rows that a member drew.
        return np.asarray((1.0 + oob_chance.mean()) / 2.0 * deleted)
    return infinitesimal * LARGEST_SHORTFALL if deleted is None else (infinitesimal + deleted) / 2.0


def _largest_ratio(known: TrainingDraws) -> float:
    """Return the ratio of members that are means of their rows; what rows do together adds to variances over members.

    By s of n rows it is s/n with replacement, s/(n - s) without.
    """
    if known.units.rule == "with_replacement":
        return float(known.units.counts.mean())
    assert known.oob_chance is not None
    oob_chance = float(known.oob_chance.mean())
    return (1.0 - oob_chance) / oob_chance


def _judged(known: TrainingDraws, ratio: TrainingRatio) -> tuple[SpreadKind, tuple[str, ...]]:
    """Return what the standard errors are, and the warnings about them."""
    cautions = [*known.sampled_cautions(), *known.repeated_cautions()]
    n_members = known.adapter.n_members
    if known.oob_chance is None:
        cautions.append(
            "The standard errors are an upper bound: some rows are in nearly every bag, or not as often as expected "
            "by chance, so that only the infinitesimal jackknife is known, and it is doubled. Draw rows with equal "
            "chances for an estimate."
        )
    if not ratio.is_estimated:
        cautions.append(
            f"The standard errors are an upper bound: {n_members} members are too few to estimate the variance over "
            f"training sets, so that the upper end of its 95 % interval is taken. {_advice(ratio, n_members)}"
        )
    return "estimate" if ratio.is_estimated and known.oob_chance is not None else "upper bound", tuple(cautions)


def _advice(ratio: TrainingRatio, n_members: int) -> str:
    factor = ratio.members_needed
    wanted = f"about {rounded_up(n_members * factor)}" if factor < MOST_ADVISED else "many more"
    return f"Train {wanted} members for an estimate."
