"""The report object: its curve and metrics, and its JSON there and back."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ens_plugin import EnsembleReport
from ens_plugin.errors import InputError
from ens_plugin.report.serialization import report_from_dict
from tests import reports
from tests.reports import with_notes

REPORTS = reports.all_reports()

finite = st.floats(allow_nan=False, allow_infinity=False)
anything = st.floats()


def same_bits(one: Any, other: Any) -> bool:
    return np.asarray(one).tobytes() == np.asarray(other).tobytes() and np.asarray(one).dtype == np.asarray(other).dtype


def test_interpolation_is_exact_for_a_curve_linear_in_one_over_size() -> None:
    curve = REPORTS["regression"].error_curve
    for size in (1, 2, 47, 131, 30_000):
        assert curve.at(size) == pytest.approx(3120.0 + 4080.0 / size, rel=1e-12)
    assert curve.at(math.inf) == 3120.0


def test_sizes_at_which_votes_tie_have_the_error_of_the_odd_size_below() -> None:
    sizes = np.array([1, 3, 10], dtype=np.int64)
    error = np.array([0.4, 0.2, 0.11])
    curve = replace(
        REPORTS["classification"].error_curve, sizes=sizes, error=error, lower=error, upper=error, ties_to=math.inf
    )
    assert [curve.at(size) for size in (1, 2, 3, 4, 9, 10)] == pytest.approx([0.4, 0.4, 0.2, 0.2, 0.11, 0.11])
    assert curve.interval_at(2) == pytest.approx((0.4, 0.4))
    assert curve.at(math.inf) == curve.asymptote
    up_to_two = replace(curve, ties_to=2.0)
    assert up_to_two.at(2) == pytest.approx(0.4)
    assert up_to_two.at(4) < up_to_two.at(3)


def test_interval_at_infinity_is_the_asymptotes() -> None:
    curve = REPORTS["classification"].error_curve
    assert curve.interval_at(math.inf) == curve.asymptote_interval


@pytest.mark.parametrize("size", [0, -1, math.nan])
def test_sizes_below_the_curve_are_refused(size: float) -> None:
    with pytest.raises(InputError, match="smallest size of this curve"):
        REPORTS["classification"].error_curve.at(size)


def test_to_frame_holds_the_curve() -> None:
    curve = REPORTS["classification"].error_curve
    frame = curve.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == ["size", "error", "lower", "upper"]
    assert same_bits(frame["error"].to_numpy(), curve.error)


@pytest.mark.parametrize("name", REPORTS)
def test_at_most_ten_scalars_are_logged_and_a_policy_knows_all_of_them(name: str) -> None:
    report = REPORTS[name]
    metrics = report.metrics()
    assert len(metrics) <= 10
    assert metrics.items() <= report.scalars().items()
    assert report.measure_key in metrics


def test_a_policy_may_name_errors_too() -> None:
    report = REPORTS["classification"]
    scalars = report.scalars()
    assert scalars["excess_error"] == pytest.approx(report.error - report.error_curve.asymptote)
    assert scalars["error"] == report.error
    assert scalars["size_capped"] == 0
    assert "roc_auc_shortfall" in REPORTS["score"].scalars()
    assert "excess_error" not in REPORTS["score"].scalars()


def test_metrics_of_values_are_roots() -> None:
    metrics, report = REPORTS["regression"].metrics(), REPORTS["regression"]
    assert metrics["rmse"] == report.rmse == math.sqrt(report.error)
    assert metrics["asymptotic_rmse"] == math.sqrt(3120.0)
    assert metrics["rmse_lower"] < metrics["rmse"] < metrics["rmse_upper"]


def test_a_recommendation_tells_the_loss_of_any_size() -> None:
    found = REPORTS["regression"].recommendation
    assert found.loss_at(100) == pytest.approx(found.loss) == pytest.approx(40.8)
    assert found.loss_at(math.inf) == 0.0
    assert not found.is_enough
    assert replace(found, loss=math.nan).is_enough is False
    assert found.loss_at(131) <= found.tolerance < found.loss_at(130)


def test_metrics_leave_out_what_is_not_defined() -> None:
    assert "agreement" not in REPORTS["regression"].metrics()
    unknown = without_limit()
    assert "asymptotic_accuracy" not in unknown.metrics()
    assert not {"asymptotic_error", "excess_error"} & unknown.scalars().keys()


def without_limit() -> EnsembleReport:
    """A report whose curve has no asymptote."""
    nan = math.nan
    curve = replace(REPORTS["classification"].error_curve, asymptote=nan, asymptote_interval=(nan, nan))
    return replace(REPORTS["classification"], error_curve=curve)


@pytest.mark.parametrize("name", REPORTS)
def test_json_round_trip_is_exact(name: str) -> None:
    report = REPORTS[name]
    again = EnsembleReport.from_json(report.to_json())
    assert again.to_json() == report.to_json()
    for field in ("sizes", "error", "lower", "upper"):
        assert same_bits(getattr(again.error_curve, field), getattr(report.error_curve, field))
    assert same_bits(again.recommendation.losses, report.recommendation.losses)
    assert again.warnings == report.warnings
    assert again.versions == report.versions
    assert again.recommendation.interval == report.recommendation.interval
    assert isinstance(again.recommendation.interval, tuple)


def test_json_is_strict_and_names_its_schema() -> None:
    text = without_limit().to_json()
    assert "NaN" not in text
    assert json.loads(text)["schema_version"] == 1
    assert json.loads(text)["error_curve"]["asymptote"] is None


@pytest.mark.slow
@given(errors=st.lists(anything, min_size=1, max_size=8), scalar=anything, text=st.text(), optional=st.none() | finite)
def test_any_values_come_back_to_the_bit(errors: list[float], scalar: float, text: str, optional: float | None) -> None:
    report = REPORTS["classification"]
    # The one NaN that JSON's None stands for: its payload is not kept.
    values = np.array([math.nan if math.isnan(value) else value for value in errors])
    sizes = np.arange(values.size, dtype=np.int64) * (2**40) + 1
    # Only a metric of the user's own can have any value, and a difference is at least 0.
    optional = None if optional is None else abs(optional)
    curve = replace(
        report.error_curve, sizes=sizes, error=values, lower=values, upper=values, asymptote=scalar,
        asymptote_interval=(scalar, scalar), check=optional, metric="loss of mine",
    )  # fmt: skip
    changed = replace(report, error_curve=curve, model=text, versions={text: text})
    changed = with_notes(changed, text)
    again = EnsembleReport.from_json(changed.to_json())
    assert same_bits(again.error_curve.error, values)
    assert same_bits(again.error_curve.sizes, sizes)
    assert again.error_curve.check == optional
    assert (again.model, again.warnings, again.versions) == (text, (text,), {text: text})
    assert math.isnan(scalar) == math.isnan(again.error_curve.asymptote)
    assert math.isnan(scalar) or same_bits(again.error_curve.asymptote, scalar)


def test_numpy_scalars_are_written_as_numbers() -> None:
    seven: Any = np.int64(7)
    report = replace(REPORTS["classification"], n_rows=seven, algorithmic_sd=np.float64(0.25))
    again = EnsembleReport.from_json(report.to_json())
    assert (again.n_rows, again.algorithmic_sd) == (7, 0.25)
    assert type(again.n_rows) is int


def changed(path: str, value: Any) -> dict[str, Any]:
    content: dict[str, Any] = copy.deepcopy(REPORTS["classification"].to_dict())
    parent, _, last = path.rpartition(".")
    (content[parent] if parent else content)[last] = value
    return content


WRONG: list[tuple[str, Any]] = [
    ("n_members", "200"), ("n_members", 200.5), ("n_members", True), ("n_members", None), ("n_rows", 2**70),
    ("task", "clustering"), ("task", ["classification"]), ("model", 3), ("algorithmic_sd", "small"),
    ("algorithmic_sd", False), ("algorithmic_sd", 10**400), ("recommendation.is_required", 1),
    ("basis.findings", "one text"), ("basis.findings", [1]), ("versions", []), ("versions", {"numpy": 2}),
    ("error_curve", None), ("error_curve", []), ("error_curve.error", 0.1), ("error_curve.error", ["a"] * 140),
    ("error_curve.sizes", [1.5]), ("error_curve.asymptote_interval", [0.1]), ("error_curve.colour", "blue"),
    ("error_curve.lower", [0.1]), ("recommendation.criterion", "hope"), ("recommendation.interval", [1, "many"]),
    ("recommendation.interval", [9, 3]), ("recommendation.size", 1.5), ("bias_variance.bias", {}),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value"), WRONG)
def test_a_wrong_type_is_refused_by_name(path: str, value: Any) -> None:
    with pytest.raises(InputError, match=path.replace(".", r"\.")):
        report_from_dict(EnsembleReport, changed(path, value))


@pytest.mark.parametrize("path", ["task", "n_members", "error_curve", "error_curve.sizes", "bias_variance.loss"])
def test_a_missing_field_is_named(path: str) -> None:
    content = changed(path, 0)
    parent, _, last = path.rpartition(".")
    del (content[parent] if parent else content)[last]
    with pytest.raises(InputError, match=rf"'{path}' of this report holds nothing".replace(".", r"\.")):
        report_from_dict(EnsembleReport, content)


@pytest.mark.parametrize("version", [0, 2, "1", None, True, 1.0])
def test_an_unknown_schema_is_refused(version: Any) -> None:
    with pytest.raises(InputError, match="schema_version"):
        report_from_dict(EnsembleReport, changed("schema_version", version))


@pytest.mark.parametrize("text", ["{}", "[]", "3", "null", '"report"', "", "{", "<html>"])
def test_text_that_is_no_report_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="not JSON" if text in ("", "{", "<html>") else "not a report"):
        EnsembleReport.from_json(text)


def test_curve_reaches_sizes_up_to_where_it_ends() -> None:
    ending, whole = without_limit().error_curve, REPORTS["classification"].error_curve
    assert ending.reaches(20_001)
    assert not ending.reaches(20_002)
    with pytest.raises(InputError, match="where this curve ends"):
        ending.at(math.inf)
    assert whole.reaches(math.inf)
    for size in (0, -1, math.nan):
        assert not whole.reaches(size)
        with pytest.raises(InputError, match="smallest size of this curve"):
            whole.at(size)
