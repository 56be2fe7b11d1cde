from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ens_plugin.commands.table import read_table
from ens_plugin.report import EnsembleReport
from ens_plugin.tracking.artifacts import render_artifacts
from tests.reports import all_reports, classification_report

FILES = {"report.json", "report.html", "curve.csv", "error_curve.png", "agreement.png", "bias_variance.png"}


@pytest.mark.parametrize("name", ["path", "regression", "hostile"])
def test_every_kind_of_report_gives_all_files(name: str, tmp_path: Path) -> None:
    report = next(report for key, report in all_reports().items() if name in key)
    render_artifacts(report, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == FILES
    assert all(path.stat().st_size > 100 for path in tmp_path.iterdir())
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in FILES if name.endswith("png"))


def test_the_table_and_the_report_keep_every_bit(tmp_path: Path) -> None:
    report = classification_report()
    render_artifacts(report, tmp_path)
    table = read_table(tmp_path / "curve.csv")
    assert list(table.columns) == ["size", "error", "lower", "upper"]
    np.testing.assert_array_equal(table["size"], report.error_curve.sizes)
    np.testing.assert_array_equal(table["error"], report.error_curve.error)
    again = EnsembleReport.from_json((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert again.to_dict() == report.to_dict()
