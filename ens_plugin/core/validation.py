"""Checks of arguments, and their conversion to arrays; columns of tables."""

from __future__ import annotations

import math
import re
import unicodedata
from numbers import Integral, Real
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ens_plugin.errors import InputError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
AnyIntArray = NDArray[np.integer]
BoolArray = NDArray[np.bool_]

MAX_SIZE = 1_000_000_000
MOST_MEMBERS = 1_000_000  # that anyone can train, and votes that an array can list
CODES_PER_ROW = 16  # that are counted rather than sorted
PART_ROWS = 2**16  # of which arrays take little memory
CELLS_AT_ONCE = 4_000_000  # of an array that is computed in parts
LARGEST = 1e100  # of weights: their squares, summed over rows, stay finite
LARGEST_VALUE = 1e30  # of targets and outputs: intervals need the sixth powers of errors, and their products
# Whole numbers up to here are floating-point numbers.
EXACT = 2**53
# Standard errors from which a difference is not one of chance.
STANDARD_ERRORS = 5.0
# Relative difference of figures that are equal but for the order of their sums.
ROUNDING = 1e-9
# The same where a library holds numbers in single precision.
SINGLE_ROUNDING = 1e-6
# What is smaller, relative to what it is a part of, is lost in rounding, and counts as nothing.
NEGLIGIBLE = 1e-12
_WHOLE = re.compile(r"(-?\d+)\.0")
_SWITCHES = {"False": "0", "True": "1"}


def shown(value: object, limit: int = 80) -> str:
    """Return the text of a value for a message: on one line, without control characters, not longer than `limit`."""
    try:
        text = repr(value)
    except Exception:  # a user's class may raise anything
        text = f"object of type {type(value).__name__}"
    return one_line(text, limit)


def one_line(text: str, limit: int = 300) -> str:
    """Return a text of unknown origin on one line, without control characters, not longer than `limit`."""
    return printable(text[: 10 * limit], limit)


def printable(text: str, limit: int | None = None) -> str:
    """Return a text on one line, without control characters, shortened only if a `limit` is given."""
    # Cf has the direction overrides, which display a text as another one, Cn what no document may contain.
    visible = "".join(
        "\ufffd" if unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Cn") else sign for sign in " ".join(text.split())
    )
    return visible if limit is None or len(visible) <= limit else visible[: limit - 1] + "…"


def rounded_up(number: float) -> int:
    """Return a number of at least 1, rounded upwards to two digits."""
    unit = 10.0 ** max(math.floor(math.log10(number)) - 1, 0)
    return round(math.ceil(number / unit) * unit)


def counted(count: object, one: str, many: str | None = None, of: str = "") -> str:
    """Return a count and what is counted: followed by `one` if the count is 1, and else by `many`."""
    # `many` is `one` and an s if not given; `of` are all of those of which some are counted: "1 of 3 rows has".
    text = str(count)
    among = f" of {of}" if of else ""
    return f"{text}{among} {one if text == '1' else many or plural(one)}"


def plural(noun: str) -> str:
    """Return the plural of a noun; of several words around an "of", such as "group of 4 trees", that of the first."""
    first, of, others = noun.partition(" of ")
    return f"{first}s{of}{others}"


def label_text(label: object) -> str:
    """Return a label as text, the same text for labels that are equal, as 1, 1.0 and True are."""
    text = str(label)
    whole = _WHOLE.fullmatch(text)
    return whole[1] if whole else _SWITCHES.get(text, text)


def as_array(values: Any, name: str) -> NDArray[Any]:
    """Return values as an array of any type, or raise InputError naming `name`."""
    refuse_lazy(values, name)
    try:
        return np.asarray(values)
    except Exception as error:  # a user's class may raise anything when NumPy converts it
        raise InputError(
            f"{name} is not an array ({type(error).__name__}: {one_line(str(error))}); give every row the same "
            "number of values."
        ) from error


def refuse_lazy(values: Any, name: str) -> None:
    """Raise InputError naming `name` for a data frame whose rows have not been computed or are on a cluster."""
    # Of the class, because a lazy frame would look up its columns.
    kind, is_frame = type(values).__name__, hasattr(type(values), "columns")
    if "LazyFrame" in kind and hasattr(values, "collect"):
        raise InputError(f"{name} is of type {kind}, whose rows have not been computed; pass {name}.collect().")
    if is_frame and hasattr(values, "__dask_graph__"):
        raise InputError(f"{name} is of Dask's type {kind}, whose rows have not been computed; pass {name}.compute().")
    if is_frame and hasattr(values, "toPandas"):
        raise InputError(
            f"{name} is of Spark's type {kind}, whose rows are on a cluster and have no order; pass the "
            f"DataFrame to ens_plugin.spark.analyze, or {name}.toPandas() if it has the rows that the model was given."
        )


def with_missing(array: NDArray[Any], values: Any) -> NDArray[Any]:
    """Return the array of some values; one of objects if NumPy turned a missing value among texts into a text."""
    # Containers with a type of their own hold texts only, or are converted to objects.
    return np.asarray(values, dtype=object) if array.dtype.kind in "US" and not hasattr(values, "dtype") else array


def as_values(values: ArrayLike, name: str, length: int | None = None) -> FloatArray:
    """Return values as a finite one-dimensional float64 array, or raise InputError naming `name`."""
    array = as_numbers(values, name)
    if array.ndim != 1:
        raise InputError(f"{name} must have one dimension, got shape {array.shape}; pass a one-dimensional array.")
    if length is not None and array.size != length:
        raise InputError(f"{name} must have length {length}, got {array.size}.")
    if array.size == 0:
        raise InputError(f"{name} is empty; at least one value is needed.")
    check_finite(array, name)
    return array


def check_finite(array: FloatArray, name: str) -> None:
    """Raise InputError naming `name` if an array contains NaN or infinity."""
    if not np.isfinite(array).all():
        raise InputError(f"{name} holds NaN or infinite values; remove or replace them.")


def as_numbers(values: Any, name: str) -> FloatArray:
    """Return values as a float64 array of any shape, or raise InputError naming `name`."""
    refuse_lazy(values, name)
    try:
        array = np.asarray(values)
        if array.dtype.kind in "cmM":
            raise TypeError(f"dtype {array.dtype}")
        return array.astype(np.float64, copy=False)
    except Exception as error:  # a user's class may raise anything when NumPy converts it
        raise InputError(f"{name} must hold numbers ({one_line(str(error))}).") from error


def as_probability(values: ArrayLike, name: str) -> FloatArray:
    """Return values as a one-dimensional array of probabilities, or raise InputError naming `name`."""
    array = as_values(values, name)
    check_shares(array, name)
    return array


def check_shares(array: FloatArray, name: str) -> None:
    """Raise InputError naming `name` if a value lies outside [0, 1]."""
    if array.min() < 0 or array.max() > 1:
        raise InputError(f"{name} must lie in [0, 1], got values from {array.min():g} to {array.max():g}.")


def as_weight(weight: ArrayLike | None, length: int, name: str = "weight") -> FloatArray:
    """Return row weights (ones for None) as floats, or raise InputError if one is negative or all are 0."""
    # The ones take no memory and cannot be written to.
    if weight is None:
        return np.broadcast_to(np.float64(1.0), length)
    array = as_values(weight, name, length)
    if array.min() < 0 or array.max() <= 0:
        raise InputError(f"{name} must be non-negative with a positive sum, got {array.min():g} to {array.max():g}.")
    if not 1 / LARGEST <= array.max() <= LARGEST:
        raise InputError(
            f"{name} has values up to {array.max():g}, whose sums of squares overflow or vanish; divide all weights "
            "by the same number, the largest for example."
        )
    return array


def as_sizes(sizes: ArrayLike) -> FloatArray:
    """Return ensemble sizes as floats, or raise InputError if one is neither a whole number from 1 on nor infinity."""
    array = np.atleast_1d(as_numbers(sizes, "sizes"))
    if array.ndim != 1 or array.size == 0:
        raise InputError(f"sizes must be a non-empty list of ensemble sizes, got shape {array.shape}.")
    if ((array >= 1) & (array == np.floor(array)) & ((array <= MAX_SIZE) | np.isinf(array))).all():
        return array
    finite = array[np.isfinite(array)]
    if np.any(finite > MAX_SIZE):
        raise InputError(f"sizes must be at most {MAX_SIZE}, or infinity; got {finite.max():g}.")
    raise InputError(f"sizes must hold whole numbers of at least 1 (or infinity), got {array.tolist()[:5]}.")


def row_parts(n_rows: int) -> list[slice]:
    """Return slices of rows, so few at a time that arrays computed from them take little memory."""
    return [slice(start, start + PART_ROWS) for start in range(0, n_rows, PART_ROWS)]


def are_whole(values: FloatArray) -> bool:
    """Return whether all values are whole numbers."""
    return all(bool(np.all(values[part] == np.floor(values[part]))) for part in row_parts(values.size))


def pair_index(first: FloatArray, second: FloatArray) -> NDArray[np.integer[Any]]:
    """Return the index of each row's pair among the distinct pairs, in ascending order of (first, second)."""
    if not (are_whole(first) and are_whole(second)):
        return np.asarray(np.unique(first + 1j * second, return_inverse=True)[1])
    code, factor = np.empty(first.size, dtype=np.int64), second.max() + 1
    for part in row_parts(first.size):
        code[part] = first[part] * factor + second[part]
    return code_index(code)


def code_index(code: NDArray[np.int64]) -> NDArray[np.integer[Any]]:
    """Return the index of each code among the distinct codes, in ascending order."""
    lowest = code.min()
    if code.max() - lowest > CODES_PER_ROW * code.size:
        return np.asarray(np.unique(code, return_inverse=True)[1])
    # A tenth of the time of a sort.
    is_code = np.zeros(code.max() - lowest + 1, dtype=bool)
    for part in row_parts(code.size):
        is_code[code[part] - lowest] = True
    place_of = np.cumsum(is_code, dtype=np.int32) - np.int32(1)
    index = np.empty(code.size, dtype=np.int32)
    for part in row_parts(code.size):
        index[part] = place_of[code[part] - lowest]
    return index


def as_chance(value: float, name: str) -> float:
    """Return a number strictly between 0 and 1 as a float, or raise InputError naming `name`."""
    if not isinstance(value, Real) or not 0.0 < value < 1.0:
        raise InputError(f"{name} must lie strictly between 0 and 1, got {value!r}.")
    return float(value)


def as_count(value: float, name: str, smallest: int = 1, largest: int = MAX_SIZE) -> int:
    """Return a whole number from `smallest` to `largest` as an int, or raise InputError naming `name`."""
    is_whole = isinstance(value, Integral) or (isinstance(value, Real) and math.isfinite(value) and value % 1 == 0)
    if not is_whole or value < smallest:
        raise InputError(f"{name} must be a whole number of at least {smallest}, got {shown(value, 40)}.")
    if value > largest:
        raise InputError(f"{name} must be a whole number of at most {largest}, got {shown(value, 40)}.")
    return int(value)


def as_python(value: Any) -> Any:
    """Return a number of NumPy as Python's own, anything else as it is."""
    if isinstance(value, np.floating):
        # The item of a long double is one again.
        return float(value)
    return value.item() if isinstance(value, np.generic) else value


# More different values are not worth counting.
MOST_VALUES = 2**20


class Column:
    """A field of a dataclass of arrays that is kept in the type it is given in, and read as float64.

    Counts of members take one or two bytes this way (:func:`in_few_bytes`).  Nothing computes with them in that
    type, in which sums and products overflow and differences wrap around: whoever reads the field gets float64, a
    converted array that takes eight bytes a row while it is held.  What is kept is in ``vars`` of the object.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, kept_in: None, owner: type) -> Column: ...

    @overload
    def __get__(self, kept_in: object, owner: type) -> FloatArray: ...

    def __get__(self, kept_in: object | None, owner: type) -> Column | FloatArray:
        """Return the column of an object as float64."""
        if kept_in is None:
            # The dataclass asks its class for a default value; there is none.
            raise AttributeError(self._name)
        values: NDArray[Any] = vars(kept_in)[self._name]
        return values.astype(np.float64, copy=False)

    def __set__(self, kept_in: object, values: NDArray[Any]) -> None:
        """Keep a column in the type it has; raise AttributeError if there is one already."""
        if self._name in vars(kept_in):
            raise AttributeError(f"The column {self._name!r} is set already.")
        vars(kept_in)[self._name] = values


def in_few_bytes(numbers: NDArray[Any], largest: int) -> NDArray[np.unsignedinteger[Any]]:
    """Return whole numbers in the smallest unsigned integers that hold those from 0 to `largest`."""
    # The type depends on `largest` alone, so that the numbers of any rows of one ensemble have one type.
    return numbers.astype(np.min_scalar_type(largest), copy=False)


def add_by_code(total: FloatArray, code: NDArray[np.integer[Any]], values: NDArray[Any]) -> None:
    """Add the values of some rows to the total of each code, in place, one row after the other."""
    # Totals over parts of the rows, in their order, are therefore those over all rows, to the bit.
    codes = np.concatenate([np.arange(total.size), code])
    total[:] = np.bincount(codes, np.concatenate([total, values]), total.size)


def sums_by_code(code: NDArray[np.integer[Any]], values: NDArray[Any], n_codes: int) -> FloatArray:
    """Return the sum of the values of each code, as ``np.bincount`` does, which copies both arrays."""
    total = np.zeros(n_codes)
    for part in row_parts(code.size):
        add_by_code(total, code[part], values[part])
    return total


def whole_counts(values: FloatArray) -> tuple[FloatArray, FloatArray] | None:
    """Return the different values, ascending, and how many rows have each; None unless they are small whole numbers."""
    if values.size == 0 or values.min() < 0 or values.max() >= MOST_VALUES or not are_whole(values):
        return None
    n_rows: IntArray = np.zeros(int(values.max()) + 1, dtype=np.int64)
    for part in row_parts(values.size):
        n_rows += np.bincount(values[part].astype(np.int64), minlength=n_rows.size)
    found = np.flatnonzero(n_rows)
    return found.astype(np.float64), n_rows[found].astype(np.float64)


def previous_odd_size(sizes: ArrayLike, ties_to: float) -> FloatArray:
    """Return sizes with each even one up to `ties_to` replaced by the odd size below, which has the same error."""
    # `ties_to` is the largest even size at which votes tie: see ErrorCurve.
    return np.asarray(np.asarray(sizes, dtype=np.float64) - is_tied(sizes, ties_to))


def is_tied(sizes: ArrayLike, ties_to: float) -> NDArray[np.bool_]:
    """Return which sizes are even and at most `ties_to`, shape as `sizes`."""
    wanted = np.asarray(sizes, dtype=np.float64)
    # The remainder of infinity is NaN, which is unequal to 0.
    with np.errstate(invalid="ignore"):
        return np.asarray((wanted % 2 == 0) & (wanted <= ties_to))
