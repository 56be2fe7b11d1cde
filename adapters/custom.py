"""Ensembles of the user's own: arrays of outputs and bags, fitted members, or repeated answers to questions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from importlib import import_module
from numbers import Number
from typing import Any, Literal, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.contract import EnsembleAdapter, EnsembleInfo, OutputKind, outputs_by_member
from ens_plugin.adapters.members import (
    DrawCounts,
    DrawRule,
    TableRows,
    as_pandas,
    call_model,
    checked_labels,
    checked_numbers,
    code_dtype,
    counts_from_bags,
    counts_of_rows,
    label_codes,
    order_doubts,
    reason_of,
)
from ens_plugin.adapters.trees import RowOrigin, judge_origin
from ens_plugin.core.bags import BagProof, Bags
from ens_plugin.core.validation import LARGEST_VALUE, as_array, counted, shown
from ens_plugin.errors import BagError, DataMismatchError, InputError
from ens_plugin.findings import Finding

# A position above it is damage, as of a pointer read as a number.
MAX_ROWS = 2**40
# How members are averaged, or vote; the kind of what they output; and the dimensions of outputs.
MeanRule = Literal["vote", "mean_proba", "mean_score", "mean"]
_OUTPUT_KIND: dict[MeanRule, OutputKind] = {
    "vote": "labels",
    "mean_proba": "probabilities",
    "mean_score": "scores",
    "mean": "values",
}
_DIMENSIONS: dict[MeanRule, tuple[int, ...]] = {"vote": (2,), "mean": (2,), "mean_proba": (3,), "mean_score": (2, 3)}


@dataclass(frozen=True, eq=False)
class GivenBags:
    """Bags of all members as a user gave them, after the checks of :func:`check_in_bag`."""

    # Shape (n_members, n_rows).
    rows: NDArray[np.bool_] | list[NDArray[np.intp]]
    # Name of the user's argument, for messages.
    name: str

    def pack(self, n_rows: int) -> Bags:
        """Return the bags of `n_rows` training rows, packed as bits."""
        if isinstance(self.rows, np.ndarray):
            if self.rows.shape[1] != n_rows:
                raise DataMismatchError(
                    f"X has {counted(n_rows, 'row')}, but {self.name} has {counted(self.rows.shape[1], 'column')}; "
                    "pass the exact training rows in training order."
                )
            return Bags.from_mask(self.rows)
        last = max(int(rows.max()) for rows in self.rows)
        if last >= n_rows:
            raise DataMismatchError(
                f"X has {counted(n_rows, 'row')}, but {self.name} goes up to row {last}; pass the exact training rows "
                "in training order."
            )
        return Bags.from_indices(self.rows, n_rows)

    def counts(self, n_rows: int) -> DrawCounts:
        """Return how often each member drew each row: for a mask, 0 or 1.

        Where no index array holds a row twice, the rows are taken to have been drawn without replacement.
        """
        bags = self.pack(n_rows)
        if isinstance(self.rows, np.ndarray):
            return counts_from_bags(bags, "unknown")
        repeats = any(np.unique(rows).size < rows.size for rows in self.rows)
        rule: DrawRule = "with_replacement" if repeats else "without_replacement"
        return counts_of_rows(self.rows, len(self.rows), n_rows, rule)

    def first(self, n_members: int) -> GivenBags:
        """Return a copy of the bags of the first `n_members` members."""
        return replace(self, rows=self.rows[:n_members].copy())


def check_in_bag(
    in_bag: ArrayLike | Sequence[ArrayLike] | None, n_members: int, n_rows: int | None, name: str = "in_bag"
) -> GivenBags | None:
    """Return the bags that a user gave, after checking them; None stays None."""
    if in_bag is None:
        return None
    try:
        mask = np.asarray(in_bag)
    except Exception:  # index arrays of different lengths, or what a user's class raises
        mask = np.zeros(0)
    if mask.dtype == np.bool_ and mask.ndim:
        if mask.ndim != 2 or mask.shape != (n_members, mask.shape[1] if n_rows is None else n_rows):
            wanted = f"({n_members}, {'n_rows' if n_rows is None else n_rows})"
            raise InputError(
                f"{name} has shape {mask.shape}; pass a mask of these members and rows, of shape {wanted}."
            )
        return GivenBags(mask.copy(), name)
    has_no_length = isinstance(in_bag, (str, bytes)) or (isinstance(in_bag, np.ndarray) and in_bag.ndim == 0)
    if has_no_length or not isinstance(in_bag, (Sequence, np.ndarray)):
        raise InputError(f"{name} must be a mask of bool or one index array per member, got {type(in_bag).__name__}.")
    if len(in_bag) != n_members:
        raise InputError(
            f"{name} has {counted(len(in_bag), 'index array')} for {counted(n_members, 'member')}; give one per member."
        )
    rows = [_checked_rows(own, f"{name}[{member}]", n_rows) for member, own in enumerate(in_bag)]
    length = len(rows[0]) if n_rows is None else n_rows
    if length > 2 and all(own.size == length and own.max() <= 1 for own in rows):
        raise InputError(
            f"{name} holds only 0 and 1, one per row: if it is a mask, pass it as bool ({name}.astype(bool))."
        )
    return GivenBags(rows, name)


def _checked_rows(rows: ArrayLike, name: str, n_rows: int | None) -> NDArray[np.intp]:
    array, end = as_array(rows, name), MAX_ROWS if n_rows is None else n_rows
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise InputError(
            f"{name} must be a non-empty list of row positions, got shape {array.shape} and dtype {array.dtype}."
        )
    if array.min() < 0 or array.max() >= end:
        raise InputError(
            f"{name} must hold row positions from 0 on and below {end}, got {array.min()} to {array.max()}."
        )
    return array.astype(np.intp, copy=True)


AnyEnsemble = TypeVar("AnyEnsemble", bound="CustomEnsemble")


class CustomEnsemble:
    """An ensemble given by the outputs of its members, whatever library trained them.

    Parameters
    ----------
    outputs : array-like of shape (n_members, n_rows) or (n_members, n_rows, n_labels)
        Predictions of each member for each row, by `aggregation`: labels (``"vote"``), probabilities
        with a label axis (``"mean_proba"``), raw scores (``"mean_score"``; without a label axis, the
        score of ``classes[1]``), values (``"mean"``).  Cells of rows in a member's bag are not read
        when bags are analysed, but must be valid.
    in_bag : array-like of bool, shape (n_members, n_rows), or sequence of n_members index arrays, or None
        Rows each member was trained on.  None: only ``data="holdout"`` can be analysed.
    aggregation : {"vote", "mean_proba", "mean_score", "mean"}
        How the ensemble combines its members; ``"mean"`` is regression, the others classification.
    classes : array-like of shape (n_labels,), optional
        The labels, in the order of the label axis.  By default 0, 1, ...; for ``"vote"`` the labels
        that occur in `outputs`, sorted: pass `classes` if some label is never voted for.

    Raises
    ------
    InputError
        If an argument has a wrong shape or content.

    Notes
    -----
    Rows are identified by their position, so `X` may be None wherever ens_plugin takes one; if it
    is given, only its number of rows is checked.

    Examples
    --------
    >>> import numpy as np
    >>> from ens_plugin import CustomEnsemble
    >>> votes = np.array([["a", "b", "b"], ["a", "a", "b"]])
    >>> ensemble = CustomEnsemble(votes, [[0, 0, 1], [1, 2, 2]], aggregation="vote")
    >>> ensemble.n_members, ensemble.classes.tolist()
    (2, ['a', 'b'])
    """

    aggregation: MeanRule
    classes: NDArray[Any] | None
    n_members: int
    in_bag: GivenBags | None

    def __init__(
        self,
        outputs: ArrayLike,
        in_bag: ArrayLike | Sequence[ArrayLike] | None,
        *,
        aggregation: MeanRule,
        classes: ArrayLike | None = None,
    ) -> None:
        if not isinstance(aggregation, str) or aggregation not in get_args(MeanRule):
            raise InputError(f"aggregation must be one of {', '.join(get_args(MeanRule))}; got {shown(aggregation)}.")
        array = _as_outputs(outputs, aggregation)
        self.aggregation = aggregation
        self.n_members, self.n_rows = array.shape[:2]
        self.classes = _as_classes(classes, array, aggregation)
        if self.classes is not None and aggregation == "vote":
            array = label_codes(array, self.classes, "outputs").astype(code_dtype(len(self.classes)))
        self.outputs = array
        self.in_bag = check_in_bag(in_bag, self.n_members, self.n_rows)

    @staticmethod
    def from_estimators(
        models: Sequence[Any],
        row_indices: ArrayLike | Sequence[ArrayLike] | None,
        *,
        classes: ArrayLike | None = None,
    ) -> CustomEnsemble:
        """Make an ensemble of fitted models, each with the rows it was trained on.

        Classifiers are averaged if all have ``predict_proba``, else they vote; regressors are averaged.

        Parameters
        ----------
        models : sequence of fitted models
            Each has ``predict``; classifiers also have ``classes_``, unless `classes` is given.
        row_indices : sequence of index arrays, or array-like of bool of shape (n_members, n_rows), or None
            Rows each model was trained on, as positions in the training set.  None: only
            ``data="holdout"`` can be analysed.
        classes : array-like of shape (n_labels,), optional
            All labels of the target; by default all that some model was trained on.  Needed for models that predict
            labels and have no ``classes_``.  Models that were trained on the codes 0, 1, ... of labels that are no
            numbers need the labels in the order of their codes.

        Raises
        ------
        InputError
            If there is no model, one lacks ``predict``, or only some are classifiers.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.tree import DecisionTreeClassifier
        >>> from ens_plugin import CustomEnsemble
        >>> X, y = np.arange(6.0)[:, None], np.array([0, 0, 0, 1, 1, 1])
        >>> bags = [np.array([0, 1, 3, 4]), np.array([1, 2, 4, 5])]
        >>> models = [DecisionTreeClassifier(random_state=0).fit(X[rows], y[rows]) for rows in bags]
        >>> CustomEnsemble.from_estimators(models, bags).aggregation
        'mean_proba'
        """
        return EstimatorEnsemble(models, row_indices, classes)

    def rows(self, X: Any) -> Any:
        """Return the positions of the rows, shape (n_rows, 1); `X` may be None."""
        if X is not None and _n_rows(X) != self.n_rows:
            raise DataMismatchError(
                f"X has {counted(_n_rows(X), 'row')}, but outputs has {self.n_rows}; pass the rows outputs was made "
                "from, or X=None."
            )
        return np.arange(self.n_rows)[:, None]

    def member_outputs(self, member: int, rows: Any) -> NDArray[Any]:
        """Return the outputs of one member for some rows, which are given by their positions."""
        outputs: NDArray[Any] = self.outputs[member, rows[:, 0]]
        return outputs

    def first(self, n_members: int) -> CustomEnsemble:
        """Return an ensemble of the first `n_members` members, with the same aggregation and labels."""
        part = _with_first_bags(self, n_members)
        part.outputs = self.outputs[:n_members].copy()
        return part


class EstimatorEnsemble(CustomEnsemble):
    """An ensemble of fitted models; see :meth:`CustomEnsemble.from_estimators`."""

    def __init__(
        self, models: Sequence[Any], row_indices: ArrayLike | Sequence[ArrayLike] | None, classes: ArrayLike | None
    ) -> None:
        is_scalar = isinstance(models, np.ndarray) and models.ndim == 0
        if is_scalar or isinstance(models, (str, bytes)) or not isinstance(models, Iterable):
            raise InputError(f"models must be a list of fitted models, got {shown(models)}.")
        self.models = list(models)
        if not self.models:
            raise InputError("models is empty; at least one fitted model is needed.")
        for index, model in enumerate(self.models):
            if not hasattr(model, "predict"):
                raise InputError(
                    f"models[{index}] is of type {type(model).__name__}, without predict; pass fitted models."
                )
        self.n_members = len(self.models)
        self.in_bag = check_in_bag(row_indices, self.n_members, None, "row_indices")
        self.classes = _common_classes(self.models, classes)
        if self.classes is None:
            self.aggregation = "mean"
        else:
            average = all(hasattr(model, "predict_proba") for model in self.models)
            self.aggregation = "mean_proba" if average else "vote"

    def rows(self, X: Any) -> Any:
        """Return `X` in a form that the models take and that can be sliced by row; raise InputError for None."""
        if X is None:
            raise InputError("X is None, but an ensemble of models needs the rows to predict; pass X.")
        X = as_pandas(X)
        if hasattr(X, "iloc"):
            return TableRows(X)
        if hasattr(X, "tocsr"):
            return X.tocsr()
        return _as_array(X, "X")

    def member_outputs(self, member: int, rows: Any) -> NDArray[Any]:
        """Return one model's label codes, probabilities or values for the rows."""
        model, table = self.models[member], rows.table if isinstance(rows, TableRows) else rows
        if self.classes is None:
            return checked_numbers(call_model(model.predict, table, member), (rows.shape[0],), member)
        if self.aggregation == "vote":
            labels = checked_labels(call_model(model.predict, table, member), rows.shape[0], member)
            codes = _positions(labels, self.classes, f"The prediction of model {member}")
            return codes.astype(code_dtype(len(self.classes)))
        name = f"classes_ of model {member}"
        own = _positions(_distinct(getattr(model, "classes_", self.classes), name), self.classes, name)
        found = call_model(model.predict_proba, table, member)
        probabilities = np.zeros((rows.shape[0], len(self.classes)))
        probabilities[:, own] = checked_numbers(found, (rows.shape[0], len(own)), member)
        return probabilities

    def first(self, n_members: int) -> EstimatorEnsemble:
        """Return an ensemble of the first `n_members` models; the models are not copied."""
        part = _with_first_bags(self, n_members)
        part.models = self.models[:n_members]
        return part


def _with_first_bags(ensemble: AnyEnsemble, n_members: int) -> AnyEnsemble:
    part = copy(ensemble)
    part.n_members = n_members
    part.in_bag = None if ensemble.in_bag is None else ensemble.in_bag.first(n_members)
    return part


def _as_array(values: Any, name: str) -> NDArray[Any]:
    array = as_array(values, name)
    if array.ndim == 0:
        raise InputError(f"{name} is a single value ({shown(values, 60)}); pass an array.")
    return array


def _as_outputs(outputs: ArrayLike, aggregation: MeanRule) -> NDArray[Any]:
    array = _as_array(outputs, "outputs")
    shape = "(n_members, n_rows, n_labels)" if aggregation == "mean_proba" else "(n_members, n_rows)"
    if array.ndim not in _DIMENSIONS[aggregation]:
        raise InputError(f"outputs must have shape {shape} for aggregation={aggregation!r}, got {array.shape}.")
    if array.size == 0:
        raise InputError(f"outputs is empty (shape {array.shape}); at least one member and one row are needed.")
    if aggregation == "vote":
        return array
    if array.dtype.kind not in "biuf":
        raise InputError(f"outputs must hold numbers for aggregation={aggregation!r}, got dtype {array.dtype}.")
    if not np.isfinite(array).all():
        raise InputError(
            "outputs holds NaN or infinite values; put any valid value into cells that are not to be read."
        )
    if array.dtype.kind == "f" and float(np.abs(array).max()) > LARGEST_VALUE:
        raise InputError(f"outputs holds values beyond {LARGEST_VALUE:g}, whose powers overflow; scale them down.")
    if aggregation == "mean_proba":
        _check_probabilities(array)
    return array


def _check_probabilities(array: NDArray[Any]) -> None:
    if array.min() < 0 or array.max() > 1:
        raise InputError(f"outputs must hold probabilities in [0, 1], got {array.min():g} to {array.max():g}.")
    error = np.abs(array.sum(axis=2, dtype=np.float64) - 1)
    if error.max() > 1e-6:
        member, row = np.unravel_index(error.argmax(), error.shape)
        raise InputError(
            f"outputs must sum to 1 over the label axis; normalise outputs[{member}, {row}], off by {error.max():.2g}."
        )


def _as_classes(classes: ArrayLike | None, outputs: NDArray[Any], aggregation: MeanRule) -> NDArray[Any] | None:
    if aggregation == "mean":
        if classes is not None:
            raise InputError('classes was given, but aggregation="mean" is regression; leave classes out.')
        return None
    n_labels = outputs.shape[2] if outputs.ndim == 3 else 2
    if classes is None:
        return _sorted_labels(outputs, "outputs") if aggregation == "vote" else np.arange(n_labels)
    labels = _distinct(classes)
    if aggregation != "vote" and len(labels) != n_labels:
        raise InputError(
            f"classes holds {counted(len(labels), 'label')}, but outputs has {n_labels}; give one label per column."
        )
    return labels


def _sorted_labels(labels: NDArray[Any], name: str) -> NDArray[Any]:
    try:
        found = np.asarray(np.unique(labels))
        set(found.tolist())
    except Exception as error:  # a user's class may raise anything where it is compared
        raise InputError(
            f"{name} mixes labels that cannot be compared ({reason_of(error)}); use labels of one type."
        ) from error
    return found


def _distinct(classes: Any, name: str = "classes") -> NDArray[Any]:
    labels = _as_array(classes, name)
    are_finite = labels.dtype.kind != "f" or bool(np.isfinite(labels).all())
    if labels.ndim != 1 or labels.size == 0 or _sorted_labels(labels, name).size != labels.size or not are_finite:
        raise InputError(f"{name} must be a non-empty list of distinct labels, got {shown(labels.tolist())}.")
    return labels


def _positions(labels: NDArray[Any], classes: NDArray[Any], name: str) -> NDArray[np.intp]:
    """Return the position of every label in `classes`; where these are words, codes 0, 1, ... may be given, too."""
    are_codes = labels.dtype.kind in "iu" and bool(((labels >= 0) & (labels < len(classes))).all())
    if are_codes and not any(isinstance(label, Number) for label in classes.tolist()):
        return labels.astype(np.intp)
    return label_codes(labels, classes, name)


def _common_classes(models: list[Any], classes: ArrayLike | None) -> NDArray[Any] | None:
    if classes is not None:
        return _distinct(classes)
    known = [model.classes_ for model in models if hasattr(model, "classes_")]
    if not known and not any(hasattr(model, "predict_proba") for model in models):
        return None
    if len(known) != len(models):
        raise InputError(
            f"Only {counted(len(known), 'has', 'have', of=f'{len(models)} models')} classes_, so "
            "the labels of the others are unknown. Pass fitted classifiers alone, regressors alone, or all labels of "
            "the target as classes."
        )
    own = [_distinct(labels, f"classes_ of model {index}") for index, labels in enumerate(known)]
    try:
        together = np.concatenate(own)
    except Exception as error:  # labels of types that cannot be joined
        raise InputError(
            f"The models' classes_ cannot be joined ({reason_of(error)}); use labels of one type."
        ) from error
    return _sorted_labels(together, "classes_")


def _n_rows(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else int(_as_array(X, "X").shape[0])


class CustomAdapter(EnsembleAdapter):
    """Adapter that reads the outputs and bags of a :class:`CustomEnsemble`."""

    @classmethod
    def accepts(cls, model: object) -> bool:
        """Return whether `model` is a CustomEnsemble."""
        return isinstance(model, CustomEnsemble)

    def describe(self) -> EnsembleInfo:
        """Return the properties of the ensemble, as the user stated them."""
        return EnsembleInfo(
            task="regression" if self.model.aggregation == "mean" else "classification",
            classes=self.model.classes,
            n_members=self.model.n_members,
            aggregation=self.model.aggregation,
            output_kind=_OUTPUT_KIND[self.model.aggregation],
            bag_provenance="given",
        )

    def prepare(self, X: Any) -> Any:
        """Return `X` as the models take it; for outputs given as arrays, row positions (`X` may be None)."""
        return self.model.rows(X)

    def outputs(
        self, features: Any, members: range | None = None, wanted: NDArray[np.bool_] | None = None
    ) -> NDArray[Any]:
        """Return the members' label codes, probabilities, scores or values for the prepared rows."""
        return outputs_by_member(self._member_outputs, members or range(self.n_members), features, wanted)

    def _member_outputs(self, member: int, features: Any) -> NDArray[Any]:
        outputs: NDArray[Any] = self.model.member_outputs(member, features)
        return outputs if self.output_kind == "labels" else outputs.astype(np.float64, copy=False)

    def bags(self, X: Any, features: Any, y: ArrayLike | None) -> Bags:
        """Return the bags that the user gave; raise BagError if there are none."""
        if self.model.in_bag is None:
            raise _no_bags()
        bags: Bags = self.model.in_bag.pack(features.shape[0])
        # The user states which rows they are; there is nothing to compare that with.
        return bags.with_proof(BagProof())

    def doubts(self) -> tuple[Finding, ...]:
        """Return a doubt where models of equal parameters follow each other, and others have other parameters."""
        return order_doubts(self.model.models) if isinstance(self.model, EstimatorEnsemble) else ()

    def verify_rows(self, features: Any, y: ArrayLike | None) -> RowOrigin:
        """Return whether rows are training rows, by splits and leaves of the models; unknown without models."""
        if not isinstance(self.model, EstimatorEnsemble):
            return "unknown"
        rows, shown_by = self._rows_and_recognition(features)
        target = None if y is None else np.asarray(y).reshape(-1)
        if target is not None and self.classes is not None:
            target = label_codes(target, self.classes)
        models = self.model.models
        is_shown, would_show = shown_by.compare_node_values(shown_by.trees_among(models, rows))
        cells = shown_by.tree_cells(models, rows, target, self.classes)
        return judge_origin(is_shown, cells, rows.shape[0], would_show)

    def column_splits(self, features: Any) -> tuple[Any, Iterable[tuple[int, NDArray[np.float64]]]]:
        """Return rows as a table, and the thresholds of the columns that models split, where they are trees."""
        if not isinstance(self.model, EstimatorEnsemble):
            return features, ()
        rows, shown_by = self._rows_and_recognition(features)
        found: tuple[Any, Iterable[tuple[int, NDArray[np.float64]]]] = shown_by.split_columns(self.model.models, rows)
        return found

    def _rows_and_recognition(self, features: Any) -> tuple[Any, Any]:
        """Return rows as models take them, and the module that recognises training rows."""
        # Arrays of outputs need no model library; models are inspected only for held-out rows.
        module = import_module("ens_plugin.adapters.sklearn.known_rows")
        return features.table if isinstance(features, TableRows) else features, module

    def draw_counts(self, X: Any, features: Any, y: ArrayLike | None) -> DrawCounts:
        """Return how often each model drew each row, counted in the index arrays that the user gave."""
        if not isinstance(self.model, EstimatorEnsemble):
            raise BagError(
                "This CustomEnsemble was made of arrays, without a record of how often members drew rows. Make it "
                "of fitted models and the rows of each: CustomEnsemble.from_estimators(models, row_indices)."
            )
        if self.model.in_bag is None:
            raise _no_bags()
        return self.model.in_bag.counts(features.shape[0])

    def truncated(self, size: int) -> Any:
        """Return a CustomEnsemble of the first `size` members; models themselves are not copied."""
        return self.model.first(size)


def _no_bags() -> BagError:
    return BagError(
        "This CustomEnsemble was made without bags (in_bag=None), so no row is known to be out of bag. Give "
        'the rows each member was trained on, or pass data="holdout" with rows no member was trained on.'
    )
