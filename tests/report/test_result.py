"""The report object: reading it, summing it up, and taking it apart and back together."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace
from html import escape
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ens_plugin import EnsembleReport
from ens_plugin.errors import InputError
from ens_plugin.report import (
    error_text,
    gain_sentence,
    interval_text,
    markdown_summary,
    printable,
    report_from_dict,
    summarize,
    verdict,
)
from tests import reports

REPORTS = reports.all_reports()

finite = st.floats(allow_nan=False, allow_infinity=False)
anything = st.floats()


def same_bits(one: Any, other: Any) -> bool:
    return np.asarray(one).tobytes() == np.asarray(other).tobytes() and np.asarray(one).dtype == np.asarray(other).dtype


# ------------------------------------------------------------------------------------ reading


def test_error_at_the_current_size_lies_inside_its_interval() -> None:
    report = REPORTS["classification"]
    low, high = report.error_interval
    assert low < report.error < high
    assert report.error == pytest.approx(report.bias_variance.ensemble_error)


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


@pytest.mark.parametrize("size", [201, math.inf])
def test_sizes_beyond_a_curve_without_asymptote_are_refused(size: float) -> None:
    with pytest.raises(InputError, match="estimator='path'"):
        REPORTS["path"].error_curve.at(size)


def test_to_frame_holds_the_curve() -> None:
    curve = REPORTS["classification"].error_curve
    frame = curve.to_frame()
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == ["size", "error", "lower", "upper"]
    assert same_bits(frame["error"].to_numpy(), curve.error)


def test_metrics_of_a_classification() -> None:
    report = REPORTS["classification"]
    metrics = report.metrics()
    assert metrics["recommended_size"] == 59
    assert metrics["size_capped"] == 0
    assert metrics["excess_error"] == pytest.approx(report.error - report.error_curve.asymptote)
    assert all(type(value) is float and math.isfinite(value) for value in metrics.values())


def test_metrics_of_a_capped_size_hold_the_largest_size() -> None:
    metrics = REPORTS["capped"].metrics()
    assert (metrics["recommended_size"], metrics["size_capped"]) == (20_001, 1)


def test_metrics_leave_out_what_is_not_defined() -> None:
    assert "agreement" not in REPORTS["regression"].metrics()
    assert not {"asymptotic_error", "excess_error"} & REPORTS["path"].metrics().keys()


# -------------------------------------------------------------------------- there and back


@pytest.mark.parametrize("name", REPORTS)
def test_json_round_trip_is_exact(name: str) -> None:
    report = REPORTS[name]
    again = EnsembleReport.from_json(report.to_json())
    assert again.to_json() == report.to_json()
    for field in ("sizes", "error", "lower", "upper"):
        assert same_bits(getattr(again.error_curve, field), getattr(report.error_curve, field))
    assert same_bits(again.recommendation.values, report.recommendation.values)
    assert again.warnings == report.warnings
    assert again.versions == report.versions
    assert again.recommendation.interval == report.recommendation.interval
    assert isinstance(again.recommendation.interval, tuple)


def test_json_is_strict_and_names_its_schema() -> None:
    text = REPORTS["path"].to_json()
    assert "NaN" not in text
    assert json.loads(text)["schema_version"] == 1
    assert json.loads(text)["error_curve"]["asymptote"] is None


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
    changed = replace(report, error_curve=curve, model=text, warnings=(text,), versions={text: text})
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
    *parents, last = path.split(".")
    place = content
    for key in parents:
        place = place[key]
    place[last] = value
    return content


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("n_members", "200"),
        ("n_members", 200.5),
        ("n_members", True),
        ("n_members", None),
        ("n_rows", 2**70),
        ("task", "clustering"),
        ("task", ["classification"]),
        ("model", 3),
        ("algorithmic_sd", "small"),
        ("algorithmic_sd", False),
        ("algorithmic_sd", 10**400),
        ("algorithmic_sd_is_bound", 1),
        ("warnings", "one text"),
        ("warnings", [1]),
        ("versions", []),
        ("versions", {"numpy": 2}),
        ("error_curve", None),
        ("error_curve", []),
        ("error_curve.error", 0.1),
        ("error_curve.error", ["a"] * 140),
        ("error_curve.sizes", [1.5]),
        ("error_curve.asymptote_interval", [0.1]),
        ("recommendation.criterion", "hope"),
        ("recommendation.interval", [1, "many"]),
        ("recommendation.size", 1.5),
        ("bias_variance.bias", {}),
    ],
)
def test_a_wrong_type_is_refused_by_name(path: str, value: Any) -> None:
    with pytest.raises(InputError, match=path.replace(".", r"\.")):
        report_from_dict(EnsembleReport, changed(path, value))


@pytest.mark.parametrize("path", ["task", "n_members", "error_curve", "error_curve.sizes", "bias_variance.loss"])
def test_a_missing_field_is_named(path: str) -> None:
    content = changed(path, 0)
    *parents, last = path.split(".")
    place = content
    for key in parents:
        place = place[key]
    del place[last]
    with pytest.raises(InputError, match=rf"'{path}' of this report is missing".replace(".", r"\.")):
        report_from_dict(EnsembleReport, content)


def test_a_report_without_the_sizes_that_tie_is_read_as_one_whose_every_size_is_its_own() -> None:
    content = copy.deepcopy(REPORTS["classification"].to_dict())
    del content["error_curve"]["ties_to"]
    assert report_from_dict(EnsembleReport, content).error_curve.ties_to == 0


def test_an_unknown_field_is_named() -> None:
    with pytest.raises(InputError, match=r"'error_curve\.colour' is not part"):
        report_from_dict(EnsembleReport, changed("error_curve.colour", "blue"))


def test_arrays_of_different_length_are_refused() -> None:
    with pytest.raises(InputError, match="'lower' has 1"):
        report_from_dict(EnsembleReport, changed("error_curve.lower", [0.1]))


@pytest.mark.parametrize("version", [0, 2, "1", None, True, 1.0])
def test_an_unknown_schema_is_refused(version: Any) -> None:
    with pytest.raises(InputError, match="schema_version"):
        report_from_dict(EnsembleReport, changed("schema_version", version))


@pytest.mark.parametrize("text", ["{}", "[]", "3", "null", '"report"'])
def test_json_that_is_no_report_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="not a report"):
        EnsembleReport.from_json(text)


@pytest.mark.parametrize("text", ["", "{", "<html>"])
def test_text_that_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="not JSON"):
        EnsembleReport.from_json(text)


# ------------------------------------------------------------------------------------ in words


@pytest.mark.parametrize("name", REPORTS)
def test_summary_fits_a_terminal(name: str) -> None:
    lines = REPORTS[name].summary().splitlines()
    assert max(map(len, lines)) <= 80
    assert not [sign for line in lines for sign in line if sign < " " or sign in "\x7f\u202e"]


def test_summary_of_a_classification_says_everything() -> None:
    text = " ".join(summarize(REPORTS["classification"]).split())
    for part in (
        "RandomForestClassifier: 200 members are enough. With 59, the 0-1 error would be 4.17 % instead of 4.10 %.",
        "Expected 0-1 error on fresh rows, with 95 % interval:",
        "one member 8.26 %",
        "200 members (this ensemble) 4.10 % 2.76 to 6.07 %",
        "infinitely many members 4.08 %",
        "Recommended size: 59 members (95 % interval 29 to 119), for 99 % agreement",
        "the same label on 99.46 % of rows",
        "standard deviation of at most 0.21 percentage points",
        "569 out-of-bag rows",
        "recorded by the library",
        "majority vote",
    ):
        assert part in text


def test_summary_of_a_regression_is_in_its_own_unit() -> None:
    text = " ".join(summarize(REPORTS["regression"]).split())
    assert "100 members (this ensemble) 3161 2751 to 3571" in text
    assert "for an error at most 1 % above" in text
    assert "same label" not in text
    assert "percentage points" not in text


@pytest.mark.parametrize(("n_rows", "is_known"), [(30, True), (29, False)])
def test_few_rows_give_no_size(n_rows: int, is_known: bool) -> None:
    report = replace(REPORTS["classification"], n_rows=n_rows)
    assert verdict(report).endswith("rows are too few to tell whether 200 members are enough.") is not is_known
    for text in (report.summary(), markdown_summary(report)):
        assert ("Recommended size:" in text) is is_known
        assert ("A guess at the size, not to be acted on:" in text) is not is_known
        assert ("59 members (recommended)" in text) is is_known
        assert ("59 members (a guess)" in text) is not is_known


def test_summary_says_at_most_only_for_a_bound() -> None:
    assert "of at most 0.21" in " ".join(summarize(REPORTS["classification"]).split())
    assert "of at most" not in " ".join(summarize(REPORTS["custom_metric"]).split())


def test_summary_says_where_the_curve_ends() -> None:
    text = " ".join(summarize(REPORTS["hypergeometric"]).split())
    assert "55 members (of 200: the curve ends) 4.18 %" in text
    assert "infinitely many members not estimated" in text


def test_summary_shows_every_warning() -> None:
    text = " ".join(summarize(REPORTS["small_classification"]).split())
    for warning in REPORTS["small_classification"].warnings:
        assert f"Warning: {warning}" in text


@pytest.mark.parametrize(
    ("n_members", "size", "interval", "words", "price"),
    [
        (10, 59, (29, 119), "10 members are too few for 99 % agreement: about 59 are needed.", "instead of 4.64 %."),
        (40, 59, (29, 119), "40 members are perhaps too few for 99 % agreement: about 59", "instead of 4.22 %."),
        (59, 59, (29, 119), "59 members are just enough.", ""),
        (60, 59, (29, 119), "60 members are probably enough: about 59 are needed.", "4.17 % too."),
        (500, 59, (29, None), "500 members are probably enough: about 59 are needed.", "instead of 4.09 %."),
        (119, 59, (29, 119), "119 members are enough.", "With 59, the 0-1 error would be 4.17 % instead of 4.12 %."),
        (10, None, (29, None), "10 members are too few for 99 % agreement, and even 20001 would be.", ""),
        (1, 3, (3, 5), "1 member is too few for 99 % agreement: about 3 are needed.", "instead of 8.26 %."),
    ],
)
def test_verdict(n_members: int, size: int | None, interval: tuple[int, int | None], words: str, price: str) -> None:
    report = REPORTS["classification"]
    recommendation = replace(report.recommendation, size=size, interval=interval)
    found = verdict(replace(report, n_members=n_members, recommendation=recommendation))
    assert found.startswith(words)
    assert found.endswith(price or words)


def test_verdict_names_the_demand_of_a_regression() -> None:
    report = REPORTS["regression"]
    recommendation = replace(report.recommendation, size=59, interval=(29, 119))
    words = verdict(replace(report, n_members=10, recommendation=recommendation))
    assert words.startswith("10 members are too few for an error within 1 % of the limit: about 59 are needed.")


def test_gain_of_a_rising_and_of_a_falling_curve() -> None:
    assert "would lower" in gain_sentence(REPORTS["classification"])
    assert "would raise" in gain_sentence(REPORTS["rising"])
    assert "would leave the 0-1 error at 0.00 %" in gain_sentence(REPORTS["perfect"])
    assert gain_sentence(REPORTS["path"]) == ""


@pytest.mark.parametrize(
    ("value", "metric", "text"),
    [
        (0.0408, "0-1 error", "4.08 %"),
        (0.0, "0-1 error", "0.00 %"),
        (1e-5, "0-1 error", "<0.01 %"),
        (1.0, "0-1 loss", "100.00 %"),
        (3160.8, "mean squared error", "3161"),
        (0.0021, "log_loss", "0.0021"),
        (math.nan, "0-1 error", "not estimated"),
    ],
)
def test_error_text(value: float, metric: str, text: str) -> None:
    assert error_text(value, metric) == text


def test_interval_text_without_an_interval() -> None:
    assert interval_text((math.nan, 0.1), "0-1 error") == "not estimated"


@given(text=st.text())
def test_printable_text_is_one_safe_line(text: str) -> None:
    shown = printable(text, 30)
    assert len(shown) <= 30
    assert len(shown.splitlines()) <= 1
    assert shown.isprintable() or not any(sign < " " or sign == "\x7f" for sign in shown)


def test_curve_reaches_sizes_up_to_where_it_ends() -> None:
    path, whole = REPORTS["path"].error_curve, REPORTS["classification"].error_curve
    assert path.reaches(200)
    assert not path.reaches(201)
    assert whole.reaches(math.inf)
    assert not whole.reaches(0)


@pytest.mark.parametrize("name", REPORTS)
def test_markdown_has_one_table_of_three_columns(name: str) -> None:
    report = REPORTS[name]
    first = markdown_summary(report).partition("\n\n| criterion")[0]
    rows = [line for line in first.splitlines() if line.startswith("|")]
    labels = [row.split(" | ")[0].strip("| ") for row in rows[2:]]
    recommended = f"{report.recommended_size} members (recommended)"
    others = [label for label in labels if label != recommended]
    assert others[0] == "one member"
    assert str(report.n_members) in others[1]
    assert others[2:] == ["infinitely many members"]
    differs = report.recommended_size not in (None, 1, report.n_members)
    assert (recommended in labels) == (differs and report.error_curve.reaches(report.recommended_size or 0))
    assert {row.count("|") for row in rows} == {4}


def test_markdown_of_hostile_text_has_no_markup() -> None:
    text = markdown_summary(REPORTS["hostile"])
    body = text.replace("**", "", 2)
    assert not set("<>`*_[]\\$~") & set(body)
    assert "&#60;script&#62;" in text


def test_representations_are_short_or_the_summary() -> None:
    report = REPORTS["classification"]
    assert repr(report).startswith("EnsembleReport(")
    assert len(repr(report)) < 160
    assert str(report) == report.summary()
    assert report._repr_html_() == f"<pre>{escape(report.summary())}</pre>"
    assert "<script>" not in REPORTS["hostile"]._repr_html_()
