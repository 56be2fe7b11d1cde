"""Every script runs from end to end on tiny sizes and leaves RESULTS.md alone."""

from __future__ import annotations

import re
import shutil
from importlib import import_module
from pathlib import Path

import pytest

from benchmarks.shared.results import RESULTS

NEED_BOOSTERS = {
    "accuracy.few_booster_trees",
    "checks.attacks",
    "checks.links",
    "cost.profile",
    "cost.shapes",
    "hard_data.scores",
    "learners.pruning",
    "metrics.smooth_log_loss",
}
needs_proc = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peak memory is read from /proc")


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        "accuracy.few_trees",
        "cost.autolog",
        "accuracy.few_booster_trees",
        "hard_data.training_variance",
        "hard_data.labels",
        "hard_data.rare_labels",
        "hard_data.many_labels",
        "hard_data.cells",
        "hard_data.seeds",
        "accuracy.intervals",
        "accuracy.oob_search",
        "accuracy.promise",
        "accuracy.prediction_intervals",
        "accuracy.standard_errors",
        "accuracy.repeated_folds",
        "accuracy.row_model",
        "accuracy.unlabelled",
        "cost.profile",
        "cost.shapes",
        "learners.pruning",
        "learners.certificate",
        "cost.speed",
        "cost.boosters",
        "learners.model_averaging",
        "learners.growth",
        "hard_data.curves",
        "hard_data.sizes",
        "hard_data.losses",
        "hard_data.metrics",
        "metrics.by_name",
        "metrics.log_loss",
        "metrics.smooth_log_loss",
        "metrics.cost",
        "metrics.gate",
        "metrics.truth_noise",
        "hard_data.repeats",
        "hard_data.label_shares",
        "checks.alike_rows",
        "checks.attacks",
        "checks.copies",
        "checks.links",
        "checks.row_order",
        "checks.shuffled_subjects",
        "checks.steps",
        "checks.training_rows",
        "coverage.comparisons",
        "coverage.importance",
        "coverage.members",
        "hard_data.scores",
        "accuracy.reach",
        "votes.simulated",
        "votes.recorded",
        "rivals.comparison",
        "rivals.squared_loss",
        "accuracy.unlabelled_forests",
        "papers.real_problems_2007",
        "papers.real_problems_2013",
        "cost.first_use",
        pytest.param("cost.memory", marks=needs_proc),
        pytest.param("cost.spark", marks=needs_proc),
    ],
)
def test_smoke(script: str, tmp_path: Path) -> None:
    before = RESULTS.read_bytes() if RESULTS.exists() else None
    if script in NEED_BOOSTERS:
        pytest.importorskip("lightgbm", reason="LightGBM is not installed")
        pytest.importorskip("xgboost", reason="xgboost is not installed")
    if script == "checks.links":
        pytest.importorskip("sklearn.frozen", reason="FrozenEstimator is new in scikit-learn 1.6")
    if script == "cost.spark":
        pytest.importorskip("pyspark", reason="PySpark is not installed: pip install 'ens-plugin[spark]'")
        if shutil.which("java") is None:
            pytest.skip("needs Java 17 or newer: apt install default-jre-headless")
    body = import_module(f"benchmarks.{script}").main(["--smoke", "--n-jobs", "1", "--cache", str(tmp_path)])
    assert (RESULTS.read_bytes() if RESULTS.exists() else None) == before
    assert body.startswith("## ")
    assert "| measure" in body
    # As a word: banana is a data set.
    assert not re.search(r"\bnan\b", body)


def test_help_names_the_module(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        import_module("benchmarks.accuracy.few_trees").main(["--help"])
    assert stop.value.code == 0
    assert "python -m benchmarks.accuracy.few_trees" in capsys.readouterr().out
