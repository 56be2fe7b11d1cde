"""The document of an XGBoost model, JSON or UBJSON: how it is read and written, and its damage.

``Booster.save_raw("ubj")`` holds the published JSON schema of the model in a tenth of the bytes, and
numbers as arrays: a forest of a million nodes is read in a fraction of a second, not several.
"""

from __future__ import annotations

import json
import struct
from functools import cache
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.members import shortened
from ens_plugin.adapters.tree_table import MOST_STATED, damage_of_tree
from ens_plugin.core.validation import counted
from ens_plugin.errors import DataMismatchError

UBJSON_START = b"{L"
DELETED = np.iinfo(np.int32).max  # as the root's parent and as the feature of a node that was pruned away
# The types that XGBoost writes and reads, by the name of the array.
INTEGERS = {"left_children": "i4", "right_children": "i4", "parents": "i4", "split_indices": "i4"}
OTHERS = {"default_left": "u1", "split_conditions": "f4", "base_weights": "f4"}
OPTIONAL = {"split_type": "u1", "loss_changes": "f4", "sum_hessian": "f4"}
CATEGORIES = {"categories": "i4", "categories_nodes": "i4", "categories_segments": "i8", "categories_sizes": "i8"}
_NUMBERS = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8"}
_DTYPES = {ord(code): np.dtype(name) for code, name in _NUMBERS.items()}
# Of single numbers, of which a document has thousands, struct reads each ten times as fast as NumPy.
_FORMS = {ord(code): struct.Struct(f">{form}") for code, form in zip(_NUMBERS, "bBhiqfd", strict=True)}
_CODES = {np.dtype(name).str[1:]: code for code, name in _NUMBERS.items()}
_CONSTANTS = {ord(code): value for code, value in ((b"T", True), (b"F", False), (b"Z", None), (b"N", None))}
# Bytes are compared as numbers, and the form of nearly all lengths is tried first: a document has thousands of each.
_OBJECT, _OBJECT_END, _ARRAY, _ARRAY_END, _TEXT, _OF_TYPE, _OF_LENGTH, _LONG = b"{}[]S$#L"
_read_long = struct.Struct(">q").unpack_from


def stored_categories(stored: Any, column: Any) -> list[Any]:
    """Return categories for a column of a pandas table, which XGBoost finds again among those of its training."""
    # XGBoost 3.1 and 3.2 cut the names of pandas' categories by their numbers of characters where bytes are meant
    # (mended by its pull request 12371). A letter that is no ASCII then shifts all names after it, and the end of the
    # last one is lost. Names that were cut so are recognised as the values of `column`, in sorted order as pandas has
    # them. Names from an Arrow table were stored whole; of these the ASCII ones are returned where no other is in
    # `column`, because a table of pandas would be cut again.
    import pyarrow as pa

    if not pa.types.is_string(stored.type):
        return list(stored.to_pylist())
    pieces: list[bytes] = stored.cast(pa.binary()).to_pylist()
    if all(piece.isascii() for piece in pieces):
        return [piece.decode() for piece in pieces]
    values = sorted({str(value) for value in column.dropna().unique()})
    if _cut_by_characters(values) == pieces:
        return list(values)
    names = [piece.decode(errors="replace") for piece in pieces]
    if not _are_whole(pieces, values):
        raise DataMismatchError(
            f"The categories of the column {str(column.name)!r} cannot be read from the booster. XGBoost 3.1 and 3.2 "
            f"cut names with letters that are no ASCII, here to {shortened(names)}, and the values of this column, "
            f"{shortened(values)}, are not all that it was trained on, or it had them in another order. Pass the "
            "column as the categories of training: in a parquet file of pandas, which stores them, or in Python as "
            "X[column].astype(X_train[column].dtype)."
        )
    if all(map(str.isascii, values)):
        return [name for name in names if name.isascii()]
    if library_cuts_names():
        raise DataMismatchError(
            f"The column {str(column.name)!r} holds names with letters that are no ASCII, {shortened(values)}. XGBoost "
            "3.1 and 3.2 cut them in a table of pandas, and would not find them among those that the booster was "
            "trained on. Install another release of XGBoost, or pass an ensemble that was trained on such a table."
        )
    return list(names)


def _cut_by_characters(names: list[str]) -> list[bytes]:
    text = "".join(names).encode()
    return [text[start:stop] for start, stop in pairwise(accumulate(map(len, names), initial=0))]


def _are_whole(pieces: list[bytes], values: list[str]) -> bool:
    """Return whether pieces are whole names, or the same of all `values` if they are cut ones."""
    try:
        names = [piece.decode() for piece in pieces]
    except UnicodeDecodeError:
        return False
    # What was cut has as many characters as the pieces have bytes, of which those at the end were lost.
    text = "".join(names)
    ends = [*accumulate(map(len, pieces))]
    before = [(text[end - len(piece) : end], len(piece)) for piece, end in zip(pieces, ends, strict=True)]
    return len({*names}) == len(names) and all(
        names[place] == value
        for value in values
        for place, (begin, length) in enumerate(before)
        if len(value) == length and value.startswith(begin)
    )


@cache
def library_cuts_names() -> bool:
    """Return whether the installed XGBoost cuts the names of pandas' categories by their numbers of characters."""
    import pandas as pd
    import pyarrow as pa
    import xgboost

    name = "\u00e9"
    table = pd.DataFrame({"x": pd.Categorical([name])})
    found = xgboost.DMatrix(table, enable_categorical=True).get_categories(export_to_arrow=True).to_arrow()
    stored = [own.cast(pa.binary()).to_pylist() for _, own in found or () if own is not None]
    return stored != [[name.encode()]]


def decode(document: bytes | bytearray) -> Any:
    """Return the document as dicts, lists, strings and numbers; arrays of one type as NumPy arrays."""
    # These are views of the document, in its order of bytes: of thousands of small arrays, most are not looked at.
    try:
        value, _ = _value(bytes(document), 0)
    except (IndexError, struct.error) as error:
        raise ValueError(f"the model document ends within a value, at byte {len(document)}") from error
    return value


def encode(value: Any) -> bytearray:
    """Return a value as a UBJSON document for :func:`decode`: int as 64 bits, float as float32."""
    parts: list[bytes] = []
    _append(parts, value)
    return bytearray(b"".join(parts))


def _value(data: bytes, at: int) -> tuple[Any, int]:
    marker = data[at]
    if marker == _TEXT:
        return _text(data, at + 1)
    if marker == _ARRAY:
        return _array(data, at + 1)
    if marker == _OBJECT:
        return _object(data, at + 1)
    if marker in _CONSTANTS:
        return _CONSTANTS[marker], at + 1
    return _number(data, at)


def _number(data: bytes, at: int) -> tuple[Any, int]:
    marker = data[at]
    if marker not in _FORMS:
        raise ValueError(f"unknown marker {bytes([marker])!r} at byte {at} of the model document")
    form = _FORMS[marker]
    return form.unpack_from(data, at + 1)[0], at + 1 + form.size


def _length(data: bytes, at: int) -> tuple[int, int]:
    """Return a length and the position behind it."""
    if data[at] == _LONG:
        length, stop = _read_long(data, at + 1)[0], at + 9
    else:
        length, stop = _number(data, at)
    if not 0 <= length <= len(data):
        raise ValueError(f"the length {length} at byte {at} of the model document is below 0 or beyond its end")
    return length, stop


def _text(data: bytes, at: int) -> tuple[str, int]:
    length, start = _length(data, at)
    stop = start + length
    if stop > len(data):
        raise ValueError(f"the model document ends within the text at byte {at}")
    return data[start:stop].decode(), stop


def _object(data: bytes, at: int) -> tuple[dict[str, Any], int]:
    found: dict[str, Any] = {}
    while data[at] != _OBJECT_END:
        key, at = _text(data, at)
        found[key], at = _value(data, at)
    return found, at + 1


def _array(data: bytes, at: int) -> tuple[Any, int]:
    if data[at] == _OF_TYPE:
        return _typed_array(data, at + 1)
    items: list[Any] = []
    if data[at] == _OF_LENGTH:
        length, at = _length(data, at + 1)
        for _ in range(length):
            item, at = _value(data, at)
            items.append(item)
        return items, at
    while data[at] != _ARRAY_END:
        item, at = _value(data, at)
        items.append(item)
    return items, at + 1


def _typed_array(data: bytes, at: int) -> tuple[NDArray[Any], int]:
    dtype = _DTYPES.get(data[at])
    if dtype is None:
        raise ValueError(f"unknown type {bytes([data[at]])!r} at byte {at} of the model document")
    length, start = _length(data, at + 2)
    return np.frombuffer(data, dtype, length, start), start + length * dtype.itemsize


def _append(parts: list[bytes], value: Any) -> None:
    if isinstance(value, dict):
        parts.append(b"{")
        for key, item in value.items():
            parts.append(_length_and_text(key))
            _append(parts, item)
        parts.append(b"}")
    elif isinstance(value, np.ndarray):
        code = _CODES[value.dtype.str[1:]]
        parts += [b"[$", code, b"#L", struct.pack(">q", value.size), value.astype(_NUMBERS[code]).tobytes()]
    elif isinstance(value, list):
        parts.append(b"[")
        for item in value:
            _append(parts, item)
        parts.append(b"]")
    elif isinstance(value, str):
        parts += [b"S", _length_and_text(value)]
    elif value is None or isinstance(value, bool):
        parts.append({True: b"T", False: b"F", None: b"Z"}[value])
    elif isinstance(value, int):
        parts += [b"L", struct.pack(">q", value)]
    else:
        parts += [b"d", struct.pack(">f", value)]


def _length_and_text(text: str) -> bytes:
    encoded = text.encode()
    return b"L" + struct.pack(">q", len(encoded)) + encoded


class _DamageError(ValueError):
    pass


def find_damage(document: bytes) -> str | None:
    """Return the damage that makes the document of a model unsafe for XGBoost to read."""
    is_binary = document.startswith(UBJSON_START)
    try:
        model = decode(document) if is_binary else json.loads(document)
        _check_learner(model["learner"], is_binary)
    except KeyError as error:
        return f"{error.args[0]!r} is missing"
    except (_DamageError, ValueError, OverflowError, RecursionError) as error:
        return str(error) or type(error).__name__
    except (TypeError, AttributeError, IndexError):
        return "its parts are not of the kind expected"
    return None


def _check_learner(learner: dict[str, Any], is_binary: bool) -> None:
    parameters = learner["learner_model_param"]
    n_features, n_labels = int(parameters["num_feature"]), int(parameters["num_class"])
    n_targets = int(parameters.get("num_target", "1"))
    if not (0 <= n_features < DELETED and 0 <= n_labels <= MOST_STATED and 0 <= n_targets <= MOST_STATED):
        raise _DamageError(
            f"it has {counted(n_features, 'feature')}, {counted(n_labels, 'label')} and {counted(n_targets, 'target')}"
        )
    booster = learner["gradient_booster"]
    if booster["name"] == "gblinear":
        return
    is_dart = booster["name"] == "dart"
    model = booster["gbtree"]["model"] if is_dart else booster["model"]
    trees, n_groups = model["trees"], max(n_labels, n_targets, 1)
    if is_dart and np.asarray(booster["weight_drop"], dtype=np.float64).shape != (len(trees),):
        raise _DamageError("it does not have one weight for each tree")
    if int(model["gbtree_model_param"]["num_trees"]) != len(trees):
        raise _DamageError(f"it has {counted(len(trees), 'tree')}, not the number it states")
    group = _numbers(model, "tree_info", "i4", len(trees), is_binary)
    if group.size and (group.min() < 0 or group.max() >= n_groups):
        raise _DamageError("it has trees of a label that it does not have")
    if "iteration_indptr" in model:
        starts = _numbers(model, "iteration_indptr", "i4", None, is_binary)
        if starts.size == 0 or starts[0] != 0 or starts[-1] != len(trees) or (np.diff(starts) < 0).any():
            raise _DamageError("its rounds do not contain each of its trees once")
    for index, tree in enumerate(trees):
        try:
            _check_tree(tree, n_features, is_binary)
        except _DamageError as error:
            raise _DamageError(f"tree {index} {error}") from None


def _check_tree(tree: dict[str, Any], n_features: int, is_binary: bool) -> None:
    parameters = tree["tree_param"]
    n_nodes, n_values = int(parameters["num_nodes"]), int(parameters.get("size_leaf_vector", "1"))
    if n_nodes < 1 or not 0 <= n_values <= MOST_STATED:
        raise _DamageError(
            f"states that it has {counted(n_nodes, 'node')} and {counted(n_values, 'value')} in a leaf, which is "
            "impossible"
        )
    of_tree = int(parameters["num_feature"])
    if not 0 <= of_tree <= n_features:
        raise _DamageError(f"has {counted(of_tree, 'feature')}, and the model {n_features}")
    left, right, parents, features = (_numbers(tree, name, kind, n_nodes, is_binary) for name, kind in INTEGERS.items())
    for name, kind in OTHERS.items():
        size = n_nodes * max(n_values, 1) if name == "base_weights" else n_nodes
        _numbers(tree, name, kind, size, is_binary)
    for name, kind in OPTIONAL.items():
        if name in tree:
            _numbers(tree, name, kind, n_nodes, is_binary)
    damage = damage_of_tree(left, right, features, n_features)
    if damage is not None:
        raise _DamageError(damage)
    _check_parents(left, right, parents)
    if "leaf_weights" in tree:
        _numbers(tree, "leaf_weights", "f4", int((left < 0).sum()) * n_values, is_binary)
    if "categories" in tree:
        _check_categories(tree, n_nodes, is_binary)


def _check_parents(left: NDArray[Any], right: NDArray[Any], parents: NDArray[Any]) -> None:
    for children in (left, right):
        inner = np.flatnonzero(children >= 0)
        if (parents[children[inner]] != inner).any():
            raise _DamageError("has a node that states another parent than the one that leads to it")
    if ((parents < -1) | ((parents >= parents.size) & (parents != DELETED))).any():
        raise _DamageError("has a parent that it does not have")


def _check_categories(tree: dict[str, Any], n_nodes: int, is_binary: bool) -> None:
    values, nodes, starts, sizes = (_numbers(tree, name, kind, None, is_binary) for name, kind in CATEGORIES.items())
    if not nodes.size == starts.size == sizes.size:
        raise _DamageError("does not have one set of categories for each node that splits by category")
    if nodes.size == 0:
        return
    if nodes.min() < 0 or nodes.max() >= n_nodes or (np.diff(nodes) <= 0).any():
        raise _DamageError("has categories of nodes that it does not have")
    if starts.min() < 0 or sizes.min() < 0 or (starts + sizes).max() > values.size:
        raise _DamageError("has sets of categories out of range")
    if values.size and (values.min() < 0 or values.max() >= 2**24):
        raise _DamageError("has categories out of range")


def _numbers(part: dict[str, Any], name: str, kind: str, size: int | None, is_binary: bool) -> NDArray[Any]:
    """Return an array of the document after checking its type (in JSON only its kind), and its size if given."""
    values = np.asarray(part[name])
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    wanted = np.dtype(kind)
    has_kind = values.dtype == wanted if is_binary and isinstance(part[name], np.ndarray) else _fits(values, wanted)
    if values.ndim != 1 or (values.size and not has_kind):
        raise _DamageError(f"has values in {name} that are not of the kind expected")
    if size is not None and values.size != size:
        raise _DamageError(f"has {counted(values.size, 'value')} in {name} instead of {size}")
    return values


def _fits(values: NDArray[Any], wanted: np.dtype[Any]) -> bool:
    if wanted.kind == "f":
        return values.dtype.kind in "iuf"
    if values.dtype.kind == "b":
        return wanted == np.dtype("u1")
    limits = np.iinfo(wanted)
    return values.dtype.kind in "iu" and bool(values.min() >= limits.min and values.max() <= limits.max)
