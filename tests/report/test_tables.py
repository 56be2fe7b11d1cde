"""Tables of a report as text: errors by label and the confusion matrix."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ens_plugin import EnsembleReport
from ens_plugin.report import LabelErrors, label_rows, markdown_summary, render_page
from tests.reports import classification_report


def report_with(n_labels: int) -> EnsembleReport:
    """A report whose label k has an error of k per mille, and the name `label k`."""
    found = tuple(
        LabelErrors(f"label {code}", code / 1000, (0.0, 0.5), code / 2000, 0.0, (1,) * n_labels)
        for code in range(n_labels)
    )
    return replace(classification_report(), label_errors=found)


def test_few_labels_are_listed_in_their_order_with_their_matrix() -> None:
    text = report_with(3).summary()
    lines = text.splitlines()
    start = lines.index("Error by label:")
    assert [line.split()[:2] for line in lines[start + 2 : start + 5]] == [["label", str(code)] for code in range(3)]
    assert "0.20 %" in lines[start + 4]
    assert "Rows by label (down) and by the label of their out-of-bag members (across):" in lines
    assert max(map(len, lines)) <= 80


def test_of_many_labels_those_with_the_largest_errors_are_listed() -> None:
    report = report_with(26)
    assert [row.label for row in label_rows(report, 3)] == ["label 25", "label 24", "label 23"]
    text = report.summary()
    assert "16 more labels have smaller errors" in text
    assert "Rows by label" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_unknown_errors_are_dashes() -> None:
    report = report_with(2)
    unknown = replace(report.label_errors[0], recommended_error=float("nan"), asymptote=float("nan"))
    assert label_rows(replace(report, label_errors=(unknown, report.label_errors[1])), 10)[0].recommended == "-"


@pytest.mark.parametrize("render", [markdown_summary, render_page])
def test_names_of_labels_are_no_markup(render: object) -> None:
    report = report_with(2)
    hostile = replace(report.label_errors[0], label="<b>|x")
    text = render(replace(report, label_errors=(hostile, report.label_errors[1])))  # type: ignore[operator]
    assert "<b>" not in text
    assert "|x" not in text.replace("&#124;", "") or render is render_page


@pytest.mark.slow
def test_reports_without_labels_have_no_table() -> None:
    report = replace(classification_report(), label_errors=())
    assert "Error by label" not in report.summary()
    assert "Label by label" not in render_page(report)
