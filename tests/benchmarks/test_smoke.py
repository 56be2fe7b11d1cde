"""Every script runs from end to end on tiny sizes and writes nothing."""

from __future__ import annotations

import re
import shutil
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.__main__ import SCRIPTS
from benchmarks.shared import results

NEED_BOOSTERS = {
    "accuracy.few_booster_trees",
    "checks.attacks",
    "checks.links",
    "cost.shapes",
    "hard_data.scores",
    "learners.pruning",
}
READ_PROC = {"cost.memory", "cost.spark"}


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS)
def test_smoke(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "publish", None)
    if script in READ_PROC and not Path("/proc/self/clear_refs").exists():
        pytest.skip("peak memory is read from /proc")
    if script in NEED_BOOSTERS:
        pytest.importorskip("lightgbm", reason="LightGBM is not installed")
        pytest.importorskip("xgboost", reason="xgboost is not installed")
    if script == "checks.hostile_logs":
        pytest.importorskip("pyarrow", reason="PyArrow is not installed")
    if script == "checks.links":
        pytest.importorskip("sklearn.frozen", reason="FrozenEstimator is new in scikit-learn 1.6")
    if script == "cost.spark":
        pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'ens-plugin[spark]'")
        if shutil.which("java") is None:
            pytest.skip("needs Java 17 or newer: apt install default-jre-headless")
    body = import_module(f"benchmarks.{script}").main(["--smoke", "--n-jobs", "1", "--cache", str(tmp_path)])
    assert body.startswith(f"## {script}\n")
    assert "| measure" in body
    # As a word: banana is a data set.
    assert not re.search(r"\bnan\b", body)


def test_help_names_the_module(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        import_module("benchmarks.accuracy.intervals").main(["--help"])
    assert stop.value.code == 0
    assert "python -m benchmarks accuracy.intervals" in capsys.readouterr().out
