"""A report, and its files, which are drawn once."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ens_plugin import EnsembleReport
from ens_plugin.tracking.log import render_artifacts, write_data
from tests.reports import classification_report


@pytest.fixture
def report() -> EnsembleReport:
    return replace(classification_report(), created="2026-01-02T03:04:05+00:00")


@pytest.fixture(scope="session")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a report, drawn once, because that takes seconds."""
    folder = tmp_path_factory.mktemp("rendered")
    render_artifacts(classification_report(), folder)
    return folder


@pytest.fixture(autouse=True)
def _drawn_once(rendered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy pages and figures from one report instead of drawing them; write the data of each report."""

    def render(report: EnsembleReport, directory: Path) -> None:
        shutil.copytree(rendered, directory, dirs_exist_ok=True)
        write_data(report, directory)

    def draw(folder: Path) -> None:
        for name in ("report.html", "agreement.png", "bias_variance.png", "error_curve.png"):
            shutil.copy(rendered / name, folder)

    monkeypatch.setattr("ens_plugin.tracking.log.render_artifacts", render)
    monkeypatch.setattr("ens_plugin.tracking.uploads.draw", draw)
