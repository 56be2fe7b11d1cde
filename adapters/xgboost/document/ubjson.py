"""Reading and writing of XGBoost's binary model document (UBJSON).

``Booster.save_raw("ubj")`` holds the published JSON schema of the model in a tenth of the bytes, and
numbers as arrays: a forest of a million nodes is read in a fraction of a second, not several.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["decode", "encode"]

_NUMBERS = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8"}
_DTYPES = {ord(code): np.dtype(name) for code, name in _NUMBERS.items()}
# Of single numbers, of which a document has thousands, struct reads each ten times as fast as NumPy.
_FORMS = {ord(code): struct.Struct(f">{form}") for code, form in zip(_NUMBERS, "bBhiqfd", strict=True)}
_CODES = {np.dtype(name).str[1:]: code for code, name in _NUMBERS.items()}
_CONSTANTS = {ord(code): value for code, value in ((b"T", True), (b"F", False), (b"Z", None), (b"N", None))}
# Bytes are compared as numbers, and the form of nearly all lengths is tried first: a document has thousands of each.
_OBJECT, _OBJECT_END, _ARRAY, _ARRAY_END, _TEXT, _OF_TYPE, _OF_LENGTH, _LONG = b"{}[]S$#L"
_read_long = struct.Struct(">q").unpack_from


def decode(document: bytes | bytearray) -> Any:
    """Return the document as dicts, lists, strings and numbers; arrays of one type as NumPy arrays.

    These are views of the document, in its order of bytes: of thousands of small arrays, most are not looked at.

    Raises
    ------
    ValueError
        If the document is not of the form XGBoost writes.

    Examples
    --------
    >>> decode(encode({"name": "gbtree", "trees": [{"id": 3}]}))
    {'name': 'gbtree', 'trees': [{'id': 3}]}
    """
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
