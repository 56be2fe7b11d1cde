"""The target of an analysis: y as label codes or values, and the weights that go with it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.adapters.members import find_labels, several_targets
from ens_plugin.core.validation import (
    LARGEST_VALUE,
    BoolArray,
    as_array,
    as_values,
    counted,
    one_line,
    shown,
    with_article,
    with_missing,
)
from ens_plugin.errors import InputError, UnsupportedModelError

__all__ = [
    "encode_target",
    "evaluation_weights",
    "refuse_own_loss",
    "refuse_own_weights",
    "target_array",
]

NAMED_ROWS = 5


def target_array(y: Any, name: str = "y") -> NDArray[Any]:
    """Return a target as an array of its labels or values, without missing ones."""
    array = as_array(y, name)
    if array.dtype.kind == "T":
        array = array.astype(object)
    is_missing = _are_missing(with_missing(array, y), name)
    if array.ndim and is_missing.any():
        raise InputError(_missing_text(is_missing, name))
    return array


def encode_target(adapter: EnsembleAdapter, y: ArrayLike) -> NDArray[Any]:
    """Return y as label codes (int64) or finite values (float64), shape (n_rows,)."""
    target = target_array(y)
    if adapter.info.n_outputs > 1:
        raise UnsupportedModelError(several_targets(type(adapter.model).__name__, adapter.info.n_outputs))
    if target.ndim == 2 and target.shape[1] == 1:
        target = target[:, 0]
    if target.ndim != 1:
        raise InputError(f"y must have one dimension, got shape {target.shape}: this ensemble has one output.")
    if target.size == 0:
        raise InputError("y is empty; pass the true labels or values of the rows.")
    own = adapter.encode_target(target)
    if own is not None:
        return np.asarray(own, dtype=np.float64 if adapter.classes is None else np.int64)
    if adapter.classes is None:
        return _real_values(target, adapter)
    return _label_codes(target, adapter.classes)


def evaluation_weights(
    adapter: EnsembleAdapter, target: NDArray[Any], sample_weight: ArrayLike | None
) -> ArrayLike | None:
    """Return the user's weights, times those that the adapter gives rows because of their target."""
    own = adapter.target_weights(target)
    if own is None or sample_weight is None:
        return sample_weight if own is None else own
    given = as_values(sample_weight, "sample_weight", target.shape[0])
    return np.asarray(given * own)


def refuse_own_weights(adapter: EnsembleAdapter, what: str) -> None:
    """Raise UnsupportedModelError if an adapter weights rows by their target, in a function that takes no weights."""
    if adapter.offers("target_weights"):
        raise UnsupportedModelError(
            f"{what} counts all rows alike, and rows of {with_article(type(adapter.model).__name__)} are weighted by "
            "their target, because some are censored. Pass the model and its target to ens_plugin.analyze, on one "
            "machine."
        )


def refuse_own_loss(adapter: EnsembleAdapter, what: str) -> None:
    """Raise UnsupportedModelError for an ensemble that is judged by its own loss, in a function with another loss."""
    if adapter.loss_name is not None:
        raise UnsupportedModelError(
            f"{what} is about labels or squared errors, and this {type(adapter.model).__name__} is judged by "
            f"{adapter.loss_name}. Pass the model and its target to ens_plugin.analyze, on one machine."
        )


def _are_missing(array: NDArray[Any], name: str) -> BoolArray:
    kind = array.dtype.kind
    if kind in "fc":
        return np.asarray(~np.isfinite(array))
    if kind in "mM":
        return np.asarray(np.isnat(array))
    if kind != "O":
        return np.zeros(array.shape, dtype=bool)
    try:
        return np.array([_is_missing(value) for value in array.flat], dtype=bool).reshape(array.shape)
    except Exception as error:  # a user's class may raise anything where it is compared
        raise InputError(
            f"{name} holds values that cannot be compared ({type(error).__name__}); use numbers."
        ) from error


def _is_missing(value: Any) -> bool:
    """Return whether a value is None, or not equal to itself: NaN, NaT, and pandas.NA, whose comparison is no bool."""
    itself = value == value
    return value is None or not (isinstance(itself, (bool, np.bool_)) and bool(itself))


def _missing_text(is_missing: BoolArray, name: str) -> str:
    n_missing, rows = int(np.count_nonzero(is_missing)), np.unique(np.nonzero(is_missing)[0])
    named = ", ".join(map(str, rows[:NAMED_ROWS].tolist())) + (", ..." if rows.size > NAMED_ROWS else "")
    return (
        f"{name} holds {counted(n_missing, 'missing value')} (None, NaN, pandas.NA or infinite), in "
        f"row{'s' * (rows.size > 1)} {named}; leave these rows out or fill them in."
    )


def _real_values(target: NDArray[Any], adapter: EnsembleAdapter) -> NDArray[np.float64]:
    try:
        if target.dtype.kind in "cmM":
            raise TypeError(f"dtype {target.dtype}")
        values = target.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"y must hold numbers for a regression ensemble ({one_line(str(error))}).{_remedy(adapter)}"
        ) from error
    largest = float(np.abs(values).max())
    if not largest <= LARGEST_VALUE:
        raise InputError(
            f"y holds values beyond {LARGEST_VALUE:g}, and powers of their errors overflow; divide y by a number and "
            "train the model on these values."
        )
    if 0 < largest < 1 / LARGEST_VALUE:
        raise InputError(
            f"No value of y is beyond {largest:g}, and powers of so small errors vanish; multiply y by a number and "
            "train the model on these values."
        )
    return values


def _label_codes(target: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    labels, codes, which = find_labels(target, classes, "y")
    unknown = [label for label, code in zip(labels, codes, strict=True) if code is None]
    if unknown:
        raise InputError(
            f"y holds labels that the ensemble does not have: {shown(unknown[:5])}; its labels are "
            f"{shown(classes.tolist()[:10])}. Pass the labels as the ensemble was trained on them"
            f"{_label_hint(unknown, classes)}."
        )
    if len(labels) < 2:
        raise InputError(
            # Estimator checks of scikit-learn look for the word "class".
            f"y holds a single label, {shown(labels[0])}: the error of one class does not describe the "
            "others. Pass rows of at least two classes."
        )
    return np.array(codes, dtype=np.int64)[which]


def _label_hint(unknown: list[Any], classes: NDArray[Any]) -> str:
    """Return how labels of another type become those of the ensemble; empty where the type is not the reason."""
    are_known_as_text = {str(label) for label in unknown} <= {str(label) for label in classes.tolist()}
    if are_known_as_text and all(isinstance(label, str) for label in classes.tolist()):
        return ": the ensemble's labels are texts and those of y are not, so convert y, with y.astype(str) for example"
    if classes.dtype.kind not in "biu" or not any(isinstance(label, str) for label in unknown):
        return ""
    if are_known_as_text:
        return (
            ": the labels of y are texts and the ensemble's are numbers, so convert y, with "
            f"y.astype({classes.dtype.name!r}) for example"
        )
    return ": the labels of y are texts and the ensemble's are numbers, as a booster's always are, so pass their codes"


def _remedy(adapter: EnsembleAdapter) -> str:
    """Return what to do where models that predict labels were taken for regressors."""
    if adapter.info.bag_provenance != "given":
        return ""
    return " If its members predict labels, pass all labels as classes, because their models have no classes_."
