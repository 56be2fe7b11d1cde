"""A report, and its files and figures, which are made once."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ens_plugin import EnsembleReport
from ens_plugin.tracking.log import draw_figures, render_artifacts, write_data
from tests.reports import classification_report


@pytest.fixture
def report() -> EnsembleReport:
    return replace(classification_report(), created="2026-01-02T03:04:05+00:00")


@pytest.fixture(scope="session")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a report, and its figures in a folder of their own, made once, because that takes seconds."""
    folder = tmp_path_factory.mktemp("rendered")
    (folder / "files").mkdir()
    render_artifacts(classification_report(), folder / "files")
    draw_figures(classification_report(), folder / "figures")
    return folder


@pytest.fixture(autouse=True)
def _drawn_once(rendered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy page and figures from one report instead of making them; write the data of each report."""

    def render(report: EnsembleReport, directory: Path) -> None:
        shutil.copytree(rendered / "files", directory, dirs_exist_ok=True)
        write_data(report, directory)

    def draw(report: EnsembleReport, directory: Path) -> Path:
        return shutil.copytree(rendered / "figures", directory)

    monkeypatch.setattr("ens_plugin.tracking.log.render_artifacts", render)
    monkeypatch.setattr("ens_plugin.tracking.log.draw_figures", draw)
