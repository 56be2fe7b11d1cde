"""Adapter of the forests of YDF."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import ydf
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.contract import EnsembleAdapter, EnsembleInfo, outputs_by_member
from ens_plugin.adapters.members import TableRows, code_dtype, text_label_codes, trained_columns
from ens_plugin.core.bags import Bags
from ens_plugin.core.validation import one_line
from ens_plugin.errors import BagError, InputError, UnsupportedModelError


class YdfForestAdapter(EnsembleAdapter):
    """Adapter of YDF's RandomForestModel for classification and regression.

    YDF averages the trees' probabilities or values in single precision, or counts votes (``winner_take_all``).
    """

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is a RandomForestModel of YDF."""
        return isinstance(model, ydf.RandomForestModel)

    def describe(self) -> EnsembleInfo:
        """Return the properties of the forest; trees vote where it was trained with ``winner_take_all``."""
        task = self.model.task()
        if task not in (ydf.Task.CLASSIFICATION, ydf.Task.REGRESSION):
            raise UnsupportedModelError(
                f"This random forest of YDF was trained for {task.name}, for which no error curve is known. Pass one "
                "trained for CLASSIFICATION or REGRESSION."
            )
        is_classifier = task == ydf.Task.CLASSIFICATION
        votes = is_classifier and self.model.winner_takes_all()
        return EnsembleInfo(
            task="classification" if is_classifier else "regression",
            classes=np.array(self.model.label_classes()) if is_classifier else None,
            n_members=self.model.num_trees(),
            aggregation="vote" if votes else "mean_proba" if is_classifier else "mean",
            output_kind="labels" if votes else "probabilities" if is_classifier else "values",
            bag_provenance="unknown",
            is_row_independent=True,
            distributions=("ydf",),
        )

    def prepare(self, X: Any) -> TableRows:
        """Return the model's columns of X, and the leaves that its rows reach in every tree."""
        # Leaves under a node's negative child have the lower numbers.
        table = trained_columns(X, self.model.input_feature_names())
        try:
            # YDF reads the label's column of every table, and does not use it here.
            leaves = self.model.predict_leaves(table.assign(**{self.model.label(): self._any_label()}))
        except Exception as error:  # YDF raises errors of its C++ library for columns of other types
            raise InputError(
                f"YDF refuses X ({one_line(str(error))}); pass the columns in the types that they had in training."
            ) from error
        return TableRows(table, np.asarray(leaves))

    def encode_target(self, y: NDArray[Any]) -> NDArray[np.int64] | None:
        """Return the codes of labels that are integers, which YDF keeps as texts; None for all others."""
        if self.classes is None or y.dtype.kind not in "iu":
            return None
        return text_label_codes(y, self.classes)

    def outputs(
        self, features: Any, members: range | None = None, wanted: NDArray[np.bool_] | None = None
    ) -> NDArray[Any]:
        """Return the label codes, probabilities or values of the leaves that the prepared rows reach."""
        return outputs_by_member(
            lambda member, rows: self._leaf_outputs[member][rows.made[:, member]],
            members or range(self.n_members),
            features,
            wanted,
        )

    def bags(self, X: Any, features: Any, y: ArrayLike | None) -> Bags:
        """Raise BagError: YDF keeps no record of the rows that its trees drew."""
        raise BagError(
            "YDF keeps no record of which rows its trees were trained on, and no seed from which they follow "
            '(github.com/google/yggdrasil-decision-forests, issue 200). Pass data="holdout" with rows no member was '
            "trained on."
        )

    @cached_property
    def _leaf_outputs(self) -> list[NDArray[Any]]:
        return [self._of_leaves(tree) for tree in self.model.iter_trees()]

    def _of_leaves(self, tree: Any) -> NDArray[Any]:
        leaves = list(_leaves(tree.root))
        if self.classes is None:
            return np.array([leaf.value.value for leaf in leaves], dtype=np.float64)
        probabilities = np.array([leaf.value.probability for leaf in leaves], dtype=np.float64)
        if self.output_kind == "probabilities":
            return probabilities
        return np.asarray(probabilities.argmax(axis=1).astype(code_dtype(len(self.classes))))

    def _any_label(self) -> Any:
        return 0.0 if self.classes is None else str(self.classes[0])


def _leaves(root: Any) -> Iterator[Any]:
    """Yield the leaves below a node in the order of their numbers, without recursion: trees may be deep."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.is_leaf:
            yield node
        else:
            waiting += [node.pos_child, node.neg_child]
