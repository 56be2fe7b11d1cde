from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import mlflow
import pytest
from matplotlib.axes import Axes

from ens_plugin import EnsembleReport
from ens_plugin.report.comparison import Comparison
from ens_plugin.tracking import log_report
from ens_plugin.tracking.log import write_data
from tests.reports import classification_report, label_report, regression_report
from tests.tracking.stores import MLFLOW_WARNINGS

pytestmark = MLFLOW_WARNINGS

REPORT = classification_report()


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The names in each comparison that is drawn; pages and other figures are left out, as they take long."""
    found: list[list[str]] = []
    draw = Comparison.plot

    def plot(self: Comparison, ax: Axes | None = None) -> Axes:
        found.append(list(self.reports))
        return draw(self, ax)

    monkeypatch.setattr(Comparison, "plot", plot)
    monkeypatch.setattr("ens_plugin.tracking.log.render_artifacts", write_data)
    return found


def logged(client: mlflow.MlflowClient, experiment: str, name: str, report: EnsembleReport, **options: Any) -> str:
    mlflow.set_experiment(experiment)
    with mlflow.start_run(run_name=name):
        return log_report(report, **options)


def pictures(client: mlflow.MlflowClient, run_id: str) -> list[str]:
    return [item.path for item in client.list_artifacts(run_id, "ensemble") if item.path.endswith(".png")]


def test_the_newest_run_has_a_picture_of_runs_with_as_many_rows(
    embedded: mlflow.MlflowClient, drawn: list[list[str]]
) -> None:
    first = logged(embedded, "alike", "first", REPORT)
    assert pictures(embedded, first) == []
    logged(embedded, "alike", "other rows", replace(REPORT, n_rows=REPORT.n_rows + 1))
    logged(embedded, "alike", "other error", regression_report())
    logged(embedded, "alike", "other prefix", REPORT, prefix="challenger")
    logged(embedded, "alike", "label", label_report("ham"))
    logged(embedded, "alike", "other label", label_report("spam"))
    last = logged(embedded, "alike", "last", replace(REPORT, n_members=100))
    assert drawn == [["last", "first"]]
    assert pictures(embedded, last) == ["ensemble/comparison.png"]
    path = embedded.download_artifacts(last, "ensemble/comparison.png")
    assert Path(path).read_bytes().startswith(b"\x89PNG")


def test_a_report_that_cannot_be_read_is_left_out(
    embedded: mlflow.MlflowClient, drawn: list[list[str]], tmp_path: Path
) -> None:
    first = logged(embedded, "damaged", "first", REPORT)
    (tmp_path / "report.json").write_text("{", encoding="utf-8")
    embedded.log_artifact(first, str(tmp_path / "report.json"), "ensemble")
    last = logged(embedded, "damaged", "last", REPORT)
    assert drawn == []
    assert pictures(embedded, last) == []


@pytest.mark.slow
def test_runs_of_one_name_are_told_apart_by_their_ids(embedded: mlflow.MlflowClient, drawn: list[list[str]]) -> None:
    first, _ = (logged(embedded, "namesakes", "forest", REPORT) for _ in range(2))
    assert drawn == [["forest", f"forest ({first[:6]})"]]
