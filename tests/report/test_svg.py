"""The pictures of a page: well-formed, legible, and with every text and mark inside."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple
from xml.etree import ElementTree

import numpy as np
import pytest

from ens_plugin import EnsembleReport
from ens_plugin.report.size_curves import SizeCurve, criterion_curve, measure_curve, report_curve, whole_curve
from ens_plugin.report.svg import NARROW, WIDE, Frame, draw_curves, pictures
from tests import reports

REPORTS = reports.all_reports()
PHONE = 360 - 2 * 0.9 * 16  # CSS pixels that the page leaves a picture on a phone
BREAKPOINT = 456  # the least width of the wide picture
LEAST_LETTERS = 11.0
OUTLINE = re.compile(r"([MLHVhvlaZ])([^MLHVhvlaZ]*)")


class Box(NamedTuple):
    """A text with the area that it covers."""

    text: str
    left: float
    right: float
    top: float
    bottom: float

    def covers(self, other: Box) -> bool:
        beside = self.right <= other.left or other.right <= self.left
        return not beside and self.top < other.bottom and other.top < self.bottom


class Picture:
    """An SVG picture that was read: its size, texts, and the points of its shapes."""

    def __init__(self, curves: Sequence[SizeCurve], frame: Frame) -> None:
        self.text = str(draw_curves(curves, (frame,))[0])
        self.root = ElementTree.fromstring(self.text)
        self.width, self.height = map(float, self.root.attrib["viewBox"].split()[2:])
        self.font = float(re.findall(r"font: ([\d.]+)px", self.root.attrib["style"])[0])

    def boxes(self) -> list[Box]:
        return [self._box(element) for element in self.root.iter("text")]

    def _box(self, element: ElementTree.Element) -> Box:
        text, x, y = element.text or "", float(element.attrib["x"]), float(element.attrib["y"])
        # Of DejaVu Sans, a wide font, whose digits are 0.64 of its size wide, and whose letters are 0.57 on average.
        width = 0.57 * self.font * len(text)
        left = x - width * {"start": 0.0, "middle": 0.5, "end": 1.0}[element.attrib["text-anchor"]]
        return Box(text, left, left + width, y - 0.75 * self.font, y + 0.2 * self.font)

    def points(self) -> list[tuple[float, float]]:
        """The ends of all lines, and the points where they turn."""
        return [point for path in self.root.iter("path") for point in self._turns(path.attrib["d"])]

    @staticmethod
    def _turns(outline: str) -> list[tuple[float, float]]:
        x = y = 0.0
        found = []
        for command, numbers in OUTLINE.findall(outline):
            values = [float(number) for number in re.findall(r"-?[\d.]+", numbers)]
            if command in "ML":
                found += list(zip(values[::2], values[1::2], strict=True))
                x, y = found[-1]
                continue
            if command in "Hhla":
                x = values[-1] if command == "H" else x + values[{"h": 0, "l": 0, "a": 5}[command]]
            if command in "Vvla":
                y = values[-1] if command == "V" else y + values[-1]
            found.append((x, y))
        return found

    def misplaced(self) -> list[str]:
        """Texts that cover another text, and texts and points that leave the picture."""
        boxes = self.boxes()
        covering = [f"{one.text!r} covers {other.text!r}" for one, other in combinations(boxes, 2) if one.covers(other)]
        leaving = [
            f"{box.text!r} leaves the picture"
            for box in boxes
            if not (box.left >= -0.5 and box.right <= self.width + 0.5 and box.top >= 0 and box.bottom <= self.height)
        ]
        outside = [f"{x}, {y}" for x, y in self.points() if not (0 <= x <= self.width and 0 <= y <= self.height)]
        return covering + leaving + outside


def test_the_check_of_placement_sees_what_leaves_and_covers() -> None:
    picture = Picture([report_curve("forest", REPORTS["classification"])], WIDE)
    picture.width, picture.height = 400.0, 150.0
    found = picture.misplaced()
    assert "'ensemble' leaves the picture" in found
    assert "'Ensemble size (trees)' leaves the picture" in found
    assert len([problem for problem in found if "leaves" not in problem]) > 20
    picture.font *= 3.0
    assert any("covers" in problem for problem in picture.misplaced())


def growing(n_members: int | None, recommended: int | None, report: EnsembleReport) -> SizeCurve:
    sizes = tuple(size for size in (n_members, recommended) if size is not None)
    curve = report_curve(report.model, report)
    return replace(curve, n_members=n_members, recommended_size=recommended, covered=sizes)


@pytest.mark.parametrize("frame", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("name", REPORTS)
def test_the_pictures_of_every_kind_of_report_are_whole(name: str, frame: Frame) -> None:
    report = REPORTS[name]
    sizes = [criterion_curve(found, report.n_members, "sizes", "recommended", "tree") for found in report.criteria]
    for curve in (report_curve(report.model, report), measure_curve(report.model, report), whole_curve(report), *sizes):
        picture = Picture([curve], frame)
        assert picture.misplaced() == []
        assert "nan" not in re.sub(r"<title>.*?</title>|aria-label=\"[^\"]*\"", "", picture.text, flags=re.DOTALL)
        assert "inf" not in picture.text.replace("infinite", "")
        assert picture.height < 1.1 * frame.height


@pytest.mark.parametrize("frame", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("name", ["classification", "rising", "regression"])
@pytest.mark.parametrize("n_members", [1, 10, 101, 15_000, None])
def test_marked_sizes_have_texts_that_cover_no_other(name: str, n_members: int | None, frame: Frame) -> None:
    for recommended in (1, 99, 101, 129, 20_001, 3_000_001, None):
        curve = growing(n_members, recommended, REPORTS[name])
        picture = Picture([curve], frame)
        assert picture.misplaced() == [], recommended
        shown = [box.text.replace("\xa0", " ") for box in picture.boxes()]
        assert [mark.text for mark in curve.labelled_marks if mark.text not in shown] == []


@pytest.mark.parametrize("frame", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize(
    ("metric", "label"),
    [("neg_median_absolute_error", None), ("average_precision", "malignant growth"), ("f1_macro", None)],
)
def test_long_names_of_metrics_take_lines_of_their_own(metric: str, label: str | None, frame: Frame) -> None:
    report = reports.label_report(label, metric)
    assert Picture([report_curve(report.model, report)], frame).misplaced() == []


def test_letters_have_eleven_pixels_at_the_least_width_of_each_picture() -> None:
    for frame, width in ((NARROW, PHONE), (WIDE, BREAKPOINT)):
        picture = Picture([report_curve("forest", REPORTS["classification"])], frame)
        assert picture.font * width / picture.width >= LEAST_LETTERS
        assert "font-size" not in picture.text


@pytest.mark.parametrize("frame", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("tolerance", [(0.9590, 0.9592), (0.952, 0.9592), (0.9592, 1.0), (0.8, 0.99)])
def test_a_tolerance_is_a_band_with_a_word(tolerance: tuple[float, float], frame: Frame) -> None:
    curve = measure_curve("forest", REPORTS["classification"])
    picture = Picture([replace(curve, tolerance=tolerance)], frame)
    assert picture.misplaced() == []
    assert [box.text for box in picture.boxes()].count("enough") == 1
    assert len(picture.points()) > len(Picture([curve], frame).points())


@pytest.mark.parametrize("frame", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("n_curves", [2, 3, 14])
def test_several_curves_share_axes_and_a_legend(n_curves: int, frame: Frame) -> None:
    named = {f"a forest of the number {place} {'x' * 40}": REPORTS["classification"] for place in range(n_curves)}
    picture = Picture([report_curve(name, report) for name, report in named.items()], frame)
    shown = [box.text for box in picture.boxes()]
    assert picture.misplaced() == []
    assert sum(text.startswith("a forest of the number") for text in shown) == n_curves
    assert {"current size", "recommended size", "infinite ensemble, beside the chart"} <= set(shown)


def test_a_curve_that_leaves_its_axes_is_cut_at_their_edge() -> None:
    curve = REPORTS["classification"].error_curve
    error = curve.asymptote + 2.0 / curve.sizes
    steep = replace(curve, error=error, lower=error - 0.01, upper=error + 0.01)
    report = replace(REPORTS["classification"], error_curve=steep)
    for drawn in (report_curve("forest", report), whole_curve(report)):
        assert Picture([drawn], WIDE).misplaced() == []


@pytest.mark.parametrize("value", [0.0, 1e-9, 1.0, 123456.0, 1e12, 1e300, np.inf, -5.0])
def test_values_of_any_size_have_axes(value: float) -> None:
    curve = replace(
        report_curve("forest", REPORTS["regression"]),
        value_at=lambda size: value, interval_at=None, band_text=None, as_text="{:.3g}".format,
        level=value, level_text="its level", focus=None,
    )  # fmt: skip
    picture = Picture([curve], WIDE)
    assert picture.misplaced() == []
    assert "nan" not in picture.text


def test_both_pictures_are_there_and_a_style_sheet_shows_one() -> None:
    found = pictures([report_curve("forest", REPORTS["classification"])])
    assert re.findall(r"class=\"(wide|narrow)\"><svg viewBox=\"0 0 (\d+)", found) == [
        ("wide", "560"),
        ("narrow", "340"),
    ]
