"""Workers that die and tasks that run twice: the same report, nothing counted twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import make_pipeline

import ens_plugin
from ens_plugin import EnsembleReport, spark
from tests.spark.cases import COLUMNS, fitted, held_out, in_order, largest_difference
from tests.spark.cluster_run import N_PARTITIONS
from tests.spark.conftest import reason_to_skip

ROUNDING = 1e-12
ROOT = Path(__file__).parents[2]


class DiesOnce(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Kills the first process that transforms rows."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def fit(self, X: Any, y: Any = None) -> DiesOnce:
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def transform(self, X: Any) -> Any:
        try:
            os.open(f"{self.directory}/died", os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            return X
        os._exit(1)


def test_worker_that_dies_in_mid_partition_changes_nothing(session: Any, tmp_path: Path) -> None:
    frame = held_out("votes")
    X, y, _ = in_order(frame)
    local = ens_plugin.analyze(fitted("votes"), X, y, data="holdout", n_jobs=1)
    model = make_pipeline(DiesOnce(str(tmp_path)), fitted("votes"))
    df = session.createDataFrame(frame).repartition(4)
    report = spark.analyze(model, df, label_col="y", feature_cols=COLUMNS, row_id_col="row")
    assert (tmp_path / "died").exists()
    assert largest_difference(local, report) < ROUNDING


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    ("master", "n_blocks"), [("local-cluster[2,1,1024]", N_PARTITIONS), ("standalone", N_PARTITIONS + 1)]
)
def test_separate_executors_give_the_local_report(master: str, n_blocks: int, tmp_path: Path) -> None:
    """Two executor processes; on the standalone cluster a task that dawdles is run again beside the first."""
    reason = reason_to_skip()
    if reason is not None:
        pytest.skip(reason)
    frame = held_out("votes")
    X, y, _ = in_order(frame)
    local = ens_plugin.analyze(fitted("votes"), X, y, data="holdout", n_jobs=1)
    run = subprocess.run(
        [sys.executable, "-m", "tests.spark.cluster_run", master, str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert run.returncode == 0, run.stderr[-2000:]
    for report in json.loads(run.stdout.splitlines()[-1]):
        assert largest_difference(local, EnsembleReport.from_json(report)) < ROUNDING
    assert len(list(tmp_path.glob("block-*"))) == n_blocks
