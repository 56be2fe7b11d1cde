from __future__ import annotations

import math
import struct
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ens_plugin import EnsembleReport
from ens_plugin.cli import read_table
from ens_plugin.tracking.log import draw_figures, render_artifacts
from tests.reports import all_reports, classification_report

FILES = {"report.json", "report.html", "curve.csv"}


@pytest.mark.fast_cases("hostile")
@pytest.mark.parametrize("name", ["score", "regression", "hostile"])
def test_every_kind_of_report_gives_all_files(name: str, tmp_path: Path) -> None:
    report = next(report for key, report in all_reports().items() if name in key)
    render_artifacts(report, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == FILES
    assert all(path.stat().st_size > 100 for path in tmp_path.iterdir())


@pytest.mark.slow
def test_the_table_and_the_report_keep_every_bit(tmp_path: Path) -> None:
    report = classification_report()
    render_artifacts(report, tmp_path)
    table = read_table(tmp_path / "curve.csv")
    assert list(table.columns) == ["size", "error", "lower", "upper"]
    np.testing.assert_array_equal(table["size"], report.error_curve.sizes)
    np.testing.assert_array_equal(table["error"], report.error_curve.error)
    again = EnsembleReport.from_json((tmp_path / "report.json").read_text(encoding="utf-8"))
    assert again.to_dict() == report.to_dict()


@pytest.mark.fast_cases("5e-324")
@pytest.mark.parametrize("excess", [0.0, 1e-300, 5e-324, math.inf, math.nan])
def test_no_picture_is_larger_than_its_figure(excess: float, tmp_path: Path) -> None:
    """An ensemble that errs no more than the infinite one once made a picture a million pixels high."""
    report = next(report for key, report in all_reports().items() if "regression" in key)
    advice = replace(report.recommendation, losses=np.full_like(report.recommendation.losses, excess))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        folder = draw_figures(replace(report, recommendation=advice), tmp_path / "figures")
    assert folder is not None
    sizes = {path.name: png_size(path) for path in folder.iterdir()}
    assert sizes == {"agreement.png": (768, 480), "error_curve.png": (768, 480)}


def png_size(path: Path) -> tuple[int, int]:
    width, height = struct.unpack(">II", path.read_bytes()[16:24])
    return width, height
