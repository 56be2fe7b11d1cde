"""A report in words: the summary, the verdict, and Markdown."""

from __future__ import annotations

import math
from dataclasses import replace
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ens_plugin.report import error_text, gain_sentence, interval_text, markdown_summary, printable, summarize, verdict
from ens_plugin.report.text import member_noun
from tests import reports
from tests.reports import with_doubts, with_notes

REPORTS = reports.all_reports()


@pytest.mark.parametrize("name", REPORTS)
def test_summary_fits_a_terminal(name: str) -> None:
    lines = REPORTS[name].summary().splitlines()
    assert max(map(len, lines)) <= 80
    assert not [sign for line in lines for sign in line if sign < " " or sign in "\x7f\u202e"]


@pytest.mark.parametrize("name", REPORTS)
def test_the_summary_fits_one_screen_and_points_to_the_details(name: str) -> None:
    lines = REPORTS[name].summary().splitlines()
    assert len(lines) <= 24
    assert "report.details()" in " ".join(lines[-3:])


def test_the_summary_of_many_outputs_fits_one_screen_and_the_details_have_more_of_them() -> None:
    part = REPORTS["regression"]
    report = replace(part, outputs={f"output {place}": part for place in range(40)})
    assert len(report.summary().splitlines()) <= 24
    assert "output 3" in report.summary()
    assert "36 more are in the attribute outputs." in report.summary()
    assert "output 29" in report.details()
    assert "10 more are in the attribute outputs." in report.details()


def test_details_fit_a_terminal() -> None:
    for report in REPORTS.values():
        assert max(map(len, report.details().splitlines())) <= 80


def test_summary_of_a_classification_states_the_verdict_the_accuracy_and_the_sizes() -> None:
    text = " ".join(summarize(REPORTS["classification"]).split())
    for part in (
        "RandomForestClassifier: 200 trees are far more than needed for 99 % of the labels: 59 are enough. Accuracy on "
        "new rows: 95.9 % with 200, 95.8 % with 59.",
        "On new rows accuracy 95 % interval",
        "one tree 91.74 %",
        "200 trees (this model) 95.90 % 93.93 to 97.24 %",
        "infinitely many trees (limit) 95.92 %",
        "99 % of labels as at limit 59 29 to 119",
        "569 out-of-bag rows",
    ):
        assert part in text


def test_details_of_a_classification_state_the_rest() -> None:
    text = " ".join(REPORTS["classification"].details().split())
    for part in (
        "Recommended size: 59 trees (95 % interval 29 to 119), for 99 % agreement",
        "the same label on 99.46 % of rows",
        "standard deviation of at most 0.21 percentage points",
        "569 out-of-bag rows",
        "recorded by the library",
        "majority vote",
    ):
        assert part in text


def test_summary_of_a_regression_is_in_the_unit_of_its_target() -> None:
    text = " ".join(summarize(REPORTS["regression"]).split())
    assert "100 trees (this model) 56.22 52.45 to 59.76" in text
    assert "mean squared error 1 % above limit" in text
    assert "labels" not in text
    assert "percentage points" not in text


@pytest.mark.parametrize(("n_rows", "is_known"), [(30, True), (29, False)])
def test_few_rows_give_no_size(n_rows: int, is_known: bool) -> None:
    report = replace(REPORTS["classification"], n_rows=n_rows)
    assert verdict(report).endswith("rows are too few to decide whether 200 trees are enough.") is not is_known
    for text in (report.details(), markdown_summary(report)):
        assert ("Recommended size:" in text) is is_known
        assert ("A guess at the size, not to be acted on:" in text) is not is_known
    for text in (report.summary(), markdown_summary(report)):
        assert ("59 trees (recommended)" in text) is is_known
        assert ("59 trees (a guess)" in text) is not is_known


def test_summary_states_at_most_only_for_a_bound() -> None:
    assert "of at most 0.21" in " ".join(REPORTS["classification"].details().split())
    assert "of at most" not in " ".join(REPORTS["custom_metric"].details().split())


def test_summary_of_a_deviation_that_rounds_to_nothing_states_its_bound_once() -> None:
    for report in (REPORTS["classification"], replace(REPORTS["classification"], algorithmic_sd_is_bound=False)):
        text = " ".join(replace(report, algorithmic_sd=1e-7).details().split())
        assert "a standard deviation of less than 0.01 percentage points on" in text


def test_summary_states_where_the_curve_ends() -> None:
    text = " ".join(summarize(REPORTS["short"]).split())
    assert "55 trees (of 200: the curve ends) 95.82 %" in text
    assert "infinitely many trees (limit) not estimated" in text


def test_details_show_every_warning_in_full() -> None:
    text = " ".join(REPORTS["small_classification"].details().split())
    for warning in REPORTS["small_classification"].warnings:
        assert f"Warning: {warning}" in text


def test_the_summary_has_the_first_sentence_of_each_warning_and_counts_those_that_do_not_fit() -> None:
    notes = [f"Thing {place} is odd. What to do about it takes a few more words." for place in range(12)]
    lines = summarize(with_notes(REPORTS["classification"], *notes)).splitlines()
    assert len(lines) == 24
    assert "Warning: Thing 0 is odd. [unnamed-note]" in lines
    shown = sum(line.startswith("Warning: ") for line in lines)
    assert f"{12 - shown} warnings more: report.details()" in lines


def test_only_the_headline_of_a_doubted_report_is_bold_in_markdown() -> None:
    report = REPORTS["classification"]
    doubted = with_doubts(report, "Many rows are copies. Name groups.")
    assert markdown_summary(doubted).splitlines()[0] == (
        "**RandomForestClassifier: do not rely on these figures.** Many rows are copies. Name groups. "
        "&#91;unnamed-doubt&#93;"
    )
    assert "do not rely on these figures. Many rows are copies. Name groups." in " ".join(summarize(doubted).split())


def test_gain_of_a_rising_and_of_a_falling_curve() -> None:
    assert "would lower" in gain_sentence(REPORTS["classification"])
    assert "would raise" in gain_sentence(REPORTS["rising"])
    assert "would leave the 0-1 error at 0.00 %" in gain_sentence(REPORTS["perfect"])
    assert gain_sentence(REPORTS["path"]) == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.00110998, "0.0011"),
        (0.1, "0.10"),
        (0.0, "0"),
        (1.26e-7, "1.3e-07"),
        (9.96, "10"),
        (10.2, "10"),
        (99.96, "100"),
        (3160.8, "3200"),
    ],
)
def test_a_spread_over_seeds_has_two_digits(value: float, text: str) -> None:
    report = replace(REPORTS["regression"], algorithmic_sd=value, algorithmic_sd_is_bound=False)
    for found in (report.details(), markdown_summary(report)):
        assert f"has a standard deviation of about {text} on fresh rows" in " ".join(found.split())
    assert f'<div class="value">{text}</div>' in report.to_html()


@pytest.mark.parametrize(
    ("value", "metric", "text"),
    [
        (0.0408, "0-1 error", "4.08 %"),
        (0.0, "0-1 error", "0.00 %"),
        (1e-5, "0-1 error", "<0.01 %"),
        (1.0, "0-1 loss", "100.00 %"),
        (3160.8, "mean squared error", "3161"),
        (0.0021, "log_loss", "0.002100"),
        (55.0, "mean squared error", "55.00"),
        (0.0, "mean squared error", "0"),
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


@pytest.mark.parametrize("name", REPORTS)
def test_markdown_has_one_table_of_three_columns(name: str) -> None:
    report = REPORTS[name]
    first = markdown_summary(report).partition("\n\n| needed for")[0]
    rows = [line for line in first.splitlines() if line.startswith("|")]
    labels = [row.split(" | ")[0].strip("| ") for row in rows[2:]]
    noun = member_noun(report)
    recommended = f"{report.recommended_size} {noun}s (recommended)"
    others = [label for label in labels if label != recommended]
    assert others[0] == f"one {noun}"
    assert str(report.n_members) in others[1]
    assert others[2:] == [f"infinitely many {noun}s (limit)"]
    differs = report.recommended_size not in (None, 1, report.n_members)
    assert (recommended in labels) == (differs and report.error_curve.reaches(report.recommended_size or 0))
    assert {row.count("|") for row in rows} == {4}


def test_markdown_of_hostile_text_has_no_markup() -> None:
    text = markdown_summary(REPORTS["hostile"])
    body = text.replace("**", "", 2)
    assert not set("<>`*_[]\\$~") & set(body)
    assert "&#60;script&#62;" in text


def test_the_name_of_a_metric_is_no_markup_in_the_table_of_criteria() -> None:
    report = reports.score_report()
    name = "a|b*c*`d`<i>"
    found = replace(report.recommendation, of_metric=name)
    named = replace(report, criteria=(found, found))
    assert "a&#124;b&#42;c&#42;" in markdown_summary(named)
    assert name not in markdown_summary(named)


@pytest.mark.slow
def test_representations_are_short_or_the_summary() -> None:
    report = REPORTS["classification"]
    assert repr(report).startswith("EnsembleReport(")
    assert len(repr(report)) < 160
    assert str(report) == report.summary()
    assert report.summary() in unescape(report._repr_html_()).replace("\xa0%", " %")
    assert "<script>" not in REPORTS["hostile"]._repr_html_()


def test_columns_of_sizes_stay_apart_where_no_size_is_large_enough() -> None:
    report = reports.score_report()
    above = [replace(found, size=None, interval=(found.max_size, None)) for found in report.criteria]
    wide = replace(report.criteria[0], size=None, interval=(19_001, None))
    lines = summarize(replace(report, criteria=(wide, *above))).splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("  Needed for ")) + 1
    rows = lines[start : start + 1 + len(above)]
    assert [row.split("more than 20001")[0][-1:] for row in rows] == [" "] * len(rows)
    assert rows[0].endswith("uncertain  19001 to more than 20001")
    assert max(map(len, lines)) <= 80


def test_shares_that_rounding_left_below_0_have_no_sign() -> None:
    assert interval_text((-1e-9, 0.7122), "0-1 error") == "0.00 to 71.22 %"


def test_bias_of_another_loss_than_the_metric_is_named_in_its_line() -> None:
    text = " ".join(reports.score_report().details().split())
    assert "(of the 0-1 error, not of roc_auc)" in text
    assert "not of" not in reports.classification_report().details()


def test_an_interval_of_one_size_is_not_written_as_a_range() -> None:
    report = reports.classification_report()
    found = replace(report.recommendation, size=5, interval=(5, 5))
    assert "95 % interval 5 only" in " ".join(replace(report, recommendation=found).details().split())
