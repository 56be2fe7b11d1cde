"""Reports in Weights & Biases, read back from the files of offline runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ens_plugin import EnsembleReport, log_report
from ens_plugin.errors import InputError, TrackingError
from ens_plugin.tracking.log import curve_values
from tests.extras import needs_trackers
from tests.tracking.stores import DOWN
from tests.tracking.trackers.offline_run import OfflineRun

wandb: Any = pytest.importorskip("wandb", reason="needs wandb: pip install 'ens-plugin[wandb]'")

pytestmark = [
    *needs_trackers("wandb"),
    pytest.mark.usefixtures("offline"),
    pytest.mark.filterwarnings(r"ignore:::wandb(\..*)?"),
]


def only_run(folder: Path) -> OfflineRun:
    (found,) = folder.glob("wandb/offline-run-*")
    return OfflineRun(found)


def test_a_run_of_its_own_is_finished_and_holds_the_report(report: EnsembleReport, tmp_path: Path) -> None:
    run_id = log_report(report, tracker="wandb")
    assert wandb.run is None
    run = only_run(tmp_path)
    assert run.files.parent.name.endswith(run_id)
    assert run.exit_code == 0

    for name in ("ens/accuracy", "ens/accuracy_lower", "ens/accuracy_upper"):
        assert run.metrics[name].step_metric == "ens/size"
        logged = [(row["ens/size"], row[name]) for row in run.history if name in row]
        assert logged == list(curve_values(report, "ens")[name].items())
    assert run.metrics["ens/size"].options.hidden

    scalars = {f"ens/{name}": value for name, value in report.metrics().items()}
    assert {name: run.summary[name] for name in scalars} == scalars
    assert "ens/size" not in run.summary
    assert run.config["ens"]["model"] == report.model
    assert run.config["ens"]["n_members"] == report.n_members

    pictures = {name for row in run.history for name, kind in row.items() if kind == "image-file"}
    assert pictures == {f"ens/{name}/_type" for name in ("error_curve", "agreement")}
    assert any(row.get("ens/report/_type") == "html-file" for row in run.history)
    assert {"ens/report.html", "ens/report.json", "ens/curve.csv"} <= run.saved
    for path in run.saved:
        file = run.files / path
        assert file.is_file(), f"{path} was a link to a file that is gone"
        assert not file.is_symlink()
    again = EnsembleReport.from_json((run.files / "ens" / "report.json").read_text())
    assert again.to_dict() == report.to_dict()


def test_the_active_run_is_used_and_stays_open(report: EnsembleReport, tmp_path: Path) -> None:
    with wandb.init() as active:
        assert log_report(report, tracker="wandb") == active.id
        assert wandb.run is active
        active.log({"mine": 1})
        with pytest.raises(InputError, match=r"'ens' in its configuration already.*prefix='ens_2'"):
            log_report(report, tracker="wandb")
        log_report(report, tracker=active, prefix="ens_2")
    run = only_run(tmp_path)
    assert run.summary["mine"] == 1
    assert run.summary["ens/accuracy"] == run.summary["ens_2/accuracy"] == report.accuracy
    n_sizes = len(curve_values(report, "ens")["ens/accuracy"])
    assert sum("ens/accuracy" in row for row in run.history) == n_sizes


def test_a_given_run_is_used_rather_than_the_active_one(report: EnsembleReport) -> None:
    with wandb.init() as active, wandb.init(reinit="create_new") as given:
        assert log_report(report, tracker=given) == given.id
        assert "ens" in given.config
        assert "ens" not in active.config


def test_a_finished_run_is_refused_by_a_tracking_error(report: EnsembleReport) -> None:
    with wandb.init() as run:
        pass
    with pytest.raises(TrackingError, match=r"Weights & Biases did not take the report: Run .* is finished"):
        log_report(report, tracker=run)


def test_a_run_of_its_own_fails_with_the_logging(
    report: EnsembleReport, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise OSError("disk is full")

    monkeypatch.setattr("ens_plugin.tracking.trackers._copy_files", fail)
    with pytest.raises(TrackingError, match="disk is full"):
        log_report(report, tracker="wandb")
    assert wandb.run is None
    assert only_run(tmp_path).exit_code == 1


def test_a_server_that_is_down_is_noticed_within_seconds(
    report: EnsembleReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The library's own `init` would try for a minute and a half."""
    settings = wandb.setup().settings
    monkeypatch.setattr(settings, "mode", "online")
    monkeypatch.setattr(settings, "base_url", DOWN)
    monkeypatch.setattr(wandb, "init", lambda: pytest.fail("the server was taken to be up"))
    with pytest.raises(TrackingError, match=r"at http://127\.0\.0\.1:9 cannot be reached .*WANDB_MODE=offline"):
        log_report(report, tracker="wandb")
