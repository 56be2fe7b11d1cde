"""Conversion of labels to positions among a model's classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.core.validation import as_array, one_line
from ens_plugin.core.validation import shown as in_words
from ens_plugin.errors import DataMismatchError, InputError

__all__ = ["code_dtype", "find_labels", "label_codes", "label_positions", "shortened", "text_label_codes"]


def label_codes(labels: ArrayLike, classes: NDArray[Any], name: str = "y") -> NDArray[np.intp]:
    """Return the position of every label in `classes`, in the shape of `labels`.

    Raises
    ------
    DataMismatchError
        If a label is not among `classes`.
    InputError
        If the labels cannot be compared with each other.

    Examples
    --------
    >>> label_codes(["b", "a", "b"], np.array(["a", "b"])).tolist()
    [1, 0, 1]
    """
    array = as_array(labels, name)
    found, positions, which = find_labels(array, classes, name)
    unknown = [label for label, position in zip(found, positions, strict=True) if position is None]
    if unknown:
        raise DataMismatchError(
            f"{name} holds labels that are not among the model's: {shortened(unknown)}; the model's are "
            f"{shortened(classes.tolist())}. Pass the labels the model was trained on."
        )
    return np.array(positions, dtype=np.intp)[which].reshape(array.shape)


def text_label_codes(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    """Return the positions of labels in the `classes` of a library that keeps every label as text.

    Raises
    ------
    DataMismatchError
        If a label is not among `classes`.
    InputError
        If there is a single label.

    Examples
    --------
    >>> text_label_codes(np.array([7, 3, 7]), np.array(["3", "7"])).tolist()
    [1, 0, 1]
    """
    codes = label_codes(y.astype(str), classes)
    if np.unique(codes).size < 2:
        raise InputError("y holds a single label; pass rows of at least two classes.")
    return codes.astype(np.int64)


def find_labels(
    array: NDArray[Any], classes: NDArray[Any], name: str
) -> tuple[list[Any], list[int | None], NDArray[np.intp]]:
    """Return the distinct labels of an array, the position of each in `classes`, and each entry's index among them.

    A label that is not among `classes` has the position None.

    Raises
    ------
    InputError
        If the labels cannot be compared with each other.

    Examples
    --------
    >>> find_labels(np.array(["b", "a", "b"]), np.array(["b", "c"]), "y")
    (['a', 'b'], [None, 0], array([1, 0, 1]))
    """
    position_of = {label: position for position, label in enumerate(classes.tolist())}
    try:
        found = np.unique(array)
        labels = found.tolist()
        # Unlike the inverse of np.unique, this takes no memory beyond its answer.
        return labels, [position_of.get(label) for label in labels], np.searchsorted(found, array)
    except Exception as error:  # a user's class may raise anything where it is compared
        raise InputError(
            f"{name} mixes labels that cannot be compared ({one_line(str(error))}); use labels of one type."
        ) from error


def code_dtype(n_labels: int) -> type[np.uint8] | type[np.uint16]:
    """Return the smallest unsigned integer type that can number `n_labels` labels."""
    return np.uint8 if n_labels <= 256 else np.uint16


def shortened(items: Sequence[Any], shown: int = 5) -> str:
    """Return the first `shown` items as text, with the number of the others."""
    text = ", ".join(in_words(item) for item in items[:shown])
    return text + (f" and {len(items) - shown} more" if len(items) > shown else "")


def label_positions(scores: ArrayLike) -> NDArray[Any]:
    """Return the position of the label with the highest raw score of each row.

    Parameters
    ----------
    scores : array-like, shape (n_rows, n_labels) or (n_rows,)
        Of two labels there may be one score, that of the second label, which is predicted where the score is above 0.

    Returns
    -------
    ndarray, shape (n_rows,)

    Examples
    --------
    >>> label_positions([[0.1, 0.5, 0.3]]).tolist(), label_positions([-0.5, 0.5]).tolist()
    ([1], [False, True])
    """
    found = np.asarray(scores)
    return np.asarray(found.argmax(axis=1) if found.ndim == 2 else found > 0)
