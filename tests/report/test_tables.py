"""Tables of a report as text: errors by label and the confusion matrix."""

from __future__ import annotations

from dataclasses import replace

from ens_plugin import EnsembleReport
from ens_plugin.report.answers import markdown_summary
from ens_plugin.report.html import render_page
from ens_plugin.report.result import LabelErrors
from ens_plugin.report.text import label_table
from tests.reports import classification_report


def report_with(n_labels: int) -> EnsembleReport:
    """A report whose label k has an error of k per mille, and the name `label k`."""
    found = tuple(
        LabelErrors(f"label {code}", code / 1000, (0.0, 0.5), code / 2000, 0.0, (1,) * n_labels)
        for code in range(n_labels)
    )
    return replace(classification_report(), label_errors=found)


def test_few_labels_are_listed_in_their_order_with_their_matrix() -> None:
    text = report_with(3).details()
    lines = text.splitlines()
    start = lines.index("Right by label:")
    assert [line.split()[:2] for line in lines[start + 2 : start + 5]] == [["label", str(code)] for code in range(3)]
    assert "99.80 %" in lines[start + 4]
    assert "Rows by label (down) and by the label of their out-of-bag trees (across):" in lines
    assert max(map(len, lines)) <= 80


def test_of_many_labels_those_with_the_largest_errors_are_listed() -> None:
    report = report_with(26)
    assert [row[0] for row in label_table(report, 3).rows] == ["label 25", "label 24", "label 23"]
    text = report.details()
    assert "16 more labels have smaller errors" in text
    assert "Rows by label" not in text
    assert max(map(len, text.splitlines())) <= 80


def report_with_rows(*n_rows: int) -> EnsembleReport:
    """A report whose first label has no error at another size, with so many rows by label."""
    report, nan = report_with(len(n_rows)), float("nan")
    labels = [
        replace(found, predicted=(rows, *[0] * (len(n_rows) - 1)))
        for found, rows in zip(report.label_errors, n_rows, strict=True)
    ]
    return replace(report, label_errors=(replace(labels[0], recommended_error=nan, asymptote=nan), *labels[1:]))


FEW_ROWS = "with fewer than 30 independent rows of equal weight"
DASH = "That is too few for the error at another size, which is shown as a dash."


def test_unknown_errors_are_dashes_that_every_surface_explains() -> None:
    report = report_with_rows(29, 500)
    assert [row[-1] for row in label_table(report, 10).rows] == ["-", "99.95 %"]
    for text in (report.details(), markdown_summary(report), render_page(report)):
        words = " ".join(text.replace("\xa0", " ").split())
        assert FEW_ROWS in words
        assert DASH in words
    assert max(map(len, report.details().splitlines())) <= 80


def test_only_dashes_that_are_shown_are_explained() -> None:
    report = report_with_rows(29, 500, 500)
    assert not any(FEW_ROWS in note for note in label_table(report, 2).notes)
    assert len(label_table(report, 3).notes) == 1
    assert label_table(report_with(2), 10).notes == []


def test_without_a_recommended_size_there_is_no_column_for_it() -> None:
    report = report_with_rows(29, 500)
    sizeless = replace(report, recommendation=replace(report.recommendation, size=None))
    assert "| label | rows | right | 95 % interval |\n" in markdown_summary(sizeless)
    page = render_page(sizeless)
    assert page.count("<th>right with") == 0 < render_page(report).count("<th>right with")
    for text in (sizeless.details(), markdown_summary(sizeless), page):
        words = " ".join(text.split())
        assert FEW_ROWS in words
        assert DASH not in words


def test_long_labels_that_begin_alike_stay_distinct() -> None:
    begin = "the same beginning of every label, "
    labels = [f"{begin}first", f"{begin}second", "short"]
    report = report_with(3)
    named = [replace(found, label=label) for found, label in zip(report.label_errors, labels, strict=True)]
    report = replace(report, label_errors=tuple(named))
    shown = [row[0] for row in label_table(report, 10).rows]
    assert shown == ["the same…, first", "the same… second", "short"]
    assert max(map(len, report.details().splitlines())) <= 80
