"""The adapter of several outputs taken as one problem: the rows of all outputs, one output after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.base import EnsembleAdapter, EnsembleInfo, OutputKind
from ens_plugin.core.tallies.bags import Bags
from ens_plugin.errors import BagError, UnsupportedModelError
from ens_plugin.records import record

__all__ = ["OutputPart", "StackedOutputs"]


@record
class OutputPart:
    """One output of a stack.

    Attributes
    ----------
    adapter : EnsembleAdapter
        Of the ensemble that predicts this output alone.
    features : prepared rows
    bags : Bags or None
        Of these rows; None for held-out rows.
    """

    adapter: EnsembleAdapter
    features: Any
    bags: Bags | None

    @property
    def n_rows(self) -> int:
        """Return the number of rows."""
        return int(self.features.shape[0])


class StackedOutputs(EnsembleAdapter):
    """Adapter of a model of several outputs, as one ensemble whose rows are those of all outputs.

    Member m of the stack is member m of every output.  The mean loss over the rows of the stack is the mean over rows
    of the mean over outputs, where all outputs have the same rows.  Labels are codes: code j is the j-th label of each
    output, and outputs with fewer labels than others give probability 0 to the rest.

    Parameters
    ----------
    model : object
        The model of several outputs, whose name is reported.
    parts : sequence of OutputPart

    Raises
    ------
    UnsupportedModelError
        If the outputs have different numbers of members, or members that are combined in different ways.
    """

    def __init__(self, model: Any, parts: Sequence[OutputPart]) -> None:
        self.parts = tuple(parts)
        self.starts = np.cumsum([0, *(part.n_rows for part in parts)])
        super().__init__(model)

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return False: no search for an adapter leads here, because a stack is made of the adapters of its outputs."""
        return False

    def describe(self) -> EnsembleInfo:
        """Return the properties that all outputs share."""
        infos = [part.adapter.info for part in self.parts]
        self._refuse_other({info.n_members for info in infos}, "numbers of members")
        self._refuse_other({(info.task, info.aggregation) for info in infos}, "tasks or ways to combine the members")
        self._refuse_other({type(part.adapter).__name__ for part in self.parts}, "kinds of ensembles")
        n_labels = [0 if info.classes is None else len(info.classes) for info in infos]
        kinds: set[OutputKind] = {info.output_kind for info in infos}
        if "scores" in kinds:
            self._refuse_other(set(n_labels), "numbers of labels, whose raw scores cannot be put together")
        return EnsembleInfo(
            task=infos[0].task,
            classes=None if infos[0].classes is None else np.arange(max(n_labels)),
            n_members=infos[0].n_members,
            aggregation=infos[0].aggregation,
            # Where some members have pure leaves for one output only, their labels are probabilities 0 and 1.
            output_kind=infos[0].output_kind if len(kinds) == 1 else "probabilities",
            bag_provenance=infos[0].bag_provenance,
            is_row_independent=all(info.is_row_independent for info in infos),
            member_batch_size=infos[0].member_batch_size,
            distributions=infos[0].distributions,
        )

    def _refuse_other(self, found: set[Any], what: str) -> None:
        if len(found) > 1:
            raise UnsupportedModelError(
                f"The outputs of this {type(self.model).__name__} have different {what}, so no mean over them is "
                "analysed. Analyse each alone: ens_plugin.analyze(ens_plugin.split_outputs(model)[k], X, y[:, k])."
            )

    def prepare(self, X: Any) -> Any:
        """Return the positions of the rows of the stack, shape (n_rows, 1)."""
        return np.arange(self.starts[-1])[:, None]

    def block(self, features: Any, bags: Bags | None, rows: slice) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return the members' outputs for a block of the stack, each row's by the adapter of its output."""
        found = [
            self._part_block(part, slice(max(rows.start, start) - start, min(rows.stop, stop) - start))
            for part, start, stop in zip(self.parts, self.starts[:-1], self.starts[1:], strict=True)
            if max(rows.start, start) < min(rows.stop, stop)
        ]
        return np.concatenate([own for own, _ in found], axis=1), np.concatenate([own for _, own in found], axis=1)

    def _part_block(self, part: OutputPart, rows: slice) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        outputs, counted = part.adapter.block(part.features[rows], part.bags, rows)
        return self._common_form(part, outputs), counted

    def _common_form(self, part: OutputPart, outputs: NDArray[Any]) -> NDArray[Any]:
        """Return one output's label codes, probabilities, scores or values in the form that all outputs have."""
        if self.classes is None:
            return outputs
        if part.adapter.output_kind == "labels" and self.output_kind == "probabilities":
            return np.asarray(np.eye(self.classes.size)[outputs])
        if self.output_kind != "probabilities":
            return outputs
        missing = self.classes.size - outputs.shape[2]
        return np.pad(outputs, ((0, 0), (0, 0), (0, missing))) if missing else outputs

    def outputs(
        self, features: Any, members: range | None = None, wanted: NDArray[np.bool_] | None = None
    ) -> NDArray[Any]:
        """Return the members' outputs for rows of the stack, which are given by their positions."""
        rows, found = features[:, 0], None
        for part, start, stop in zip(self.parts, self.starts[:-1], self.starts[1:], strict=True):
            here = np.flatnonzero((rows >= start) & (rows < stop))
            if not here.size:
                continue
            own = part.adapter.outputs(
                part.features[rows[here] - start], members, None if wanted is None else wanted[:, here]
            )
            own = self._common_form(part, own)
            if found is None:
                found = np.zeros((own.shape[0], rows.size, *own.shape[2:]), dtype=own.dtype)
            found[:, here] = own
        assert found is not None
        return found

    def bags(self, X: Any, features: Any, y: ArrayLike | None) -> Bags:
        """Raise BagError: each part has its own bags."""
        raise BagError("The outputs of a stack have bags of their own; take them from ens_plugin.split_outputs(model).")

    def inverse_link(self, mean_output: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probabilities or values for mean member outputs, which all outputs have in common."""
        return self.parts[0].adapter.inverse_link(mean_output)
