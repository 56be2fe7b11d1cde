"""Labels as positions among a model's classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.core.validation import as_array, one_line
from ens_plugin.core.validation import shown as in_words
from ens_plugin.errors import DataMismatchError, InputError

__all__ = ["code_dtype", "label_codes", "label_positions", "shortened"]


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
    position = {label: code for code, label in enumerate(classes.tolist())}
    try:
        found, codes = np.unique(array, return_inverse=True)
        unknown = [label for label in found.tolist() if label not in position]
    except Exception as error:  # a user's class may raise anything where it is compared
        raise InputError(
            f"{name} mixes labels that cannot be compared ({one_line(str(error))}); use labels of one type."
        ) from error
    if unknown:
        raise DataMismatchError(
            f"{name} holds labels that are not among the model's: {shortened(unknown)}; the model's are "
            f"{shortened(list(position))}. Pass the labels the model was trained on."
        )
    return np.array([position[label] for label in found.tolist()], dtype=np.intp)[codes].reshape(array.shape)


def code_dtype(n_labels: int) -> type[np.uint8] | type[np.uint16]:
    """Smallest unsigned integer that can number `n_labels` labels."""
    return np.uint8 if n_labels <= 256 else np.uint16


def shortened(items: Sequence[Any], shown: int = 5) -> str:
    """Return the first items as text, and how many there are besides."""
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
