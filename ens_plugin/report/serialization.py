"""Conversion of reports to plain Python objects and back, by the type hints of the dataclasses."""

from __future__ import annotations

import json
import math
import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from ens_plugin.errors import InputError
from ens_plugin.findings import finding
from ens_plugin.report.result import EstimateBasis, ReportContent, check_report

Report = TypeVar("Report", bound=ReportContent)

SCHEMA_VERSION = 1
_VERSION_KEY = "schema_version"
_INFINITIES = {"Infinity": math.inf, "-Infinity": -math.inf}
# Reports written before these fields existed are read with the fields' defaults.
_ADDED_LATER = {
    "ties_to",
    "even_shift",
    "basis",
    "criteria",
    "label_errors",
    "metric_basis",
    "of_metric",
    "outputs",
    "positive_label",
    "proof",
    "zeros",
    "costs",
}
# Fields that most reports lack, such as those on a metric or several outputs: written only where they hold something.
_SELDOM = {
    "metric_basis", "of_metric", "outputs", "positive_label", "proof", "zeros",
    "costs",
}  # fmt: skip
# For comparisons in one process: a number for each row, and the rows of a proof.
_NOT_WRITTEN = {"judged_rows", "rows"}
# A confusion matrix of many labels has many of them.
_AS_THEY_ARE = frozenset({int, str, bool})


def report_to_dict(report: ReportContent) -> dict[str, Any]:
    """Return a report as nested dictionaries, lists, strings, numbers, booleans and None."""
    return {_VERSION_KEY: SCHEMA_VERSION, **_with_sentences(_plain(report))}


def report_from_dict(kind: type[Report], content: Mapping[str, Any]) -> Report:
    """Return the report that :func:`report_to_dict` converted to `content`, equal to the last bit."""
    if not isinstance(content, Mapping) or _VERSION_KEY not in content:
        raise InputError(
            f"This is not a report: it has no {_VERSION_KEY!r}; pass what EnsembleReport.to_dict() or to_json() wrote."
        )
    version = content[_VERSION_KEY]
    if type(version) is not int or version != SCHEMA_VERSION:
        raise InputError(
            f"This report has {_VERSION_KEY} {_shown(version)}, and this version of ens_plugin reads {SCHEMA_VERSION}; "
            "read it with the version of ens_plugin that wrote it, or analyse the model again."
        )
    body = _without_sentences({key: value for key, value in content.items() if key != _VERSION_KEY})
    report: Report = _read_dataclass(kind, body, "report")
    check_report(report)
    return report


def indented_json(value: Any, margin: str = "\n") -> str:
    r"""Return the text of ``json.dumps(value, indent=1, allow_nan=False)``, of lists of numbers in less time."""
    inner = margin + " "
    if isinstance(value, dict) and value:
        items = [f"{json.dumps(key)}: {indented_json(item, inner)}" for key, item in value.items()]
        return "{" + inner + f",{inner}".join(items) + margin + "}"
    if isinstance(value, list) and value:
        if any(isinstance(item, dict | list) for item in value):
            return "[" + inner + f",{inner}".join(indented_json(item, inner) for item in value) + margin + "]"
        # Without indent, json writes a list by compiled code.
        text = json.dumps(value, allow_nan=False, separators=(f",{inner}", ": "))
        return f"[{inner}{text[1:-1]}{margin}]"
    return json.dumps(value, allow_nan=False)


def _with_sentences(content: dict[str, Any]) -> dict[str, Any]:
    """Return a written report with the sentences of its findings, which reports had before their codes.

    Programs read ``warnings`` and ``basis.doubts``, and no field of a schema is ever removed.
    """
    findings = content["basis"]["findings"]
    notes, doubts = ([each["sentence"] for each in findings if each["kind"] == kind] for kind in ("note", "doubt"))
    written = {**content, "warnings": notes, "basis": {**content["basis"], "doubts": doubts}}
    if "outputs" in content:
        written["outputs"] = {name: _with_sentences(part) for name, part in content["outputs"].items()}
    return written


def _without_sentences(content: dict[str, Any], name: str = "report") -> dict[str, Any]:
    """Return a report that is to be read with its findings alone, made of sentences where it is older than codes."""
    body = {key: value for key, value in content.items() if key != "warnings"}
    notes = _read_sentences(content.get("warnings", []), _below(name, "warnings"))
    basis = body.get("basis", _plain(EstimateBasis()) | {"findings": None})
    if isinstance(basis, Mapping):
        doubts = _read_sentences(basis.get("doubts", []), _below(name, "basis.doubts"))
        basis = {key: value for key, value in basis.items() if key != "doubts"}
        if basis.get("findings") is None:
            found = [finding("unnamed-doubt", each) for each in doubts]
            basis["findings"] = _plain(found + [finding("unnamed-note", each) for each in notes])
        body["basis"] = basis
    if isinstance(outputs := body.get("outputs"), Mapping):
        body["outputs"] = {
            key: _without_sentences(part, _below(name, f"outputs[{_shown(key)}]")) if isinstance(part, dict) else part
            for key, part in outputs.items()
        }
    return body


def _read_sentences(value: Any, name: str) -> tuple[str, ...]:
    return _read_tuple(tuple[str, ...], value, name)


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        held = {item.name: getattr(value, item.name) for item in fields(value) if item.name not in _NOT_WRITTEN}
        return {name: _plain(item) for name, item in held.items() if name not in _SELDOM or item not in (None, {}, ())}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist() if np.isfinite(value).all() else _plain(value.tolist())
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return list(value) if _AS_THEY_ARE.issuperset(map(type, value)) else [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value).replace("inf", "Infinity")
    return value


def _read(hint: Any, value: Any, name: str) -> Any:
    origin = get_origin(hint)
    reader = _READERS.get(hint if origin is None or hint in _SCALARS else origin, _read_dataclass)
    return reader(hint, value, name)


def _read_dataclass(hint: Any, value: Any, name: str) -> Any:
    if not isinstance(value, Mapping):
        _refuse(name, "an object with named fields", value)
    hints = get_type_hints(hint)
    wanted = [
        item.name
        for item in fields(hint)
        if item.name not in _NOT_WRITTEN and (item.name in value or item.name not in _ADDED_LATER)
    ]
    for key in wanted:
        if key not in value:
            raise InputError(
                f"The field {_below(name, key)!r} of this report is missing; write it again with to_json()."
            )
    unknown = [key for key in value if key not in wanted]
    if unknown:
        raise InputError(
            f"The field {_below(name, str(unknown[0]))[:80]!r} is not part of a report of schema {SCHEMA_VERSION}; "
            "remove it, or write the report again with to_json()."
        )
    found = {key: _read(hints[key], value[key], _below(name, key)) for key in wanted}
    lengths = {key: item.size for key, item in found.items() if isinstance(item, np.ndarray)}
    if len(set(lengths.values())) > 1:
        counts = ", ".join(f"{key!r} has {size}" for key, size in lengths.items())
        raise InputError(f"The arrays of {name!r} differ in length ({counts}); write the report again with to_json().")
    return hint(**found)


def _read_float(hint: Any, value: Any, name: str) -> float:
    if value is None:
        return math.nan
    if isinstance(value, str) and value in _INFINITIES:
        return _INFINITIES[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse(name, "a number", value)
    try:
        return float(value)
    except OverflowError:
        _refuse(name, "a number that fits a float", value)


def _read_int(hint: Any, value: Any, name: str) -> int:
    if type(value) is not int or abs(value) >= 2**63:
        _refuse(name, "a whole number below 2**63", value)
    return value


def _read_as_is(hint: Any, value: Any, name: str) -> Any:
    if not isinstance(value, hint):
        _refuse(name, {str: "a text", bool: "true or false"}[hint], value)
    if hint is str and not _is_writable(value):
        _refuse(name, "a text without unpaired surrogates", value)
    return value


def _is_writable(text: str) -> bool:
    """Return whether a text can be written to a file: JSON may hold half of a surrogate pair, and a file may not."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _read_literal(hint: Any, value: Any, name: str) -> Any:
    if not isinstance(value, str) or value not in get_args(hint):
        _refuse(name, f"one of {', '.join(map(repr, get_args(hint)))}", value)
    return value


def _read_optional(hint: Any, value: Any, name: str) -> Any:
    present = next(option for option in get_args(hint) if option is not type(None))
    return None if value is None else _read(present, value, name)


def _read_array(hint: Any, value: Any, name: str) -> NDArray[Any]:
    scalar = _SCALARS[hint]
    items = _read_list(value, name)
    read_item, usual = (_read_float, float) if scalar is np.float64 else (_read_int, int)
    if all(type(item) is usual and abs(item) < 2**63 for item in items):
        return np.array(items, dtype=scalar)
    return np.array([read_item(None, item, f"{name}[{index}]") for index, item in enumerate(items)], dtype=scalar)


def _read_tuple(hint: Any, value: Any, name: str) -> tuple[Any, ...]:
    items, hints = _read_list(value, name), get_args(hint)
    if hints[-1] is Ellipsis:
        hints = (hints[0],) * len(items)
    if len(items) != len(hints):
        _refuse(name, f"a list of {len(hints)}", value)
    return tuple(
        _read(item, part, f"{name}[{index}]") for index, (item, part) in enumerate(zip(hints, items, strict=True))
    )


def _read_mapping(hint: Any, value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        _refuse(name, "an object", value)
    _, item_hint = get_args(hint)
    return {
        _read_as_is(str, key, name): _read(item_hint, item, f"{name}[{_shown(key)}]") for key, item in value.items()
    }


def _read_list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        _refuse(name, "a list", value)
    return list(value)


def _refuse(name: str, wanted: str, value: Any) -> NoReturn:
    raise InputError(
        f"The field {name!r} of this report holds {_shown(value)} and should hold {wanted}; "
        "pass what EnsembleReport.to_json() wrote."
    )


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _below(name: str, key: str) -> str:
    return key if name == "report" else f"{name}.{key}"


# The keys are whole hints, because NDArray of NumPy 2.5 is an alias that hides ndarray and dtype.
_SCALARS: dict[Any, type[np.generic]] = {NDArray[np.float64]: np.float64, NDArray[np.int64]: np.int64}
_READERS: dict[Any, Callable[[Any, Any, str], Any]] = {
    float: _read_float,
    int: _read_int,
    str: _read_as_is,
    bool: _read_as_is,
    Literal: _read_literal,
    types.UnionType: _read_optional,
    Union: _read_optional,
    **dict.fromkeys(_SCALARS, _read_array),
    tuple: _read_tuple,
    dict: _read_mapping,
    Mapping: _read_mapping,
}
