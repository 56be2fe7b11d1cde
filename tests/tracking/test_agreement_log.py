"""An agreement on rows without labels, in runs of MLflow and in a tracker of one's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mlflow
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from ens_plugin.errors import InputError
from ens_plugin.tracking import log_votes
from ens_plugin.votes import analyze_verdicts
from tests.tracking.trackers.recorder import Recorder

X, Y = load_breast_cancer(return_X_y=True)
TODAY = ens_plugin.agreement(RandomForestClassifier(60, random_state=0).fit(X[:300], Y[:300]), X[300:])


@pytest.fixture
def tracking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> mlflow.MlflowClient:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/runs.db")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/runs.db")
    mlflow.create_experiment("nightly", artifact_location=(tmp_path / "files").as_uri())
    mlflow.set_experiment("nightly")
    return mlflow.MlflowClient()


def test_a_run_has_the_numbers_the_curve_and_the_files(tracking: mlflow.MlflowClient, tmp_path: Path) -> None:
    run = tracking.get_run(ens_plugin.log_agreement(TODAY))
    assert run.info.status == "FINISHED"
    metrics = run.data.metrics
    assert metrics["ens.agreement"] == TODAY.agreement == metrics["ens/agreement"]
    assert metrics["ens.agreement_rows"] == 269
    assert metrics["ens.undecided_rows"] == len(TODAY.undecided)
    assert metrics["ens.probability_sd"] == TODAY.probability_sd
    assert metrics.get("ens.agreement_size") == TODAY.recommended_size
    steps = [point.step for point in tracking.get_metric_history(run.info.run_id, "ens/agreement")]
    assert max(steps) == 60
    names = {Path(item.path).name for item in tracking.list_artifacts(run.info.run_id, "ensemble")}
    assert names == {"agreement.html", "agreement.json", "undecided.csv"}
    saved = tracking.download_artifacts(run.info.run_id, "ensemble/agreement.json", str(tmp_path))
    assert json.loads(Path(saved).read_text())["agreement"] == TODAY.agreement
    assert "predict the label that infinitely" in run.data.tags["mlflow.note.content"]


def test_the_active_run_and_a_named_one_are_used(tracking: mlflow.MlflowClient) -> None:
    with mlflow.start_run() as active:
        assert ens_plugin.log_agreement(TODAY) == active.info.run_id
    assert ens_plugin.log_agreement(TODAY, run_id=active.info.run_id, prefix="night") == active.info.run_id
    assert {"ens.agreement", "night.agreement"} <= set(tracking.get_run(active.info.run_id).data.metrics)


def test_votes_and_verdicts_are_logged_too(tracking: mlflow.MlflowClient) -> None:
    votes = ens_plugin.analyze_votes([["4", "4", "5"], ["7", "7", "7"]] * 30, ["4", "7"] * 30)
    run = tracking.get_run(log_votes(votes))
    here = votes.at([3]).iloc[0]
    assert run.data.metrics["ens.maj_at_k"] == here.maj_at_k == run.data.metrics["ens/maj_at_k"]
    assert run.data.metrics["ens.samples_needed"] == votes.recommended_size
    verdicts = analyze_verdicts([[True, True, False], [True] * 3] * 20, least_pass_rate=0.9)
    run = tracking.get_run(log_votes(verdicts))
    assert run.data.metrics["ens.pass_rate"] == verdicts.pass_rate
    assert run.data.metrics["ens.repeats_needed"] == max(verdicts.repeats.values())
    names = {Path(item.path).name for item in tracking.list_artifacts(run.info.run_id, "ensemble")}
    assert names == {"votes.json", "questions.csv"}
    with pytest.raises(InputError, match="no result of votes"):
        log_votes(TODAY)  # type: ignore[arg-type]


def test_a_tracker_of_ones_own_gets_all_parts() -> None:
    tracker = Recorder()
    assert ens_plugin.log_agreement(TODAY, tracker=tracker) == "Recorder"
    assert tracker.calls[-2:] == ["curve", "scalars"]
    assert set(tracker.figures) == {"ens/agreement"}
    assert list(tracker.files) == ["ens/agreement.html", "ens/agreement.json", "ens/undecided.csv"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"found": "today"}, "is not an agreement"),
        ({"found": TODAY, "prefix": "a b"}, "prefix"),
        ({"found": TODAY, "tracker": Recorder(), "run_id": "1"}, "run_id is of MLflow"),
        ({"found": TODAY, "tracker": "nothing"}, "nothing"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ens_plugin.log_agreement(**arguments)
