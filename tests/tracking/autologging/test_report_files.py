"""The files of autologging's reports: which there are, when they are written, and when they are removed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tracking.stores import new_store

FILES = {"report.json", "report.html", "curve.csv"}
FIGURES = {"error_curve.png", "agreement.png"}


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
