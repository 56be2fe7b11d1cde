"""A scorer of two labels of which one is named as the positive one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.analysis.metrics.resolved import ResolvedMetric
from ens_plugin.analysis.metrics.scorers import resolve_scorer, scorer_called
from ens_plugin.analysis.options import ScorerOfLabel
from ens_plugin.core.validation import counted, label_text, shown
from ens_plugin.errors import InputError

__all__ = ["resolve_scorer_of_label"]


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
    scorer = scorer_called(metric.name)
    place = _place_of(metric.positive_label, classes)
    assert classes is not None
    codes = np.array([1, 2] if place == 0 else [0, 1])
    coded = resolve_scorer(metric.name, scorer, codes, output_kind)

    def evaluate(target: NDArray[Any], mean: NDArray[Any], weight: NDArray[Any] | None) -> float:
        return coded.evaluate(codes[(target == classes[1]).astype(np.intp)], mean, weight)

    def chance(target: NDArray[Any], weight: NDArray[Any] | None) -> float:
        return coded.chance_level(codes[(target == classes[1]).astype(np.intp)], weight)

    label = str(classes.tolist()[place])
    return replace(coded, evaluate=evaluate, positive_label=label, chance=coded.chance and chance)


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
