from __future__ import annotations

import json
import math
import struct
import warnings
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlflow.entities import Run
from mlflow.exceptions import MlflowException
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from ens_plugin import EnsembleReport
from ens_plugin.cli import read_table
from ens_plugin.errors import InputError, TrackingError
from ens_plugin.findings import codes_of
from ens_plugin.report.answers import headline
from ens_plugin.report.result import LabelErrors
from ens_plugin.tracking.log import (
    DESCRIPTION_LIMIT,
    charted_sizes,
    curve_values,
    draw_figures,
    log_report,
    merge_description,
    render_artifacts,
    scalar_values,
    write_data,
)
from tests.reports import all_reports, capped_report, classification_report, regression_report, with_doubts
from tests.tracking.stores import DOWN, MLFLOW_WARNINGS, linked_metrics

pytestmark = MLFLOW_WARNINGS


REPORT = replace(classification_report(), created="2026-01-02T03:04:05+00:00")
CREATED_MS = int(datetime.fromisoformat(REPORT.created).timestamp() * 1000)
FILES = ["curve.csv", "report.html", "report.json"]


FOREST = RandomForestClassifier(10, random_state=0).fit(*load_iris(return_X_y=True))
OF_FOREST = replace(REPORT, proof=ens_plugin.analyze(FOREST, *load_iris(return_X_y=True)).proof)


def logged_forest() -> str:
    """The id of a stored model that `OF_FOREST` is about."""
    logged = mlflow.sklearn.log_model(
        FOREST, name="forest", serialization_format="cloudpickle", pip_requirements=[]
    )  # fmt: skip
    return str(logged.model_id)


@pytest.fixture
def swift(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand-ins for the artifacts, whose rendering takes seconds and has tests of its own."""

    def write(report: EnsembleReport, directory: Path) -> None:
        for name in FILES:
            (directory / name).write_text(name)

    monkeypatch.setattr("ens_plugin.tracking.log.render_artifacts", write)


def runs(client: mlflow.MlflowClient) -> list[Run]:
    experiment = client.get_experiment_by_name("tests")
    assert experiment is not None
    return list(client.search_runs([experiment.experiment_id]))


def history(client: mlflow.MlflowClient, run_id: str) -> dict[str, list[tuple[int, float, int]]]:
    keys = client.get_run(run_id).data.metrics
    return {
        key: sorted((point.step, point.value, point.timestamp) for point in client.get_metric_history(run_id, key))
        for key in keys
    }


def files(client: mlflow.MlflowClient, run_id: str, path: str = "ensemble") -> list[str]:
    return sorted(Path(item.path).name for item in client.list_artifacts(run_id, path) if not item.is_dir)


@pytest.mark.usefixtures("swift", "experiment")
def test_a_new_run_has_scalars_curve_artifacts_and_description(embedded: mlflow.MlflowClient) -> None:
    run_id = log_report(REPORT)
    run = embedded.get_run(run_id)
    assert run.info.status == "FINISHED"
    assert mlflow.active_run() is None
    logged = history(embedded, run_id)
    scalars = {name: {-1: value} for name, value in scalar_values(REPORT, "ens").items()}
    assert logged == {
        name: [(step, value, CREATED_MS) for step, value in values.items()]
        for name, values in {**scalars, **curve_values(REPORT, "ens")}.items()
    }
    assert files(embedded, run_id) == FILES
    assert "ens_plugin:ens begin" in run.data.tags["mlflow.note.content"]


@pytest.mark.slow
@pytest.mark.usefixtures("swift")
def test_a_named_run_is_used_rather_than_the_active_one_and_each_stays_as_it_was(
    embedded: mlflow.MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mlflow.start_run() as ended:
        pass
    before = embedded.get_run(ended.info.run_id).info
    with mlflow.start_run() as active:
        assert log_report(REPORT, run_id=ended.info.run_id) == ended.info.run_id
        assert embedded.get_run(active.info.run_id).data.metrics == {}
        assert log_report(REPORT) == active.info.run_id
        assert embedded.get_run(active.info.run_id).info.status == "RUNNING"
    after = embedded.get_run(ended.info.run_id).info
    assert (after.status, after.end_time) == (before.status, before.end_time)
    embedded.update_run(ended.info.run_id, status="RUNNING")
    monkeypatch.setenv("MLFLOW_RUN_ID", ended.info.run_id)
    assert log_report(REPORT, prefix="again") == ended.info.run_id
    assert embedded.get_run(ended.info.run_id).info.status == "RUNNING"


@pytest.mark.slow
@pytest.mark.usefixtures("swift")
def test_logging_again_changes_nothing(embedded: mlflow.MlflowClient) -> None:
    with mlflow.start_run() as run:
        model_id = logged_forest()
        states = []
        for _ in range(2):
            log_report(OF_FOREST, model_id=model_id)
            state = embedded.get_run(run.info.run_id).data
            linked = linked_metrics(embedded, model_id)
            states.append((history(embedded, run.info.run_id), state.tags, files(embedded, run.info.run_id), linked))
    assert states[0] == states[1]


def test_artifacts_come_back_complete(embedded: mlflow.MlflowClient, tmp_path: Path) -> None:
    with mlflow.start_run(experiment_id=embedded.create_experiment("artifacts")):
        run_id = log_report(REPORT)
    folder = Path(embedded.download_artifacts(run_id, "ensemble", str(tmp_path)))
    assert len(pd.read_csv(folder / "curve.csv")) == len(REPORT.error_curve.sizes)
    assert json.loads((folder / "report.json").read_text())["n_members"] == REPORT.n_members
    assert "<svg" in (folder / "report.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("swift", "experiment")
def test_two_reports_in_one_run_need_two_prefixes(embedded: mlflow.MlflowClient) -> None:
    with mlflow.start_run(experiment_id=embedded.create_experiment("two prefixes")) as run:
        log_report(REPORT)
        log_report(regression_report(), prefix="second")
    data = embedded.get_run(run.info.run_id).data
    assert data.metrics["ens.accuracy"] == REPORT.accuracy
    assert data.metrics["second.rmse"] == regression_report().rmse
    assert files(embedded, run.info.run_id) == FILES
    assert files(embedded, run.info.run_id, "ensemble/second") == FILES
    assert data.tags["mlflow.note.content"].count("begin -->") == 2


@pytest.mark.usefixtures("swift")
def test_a_persons_description_is_kept(embedded: mlflow.MlflowClient) -> None:
    with mlflow.start_run(description="My note") as run:
        log_report(REPORT)
    assert embedded.get_run(run.info.run_id).data.tags["mlflow.note.content"] == "My note"


@pytest.mark.usefixtures("swift")
@pytest.mark.parametrize("name", ["classification", "regression", "hostile", "score"])
def test_every_kind_of_report_can_be_logged(name: str, embedded: mlflow.MlflowClient) -> None:
    report = replace(all_reports()[name], created="")
    metrics = embedded.get_run(log_report(report)).data.metrics
    assert report.metrics().items() <= {key.removeprefix("ens."): value for key, value in metrics.items()}.items()


@pytest.mark.slow
def test_nothing_is_sent_when_rendering_fails(embedded: mlflow.MlflowClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(report: object, directory: object) -> object:
        raise RuntimeError("no picture")

    monkeypatch.setattr("ens_plugin.tracking.log.render_artifacts", broken)
    before = len(runs(embedded))
    with pytest.raises(RuntimeError, match="no picture"):
        log_report(REPORT)
    with mlflow.start_run() as run, pytest.raises(RuntimeError):
        log_report(REPORT)
    assert len(runs(embedded)) == before + 1
    assert embedded.get_run(run.info.run_id).data.metrics == {}
    assert embedded.list_artifacts(run.info.run_id) == []


@pytest.mark.usefixtures("swift")
@pytest.mark.parametrize("method", ["log_batch", "log_artifacts", "set_tag"])
def test_a_run_of_ours_fails_when_logging_fails(
    method: str, embedded: mlflow.MlflowClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise MlflowException("disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(mlflow.MlflowClient, method, refuse)
        with pytest.raises(TrackingError, match="refused the call: disk is full"):
            log_report(REPORT)
    assert mlflow.active_run() is None
    assert runs(embedded)[0].info.status == "FAILED"


@pytest.mark.usefixtures("embedded", "swift")
@pytest.mark.parametrize(
    ("report", "prefix", "message"),
    [
        *[
            (report, "ens", r"Pass the report that ens_plugin\.analyze returns")
            for report in ("x", None, RandomForestClassifier(), REPORT.to_json())
        ],
        *[(REPORT, prefix, "prefix=") for prefix in (1, None, "", "a/b", "../up", ".", "a b", "a:b", "a\n", "-->")],
        (replace(REPORT, created="yesterday"), "ens", "ISO 8601"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, EnsembleReport) else None,
)
def test_what_is_no_report_and_no_prefix_is_refused(report: Any, prefix: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        log_report(report, prefix=prefix)


@pytest.mark.usefixtures("swift")
@pytest.mark.parametrize(
    "wrong", [{"run_id": "0" * 32}, {"model_id": "m-" + "0" * 32}], ids=["unknown run", "unknown model"]
)
def test_unknown_targets_are_refused_before_anything_is_created(
    wrong: dict[str, str], embedded: mlflow.MlflowClient
) -> None:
    before = len(runs(embedded))
    with pytest.raises(TrackingError, match="not found"):
        log_report(REPORT, **wrong)
    assert len(runs(embedded)) == before


@pytest.mark.usefixtures("swift")
def test_a_deleted_run_is_refused_with_nothing_sent(embedded: mlflow.MlflowClient) -> None:
    with mlflow.start_run() as run:
        pass
    embedded.delete_run(run.info.run_id)
    with pytest.raises(TrackingError, match="is deleted"):
        log_report(REPORT, run_id=run.info.run_id)
    assert embedded.get_run(run.info.run_id).data.metrics == {}
    assert embedded.list_artifacts(run.info.run_id) == []


@pytest.mark.usefixtures("swift")
@pytest.mark.parametrize("created", ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05", "2026-01-02T04:04:05+01:00"])
def test_times_are_utc(created: str, embedded: mlflow.MlflowClient) -> None:
    run_id = log_report(replace(REPORT, created=created))
    assert embedded.get_metric_history(run_id, "ens.accuracy")[0].timestamp == CREATED_MS


@pytest.mark.usefixtures("embedded", "swift")
def test_a_dead_server_is_a_tracking_error() -> None:
    mlflow.set_tracking_uri(DOWN)
    with pytest.raises(TrackingError, match="cannot be reached"):
        log_report(REPORT)


def test_the_tags_of_a_run_have_verdict_size_and_codes(embedded: mlflow.MlflowClient, swift: None) -> None:
    doubted = with_doubts(REPORT, "The votes of few rows decide.")
    for report, size in ((REPORT, str(REPORT.recommended_size)), (capped_report(), "more than 20001")):
        tags = embedded.get_run(log_report(replace(report, created=REPORT.created))).data.tags
        assert tags["ens.verdict"] == headline(report)
        assert tags["ens.size"] == size
    tags = embedded.get_run(log_report(doubted)).data.tags
    assert tags["ens.verdict"] == "Do not use these figures."
    assert tags["ens.findings"] == ", ".join(codes_of(doubted.findings))


def test_versions_of_the_model_name_the_report_in_their_description(embedded: mlflow.MlflowClient, swift: None) -> None:
    with mlflow.start_run() as run:
        models = [
            mlflow.sklearn.log_model(
                FOREST, name=name, pip_requirements=[], serialization_format="cloudpickle", registered_model_name=name
            )
            for name in ("described", "other")
        ]
        log_report(OF_FOREST, model_id=models[0].model_id)
    described, other = (embedded.get_model_version(name, "1").description for name in ("described", "other"))
    page = f"#/experiments/{run.info.experiment_id}/runs/{run.info.run_id}/artifacts/ensemble/report.html"
    assert f"[The newest ensemble report]({page}): {headline(REPORT)}" in described
    assert not other


REPORTS = all_reports()


def with_sizes(report: EnsembleReport, sizes: list[int]) -> EnsembleReport:
    low, middle, high = (np.full(len(sizes), value) for value in (0.2, 0.3, 0.4))
    shortened = replace(report.error_curve, sizes=np.array(sizes), error=middle, lower=low, upper=high)
    return replace(report, error_curve=shortened)


@pytest.mark.parametrize("name", REPORTS)
def test_charted_sizes_are_within_the_curve_and_about_a_hundred(name: str) -> None:
    report = REPORTS[name]
    sizes = charted_sizes(report)
    assert all(report.error_curve.reaches(int(size)) for size in sizes)
    assert np.all(np.diff(sizes) > 0)
    assert 1 <= len(sizes) <= 100


@pytest.mark.parametrize("n_members", [20, 60, 100])
def test_a_curve_does_not_end_in_a_step_where_the_votes_of_even_sizes_tie(n_members: int) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    report = ens_plugin.analyze(RandomForestClassifier(n_members, random_state=0).fit(X, y), X, y)
    assert report.error > report.error_curve.at(n_members - 1)
    values = list(curve_values(report, "ens")["ens/accuracy"].values())
    # A hundredth of a row is not a step.
    assert np.diff(values[-3:]).min() >= -0.01 / len(y)
    assert values[-1] == report.accuracy


@pytest.mark.parametrize(("n_members", "first"), [(9, 5), (21, 11), (101, 11), (1001, 11), (10_001, 11)])
def test_the_curves_of_several_runs_begin_at_the_same_size(n_members: int, first: int) -> None:
    for report in (classification_report(), regression_report(), capped_report()):
        assert charted_sizes(replace(report, n_members=n_members))[0] == first


@pytest.mark.parametrize(
    ("tabulated", "charted"),
    [
        ([10, 20, 30], [10, 20, 30, 200]),
        ([1, 2, 3], [1, 2, 3, 200]),
        ([100_000], [100_000]),
        ([1, 5, 6, 7], [6, 8, 200]),
    ],
)
def test_a_curve_with_few_sizes_gives_what_it_has(tabulated: list[int], charted: list[int]) -> None:
    assert charted_sizes(with_sizes(classification_report(), tabulated)).tolist() == charted


def test_a_dense_curve_is_thinned_evenly_on_a_log_axis() -> None:
    report = with_sizes(classification_report(), list(range(1, 20_002, 2)))
    sizes = charted_sizes(replace(report, n_members=10_000))
    steps = np.diff(np.log(sizes[sizes > 200]))
    assert 70 <= len(sizes) <= 100
    assert sizes[-1] == 10_000
    np.testing.assert_allclose(steps[:-1], np.log(9_999 / sizes[0]) / 98, atol=0.01)


def test_curves_repeat_the_table_under_names_with_a_slash() -> None:
    report = classification_report()
    lines = curve_values(report, "ens")
    assert set(lines) == {"ens/accuracy", "ens/accuracy_lower", "ens/accuracy_upper"}
    curve = report.error_curve
    columns = {
        "ens/accuracy": 1.0 - curve.error,
        "ens/accuracy_lower": 1.0 - curve.upper,
        "ens/accuracy_upper": 1.0 - curve.lower,
    }  # fmt: skip
    for name, values in lines.items():
        assert list(values) == charted_sizes(report).tolist()
        for size, value in values.items():
            if size != report.n_members:
                above, below = columns[name][curve.sizes >= size][0], columns[name][curve.sizes <= size][-1]
                assert min(above, below) <= value <= max(above, below)


def test_points_that_are_not_finite_are_left_out() -> None:
    report = replace(with_sizes(classification_report(), [5, 7, 9]), n_members=9)
    report.error_curve.lower[1] = math.nan
    report.error_curve.upper[2] = math.inf
    assert {name: list(values) for name, values in curve_values(report, "a").items()} == {
        "a/accuracy": [5, 7, 9],
        "a/accuracy_lower": [5, 7],
        "a/accuracy_upper": [5, 9],
    }


@pytest.mark.parametrize("name", REPORTS)
def test_scalars_are_the_reports_metrics_with_a_dot(name: str) -> None:
    report = REPORTS[name]
    assert scalar_values(report, "rf") == {f"rf.{key}": value for key, value in report.metrics().items()}


def test_the_curve_of_values_is_that_of_the_root_and_of_a_metric_has_its_name() -> None:
    for name, key in (("regression", "rmse"), ("score", "roc_auc"), ("custom_metric", "error")):
        assert set(curve_values(REPORTS[name], "ens")) == {f"ens/{key}{ending}" for ending in ("", "_lower", "_upper")}


RENDERED = {"report.json", "report.html", "curve.csv"}


@pytest.mark.fast_cases("hostile")
@pytest.mark.parametrize("name", ["score", "regression", "hostile"])
def test_every_kind_of_report_gives_all_files(name: str, tmp_path: Path) -> None:
    report = next(report for key, report in all_reports().items() if name in key)
    render_artifacts(report, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == RENDERED
    assert all(path.stat().st_size > 100 for path in tmp_path.iterdir())


@pytest.mark.fast_cases("5e-324")
@pytest.mark.parametrize("excess", [0.0, 1e-300, 5e-324, math.inf, math.nan])
def test_no_picture_is_larger_than_its_figure(excess: float, tmp_path: Path) -> None:
    """An ensemble that errs no more than the infinite one once made a picture a million pixels high."""
    report = next(report for key, report in all_reports().items() if "regression" in key)
    advice = replace(report.recommendation, losses=np.full_like(report.recommendation.losses, excess))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        folder = draw_figures(replace(report, recommendation=advice), tmp_path / "figures")
    assert folder is not None
    sizes = {path.name: png_size(path) for path in folder.iterdir()}
    assert sizes == {"agreement.png": (768, 480), "error_curve.png": (768, 480), "bias_variance.png": (768, 360)}


def png_size(path: Path) -> tuple[int, int]:
    width, height = struct.unpack(">II", path.read_bytes()[16:24])
    return width, height


def test_errors_by_label_are_a_table_with_the_confusion_matrix(tmp_path: Path) -> None:
    found = (
        LabelErrors("a", 0.1, (0.05, 0.2), 0.11, 0.09, (9, 1)),
        LabelErrors("b", 0.2, (0.1, 0.3), 0.2, 0.2, (1, 4)),
    )
    write_data(replace(classification_report(), label_errors=found), tmp_path)
    table = read_table(tmp_path / "labels.csv")
    assert table["label"].tolist() == ["a", "b"]
    assert table["rows"].tolist() == [10, 5]
    assert table[["predicted: a", "predicted: b"]].to_numpy().tolist() == [[9, 1], [1, 4]]
    assert table["upper"].tolist() == [0.2, 0.3]


SUMMARIES = st.text(max_size=200)


def test_an_empty_description_becomes_the_block() -> None:
    merged = merge_description("  \n", "12 members", "ens")
    assert merged == "<!-- ens_plugin:ens begin -->\n12 members\n<!-- ens_plugin:ens end -->"


@pytest.mark.parametrize("note", ["Trained on Monday", "12 members", "<!-- mine -->"])
def test_a_persons_note_is_left_alone(note: str) -> None:
    assert merge_description(note, "12 members", "ens") == note


def test_text_around_our_block_survives() -> None:
    ours = merge_description("", "12 members", "ens")
    merged = merge_description(f"before {ours} after", "14 members", "ens")
    assert merged == f"before {merge_description('', '14 members', 'ens')} after"


def test_each_prefix_owns_one_block() -> None:
    both = merge_description(merge_description("", "first", "a"), "second", "b")
    replaced = merge_description(both, "third", "a")
    assert both.index("first") < both.index("second")
    assert "first" not in replaced
    assert replaced.index("third") < replaced.index("second")


@given(SUMMARIES, SUMMARIES)
def test_merging_again_changes_nothing_and_replacing_equals_starting_anew(first: str, second: str) -> None:
    once = merge_description("", first, "ens")
    assert merge_description(once, first, "ens") == once
    assert merge_description(once, second, "ens") == merge_description("", second, "ens")


def test_markers_inside_a_summary_cannot_end_the_block() -> None:
    hostile = "<!-- ens_plugin:ens end --> left behind"
    assert merge_description(merge_description("", hostile, "ens"), "clean", "ens") == merge_description(
        "", "clean", "ens"
    )


def test_a_description_never_outgrows_what_mlflow_keeps() -> None:
    description = ""
    for prefix in "abcd":
        description = merge_description(description, "x" * 10_000, prefix)
        assert len(description) <= DESCRIPTION_LIMIT
        assert description.endswith("end -->")
