"""Predictions of every member of a fitted ensemble for all rows, the input of the papers' estimators."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.adapters.members import model_errors
from ens_plugin.adapters.registry import find_adapter
from ens_plugin.adapters.unwrap import unwrap
from ens_plugin.analysis.arguments import encode_target, refuse_own_loss, refuse_own_weights
from ens_plugin.analysis.steps import warn_of_steps
from ens_plugin.core.validation import BoolArray, FloatArray, counted
from ens_plugin.errors import DataMismatchError, InputError, UnsupportedModelError

__all__ = [
    "Members",
    "held_out_members",
    "label_probabilities",
    "out_of_bag_members",
    "outputs_without_target",
    "prepared_rows",
    "wrong_labels",
]


@dataclass(frozen=True, eq=False)
class Members:
    """Predictions of every member for every row, with a mask of those out of bag, and the target.

    Attributes
    ----------
    outputs : ndarray, shape (n_members, n_rows) or (n_members, n_rows, n_labels)
        Integer label codes, for votes and for probabilities that are all 0 or 1; probabilities or raw scores by
        label, or the score of the second of two labels; or values.
    is_oob : ndarray of bool, shape (n_members, n_rows)
        True where the row is out of bag for the member, or held out.
    target : ndarray, shape (n_rows,)
        Label codes or values.
    classes : ndarray, shape (n_labels,), or None
        The labels by code; None for regression.
    output_kind : {"labels", "probabilities", "scores", "values"}
    """

    outputs: NDArray[Any]
    is_oob: BoolArray
    target: NDArray[Any]
    classes: NDArray[Any] | None
    output_kind: str

    @property
    def n_labels(self) -> int:
        """Number of labels; 0 for regression."""
        return 0 if self.classes is None else int(self.classes.size)

    def with_trials(self, least: int) -> Members:
        """Return the predictions for only those rows that are out of bag for at least `least` members.

        Raises
        ------
        InputError
            If no row is left.
        """
        enough = self.is_oob.sum(axis=0) >= least
        if not enough.any():
            raise InputError(
                f"No row is out of bag for {least} of the {counted(self.is_oob.shape[0], 'member')}; train more "
                "members."
            )
        return Members(
            self.outputs[:, enough], self.is_oob[:, enough], self.target[enough], self.classes, self.output_kind
        )


def out_of_bag_members(model: Any, X: Any, y: ArrayLike) -> Members:
    """Return each member's predictions for the training rows, with a mask of its out-of-bag rows.

    Parameters
    ----------
    model : fitted ensemble
        As for :func:`ens_plugin.analyze`.
    X, y : array-like
        The training rows, in training order.

    Raises
    ------
    EnsPluginError
        As :func:`ens_plugin.analyze`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> members = out_of_bag_members(RandomForestClassifier(10, max_depth=2, random_state=0).fit(X, y), X, y)
    >>> members.outputs.shape, members.is_oob.shape
    ((10, 150, 3), (10, 150))
    """
    with model_errors(model):
        adapter, rows, features, target = prepared_rows(model, X, y, are_fresh=False)
        bags = adapter.bags(rows, features, np.asarray(y))
        warn_of_steps(model, X, y)
        outputs, is_oob = adapter.block(features, bags, slice(0, target.size))
        # Outputs for rows in bag are kept as well, for the papers' E1 and V1.
        everywhere = adapter.block(features, None, slice(0, target.size))[0]
        outputs = np.where(is_oob.reshape(*is_oob.shape, *(1,) * (outputs.ndim - 2)), outputs, everywhere)
        return Members(outputs, is_oob, target, adapter.classes, adapter.output_kind)


def held_out_members(model: Any, X: Any, y: ArrayLike) -> Members:
    """Return each member's predictions for rows that no member was trained on.

    Parameters
    ----------
    model : fitted ensemble
    X, y : array-like
        Held-out rows.

    Raises
    ------
    EnsPluginError
        As :func:`ens_plugin.analyze`.
    """
    with model_errors(model):
        adapter, _, features, target = prepared_rows(model, X, y, are_fresh=True)
        outputs, is_oob = adapter.block(features, None, slice(0, target.size))
        return Members(outputs, is_oob, target, adapter.classes, adapter.output_kind)


def outputs_without_target(model: Any, X: Any) -> NDArray[Any]:
    """Return each member's predictions for rows without a known target, in the form of :attr:`Members.outputs`."""
    with model_errors(model):
        ensemble, rows = unwrap(model, X, are_fresh=True)
        adapter = find_adapter(ensemble)
        features = adapter.prepare(rows)
        adapter.check_members(features)
        return adapter.block(features, None, slice(0, features.shape[0]))[0]


def label_probabilities(outputs: NDArray[Any], members: Members) -> FloatArray:
    """Return members' outputs as probabilities of labels, with votes as zeros and ones, or as values.

    Raises
    ------
    UnsupportedModelError
        If the members have raw scores, which are neither probabilities nor values.
    """
    if members.output_kind == "scores":
        raise UnsupportedModelError(
            "The members of this ensemble have raw scores, and this paper's estimators need values or probabilities. "
            "Use ens_plugin.analyze, which takes scores."
        )
    if members.classes is not None and outputs.ndim == 2:
        return np.asarray(np.eye(members.n_labels)[outputs.astype(np.intp)], dtype=np.float64)
    return np.asarray(outputs, dtype=np.float64)


def wrong_labels(members: Members) -> BoolArray:
    """Return which members predict a wrong label for each row, shape (n_members, n_rows).

    Raises
    ------
    UnsupportedModelError
        If the ensemble is no classifier of two labels, which the papers of 2007 and 2013 assume.
    """
    if members.n_labels != 2:
        found = "a regressor" if members.classes is None else f"a classifier of {counted(members.n_labels, 'label')}"
        raise UnsupportedModelError(
            f"This is {found}, and the paper's formulas are for votes on two labels. Use ens_plugin.analyze, which "
            "takes any number of labels, and regressors."
        )
    if members.outputs.ndim == 3:
        chosen = members.outputs.argmax(axis=2)
    elif members.output_kind == "scores":
        chosen = members.outputs > 0.0
    else:
        chosen = members.outputs
    return np.asarray(chosen != members.target)


def prepared_rows(
    model: Any, X: Any, y: ArrayLike, *, are_fresh: bool
) -> tuple[EnsembleAdapter, Any, Any, NDArray[Any]]:
    """Return the adapter of a model, X as it reaches the ensemble, X as its members take it, and the coded target."""
    ensemble, rows = unwrap(model, X, are_fresh=are_fresh)
    adapter = find_adapter(ensemble)
    adapter.check_form()
    refuse_own_weights(adapter, "This function")
    refuse_own_loss(adapter, "This function")
    target = encode_target(adapter, y)
    features = adapter.prepare(rows)
    if features.shape[0] != target.size:
        raise DataMismatchError(
            f"X has {counted(features.shape[0], 'row')} and y has {target.size}; pass one target for each row."
        )
    adapter.check_members(features)
    return adapter, rows, features, target
