"""The options of an analysis, with their defaults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from numpy.typing import ArrayLike


class ScorerOfLabel(NamedTuple):
    """A scorer of scikit-learn, or its name, for two labels of which one is named as the positive one, as text."""

    scorer: str | Callable[..., float]
    positive_label: str


# The name of a scorer of scikit-learn, with or without a positive label, a scorer, or a user's own function.
Metric = str | ScorerOfLabel | Callable[..., float]


CRITERIA = ("auto", "agreement", "error", "probability", "metric")


@dataclass(frozen=True, eq=False)
class AnalysisOptions:
    """Options of an analysis as the user gave them, not checked yet.

    The attributes are parameters of :func:`ens_plugin.analyze`, and their defaults are those of every function and
    command that analyses a model.
    """

    data: Literal["oob", "holdout"] = "oob"
    unlabelled: Any = None
    sample_weight: ArrayLike | None = None
    groups: ArrayLike | None = None
    metric: Metric | None = None
    criterion: str = "auto"
    tolerance: float | None = None
    max_size: int = 20001
    interval_level: float = 0.95
    random_state: int | None = 0
    n_jobs: int | None = None
