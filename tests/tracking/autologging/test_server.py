"""autolog over HTTP: a real ``mlflow server``, and servers that are down, fail or never answer."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

import mlflow
import mlflow.sklearn
import pytest
from sklearn.model_selection import GridSearchCV

from ens_plugin import autolog
from ens_plugin.tracking.uploads import wait_until_sent
from tests.tracking.autologged_fits import (
    PATIENT,
    X,
    classifier,
    has_report,
    in_order,
    messages,
    only_run,
    patiently,
    y,
)
from tests.tracking.faulty_proxy import faulty_proxy
from tests.tracking.fits import new_experiment
from tests.tracking.servers import answering
from tests.tracking.stores import DOWN, MLFLOW_WARNINGS, linked_metrics, tracking_to

pytestmark = [MLFLOW_WARNINGS, pytest.mark.usefixtures("autologging"), pytest.mark.xdist_group("mlflow_server")]


@pytest.mark.slow
@pytest.mark.server
class TestServer:
    @pytest.mark.usefixtures("canned_report")
    @pytest.mark.parametrize("ours_first", [True, False])
    def test_a_search_beside_mlflows_autologging(
        self, ours_first: bool, served: mlflow.MlflowClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("mlflow.models.infer_pip_requirements", lambda *arguments, **options: [])
        quick = {"log_post_training_metrics": False, "log_model_signatures": False}
        in_order(ours_first, patiently, lambda: mlflow.sklearn.autolog(**quick))
        with new_experiment(served) as experiment:
            GridSearchCV(classifier(n_estimators=5), {"max_depth": [1, 2]}, cv=2).fit(X, y)
            run = only_run(served, experiment)
        assert has_report(run)
        assert run.outputs is not None
        linked = [linked_metrics(served, output.model_id) for output in run.outputs.model_outputs]
        # The search and its best estimator, which predict the same.
        assert sum("ens.accuracy" in metrics for metrics in linked) == 2

    @pytest.mark.usefixtures("canned_report")
    @pytest.mark.parametrize("n_requests", [1, 3, 5])
    def test_a_server_that_dies_on_the_way_and_comes_back(
        self,
        n_requests: int,
        served: mlflow.MlflowClient,
        log: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        patiently()
        with new_experiment(served) as experiment:
            run = served.create_run(experiment)
            monkeypatch.setenv("MLFLOW_RUN_ID", run.info.run_id)
            with faulty_proxy(served.tracking_uri) as proxy, tracking_to(proxy.uri):
                proxy.rule = lambda request: "drop" if request.number >= n_requests else None
                model = classifier()
                assert model.fit(X, y) is model
            (warning,) = messages(log, logging.WARNING)
            assert "cannot be reached" in warning or "refused the call" in warning
            classifier().fit(X, y)
            served.set_terminated(run.info.run_id)
            logged = only_run(served, experiment)
        assert has_report(logged) or has_report(logged, "ens_2")


@pytest.mark.usefixtures("canned_report")
class TestFaults:
    """The fit is unaffected, and there is one warning, whatever the number of fits."""

    def check(self, log: pytest.LogCaptureFixture, message: str) -> None:
        patiently()
        for _ in range(2):
            model = classifier()
            assert model.fit(X, y) is model
            assert len(model.estimators_) == 25
        (warning,) = messages(log, logging.WARNING)
        assert message in warning
        assert mlflow.active_run() is None

    def test_a_server_that_fails(self, log: pytest.LogCaptureFixture) -> None:
        with answering(500, threading.Event()) as uri, tracking_to(uri):
            self.check(log, "status 500")

    def test_a_full_disk(self, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*arguments: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("ens_plugin.tracking.uploads.render_artifacts", fail)
        autolog(max_overhead=PATIENT)
        model = classifier().fit(X, y)
        assert len(model.estimators_) == 25
        (warning,) = messages(log, logging.WARNING)
        assert "No space left" in warning

    def test_a_server_that_never_answers_is_not_waited_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("ens_plugin.tracking.uploads.LEAST_WAIT_S", 0.01)
        monkeypatch.setattr("ens_plugin.tracking.settings.LEAST_SECONDS", 0.0)
        released = threading.Event()
        with answering(None, released) as uri, tracking_to(uri):
            autolog(log_artifacts=False)
            for _ in range(2):
                classifier().fit(X, y)
            assert not released.is_set()

    def test_a_dead_server_that_is_not_waited_for_is_said_to_be_dead(
        self, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("ens_plugin.tracking.uploads.LEAST_WAIT_S", 0.0)
        monkeypatch.setattr("ens_plugin.tracking.settings.LEAST_SECONDS", 0.0)
        autolog(log_artifacts=False)
        with tracking_to(DOWN):
            classifier().fit(X, y)
            assert wait_until_sent(60)
        no_time = "The training data have no digest"  # on a busy machine
        (warning,) = (one for one in messages(log, logging.WARNING) if not one.startswith(no_time))
        assert "cannot be reached" in warning

    def test_a_dead_server_is_left_alone_for_a_minute(
        self, log: pytest.LogCaptureFixture, canned_report: list[object]
    ) -> None:
        with tracking_to(DOWN):
            self.check(log, "Fits of the next 60 seconds get no report")
            assert len(canned_report) == 1
            (skipped,) = messages(log, logging.DEBUG)
            assert "RandomForestClassifier was not logged: The MLflow tracking server at http" in skipped
            patiently()
            classifier().fit(X, y)
            assert len(canned_report) == 2

    def test_a_dead_server_is_tried_again_later(
        self, log: pytest.LogCaptureFixture, canned_report: list[object], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("ens_plugin.tracking.uploads.AVOIDED_S", 0.0)
        with tracking_to(DOWN):
            self.check(log, "cannot be reached")
        assert len(canned_report) == 2

    @pytest.mark.slow
    def test_the_end_of_the_program_is_not_held_up(self, tmp_path: Path) -> None:
        code = """
import ens_plugin
from tests.tracking.autologged_fits import X, classifier, y
ens_plugin.autolog(log_artifacts=False)
print(len(classifier().fit(X, y).estimators_))
"""
        with answering(None, threading.Event()) as uri:
            done = subprocess.run(
                [sys.executable, "-c", code], env={**os.environ, "MLFLOW_TRACKING_URI": uri, "PYTHONPATH": os.getcwd()},
                cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
            )  # fmt: skip
        assert done.stdout.strip() == "25"
        assert done.stderr.count("was not sent completely before the program ended") == 1
