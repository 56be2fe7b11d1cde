"""The JSON Schema of a report, made from the type hints of its dataclasses."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from ens_plugin import EnsembleReport
from ens_plugin.report.serialization import SCHEMA_VERSION

__all__ = ["report_schema"]

NUMBER = {"$ref": "#/$defs/number"}
PLAIN = {str: {"type": "string"}, int: {"type": "integer"}, bool: {"type": "boolean"}, float: NUMBER}


def report_schema() -> dict[str, Any]:
    """Return the schema of what ``EnsembleReport.to_dict`` returns."""
    definitions: dict[str, Any] = {
        "number": {"anyOf": [{"type": "number"}, {"type": "null"}, {"enum": ["Infinity", "-Infinity"]}]}
    }
    _of(EnsembleReport, definitions)
    report = definitions["EnsembleReport"]
    report["properties"] = {"schema_version": {"const": SCHEMA_VERSION}, **report["properties"]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$ref": "#/$defs/EnsembleReport",
        "$defs": definitions,
    }


def _of(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin, inner = get_origin(hint), get_args(hint)
    if hint in PLAIN:
        return PLAIN[hint]
    if hint is type(None):
        return {"type": "null"}
    if is_dataclass(hint):
        return _defined(hint, definitions)
    if origin is Literal:
        return {"enum": list(inner)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_of(each, definitions) for each in inner]}
    if origin is tuple and inner[-1] is not Ellipsis:
        return {"type": "array", "prefixItems": [_of(each, definitions) for each in inner]}
    if origin is tuple:
        return {"type": "array", "items": _of(inner[0], definitions)}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _of(inner[1], definitions)}
    if isinstance(origin, type) and issubclass(origin, np.ndarray):
        whole = issubclass(get_args(inner[1])[0], np.integer)
        return {"type": "array", "items": {"type": "integer"} if whole else NUMBER}
    raise TypeError(f"No schema is known for the type {hint!r} of a field of a report.")


def _defined(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    name = kind.__name__
    if name not in definitions:
        definitions[name] = {}
        hints = get_type_hints(kind)
        names = [item.name for item in fields(kind) if item.name not in ("judged_rows", "rows")]
        definitions[name].update(
            type="object",
            properties={each: _of(hints[each], definitions) for each in names},
            required=names,
        )
    return {"$ref": f"#/$defs/{name}"}
