"""What `ens-plugin recommend` prints, whatever the report contains."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ens_plugin import Costs, EnsembleReport
from ens_plugin.cli.recommendation import (
    Limits,
    Recommendation,
    as_json,
    as_markdown,
    as_text,
    budget_checks,
    checks_of,
)
from ens_plugin.errors import InputError
from ens_plugin.report.answers import three_answers
from ens_plugin.report.result import LinearCost
from tests.reports import classification_report, regression_report, with_doubts

ROOT = Path(__file__).parents[2]


def report(**changes: Any) -> EnsembleReport:
    found = classification_report()
    recommendation = {name: changes.pop(name) for name in ("size", "agreement", "interval") if name in changes}
    return replace(found, recommendation=replace(found.recommendation, **recommendation), **changes)


def answer_to(found: EnsembleReport, limits: Limits) -> Recommendation:
    return Recommendation(found, checks_of(found, limits))


@pytest.mark.parametrize(("n_members", "passed"), [(200, True), (201, False)])
def test_ratio_is_of_the_members_to_the_recommended_ones(n_members: int, passed: bool) -> None:
    answer = answer_to(report(size=100, n_members=n_members), Limits(max_size_ratio=2.0))
    assert answer.passed is passed
    assert answer.checks[1].value == n_members / 100
    assert f"{n_members / 100:.2f} times the recommended 100" in as_text(answer)


@pytest.mark.parametrize(("agreement", "passed"), [(0.98, True), (0.9799, False)])
def test_agreement_is_that_of_the_current_size(agreement: float, passed: bool) -> None:
    answer = answer_to(report(agreement=agreement), Limits(min_agreement=0.98))
    assert answer.passed is passed
    assert ("FAILED" in as_text(answer)) is not passed


def test_no_size_large_enough_is_a_no_even_without_demands() -> None:
    above = report(size=None, interval=(20_001, None))
    assert not answer_to(above, Limits()).passed
    assert not answer_to(above, Limits(max_size_ratio=1.0)).passed


@pytest.mark.parametrize(("limit", "passed"), [(1.99, False), (2.0, True)])
def test_ratio_of_an_ensemble_larger_than_all_sizes_considered_is_below_that_to_the_largest(
    limit: float, passed: bool
) -> None:
    found = report(size=None, n_members=202)
    found = replace(found, recommendation=replace(found.recommendation, max_size=101, interval=(101, None)))
    check = checks_of(found, Limits(max_size_ratio=limit))[1]
    assert (check.passed, check.value) == (passed, 2.0)
    assert check.sentence == "202 trees: less than 2.00 times as many as needed, which are more than 101."


@pytest.mark.parametrize(("n_rows", "passed"), [(30, True), (29, False)])
def test_few_rows_meet_no_demand_on_the_size(n_rows: int, passed: bool) -> None:
    answer = answer_to(report(size=200, n_rows=n_rows), Limits(max_size_ratio=1.0))
    assert [check.passed for check in answer.checks] == [passed, passed]
    for text in (as_text(answer), as_markdown(answer)):
        assert ("That cannot be told: 29 rows are too few." in text) is not passed


def test_the_answers_are_those_of_the_report_in_both_forms() -> None:
    found = report()
    text, markdown = as_text(answer_to(found, Limits())), as_markdown(answer_to(found, Limits()))
    for answer in three_answers(found):
        assert f"{answer.question} {answer.text}" in " ".join(text.split())
        assert f"**{answer.question}** {answer.text}" in markdown
    assert max(map(len, text.splitlines())) <= 80
    content = json.loads(as_json(answer_to(found, Limits())))
    assert (content["accuracy"], content["size"]) == (found.accuracy, 119)


def test_a_doubted_report_meets_no_demand_on_the_size() -> None:
    doubt = "Copies hide the error."
    answer = answer_to(with_doubts(report(), doubt), Limits(max_size_ratio=100.0))
    assert not answer.passed
    assert [check.text for check in answer.checks] == [f"FAILED: {doubt}"] * 2
    assert doubt in as_text(answer)


def test_agreement_of_values_is_refused() -> None:
    with pytest.raises(InputError, match="--tolerance"):
        checks_of(regression_report(), Limits(min_agreement=0.9))


COSTS = Costs(
    n_members=300,
    bytes=LinearCost(1000.0, 10_000.0),
    latency=LinearCost(0.001, 0.00001, 0.02),
    row_seconds=LinearCost(1e-6, 1e-7),
    batch_rows=1000,
)


def limited(**limits: float) -> Recommendation:
    """The answer for 300 members of 10 kB, of which 75 are recommended, that take 4 ms."""
    found = report(size=75, interval=(60, 90), n_members=300)
    budget = found.budget(COSTS, **limits)
    return Recommendation(found, (*checks_of(found, Limits()), *budget_checks(budget)), budget=budget)


@pytest.mark.parametrize(
    ("limits", "passed"),
    [
        ({"max_bytes": 3_001_000}, [True]),
        ({"max_bytes": 3_000_999}, [False]),
        ({"max_latency": 0.0041}, [True]),
        ({"max_latency": 0.0039}, [False]),
        ({"max_bytes": 4e6, "max_latency": 0.0039}, [True, False]),
        ({"max_bytes": 1.0}, [False]),
    ],
)
def test_limits_on_bytes_and_latency_are_demands_on_the_model_as_it_is(
    limits: dict[str, float], passed: list[bool]
) -> None:
    answer = limited(**limits)
    assert [check.passed for check in answer.checks[1:]] == passed
    assert answer.passed is all(passed)


def test_an_answer_by_a_budget_says_what_fits_and_what_the_model_takes() -> None:
    answer = limited(max_bytes=1_001_000, max_latency=0.5)
    text = " ".join(as_text(answer).split())
    assert "1 MB and 500 ms allow 100 of the 300 trees. Accuracy on new rows: " in text
    assert "FAILED: 300 trees: 3.001 MB pickled; at most 1.001 wanted." in text
    assert "Passed: 300 trees: 4 ms for one row (median, quartiles within 2 %); at most 500 wanted." in text
    assert max(map(len, as_text(answer).splitlines())) <= 80
    assert "| fits | 100 | 1 MB | 2 ms | 11 µs | " in as_markdown(answer)


def test_json_has_the_documented_fields_and_no_others() -> None:
    answer = limited(max_bytes=2e6)
    answer = replace(answer, checks=(*checks_of(answer.report, Limits(2.0, 0.9)), *answer.checks[1:]))
    content = json.loads(as_json(answer))
    documented = re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`.*?) \|", _json_section(), re.MULTILINE)))
    assert content["schema_version"] == int(re.findall(r"`schema_version` \| (\d+) \|", _json_section())[0])
    budget = content.pop("budget")
    checks = content["checks"]
    assert set(documented[documented.index("max_bytes") :]) == {*budget}
    assert set(documented[: documented.index("max_bytes")]) == {*content, "budget"}
    assert set(checks[0]) == {"name", "passed", "value", "limit", "sentence"}
    assert [check["name"] for check in checks] == [
        "recommended_size",
        "max_size_ratio",
        "min_agreement",
        "max_megabytes",
    ]


def _json_section() -> str:
    text = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    start = text.index("## `ens-plugin recommend --format json`")
    return text[start : text.index("\n## ", start + 1)]


def test_names_and_paths_cannot_act_as_markup() -> None:
    found = report(model="<img src=x>|**Forest**\n# hi")
    answer = replace(answer_to(found, Limits()), picture="a<b>\n).png")
    markdown = as_markdown(answer)
    assert "<img" not in markdown
    assert "\n# hi" not in markdown
    assert markdown.splitlines()[-1] == "[The error curve as a picture](<a%3Cb%3E ).png>)"
