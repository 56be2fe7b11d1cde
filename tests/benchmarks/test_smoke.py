"""Every script runs from end to end on tiny sizes and leaves RESULTS.md alone."""

from __future__ import annotations

import shutil
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.results import RESULTS

needs_proc = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peak memory is read from /proc")


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        "accuracy",
        "autolog",
        "booster_accuracy",
        "hard_training_variance",
        "hard_labels",
        "hard_cells",
        "hard_seeds",
        "intervals",
        "oob_search",
        "recommendation",
        "prediction_intervals",
        "profile",
        "pruning",
        "speed",
        "booster_speed",
        "model_averaging",
        "growth",
        "hard_curves",
        "hard_sizes",
        "hard_losses",
        "hard_metrics",
        "metrics",
        "gate_metrics",
        "hard_repeats",
        "hard_scores",
        "reach",
        "walker",
        "rivals",
        "first_use",
        pytest.param("memory", marks=needs_proc),
        pytest.param("spark", marks=needs_proc),
    ],
)
def test_smoke(script: str, tmp_path: Path) -> None:
    before = RESULTS.read_bytes() if RESULTS.exists() else None
    if script in ("booster_accuracy", "hard_scores", "profile", "pruning", "walker"):
        pytest.importorskip("lightgbm", reason="LightGBM is not installed")
        pytest.importorskip("xgboost", reason="xgboost is not installed")
    if script in ("pruning", "walker"):
        pytest.importorskip("sklearn.frozen", reason="FrozenEstimator is new in scikit-learn 1.6")
    if script == "spark":
        pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'ens-plugin[spark]'")
        if shutil.which("java") is None:
            pytest.skip("needs Java 17 or newer: apt install default-jre-headless")
    body = import_module(f"benchmarks.{script}").main(["--smoke", "--n-jobs", "1", "--cache", str(tmp_path)])
    assert (RESULTS.read_bytes() if RESULTS.exists() else None) == before
    assert body.startswith("## ")
    assert "| measure" in body
    assert "nan" not in body


def test_help_names_the_module(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        import_module("benchmarks.accuracy").main(["--help"])
    assert stop.value.code == 0
    assert "python -m benchmarks.accuracy" in capsys.readouterr().out
