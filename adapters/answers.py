"""Repeated answers to questions, such as samples of a language model, as votes whose labels differ by question."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.custom import CustomAdapter, CustomEnsemble
from ens_plugin.adapters.trees import RowOrigin
from ens_plugin.core.bags import Bags
from ens_plugin.core.validation import FloatArray, IntArray

MISSING = -1


class AnswerEnsemble(CustomEnsemble):
    """Answers to questions as the votes of exchangeable members: member b has given the b-th answer to each question.

    Parameters
    ----------
    codes : ndarray of int, shape (n_samples, n_questions)
        Codes of the answers among those to the same question, -1 where there is none.
    n_codes : int
        All codes are below it.
    weight : ndarray of float, shape (n_samples, n_questions), optional
        The weight of each vote.
    """

    def __init__(self, codes: IntArray, n_codes: int, weight: FloatArray | None = None) -> None:
        self.has_answer = codes != MISSING
        outputs = np.where(self.has_answer, codes, 0)
        super().__init__(outputs, None, aggregation="vote", classes=np.arange(n_codes))
        self.weight = weight
        if weight is not None:
            self.aggregation = "mean_score"

    def member_outputs(self, member: int, rows: Any) -> NDArray[Any]:
        """Return one sample's codes for some questions; with weights, the weight at each code, (n_rows, n_codes)."""
        codes: NDArray[Any] = super().member_outputs(member, rows)
        if self.weight is None:
            return codes
        assert self.classes is not None
        scores = np.zeros((codes.size, self.classes.size))
        scores[np.arange(codes.size), codes] = self.weight[member, rows[:, 0]]
        return scores


class AnswerAdapter(CustomAdapter):
    """Adapter of an :class:`AnswerEnsemble`, whose questions may have different numbers of samples."""

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is an AnswerEnsemble."""
        return isinstance(model, AnswerEnsemble)

    def block(self, features: Any, bags: Bags | None, rows: slice) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return the samples' outputs for a block of questions, and which of them have an answer."""
        return self.outputs(features), self.model.has_answer[:, features[:, 0]]

    def verify_rows(self, features: Any, y: ArrayLike | None) -> RowOrigin:
        """Return "fresh": nothing was trained on these questions that would vote."""
        return "fresh"
