"""Rows of two labels that members score by one number."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.tallies.tally import RowBlock, Sums, both_scores, value_sums
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
    sums : callable
        Computes ``value_sums`` of the scores as values; that of :mod:`~ens_plugin.core.tallies.tally` by default.
    """

    outputs: FloatArray = field(init=False)
    n_labels: int = field(init=False, default=2)
    score: FloatArray
    sums: Sums = value_sums

    def __getattr__(self, name: str) -> Any:
        if name != "outputs":
            raise AttributeError(name)
        return vars(self).setdefault("outputs", both_scores(self.score))

    @cached_property
    def support(self) -> FloatArray:
        """Return the summed scores over the members that count, shape (n_rows, 2); read-only."""
        total = self._moments[1] / 2.0
        # 0 less a total that is 0 is not -0.
        support = np.column_stack([0.0 - total, total])
        support.flags.writeable = False
        return support

    @cached_property
    def variance(self) -> FloatArray:
        """Return the variance (ddof 1) of each row's scores that count, shape (n_rows,); 0 with fewer than two."""
        trials, _, squares = self._moments
        variance = np.asarray(squares / np.maximum(trials - 1.0, 1.0))
        variance.flags.writeable = False
        return variance

    @cached_property
    def _moments(self) -> FloatArray:
        """Return the members that count, the sum of their scores and of squared deviations, shape (3, n_rows)."""
        return self.sums(RowBlock(self.score, self.counted, self.target, 0))[:3]

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
        return ScoreBlock(counted, target, stored, self.sums)

    def leads(self) -> FloatArray:
        """Return the scores of the second label, which are the differences of both, as a new array."""
        return self.score.copy(order="K")

    def seconds(self) -> BoolArray:
        """Return which members predict the second label."""
        return np.asarray(self.score > 0.0)
