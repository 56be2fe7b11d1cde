"""Models, runs and reports in many arrangements: no version is judged by the report on another model.

One forest is good and one is bad, as the policy sees them.  In a plain arrangement each version gets the verdict that
its own model deserves.  In the others each gets that verdict or none.  `tests/attacks/links.py` and `tests/roads.csv`
have more of them.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any
from uuid import uuid4

import mlflow
import mlflow.sklearn
import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from ens_plugin import EnsembleReport, gate
from ens_plugin.errors import EnsPluginError
from ens_plugin.tracking.log import log_report
from tests.tracking.fits import new_experiment
from tests.tracking.stores import MLFLOW_WARNINGS, tracking_to

pytestmark = [MLFLOW_WARNINGS, pytest.mark.usefixtures("swift", "autologging")]

X, Y = (part[:150] for part in load_breast_cancer(return_X_y=True))
NOISY = np.where(np.random.default_rng(0).random(Y.size) < 0.4, 1 - Y, Y)
POLICY = {"report": {"error": {"max": 0.2}}}
N_TREES = 15

Store = mlflow.MlflowClient


def forest(seed: int = 0) -> RandomForestClassifier:
    return RandomForestClassifier(N_TREES, random_state=seed)


@cache
def good() -> RandomForestClassifier:
    return forest(0).fit(X, Y)


@cache
def bad() -> RandomForestClassifier:
    return forest(1).fit(X, NOISY)


@cache
def good_report() -> EnsembleReport:
    return ens_plugin.analyze(good(), X, Y)


@cache
def bad_report() -> EnsembleReport:
    return ens_plugin.analyze(bad(), X, NOISY)


@dataclass
class Case:
    """A registered model, and what its versions deserve."""

    client: Store
    name: str = field(default_factory=lambda: f"m-{uuid4().hex[:8]}")
    deserved: dict[str, str] = field(default_factory=dict)
    prefix: str = "ens"

    def log(self, model: Any, **options: Any) -> Any:
        return mlflow.sklearn.log_model(
            model, **{"name": "forest", "serialization_format": "cloudpickle", "pip_requirements": [], **options}
        )

    def register(self, uri: str, verdict: str) -> str:
        version = mlflow.register_model(uri, self.name).version
        return self.expect(version, verdict)

    def expect(self, version: object, verdict: str, name: str | None = None) -> str:
        uri = f"models:/{name or self.name}/{version}"
        self.deserved[uri] = verdict
        return uri

    def verdicts(self) -> dict[str, str | None]:
        found: dict[str, str | None] = {}
        for uri in self.deserved:
            try:
                found[uri] = gate(uri, POLICY, promote="champion", prefix=self.prefix).verdict
            except EnsPluginError:
                found[uri] = None
        return found


def autolog(**options: Any) -> None:
    ens_plugin.autolog(max_overhead=math.inf, **options)


def fit(seed: int, y: Any) -> RandomForestClassifier:
    return forest(seed).fit(X, y)


# Plain arrangements.


def autologged_then_logged(case: Case) -> None:
    autolog()
    with mlflow.start_run() as run:
        case.log(fit(0, Y))
    case.register(f"runs:/{run.info.run_id}/forest", "pass")


def two_fits_in_one_run(case: Case) -> None:
    autolog()
    with mlflow.start_run():
        models = fit(0, Y), fit(1, NOISY)
        for model, verdict in zip(models, ("pass", "fail"), strict=True):
            case.register(case.log(model).model_uri, verdict)


def nested_runs(case: Case) -> None:
    autolog()
    with mlflow.start_run():
        for seed, y, verdict in ((0, Y, "pass"), (1, NOISY, "fail")):
            with mlflow.start_run(nested=True):
                case.register(case.log(fit(seed, y)).model_uri, verdict)


def fitted_in_the_child_and_logged_in_the_parent(case: Case) -> None:
    autolog()
    with mlflow.start_run():
        with mlflow.start_run(nested=True):
            model = fit(1, NOISY)
        logged = case.log(model)
    case.register(logged.model_uri, "fail")


def a_newer_report_under_a_numbered_prefix(case: Case) -> None:
    """The older one flatters the model."""
    with mlflow.start_run():
        logged = case.log(bad())
        log_report(replace(good_report(), proof=bad_report().proof), model_id=logged.model_id)
        log_report(bad_report(), model_id=logged.model_id, prefix="ens_2")
    case.register(logged.model_uri, "fail")


def a_report_of_another_century(case: Case) -> None:
    flattering = replace(good_report(), proof=bad_report().proof, created="2099-01-01T00:00:00+00:00")
    with mlflow.start_run():
        logged = case.log(bad())
        log_report(flattering, model_id=logged.model_id)
        log_report(bad_report(), model_id=logged.model_id)
    case.register(logged.model_uri, "fail")


PLAIN = (
    autologged_then_logged, two_fits_in_one_run, nested_runs, fitted_in_the_child_and_logged_in_the_parent,
    a_newer_report_under_a_numbered_prefix, a_report_of_another_century,
)  # fmt: skip


# Arrangements in which a report is not, or need not be, about the version, or is not linked to it.


def the_good_one_linked_and_the_bad_one_logged_later(case: Case) -> None:
    with mlflow.start_run():
        first = case.log(good())
        log_report(good_report(), model_id=first.model_id)
        second = case.log(bad())
    case.register(first.model_uri, "pass")
    case.register(second.model_uri, "fail")


def an_unlinked_report_and_two_models(case: Case) -> None:
    with mlflow.start_run():
        log_report(good_report())
        for model, verdict in ((good(), "pass"), (bad(), "fail")):
            case.register(case.log(model).model_uri, verdict)


def the_report_of_a_model_that_was_never_logged(case: Case) -> None:
    with mlflow.start_run():
        log_report(good_report())
        logged = case.log(bad())
    case.register(logged.model_uri, "fail")


def autologging_that_could_not_report_the_second_fit(case: Case) -> None:
    autolog()
    with mlflow.start_run():
        fit(0, Y)
        logged = case.log(forest(1).set_params(bootstrap=False).fit(X, NOISY))
    case.register(logged.model_uri, "fail")


def two_processes_in_one_run(case: Case) -> None:
    """Neither knows of the other, so that both use the same prefix."""
    with mlflow.start_run() as run:
        log_report(bad_report())
        log_report(good_report(), run_id=run.info.run_id)
        logged = case.log(bad())
    case.register(logged.model_uri, "fail")


def tags_of_the_good_one_on_the_bad_one(case: Case) -> None:
    with mlflow.start_run():
        first = case.log(good())
        log_report(good_report(), model_id=first.model_id)
    tags = case.client.get_logged_model(first.model_id).tags
    with mlflow.start_run():
        second = case.log(bad(), tags={key: text for key, text in tags.items() if key.startswith("ens")})
    case.register(second.model_uri, "fail")


def another_model_logged_over_the_first(case: Case) -> None:
    with mlflow.start_run():
        logged = case.log(good())
        log_report(good_report(), model_id=logged.model_id)
    with mlflow.start_run():
        case.log(bad(), model_id=logged.model_id)
    case.register(logged.model_uri, "fail")


def the_model_of_the_report_deleted(case: Case) -> None:
    with mlflow.start_run():
        first, second = case.log(good()), case.log(bad())
        log_report(good_report())
    case.client.delete_logged_model(first.model_id)
    case.register(second.model_uri, "fail")


def a_model_deleted_after_its_registration(case: Case) -> None:
    with mlflow.start_run():
        logged = case.log(bad())
        log_report(bad_report(), model_id=logged.model_id)
    case.register(logged.model_uri, "fail")
    case.client.delete_logged_model(logged.model_id)


MIXED = (
    the_good_one_linked_and_the_bad_one_logged_later, an_unlinked_report_and_two_models,
    the_report_of_a_model_that_was_never_logged, autologging_that_could_not_report_the_second_fit,
    two_processes_in_one_run, tags_of_the_good_one_on_the_bad_one, another_model_logged_over_the_first,
    the_model_of_the_report_deleted, a_model_deleted_after_its_registration,
)  # fmt: skip


@pytest.fixture(scope="session")
def files_uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store in files, for all tests of a worker."""
    folder = tmp_path_factory.mktemp("files")
    uri = (folder / "mlruns").as_uri()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        client = mlflow.MlflowClient(tracking_uri=uri)
        client.create_experiment("tests", artifact_location=(folder / "artifacts").as_uri())
    return uri


@pytest.fixture(autouse=True)
def quick_models(monkeypatch: pytest.MonkeyPatch) -> None:
    # MLflow loads each model that its autologging logs in a process of its own to see what it needs.
    monkeypatch.setattr("mlflow.models.infer_pip_requirements", lambda *arguments, **options: [])


@pytest.fixture
def case(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Case]:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    with tracking_to(request.getfixturevalue(f"{request.param}_uri")):
        client = mlflow.MlflowClient()
        with new_experiment(client):
            yield Case(client)
        os.environ.pop("MLFLOW_EXPERIMENT_ID", None)


def in_stores(arrangements: Sequence[Callable[[Case], None]]) -> list[Any]:
    """Return all arrangements on a database, and some on files."""
    names = [("embedded", arrange) for arrange in arrangements]
    names += [("files", arrange) for _, arrange in names if re.search("logged_over|autologged", arrange.__name__)]
    return [pytest.param(store, arrange, id=f"{store}-{arrange.__name__}") for store, arrange in names]


@pytest.mark.fast_cases(
    "embedded-a_newer_report_under_a_numbered_prefix", "embedded-two_fits_in_one_run", "files-autologged_then_logged",
)  # fmt: skip
@pytest.mark.parametrize(("case", "arrange"), in_stores(PLAIN), indirect=["case"])
def test_each_version_of_a_plain_arrangement_gets_the_verdict_on_its_own_model(
    case: Case, arrange: Callable[[Case], None]
) -> None:
    arrange(case)
    assert case.verdicts() == case.deserved


@pytest.mark.fast_cases(
    "embedded-the_good_one_linked_and_the_bad_one_logged_later", "embedded-an_unlinked_report_and_two_models",
    "embedded-the_report_of_a_model_that_was_never_logged", "embedded-tags_of_the_good_one_on_the_bad_one",
    "files-another_model_logged_over_the_first",
)  # fmt: skip
@pytest.mark.parametrize(("case", "arrange"), in_stores(MIXED), indirect=["case"])
def test_no_version_gets_a_verdict_from_the_report_on_another_model(
    case: Case, arrange: Callable[[Case], None]
) -> None:
    arrange(case)
    for uri, verdict in case.verdicts().items():
        assert verdict in (None, case.deserved[uri])


@pytest.mark.parametrize("case", ["embedded"], indirect=True)
def test_a_search_by_a_metric_of_the_report_finds_its_own_model_only(case: Case) -> None:
    with mlflow.start_run() as run:
        log_report(good_report(), prefix="unlinked")
        first = case.log(good())
        log_report(good_report(), model_id=first.model_id)
        case.log(bad())
    experiment = [run.info.experiment_id]
    for prefix, wanted in (("ens", [first.model_id]), ("unlinked", [])):
        found = case.client.search_logged_models(experiment, f"metrics.{prefix}.accuracy > 0.8")
        assert [model.model_id for model in found] == wanted
    assert (
        len(case.client.search_runs(experiment, "metrics.ens.accuracy > 0.8 and metrics.unlinked.accuracy > 0.8")) == 1
    )


class TestMetrics:
    """A policy on other metrics, which MLflow spreads among the models of a run."""

    @pytest.mark.parametrize("case", ["embedded"], indirect=True)
    @pytest.mark.parametrize("step", [0, 1])
    def test_those_of_another_model_of_the_run_do_not_count(self, step: int, case: Case) -> None:
        policy = {"metrics": {"accuracy": {"min": 0.9}}}
        with mlflow.start_run():
            first = case.log(good())
            mlflow.log_metric("accuracy", 0.95, step=step, model_id=first.model_id)
            second = case.log(bad())
        own, other = (case.register(model.model_uri, "pass") for model in (first, second))
        with pytest.raises(EnsPluginError, match="accuracy"):
            gate(other, policy)
        with pytest.raises(EnsPluginError, match="in a run of its own"):
            gate(own, policy)

    @pytest.mark.slow
    @pytest.mark.parametrize("case", ["embedded", "files"], indirect=True)
    def test_one_that_was_logged_for_the_model_in_a_run_of_its_own_counts(self, case: Case) -> None:
        policy = {"metrics": {"accuracy": {"min": 0.9}}}
        with mlflow.start_run():
            mlflow.log_metric("accuracy", 0.95)
            models = case.log(good()), case.log(bad())
        uris = [case.register(model.model_uri, "") for model in models]
        for uri in uris:
            with pytest.raises(EnsPluginError, match=r"among which MLflow spreads metrics.*mlflow\.log_metric"):
                gate(uri, policy)
        for model, value in zip(models, (0.96, 0.6), strict=True):
            with mlflow.start_run():
                mlflow.log_metric("accuracy", value, model_id=model.model_id)
        assert [gate(uri, policy).passed for uri in uris] == [True, False]
