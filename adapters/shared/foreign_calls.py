"""Calls of other libraries and of users' models, whose exceptions become errors of ens_plugin.errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.validation import LARGEST_VALUE, one_line, with_article
from ens_plugin.errors import EnsPluginError, EnsPluginWarning, InputError, UnsupportedModelError

__all__ = ["call_model", "checked_labels", "checked_numbers", "model_errors", "reason_of", "refusals"]


def call_model(predict: Callable[[Any], Any], rows: Any, member: int) -> Any:
    """Return the predictions of one member for some rows.

    Raises
    ------
    InputError
        If the member raises an exception of any class.
    """
    try:
        return predict(rows)
    except EnsPluginError:
        raise
    except Exception as error:  # a user's model may raise anything
        raise InputError(
            f"model {member} failed on rows of X ({reason_of(error)}); pass fitted models, and X in the form they take."
        ) from error


def checked_numbers(outputs: Any, shape: tuple[int, ...], member: int) -> NDArray[np.float64]:
    """Return the outputs of one member as float64, after checking their shape and that they are finite.

    Raises
    ------
    InputError
        If the outputs are no numbers, not finite, or of another shape.

    Examples
    --------
    >>> checked_numbers([0.5, 1.0], (2,), 0).tolist()
    [0.5, 1.0]
    """
    try:
        array = np.asarray(outputs, dtype=np.float64)
    except Exception as error:  # a user's model may return anything
        raise InputError(
            f"Model {member} returned {with_article(type(outputs).__name__)} that holds no numbers "
            f"({reason_of(error)}); it must return one output for each row."
        ) from error
    _check_shape(array, shape, member)
    if not (np.abs(array) <= LARGEST_VALUE).all():
        raise InputError(
            f"Model {member} returned NaN, infinite values, or values beyond {LARGEST_VALUE:g}; remove it from the "
            "ensemble."
        )
    return array


def checked_labels(outputs: Any, n_rows: int, member: int) -> NDArray[Any]:
    """Return the labels that one member predicts, as an array of shape (n_rows,).

    Raises
    ------
    InputError
        If there is not one label for each row.
    """
    try:
        array = np.asarray(outputs)
    except Exception as error:  # a user's model may return anything
        raise InputError(
            f"Model {member} returned {with_article(type(outputs).__name__)} that is no array ({reason_of(error)}); it "
            "must return one label for each row."
        ) from error
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    _check_shape(array, (n_rows,), member)
    return array


@contextmanager
def model_errors(model: object) -> Iterator[None]:
    """Raise UnsupportedModelError in place of any exception of another library that the block raises."""
    try:
        yield
    except (EnsPluginError, EnsPluginWarning):  # a warning of ours that a filter turns into an error
        raise
    except Exception as error:  # a model, or a user's object inside it, may raise anything
        raise UnsupportedModelError(
            f"This {type(model).__name__} could not be used on these rows ({reason_of(error)}). If its own predict(X) "
            "fails too, the model is damaged or X has another form than it takes. If not, please report this as a "
            "defect of ens_plugin."
        ) from error


@contextmanager
def refusals() -> Iterator[None]:
    """Raise InputError, with the same message, in place of a ValueError of a library that the block raises."""
    try:
        yield
    except EnsPluginError:
        raise
    except ValueError as error:
        raise InputError(str(error)) from error


def reason_of(error: BaseException) -> str:
    """Return the class of an exception and the first line of its message, as text."""
    try:
        text = str(error)
    except Exception:  # a user's exception may raise where it is printed
        text = ""
    return f"{type(error).__name__}: {one_line(text.strip().partition(chr(10))[0])}"


def _check_shape(array: NDArray[Any], shape: tuple[int, ...], member: int) -> None:
    if array.shape != shape:
        raise InputError(
            f"Model {member} returned shape {array.shape} where {shape} is expected; it must have one output."
        )
