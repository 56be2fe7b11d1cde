"""Reports in DVCLive, read back from its files and with DVC's own commands."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ens_plugin import EnsembleReport, log_report
from ens_plugin.errors import TrackingError
from ens_plugin.tracking.log import curve_values
from tests.extras import needs_trackers

dvclive: Any = pytest.importorskip("dvclive", reason="needs dvclive: pip install 'ens-plugin[dvclive]'")

pytestmark = [*needs_trackers("dvclive"), pytest.mark.filterwarnings(r"ignore:::(dvc|scmrepo|pygit2|asyncssh)(\..*)?")]


@pytest.fixture(autouse=True)
def _no_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def check(folder: Path, report: EnsembleReport, prefix: str = "ens") -> None:
    points = json.loads((folder / "plots" / "custom" / prefix / "accuracy.json").read_text())
    for name in ("accuracy", "accuracy_lower", "accuracy_upper"):
        logged = {point["size"]: point[name] for point in points}
        assert logged == curve_values(report, prefix)[f"{prefix}/{name}"]
    assert json.loads((folder / "metrics.json").read_text())[prefix] == report.metrics()
    assert {path.name for path in (folder / "plots" / "images" / prefix).iterdir()} == {
        "error_curve.png", "agreement.png",
    }  # fmt: skip
    again = EnsembleReport.from_json((folder / prefix / "report.json").read_text())
    assert again.to_dict() == report.to_dict()


def shown_by_dvc(*what: str) -> Any:
    """What ``dvc metrics show`` and the like give, by DVC's own functions."""
    from dvc.repo import Repo

    with Repo.init(no_scm=True, force=True) as repo:
        if what == ("metrics",):
            return repo.metrics.show()
        return repo.plots.show()


def test_a_directory_of_its_own_holds_the_report_and_the_users_stays(report: EnsembleReport, tmp_path: Path) -> None:
    with dvclive.Live() as mine:
        mine.log_metric("loss", 0.5)
        mine.log_plot("own", [{"a": 1, "b": 2}], x="a", y="b")
    before = {path: path.read_bytes() for path in (tmp_path / "dvclive").rglob("*") if path.is_file()}
    assert log_report(report, tracker="dvclive") == "dvclive-ens"
    check(tmp_path / "dvclive-ens", report)
    assert {path: path.read_bytes() for path in (tmp_path / "dvclive").rglob("*") if path.is_file()} == before
    listed = (tmp_path / "dvc.yaml").read_text()
    for path in (
        "dvclive/plots/custom/own.json",
        "dvclive-ens/plots/custom/ens/accuracy.json",
        "dvclive-ens/plots/images",
    ):
        assert path in listed


def test_dvc_itself_reads_the_metrics_and_the_plot(report: EnsembleReport) -> None:
    log_report(report, tracker="dvclive")
    (shown,) = shown_by_dvc("metrics").values()
    (metrics,) = shown["data"].values()
    assert metrics["data"]["ens"]["recommended_size"] == report.recommended_size
    definitions = json.dumps(shown_by_dvc("plots"), default=str)
    assert '"x": "size"' in definitions
    assert '"y": ["accuracy", "accuracy_lower", "accuracy_upper"]' in definitions


def test_a_given_live_keeps_its_step_and_takes_a_report_again(report: EnsembleReport, tmp_path: Path) -> None:
    with dvclive.Live("training") as live:
        for loss in (0.5, 0.4):
            live.log_metric("loss", loss)
            live.next_step()
        step = live.step
        for seen in (replace(report, n_members=report.n_members + 2), report):
            assert log_report(seen, tracker=live) == "training"
            assert live.step == step
        live.log_metric("loss", 0.3)
        live.next_step()
    check(tmp_path / "training", report)
    history = (tmp_path / "training" / "plots" / "metrics" / "loss.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in history] == ["step", "0", "1", "2"]
    assert not (tmp_path / "training" / "plots" / "metrics" / "ens").exists()
    assert not (tmp_path / "dvclive-ens").exists()


def test_two_prefixes_share_a_live(report: EnsembleReport, tmp_path: Path) -> None:
    with dvclive.Live("training") as live:
        log_report(report, tracker=live)
        log_report(report, tracker=live, prefix="forest.a")
    check(tmp_path / "training", report)
    check(tmp_path / "training", report, "forest.a")
    assert "forest.a/accuracy.json" in (tmp_path / "dvc.yaml").read_text()


def test_a_directory_that_cannot_be_written_is_a_tracking_error(report: EnsembleReport, tmp_path: Path) -> None:
    (tmp_path / "dvclive-ens").write_text("a file")
    with pytest.raises(TrackingError, match="DVCLive did not take the report"):
        log_report(report, tracker="dvclive")
