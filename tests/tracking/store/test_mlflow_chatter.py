"""What MLflow prints inside and after blocks that keep it quiet."""

from __future__ import annotations

import os

import pytest

from ens_plugin.tracking.connection import PROGRESS_VARIABLE, no_progress_bars


def test_the_last_of_two_blocks_removes_what_the_first_has_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PROGRESS_VARIABLE, raising=False)
    first, second = no_progress_bars(), no_progress_bars()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert os.environ[PROGRESS_VARIABLE] == "false"
    second.__exit__(None, None, None)
    assert PROGRESS_VARIABLE not in os.environ


def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PROGRESS_VARIABLE, "true")
    with no_progress_bars():
        assert os.environ[PROGRESS_VARIABLE] == "true"
    assert os.environ[PROGRESS_VARIABLE] == "true"
