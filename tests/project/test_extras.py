"""The tests do not depend on which optional libraries are there: those that need one are skipped with a reason."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.extras import INSTALL, NOTEBOOKS

ROOT = Path(__file__).parents[2]
TRACKERS = "wandb,tensorboardX,tensorboard,dvclive"
WITH_EXTRAS = "from tests.extras import .*(lightgbm|xgboost|needs_trackers)"


@pytest.mark.long
@pytest.mark.slow
def test_tests_pass_without_any_optional_library() -> None:
    """All are collected, and those run that take a booster, a tracker or PySpark, with their neighbours.

    The fast tests of the rest need none: `.ci/run` runs them before it installs PySpark.
    """
    # Only where libraries are hidden on purpose may a file that needs one be left out for that.
    options = ["-p", "tests.without_extras", "-p", "no:cacheprovider", "--doctest-ignore-import-errors", "-q", "-rsfE"]
    command = [sys.executable, "-m", "pytest", *options, "-m", "not slow", "tests", "ens_plugin/spark"]
    hidden = {"ENS_PLUGIN_HIDDEN": f"lightgbm,pyspark,xgboost,{TRACKERS}", "ENS_PLUGIN_RUN": WITH_EXTRAS}
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **hidden}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    for reason in (
        "needs PySpark: pip install 'ens-plugin[spark]'",
        "needs xgboost: pip install xgboost-cpu",
        "needs lightgbm: pip install 'ens-plugin[lightgbm]'",
        "needs wandb: pip install 'ens-plugin[wandb]'",
        "needs tensorboardX: pip install 'ens-plugin[tensorboard]'",
        "needs dvclive: pip install 'ens-plugin[dvclive]'",
    ):
        assert reason in done.stdout
    counts = re.search(r"(\d+) passed, (\d+) skipped", done.stdout)
    assert counts is not None
    assert min(map(int, counts.groups())) > 100


BASE = """
import io, sys, warnings
from contextlib import redirect_stderr, redirect_stdout
from tests.without_extras import hide

hide("alembic", "lightgbm", "mlflow", "pyarrow", "pyspark", "skops", "sqlalchemy", "xgboost")
import joblib
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
import ens_plugin
from ens_plugin.cli.main import main
from ens_plugin.errors import TrackingError

iris = load_iris(as_frame=True)
forest = RandomForestClassifier(40, random_state=0).fit(iris.data, iris.target)
report = ens_plugin.analyze(forest, iris.data, iris.target)
assert "trees" in str(report) and "<html" in report.to_html("report.html").read_text(encoding="utf-8")
report.plot()
ens_plugin.compare([report]).to_frame()
ens_plugin.oob_permutation_importance(forest, iris.data, iris.target, n_repeats=2).to_frame()
joblib.dump(forest, "forest.joblib")
iris.frame.to_csv("iris.csv", index=False)
policy = {"report": {"agreement": {"min": 0.5}}}
for door in (
    ens_plugin.autolog,
    lambda: ens_plugin.log_report(report),
    lambda: ens_plugin.gate("models:/iris/1", policy),
    lambda: ens_plugin.rightsize("models:/iris/1", iris.data, iris.target),
):
    try:
        door()
    except TrackingError as error:
        print(error)
ens_plugin.autolog(disable=True)

def command(*arguments):
    shown = io.StringIO()
    with redirect_stdout(shown), redirect_stderr(shown):
        try:
            main(arguments)
        except SystemExit as end:
            return end.code, " ".join(shown.getvalue().split())

rows = ("--data", "iris.csv", "--target", "target")
code, text = command("analyze", "forest.joblib", *rows)
assert code == 0 and "RandomForestClassifier" in text, text
for arguments in (
    ("demo",), ("analyze", "models:/iris/1", *rows), ("analyze", "forest.joblib", *rows, "--log"),
    ("rightsize", "models:/iris/1", *rows),
):
    code, text = command(*arguments)
    assert code == 2, text
    print(text)
open("iris.parquet", "wb").close()
code, text = command("analyze", "forest.joblib", "--data", "iris.parquet", "--target", "target")
assert code == 2 and "parquet and feather files need PyArrow. Install it with: pip install pyarrow." in text, text
"""


def test_without_mlflow_an_analysis_works_and_the_doors_to_mlflow_say_what_to_install(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "MPLBACKEND": "agg"}
    command = [sys.executable, "-c", BASE]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    said = done.stdout.splitlines()
    assert len(said) == 8
    assert all("MLflow is not installed. Install it with: pip install 'ens-plugin[mlflow]'" in line for line in said)


def test_the_libraries_of_slow_tests_are_installed_before_these_are_run() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").partition("install_libraries() {")[2]
    development = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("\ndev = [")[2].partition("\n]")[0]
    installed = {*re.findall(r"[\w-]+", script.partition("\n}")[0] + development)}
    # The distribution or the extra that a command names; the walk has a function of its own.
    needed = {re.sub(r".*\[(.*)\].*", r"\1", command.split()[2].strip("',")) for command in INSTALL.values()}
    assert sorted({*needed, *NOTEBOOKS} - {"./walk", "server"} - installed) == []
