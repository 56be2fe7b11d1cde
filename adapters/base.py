"""The adapter contract."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.shared.distributed_bags import DistributedBags
from ens_plugin.adapters.shared.draws import DrawCounts
from ens_plugin.adapters.shared.threads import in_threads
from ens_plugin.core.tallies.bags import Bags
from ens_plugin.errors import BagError, UnsupportedModelError

__all__ = [
    "Aggregation",
    "EnsembleAdapter",
    "OutputKind",
    "Provenance",
    "draw_bags",
]

Aggregation = Literal["vote", "mean_proba", "mean_score", "mean"]
OutputKind = Literal["labels", "probabilities", "scores", "values"]
Provenance = Literal["recorded", "proved", "given"]

DRAWN_TOGETHER = 4


class EnsembleAdapter(ABC):
    """What ens_plugin needs to know about one kind of trained ensemble.

    To support another library, subclass this, implement the abstract members and call
    :func:`ens_plugin.register_adapter`.  An adapter never guesses: what it cannot know or prove
    raises an error of :mod:`ens_plugin.errors` that states what was found and what to do instead.
    It never modifies the model.

    Class attributes
    ----------------
    library : str
        Import name of the model library, ``"sklearn"`` for example.
    supported_versions : str
        Version specifier of the library releases this adapter is tested with.

    Instance attributes, set by ``__init__``
    ----------------------------------------
    model : object
        The fitted ensemble, wrappers removed.
    task : {"classification", "regression"}
    classes : ndarray of shape (n_labels,) or None
        The labels, in the order of the outputs' label axis; None for regression.
    n_members : int
    aggregation : {"vote", "mean_proba", "mean_score", "mean"}
        How the model's own ``predict`` combines its members.
    output_kind : {"labels", "probabilities", "scores", "values"}
        What :meth:`outputs` returns.  ``"labels"`` is allowed under ``"mean_proba"`` where every
        member gives one label probability 1 to every row it can meet: vote and mean are then the
        same rule.
    bag_provenance : {"recorded", "proved", "given"}
        How the bags are known: the library stores them (or the seeds they are drawn from);
        recomputed and checked against the trained members' own counts; given by the user.
    is_row_independent : bool
        Whether an output never depends, to the bit, on the other rows it is computed with.  True of
        trees; not of matrix products, whose rounding follows their height.
    target_is_proved : bool
        Set by :meth:`bags`: whether y was compared with what the members were fitted to.  Without, a report warns.
    member_batch_size : int
        Members whose :meth:`range_outputs` cost hardly more than those of one; 1 by default.

    Raises
    ------
    NotFittedError
        From ``__init__``, if the model has not been fitted.
    UnsupportedModelError
        From ``__init__``, if this form of the model is not covered (several outputs, for example).
    """

    library: ClassVar[str]
    supported_versions: ClassVar[str]

    model: Any
    task: Literal["classification", "regression"]
    classes: NDArray[Any] | None
    n_members: int
    aggregation: Aggregation
    output_kind: OutputKind
    bag_provenance: Provenance
    target_is_proved: bool = True
    is_row_independent: bool = False
    member_batch_size: int = 1

    @classmethod
    @abstractmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` belongs to this adapter; must not raise."""

    @abstractmethod
    def __init__(self, model: Any) -> None: ...

    @abstractmethod
    def prepare(self, X: Any) -> Any:
        """Return X as the library's own ``predict`` would feed it to the members, made once.

        The result is sliced by rows (``prepared[slice]``, ``prepared[indices]``) and has ``.shape``.

        Raises
        ------
        DataMismatchError
            If the columns are not the ones the model was trained on.
        """

    @abstractmethod
    def member_outputs(self, member: int, features: Any) -> NDArray[Any]:
        """Return the outputs of one member for the prepared rows `features`.

        Returns
        -------
        ndarray
            By `output_kind`: label codes into `classes`, integer, shape (n_rows,); probabilities
            or raw scores, float64, shape (n_rows, n_labels) (raw scores of two labels may have
            shape (n_rows,): the score of ``classes[1]``); values, float64, shape (n_rows,).
        """

    def outputs(self, features: Any, wanted: NDArray[np.bool_] | None) -> NDArray[Any]:
        """Return the outputs of all members for one block of prepared rows.

        Parameters
        ----------
        features : prepared rows, n_rows of them
        wanted : ndarray of bool, shape (n_members, n_rows), or None for all
            Cells that will be read.  The others may hold anything finite.

        Returns
        -------
        ndarray, shape (n_members, n_rows) or (n_members, n_rows, n_labels)
        """
        n_rows = features.shape[0]
        outputs: NDArray[Any] | None = None
        for member in range(self.n_members):
            rows = slice(None) if wanted is None else _wanted_rows(wanted[member])
            values = self.member_outputs(member, _take_rows(features, rows))
            if outputs is None:
                outputs = np.zeros((self.n_members, n_rows, *values.shape[1:]), dtype=values.dtype)
            outputs[member, rows] = values
        assert outputs is not None
        return outputs

    def range_outputs(self, members: range, features: Any) -> NDArray[Any]:
        """Return the outputs of some consecutive members, for predictions that do not need all of them.

        Override it where several members predict faster together.

        Parameters
        ----------
        members : range
            At least one member, in steps of 1.
        features : prepared rows, n_rows of them

        Returns
        -------
        ndarray, shape (len(members), n_rows) or (len(members), n_rows, n_labels)
        """
        return np.stack([self.member_outputs(member, features) for member in members])

    def block(self, features: Any, bags: Bags | None, rows: slice) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return the members' outputs for one block of prepared rows, and where a member was out of bag.

        Override it where the parts of a member have bags of their own, so that a member differs from row to row.

        Parameters
        ----------
        features : the block's prepared rows
        bags : Bags or None
            Of all rows; None for held-out rows, which are in no bag.
        rows : slice
            Where the block is among all rows.

        Returns
        -------
        outputs : ndarray, shape (n_members, n_rows) or (n_members, n_rows, n_labels)
        counted : ndarray of bool, shape (n_members, n_rows)
            True where the output counts.
        """
        if bags is None:
            outputs = self.outputs(features, None)
            return outputs, np.ones(outputs.shape[:2], dtype=bool)
        is_oob = ~bags.in_bag(rows)
        return self.outputs(features, is_oob), is_oob

    def check_members(self, features: Any) -> None:  # noqa: B027  (most adapters know it from the class)
        """Raise UnsupportedModelError if the model is not the mean of members that are drawn alike.

        Called before an analysis, not where only the bags are wanted.
        """

    @abstractmethod
    def bags(self, X: Any, features: Any, y: ArrayLike | None) -> Bags:
        """Return the training rows each member was trained on, drawn once per member and packed.

        Parameters
        ----------
        X : the training rows as the user gave them, in training order
        features : the same rows, prepared
        y : array-like of shape (n_rows,) or None
            Training target, where a check needs it.

        Raises
        ------
        BagError
            If the bags cannot be known (no bootstrap, for example).
        DataMismatchError
            If these are not the training rows, in training order, as far as this can be checked.
        """

    def draw_counts(self, X: Any, features: Any, y: ArrayLike | None) -> DrawCounts:
        """Return how often each member drew each training row.

        Optional; needed for :func:`ens_plugin.training_variance`.  The arguments are those of :meth:`bags`, which
        implementations call first, for its checks.

        Raises
        ------
        BagError
            If that is not known; by default always.
        """
        raise BagError(
            f"How often each member of this {type(self.model).__name__} drew each training row is not known, and the "
            "variance over training sets is estimated from these counts. Pass an ensemble of scikit-learn, LightGBM or "
            "XGBoost, or ens_plugin.CustomEnsemble.from_estimators(models, row_indices)."
        )

    def row_bags(self, n_rows: int, attempt: int) -> DistributedBags:
        """Return bags that each machine of a cluster computes from the positions of its training rows.

        Optional; needed for ``ens_plugin.spark.analyze(..., data="oob")``.

        Parameters
        ----------
        n_rows : int
            Training rows.
        attempt : int
            Where several draws are possible, which one, the likeliest first.

        Raises
        ------
        BagError
            If the position of a row does not give its bags, or there is no such attempt; by default always.
        """
        raise BagError(
            f"The bags of a {type(self.model).__name__} do not follow from a row's position alone, so its rows "
            'cannot be spread over a cluster. Pass data="holdout" with rows no member was trained on, or analyze the '
            "training rows on one machine with ens_plugin.analyze."
        )

    def left_out_chances(self) -> NDArray[np.float64] | None:
        """Return each training row's chance to be out of one bag, in training order; None where all are equal.

        Optional; for libraries that draw rows by weight.  Where it is None, the frequencies of the bags stand for it.
        """
        return None

    def are_training_rows(self, features: Any, y: ArrayLike) -> bool:
        """Return whether these prepared rows are known to be training rows, in training order or any other.

        Called for held-out rows, which must be in no bag.  False where the model does not show it.
        """
        return False

    def are_training_outputs(self, outputs: NDArray[Any], target: NDArray[Any]) -> bool:
        """Return whether these outputs of all members are known to be for training rows, in whatever order.

        Called for a sample of held-out rows of a cluster.  False where the model does not show it.

        Parameters
        ----------
        outputs : ndarray, shape (n_members, n_rows) or (n_members, n_rows, n_labels)
            As of :meth:`outputs`.
        target : ndarray, shape (n_rows,)
            Label codes or values.
        """
        return False

    def leaf_counts(self, features: Any, target: NDArray[Any]) -> Iterator[tuple[NDArray[Any], NDArray[Any]]]:
        """Yield, for each tree, the fewest training rows that each of its cells held and the given rows in it.

        Optional; read for held-out rows, until a cell has too few.  Cells are disjoint: leaves, or labels in leaves.

        Parameters
        ----------
        features : prepared rows, n_rows of them
        target : ndarray, shape (n_rows,)
            Label codes or values.
        """
        return iter(())

    def checks_training_rows(self) -> bool:
        """Return whether :meth:`bags` notices rows that are not the training rows in training order."""
        return True

    def checks_held_out_rows(self, features: Any) -> bool:
        """Return whether :meth:`are_training_rows` can recognise these rows as training rows, in any order."""
        return True

    def cautions(self, data: str) -> tuple[str, ...]:
        """Return the sentences that a report from ``"oob"`` or ``"holdout"`` rows of this model must warn with."""
        return ()

    def stored_oob_outputs(self) -> NDArray[Any] | None:
        """Return the mean out-of-bag outputs that the library stored at training, in training order, or None.

        Shape (n_rows, n_labels) or (n_rows,); rows without out-of-bag members may hold anything.
        """
        return None

    def distributions(self) -> tuple[str, ...]:
        """Return the names of the installed distributions whose versions a report should state."""
        return ()

    def link(self, mean_output: NDArray[np.float64]) -> NDArray[np.float64]:
        """Turn a mean member output into what a user's metric expects; the identity by default."""
        return mean_output

    def portable(self) -> Any:
        """Return what another process can make this adapter from, once pickled; the model itself by default."""
        return self.model

    def truncated(self, size: int) -> Any:
        """Return a model of the same kind that holds the first `size` members and averages them.

        Optional.  The new model shares nothing with `model` that its library may change later, keeps the
        parameters but for the number of members, and drops what was measured on all of them.

        Parameters
        ----------
        size : int
            From 1 to `n_members`.

        Raises
        ------
        UnsupportedModelError
            If no such model can be made; by default always.
        """
        raise UnsupportedModelError(
            f"{type(self).__name__} cannot truncate a {type(self.model).__name__}: it does not implement "
            "truncated(size). Implement it (see ens_plugin.adapters.base.EnsembleAdapter), or train a smaller ensemble."
        )


def draw_bags(draw: Callable[[int], ArrayLike], n_members: int, n_rows: int) -> Bags:
    """Draw and pack the bags of all members, in as many threads as joblib's context grants.

    Parameters
    ----------
    draw : callable
        ``draw(member)`` returns the rows that a member was trained on; called from several threads.
    n_members, n_rows : int
    """
    starts = range(0, n_members, DRAWN_TOGETHER)
    chunks = [range(start, min(start + DRAWN_TOGETHER, n_members)) for start in starts]
    parts = in_threads(lambda chunk: Bags.from_indices(map(draw, chunk), n_rows), chunks)
    return Bags.stack(parts, n_members, n_rows)


def _wanted_rows(wanted: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Return the rows that a member predicts: at least one, because many members refuse an empty table."""
    rows = np.flatnonzero(wanted)
    return rows if rows.size else np.zeros(1, dtype=np.intp)


def _take_rows(features: Any, rows: slice | NDArray[np.intp]) -> Any:
    """Return prepared rows by position."""
    # On arrays, take is three times as fast as an index.
    if isinstance(features, np.ndarray) and not isinstance(rows, slice):
        return features.take(rows, axis=0)
    return features[rows]
