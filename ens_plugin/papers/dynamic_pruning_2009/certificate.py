"""Proofs of labels from members' outputs one by one, by the bets of :mod:`ens_plugin.core.certificate`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from ens_plugin.adapters.library import TrainedModel, TrainingRows
from ens_plugin.core.certificate import RATES, WEIGHTS, as_level
from ens_plugin.core.validation import BoolArray, FloatArray, as_chance, as_count
from ens_plugin.errors import NotConvergedWarning, UnsupportedModelError, warn_user
from ens_plugin.papers.members import Members, out_of_bag_members
from ens_plugin.sizing.grow import MAX_SIZE, find_trainer

__all__ = ["RunningVote", "grow_until_proved", "refuse_unproved", "settled_rows"]


def refuse_unproved(model: Any, output_kind: str) -> None:
    """Raise UnsupportedModelError for an ensemble whose members have no labels, or raw scores."""
    if output_kind not in ("labels", "probabilities"):
        raise UnsupportedModelError(
            f"The members of this {type(model).__name__} give {output_kind}, which have no largest value, so that "
            "nothing can be proved about their mean. Pass a classifier that votes or averages probabilities, such as "
            "a RandomForestClassifier."
        )


class RunningVote:
    """Outputs of members that come one after the other, and which rows they settle (see the module).

    Parameters
    ----------
    n_rows, n_labels : int
    level : float
        Highest chance of a wrong label for one row.
    """

    def __init__(self, n_rows: int, n_labels: int, level: float) -> None:
        self._level = as_level(level)
        self._totals = np.zeros((n_rows, n_labels))
        self._wealth = np.tile(WEIGHTS, (n_rows, n_labels, 1))
        self._excluded = np.zeros((n_rows, n_labels), dtype=bool)

    @property
    def labels(self) -> NDArray[np.intp]:
        """Return the code of the label that leads on each row; of tied labels, the first."""
        return np.asarray(self._totals.argmax(axis=1))

    @property
    def settled(self) -> BoolArray:
        """Return on which rows all labels but the leading one are excluded, shape (n_rows,)."""
        others = self._excluded.copy()
        others[np.arange(others.shape[0]), self.labels] = True
        return np.asarray(others.all(axis=1))

    def add(self, outputs: NDArray[Any], counted: BoolArray | None = None) -> None:
        """Add one member's label codes, shape (n_rows,), or probabilities, shape (n_rows, n_labels).

        `counted`, shape (n_rows,), is False where the member does not count.
        """
        shares = np.eye(self._totals.shape[1])[outputs] if outputs.ndim == 1 else outputs
        if counted is not None:
            shares = shares * counted[:, None]
        self._wealth *= 1.0 + RATES * self._gains(shares)[:, :, None]
        self._totals += shares
        self._excluded |= self._wealth.sum(axis=2) >= 1.0 / self._level

    def keep(self, rows: NDArray[np.intp]) -> None:
        """Drop all rows but `rows`, positions among the rows not dropped yet."""
        self._totals, self._wealth, self._excluded = (
            array.take(rows, axis=0) for array in (self._totals, self._wealth, self._excluded)
        )

    def _gains(self, shares: FloatArray) -> FloatArray:
        """Return what a unit that is bet against each label gains, shape (n_rows, n_labels)."""
        leads = self._totals == self._totals.max(axis=1, keepdims=True)
        n_leaders = leads.sum(axis=1, keepdims=True)
        of_leaders = (shares * leads).sum(axis=1, keepdims=True)
        below = np.where(leads, -np.inf, self._totals)
        follows = ~leads & (below == below.max(axis=1, keepdims=True))
        of_followers = (shares * follows).sum(axis=1, keepdims=True) / np.maximum(follows.sum(axis=1, keepdims=True), 1)
        # The bet against a leader is on the other leaders; against the only one, on those that follow.
        of_others = (of_leaders - shares) / np.maximum(n_leaders - 1, 1)
        backed = np.where(leads, np.where(n_leaders > 1, of_others, of_followers), of_leaders / n_leaders)
        return np.asarray(backed - shares)


def settled_rows(members: Members, level: float) -> BoolArray:
    """Return for which rows some of the out-of-bag members, in order, settle the label that all of them give."""
    n_rows = members.target.size
    vote, settled_as = RunningVote(n_rows, members.n_labels, level), np.full(n_rows, -1)
    for outputs, is_oob in zip(members.outputs, members.is_oob, strict=True):
        vote.add(outputs, is_oob)
        settled_as = np.where((settled_as < 0) & vote.settled, vote.labels, settled_as)
    return np.asarray(settled_as == vote.labels)


FIRST_SIZE = 50
# Each size is so many times the one before, until enough rows are settled.
GROWTH = 1.5


def grow_until_proved(
    estimator: Any, X: Any, y: ArrayLike, *, level: float = 0.01, unsettled: float = 0.05, max_size: int = MAX_SIZE
) -> tuple[Any, dict[int, float]]:
    """Train an ensemble until its out-of-bag members prove the label of enough rows to be the infinite ensemble's.

    Parameters
    ----------
    estimator : unfitted classifier
        As for :func:`ens_plugin.grow`, but no Pipeline; its members vote or average probabilities.
    X, y : array-like
    level : float, default=0.01
        Highest chance, for each row, that another label is ever settled, whatever the distribution of its votes.
    unsettled : float, default=0.05
        Share of the rows that may stay unsettled.  Rows close to a tie take members by the inverse square of the
        lead, so that a share of 0.01 is often not reached.
    max_size : int, default=5001

    Returns
    -------
    model : fitted classifier
    history : dict of {int: float}
        Share of the rows that are settled, by number of members.

    Raises
    ------
    EnsPluginError
        As :func:`ens_plugin.grow`; UnsupportedModelError for regressors and for members with raw scores.

    Warns
    -----
    NotConvergedWarning
        If more rows are unsettled with `max_size` members.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from ens_plugin.papers.dynamic_pruning_2009 import grow_until_proved
    >>> X, y = load_iris(return_X_y=True)
    >>> forest, history = grow_until_proved(RandomForestClassifier(random_state=0), X, y, unsettled=0.1)
    >>> len(forest.estimators_) == max(history), max(history.values()) >= 0.9
    (True, True)
    """
    chance, open_share, limit = as_level(level), as_chance(unsettled, "unsettled"), as_count(max_size, "max_size")
    history: dict[int, float] = {}

    def next_size(trained: TrainedModel) -> int | None:
        members = out_of_bag_members(trained.model, trained.X, trained.y)
        refuse_unproved(trained.model, members.output_kind)
        history[trained.n_members] = share = float(settled_rows(members, chance).mean())
        wanted = min(math.ceil(GROWTH * trained.n_members), limit)
        return None if share >= 1.0 - open_share or wanted == trained.n_members else wanted

    rows = TrainingRows(X, y, None, limit, None, lambda n_members: None)
    model = find_trainer(estimator)(clone(estimator), rows, min(FIRST_SIZE, limit), next_size)
    size, share = list(history.items())[-1]
    if share < 1.0 - open_share:
        warn_user(
            f"Not converged: {size} members settle {100 * share:.4g} % of the rows, and {100 * (1 - open_share):.4g} % "
            "are wanted. The votes for the others are too close to a tie. Raise max_size, or unsettled.",
            NotConvergedWarning,
        )
    return model, history
