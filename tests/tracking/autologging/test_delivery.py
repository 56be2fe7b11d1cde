from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import mlflow
import pytest

from ens_plugin.analysis.options import AnalysisOptions
from ens_plugin.errors import TrackingError
from ens_plugin.tracking.settings import AutologOptions
from ens_plugin.tracking.uploads import ReportUpload, deliver
from tests.reports import classification_report
from tests.tracking.stores import DOWN, MLFLOW_WARNINGS

pytestmark = MLFLOW_WARNINGS

REPORT = replace(classification_report(), created="2026-01-02T03:04:05+00:00")


def upload(prefix: str = "ens", **changes: object) -> ReportUpload:
    whole = ReportUpload(
        report=REPORT,
        tracking_uri=mlflow.get_tracking_uri(),
        run_id=None,
        data_digest="v1:0",
        settings=AutologOptions(False, False, 0.1, prefix, False, AnalysisOptions()),
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


class TestDeliver:
    def test_makes_a_run_and_ends_it(self, embedded: mlflow.MlflowClient) -> None:
        run = embedded.get_run(deliver(upload()))
        assert run.info.status == "FINISHED"
        assert run.data.tags["ens.data_digest"] == "v1:0"
        assert mlflow.active_run() is None

    def test_the_run_is_failed_until_the_report_is_complete(
        self, embedded: mlflow.MlflowClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A program that is killed meanwhile leaves no run RUNNING."""
        seen: list[str] = []

        def look(client: mlflow.MlflowClient, run_id: str, content: object) -> None:
            seen.append(client.get_run(run_id).info.status)

        monkeypatch.setattr("ens_plugin.tracking.uploads.send", look)
        run = embedded.get_run(deliver(upload()))
        assert seen == ["FAILED"]
        assert run.info.status == "FINISHED"

    def test_pythons_generator_is_left_alone(self, embedded: mlflow.MlflowClient) -> None:
        before = random.getstate()
        run = embedded.get_run(deliver(upload()))
        assert random.getstate() == before
        assert str(run.info.run_name).startswith(REPORT.model)

    def test_a_run_that_was_made_for_nothing_is_failed(
        self, embedded: mlflow.MlflowClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*arguments: object) -> None:
            raise OSError("disk full")

        monkeypatch.setattr("ens_plugin.tracking.uploads.send", fail)
        with pytest.raises(TrackingError, match="disk full"):
            deliver(upload())
        experiment = embedded.get_experiment_by_name("tests")
        assert experiment is not None
        (last,) = embedded.search_runs([experiment.experiment_id], max_results=1)
        assert last.info.status == "FAILED"

    def test_each_report_of_a_run_has_the_next_free_prefix(self, embedded: mlflow.MlflowClient) -> None:
        with mlflow.start_run() as run:
            pass
        for prefix in ("ens", "ens", "other", "ens"):
            deliver(upload(run_id=run.info.run_id, prefix=prefix))
        logged = embedded.get_run(run.info.run_id).data.metrics
        assert {name.removesuffix(".accuracy") for name in logged if name.endswith(".accuracy")} == {
            "ens", "ens_2", "ens_3", "other",
        }  # fmt: skip

    @pytest.mark.slow
    def test_a_run_of_its_own_needs_the_store_of_the_fit(self, embedded: mlflow.MlflowClient, tmp_path: Path) -> None:
        with pytest.raises(TrackingError, match="changed"):
            deliver(upload(tracking_uri=f"sqlite:///{tmp_path}/elsewhere.db"))

    def test_no_server(self, embedded: mlflow.MlflowClient) -> None:
        with pytest.raises(TrackingError, match="cannot be reached"):
            deliver(upload(tracking_uri=DOWN, run_id="0" * 32))
