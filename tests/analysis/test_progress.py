from __future__ import annotations

import io

import pytest

from ens_plugin.analysis.evidence import progress_bar


def test_progress_is_silent_where_nobody_watches(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(progress_bar([1, 2, 3], 3)) == [1, 2, 3]
    assert capsys.readouterr() == ("", "")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_shows_on_a_terminal_once_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    assert list(progress_bar([1, 2], 2)) == [1, 2]
    assert terminal.getvalue() == ""
    monkeypatch.setattr("ens_plugin.analysis.evidence.DELAY_S", 0)
    assert list(progress_bar([1, 2], 2)) == [1, 2]
    assert "0/2" in terminal.getvalue()


def test_a_program_without_a_console_gets_its_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    assert list(progress_bar([1, 2], 2)) == [1, 2]
