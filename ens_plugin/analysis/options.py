"""The options of an analysis, with their defaults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from numpy.typing import ArrayLike

from ens_plugin.records import record

__all__ = [
    "CLASSIFICATION_ESTIMATORS",
    "CRITERIA",
    "REGRESSION_ESTIMATORS",
    "AnalysisOptions",
    "Metric",
    "ScorerOfLabel",
]


class ScorerOfLabel(NamedTuple):
    """A scorer of scikit-learn for two labels of which one is named as the positive one.

    In Python, ``sklearn.metrics.make_scorer(..., pos_label=...)`` does the same; the command line and policies of the
    gate have text alone.

    Attributes
    ----------
    name : str
        Of the scorer.
    positive_label : str
        One of the labels of the model, as text.
    """

    name: str
    positive_label: str


# The name of a scorer of scikit-learn, with or without a positive label, a scorer, or a user's own function.
Metric = str | ScorerOfLabel | Callable[..., float]

CLASSIFICATION_ESTIMATORS = ("deconvolved", "hypergeometric", "binomial", "path")
REGRESSION_ESTIMATORS = ("closed_form", "path")
CRITERIA = ("auto", "agreement", "error", "probability", "metric")


@record
class AnalysisOptions:
    """Options of an analysis as the user gave them, not checked yet.

    The attributes are parameters of :func:`ens_plugin.analyze`, and their defaults are those of every function and
    command that analyses a model.

    Examples
    --------
    >>> AnalysisOptions(confidence=0.999).interval_level
    0.95
    """

    data: Literal["oob", "holdout"] = "oob"
    sample_weight: ArrayLike | None = None
    groups: ArrayLike | None = None
    metric: Metric | None = None
    criterion: str = "auto"
    confidence: float | None = None
    tolerance: float | None = None
    max_size: int = 20001
    interval_level: float = 0.95
    sizes: ArrayLike | None = None
    estimator: str = "auto"
    random_state: int | None = 0
    n_jobs: int | None = None
