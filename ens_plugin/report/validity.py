"""Checks whether an analysis could have written a report that was read: ranges and orders of its numbers."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.validation import counted
from ens_plugin.errors import InputError
from ens_plugin.report.content import ReportContent
from ens_plugin.report.estimates import BiasVariance, ErrorCurve, EstimateBasis, LabelErrors, SizeRecommendation

__all__ = ["check_report"]

# Relative difference that sums in another order may have.
ROUNDING = 1e-9
SHARES = "0-1 error"
SQUARES = "mean squared error"


def check_report(report: ReportContent) -> None:
    """Raise InputError for a report whose numbers no analysis can have found.

    NaN marks an estimate that is not available, and passes every comparison.

    Raises
    ------
    InputError
        The message names the field and its value.

    Examples
    --------
    >>> from dataclasses import replace
    >>> import ens_plugin
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> report = ens_plugin.analyze(RandomForestClassifier(50, random_state=0).fit(X, y), X, y)
    >>> check_report(replace(report, n_rows=0))
    Traceback (most recent call last):
        ...
    ens_plugin.errors.InputError: The field 'n_rows' of this report holds 0 and should hold at least 1; ...
    """
    _at_least(report.n_members, 1, "n_members")
    _at_least(report.n_rows, 1, "n_rows")
    _at_least(report.rows_without_oob, 0, "rows_without_oob")
    _within(report.mean_oob_members, 0.0, math.inf, "mean_oob_members")
    if (report.bags == "holdout") != (report.data == "holdout"):
        _refuse("bags", report.bags, f"a value that fits data {report.data!r}")
    _finite(report.algorithmic_sd, "algorithmic_sd")
    _at_least(report.algorithmic_sd, 0, "algorithmic_sd")
    _check_curve(report.error_curve)
    _check_recommendation(report.recommendation, "recommendation")
    for index, found in enumerate(report.criteria):
        _check_recommendation(found, f"criteria[{index}]")
    _check_bias_variance(report.bias_variance)
    _check_basis(report.basis)
    _check_label_errors(report.label_errors)
    for part in report.outputs.values():
        if part.outputs:
            _refuse("outputs", part.outputs, "reports of one output each")
        check_report(part)


def _check_curve(curve: ErrorCurve) -> None:
    name = "error_curve"
    _check_sizes(curve.sizes, f"{name}.sizes")
    _in_order(curve.lower, curve.error, f"{name}.lower", f"{name}.error")
    _in_order(curve.error, curve.upper, f"{name}.error", f"{name}.upper")
    _in_order(curve.lower, curve.upper, f"{name}.lower", f"{name}.upper")
    low, high = curve.asymptote_interval
    interval = f"{name}.asymptote_interval"
    _in_order(low, high, f"{interval}[0]", f"{interval}[1]")
    _in_order(low, curve.asymptote, f"{interval}[0]", f"{name}.asymptote")
    _in_order(curve.asymptote, high, f"{name}.asymptote", f"{interval}[1]")
    if not 0.0 < curve.interval_level < 1.0:
        _refuse(f"{name}.interval_level", curve.interval_level, "a number between 0 and 1")
    _at_least(math.nan if curve.check is None else curve.check, 0, f"{name}.check")
    if not curve.ties_to >= 0:
        _refuse(f"{name}.ties_to", curve.ties_to, "a size")
    if curve.even_shift is not None:
        _finite(curve.even_shift, f"{name}.even_shift")
    _check_errors(curve)


def _check_errors(curve: ErrorCurve) -> None:
    basis = curve.metric_basis
    own = (-math.inf, math.inf) if basis is None else (basis.lowest, basis.highest)
    smallest, largest = {SHARES: (0.0, 1.0), SQUARES: (0.0, math.inf)}.get(curve.metric, own)
    if basis is not None:
        _at_least(basis.n_rows, 1, "error_curve.metric_basis.n_rows")
        _in_order(basis.lowest, basis.highest, "error_curve.metric_basis.lowest", "error_curve.metric_basis.highest")
    fields: dict[str, Any] = {
        "error": curve.error, "lower": curve.lower, "upper": curve.upper, "asymptote": curve.asymptote,
        "asymptote_interval": curve.asymptote_interval,
    }  # fmt: skip
    for key, values in fields.items():
        _within(values, smallest, largest, f"error_curve.{key}")
    if curve.metric in (SHARES, SQUARES):
        # A user's own metric, a log loss for example, may be infinite.
        for key in ("error", "asymptote", "asymptote_raw"):
            _finite(getattr(curve, key), f"error_curve.{key}")


def _check_recommendation(found: SizeRecommendation, name: str) -> None:
    _at_least(found.max_size, 1, f"{name}.max_size")
    if found.size is not None:
        _within(found.size, 1, found.max_size, f"{name}.size")
    low, high = found.interval
    _at_least(low, 1, f"{name}.interval[0]")
    if high is not None:
        _in_order(low, high, f"{name}.interval[0]", f"{name}.interval[1]")
    _check_sizes(found.sizes, f"{name}.sizes")
    share = found.criterion == "agreement"
    if share != (found.confidence is not None):
        _refuse(f"{name}.confidence", found.confidence, f"a value that fits criterion {found.criterion!r}")
    if share == (found.tolerance is not None):
        _refuse(f"{name}.tolerance", found.tolerance, f"a value that fits criterion {found.criterion!r}")
    of_metric = found.criterion == "metric"
    if of_metric != (found.of_metric is not None):
        _refuse(f"{name}.of_metric", found.of_metric, f"a value that fits criterion {found.criterion!r}")
    if of_metric != (found.is_absolute is not None):
        _refuse(f"{name}.is_absolute", found.is_absolute, f"a value that fits criterion {found.criterion!r}")
    if found.confidence is not None and not 0.0 < found.confidence < 1.0:
        _refuse(f"{name}.confidence", found.confidence, "a number between 0 and 1")
    if found.tolerance is not None and not 0.0 < found.tolerance < math.inf:
        _refuse(f"{name}.tolerance", found.tolerance, "a number above 0")
    if found.agreement is not None:
        _within(found.agreement, 0.0, 1.0, f"{name}.agreement")
    if share:
        _within(found.values, 0.0, 1.0, f"{name}.values")


def _check_bias_variance(found: BiasVariance) -> None:
    largest = {"0-1 error": 1.0, "0-1 loss": 1.0, "squared loss": math.inf}.get(found.loss)
    for key in ("member_error", "member_variance", "ensemble_error", "asymptotic_error", "bias"):
        value = getattr(found, key)
        _finite(value, f"bias_variance.{key}")
        if largest is not None:
            _within(value, 0.0, largest, f"bias_variance.{key}")


def _check_basis(basis: EstimateBasis) -> None:
    _within(basis.usable_weight, 0.0, 1.0, "basis.usable_weight")
    _at_least(basis.n_effective, 0, "basis.n_effective")
    _at_least(basis.n_repeated, 0, "basis.n_repeated")
    for key in ("n_distinct", "n_groups"):
        count = getattr(basis, key)
        if count is not None:
            _at_least(count, 1, f"basis.{key}")
    for index, label in enumerate(basis.labels):
        name = f"basis.labels[{index}]"
        _at_least(label.n_usable, 0, f"{name}.n_usable")
        _in_order(label.n_usable, label.n_rows, f"{name}.n_usable", f"{name}.n_rows")
        _at_least(label.mean_members, 0, f"{name}.mean_members")
        _at_least(label.weight_factor, 0, f"{name}.weight_factor")


def _check_label_errors(found: tuple[LabelErrors, ...]) -> None:
    for index, errors in enumerate(found):
        name = f"label_errors[{index}]"
        for key in ("error", "interval", "recommended_error", "asymptote"):
            _within(getattr(errors, key), 0.0, 1.0, f"{name}.{key}")
        _in_order(*errors.interval, f"{name}.interval[0]", f"{name}.interval[1]")
        if len(errors.predicted) != len(found):
            _refuse(f"{name}.predicted", list(errors.predicted), f"{counted(len(found), 'number')}, one for each label")
        _within(errors.predicted, 0, math.inf, f"{name}.predicted")


def _check_sizes(sizes: NDArray[np.int64], name: str) -> None:
    if sizes.size == 0:
        _refuse(name, [], "at least one size")
    _at_least(int(sizes.min()), 1, name)
    if np.any(np.diff(sizes) <= 0):
        _refuse(name, int(sizes[int(np.argmax(np.diff(sizes) <= 0))]), "sizes in strictly ascending order")


def _at_least(value: float, smallest: int, name: str) -> None:
    if value < smallest:
        _refuse(name, value, f"at least {smallest}")


def _within(value: Any, smallest: float, largest: float, name: str) -> None:
    values = np.atleast_1d(np.asarray(value, dtype=np.float64))
    slack = ROUNDING * (abs(largest) if math.isfinite(largest) else 1.0)
    outside = (values < smallest - slack) | (values > largest + slack)
    if outside.any():
        _refuse(name, float(values[outside][0]), _between(smallest, largest))


def _between(smallest: float, largest: float) -> str:
    return f"at least {smallest:g}" if largest == math.inf else f"a number from {smallest:g} to {largest:g}"


def _in_order(first: Any, second: Any, name: str, other: str) -> None:
    low, high = (np.atleast_1d(np.asarray(values, dtype=np.float64)) for values in (first, second))
    with np.errstate(over="ignore", invalid="ignore"):
        wrong = (low > high) & ~np.isclose(low, high, rtol=ROUNDING, atol=0.0)
    if wrong.any():
        at = int(np.argmax(wrong))
        _refuse(name, float(low[at]), f"at most {float(high[at])!r}, which is in {other!r}")


def _finite(value: Any, name: str) -> None:
    if np.isinf(value).any():
        _refuse(name, "infinity", "a finite number")


def _refuse(name: str, value: object, wanted: str) -> NoReturn:
    shown = repr(value)
    raise InputError(
        f"The field {name!r} of this report holds {shown if len(shown) <= 60 else shown[:57] + '...'} and should hold "
        f"{wanted}; no analysis finds that, so the report was changed or damaged. Analyse the model again."
    )
