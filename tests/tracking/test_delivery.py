from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import mlflow
import pytest

from ens_plugin.errors import TrackingError
from ens_plugin.tracking.delivery import MAX_WAITING, Shipment, deliver, post
from tests.reports import classification_report
from tests.tracking.stores import DOWN, MLFLOW_WARNINGS

pytestmark = MLFLOW_WARNINGS

REPORT = replace(classification_report(), created="2026-01-02T03:04:05+00:00")


def shipment(**changes: object) -> Shipment:
    whole = Shipment(
        report=REPORT,
        directory=None,
        tracking_uri=mlflow.get_tracking_uri(),
        run_id=None,
        model_id=None,
        prefix="ens",
        data_digest="v1:0",
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


class TestDeliver:
    def test_makes_a_run_and_ends_it(self, embedded: mlflow.MlflowClient) -> None:
        run = embedded.get_run(deliver(shipment()))
        assert run.info.status == "FINISHED"
        assert run.data.tags["ens.data_digest"] == "v1:0"
        assert mlflow.active_run() is None

    def test_a_run_that_was_made_for_nothing_is_failed(
        self, embedded: mlflow.MlflowClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(*arguments: object) -> None:
            raise OSError("disk full")

        monkeypatch.setattr("ens_plugin.tracking.delivery.send", fail)
        with pytest.raises(TrackingError, match="disk full"):
            deliver(shipment())
        experiment = embedded.get_experiment_by_name("tests")
        assert experiment is not None
        (last,) = embedded.search_runs([experiment.experiment_id], max_results=1)
        assert last.info.status == "FAILED"

    def test_each_report_of_a_run_has_the_next_free_prefix(self, embedded: mlflow.MlflowClient) -> None:
        with mlflow.start_run() as run:
            pass
        for prefix in ("ens", "ens", "other", "ens"):
            deliver(shipment(run_id=run.info.run_id, prefix=prefix))
        logged = embedded.get_run(run.info.run_id).data.metrics
        assert {name.removesuffix(".error") for name in logged if name.endswith(".error")} == {
            "ens", "ens_2", "ens_3", "other",
        }  # fmt: skip

    def test_a_run_of_its_own_needs_the_store_of_the_fit(self, embedded: mlflow.MlflowClient, tmp_path: Path) -> None:
        with pytest.raises(TrackingError, match="changed"):
            deliver(shipment(tracking_uri=f"sqlite:///{tmp_path}/elsewhere.db"))

    def test_no_server(self, embedded: mlflow.MlflowClient) -> None:
        with pytest.raises(TrackingError, match="cannot be reached"):
            deliver(shipment(tracking_uri=DOWN, run_id="0" * 32))


class TestPost:
    def test_works_in_turn(self) -> None:
        done: list[int] = []
        first = threading.Event()
        assert not post(lambda: done.append(int(first.wait(30)) * 0), 0.0)
        assert not post(lambda: done.append(1), 0.0)
        first.set()
        assert post(lambda: done.append(2), 30)
        assert done == [0, 1, 2]

    def test_too_many_are_left_out(self) -> None:
        gate = threading.Event()
        started = threading.Event()
        post(lambda: started.set() or gate.wait(30), 0.0)
        assert started.wait(30)
        for _ in range(MAX_WAITING):
            post(lambda: None, 0.0)
        with pytest.raises(TrackingError, match="waiting for the tracking server"):
            post(lambda: None, 0.0)
        gate.set()
        assert wait_for_room()

    def test_the_end_of_the_program_is_not_held_up(self) -> None:
        assert all(thread.daemon for thread in threading.enumerate() if thread.name == "ens_plugin.autolog")


def wait_for_room() -> bool:
    for _ in range(100):
        try:
            return post(lambda: None, 30)
        except TrackingError:
            threading.Event().wait(0.1)
    return False
