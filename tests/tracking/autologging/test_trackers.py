"""autolog with a list of trackers: who receives a report, and that no failure of theirs reaches the user."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlflow
import pytest

from ens_plugin.tracking.uploads import wait_until_sent
from tests.extras import needs_trackers
from tests.tracking.autologged_fits import X, classifier, has_report, messages, only_run, patiently, y
from tests.tracking.fits import top_runs
from tests.tracking.stores import DOWN, MLFLOW_WARNINGS, tracking_to
from tests.tracking.trackers.recorder import Recorder

pytestmark = [MLFLOW_WARNINGS, pytest.mark.usefixtures("autologging", "canned_report")]


class Failing(Recorder):
    def log_curve(self, curve: Mapping[str, Mapping[int, float]]) -> None:
        raise ZeroDivisionError("of the tracker's own")


def fit_with(*trackers: Any, **options: Any) -> Any:
    patiently(trackers=trackers, **options)
    return classifier().fit(X, y)


class TestDestinations:
    def test_a_tracker_alone_keeps_mlflow_out_of_it(self, embedded: mlflow.MlflowClient, experiment: str) -> None:
        tracker = Recorder()
        fit_with(tracker)
        assert tracker.calls == ["curve", "scalars"]
        assert top_runs(embedded, experiment) == []

    def test_mlflow_alone_is_the_default_whatever_the_environment(
        self, embedded: mlflow.MlflowClient, experiment: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.chdir(tmp_path)
        for name, value in {"WANDB_MODE": "offline", "WANDB_PROJECT": "p", "DVC_EXP_NAME": "e"}.items():
            monkeypatch.setenv(name, value)
        before = dict(os.environ)
        patiently()
        classifier().fit(X, y)
        assert has_report(only_run(embedded, experiment))
        assert list(tmp_path.iterdir()) == []
        assert dict(os.environ) == before

    def test_files_arrive_before_they_are_removed(
        self, embedded: mlflow.MlflowClient, experiment: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folders: list[Path] = []

        def render(report: object, folder: Path) -> None:
            folders.append(folder)
            for name in ("report.html", "report.json"):
                (folder / name).write_text(name)

        monkeypatch.setattr("ens_plugin.tracking.uploads.render_artifacts", render)
        first, second = Recorder(), Recorder()
        fit_with(first, "mlflow", second, log_artifacts=True)
        assert first.files == second.files
        assert first.figures == second.figures
        assert set(first.figures) == {"ens/agreement", "ens/bias_variance", "ens/error_curve"}
        assert set(first.files) == {"ens/report.json", "ens/report.html"}
        run = only_run(embedded, experiment)
        assert len(embedded.list_artifacts(run.info.run_id, "ensemble")) == len(first.files)
        assert [folder.exists() for folder in folders] == [False]

    @pytest.mark.usefixtures("embedded", "experiment")
    def test_each_fit_has_a_prefix_of_its_own_in_a_tracker(self) -> None:
        tracker, other = Recorder(), Recorder()
        fit_with(tracker)
        classifier().fit(X, y)
        fit_with(tracker, other)
        assert {name for name in tracker.scalars if name.endswith(".accuracy")} == {
            "ens.accuracy",
            "ens_2.accuracy",
            "ens_3.accuracy",
        }
        assert {name for name in other.scalars if name.endswith(".accuracy")} == {"ens.accuracy"}

    def test_exclusive_keeps_out_of_the_users_run_only(self, embedded: mlflow.MlflowClient, experiment: str) -> None:
        tracker = Recorder()
        with mlflow.start_run():
            fit_with("mlflow", tracker, exclusive=True)
        assert not has_report(only_run(embedded, experiment))
        assert "ens.accuracy" in tracker.scalars


class TestFailures:
    def test_a_failing_tracker_breaks_neither_the_fit_nor_the_others(
        self, embedded: mlflow.MlflowClient, experiment: str, log: pytest.LogCaptureFixture
    ) -> None:
        tracker = Recorder()
        model = fit_with(Failing(), "mlflow", tracker)
        assert len(model.estimators_) == 25
        assert has_report(only_run(embedded, experiment))
        assert "ens.accuracy" in tracker.scalars
        (warning,) = messages(log, logging.WARNING)
        assert "was not logged: the tracker Failing raised ZeroDivisionError: of the tracker's own" in warning
        classifier().fit(X, y)
        assert len(messages(log, logging.WARNING)) == 1

    def test_a_dead_mlflow_server_keeps_no_report_from_a_tracker(self, log: pytest.LogCaptureFixture) -> None:
        tracker = Recorder()
        with tracking_to(DOWN):
            fit_with("mlflow", tracker)
            classifier().fit(X, y)
        assert {"ens.accuracy", "ens_2.accuracy"} <= set(tracker.scalars)
        (warning,) = messages(log, logging.WARNING)
        assert "cannot be reached" in warning
        assert "Fits of the next 60 seconds get no report there." in warning

    def test_nothing_of_mlflow_is_needed_for_another_tracker(
        self, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse() -> str:
            raise AssertionError("MLflow's store is none of the trackers")

        monkeypatch.setattr("ens_plugin.tracking.autologging._tracking_uri", refuse)
        tracker = Recorder()
        fit_with(tracker)
        assert "ens.accuracy" in tracker.scalars
        assert messages(log, logging.WARNING) == []


@pytest.mark.usefixtures("embedded", "experiment")
class TestLibraries:
    """Runs that are open are used; those that are made for a report are closed when the fit returns."""

    pytestmark = needs_trackers("wandb", "tensorboardX", "tensorboard", "dvclive")

    @pytest.mark.filterwarnings(r"ignore:::(wandb|dvc|scmrepo|pygit2|asyncssh)(\..*)?")
    def test_each_has_the_report_and_python_its_random_numbers(
        self, offline: Path, log: pytest.LogCaptureFixture
    ) -> None:
        import wandb

        state = random.getstate()
        fit_with("wandb", "tensorboard", "dvclive")
        assert wandb.run is None
        with wandb.init() as run:
            classifier().fit(X, y)
            classifier().fit(X, y)
            assert {"ens/accuracy", "ens_2/accuracy"} <= set(run.summary.keys())
            assert wandb.run is run
        assert wait_until_sent(60)
        assert random.getstate() == state
        assert messages(log, logging.WARNING) == []
        assert len(list(offline.glob("wandb/offline-run-*"))) == 2
        assert len(list(offline.glob("runs/*/events*"))) == 3
        assert {path.name for path in offline.glob("dvclive*")} == {"dvclive-ens", "dvclive-ens_2", "dvclive-ens_3"}

    @pytest.mark.filterwarnings(r"ignore:::wandb(\..*)?")
    def test_a_run_that_the_user_opened_is_left_alone_where_autologging_is_exclusive(self, offline: Path) -> None:
        import wandb

        with wandb.init() as run:
            fit_with("wandb", exclusive=True)
            assert "ens" not in run.config
        assert len(list(offline.glob("wandb/offline-run-*"))) == 1

    @pytest.mark.filterwarnings(r"ignore:::wandb(\..*)?")
    def test_wandb_is_left_alone_for_a_minute_when_no_run_can_be_made(
        self, offline: Path, log: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, canned_report: list[Any]
    ) -> None:
        import wandb

        def fail() -> None:
            raise wandb.errors.CommError("no route to host")

        monkeypatch.setattr(wandb, "init", fail)
        tracker = Recorder()
        fit_with("wandb", tracker)
        classifier().fit(X, y)
        assert {"ens.accuracy", "ens_2.accuracy"} <= set(tracker.scalars)
        (warning,) = messages(log, logging.WARNING)
        assert "Weights & Biases did not take the report: no route to host. Log in with `wandb login`" in warning
        assert "Fits of the next 60 seconds get no report there." in warning
        fit_with("wandb")
        assert len(canned_report) == 3, "switching it on tries again"
        classifier().fit(X, y)
        assert len(canned_report) == 3, "no report is made for nobody"
