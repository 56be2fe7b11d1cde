"""log_report to a tracker of one's own, and what is refused before anything is logged."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import mlflow
import numpy as np
import pytest

from ens_plugin import EnsembleReport, log_report
from ens_plugin.errors import InputError
from ens_plugin.tracking import Tracker
from ens_plugin.tracking.log import curve_values, report_parts, scalar_values
from ens_plugin.tracking.trackers import check_tracker
from tests.reports import all_reports, classification_report
from tests.tracking.stores import MLFLOW_WARNINGS
from tests.tracking.trackers.recorder import Recorder

REPORT = replace(classification_report(), created="2026-01-02T03:04:05+00:00")
NAMES = ["mlflow", "wandb", "tensorboard", "dvclive"]


@pytest.mark.slow
def test_a_tracker_receives_the_rendered_files_and_figures() -> None:
    tracker: Tracker = Recorder()
    assert log_report(REPORT, tracker=tracker, prefix="forest.a") == "Recorder"
    assert isinstance(tracker, Recorder)
    assert {"forest.a/error_curve", "forest.a/agreement", "forest.a/bias_variance"} == set(tracker.figures)
    assert all(picture.startswith(b"\x89PNG") for picture in tracker.figures.values())
    assert {"forest.a/report.html", "forest.a/report.json", "forest.a/curve.csv"} == set(tracker.files)
    assert EnsembleReport.from_json(tracker.files["forest.a/report.json"].decode()).to_dict() == REPORT.to_dict()


@pytest.mark.parametrize("name", all_reports())
def test_scalars_and_curve_are_those_of_mlflow_to_the_bit(name: str) -> None:
    report = all_reports()[name]
    tracker = Recorder()
    log_report(report, tracker=tracker)
    assert tracker.scalars == scalar_values(report, "ens")
    assert tracker.curve == curve_values(report, "ens")
    assert all(isinstance(size, int) and list(values) == sorted(values) for values in tracker.curve.values()
               for size in values)  # fmt: skip


@MLFLOW_WARNINGS
def test_a_tracker_and_mlflow_hold_the_same(embedded: mlflow.MlflowClient) -> None:
    tracker = Recorder()
    log_report(REPORT, tracker=tracker)
    run_id = log_report(REPORT, tracker="mlflow")
    logged = embedded.get_run(run_id).data.metrics
    assert {name: logged[name] for name in tracker.scalars} == tracker.scalars
    for name, values in tracker.curve.items():
        assert {point.step: point.value for point in embedded.get_metric_history(run_id, name)} == values


def test_the_parts_come_in_a_fixed_order_and_scalars_last() -> None:
    tracker = Recorder()
    log_report(REPORT, tracker=tracker)
    assert tracker.calls == [*["figure"] * 2, *["file"] * 3, "curve", "scalars"]


def test_only_finite_numbers_reach_a_tracker() -> None:
    curve = REPORT.error_curve
    lower, upper = np.full_like(curve.lower, math.nan), np.full_like(curve.upper, math.inf)
    report = replace(REPORT, error_curve=replace(curve, lower=lower, upper=upper))
    tracker = Recorder()
    log_report(report, tracker=tracker)
    assert set(tracker.curve) == {"ens/accuracy"}
    assert all(map(math.isfinite, tracker.scalars.values()))
    assert "ens.accuracy_lower" not in tracker.scalars


def test_an_exception_of_a_tracker_of_ones_own_is_raised_as_it_is() -> None:
    class Failing(Recorder):
        def log_scalars(self, scalars: Any) -> None:
            raise ZeroDivisionError("of the user's own")

    with pytest.raises(ZeroDivisionError, match="of the user's own"):
        log_report(REPORT, tracker=Failing())


@pytest.mark.parametrize(
    ("mistyped", "near"),
    [
        ("MLflow", "mlflow"),
        ("tensorbord", "tensorboard"),
        ("tensorboardX", "tensorboard"),
        ("wandb ", "wandb"),
        ("dvc-live", "dvclive"),
    ],
)
def test_an_unknown_name_is_refused_with_those_near(mistyped: str, near: str) -> None:
    with pytest.raises(
        InputError, match=rf"no name of a tracker; near is '{near}'\. .*'wandb', 'tensorboard', 'dvclive'"
    ):
        log_report(REPORT, tracker=mistyped)


def test_a_name_that_is_near_no_other_is_refused_without_a_hint() -> None:
    with pytest.raises(InputError, match=r"tracker='neptune' is no name of a tracker\. The names are"):
        log_report(REPORT, tracker="neptune")


class Halfway:
    log_curve = None

    def log_figure(self, name: str, path: Path) -> None: ...

    def log_scalars(self, scalars: Any) -> None: ...


@pytest.mark.parametrize(
    ("tracker", "found"),
    [
        (Halfway(), "the type Halfway, and it lacks the methods log_file and log_curve"),
        (None, "the type NoneType, and it lacks the methods log_figure, log_file, log_curve and log_scalars"),
        (["wandb"], "the type list, and it lacks"),
        (Recorder, "the class Recorder, and an instance of it is needed"),
        (Halfway, "the class Halfway, and an instance of it is needed"),
        (json, "of the type module, and it lacks .* one of the names 'mlflow', 'wandb'"),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_is_no_tracker_is_refused_with_what_it_lacks(tracker: Any, found: str) -> None:
    with pytest.raises(InputError, match=f"tracker= is .*{found}"):
        log_report(REPORT, tracker=tracker)


@pytest.mark.parametrize("options", [{"run_id": "0" * 32}, {"model_id": "m-" + "0" * 32}])
def test_ids_of_mlflow_are_refused_for_other_trackers(options: dict[str, str]) -> None:
    with pytest.raises(InputError, match="run_id and model_id are of MLflow"):
        log_report(REPORT, tracker=Recorder(), **options)


@pytest.mark.parametrize("name", NAMES[1:])
def test_a_missing_library_names_the_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ens_plugin.tracking.connection.find_spec", lambda package: None)
    with pytest.raises(InputError, match=rf"not installed\. Install it with: pip install 'ens-plugin\[{name}\]'"):
        log_report(REPORT, tracker=name)
    check_tracker("mlflow")


def test_a_folder_that_wandb_left_behind_is_no_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found as a package where the working directory is on the path, as it is with ``python -m``."""
    (tmp_path / "wandb").mkdir()
    found = PathFinder.find_spec("wandb", [str(tmp_path)])
    assert found is not None
    monkeypatch.setattr("ens_plugin.tracking.connection.find_spec", lambda package: found)
    with pytest.raises(InputError, match="not installed"):
        log_report(REPORT, tracker="wandb")


@pytest.mark.slow
def test_no_library_of_a_tracker_is_imported_by_the_package(tmp_path: Path) -> None:
    code = (
        "import sys, ens_plugin; ens_plugin.log_report; ens_plugin.autolog; from ens_plugin.tracking.trackers import "
        "log_to; print({'wandb', 'tensorboardX', 'torch', 'dvclive', 'dvc', 'PIL'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "set()", done.stderr


def test_the_slash_is_in_place_of_the_dot_after_a_prefix_with_dots() -> None:
    scalars = report_parts(REPORT, None, "forest.a").scalars_under("forest.a")
    assert scalars == {f"forest.a/{name}": value for name, value in REPORT.metrics().items()}


def test_the_recipe_of_the_documentation_is_a_tracker(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is run here with a stand-in for Comet and an experiment of it."""
    monkeypatch.setitem(sys.modules, "comet_ml", MagicMock())
    text = (Path(__file__).parents[3] / "docs" / "how-to" / "trackers.md").read_text(encoding="utf-8")
    recipe = re.findall(r"```python\n(import comet_ml\n.*?)\n\n\nens_plugin", text, flags=re.DOTALL)[0]
    names: dict[str, Any] = {}
    exec(recipe, names)
    experiment = MagicMock()
    log_report(REPORT, tracker=names["Comet"](experiment))
    assert len(experiment.mock_calls) >= sum(map(len, curve_values(REPORT, "ens").values()))
