"""Where no smaller version is made: the size is right or unknown, a check fails, or the model cannot be logged."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import mlflow
import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from ens_plugin import EnsembleReport
from ens_plugin.analysis import AnalysisOptions
from ens_plugin.errors import (
    EnsPluginError,
    GateError,
    InputError,
    ModelLoadError,
    TooFewMembersError,
    TrackingError,
    UnsupportedModelError,
)
from ens_plugin.registry import rightsize
from ens_plugin.registry.rightsizing import ModelSource, rightsize_analysed
from ens_plugin.sizing.truncate import AnalysedModel
from tests.registry.rightsizing.cases import (
    CLOUDPICKLE,
    EASY,
    XR,
    YR,
    Case,
    Client,
    X,
    Y,
    counts,
    forest,
    log,
    report_on_forest,
)
from tests.tracking.stores import DOWN, MLFLOW_WARNINGS

pytestmark = [MLFLOW_WARNINGS, pytest.mark.usefixtures("plain")]


SOURCE = ModelSource("models:/churn/7", "churn", "7", None, "model", "0", "sklearn", None)


def analysed(report: EnsembleReport) -> AnalysedModel:
    return AnalysedModel(None, report, X, Y, AnalysisOptions())


@pytest.fixture(scope="module")
def versions() -> list[str]:
    """URI of the version that is logged for the first test that needs one, and that no test changes."""
    return []


@pytest.fixture
def unchanged(embedded: Client, name: str, versions: list[str]) -> Iterator[str]:
    """URI of a version; after the test the store has nothing new."""
    if not versions:
        log(Case("sklearn", forest(), options=CLOUDPICKLE), name)
        versions.append(f"models:/{name}/1")
    before = counts(embedded)
    yield versions[0]
    assert counts(embedded) == before


@pytest.mark.slow
def test_a_model_of_the_right_size_is_left_alone(unchanged: str) -> None:
    found = rightsize(unchanged, X, Y, criterion="agreement", tolerance=0.01)
    assert found.report.recommended_size is not None
    assert found.report.recommended_size > 60
    assert (found.outcome, found.passed, found.logged) == ("not_needed", True, None)


def test_exactly_the_recommended_size_is_left_alone() -> None:
    report = report_on_forest()
    size = report.recommended_size
    assert size is not None
    found = rightsize_analysed(SOURCE, analysed(replace(report, n_members=size)), None)
    assert found.outcome == "not_needed"


def test_a_size_that_is_not_known_is_no_answer() -> None:
    report = report_on_forest()
    unknown = replace(report.recommendation, size=None, loss=math.nan)
    with pytest.raises(InputError, match="recommended size is not available"):
        rightsize_analysed(SOURCE, analysed(replace(report, recommendation=unknown)), None)


def test_a_size_from_a_few_rows_is_no_answer() -> None:
    report = replace(report_on_forest(), n_rows=29)
    with pytest.raises(InputError, match=r"29 rows are too few to decide on a size; 30 are needed\. Pass other rows"):
        rightsize_analysed(SOURCE, analysed(report), None)


@pytest.mark.slow
def test_no_size_large_enough_is_a_no(unchanged: str) -> None:
    found = rightsize(unchanged, X, Y, criterion="agreement", tolerance=0.0001, max_size=101)
    assert (found.outcome, found.passed, found.logged) == ("no_size", False, None)
    assert "not even 101 are sure to be enough" in found.sentence


@pytest.mark.slow
def test_a_cut_that_breaks_the_promise_is_refused(embedded: Client, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    half = RandomForestClassifier(60, random_state=0).fit(X[::2], Y[::2])
    misled = RandomForestClassifier(25, random_state=0).fit(X[::2], np.roll(Y[::2], 100))
    log(Case("sklearn", half, options=CLOUDPICKLE), name)
    before = counts(embedded)
    monkeypatch.setattr("ens_plugin.sizing.truncate.truncate", lambda model, size: misled)
    found = rightsize(f"models:/{name}/1", X[1::2], Y[1::2], data="holdout", **EASY)
    assert (found.outcome, found.passed, found.logged) == ("refused", False, None)
    assert {check.name: check.passed for check in found.checks} == {"enough": False, "agreement": False, "error": False}
    assert counts(embedded) == before


@pytest.mark.fast_cases("0")
@pytest.mark.parametrize("wrong", [0, 1])
def test_one_failed_check_is_enough(wrong: int, unchanged: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from ens_plugin.sizing import truncate as checks

    whole = checks.cut_checks

    def one_fails(*arguments: Any) -> Any:
        found = list(whole(*arguments))
        found[wrong] = checks.Check(found[wrong].name, False, None, None, "No.")
        return tuple(found)

    monkeypatch.setattr("ens_plugin.sizing.truncate.cut_checks", one_fails)
    assert rightsize(unchanged, X, Y, **EASY).outcome == "refused"


@pytest.mark.slow
def test_what_was_found_about_too_few_members_stands_without_its_remedies(unchanged: str) -> None:
    with pytest.raises(TooFewMembersError) as caught:
        rightsize(unchanged, X, Y, criterion="agreement", tolerance=0.05)
    assert re.fullmatch(
        r"The recommended 3 members cannot be checked on these rows \(\d+ of 569 rows have fewer than 2 out-of-bag "
        r"members \(mean 1\.\d\d\)\)\. Pass held-out rows with data='holdout', or get a larger size by a lower "
        r"tolerance\.",
        str(caught.value),
    )


@pytest.mark.slow
def test_members_too_few_to_be_checked_are_not_logged(unchanged: str) -> None:
    with pytest.raises(TooFewMembersError, match=r"1 member cannot be checked on these rows.*lower tolerance"):
        rightsize(unchanged, X, Y, criterion="agreement", tolerance=0.2)


@pytest.mark.slow
def test_a_forbidden_model_is_not_loaded(unchanged: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "false")
    with pytest.raises(ModelLoadError, match="MLFLOW_ALLOW_PICKLE_DESERIALIZATION"):
        rightsize(unchanged, X, Y)


NO_NAME = "cannot be the name of a registered model"
IN_MEMORY = r"Pass a URI .* ens_plugin\.truncate cuts a model in memory"
# What is asked for, with the URI of a version that is there, the error, and its words.
REFUSED: list[tuple[Any, dict[str, Any], type[EnsPluginError], str]] = [
    *(("{there}", {"register": name}, InputError, NO_NAME) for name in (True, 7, "", " ", "a/b", "a:b")),
    *(
        (file, {}, InputError, r"ens_plugin\.truncate")
        for file in ("forest.joblib", "file:/tmp/forest", "s3://a/forest")
    ),
    ("/tmp/forest\x1b[2J", {}, InputError, r"ens_plugin\.truncate"),
    *((model, {}, InputError, IN_MEMORY) for model in (RandomForestClassifier(), Path("forest.joblib"), None)),
    ("models:/nobody/1", {}, TrackingError, "not found"),
    ("models:/nobody@champion", {}, TrackingError, "not found"),
    ("models:/nobody/latest", {}, InputError, "is not the URI of a registered version"),
    ("models:/m-0000", {}, ModelLoadError, "could not load a model from"),
    ("runs:/00000000000000000000000000000000/model", {}, ModelLoadError, "could not load a model from"),
    ("{there}@nobody", {}, GateError, "has the alias 'nobody'"),
]


@pytest.mark.parametrize(("source", "options", "error", "words"), REFUSED)
def test_what_cannot_be_cut_is_refused_and_leaves_nothing(
    source: Any, options: dict[str, Any], error: type[EnsPluginError], words: str, unchanged: str
) -> None:
    if isinstance(source, str):
        source = source.replace("{there}@", f"{unchanged.removesuffix('/1')}@").replace("{there}", unchanged)
    with pytest.raises(error, match=words) as refusal:
        rightsize(source, X, Y, **options)
    assert "\x1b" not in str(refusal.value)


@pytest.mark.usefixtures("embedded")
def test_other_flavours_are_named() -> None:
    class Function(mlflow.pyfunc.PythonModel):  # type: ignore[misc, name-defined]
        def predict(self, model_input: list[float]) -> list[float]:
            return model_input

    with mlflow.start_run():
        info = mlflow.pyfunc.log_model(name="function", python_model=Function(), pip_requirements=[])
    with pytest.raises(UnsupportedModelError, match="was logged as python_function"):
        rightsize(info.model_uri, X, Y)


class Aftermath(NamedTuple):
    """What a failure left behind."""

    run: str
    model: str | None
    versions: int


def aftermath(client: Client, name: str) -> Aftermath:
    experiment = client.get_experiment_by_name("tests")
    assert experiment is not None
    (run,) = client.search_runs([experiment.experiment_id], max_results=1)
    assert run.info.run_name == "rightsize"
    made = run.outputs.model_outputs if run.outputs else []
    status = str(client.get_logged_model(made[0].model_id).status) if made else None
    versions = client.search_model_versions(f"name='{name}'")
    return Aftermath(run.info.status, status, len(versions))


Break = Callable[[pytest.MonkeyPatch], None]


def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(mlflow.MlflowClient, "log_model_artifacts", fail)


def lost_report(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(mlflow.MlflowClient, "log_artifacts", fail)


def unloadable(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(folder: Path, source: str) -> Any:
        raise ModelLoadError(f"{source} is broken")

    monkeypatch.setattr("ens_plugin.tracking.links.open_model_folder", fail)


def changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ens_plugin.tracking.links.open_model_folder", lambda folder, source: forest())


@pytest.mark.fast_cases("changed-ModelLoadError-FAILED", "lost_report-TrackingError-READY")
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    ("fault", "error", "model"),
    [
        (full_disk, TrackingError, "FAILED"),
        (lost_report, TrackingError, "READY"),
        (unloadable, ModelLoadError, "FAILED"),
        (changed, ModelLoadError, "FAILED"),
    ],
)
def test_no_version_of_a_model_that_did_not_arrive_whole(
    fault: Break, error: type[EnsPluginError], model: str, embedded: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log(Case("sklearn", forest(), options=CLOUDPICKLE), name)
    fault(monkeypatch)
    with pytest.raises(error):
        rightsize(f"models:/{name}/1", X, Y, **EASY)
    assert aftermath(embedded, name) == Aftermath("FAILED", model, 1)


def impure(n_jobs: int) -> Case:
    forest = RandomForestClassifier(60, min_samples_leaf=3, n_jobs=n_jobs, random_state=0).fit(X, Y)
    return Case("sklearn", forest, options=CLOUDPICKLE)


def impure_regression(n_jobs: int) -> Case:
    forest = RandomForestRegressor(60, min_samples_leaf=3, n_jobs=n_jobs, random_state=0).fit(XR, YR)
    return Case("sklearn", forest, XR, YR, CLOUDPICKLE, {"criterion": "error"})


@pytest.mark.fast_cases("impure_regression")
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("case", [impure, impure_regression])
def test_threads_that_add_in_another_order_leave_no_failed_run(
    case: Callable[[int], Case], embedded: Client, name: str
) -> None:
    shown = case(2)
    log(shown, name)
    found = rightsize(f"models:/{name}/1", shown.X, shown.y, **{**EASY, **shown.wanted})
    assert found.logged is not None
    assert aftermath(embedded, name) == Aftermath("FINISHED", "READY", 2)


@pytest.mark.slow
@pytest.mark.usefixtures("quick")
def test_a_registry_that_refuses_leaves_the_model_to_be_registered(
    embedded: Client, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log(Case("sklearn", forest(), options=CLOUDPICKLE), name)

    def forbidden(*_: object, **__: object) -> None:
        raise mlflow.exceptions.MlflowException("Permission denied")

    monkeypatch.setattr(mlflow, "register_model", forbidden)
    with pytest.raises(TrackingError, match=r"Permission denied.* is logged and checked, as models:/m-"):
        rightsize(f"models:/{name}/1", X, Y, **EASY)
    assert aftermath(embedded, name) == Aftermath("FINISHED", "READY", 1)


@pytest.mark.usefixtures("embedded")
def test_a_dead_server_is_noticed_at_once() -> None:
    mlflow.set_tracking_uri(DOWN)
    with pytest.raises(TrackingError, match="cannot be reached"):
        rightsize("models:/churn/1", X, Y)
