r"""The variance of predictions and of metrics over training sets and seeds.

The closed form of metrics that depend on squared losses of the rows only. The mean loss is :math:`L_\infty + v/B`,
with a limit and a term of one member from each row. The rows' terms give the limits of both, with long tails, and the
members' own give the luck of the members.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.adapters.members import DrawCounts, model_errors
from ens_plugin.adapters.registry import find_adapter
from ens_plugin.adapters.unwrap import unwrap
from ens_plugin.analysis.arguments import granted_threads, target_array
from ens_plugin.core.intervals import N_PARTS, TrainingRatio, pooled_ratio, pooled_variance
from ens_plugin.core.jackknife import (
    FEWEST_MEMBERS,
    SquaredCovariance,
    left_out_covariances,
    squared_covariance,
    variance_over_seeds,
)
from ens_plugin.core.tally import both_scores
from ens_plugin.core.validation import (
    CELLS_AT_ONCE,
    FloatArray,
    as_array,
    counted,
    rounded_up,
)
from ens_plugin.errors import BagError, InputError, TooFewMembersError, ends_at_caller
from ens_plugin.report.result import FEWEST_ROWS


def cautions_of_sampling(adapter: EnsembleAdapter, draws: DrawCounts, n_units: int) -> tuple[str, ...]:
    """Return the warnings about few rows or groups, `n_units` of them, and about weights taken from them."""
    cautions = []
    if n_units < FEWEST_ROWS:
        cautions.append(
            f"Only {counted(n_units, 'row or group was', 'rows or groups were')} drawn from the population: every "
            "estimate is imprecise."
        )
    if draws.chance is not None:
        cautions.append(
            "Rows were drawn by weight: each row is assumed to have the same weight in other training sets."
        )
    if getattr(adapter.model, "class_weight", None) == "balanced":
        cautions.append(
            "class_weight='balanced' takes the share of each label from the whole training set; the variance of these "
            "shares over training sets is not corrected for."
        )
    return tuple(cautions)


def cautions_of_formula(draws: DrawCounts, oob_chance: FloatArray | None) -> tuple[str, ...]:
    """Return the warnings about the jackknives that these bags allow."""
    cautions = []
    if draws.rule == "with_replacement":
        cautions.append(
            "The infinitesimal jackknife tends to be too small where members choose among few features or split to the "
            "last row (0.66 to 1.01 times the truth was measured), the jackknife after the bootstrap too large (1.17 "
            "to 1.59 times)."
        )
        if oob_chance is None:
            cautions.append(
                "Some rows are in nearly every bag, or not as often as expected by chance: the jackknife after the "
                "bootstrap is left out."
            )
    elif draws.rule == "without_replacement":
        share = 1 - float(oob_chance.mean()) if oob_chance is not None else 1.0
        cautions.append(
            f"Bags were drawn without replacement and hold {share:.0%} of the rows; the formula is exact for a small "
            "share, and tends to be too large for a large one (1.80 times the truth was measured at 63 %)."
        )
    else:
        cautions.append(
            "Bags are known as a mask, without repetitions: this is the jackknife after the bootstrap, which tends to "
            "be too large (1.17 to 1.59 times the truth was measured). Pass index arrays, each row as often as it was "
            "drawn."
        )
    return tuple(cautions)


def cautions_of_rows(n_repeated: int, n_rows: int) -> tuple[str, ...]:
    """Return a warning that some training rows equal an earlier one; an empty tuple where none does."""
    if not n_repeated:
        return ()
    return (
        f"{counted(n_repeated, 'equals', 'equal', of=f'{n_rows} training rows')} an earlier "
        "one. If they are copies, the variance is too small: pass groups, in which equal rows have one group.",
    )


def cautions_of_noise(variance: FloatArray, noise: FloatArray, n_members: int) -> tuple[str, ...]:
    """Return a warning that too few members make single variances noisy, with how many to train; empty where enough."""
    mean, spread = float(variance.mean()), float(noise.mean())
    if spread == 0 or spread <= 0.5 * mean:
        return ()
    negative = np.count_nonzero(variance < 0)
    found = (
        f"{n_members} members are too few to estimate the variance of a single prediction: noise {spread:.3g} against "
    )
    found += f"a mean of {mean:.3g}" + (f", {negative} of {variance.size} negative" if negative else "")
    advice = f"about {n_members * spread / (0.5 * mean):.0f}" if mean > 0.1 * spread else "many more"
    return (f"{found}. Train {advice} members, or use only the mean over the rows.",)


LINK_STEP = 1e-6
# Below this chance to be out of bag, a row's jackknife rests on too few members.
SMALLEST_OOB_CHANCE = 0.1


@dataclass(frozen=True, eq=False)
class TrainingVariance:
    """Variance of an ensemble's predictions over training sets, of one size and one population.

    The arrays have shape (n_rows,) for regression, (n_rows, n_labels) for classification.

    Attributes
    ----------
    prediction : ndarray of float64
        Mean of the members: the value, or the probability of each label (share of votes, where members vote).
    variance : ndarray of float64
        Variance over training sets of what infinitely many members would predict, by the infinitesimal jackknife
        without the members' noise.  Where the truth is small it may be negative.
    uncorrected : ndarray of float64
        The same with the members' noise, which makes it too large.
    jackknife : ndarray of float64 or None
        The same as `variance` by the jackknife after the bootstrap, which tends to be too large where `variance`
        tends to be too small; None where it cannot be computed or is `variance` itself.
    seed_variance : ndarray of float64
        Variance over seeds of `prediction`, given this training set.  The variance of `prediction` over training
        sets and seeds is ``variance + seed_variance``.
    noise : ndarray of float64
        Standard deviation of `variance` over seeds: its error from the finite number of members.
    classes : ndarray of shape (n_labels,) or None
    n_members, n_training_rows : int
    warnings : tuple of str

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> import ens_plugin
    >>> X, y = load_diabetes(return_X_y=True)
    >>> forest = RandomForestRegressor(50, random_state=0).fit(X, y)
    >>> found = ens_plugin.training_variance(forest, X, X[:3])
    >>> found.variance.shape, found.n_members, found.n_training_rows
    ((3,), 50, 442)
    """

    prediction: FloatArray
    variance: FloatArray
    uncorrected: FloatArray
    jackknife: FloatArray | None
    seed_variance: FloatArray
    noise: FloatArray
    classes: NDArray[Any] | None
    n_members: int
    n_training_rows: int
    warnings: tuple[str, ...]

    @property
    def mean_variance(self) -> float | FloatArray:
        """Mean of `variance` over the rows: a number, or one for each label."""
        mean: FloatArray = self.variance.mean(axis=0)
        return float(mean) if self.classes is None else mean

    @property
    def standard_error(self) -> FloatArray:
        """Square root of `variance`, of the shape of `prediction`; 0 where that is negative."""
        root: FloatArray = np.sqrt(np.maximum(self.variance, 0.0))
        return root


@ends_at_caller
def training_variance(
    model: Any, X_train: Any, X_new: Any, *, y_train: ArrayLike | None = None, groups: ArrayLike | None = None
) -> TrainingVariance:
    """Return the variance of an ensemble's predictions over training sets, without training another ensemble.

    The variance in a report's ``bias_variance`` is over seeds, given the training set.  This one is over training
    sets: other draws of as many rows from the same population.

    Parameters
    ----------
    model : fitted ensemble
        As for :func:`ens_plugin.analyze`, trained on random bags; not XGBoost's with more than two labels.  A
        CustomEnsemble comes from :meth:`ens_plugin.CustomEnsemble.from_estimators`.
    X_train : array-like of shape (n_training_rows, n_features)
        Exactly the training rows, in training order.
    X_new : array-like of shape (n_rows, n_features)
        The rows to predict.
    y_train : array-like of shape (n_training_rows,), optional
        The training target.  With it, other rows than the training rows and repeated rows are recognised more surely.
    groups : array-like of shape (n_training_rows,), optional
        The group of each training row, where groups and not rows were drawn from the population independently.

    Returns
    -------
    TrainingVariance

    Raises
    ------
    UnsupportedModelError
        If the adapter of this kind of model does not tell how often each member drew each row.
    BagError
        If this model does not show it, or members do not have bags of their own.
    TooFewMembersError
        If there are fewer than 4 members.
    DataMismatchError
        If `X_train` are not the training rows in training order, as far as this can be checked.
    InputError
        If `groups` does not fit the training rows, or there are fewer than 2 groups.

    Notes
    -----
    ``docs/methods/training-variance.md``.  The variance of each row of `X_new` needs about as many members as there are
    training rows; their mean needs fewer.  Memory: one byte for each member and training row.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from sklearn.ensemble import RandomForestRegressor
    >>> import ens_plugin
    >>> X, y = make_friedman1(120, noise=1.0, random_state=0)
    >>> forest = RandomForestRegressor(200, random_state=0).fit(X, y)
    >>> found = ens_plugin.training_variance(forest, X, X[:20])
    >>> found.variance.shape, bool(found.mean_variance < found.uncorrected.mean())
    ((20,), True)
    """
    with model_errors(model), granted_threads(1):
        return _estimated(read_draws(model, X_train, X_new, y_train, groups))


@dataclass(frozen=True, eq=False)
class TrainingDraws:
    """An ensemble, how often its members drew each training row, and the rows to predict.

    Attributes
    ----------
    features, new : prepared rows
        Those of training, and those to predict.
    draws : DrawCounts
        Of the training rows.
    units : DrawCounts
        Of what was drawn from the population independently: rows, or groups of rows.
    codes : ndarray of int, shape (n_training_rows,)
        The unit of each training row.
    oob_chance : ndarray of float64, shape (n_units,), or None
        Chance of each unit to be out of bag for a member; None where unknown or too small.
    n_repeated : int
        Training rows that are equal to an earlier one, where rows are the units.
    """

    adapter: EnsembleAdapter
    features: Any
    new: Any
    draws: DrawCounts
    units: DrawCounts
    codes: NDArray[np.intp]
    oob_chance: FloatArray | None
    n_repeated: int

    def sampled_cautions(self) -> tuple[str, ...]:
        """Return the warnings about how units were sampled, whatever is estimated from them."""
        return cautions_of_sampling(self.adapter, self.draws, self.units.counts.shape[1])

    def repeated_cautions(self) -> tuple[str, ...]:
        """Return a warning about rows that are equal to an earlier one, if there are any."""
        return cautions_of_rows(self.n_repeated, self.draws.counts.shape[1])


def read_draws(model: Any, X_train: Any, X_new: Any, y_train: Any, groups: Any) -> TrainingDraws:
    """Return how often members drew the training rows, after the checks of :func:`training_variance`."""
    ensemble, rows = unwrap(model, X_train)
    adapter = find_adapter(ensemble)
    if adapter.n_members < FEWEST_MEMBERS:
        raise TooFewMembersError(
            f"This {type(ensemble).__name__} has {counted(adapter.n_members, 'member')}; the variance over training "
            f"sets needs at least {FEWEST_MEMBERS}, and some hundreds to be precise. Train more members."
        )
    new = adapter.prepare(unwrap(model, X_new)[1])
    features = adapter.prepare(rows)
    labels = None if y_train is None else target_array(y_train, "y_train")
    draws = adapter.draw_counts(rows, features, labels)
    _check_own_bags(draws, ensemble)
    codes = _group_codes(groups, features.shape[0])
    units = draws if codes is None else _by_group(draws, codes)
    n_repeated = _repeated(features, labels) if codes is None else 0
    own = np.arange(features.shape[0]) if codes is None else codes
    return TrainingDraws(adapter, features, new, draws, units, own, _oob_chance(units), n_repeated)


def _estimated(known: TrainingDraws) -> TrainingVariance:
    adapter, units, oob_chance = known.adapter, known.units, known.oob_chance
    counts, n_units = units.counts, units.counts.shape[1]
    parts = []
    for block in blocks_of_rows(adapter, known.new.shape[0]):
        outputs = member_predictions(adapter, known.new[block])
        shape = outputs.shape[1:]
        flat = outputs.reshape(outputs.shape[0], -1)
        infinitesimal = None
        if units.rule == "with_replacement":
            infinitesimal = squared_covariance(counts, flat, np.ones(n_units))
        deleted = None
        if oob_chance is not None:
            deleted = squared_covariance(counts == 0, flat, deletion_scale(oob_chance))
        chosen = infinitesimal or deleted
        assert chosen is not None
        jackknife = deleted.unbiased if infinitesimal is not None and deleted is not None else None
        columns = (flat.mean(axis=0), *_columns(chosen), variance_over_seeds(flat), jackknife)
        parts.append([None if column is None else column.reshape(shape) for column in columns])
    prediction, variance, uncorrected, noise, seed_variance, jackknife = (
        None if column[0] is None else np.concatenate(column) for column in zip(*parts, strict=True)
    )
    assert prediction is not None and variance is not None and noise is not None  # noqa: PT018
    assert uncorrected is not None and seed_variance is not None  # noqa: PT018
    return TrainingVariance(
        prediction=prediction,
        variance=variance,
        uncorrected=uncorrected,
        jackknife=jackknife,
        seed_variance=seed_variance,
        noise=noise,
        classes=adapter.classes,
        n_members=adapter.n_members,
        n_training_rows=known.draws.counts.shape[1],
        warnings=(
            *known.sampled_cautions(),
            *cautions_of_formula(known.draws, oob_chance),
            *known.repeated_cautions(),
            *cautions_of_noise(variance, noise, adapter.n_members),
        ),
    )


def deletion_scale(oob_chance: FloatArray) -> FloatArray:
    """Return the factors with which absences give the jackknife after the bootstrap."""
    n_units = oob_chance.size
    scale: FloatArray = np.sqrt((n_units - 1) / n_units) / oob_chance
    return scale


def _columns(found: SquaredCovariance) -> tuple[FloatArray, FloatArray, FloatArray]:
    return found.unbiased, found.raw, found.noise


def blocks_of_rows(adapter: EnsembleAdapter, n_new: int) -> list[slice]:
    """Return slices of the new rows, so small that their outputs and covariances fit into memory."""
    if n_new == 0:
        raise InputError("X_new has no rows; pass the rows to predict.")
    n_labels = 1 if adapter.classes is None else len(adapter.classes)
    height = max(1, CELLS_AT_ONCE // (adapter.n_members * n_labels))
    return [slice(start, min(start + height, n_new)) for start in range(0, n_new, height)]


def member_predictions(adapter: EnsembleAdapter, features: Any) -> FloatArray:
    """Return the members' outputs in the form that the ensemble averages: values, or one number for each label."""
    outputs = adapter.outputs(features)
    if adapter.classes is None:
        return outputs.astype(np.float64)
    if adapter.output_kind == "labels":
        votes: FloatArray = (outputs[:, :, None] == np.arange(len(adapter.classes))).astype(np.float64)
        return votes
    if adapter.output_kind == "probabilities":
        return outputs.astype(np.float64)
    return _linked(adapter, both_scores(outputs) if outputs.ndim == 2 else outputs.astype(np.float64))


def _linked(adapter: EnsembleAdapter, scores: FloatArray) -> FloatArray:
    """Return scores as probabilities, by the inverse link linearised at the members' mean."""
    mean = scores.mean(axis=0)
    center = adapter.inverse_link(mean)
    linked: FloatArray = np.broadcast_to(center, (scores.shape[0], *center.shape)).astype(np.float64)
    for label in range(mean.shape[1]):
        step = np.zeros(mean.shape[1])
        step[label] = LINK_STEP
        slope: FloatArray = (adapter.inverse_link(mean + step) - adapter.inverse_link(mean - step)) / (2 * LINK_STEP)
        linked += (scores[:, :, label] - mean[:, label])[:, :, None] * slope
    return linked


def _check_own_bags(draws: DrawCounts, model: Any) -> None:
    """Raise BagError if members share a bag, as LightGBM's with bagging_freq above 1: they are not independent."""
    n_members, n_rows = draws.counts.shape
    distinct = len({member.tobytes() for member in draws.counts})
    if distinct < n_members and n_rows >= FEWEST_ROWS:
        raise BagError(
            f"The {n_members} members of this {type(model).__name__} have {counted(distinct, 'different bag')}. The "
            "variance over training sets can be estimated only if each member has its own bag. Train with a new bag "
            "for each member (of LightGBM: bagging_freq=1)."
        )


def _group_codes(groups: ArrayLike | None, n_rows: int) -> NDArray[np.intp] | None:
    if groups is None:
        if n_rows < 2:
            raise InputError(f"X_train has {counted(n_rows, 'row')}; the variance over training sets needs at least 2.")
        return None
    values = as_array(groups, "groups")
    if values.shape != (n_rows,):
        raise InputError(
            f"groups has shape {values.shape}, but X_train has {counted(n_rows, 'row')}; pass one group per row."
        )
    distinct, codes = np.unique(values, return_inverse=True)
    if distinct.size < 2:
        raise InputError("groups names one group; the variance over training sets needs at least 2.")
    return np.asarray(codes, dtype=np.intp).reshape(-1)


def _by_group(draws: DrawCounts, groups: NDArray[np.intp]) -> DrawCounts:
    """Return how often each group was drawn: as often as each row if they were always drawn together, else the sum."""
    if draws.rule != "with_replacement":
        raise BagError(
            "groups are supported only for bags drawn with replacement, and these were drawn without. Train with a "
            "bootstrap, or leave groups out and take one row of each group for training."
        )
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    counts = draws.counts[:, order]
    most, fewest = (extreme.reduceat(counts, starts, axis=1) for extreme in (np.maximum, np.minimum))
    if np.array_equal(most, fewest):
        return DrawCounts(most, draws.rule)
    n_rows = groups.size
    chance = np.full(n_rows, 1 / n_rows) if draws.chance is None else draws.chance
    summed = np.add.reduceat(counts, starts, axis=1, dtype=np.uint64)
    return DrawCounts(summed, draws.rule, np.bincount(groups, weights=chance).astype(np.float64))


def _oob_chance(draws: DrawCounts) -> FloatArray | None:
    """Return the chance of each row, or group, to be out of bag for a member; None where unknown or too small."""
    counts = draws.counts
    if draws.rule == "with_replacement":
        n_rows = counts.shape[1]
        chance = np.full(n_rows, 1 / n_rows) if draws.chance is None else draws.chance
        sizes = counts.sum(axis=1, dtype=np.int64)
        oob: FloatArray = np.mean([(1 - chance) ** size for size in np.unique(sizes)], axis=0)
        return oob if oob.min() >= SMALLEST_OOB_CHANCE and _is_as_expected(counts, oob) else None
    pooled = np.count_nonzero(counts == 0) / counts.size
    oob = np.full(counts.shape[1], pooled)
    if pooled == 0 or not _is_as_expected(counts, oob):
        raise BagError(
            "The members' bags were not drawn with equal chances for all rows, and without counts of repeated draws "
            "the variance over training sets cannot be estimated. Pass the rows of each member as index arrays, each "
            "row as often as it was drawn, or draw all rows with equal chances."
        )
    return oob


def _is_as_expected(counts: NDArray[np.number], oob_chance: FloatArray) -> bool:
    """Return whether rows are out of bag as often as `oob_chance` predicts, within five standard deviations."""
    n_members = counts.shape[0]
    found = np.count_nonzero(counts == 0, axis=0)
    squares = (found - n_members * oob_chance) ** 2 / (n_members * oob_chance * (1 - oob_chance))
    return bool(abs(squares.mean() - 1) < 5 * np.sqrt(2 / squares.size) + 2 / n_members or squares.mean() < 1)


def _repeated(features: Any, y: NDArray[Any] | None) -> int:
    """Return how many rows are equal to an earlier one, target included where it is given."""
    if not isinstance(features, np.ndarray):
        return 0
    rows = np.ascontiguousarray(features)
    targets = [b""] * len(rows) if y is None else [repr(value).encode() for value in y.reshape(-1).tolist()]
    return len(rows) - len({row.tobytes() + target for row, target in zip(rows, targets, strict=True)})


SpreadKind: TypeAlias = Literal["estimate", "upper bound", "unknown"]

# Predictions, of new and of training rows each, that the ratio is estimated from.
POOLED = 150
# By how much the infinitesimal jackknife is too small at most: members that depend on the presence of a row alone.
LARGEST_SHORTFALL = 2.0
# Times the present members; a ratio that is hardly known does not show how many it takes.
MOST_ADVISED = 20.0


@dataclass(frozen=True, eq=False)
class PredictionSpread:
    """Standard errors of the predictions of new rows, by label for a classifier."""

    standard_error: FloatArray
    kind: SpreadKind
    cautions: tuple[str, ...]


class _Pool(NamedTuple):
    """Members' predictions of some rows, shape (n_members, n_rows, n_labels), and the members that count for each."""

    predictions: FloatArray
    used: NDArray[np.bool_]


def prediction_spread(known: TrainingDraws) -> PredictionSpread:
    """Return the standard errors of the predictions of the new rows, over training sets and seeds."""
    # Single variances over training sets are noisy, from few members and from the few training rows that a prediction
    # rests on. Their ratio to the variance over members differs less from row to row than either, so that it is taken
    # over many rows together: rows to predict, and training rows, predicted by members that were trained without them.
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
    """Return the variances over training sets, of all members and without each part; NaN of too few members."""
    # The mean of both jackknives, whose biases have opposite signs; of the one that there is, corrected for its bias.
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
