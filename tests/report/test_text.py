"""A report in words: the summary, the details, and Markdown."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ens_plugin.report.answers import markdown_summary, summarize
from ens_plugin.report.text import error_text, interval_text, member_noun, printable
from tests import reports
from tests.reports import with_doubts

REPORTS = reports.all_reports()


@pytest.mark.parametrize("name", REPORTS)
def test_summary_fits_a_terminal(name: str) -> None:
    lines = REPORTS[name].summary().splitlines()
    assert max(map(len, lines)) <= 80
    assert not [sign for line in lines for sign in line if sign < " " or sign in "\x7f\u202e"]


@pytest.mark.parametrize("name", REPORTS)
def test_the_summary_fits_one_screen_and_has_at_most_four_sizes(name: str) -> None:
    text = REPORTS[name].summary()
    assert len(text.splitlines()) <= 24
    _, _, table = text.partition("\n\n")
    assert 2 <= len(table.splitlines()) <= 5


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


def test_summary_of_a_classification_is_the_answers_and_one_table_of_sizes() -> None:
    assert summarize(REPORTS["classification"]).splitlines() == [
        "RandomForestClassifier, 200 trees",
        "More trees? No. With more, 0.5 % of the labels would change and no accuracy is",
        "            gained.",
        "How good?   95.9 % right on new rows (93.9 to 97.2). Always the commonest label:",
        "            62.7 %.",
        "Trust it?   Yes, if each row is another case: 569 rows, about 74 trees each that",
        "            never saw it; nothing suspicious found.",
        "",
        "  On new rows                                 accuracy             95 % interval",
        "  one tree                                      91.7 %              89.2 to 93.7",
        "  119 trees (recommended)                       95.9 %              93.9 to 97.2",
        "  200 trees (this model)                        95.9 %              93.9 to 97.2",
        "  infinitely many trees                         95.9 %              94.0 to 97.3",
    ]


def test_details_of_a_classification_state_the_rest() -> None:
    text = " ".join(REPORTS["classification"].details().split())
    for part in (
        "With 200 trees, 0.00026 is lost against infinitely many; 0.00047 is allowed, which takes 119 trees.",
        "Enough for trees 95 % interval",
        "99 % of labels as at infinity 59 29 to 119",
        "accuracy within 0.2 points 29 15 to 59",
        "probabilities (Brier score) 119 59 to 239",
        "the same label on 99.46 % of rows",
        "standard deviation of about 0.21 percentage points",
        "Rows used: 569 (out-of-bag)",
        "recorded by the library",
        "majority vote",
    ):
        assert part in text


def test_summary_of_a_regression_is_in_the_unit_of_its_target() -> None:
    text = " ".join(summarize(REPORTS["regression"]).split())
    assert "100 trees (this model) 56.2 52.4 to 59.8" in text
    assert "RMSE 131 110 to 157" in " ".join(REPORTS["regression"].details().split())
    assert "labels" not in text
    assert "percentage points" not in text


@pytest.mark.parametrize(("n_rows", "is_known"), [(30, True), (29, False)])
def test_few_rows_give_no_size(n_rows: int, is_known: bool) -> None:
    report = replace(REPORTS["classification"], n_rows=n_rows)
    for text in (report.summary(), markdown_summary(report)):
        assert ("119 trees (recommended)" in text) is is_known
        assert ("That cannot be told: 29 rows are too few." in text) is not is_known


def test_details_of_a_deviation_that_rounds_to_nothing_state_its_bound_once() -> None:
    report = replace(REPORTS["classification"], algorithmic_sd=1e-7)
    assert "a standard deviation of less than 0.01 percentage points on" in " ".join(report.details().split())


def test_details_show_every_note_in_full() -> None:
    text = " ".join(REPORTS["small_classification"].details().split())
    for warning in REPORTS["small_classification"].warnings:
        assert f"Note: {warning}" in text


def test_a_doubted_report_has_one_answer_and_no_table() -> None:
    doubted = with_doubts(REPORTS["classification"], "Many rows are copies. Name groups.")
    assert markdown_summary(doubted).splitlines() == [
        "**RandomForestClassifier, 200 trees**  ",
        "**Trust it?** Do not use these figures. Many rows are copies. Name groups. &#91;of-adapter&#93;",
    ]
    assert summarize(doubted).splitlines() == [
        "RandomForestClassifier, 200 trees",
        "Trust it?   Do not use these figures. Many rows are copies. Name groups.",
        "            [of-adapter]",
    ]


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
    report = replace(REPORTS["regression"], algorithmic_sd=value)
    words = f"has a standard deviation of about {text} on fresh rows"
    assert words in " ".join(report.details().split())


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
def test_markdown_has_one_table_of_at_most_four_sizes(name: str) -> None:
    report = REPORTS[name]
    _, _, after = markdown_summary(report).partition("| on new rows |")
    rows = after.partition("\n\n")[0].splitlines()[2:]
    labels = [row.split(" | ")[0].strip("| ") for row in rows]
    noun = member_noun(report)
    recommended = f"{report.recommended_size} {noun}s (recommended)"
    others = [label for label in labels if label != recommended]
    assert others == [f"one {noun}", f"{report.n_members} {noun}s (this model)", f"infinitely many {noun}s"]
    assert (recommended in labels) == (report.recommended_size not in (None, 1, report.n_members))
    assert {row.count("|") for row in rows} == {4}


def test_markdown_of_hostile_text_has_no_markup() -> None:
    text = markdown_summary(REPORTS["hostile"])
    body = re.sub(r"\*\*(.*?)\*\*", r"\1", text)
    assert text.count("**") == 8
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
    lines = replace(report, criteria=(wide, *above)).details().splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith("  Enough for ")) + 1
    rows = lines[start : start + 1 + len(above)]
    assert [row.split("more than 20001")[0][-1:] for row in rows] == [" "] * len(rows)
    assert rows[0].endswith("more than 20001  19001 to more than 20001")
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
    details = replace(report, recommendation=found, criteria=(found,)).details()
    assert "probabilities (Brier score) 5 5 only" in " ".join(details.split())


def test_a_report_of_one_tree_has_no_line_for_one_tree() -> None:
    report = replace(reports.classification_report(), n_members=1)
    lines = report.summary().splitlines()
    assert [line.strip().split("  ")[0] for line in lines[lines.index("") + 2 :]] == [
        "1 tree (this model)", "119 trees (recommended)", "infinitely many trees",
    ]  # fmt: skip
