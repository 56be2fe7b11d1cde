"""The files of autologging's reports: which there are, when they are written, and when they are removed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ens_plugin.tracking.uploads import ReportFiles
from tests.reports import classification_report
from tests.tracking.stores import new_store

FILES = {"report.json", "report.html", "curve.csv"}
FIGURES = {"error_curve.png", "agreement.png", "bias_variance.png"}


def names(folder: Path | None) -> set[str]:
    return set() if folder is None else {path.name for path in folder.iterdir()}


def test_the_first_delivery_writes_the_files_and_the_last_one_removes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[Path] = []
    monkeypatch.setattr("ens_plugin.tracking.uploads.render_artifacts", lambda report, folder: written.append(folder))
    files = ReportFiles(classification_report(), 2, with_figures=False)
    assert written == []
    assert files.folder() == files.folder()
    assert len(written) == 1
    files.release()
    assert written[0].exists()
    files.release()
    assert not written[0].exists()


@pytest.mark.parametrize("with_figures", [True, False])
def test_figures_are_apart_from_the_files_which_mlflow_gets(with_figures: bool) -> None:
    files = ReportFiles(classification_report(), 1, with_figures=with_figures)
    assert names(files.figures) == (FIGURES if with_figures else set())
    assert names(files.folder()) == FILES
    files.release()


def test_a_folder_that_cannot_be_written_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(report: object, folder: object) -> None:
        raise OSError("No space left on device")

    files = ReportFiles(classification_report(), 1, with_figures=False)
    with monkeypatch.context() as changed:
        changed.setattr("ens_plugin.tracking.uploads.render_artifacts", fail)
        with pytest.raises(OSError, match="No space left"):
            files.folder()
    assert names(files.folder()) == FILES
    files.release()


SMALL_FITS = """
import sys, time
import mlflow
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
import ens_plugin
X, y = load_breast_cancer(return_X_y=True)
mlflow.set_tracking_uri({uri!r})
mlflow.set_experiment("tests")
ens_plugin.autolog()
for seed in range({n_fits}):
    RandomForestClassifier(25, random_state=seed).fit(X, y)
print(time.time(), "matplotlib" in sys.modules)
"""


@pytest.mark.slow
@pytest.mark.long
def test_many_small_fits_do_not_hold_up_the_end_of_the_program(tmp_path: Path) -> None:
    import time

    import mlflow

    uri, n_fits = new_store(tmp_path), 25
    done = subprocess.run(
        [sys.executable, "-c", SMALL_FITS.format(uri=uri, n_fits=n_fits)], cwd=tmp_path, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": os.getcwd()}, capture_output=True, check=True,
    )  # fmt: skip
    ended = time.time()
    last, has_drawn = done.stdout.split()
    assert ended - float(last) < 30.0
    assert has_drawn == "False"
    client = mlflow.MlflowClient(tracking_uri=uri)
    experiment: Any = client.get_experiment_by_name("tests")
    runs = client.search_runs([experiment.experiment_id])
    found = [{Path(item.path).name for item in client.list_artifacts(run.info.run_id, "ensemble")} for run in runs]
    # Each report is there, or its absence is told.
    assert sum(files >= FILES for files in found) + done.stderr.count("was not ") >= n_fits
    assert not [files for files in found if files & FIGURES]
    if found:
        path = client.download_artifacts(runs[0].info.run_id, "ensemble/report.json", str(tmp_path))
        assert json.loads(Path(path).read_text())["n_members"] == 25
