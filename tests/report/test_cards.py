"""The cards of notebooks: what they hold, safe with any text, each with ids of its own."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest

import ens_plugin
from ens_plugin import EnsembleReport
from ens_plugin.report.result import LabelErrors
from tests import reports
from tests.report.test_html import ALLOWED_ATTRIBUTES, ALLOWED_TAGS, Outline
from tests.reports import with_doubts, with_notes

REPORTS = reports.all_reports()
TAGS = ALLOWED_TAGS | {"details", "summary", "table", "tr", "th", "td", "pre", "strong"}
ATTRIBUTES = ALLOWED_ATTRIBUTES | {"hidden"}


def labelled() -> EnsembleReport:
    errors = (
        LabelErrors("<script>alert(1)</script>", 0.1, (0.05, 0.2), 0.1, 0.1, (90, 10)),
        LabelErrors("b", 0.2, (0.1, 0.3), 0.2, 0.2, (20, 80)),
    )
    return replace(REPORTS["classification"], label_errors=errors)


def several_outputs() -> EnsembleReport:
    named = {"<script>alert(2)</script>": REPORTS["classification"], "other": REPORTS["rising"]}
    return replace(REPORTS["classification"], outputs=named)


def doubted() -> EnsembleReport:
    doubts = ("Only 3 rows of label <b>rare</b> are out of bag.", "The second doubt is <i>here</i>.")
    return with_notes(with_doubts(REPORTS["classification"], *doubts), "A warning.")


SHOWN = {**REPORTS, "labelled": labelled(), "several outputs": several_outputs(), "doubted": doubted()}


@cache
def card_of(name: str) -> str:
    return SHOWN[name]._repr_html_()


@pytest.mark.fast_cases("classification", "regression", "hostile", "labelled", "several outputs", "doubted")
@pytest.mark.parametrize("name", SHOWN)
def test_a_card_of_every_kind_of_report_is_safe_and_whole(name: str) -> None:
    card = card_of(name)
    outline = Outline(card)
    assert outline.tags <= TAGS
    assert outline.attributes <= ATTRIBUTES
    assert not [value for value in outline.values if "javascript:" in value or "://" in value]
    assert "url(" not in card
    assert card.count("<svg ") == (0 if name == "doubted" else 2)
    # A cell of a notebook has room for figures that are at most half as high as wide; a phone is higher than wide.
    sizes = [tuple(map(float, size.split())) for size in re.findall(r'viewBox="0 0 ([\d.]+ [\d.]+)"', card)]
    assert [height <= width / 2 for width, height in sizes] == [True, False][: len(sizes)]


def test_the_picture_has_no_colour_that_a_theme_cannot_change() -> None:
    card = card_of("large_classification")
    drawn = card[card.index("<svg ") : card.index("</svg>")]
    # Colours stand behind variables, for pages that do not set them.
    assert re.findall(r"(?<!, )#[0-9a-fA-F]{3,6}", drawn) == []
    used = set(re.findall(r"var\((--ens-[a-z0-9-]+), #", drawn))
    assert {"--ens-line-1", "--ens-good", "--ens-text", "--ens-muted"} <= used
    palettes = re.findall(r"\{ --ens-text: [^}]*\}", card)
    assert len(palettes) == 4
    assert all(f"{name}:" in palette for palette in palettes for name in used)


def test_answers_picture_sizes_and_folded_details_come_in_this_order() -> None:
    card = card_of("large_classification")
    parts = ["Yes, 609", "How good?", "Trust it?", "<svg ", "<th>on new rows</th>", "<details>", "<th>enough for</th>"]
    card = card[card.index('class="ens-card"') :]
    places = [card.index(part) for part in parts]
    assert places == sorted(places)
    assert "<details open" not in card


def test_a_doubt_is_the_only_answer_and_all_findings_are_folded() -> None:
    card = card_of("doubted")
    card = card[card.index('class="ens-card"') :]
    head, _, folded = card.partition("<details>")
    assert "Do not use these figures. Only 3 rows of label &lt;b&gt;rare&lt;/b&gt; are out of bag." in head
    assert "How good?" not in head
    assert "<table" not in head
    for text in ("&lt;b&gt;rare&lt;/b&gt;", "second doubt", "A warning."):
        assert text in folded


def test_outputs_and_labels_are_tabulated() -> None:
    assert "&lt;script&gt;alert(2)&lt;/script&gt;" in card_of("several outputs")
    shown = "".join(Outline(card_of("labelled")).text)
    assert "Label by label" in shown
    assert "<script>alert" in shown


def test_without_its_style_a_card_is_the_summary_as_text() -> None:
    report = REPORTS["classification"]
    card = card_of("classification")
    plain = "".join(Outline(card[card.index("<pre") : card.index("</pre>") + 6]).text)
    assert plain.replace("\xa0", " ") == report.summary()
    assert '<div class="ens-card" hidden>' in card


@pytest.mark.slow
def test_the_card_of_a_comparison_has_all_names_and_is_safe() -> None:
    named = {**dict.fromkeys(["<script>alert(3)</script>"], REPORTS["classification"]), "b": REPORTS["capped"]}
    named["doubted"] = doubted()
    card = ens_plugin.compare(named)._repr_html_()
    outline = Outline(card)
    assert outline.tags <= TAGS
    assert outline.attributes <= ATTRIBUTES
    assert card.count("<svg ") == 2
    shown = "".join(outline.text)
    assert all(text in shown for text in (*named, "doubted: Do not use these figures.", "more than 20001"))


@pytest.mark.parametrize("name", SHOWN)
def test_representations_of_all_parts_are_short(name: str) -> None:
    report = SHOWN[name]
    parts = [report.error_curve, report.recommendation, report.bias_variance, report.basis, *report.label_errors]
    for part in (report, *parts, *report.criteria, *report.basis.labels):
        assert repr(part).startswith(f"{type(part).__name__}(")
        assert len(repr(part)) < 200
        assert repr(part).isprintable()
