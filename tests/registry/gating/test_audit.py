from __future__ import annotations

import json
import logging
import threading
from datetime import datetime, timezone
from pathlib import Path

import pytest

from ens_plugin.errors import InputError
from ens_plugin.registry.gating import audit_line, audit_to_file, audit_to_log
from tests.reports import HOSTILE_STRINGS


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
