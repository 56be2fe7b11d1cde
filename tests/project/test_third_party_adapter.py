"""The template for adapters of others, installed by pip: found by every surface, without an import of the adapter."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.extras import needs_pyspark

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "examples" / "third_party_adapter"
TRAINED = """
import numpy as np, sys, treebag
from sklearn.datasets import load_breast_cancer
X, y = load_breast_cancer(return_X_y=True)
X, y = X[:300, :5], y[:300]
model = treebag.TreeBag(60).fit(X, y)
assert "treebag_ens_plugin" not in sys.modules
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment that has the template from pip, and all else from the environment of the tests."""
    folder = tmp_path_factory.mktemp("clean") / "venv"
    venv.create(folder, with_pip=True)
    interpreter = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    (site,) = folder.rglob("site-packages")
    (site / "tests_environment.pth").write_text(f"{sysconfig.get_path('purelib')}\n{ROOT}\n", encoding="utf-8")
    source = shutil.copytree(TEMPLATE, folder / "template")
    run(interpreter, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", str(source))
    return interpreter


def run(interpreter: Path, *arguments: str, cwd: Path | None = None) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTEST_ADDOPTS")}
    environment |= {"MLFLOW_DISABLE_TELEMETRY": "true", "PYSPARK_PYTHON": str(interpreter)}
    command = [str(interpreter), *arguments]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_its_own_tests_pass(python: Path, tmp_path: Path) -> None:
    output = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(TEMPLATE / "tests"), cwd=tmp_path)
    assert " passed" in output


def test_analyze(python: Path, tmp_path: Path) -> None:
    output = run(
        python, "-c", f"{TRAINED}\nimport ens_plugin\nprint(ens_plugin.analyze(model, X, y).model)", cwd=tmp_path
    )
    assert output.strip() == "TreeBag"


def test_autolog(python: Path, tmp_path: Path) -> None:
    code = f"""
import mlflow, warnings
warnings.simplefilter("ignore")
mlflow.set_tracking_uri("sqlite:///store.db")
import ens_plugin
ens_plugin.autolog(log_artifacts=False, max_overhead=1e3)
with mlflow.start_run() as run:
    {TRAINED.strip().replace(chr(10), chr(10) + "    ").replace("assert", "assert True or")}
ens_plugin.autolog(disable=True)
assert mlflow.get_run(run.info.run_id).data.metrics["ens.accuracy"] == ens_plugin.analyze(model, X, y).accuracy
print("logged")
"""
    assert run(python, "-c", code, cwd=tmp_path).endswith("logged\n")


def test_the_command_line(python: Path, tmp_path: Path) -> None:
    save = f"""{TRAINED}
import joblib, pandas as pd
joblib.dump(model, "model.joblib")
pd.DataFrame(X, columns=list("abcde")).assign(y=y).to_csv("rows.csv", index=False)
"""
    run(python, "-c", save, cwd=tmp_path)
    output = run(
        python, "-m", "ens_plugin", "analyze", "model.joblib", "--data", "rows.csv", "--target", "y", cwd=tmp_path
    )
    assert output.startswith("TreeBag, ")


@needs_pyspark
def test_an_executor_of_spark(python: Path, tmp_path: Path) -> None:
    if shutil.which("java") is None:
        pytest.skip("needs Java 17 or newer: apt install default-jre-headless")
    code = f"""{TRAINED}
import pandas as pd, ens_plugin, warnings
warnings.simplefilter("ignore")
from ens_plugin import spark
from pyspark.sql import SparkSession
from sklearn.datasets import load_breast_cancer
fresh, labels = load_breast_cancer(return_X_y=True)
fresh, labels = fresh[300:, :5], labels[300:]
session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
frame = session.createDataFrame(pd.DataFrame(fresh, columns=list("abcde")).assign(y=labels))
report = spark.analyze(model, frame, label_col="y", feature_cols=list("abcde"))
expected = ens_plugin.analyze(model, fresh, labels, data="holdout").error
assert abs(report.error - expected) < 1e-9, (report.error, expected)
session.stop()
print("found")
"""
    assert run(python, "-c", code, cwd=tmp_path).endswith("found\n")
