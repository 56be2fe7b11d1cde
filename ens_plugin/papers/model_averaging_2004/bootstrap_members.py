"""The models that are averaged: checks of their base, and the fit of one model to a bootstrap sample."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.naive_bayes import CategoricalNB, ComplementNB
from sklearn.utils.validation import has_fit_parameter

from ens_plugin.adapters.sklearn.estimator_checks import refusals
from ens_plugin.core.validation import FloatArray, as_weight
from ens_plugin.errors import InputError, UnsupportedModelError
from ens_plugin.papers.model_averaging_2004.bootstrap_samples import Draw, draws_own_rows
from ens_plugin.papers.model_averaging_2004.joint_scores import joint_scores
from ens_plugin.papers.score_tables_2017.bites.probes import seeded_clone

__all__ = ["check_base", "drawn_rows", "fit_member", "fit_single", "member_template"]


def check_base(base: Any, bootstrap: str) -> None:
    """Raise UnsupportedModelError if the base lacks a method that model averaging needs."""
    name = type(base).__name__
    if isinstance(base, type):
        raise UnsupportedModelError(f"estimator must be an instance, got the class {base.__name__}: add ().")
    if isinstance(base, ComplementNB):
        raise UnsupportedModelError(
            "ComplementNB has no joint probabilities to sum and no generative model to draw rows from: it scores "
            "labels by the weights of all other labels. Use MultinomialNB."
        )
    missing = [method for method in ("fit", "predict_joint_log_proba") if not hasattr(base, method)]
    if missing:
        raise UnsupportedModelError(
            f"{name} has no {' and no '.join(missing)}: model averaging sums P(y, x), whose logarithms "
            "(n_rows, n_labels) this method returns. Use scikit-learn's naive Bayes classes, or give the base that "
            "method; put a preprocessing Pipeline around this classifier, not inside it."
        )
    if bootstrap == "parametric" and not draws_own_rows(base):
        raise UnsupportedModelError(
            f"{name} cannot draw rows, as bootstrap='parametric' needs: it has no method sample(n_samples, "
            "random_state). Add one that returns rows and labels, or use bootstrap='rows'."
        )


def drawn_rows(sample_weight: ArrayLike | None, n_rows: int) -> tuple[Any, FloatArray | None]:
    """Return an index of the rows with weight, and the chance of each to be drawn; None where all are equal."""
    if sample_weight is None:
        return slice(None), None
    if not np.any(np.asarray(sample_weight)):
        raise InputError("sample_weight is zero for every row, so no row can be drawn; pass positive weights.")
    weight = as_weight(sample_weight, n_rows, "sample_weight")
    rows = np.flatnonzero(weight)
    kept = weight[rows]
    return rows, None if np.all(kept == kept[0]) else kept / kept.sum()


def fit_single(base: Any, X: Any, y: NDArray[Any], weight: FloatArray | None, bootstrap: str) -> Any:
    """Return the base fitted to all rows, with their weights if its ``fit`` accepts weights.

    Raises
    ------
    InputError
        If the base raises an error for the rows.
    UnsupportedModelError
        If rows are to be drawn from the fitted base, and its ``fit`` accepts no weights.
    """
    if weight is not None and not has_fit_parameter(base, "sample_weight"):
        if bootstrap == "parametric":
            raise UnsupportedModelError(
                f"fit of {type(base).__name__} takes no sample_weight, so that no rows can be drawn from a weighted "
                "model; leave the weights out, or use bootstrap='rows'."
            )
        weight = None
    with refusals():
        return base.fit(X, y) if weight is None else base.fit(X, y, sample_weight=weight)


def member_template(base: Any, single: Any) -> Any:
    """Return the unfitted base to clone members from, set to keep categories that a bootstrap sample lacks."""
    if not isinstance(base, CategoricalNB):
        return base
    return clone(base).set_params(min_categories=single.n_categories_)


def fit_member(template: Any, draw: Draw, seed: list[int], some_rows: Any, classes: NDArray[Any]) -> Any:
    """Return one model fitted to a bootstrap sample, after a check that it returns joint probabilities.

    Raises
    ------
    InputError
        If the base cannot be fitted to the sample (the message names labels the sample lacks), or returns no
        probabilities.
    UnsupportedModelError
        If the joint probabilities have a wrong shape.
    """
    rng = np.random.default_rng(seed)
    X, y = draw(rng)
    model = seeded_clone(template, rng)
    try:
        model.fit(X, y)
    except ValueError as error:
        absent = np.setdiff1d(classes, y).tolist()
        if not absent:
            raise InputError(str(error)) from error
        raise InputError(
            f"{type(model).__name__} refused a bootstrap sample without rows of {absent}: {error} Pass more rows of "
            "these labels, or a base that can be fitted without rows of some labels."
        ) from error
    joint_scores(model, some_rows, classes)
    return model
