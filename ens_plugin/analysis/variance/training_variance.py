"""Variance of predictions over training sets, estimated from one trained ensemble."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.adapters.capabilities import CountsDraws
from ens_plugin.adapters.registry import find_adapter
from ens_plugin.adapters.shared.draws import DrawCounts
from ens_plugin.adapters.shared.foreign_calls import model_errors
from ens_plugin.adapters.unwrap.wrappers import unwrap
from ens_plugin.analysis.arguments import granted_threads
from ens_plugin.analysis.rows.targets import target_array
from ens_plugin.analysis.variance.cautions import (
    FEWEST_ROWS,
    cautions_of_formula,
    cautions_of_noise,
    cautions_of_rows,
    cautions_of_sampling,
)
from ens_plugin.core.tallies.tally import both_scores
from ens_plugin.core.uncertainty.infinitesimal_jackknife import (
    FEWEST_MEMBERS,
    SquaredCovariance,
    squared_covariance,
    variance_over_seeds,
)
from ens_plugin.core.validation import FloatArray, as_array, counted
from ens_plugin.errors import BagError, InputError, TooFewMembersError
from ens_plugin.records import record

__all__ = [
    "TrainingDraws",
    "TrainingVariance",
    "blocks_of_rows",
    "deletion_scale",
    "member_predictions",
    "read_draws",
    "training_variance",
]

CELLS = 4_000_000
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
    BagError
        If how often each member drew each row is not known, or members do not have bags of their own.
    TooFewMembersError
        If there are fewer than 4 members.
    DataMismatchError
        If `X_train` are not the training rows in training order, as far as this can be checked.
    InputError
        If `groups` does not fit the training rows, or there are fewer than 2 groups.

    Notes
    -----
    ``docs/methods.md``, section 15.  The variance of each row of `X_new` needs about as many members as there are
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


@record
class TrainingDraws:
    """An ensemble, how often its members drew each training row, and the rows to predict.

    Attributes
    ----------
    adapter : EnsembleAdapter
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
    draws = _draw_counts(adapter, rows, features, labels)
    _check_own_bags(draws, ensemble)
    codes = _group_codes(groups, features.shape[0])
    units = draws if codes is None else _by_group(draws, codes)
    n_repeated = _repeated(features, labels) if codes is None else 0
    own = np.arange(features.shape[0]) if codes is None else codes
    return TrainingDraws(adapter, features, new, draws, units, own, _oob_chance(units), n_repeated)


def _draw_counts(adapter: EnsembleAdapter, rows: Any, features: Any, labels: Any) -> DrawCounts:
    if isinstance(adapter, CountsDraws):
        return adapter.draw_counts(rows, features, labels)
    raise BagError(
        f"How often each member of this {type(adapter.model).__name__} drew each training row is not known, and the "
        "variance over training sets is estimated from these counts. Pass an ensemble of scikit-learn, LightGBM or "
        "XGBoost, or ens_plugin.CustomEnsemble.from_estimators(models, row_indices)."
    )


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
    height = max(1, CELLS // (adapter.n_members * n_labels))
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
