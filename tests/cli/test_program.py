"""The program as it is started from a shell, in a process of its own."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

CANCER = ("cancer.joblib", "--data", "cancer.csv", "--target", "diagnosis")


def program(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from ens_plugin.cli.main import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, *arguments]
    # MLflow leaves the store that another test used to the programs that are started later.
    environment = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)


def test_the_program_itself(workshop: Path, tmp_path: Path) -> None:
    question = ("recommend", str(workshop / CANCER[0]), "--data", str(workshop / CANCER[2]), *CANCER[3:])
    yes = program(tmp_path, *question)
    assert (yes.returncode, yes.stderr) == (0, "")
    assert yes.stdout.startswith("More ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.slow
def test_demo_prints_three_answers_and_logs_three_runs_to_the_embedded_database(tmp_path: Path) -> None:
    outcome = program(tmp_path, "demo")
    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert "mlflow ui --backend-store-uri sqlite:///mlflow.db" in outcome.stdout
    # The command to run has the path of its program.
    assert max(len(line) for line in outcome.stdout.splitlines() if not line.startswith("Run ")) <= 80
    titles = [part.partition(":")[0] for part in outcome.stdout.split("\n\n")[:3]]
    assert titles == ["Breast cancer", "Digits", "Diabetes"]
    assert outcome.stdout.count("More trees?") == 3
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as database:
        runs = database.execute("select name, status from runs order by start_time").fetchall()
        linked = database.execute("select distinct metric_name from logged_model_metrics").fetchall()
    assert runs == [("breast cancer", "FINISHED"), ("digits", "FINISHED"), ("diabetes", "FINISHED")]
    assert ("ens.recommended_size",) in linked
    assert ("ens/accuracy",) not in linked


@pytest.mark.slow
def test_a_closed_pipe_is_no_answer(workshop: Path) -> None:
    command = [sys.executable, "-c", "from ens_plugin.cli.main import main; main()", "recommend", *CANCER]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        done = subprocess.run(command, cwd=workshop, stdout=closed, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 2, done.stderr
