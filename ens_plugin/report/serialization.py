"""Conversion of reports to plain Python objects and back, by the types of their fields and a table of rules."""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import reduce
from typing import Any, Literal, NamedTuple, NoReturn, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.validation import ROUNDING, FloatArray
from ens_plugin.errors import InputError
from ens_plugin.findings import CHECKS, Finding
from ens_plugin.report.result import (
    SQUARED,
    ZERO_ONE,
    BiasVariance,
    Costs,
    ErrorCurve,
    EstimateBasis,
    LabelBasis,
    LabelErrors,
    LinearCost,
    MetricBasis,
    ReportContent,
    SizeRecommendation,
)

Report = TypeVar("Report", bound=ReportContent)

SCHEMA_VERSION = 1
_VERSION_KEY = "schema_version"
_INFINITIES = {"Infinity": math.inf, "-Infinity": -math.inf}
_NOTHING = object()  # held by a field that is missing


def report_to_dict(report: ReportContent) -> dict[str, Any]:
    """Return a report as nested dictionaries, lists, strings, numbers, booleans and None."""
    return {_VERSION_KEY: SCHEMA_VERSION, **_plain(report)}


def report_from_dict(kind: type[Report], content: Mapping[str, Any]) -> Report:
    """Return the report that :func:`report_to_dict` converted to `content`, equal to the last bit."""
    if not isinstance(content, Mapping) or _VERSION_KEY not in content:
        raise InputError(
            f"This is not a report: it has no {_VERSION_KEY!r}; pass what EnsembleReport.to_dict() or to_json() wrote."
        )
    version = content[_VERSION_KEY]
    if type(version) is not int or version != SCHEMA_VERSION:
        _refuse(_VERSION_KEY, str(SCHEMA_VERSION), version)
    body = {key: value for key, value in content.items() if key != _VERSION_KEY}
    report: Report = _read_dataclass(kind, body, "report")
    return report


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {key: _plain(getattr(value, key)) for key in _written(value)}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist() if np.isfinite(value).all() else _plain(value.tolist())
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        # A confusion matrix of many labels has many whole numbers.
        is_plain = {int, str, bool}.issuperset(map(type, value))
        return list(value) if is_plain else [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value).replace("inf", "Infinity")
    return value


def _written(kind: Any) -> list[str]:
    """Return the names of the fields of a part that are written."""
    # A number for each row, and the rows of a proof, are for comparisons in one process.
    return [item.name for item in fields(kind) if item.name not in ("judged_rows", "rows")]


def _read(hint: Any, value: Any, name: str) -> Any:
    origin = get_origin(hint)
    reader = _READERS.get(hint if origin is None or hint in _SCALARS else origin, _read_dataclass)
    return reader(hint, value, name)


def _read_dataclass(hint: Any, value: Any, name: str) -> Any:
    if not isinstance(value, Mapping):
        _refuse(name, "an object with named fields", value)
    hints = {key: item for key, item in get_type_hints(hint).items() if key in _written(hint)}
    for key in [*hints, *value]:
        if key not in value:
            _refuse(_below(name, key), "a value", _NOTHING)
        if key not in hints:
            _refuse(_below(name, str(key)), "nothing", value[key])
    part = hint(**{key: _read(item, value[key], _below(name, key)) for key, item in hints.items()})
    _check(part, name)
    return part


def _check(part: Any, name: str) -> None:
    """Refuse a part whose values no analysis finds together, by the rules of its class."""
    for rule in (rule for kind in type(part).__mro__ for rule in _RULES.get(kind, ())):
        for key in rule.fields.split():
            value = reduce(lambda held, name: getattr(held, name, None), key.split("."), part)
            # An array of truth values has one for each item.
            holds = True if value is None else rule.holds(value, part)
            if np.ndim(holds) == 0 and not holds:
                _refuse(_below(name, key), rule.wanted, value)
            if np.ndim(holds) and not np.all(holds):
                place = int(np.argmin(holds))
                _refuse(f"{_below(name, key)}[{place}]", rule.wanted, value[place])


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
    held = "nothing" if value is _NOTHING else _shown(value)
    raise InputError(
        f"The field {name[:80]!r} of this report holds {held} and should hold {wanted}; pass what "
        "EnsembleReport.to_json() of this version of ens_plugin wrote, or analyse the model again."
    )


def _shown(value: Any) -> str:
    text = repr(value.tolist() if isinstance(value, np.ndarray | np.generic) else value)
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


class _Rule(NamedTuple):
    """What some fields of a part of a report have to hold beside a value of their type; None is always allowed."""

    fields: str  # names, separated by spaces; a dot leads to a field of a part
    wanted: str  # in words
    # Of a value and its part: one truth value, or one for each item. NaN, an estimate that is not available, is less
    # and more than nothing.
    holds: Callable[[Any, Any], Any]


def _least(names: str, smallest: float) -> _Rule:
    return _Rule(names, f"at least {smallest:g}", lambda value, _: ~(np.asarray(value) < smallest))


def _within(names: str, limits: Callable[[Any], tuple[float, float]], wanted: str = "a number from 0 to 1") -> _Rule:
    return _Rule(names, wanted, lambda value, part: _is_within(value, *limits(part)))


def _is_within(value: Any, smallest: float, largest: float) -> Any:
    slack = ROUNDING * (abs(largest) if math.isfinite(largest) else 1.0)
    values = np.asarray(value, dtype=np.float64)
    return ~((values < smallest - slack) | (values > largest + slack))


def _at_most(names: str, other: str) -> _Rule:
    return _Rule(names, f"at most what {other!r} holds", lambda value, part: _in_order(value, getattr(part, other)))


def _in_order(first: Any, second: Any) -> Any:
    low, high = (np.asarray(values, dtype=np.float64) for values in (first, second))
    with np.errstate(over="ignore", invalid="ignore"):
        return ~((low > high) & ~np.isclose(low, high, rtol=ROUNDING, atol=0.0))


def _finite(names: str, concerns: Callable[[Any], bool] = lambda part: True) -> _Rule:
    """Return the rule that infinity is refused, in the parts that it concerns."""
    return _Rule(names, "finite numbers", lambda value, part: not (concerns(part) and np.isinf(_numbers(value)).any()))


def _numbers(value: Any) -> FloatArray:
    return np.asarray(list(value.values()) if isinstance(value, Mapping) else value, dtype=np.float64)


def _ordered(names: str) -> _Rule:
    return _Rule(names, "two ends in ascending order", lambda ends, _: bool(_in_order(*ends)))


def _as_many(names: str, other: str) -> _Rule:
    wanted = f"as many numbers as {other!r}"
    return _Rule(names, wanted, lambda values, part: len(values) == len(getattr(part, other)))


_SIZES = _Rule(
    "sizes",
    "sizes from 1 on, in strictly ascending order",
    lambda sizes, _: np.append(0, sizes[:-1]) < sizes if sizes.size else False,
)
_OWN_RANGES = {
    ZERO_ONE: (0.0, 1.0), "0-1 loss": (0.0, 1.0), SQUARED: (0.0, math.inf), "squared loss": (0.0, math.inf),
}  # fmt: skip


def _unit(_: Any) -> tuple[float, float]:
    return 0.0, 1.0


def _range_of(curve: ErrorCurve) -> tuple[float, float]:
    basis = curve.metric_basis
    own = (-math.inf, math.inf) if basis is None else (basis.lowest, basis.highest)
    return _OWN_RANGES.get(curve.metric, own)


_RULES: dict[type, tuple[_Rule, ...]] = {
    ReportContent: (
        _least("n_members n_rows", 1),
        _least("rows_without_oob mean_oob_members algorithmic_sd", 0),
        _finite("algorithmic_sd"),
        _Rule("bags", "a value that fits 'data'", lambda bags, own: (bags == "holdout") == (own.data == "holdout")),
        _Rule(
            "label_errors",
            "as many numbers in 'predicted' as there are labels",
            lambda found, _: np.array([len(each.predicted) == len(found) for each in found]),
        ),
        _Rule("costs.n_members", "the 'n_members' of the report", lambda count, own: count == own.n_members),
        _Rule("outputs", "reports of one output each", lambda outputs, _: not any(p.outputs for p in outputs.values())),
    ),
    ErrorCurve: (
        _SIZES,
        _as_many("error lower upper even_shift", "sizes"),
        _at_most("lower", "error"),
        _at_most("error lower", "upper"),
        _ordered("asymptote_interval"),
        _Rule(
            "asymptote",
            "a number within 'asymptote_interval'",
            lambda limit, curve: (
                bool(_in_order(curve.asymptote_interval[0], limit))
                and bool(_in_order(limit, curve.asymptote_interval[1]))
            ),
        ),
        _Rule("interval_level", "a number between 0 and 1", lambda level, _: 0.0 < level < 1.0),
        _least("check", 0),
        _Rule("ties_to", "a size", lambda size, _: size >= 0),
        _within("error lower upper asymptote asymptote_interval", _range_of, "numbers that the metric can have"),
        # A user's own metric, a log loss for example, may be infinite.
        _finite("error asymptote asymptote_raw", lambda curve: curve.metric in _OWN_RANGES),
        _finite("even_shift"),
    ),
    MetricBasis: (_least("n_rows", 1), _at_most("lowest", "highest")),
    SizeRecommendation: (
        _SIZES,
        _as_many("losses", "sizes"),
        _least("max_size size", 1),
        _at_most("size", "max_size"),
        _Rule(
            "interval",
            "a size, and one that is not below it",
            lambda ends, _: ends[0] >= 1 and (ends[1] is None or ends[0] <= ends[1]),
        ),
        _Rule(
            "criterion",
            "a value that fits 'of_metric'",
            lambda criterion, own: (criterion == "metric") == (own.of_metric is not None),
        ),
        _least("tolerance", 0),
        _within("agreement", _unit),
        _within("losses", lambda own: _unit(own) if own.criterion == "agreement" else (-math.inf, math.inf)),
    ),
    BiasVariance: (
        _finite("member_error member_variance ensemble_error asymptotic_error bias"),
        _within(
            "member_error member_variance ensemble_error asymptotic_error bias",
            lambda parts: _OWN_RANGES.get(parts.loss, (-math.inf, math.inf)),
            "a number that the loss can have",
        ),
    ),
    EstimateBasis: (
        _within("usable_weight", _unit),
        _least("n_effective n_repeated", 0),
        _least("n_distinct n_groups n_unlabelled", 1),
    ),
    LabelBasis: (_least("n_usable mean_members weight_factor", 0), _at_most("n_usable", "n_rows")),
    Finding: (
        _Rule("code", "the code of a check", lambda code, _: code in CHECKS),
        _Rule("kind", "the kind of the check", lambda kind, found: CHECKS[found.code].kind == kind),
        _finite("numbers"),
    ),
    LabelErrors: (
        _within("error interval recommended_error asymptote", _unit),
        _ordered("interval"),
        _least("predicted", 0),
    ),
    Costs: (_least("batch_rows", 1),),
    LinearCost: (_least("fixed per_member spread", 0), _finite("fixed per_member spread")),
}
