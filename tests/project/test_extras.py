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


def test_the_libraries_of_slow_tests_are_installed_before_these_are_run() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").partition("install_libraries() {")[2]
    development = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("\ndev = [")[2].partition("\n]")[0]
    installed = {*re.findall(r"[\w-]+", script.partition("\n}")[0] + development)}
    # The distribution or the extra that a command names; the walk has a function of its own.
    needed = {re.sub(r".*\[(.*)\].*", r"\1", command.split()[2].strip("',")) for command in INSTALL.values()}
    assert sorted({*needed, *NOTEBOOKS} - {"./walk", "server"} - installed) == []
