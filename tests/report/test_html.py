"""The HTML page: self-contained, safe with any text, the same every time."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from ens_plugin.errors import InputError
from ens_plugin.report.html import render_page
from ens_plugin.report.text import measure_text
from tests import reports
from tests.project.test_package import run_python
from tests.reports import with_doubts

REPORTS = reports.all_reports()


@cache
def page(name: str) -> str:
    return render_page(REPORTS[name])


ALLOWED_TAGS = {
    "html", "head", "meta", "title", "style", "body", "main", "section", "figure", "details", "summary", "figcaption",
    "div", "p", "h1", "h2", "h3", "ul", "li", "dl", "dt", "dd", "bdi", "table", "tr", "th", "td", "wbr", "svg", "g",
    "path", "rect", "text",
}  # fmt: skip
ALLOWED_ATTRIBUTES = {
    "lang", "charset", "name", "content", "class", "style", "d", "x", "y", "width", "height", "viewbox", "role",
    "aria-label", "text-anchor",
}  # fmt: skip
VOID = {"meta", "wbr"}


class Outline(HTMLParser):
    """Collects tags, attributes, ids and text, and checks that tags nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.values: list[str] = []
        self.text: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.values += [value or "" for _, value in attrs]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


each_kind = pytest.mark.fast_cases("classification", "regression", "hostile")


@each_kind
@pytest.mark.parametrize("name", REPORTS)
def test_page_holds_known_tags_and_attributes_only(name: str) -> None:
    outline = Outline(page(name))
    assert outline.tags <= ALLOWED_TAGS
    assert outline.attributes <= ALLOWED_ATTRIBUTES


@each_kind
@pytest.mark.parametrize("name", REPORTS)
def test_page_has_no_scripts_links_or_anything_to_load(name: str) -> None:
    text = page(name).lower()
    for forbidden in ("<script", "<a ", "<img", "<link", "<iframe", "<object", "@import", "<?xml", "<!entity"):
        assert forbidden not in text
    # Escaped text may contain anything; what counts is what a browser acts on.
    outline = Outline(page(name))
    assert not {"href", "xlink:href", "src", "action", "onerror", "onload"} & outline.attributes
    assert not [value for value in outline.values if "javascript:" in value or "://" in value]
    assert "url(" not in text


def test_hostile_strings_arrive_as_text() -> None:
    outline = Outline(page("hostile"))
    shown = " ".join(" ".join(outline.text).split())
    for text in (
        "<script>alert(1)</script>",
        "<img src=http://evil.example/x onerror='alert(1)'>",
        "{{ 7*7 }} {% raw %}",
    ):
        assert text in shown
    assert "49" not in re.findall(r"\b49\b", shown)
    assert not [sign for sign in page("hostile") if (sign < " " and sign != "\n") or sign in "\u202e\x7f"]


def test_ten_kilobytes_of_warning_are_cut_visibly() -> None:
    assert "x" * 1001 not in page("hostile")
    assert "x…" in page("hostile")


def test_lone_surrogates_can_be_written(tmp_path: Path) -> None:
    path = replace(REPORTS["perfect"], model="half \ud83d pair").to_html(tmp_path / "report.html")
    assert "half \ufffd pair" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["classification", "regression", "score"])
def test_a_pointer_over_the_chart_reads_the_values_of_the_report(name: str) -> None:
    report = REPORTS[name]
    tips = re.findall(r"<rect [^>]*><title>([^<]*)</title></rect>", page(name))
    now = f"{report.n_members} trees\n{measure_text(report, report.error)} ("
    assert len(tips) > 100
    assert any(tip.replace("\xa0", " ").startswith(now) for tip in tips)


def test_the_confusion_matrix_is_shaded_by_the_share_of_each_label() -> None:
    rows = re.findall(r"<tr><td><bdi>[^<]*</bdi></td>(<td class=\"heat.*?)</tr>", page("classification"))
    shades = [list(map(int, re.findall(r"heat-(\d)", row))) for row in rows]
    errors = REPORTS["classification"].label_errors
    assert shades == [[round(9 * (count / found.n_rows) ** 0.5) for count in found.predicted] for found in errors]


def test_page_cards_and_comparisons_need_no_matplotlib(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(REPORTS["classification"].to_json(), encoding="utf-8")
    code = """
import sys
sys.modules["matplotlib"] = None
import ens_plugin
report = ens_plugin.EnsembleReport.from_json(open("report.json").read())
found = [report.to_html(), report._repr_html_(), ens_plugin.compare({"a": report, "b": report})._repr_html_()]
print([text.count("<svg ") for text in found])
"""
    assert run_python(code, tmp_path) == "[4, 2, 2]"


@pytest.mark.fast_cases("29-False")
@pytest.mark.parametrize(("n_rows", "is_known"), [(30, True), (29, False)])
def test_a_size_from_few_rows_is_called_a_guess(n_rows: int, is_known: bool) -> None:
    report = replace(REPORTS["classification"], n_rows=n_rows)
    picture = render_page(report)
    assert ("recommended 119" in picture) is is_known
    assert ("guessed 119" in picture) is not is_known


def test_page_is_the_same_every_time() -> None:
    assert render_page(reports.classification_report()) == page("classification")


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    paths: dict[Any, str] = {
        tmp_path / "missing" / "report.html": r"missing.*does not exist",
        tmp_path: "is a directory",
        3: "path is of type int; pass the name of a file",
    }
    for path, message in paths.items():
        with pytest.raises(InputError, match=message):
            REPORTS["perfect"].to_html(path)
    assert os.listdir(tmp_path) == []


def test_a_doubt_is_the_title_and_the_only_answer() -> None:
    doubted = render_page(with_doubts(REPORTS["classification"], "Many rows are copies. Name groups."))
    assert "<title>RandomForestClassifier: Do not use these figures.</title>" in doubted
    assert doubted.count("<dt>Trust it?</dt>") == 1
    assert "<dd><bdi>Do not use these figures. Many rows are copies. Name groups. [of-adapter]</bdi></dd>" in doubted
    assert "How good?" not in doubted
    assert "<svg " not in doubted
    assert "recommended" not in "".join(Outline(doubted).text)
