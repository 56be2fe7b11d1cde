"""The tests do not depend on which optional libraries are there: those that need one are skipped and say why."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# None of these starts a server or trains more than a few small models.
QUICK = [
    "tests/adapters/spark_ml/test_forest.py",
    "tests/adapters/spark_ml/test_nodes.py",
    "tests/spark/test_jobs.py",
    "tests/spark/test_models.py",
]


def run_without(libraries: str, *arguments: str) -> str:
    """Run pytest as in an environment without these libraries; return what it prints."""
    # Only where libraries are hidden on purpose may a file that needs one be left out for that.
    options = ["-p", "tests.without_extras", "-p", "no:cacheprovider", "--doctest-ignore-import-errors", "-q"]
    command = [sys.executable, "-m", "pytest", *options, *arguments]
    environment = {**os.environ, "ENS_PLUGIN_HIDDEN": libraries}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def files_that_mention(pattern: str) -> list[str]:
    found = [path for path in sorted((ROOT / "tests").rglob("test_*.py")) if path != Path(__file__).absolute()]
    return [str(path.relative_to(ROOT)) for path in found if re.search(pattern, path.read_text(encoding="utf-8"))]


def test_tests_about_spark_pass_without_pyspark() -> None:
    printed = run_without("pyspark", *QUICK)
    assert "needs PySpark: pip install 'ens-plugin[spark]'" in printed
    assert re.search(r"\d+ passed, \d+ skipped", printed)


@pytest.mark.slow
def test_all_tests_that_mention_pyspark_pass_without_it() -> None:
    files = files_that_mention("pyspark")
    assert len(files) > 10
    # The other examples import no PySpark, and take minutes.
    printed = run_without("pyspark", "-m", "not slow", "-k", "not an_example_runs or spark", *files, "ens_plugin/spark")
    assert "needs PySpark: pip install 'ens-plugin[spark]'" in printed


@pytest.mark.slow
def test_all_tests_are_collected_without_any_optional_library() -> None:
    printed = run_without("lightgbm,pyspark,xgboost", "--collect-only", "tests")
    assert "tests/adapters/test_contract.py::" in printed


@pytest.mark.slow
def test_tests_about_boosters_pass_without_them() -> None:
    files = files_that_mention("from tests.extras import .*(lightgbm|xgboost)")
    assert files
    printed = run_without("lightgbm,pyspark,xgboost", "-m", "not slow", *files)
    assert "needs xgboost: pip install xgboost-cpu" in printed
    assert "needs lightgbm: pip install 'ens-plugin[lightgbm]'" in printed
