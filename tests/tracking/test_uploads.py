"""Uploads: their order, that stores do not wait for each other, forked processes, the end of the program."""

from __future__ import annotations

import multiprocessing
import os
import random
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import mlflow
import pytest

from ens_plugin.analysis.options import AnalysisOptions
from ens_plugin.errors import TrackingError
from ens_plugin.tracking import uploads as upload_queue
from ens_plugin.tracking.settings import AutologOptions
from ens_plugin.tracking.uploads import (
    MAX_WAITING,
    Progress,
    ReportUpload,
    Upload,
    deliver,
    post,
    wait_until_sent,
)
from tests.reports import classification_report
from tests.tracking.stores import MLFLOW_WARNINGS, new_store

pytestmark = MLFLOW_WARNINGS


class TestPost:
    def test_works_in_turn(self) -> None:
        done: list[int] = []
        first = threading.Event()
        assert not post(Upload("store", lambda: done.append(int(first.wait(30)) * 0)), 0.0)
        assert not post(Upload("store", lambda: done.append(1)), 0.0)
        first.set()
        assert post(Upload("store", lambda: done.append(2)), 30)
        assert done == [0, 1, 2]

    def test_one_that_is_posted_as_another_ends_is_sent_once(self) -> None:
        done: list[str] = []

        def send_second() -> None:
            done.append("second")
            threading.Event().wait(0.2)  # time enough for another worker to send it too

        class PostsAnother(threading.Event):
            def set(self) -> None:
                post(Upload("store", send_second), 0.0)
                super().set()

        assert post(Upload("store", lambda: done.append("first"), sent=PostsAnother()), 30)
        assert wait_until_sent(30)
        assert done == ["first", "second"]

    def test_a_store_that_hangs_holds_up_no_other(self) -> None:
        released = threading.Event()
        assert not post(Upload("hanging", lambda: released.wait(30)), 0.0)
        assert post(Upload("other", lambda: None), 10)
        assert not wait_until_sent(0.0)
        released.set()
        assert wait_until_sent(30)

    def test_too_many_are_left_out(self) -> None:
        gate = threading.Event()
        post(Upload("store", lambda: gate.wait(30)), 0.0)
        for _ in range(MAX_WAITING):
            post(Upload("store", lambda: None), 0.0)
        with pytest.raises(TrackingError, match="waiting for the tracking server"):
            post(Upload("store", lambda: None), 0.0)
        assert post(Upload("other", lambda: None), 30)
        gate.set()
        assert wait_until_sent(30)
        assert post(Upload("store", lambda: None), 30)

    def test_a_thread_that_cannot_be_started_is_an_error_each_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        with monkeypatch.context() as changed:
            changed.setattr(threading.Thread, "start", refuse)
            for _ in range(2):
                with pytest.raises(TrackingError, match="can't start new thread"):
                    post(Upload("store", lambda: None), 0.0)
        assert post(Upload("store", lambda: None), 30)

    def test_nothing_runs_where_nothing_is_sent(self) -> None:
        assert post(Upload("store", lambda: None), 30)
        for _ in range(500):
            if not [thread for thread in threading.enumerate() if thread.name == "ens_plugin.autolog"]:
                return
            threading.Event().wait(0.01)
        raise AssertionError("a thread waits for work")


class TestEnd:
    """What the end of the program waits for."""

    @pytest.fixture(autouse=True)
    def soon(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, seconds in {"EXIT_S": 0.2, "UNREACHED_S": 0.1, "ENDING_S": 0.3}.items():
            monkeypatch.setattr(upload_queue, name, seconds)

    def end(self, progress: Progress, seconds: float) -> tuple[bool, bool]:
        """Whether an upload that takes so long was sent by the end, and whether it was given up."""
        lost = threading.Event()
        released = threading.Event()
        upload = Upload("store", lambda: released.wait(seconds), lost.set, progress)
        post(upload, 0.0)
        upload_queue._end()
        sent = upload.sent.is_set()
        released.set()
        assert wait_until_sent(30)
        return sent, lost.is_set()

    def test_waits_for_what_is_sent_soon(self) -> None:
        assert self.end(Progress(is_reachable=True), 0.05) == (True, False)

    def test_gives_up_what_takes_long(self) -> None:
        assert self.end(Progress(is_reachable=True), 30) == (False, True)

    def test_waits_for_all_reports_together_and_tells_of_each_that_is_late(self) -> None:
        lost: list[int] = []
        released = threading.Event()
        for number in range(5):
            # The first one reaches the store; the others wait behind it.
            progress = Progress(is_reachable=number == 0)
            post(Upload("store", lambda: released.wait(0.15), lambda number=number: lost.append(number), progress), 0.0)
        start = time.monotonic()
        upload_queue._end()
        waited = time.monotonic() - start
        released.set()
        assert wait_until_sent(30)
        assert 0.15 < waited < 0.5
        assert lost == [1, 2, 3, 4]

    def test_gives_up_a_silent_store_sooner(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(upload_queue, "EXIT_S", 60.0)
        assert self.end(Progress(), 30) == (False, True)

    def test_waits_longer_for_a_run_that_would_stay_running(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(upload_queue, "ENDING_S", 60.0)
        assert self.end(Progress(is_reachable=True, makes_run=True), 0.5) == (True, False)

    def test_does_not_wait_forever_for_it(self) -> None:
        assert self.end(Progress(is_reachable=True, makes_run=True), 30) == (False, True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_sends_its_own() -> None:
    released = threading.Event()
    post(Upload("store", lambda: released.wait(60)), 0.0)

    def child() -> None:
        os._exit(0 if post(Upload("store", lambda: None), 20) else 1)

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(60)
    released.set()
    assert process.exitcode == 0
    assert wait_until_sent(30)


KILLED = """
while not done:
    time.sleep(0.05)
os.kill(os.getpid(), 9)
"""
SLOW_STORE = """
import os, sys, time
import ens_plugin, mlflow
from ens_plugin.tracking import uploads as upload_queue
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
from tests.tracking.autologged_fits import X, classifier, y

done = []

def slow(name, seconds):
    original = getattr(SqlAlchemyStore, name)
    def call(*args, **kwargs):
        result = original(*args, **kwargs)
        done.append(name)
        time.sleep(seconds)
        return result
    setattr(SqlAlchemyStore, name, call)

mlflow.set_tracking_uri({uri!r})
mlflow.set_experiment("tests")
ens_plugin.autolog(log_artifacts=False)
{setting}
classifier().fit(X, y)
{end}
"""


# How the store is slowed, how the program ends, the status that its run has then, and what it prints.
ENDS = {
    "slow": ("slow('create_run', 4); slow('log_batch', 1)", "", "FINISHED", ""),
    "too slow": (
        "upload_queue.EXIT_S = 0.5; slow('create_run', 4); slow('log_batch', 5)", "",
        "FAILED", "is marked FAILED",
    ),
    "killed": ("slow('log_batch', 30)", KILLED, "FAILED", ""),
    "exit": ("slow('log_batch', 4)", "raise SystemExit", "FINISHED", ""),
    "exception": ("slow('log_batch', 4)", "raise ValueError", "FINISHED", ""),
}  # fmt: skip


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """Return the store of each program, and its errors; they run beside each other, because they mostly wait."""
    directory = tmp_path_factory.mktemp("programs")

    def run(name: str, uri: str) -> tuple[str, str]:
        code = SLOW_STORE.format(uri=uri, setting=ENDS[name][0], end=ENDS[name][1])
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=directory, env={**os.environ, "PYTHONPATH": os.getcwd()},
            capture_output=True, text=True, timeout=200, check=False,
        )  # fmt: skip
        return uri, done.stderr

    stores = [new_store(tmp_path_factory.mktemp("ended")) for _ in ENDS]
    with ThreadPoolExecutor(len(ENDS)) as threads:
        return dict(zip(ENDS, threads.map(run, ENDS, stores), strict=True))


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("name", ENDS)
def test_no_run_is_left_running(name: str, ended: dict[str, tuple[str, str]]) -> None:
    _, _, status, said = ENDS[name]
    uri, errors = ended[name]
    client = mlflow.MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("tests")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == status, errors
    assert ("ens.accuracy" in run.data.metrics) == (status == "FINISHED")
    assert said in errors


REPORT = replace(classification_report(), created="2026-01-02T03:04:05+00:00")


def upload(prefix: str = "ens", **changes: object) -> ReportUpload:
    settings = AutologOptions(False, False, 0.1, prefix, False, AnalysisOptions())
    whole = ReportUpload(
        report=REPORT, tracking_uri=mlflow.get_tracking_uri(), run_id=None, data_digest="v1:0", settings=settings
    )
    return replace(whole, **changes)  # type: ignore[arg-type]


class TestDeliver:
    def test_makes_a_run_and_ends_it(self, embedded: mlflow.MlflowClient) -> None:
        state = random.getstate()
        run = embedded.get_run(deliver(upload()))
        assert random.getstate() == state
        assert run.info.status == "FINISHED"
        assert str(run.info.run_name).startswith(REPORT.model)
        assert run.data.tags["ens.data_digest"] == "v1:0"
        assert mlflow.active_run() is None

    def test_the_run_is_failed_until_the_report_is_complete(
        self, embedded: mlflow.MlflowClient, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A program that is killed meanwhile leaves no run RUNNING."""
        seen: list[str] = []
        monkeypatch.setattr(
            "ens_plugin.tracking.uploads.send",
            lambda client, run, content: seen.append(client.get_run(run).info.status),
        )
        assert embedded.get_run(deliver(upload())).info.status == "FINISHED"
        assert seen == ["FAILED"]

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


FILES = {"report.json", "report.html", "curve.csv"}
FIGURES = {"error_curve.png", "agreement.png", "bias_variance.png"}


def names(folder: Path | None) -> set[str]:
    return set() if folder is None else {path.name for path in folder.iterdir()}
