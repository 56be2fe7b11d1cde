"""The three ways of fitting normal scores to a few members that the script of 2017 compares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ens_plugin.papers.score_tables_2017.score_tables import ScoreTables
from ens_plugin.papers.score_tables_2017.scores import (
    NormalScores,
    fit_normal_scores,
    shrink_matched_scores,
    shrink_normal_scores,
)

Array = NDArray[Any]
Fit = Callable[[Array, str, ScoreTables], NormalScores]

MIXINGS = {"mean_score": "PM", "mean_proba": "voting"}


def plug_in(scores: Array, mixing: str, tables: ScoreTables) -> NormalScores:
    """Mean and variance of the scores, as in the paper."""
    return fit_normal_scores(scores)


def shrunken(scores: Array, mixing: str, tables: ScoreTables) -> NormalScores:
    """Deconvolved rows."""
    return shrink_normal_scores(scores)


def matched(scores: Array, mixing: str, tables: ScoreTables) -> NormalScores:
    """Deconvolved rows, for voting after matching the mean and variance of the probabilities: what we recommend."""
    if mixing == "mean_score":
        return shrink_normal_scores(scores)
    return shrink_matched_scores(expit(scores.astype(np.float64)), tables)


FITS: dict[str, Fit] = {"plug-in": plug_in, "shrunken": shrunken, "matched": matched}
OURS = "matched"
