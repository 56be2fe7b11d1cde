"""The same over HTTP, against a real ``mlflow server``."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import mlflow
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier

from ens_plugin import EnsembleReport, analyze
from ens_plugin.errors import TrackingError
from ens_plugin.tracking.log import charted_sizes, log_report, scalar_values
from ens_plugin.tracking.models import load_model
from tests.reports import classification_report
from tests.tracking.stores import MLFLOW_WARNINGS, linked_metrics

pytestmark = [
    MLFLOW_WARNINGS,
    pytest.mark.long,
    pytest.mark.slow,
    pytest.mark.server,
    pytest.mark.xdist_group("mlflow_server"),
]

REPORT = replace(classification_report(), created="2026-01-02T03:04:05+00:00")


def test_all_parts_arrive_once_however_often_they_are_logged(served: mlflow.MlflowClient, tmp_path: Path) -> None:
    with pytest.raises(TrackingError, match="not found"):
        log_report(REPORT, run_id="0" * 32)
    run_id = log_report(REPORT)
    log_report(REPORT, run_id=run_id)
    points = served.get_metric_history(run_id, "ens/accuracy")
    sizes = charted_sizes(REPORT).tolist()
    assert sorted(point.step for point in points) == sizes
    by_size = {point.step: point.value for point in points}
    assert all(by_size[size] == pytest.approx(1.0 - REPORT.error_curve.at(size), abs=1e-12) for size in sizes)
    assert len(served.get_metric_history(run_id, "ens.accuracy")) == 1
    assert served.get_run(run_id).info.status == "FINISHED"
    folder = Path(served.download_artifacts(run_id, "ensemble", str(tmp_path)))
    assert EnsembleReport.from_json((folder / "report.json").read_text()).to_dict() == REPORT.to_dict()


def test_scalars_are_linked_to_the_logged_model_once(served: mlflow.MlflowClient) -> None:
    X, y = load_iris(return_X_y=True)
    forest = RandomForestClassifier(5, random_state=0).fit(X, y)
    report = replace(REPORT, proof=analyze(forest, X, y).proof)
    with mlflow.start_run():
        info = mlflow.sklearn.log_model(
            forest,
            name="forest",
            serialization_format="cloudpickle",
            pip_requirements=[],
        )
        for _ in range(2):
            log_report(report, model_id=info.model_id)
    expected = {name: [value] for name, value in scalar_values(REPORT, "ens").items()}
    assert linked_metrics(served, info.model_id) == expected
    assert load_model(info.model_uri).n_estimators == 5
