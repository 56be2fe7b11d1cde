"""A scorer of two labels of which one is named as the positive one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.analysis.metrics.resolved import ResolvedMetric
from ens_plugin.analysis.metrics.scorers import NoPositiveLabelError, is_scorer, resolve_scorer, scorer_called
from ens_plugin.analysis.options import ScorerOfLabel
from ens_plugin.core.validation import counted, label_text, shown
from ens_plugin.errors import InputError

__all__ = ["resolve_scorer_of_label", "with_positive_label"]


def resolve_scorer_of_label(metric: ScorerOfLabel, classes: NDArray[Any] | None, output_kind: str) -> ResolvedMetric:
    """Return a scorer that counts one of two labels as positive, as a metric of y and mean outputs.

    The scorer gets the positive label as 1. The other label is 0 or 2, so that the order of the labels stays, which
    decides ties.

    Parameters
    ----------
    metric : ScorerOfLabel
    classes : ndarray, shape (n_labels,), or None
        Labels in the order of the outputs; None for regression.
    output_kind : str
        As for :func:`resolve_scorer`.

    Raises
    ------
    InputError
        If the ensemble does not have two labels, or none of them is the positive one.

    Examples
    --------
    >>> share = np.array([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]])
    >>> recall = resolve_scorer_of_label(ScorerOfLabel("recall", "spam"), np.array(["ham", "spam"]), "probabilities")
    >>> recall.value(np.array(["spam", "spam", "ham"]), share)
    0.5
    """
    name, scorer = _named(metric.scorer)
    place = _place_of(metric.positive_label, classes)
    assert classes is not None
    codes = np.array([1, 2] if place == 0 else [0, 1])
    coded = resolve_scorer(name, scorer, codes, output_kind)
    if coded.positive_label is not None:
        raise InputError(
            f"The metric {coded.name!r} was made for the label {coded.positive_label!r}, and the positive label "
            f"{shown(metric.positive_label)} was given. Leave one of them out."
        )

    def evaluate(target: NDArray[Any], mean: NDArray[Any], weight: NDArray[Any] | None) -> float:
        return coded.evaluate(codes[(target == classes[1]).astype(np.intp)], mean, weight)

    def chance(target: NDArray[Any], weight: NDArray[Any] | None) -> float:
        return coded.chance_level(codes[(target == classes[1]).astype(np.intp)], weight)

    label = str(classes.tolist()[place])
    return replace(coded, evaluate=evaluate, positive_label=label, chance=coded.chance and chance)


def with_positive_label(
    metric: ResolvedMetric, scorer: str | Callable[..., float], classes: NDArray[Any], output_kind: str, y: Any
) -> ResolvedMetric:
    """Return a scorer of two labels as it is, or with the rarer one as positive where scikit-learn's own is neither.

    Parameters
    ----------
    metric : ResolvedMetric
        Of the scorer.
    scorer : str or callable
        As the user gave it.
    classes : ndarray, shape (2,)
    output_kind : str
        As for :func:`resolve_scorer`.
    y : array-like of shape (n_rows,), or None
        Target of the rows; None where it is not at hand.

    Raises
    ------
    InputError
        If a positive label is needed, and the rows that would tell the rarer one are not at hand, or the scorer was
        made for another label.
    """
    try:
        metric.value(classes, np.eye(2))
    except NoPositiveLabelError:
        if y is None or metric.positive_label is not None:
            raise
    except InputError:  # two rows need not be enough for a metric
        return metric
    else:
        return metric
    labels = classes.tolist()
    counts = [int(np.count_nonzero(np.asarray(y).reshape(-1) == label)) for label in labels]
    place = 0 if counts[0] < counts[1] else 1
    found = resolve_scorer_of_label(ScorerOfLabel(scorer, str(labels[place])), classes, output_kind)
    caution = (
        f"The {metric.name} is that of the label {labels[place]!r}, the rarer one: it is about one of two labels, and "
        f"neither is 1. For the other, pass positive_label={labels[1 - place]!r}, at the prompt --positive-label."
    )
    return replace(found, caution=caution)


def _named(scorer: str | Callable[..., float]) -> tuple[str | None, Callable[..., float]]:
    """Return the name of a scorer that was given by it, and the scorer."""
    if isinstance(scorer, str):
        return scorer, scorer_called(scorer)
    if not is_scorer(scorer):
        raise InputError(
            "A positive label was given, and the metric is a function, which gets the labels as they are. Leave the "
            "label out, or pass a scorer of scikit-learn."
        )
    return None, scorer


def _place_of(label: str, classes: NDArray[Any] | None) -> int:
    """Return the position of a label, given as text, among two labels."""
    if classes is None:
        raise InputError(
            f"The positive label {shown(label)} was given, and this ensemble predicts values. Leave it out, and take a "
            "metric of values, 'r2' or 'neg_mean_absolute_error' for example."
        )
    labels = classes.tolist()
    if len(labels) != 2:
        raise InputError(
            f"The positive label {shown(label)} was given, and this ensemble has {counted(len(labels), 'label')}; only "
            "one of two labels can be the positive one. Leave it out, and take a metric of several labels, such as "
            "'f1_macro'."
        )
    texts = [label_text(own) for own in labels]
    if texts.count(label_text(label)) != 1:
        raise InputError(
            f"The positive label {shown(label)} is not one of the two labels of this ensemble, {shown(labels)}. Give "
            "one of them."
        )
    return texts.index(label_text(label))
