from __future__ import annotations

import json
import logging
import re
import threading
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ens_plugin import GateDecision
from ens_plugin.errors import InputError
from ens_plugin.registry.gating import audit_line, audit_to_file, audit_to_log
from ens_plugin.registry.policy import Check, Requirement
from tests.reports import HOSTILE_STRINGS

UPPER = Check(Requirement("report", "error_upper", "max", 0.08), 0.0604, True)
AGREEMENT = Check(Requirement("report", "agreement", "min", 0.99), 0.98, False)
DECISION = GateDecision(
    name="churn", version="7", verdict="fail", checks=(UPPER, AGREEMENT),
    policy_digest="sha256:" + "0123456789abcdef" * 4, time="2026-01-02T03:04:05+00:00",
    report="runs:/abc/ensemble/report.html", evidence="569 out-of-bag rows",
    model_digest="sha256:9f86d081", data_digest=None, baseline="3",
    comparison="version 3 of churn, by both 95 % data intervals",
)  # fmt: skip
PASSED = replace(DECISION, verdict="pass", checks=(UPPER,), promoted="champion", promoted_from="3")


def test_reasons_name_value_and_threshold_failed_ones_first() -> None:
    assert DECISION.reasons == (
        "FAILED: report.agreement is 0.98, at least 0.99 required",
        "ok: report.error_upper is 0.0604, at most 0.08 allowed",
    )


def test_numbers_that_differ_look_different() -> None:
    check = Check(Requirement("report", "error", "max", 0.05), 0.05000000001, False)
    assert check.text == "report.error is 0.05000000001, at most 0.05 allowed"
    assert replace(check, value=0.05).text == "report.error is 0.05, at most 0.05 allowed"


@pytest.mark.parametrize(
    ("value", "threshold", "shown"),
    [
        (0.0555466, 0.08, "0.05555, at most 0.08 allowed"),
        (0.0812343, 0.08123, "0.081234, at most 0.08123 allowed"),
        (0.0812343, 0.081234, "0.0812343, at most 0.081234 allowed"),
        (0.123456, 0.123456, "0.123456, at most 0.123456 allowed"),
        (12345.0, 20000.0, "12345, at most 20000 allowed"),
    ],
)
def test_a_value_has_four_digits_or_as_many_as_decided(value: float, threshold: float, shown: str) -> None:
    check = Check(Requirement("report", "error", "max", threshold), value, value <= threshold)
    assert check.text == f"report.error is {shown}"


@pytest.mark.hypothesis
@given(value=st.floats(0, 1e6), distance=st.floats(-1e-3, 1e-3))
def test_the_numbers_that_are_shown_are_in_the_order_of_the_true_ones(value: float, distance: float) -> None:
    threshold = value * (1 + distance)
    text = Check(Requirement("report", "error", "max", threshold), value, value <= threshold).text
    first, second = (float(number) for number in re.findall(r"(?:is|most) (\S+?)(?:,| allowed)", text))
    assert (first > second, first == second) == (value > threshold, value == threshold)


def test_text() -> None:
    assert PASSED.summary() == (
        "PASS: version 7 of churn meets the policy sha256:0123456789ab\n"
        "  ok: report.error_upper is 0.0604, at most 0.08 allowed\n"
        "Evidence: 569 out-of-bag rows.\n"
        "Baseline: version 3 of churn, by both 95 % data intervals.\n"
        "Alias 'champion' was moved from version 3 to version 7."
    )
    assert DECISION.summary().startswith("FAIL: version 7 of churn does not meet the policy sha256:0123456789ab\n")
    assert str(DECISION) == DECISION.summary()
    assert not DECISION.passed
    assert PASSED.passed


def test_long_lines_are_wrapped_at_80_columns() -> None:
    where = "569 out-of-bag rows, as logged at runs:/0123456789abcdef0123456789abcdef/ensemble/report.html"
    lines = replace(DECISION, evidence=where).summary().splitlines()
    assert max(map(len, lines)) <= 80
    assert "    runs:/0123456789abcdef0123456789abcdef/ensemble/report.html." in lines


def test_an_alias_that_did_not_move_stays() -> None:
    assert replace(PASSED, promoted_from="7").summary().endswith("Alias 'champion' stays at version 7.")


def test_json_holds_everything() -> None:
    content = json.loads(PASSED.to_json())
    assert content == PASSED.to_dict()
    assert content["checks"] == [
        {"table": "report", "name": "error_upper", "bound": "max", "threshold": 0.08, "value": 0.0604, "passed": True}
    ]
    assert content["promoted"] == "champion"


@pytest.mark.parametrize("text", HOSTILE_STRINGS)
def test_no_name_acts_as_markup_or_on_a_terminal(text: str) -> None:
    check = replace(UPPER, requirement=Requirement("metrics", text, "max", 1.0))
    hostile = replace(PASSED, name=text, comparison=text, evidence=text, checks=(check,))
    summary, markdown = hostile.summary(), hostile.to_markdown()
    assert summary.replace("\n", "").isprintable()
    # The rest of a long line is indented by four spaces, so that no name begins a line.
    begun = [line for line in summary.splitlines() if not line.startswith("    ")]
    assert len(begun) == len(PASSED.summary().splitlines())
    assert not {*"<>`|"} & {*markdown}
    assert len(markdown.splitlines()) == len(PASSED.to_markdown().splitlines())
    assert json.loads(hostile.to_json())["name"] == text


@pytest.mark.parametrize("text", HOSTILE_STRINGS)
def test_a_line_is_one_line_of_ascii_whatever_it_holds(text: str) -> None:
    line = audit_line("decision", "sqlite:///mlflow.db", {"name": text})
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line)["name"] == text


def test_a_line_tells_what_when_who_and_where() -> None:
    record = json.loads(audit_line("promotion", "https://mlflow.example", {"version": "7"}))
    assert {*record} == {"event", "at", "by", "registry", "ens_plugin", "version"}
    assert (record["event"], record["registry"]) == ("promotion", "https://mlflow.example")
    assert abs((datetime.now(timezone.utc) - datetime.fromisoformat(record["at"])).total_seconds()) < 60


def test_a_user_without_a_name_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr("getpass.getuser", unknown)
    assert json.loads(audit_line("decision", "", {}))["by"] is None


def test_lines_are_appended(tmp_path: Path) -> None:
    path = tmp_path / "gate.jsonl"
    path.write_text("before\n")
    audit_to_file(path)("one")
    audit_to_file(str(path))("two")
    assert path.read_text() == "before\none\ntwo\n"


def test_lines_of_many_gates_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "gate.jsonl"
    lines = [str(digit) * 3000 for digit in range(8)]
    threads = [threading.Thread(target=audit_to_file(path), args=(line,)) for line in lines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(path.read_text().splitlines()) == lines


def test_a_log_that_cannot_be_written_is_noticed_before_anything_is_decided(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "no" / "such.jsonl"):
        with pytest.raises(InputError, match=r"audit log .* cannot be written"):
            audit_to_file(path)


def test_a_full_disk_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    audit = audit_to_file(tmp_path / "gate.jsonl")
    monkeypatch.setattr("os.write", lambda descriptor, content: len(content) // 2)
    with pytest.raises(InputError, match="disk is full"):
        audit("line")


def test_without_a_file_lines_go_to_a_logger(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "ens_plugin.gate"):
        audit_to_log("100 % {x}")
    assert caplog.messages == ["100 % {x}"]
