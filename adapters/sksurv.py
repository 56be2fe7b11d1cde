"""Adapters of survival forests: their risk, and the probability of survival at one time."""

from __future__ import annotations

from math import inf
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sksurv.ensemble import ExtraSurvivalTrees, RandomSurvivalForest
from sksurv.metrics import concordance_index_censored

from ens_plugin.adapters.contract import EnsembleInfo
from ens_plugin.adapters.members import other_rows, other_target
from ens_plugin.adapters.sklearn.bags import without_bootstrap
from ens_plugin.adapters.sklearn.seeded import SeededEnsemble, truncated_ensemble
from ens_plugin.core.validation import ROUNDING, counted
from ens_plugin.errors import BagError, InputError, UnsupportedModelError

FORESTS = (RandomSurvivalForest, ExtraSurvivalTrees)


class SurvivalAt:
    """A survival forest that predicts, for each row, the probability of an event up to one time; see `survival_at`.

    Attributes
    ----------
    forest : fitted RandomSurvivalForest or ExtraSurvivalTrees
    time : float
    classes_ : ndarray
        ``[False, True]``: no event up to `time`, or an event.
    """

    def __init__(self, forest: Any, time: float) -> None:
        self.forest = forest
        self.time = time
        self.classes_ = np.array([False, True])

    @property
    def place(self) -> int:
        """Return the position of the last step of the survival curves at or before the time; -1 if there is none."""
        return int(np.searchsorted(self.forest.unique_times_, self.time, side="right")) - 1

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the probabilities of survival beyond the time, and of an event up to it, shape (n_rows, 2)."""
        survival = self.forest.predict_survival_function(X, return_array=True)
        beyond = survival[:, self.place] if self.place >= 0 else np.ones(survival.shape[0])
        return np.stack([beyond, 1.0 - beyond], axis=1)

    def predict(self, X: Any) -> NDArray[np.bool_]:
        """Return whether an event up to the time is likelier than none."""
        return np.asarray(self.predict_proba(X)[:, 1] > 0.5)


def survival_at(forest: Any, time: float) -> SurvivalAt:
    """Return a survival forest as a classifier of whether the event happens up to one time.

    For :func:`ens_plugin.analyze` and the functions like it, with the structured target of scikit-survival: an event up
    to `time` is the label True.  Rows that were censored before `time` have no label; the others are weighted by the
    inverse probability of not being censored, which Kaplan and Meier's estimator gives from the rows passed (Graf et
    al. 1999).  The Brier score at `time` is then the criterion ``"probability"``, and ``metric="roc_auc"`` the
    cumulative, dynamic area under the curve.

    Parameters
    ----------
    forest : fitted RandomSurvivalForest or ExtraSurvivalTrees
        Trained with ``low_memory=False``, the default.
    time : float
        Below the largest time of the training rows.

    Returns
    -------
    SurvivalAt

    Raises
    ------
    InputError
        If `time` is no positive number.

    References
    ----------
    E. Graf, C. Schmoor, W. Sauerbrei and M. Schumacher (1999), Assessment and comparison of prognostic classification
    schemes for survival data, Statistics in Medicine 18.

    Examples
    --------
    >>> import ens_plugin
    >>> from ens_plugin.adapters.sksurv import survival_at
    >>> from sksurv.datasets import load_whas500
    >>> from sksurv.ensemble import RandomSurvivalForest
    >>> X, y = load_whas500()
    >>> forest = RandomSurvivalForest(200, random_state=0).fit(X.astype(float), y)
    >>> report = ens_plugin.analyze(survival_at(forest, 365.0), X.astype(float), y)
    >>> report.n_members
    200
    """
    if isinstance(time, bool) or not (isinstance(time, Real) and 0 < float(time) < inf):
        raise InputError(f"time={time!r} is not a positive number; pass one in the unit of the times in y.")
    return SurvivalAt(forest, float(time))


def event_labels(y: ArrayLike, time: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the label of each row, 1 for an event up to a time, and its weight, 0 where it was censored before."""
    from sksurv.nonparametric import CensoringDistributionEstimator

    target = np.asarray(y)
    event, times = events_and_times(target)
    had_event, survived = event & (times <= time), times > time
    if not had_event.any() or not survived.any():
        raise InputError(
            f"{counted(np.count_nonzero(had_event), 'row has', 'rows have')} an event up to time {time:g}, and "
            f"{counted(np.count_nonzero(survived), 'is', 'are')} observed beyond it: there must be rows of both. The "
            f"times of y range from {times.min():g} to {times.max():g}; choose one between."
        )
    weight = np.zeros(times.size)
    if event.all():
        weight[had_event | survived] = 1.0
        return had_event.astype(np.int64), weight
    uncensored = CensoringDistributionEstimator().fit(target)
    weight[had_event] = 1.0 / uncensored.predict_proba(times[had_event])
    weight[survived] = 1.0 / uncensored.predict_proba(np.array([time]))
    return had_event.astype(np.int64), weight


def events_and_times(y: NDArray[Any]) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Return whether each row had an event, and the time of the event or of the censoring."""
    from sksurv.util import check_array_survival

    try:
        event, times = check_array_survival(np.empty((y.shape[0], 1)), y)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"y is no target of scikit-survival ({error}). Pass an array as sksurv.util.Surv.from_arrays(event, time) "
            "makes it: a field with the event as a boolean, and a field with its time or the time of censoring. Of a "
            "DataFrame, Surv.from_dataframe(event_column, time_column, frame) makes one."
        ) from error
    return event, times


class SurvivalTreesAdapter(SeededEnsemble):
    """Base class of adapters of a RandomSurvivalForest or ExtraSurvivalTrees.

    Bags are redrawn from the trees' seeds and proved on some trees: the rows must fill the leaves as in training, and
    their events and times must give the leaves' cumulative hazards (Nelson and Aalen's estimator).
    """

    distributions: ClassVar[tuple[str, ...]] = ("scikit-survival", "scikit-learn")

    @property
    def trees(self) -> list[Any]:
        """The trees, whose nodes are those of scikit-learn."""
        return list(self.members)

    def target_of(self, y: ArrayLike | None, n_rows: int) -> Any:
        """Return whether each row had an event, and the time of the event or of the censoring."""
        return None if y is None else events_and_times(np.asarray(y))

    def check_bags(self, n_rows: int) -> None:
        """Raise BagError or DataMismatchError unless the trees drew from so many rows."""
        name = type(self.ensemble).__name__
        if not self.ensemble.bootstrap:
            raise without_bootstrap(self.ensemble)
        if not hasattr(self.ensemble, "_n_samples"):
            raise BagError(
                f"This {name} does not keep how many rows it was trained on, as those of scikit-survival before 0.24, "
                "so its bags cannot be drawn again. Train it with a newer release, or "
                'pass data="holdout" with rows the model was not trained on.'
            )
        super().check_bags(n_rows)

    def check_member(self, member: int, features: Any, target: Any) -> bool:
        """Raise DataMismatchError unless a tree can be grown on these rows; return whether y is proved."""
        tree = self.members[member].tree_
        draws = np.bincount(self.draw(member), minlength=features.shape[0])
        rows = np.flatnonzero(draws)
        leaves = tree.apply(features[rows])
        is_leaf = tree.children_left == -1
        other = np.count_nonzero((np.bincount(leaves, minlength=tree.node_count) != tree.n_node_samples)[is_leaf])
        if other:
            raise other_rows(
                f"in {other} of {tree.n_leaves} leaves of tree {member}, X has another number of rows than the tree "
                "counted at training"
            )
        # With low_memory=True, leaves keep a risk score in place of the hazards.
        if target is None or self.ensemble.low_memory:
            return False
        hazards = _last_hazards(leaves, target[0][rows], target[1][rows], draws[rows], tree.node_count)
        gap = np.abs(hazards - tree.value[:, -1, 0]) > ROUNDING * np.maximum(hazards, 1.0)
        if (gap & is_leaf).any():
            raise other_target(gap[is_leaf], member, "a cumulative hazard")
        return True


def _last_hazards(
    leaves: NDArray[np.intp],
    event: NDArray[np.bool_],
    time: NDArray[np.float64],
    draws: NDArray[np.integer[Any]],
    n_nodes: int,
) -> NDArray[np.float64]:
    """Return the sum of events over rows at risk, over the times of each leaf, shape (n_nodes,)."""
    order = np.lexsort((time, leaves))
    leaves, event, time, draws = leaves[order], event[order], time[order], draws[order]
    starts = np.flatnonzero(np.r_[True, (np.diff(leaves) != 0) | (np.diff(time) != 0)])
    total, events = np.add.reduceat(draws, starts), np.add.reduceat(draws * event, starts)
    leaf, before = leaves[starts], np.cumsum(total) - total
    in_leaf = np.bincount(leaves, draws, n_nodes)
    first = np.r_[True, np.diff(leaf) != 0]
    earlier = before - np.repeat(before[first], np.diff(np.r_[np.flatnonzero(first), leaf.size]))
    return np.asarray(np.bincount(leaf, events / (in_leaf[leaf] - earlier), n_nodes), dtype=np.float64)


class SurvivalAtAdapter(SurvivalTreesAdapter):
    """Adapter of a survival forest at one time, as :func:`ens_plugin.adapters.sksurv.survival_at` makes it.

    The trees' probabilities of survival beyond the time are averaged, as in the library.
    """

    known: ClassVar[tuple[type, ...]] = (SurvivalAt,)

    @property
    def ensemble(self) -> Any:
        """The fitted forest."""
        return self.model.forest

    def describe(self) -> EnsembleInfo:
        """Return the properties of the forest, a classifier of events up to the time."""
        forest = self.ensemble
        if not isinstance(forest, FORESTS):
            raise UnsupportedModelError(
                f"survival_at takes a RandomSurvivalForest or ExtraSurvivalTrees of scikit-survival, not a "
                f"{type(forest).__name__}."
            )
        # The forest's own adapter refuses what it cannot read.
        SurvivalForestAdapter(forest)
        if forest.low_memory:
            raise UnsupportedModelError(
                f"This {type(forest).__name__} was trained with low_memory=True, which keeps one risk score for each "
                "leaf and no probability of survival. Refit with low_memory=False."
            )
        return self.info_of("mean_proba", "probabilities", self.model.classes_)

    def encode_target(self, y: NDArray[Any]) -> NDArray[np.int64]:
        """Return 1 for rows with an event up to the time, 0 for the others."""
        return event_labels(y, self.model.time)[0]

    def target_weights(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Return inverse probabilities of not being censored, 0 for rows that were censored before the time."""
        return event_labels(y, self.model.time)[1]

    def truncated(self, size: int) -> SurvivalAt:
        """Return a forest of copies of the first `size` trees, at the same time."""
        return SurvivalAt(truncated_ensemble(self.ensemble, size), self.model.time)

    def member_outputs(self, member: int, rows: Any) -> NDArray[np.float64]:
        """Return one tree's probabilities of survival beyond the time, and of an event up to it."""
        tree, place = self.members[member].tree_, self.model.place
        # Nodes hold cumulative hazards and probabilities of survival, by time.
        beyond = tree.value[:, place, 1].take(tree.apply(rows)) if place >= 0 else np.ones(rows.shape[0])
        return np.stack([beyond, 1.0 - beyond], axis=1)


class SurvivalForestAdapter(SurvivalTreesAdapter):
    """Adapter of RandomSurvivalForest and ExtraSurvivalTrees, by the mean of the trees' risk scores.

    Its loss is 1 less Harrell's concordance index: the share of comparable pairs of rows of which the one with the
    earlier event has the lower risk score; equal scores count half.
    """

    known: ClassVar[tuple[type, ...]] = FORESTS
    loss_name = "1 - C"

    def describe(self) -> EnsembleInfo:
        """Return the properties of the forest, whose members predict risk scores."""
        self.check_learned()
        return self.info_of("mean", "values")

    def loss(self, target: NDArray[Any], prediction: NDArray[np.float64]) -> float:
        """Return 1 less Harrell's concordance index."""
        event, time = events_and_times(target)
        return 1.0 - float(concordance_index_censored(event, time, prediction)[0])

    def encode_target(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Return the negative times, those of censored rows a little lower: as risk scores they would have no loss."""
        event, time = events_and_times(y)
        return -np.where(event, time, np.nextafter(time, np.inf)).astype(np.float64)

    def stored_oob_outputs(self) -> NDArray[np.float64] | None:
        """Return the mean out-of-bag risk scores that oob_score=True stored, or None."""
        return getattr(self.model, "oob_prediction_", None)

    def member_outputs(self, member: int, rows: Any) -> NDArray[np.float64]:
        """Return one tree's risk scores: the sum of the cumulative hazards at the times of events."""
        tree = self.model.estimators_[member]
        values = tree.tree_.value
        nodes = values[:, 0, 0] if self.model.low_memory else values[:, tree.is_event_time_, 0].sum(axis=1)
        return np.asarray(nodes.take(tree.tree_.apply(rows)))
