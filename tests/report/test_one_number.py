"""One number for one question: every surface of real reports has the same digits."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import ens_plugin
from ens_plugin import EnsembleReport
from ens_plugin.cli.recommendation import Limits, Recommendation, as_json, as_markdown, as_text, checks_of
from ens_plugin.report.answers import markdown_answers, markdown_summary, three_answers
from ens_plugin.report.size_curves import measure_curve, report_curve


class Case(NamedTuple):
    """A forest on a real data set, and how it is analysed."""

    load: Callable[..., Any]
    n_members: int
    options: dict[str, Any]


CASES = {
    "breast cancer, 20": Case(load_breast_cancer, 20, {}), "breast cancer, 400": Case(load_breast_cancer, 400, {}),
    "breast cancer, accuracy": Case(load_breast_cancer, 100, {"metric": "accuracy"}),
    "breast cancer, roc_auc": Case(load_breast_cancer, 100, {"metric": "roc_auc"}),
    "breast cancer, agreement": Case(load_breast_cancer, 20, {"criterion": "agreement"}),
    "breast cancer, groups": Case(load_breast_cancer, 100, {"groups": "pairs"}),
    "breast cancer, held out": Case(load_breast_cancer, 100, {"data": "holdout"}),
    "iris, 100": Case(load_iris, 100, {}), "wine, 20": Case(load_wine, 20, {}),
    "digits, 100": Case(load_digits, 100, {}), "diabetes, 100": Case(load_diabetes, 100, {}),
    "diabetes, 20": Case(load_diabetes, 20, {}),
}  # fmt: skip
FEW = pytest.mark.fast_cases("breast cancer, 20", "breast cancer, roc_auc", "breast cancer, held out", "diabetes, 100")
EACH = pytest.mark.parametrize("name", CASES)


@cache
def report_of(name: str) -> EnsembleReport:
    case = CASES[name]
    X, y = case.load(return_X_y=True)
    options = dict(case.options)
    kind = RandomForestRegressor if case.load is load_diabetes else RandomForestClassifier
    forest = kind(case.n_members, random_state=0)
    if options.get("data") == "holdout":
        order = np.random.default_rng(0).permutation(y.size)
        trained, held_out = order[:300], order[300:]
        return ens_plugin.analyze(forest.fit(X[trained], y[trained]), X[held_out], y[held_out], **options)
    if "groups" in options:
        options["groups"] = np.arange(y.size) // 2
    return ens_plugin.analyze(forest.fit(X, y), X, y, **options)


class Shown(NamedTuple):
    """The numbers of a report as every surface has to show them."""

    here: str
    interval: str
    limit: str
    size: str


@cache
def shown(name: str) -> Shown:
    """Rounded here from the curve itself, not by the code that is tested."""
    report = report_of(name)
    curve = report.error_curve
    texts = [text_of(report, error) for error in (report.error, *report.error_interval, curve.asymptote)]
    here, one, other, limit = texts
    low, high = sorted((one.removesuffix(" %"), other.removesuffix(" %")), key=float)
    size = report.recommended_size
    return Shown(
        here, f"{low} to {high}", limit, f"more than {report.recommendation.max_size}" if size is None else str(size)
    )


def text_of(report: EnsembleReport, error: float) -> str:
    if report.error_curve.metric == "0-1 error":
        percent = 100.0 * (1.0 - error)
        return f"{percent:.{2 if 0.0 < min(percent, 100.0 - percent) < 0.5 else 1}f} %"
    return f"{np.sqrt(error) if report.error_curve.metric == 'mean squared error' else error:#.3g}"


class Words(HTMLParser):
    """The text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_data(self, data: str) -> None:
        self.found.append(data)


def words_of(page: str) -> str:
    return " ".join(" ".join(Words(page).found).replace("\xa0", " ").split())


def recommendation(report: EnsembleReport) -> Recommendation:
    return Recommendation(report, checks_of(report, Limits()))


@cache
def surfaces(name: str) -> dict[str, str]:
    """What is read as text, in one line each, without the escapes of Markdown."""
    report = report_of(name)
    found = {
        "print": str(report), "card": words_of(report._repr_html_()), "page": words_of(report.to_html()),
        "markdown_summary": markdown_summary(report), "description of a run": markdown_answers(report),
        "recommend, text": as_text(recommendation(report)), "recommend, Markdown": as_markdown(recommendation(report)),
    }  # fmt: skip
    plain = {key: re.sub(r"&#(\d+);", lambda sign: chr(int(sign[1])), text) for key, text in found.items()}
    return {key: " ".join(text.split()) for key, text in plain.items()}


@FEW
@EACH
def test_every_surface_has_the_three_answers_in_the_same_words(name: str) -> None:
    for surface, text in surfaces(name).items():
        for answer in three_answers(report_of(name)):
            assert answer.question in text, surface
            assert answer.text in text, surface


@FEW
@EACH
def test_tables_have_the_same_values_as_the_answers(name: str) -> None:
    report, wanted = report_of(name), shown(name)
    noun = "trees"
    for surface in ("print", "card", "page", "markdown_summary"):
        text = surfaces(name)[surface].replace(" | ", " ")
        assert f"{report.n_members} {noun} (this model) {wanted.here} {wanted.interval}" in text, surface
        assert f"infinitely many {noun} {wanted.limit} " in text, surface


@FEW
@EACH
def test_the_first_answer_rounds_what_the_tables_have(name: str) -> None:
    """Values next to a limit of rounding are shown as equal, so that the limit may be that of the current size."""
    report, wanted = report_of(name), shown(name)
    text = three_answers(report)[0].text
    size = report.recommended_size
    known = {wanted.here, wanted.limit}
    known |= set() if size is None else {text_of(report, report.error_curve.at(size))}
    now, last = report.n_members, size or report.recommendation.max_size
    known.add(text_of(report, report.error_curve.at(round(float(np.sqrt(now * last))))))
    if report.recommendation.agreement is not None:
        known.add(f"{100.0 * (1.0 - report.recommendation.agreement):.1f} %")
    for value in re.findall(
        r"(?<=give )[\d.]+(?: %)?|[\d.]+(?: %)?(?= would be right)|(?<=instead of )[\d.]+(?: %)?", text
    ):
        assert value.rstrip(".") in known


@FEW
@EACH
def test_the_recommended_size_is_one(name: str) -> None:
    report, wanted = report_of(name), shown(name)
    first = three_answers(report)[0].text
    if first.startswith(("Yes, ", "No, fewer: ")):
        assert re.match(rf"(Yes, |No, fewer: ){wanted.size}\b", first)
    assert report.metrics()["recommended_size"] == (report.recommended_size or report.recommendation.max_size)
    content = json.loads(report.to_json())
    assert content["recommendation"]["size"] == report.recommended_size
    command = json.loads(as_json(recommendation(report)))
    assert command["size"] == report.recommended_size
    assert command["checks"][0]["value"] == report.recommended_size
    assert f" {wanted.size} " in report.details()
    if report.recommended_size not in (None, report.n_members):
        for surface in ("print", "card", "page", "markdown_summary"):
            assert f"{wanted.size} trees (recommended)" in surfaces(name)[surface]
    assert report_curve("forest", report).recommended_size == report.recommended_size


@FEW
@EACH
def test_scalars_and_json_round_to_what_is_shown(name: str) -> None:
    report, wanted = report_of(name), shown(name)
    metrics, key = report.metrics(), report.measure_key
    names = (key, f"{key}_lower", f"{key}_upper", f"asymptotic_{key}")
    here, low, high, limit = (metrics[each] for each in names)
    is_share = report.error_curve.metric == "0-1 error"

    def as_shown(value: float) -> str:
        if not is_share:
            return f"{value:#.3g}"
        return f"{100.0 * value:.{2 if 0.0 < min(value, 1.0 - value) < 0.005 else 1}f} %"

    assert (as_shown(here), as_shown(limit)) == (wanted.here, wanted.limit)
    assert f"{as_shown(low).removesuffix(' %')} to {as_shown(high).removesuffix(' %')}" == wanted.interval
    command = json.loads(as_json(recommendation(report)))
    read = EnsembleReport.from_json(report.to_json())
    assert read.metrics() == metrics
    if is_share:
        assert command["accuracy"] == here == read.accuracy
    if key == "rmse":
        assert command["rmse"] == here == read.rmse
    assert len(metrics) <= 10


@FEW
@EACH
def test_the_agreement_is_one(name: str) -> None:
    report = report_of(name)
    agreement = report.recommendation.agreement
    if agreement is None:
        assert "agreement" not in report.metrics()
        return
    assert {found.agreement for found in report.criteria} == {agreement}
    (by_labels,) = [found for found in report.criteria if found.criterion == "agreement"]
    assert by_labels.loss == pytest.approx(1.0 - agreement)
    assert report.metrics()["agreement"] == agreement
    assert json.loads(report.to_json())["recommendation"]["agreement"] == agreement
    assert f"the same label on {100.0 * agreement:.2f} % of rows" in " ".join(report.details().split())
    changed = re.findall(r"([\d.]+) % of the labels would change", three_answers(report)[0].text)
    assert set(changed) <= {f"{100.0 * (1.0 - agreement):.1f}"}


@FEW
@EACH
def test_pictures_mark_what_the_tables_have(name: str) -> None:
    report, wanted = report_of(name), shown(name)
    curve = measure_curve("forest", report)
    marks = {mark.size: mark.text for mark in curve.labelled_marks}
    assert marks[report.n_members].endswith(f"{report.n_members}: {wanted.here}")
    assert curve.level_text == wanted.limit
    assert curve.band_text(report.n_members) == wanted.interval
    drawn = report_curve("forest", report)
    found = report.recommendation
    assert drawn.tolerance[0] <= drawn.level <= drawn.tolerance[1]
    if found.criterion in ("probability", "agreement"):
        assert drawn.level == found.limit
        sign = -1.0 if found.criterion == "agreement" else 1.0
        assert drawn.value_at(report.n_members) == pytest.approx(found.limit + sign * found.loss, rel=1e-6)
    # A size that is better than infinitely many members is enough too: the band begins at their level.
    here, (low, high) = drawn.value_at(report.n_members), drawn.tolerance
    assert (here >= low if drawn.level == high else here <= high) == found.is_enough
