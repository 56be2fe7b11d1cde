"""Page and figures of autologging's reports, which a process of their own draws."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import pytest

from ens_plugin.analysis import AnalysisOptions
from ens_plugin.errors import TrackingError
from ens_plugin.tracking import uploads as report_files
from ens_plugin.tracking.settings import AutologOptions
from ens_plugin.tracking.uploads import ReportFiles, draw, end_drawing, prepare_drawing
from tests.reports import classification_report

DRAWN = {"report.html", "error_curve.png", "agreement.png", "bias_variance.png"}


@pytest.fixture
def own_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let a test start a drawing process of its own, which ends with it."""
    monkeypatch.setattr(report_files, "_drawing", {})
    yield
    end_drawing()


def settings(silent: bool = False) -> AutologOptions:
    return AutologOptions(silent, False, 0.1, "ens", True, AnalysisOptions())


def written(folder: Path) -> Path:
    (folder / "report.json").write_text(classification_report().to_json(), encoding="utf-8")
    return folder


def test_another_process_draws_and_the_settings_of_matplotlib_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other_style(*arguments: object) -> None:
        raise AssertionError("matplotlib's settings were changed in this process")

    monkeypatch.setattr("matplotlib.style.context", other_style)
    monkeypatch.setitem(mpl.rcParams, "figure.facecolor", "black")
    draw(written(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {"report.json", *DRAWN}


@pytest.mark.usefixtures("own_process")
def test_a_process_that_is_killed_is_started_again(tmp_path: Path) -> None:
    prepare_drawing()
    report_files._drawing[os.getpid()].kill()
    report_files._drawing[os.getpid()].wait()
    draw(written(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} >= DRAWN


@pytest.mark.usefixtures("own_process")
def test_a_drawing_that_takes_too_long_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_files, "EXIT_S", 0.05)
    monkeypatch.setattr(report_files, "PROGRAM", "import time; time.sleep(60)")
    with pytest.raises(TrackingError, match=r"had not drawn them after 0\.05 seconds"):
        draw(written(tmp_path))


def test_a_report_that_cannot_be_drawn_is_told_and_the_next_one_drawn(tmp_path: Path) -> None:
    damaged, sound = tmp_path / "damaged", tmp_path / "sound"
    for folder in (damaged, sound):
        folder.mkdir()
    (damaged / "report.json").write_text("{}")
    with pytest.raises(TrackingError, match="InputError"):
        draw(damaged)
    draw(written(sound))
    assert {path.name for path in sound.iterdir()} >= DRAWN


@pytest.mark.usefixtures("own_process")
def test_each_report_without_a_page_is_told(log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    for silent in (False, False, True):
        files = ReportFiles(classification_report(), 1, settings(silent))
        folder = files.folder
        assert files.draw() == []
        assert {path.name for path in folder.iterdir()} == {"report.json", "curve.csv"}
        files.release()
        assert not folder.exists()
    warnings = [record.getMessage() for record in log.records if record.levelno == logging.WARNING]
    assert len(warnings) == 2
    assert all("has no page" in warning and "no Python interpreter" in warning for warning in warnings)


def test_the_files_of_several_deliveries_are_drawn_once(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Path] = []
    monkeypatch.setattr(report_files, "draw", drawn.append)
    files = ReportFiles(classification_report(), 2, settings())
    files.draw()
    files.draw()
    assert len(drawn) == 1
    files.release()
    assert json.loads((drawn[0] / "report.json").read_text())
    files.release()
    assert not drawn[0].exists()
