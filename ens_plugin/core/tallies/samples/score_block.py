"""Rows of two labels that members score by one number."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.tallies.tally import RowBlock, both_scores, sum_over_members
from ens_plugin.core.validation import BoolArray, FloatArray
from ens_plugin.records import record

__all__ = ["ScoreBlock"]


@record
class ScoreBlock(RowBlock):
    """Rows of two labels, each scored by one number: minus a half of it is the score of the first, a half the other's.

    Attributes
    ----------
    score : ndarray of float64, shape (n_members, n_rows)
        Of the second label.
    outputs : ndarray, shape (n_members, n_rows, 2)
        Scores of both labels, made when they are first asked for.
    counted, target, n_labels
        As of RowBlock.
    """

    outputs: FloatArray = field(init=False, repr=False)
    n_labels: int = field(init=False, default=2)
    score: FloatArray

    def __getattr__(self, name: str) -> Any:
        if name != "outputs":
            raise AttributeError(name)
        return vars(self).setdefault("outputs", both_scores(self.score))

    @cached_property
    def support(self) -> FloatArray:
        """Return the summed scores over the members that count, shape (n_rows, 2); read-only."""
        total = sum_over_members(self.score, self.counted) / 2.0
        # 0 less a total that is 0 is not -0.
        support = np.column_stack([0.0 - total, total])
        support.flags.writeable = False
        return support

    @property
    def is_vote(self) -> bool:
        """Return False: outputs are scores."""
        return False

    @property
    def stored(self) -> FloatArray:
        """Return the scores of the second label."""
        return self.score

    def like(self, stored: NDArray[Any], counted: BoolArray, target: NDArray[Any]) -> ScoreBlock:
        """Return other rows of the same kind."""
        return ScoreBlock(counted, target, stored)

    def leads(self) -> FloatArray:
        """Return the scores of the second label, which are the differences of both, as a new array."""
        return self.score.copy(order="K")

    def seconds(self) -> BoolArray:
        """Return which members predict the second label."""
        return np.asarray(self.score > 0.0)
