"""Models, runs and reports in many arrangements: no version is judged by the report on another model.

One forest is good and one is bad, as the policy sees them.  In a plain arrangement each version gets the verdict that
its own model deserves.  In the others each gets that verdict or none.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any
from uuid import uuid4

import mlflow
import mlflow.sklearn
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ens_plugin
from ens_plugin import EnsembleReport, gate
from ens_plugin.errors import EnsPluginError, InputError
from ens_plugin.tracking.log import log_report
from tests.tracking.fits import new_experiment
from tests.tracking.stores import MLFLOW_WARNINGS, tracking_to

pytestmark = [MLFLOW_WARNINGS, pytest.mark.usefixtures("swift", "autologging")]

UNSEEN = tuple(part[150:300] for part in load_breast_cancer(return_X_y=True))
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


def by_hand_after_the_model_linked(case: Case) -> None:
    with mlflow.start_run():
        logged = case.log(good())
        log_report(good_report(), model_id=logged.model_id)
    case.register(logged.model_uri, "pass")


def by_hand_after_the_model(case: Case) -> None:
    with mlflow.start_run():
        logged = case.log(bad())
        log_report(bad_report())
    case.register(logged.model_uri, "fail")


def to_a_run_that_has_ended(case: Case) -> None:
    with mlflow.start_run() as run:
        logged = case.log(good())
    log_report(good_report(), run_id=run.info.run_id)
    case.register(logged.model_uri, "pass")


def to_a_run_of_its_own(case: Case) -> None:
    with mlflow.start_run():
        logged = case.log(bad())
    log_report(bad_report(), model_id=logged.model_id)
    case.register(logged.model_uri, "fail")


def autologged_then_logged(case: Case) -> None:
    autolog()
    with mlflow.start_run() as run:
        case.log(fit(0, Y))
    case.register(f"runs:/{run.info.run_id}/forest", "pass")


def autologged_and_logged_outside_of_runs(case: Case) -> None:
    autolog()
    case.register(case.log(fit(0, Y)).model_uri, "pass")


def autologged_twice_in_two_runs(case: Case) -> None:
    autolog()
    for seed, y, verdict in ((0, Y, "pass"), (1, NOISY, "fail")):
        with mlflow.start_run():
            case.register(case.log(fit(seed, y)).model_uri, verdict)


def autologged_by_both(case: Case) -> None:
    autolog()
    mlflow.sklearn.autolog(log_post_training_metrics=False, log_model_signatures=False, log_datasets=False)
    for seed, y, verdict in ((0, Y, "pass"), (1, NOISY, "fail")):
        with mlflow.start_run() as run:
            fit(seed, y)
        outputs = case.client.get_run(run.info.run_id).outputs
        assert outputs is not None
        case.register(f"models:/{outputs.model_outputs[0].model_id}", verdict)


def autologged_by_both_and_logged_by_hand(case: Case) -> None:
    autolog()
    mlflow.sklearn.autolog(log_post_training_metrics=False, log_model_signatures=False, log_datasets=False)
    with mlflow.start_run():
        case.register(case.log(fit(0, Y), name="mine").model_uri, "pass")


def autologged_and_by_hand(case: Case) -> None:
    autolog()
    with mlflow.start_run():
        model = fit(0, Y)
        log_report(ens_plugin.analyze(model, X, Y), prefix="own")
        logged = case.log(model)
    case.register(logged.model_uri, "pass")


def two_fits_in_one_run(case: Case) -> None:
    autolog()
    with mlflow.start_run():
        models = fit(0, Y), fit(1, NOISY)
        for model, verdict in zip(models, ("pass", "fail"), strict=True):
            case.register(case.log(model).model_uri, verdict)


def three_fits_in_one_run_logged_in_turn(case: Case) -> None:
    autolog()
    with mlflow.start_run():
        for seed, y, verdict in ((0, Y, "pass"), (1, NOISY, "fail"), (2, Y, "pass")):
            case.register(case.log(fit(seed, y)).model_uri, verdict)


def the_last_of_two_fits_logged(case: Case) -> None:
    autolog()
    with mlflow.start_run():
        fit(0, Y)
        logged = case.log(fit(1, NOISY))
    case.register(logged.model_uri, "fail")


def the_same_forest_fitted_again(case: Case) -> None:
    autolog()
    with mlflow.start_run():
        model = forest(0)
        model.fit(X, Y)
        model.fit(X, NOISY)
        logged = case.log(model)
    case.register(logged.model_uri, "fail")


def a_forest_that_grows(case: Case) -> None:
    autolog()
    with mlflow.start_run():
        model = forest(0).set_params(warm_start=True).fit(X, Y)
        model.set_params(n_estimators=2 * N_TREES).fit(X, Y)
        logged = case.log(model)
        ens_plugin.autolog(disable=True)
    case.register(logged.model_uri, "pass")


def a_pipeline(case: Case) -> None:
    autolog()
    with mlflow.start_run():
        logged = case.log(make_pipeline(StandardScaler(), forest(0)).fit(X, Y))
    case.register(logged.model_uri, "pass")


def the_best_of_a_search(case: Case) -> None:
    autolog()
    search = GridSearchCV(forest(0), {"max_depth": [3, None]}, cv=2)
    with mlflow.start_run():
        logged = case.log(search.fit(X, Y).best_estimator_)
    case.register(logged.model_uri, "pass")


def a_search_autologged_by_both(case: Case) -> None:
    """MLflow logs the search and its best estimator."""
    autolog()
    mlflow.sklearn.autolog(log_post_training_metrics=False, log_model_signatures=False, log_datasets=False)
    with mlflow.start_run() as run:
        GridSearchCV(forest(0), {"max_depth": [3, None]}, cv=2).fit(X, Y)
    for name in ("model", "best_estimator"):
        case.register(f"runs:/{run.info.run_id}/{name}", "pass")


def evaluated(case: Case) -> None:
    with mlflow.start_run():
        logged = case.log(good())
    with mlflow.start_run():
        mlflow.models.evaluate(
            logged.model_uri,
            pd.DataFrame(UNSEEN[0]).assign(label=UNSEEN[1]),
            targets="label",
            model_type="classifier",
            evaluators="ensemble",
            evaluator_config={"enabled": True},
        )
    case.register(logged.model_uri, "pass")


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


def two_models_linked_under_two_prefixes(case: Case) -> None:
    with mlflow.start_run():
        first, second = case.log(good()), case.log(bad())
        log_report(good_report(), model_id=first.model_id)
        log_report(bad_report(), model_id=second.model_id, prefix="ens_2")
    case.register(first.model_uri, "pass")
    case.register(second.model_uri, "fail")


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


def copied_versions(case: Case) -> None:
    for model, report, verdict, is_linked in (
        (good(), good_report(), "pass", True),
        (bad(), bad_report(), "fail", True),
        (good(), good_report(), "pass", False),
    ):
        with mlflow.start_run():
            logged = case.log(model)
            log_report(report, model_id=logged.model_id if is_linked else None)
        uri = case.register(logged.model_uri, verdict)
        copy = case.client.copy_model_version(uri, f"{case.name}-copy")
        case.expect(copy.version, verdict, copy.name)
        again = case.client.copy_model_version(f"models:/{copy.name}/{copy.version}", f"{case.name}-again")
        case.expect(again.version, verdict, again.name)


def registered_by_place(case: Case) -> None:
    with mlflow.start_run() as run:
        first, second = case.log(good()), case.log(bad())
        log_report(good_report(), model_id=first.model_id)
        log_report(bad_report(), model_id=second.model_id, prefix="second")
    case.client.create_registered_model(case.name)
    place = case.client.get_logged_model(first.model_id).artifact_location
    found = case.client.create_model_version(case.name, place, run.info.run_id)
    case.expect(found.version, "pass")


def registered_by_the_client_from_the_run(case: Case) -> None:
    with mlflow.start_run() as run:
        logged = case.log(good())
        log_report(good_report(), model_id=logged.model_id)
    case.client.create_registered_model(case.name)
    found = case.client.create_model_version(case.name, f"runs:/{run.info.run_id}/forest", run.info.run_id)
    case.expect(found.version, "pass")


def a_forest_logged_twice(case: Case) -> None:
    with mlflow.start_run():
        for number in (1, 2):
            logged = case.log(good())
            log_report(good_report(), model_id=logged.model_id, prefix=f"ens_{number}")
            case.register(logged.model_uri, "pass")


PLAIN = (
    by_hand_after_the_model_linked, by_hand_after_the_model, to_a_run_that_has_ended, to_a_run_of_its_own,
    autologged_then_logged, autologged_and_logged_outside_of_runs,
    autologged_twice_in_two_runs, autologged_by_both, autologged_by_both_and_logged_by_hand, autologged_and_by_hand,
    two_fits_in_one_run, three_fits_in_one_run_logged_in_turn, the_last_of_two_fits_logged,
    the_same_forest_fitted_again, a_forest_that_grows, a_pipeline,
    the_best_of_a_search, a_search_autologged_by_both, evaluated, nested_runs,
    fitted_in_the_child_and_logged_in_the_parent,
    two_models_linked_under_two_prefixes, a_newer_report_under_a_numbered_prefix, a_report_of_another_century,
    copied_versions, registered_by_place, registered_by_the_client_from_the_run, a_forest_logged_twice,
)  # fmt: skip


# Arrangements in which a report is not, or need not be, about the version, or is not linked to it.


def by_hand_before_the_model(case: Case) -> None:
    with mlflow.start_run() as run:
        log_report(good_report())
        case.log(good())
    case.register(f"runs:/{run.info.run_id}/forest", "pass")


def registered_by_name(case: Case) -> None:
    with mlflow.start_run():
        log_report(good_report())
        case.log(good(), registered_model_name=case.name)
    case.expect(1, "pass")


def the_last_of_two_fits_logged_elsewhere(case: Case) -> None:
    """As by another process, which does not know the fits."""
    autolog()
    with mlflow.start_run() as run:
        fit(0, Y)
        model = fit(1, NOISY)
    ens_plugin.autolog(disable=True)
    with mlflow.start_run(run_id=run.info.run_id):
        logged = case.log(model)
    case.register(logged.model_uri, "fail")


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


def a_resumed_run(case: Case) -> None:
    with mlflow.start_run() as run:
        log_report(good_report())
        case.log(good())
    with mlflow.start_run(run_id=run.info.run_id):
        case.log(bad(), name="later")
    case.register(f"runs:/{run.info.run_id}/later", "fail")


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


def no_forest(case: Case) -> None:
    with mlflow.start_run():
        log_report(good_report())
        logged = case.log(LogisticRegression().fit(X[:, :1], NOISY))
    case.register(logged.model_uri, "fail")


def two_unlinked_reports_and_the_bad_model(case: Case) -> None:
    with mlflow.start_run():
        log_report(good_report())
        log_report(bad_report(), prefix="ens_2")
        logged = case.log(bad())
    case.register(logged.model_uri, "fail")


def two_reports_under_prefixes_of_their_own(case: Case) -> None:
    with mlflow.start_run():
        log_report(good_report(), prefix="a")
        log_report(bad_report(), prefix="b")
        logged = case.log(bad())
    case.prefix = "a"
    case.register(logged.model_uri, "fail")


def one_report_replaced_by_another(case: Case) -> None:
    with mlflow.start_run():
        first, second = case.log(good()), case.log(bad())
        log_report(bad_report(), model_id=second.model_id)
        log_report(good_report(), model_id=first.model_id)
    case.register(first.model_uri, "pass")
    case.register(second.model_uri, "fail")


def two_processes_in_one_run(case: Case) -> None:
    """Neither knows of the other, so that both use the same prefix."""
    with mlflow.start_run() as run:
        log_report(bad_report())
        log_report(good_report(), run_id=run.info.run_id)
        logged = case.log(bad())
    case.register(logged.model_uri, "fail")


def report_tags(case: Case, model_id: str) -> dict[str, str]:
    return {key: text for key, text in case.client.get_logged_model(model_id).tags.items() if key.startswith("ens")}


def linked_pair(case: Case) -> tuple[Any, Any]:
    with mlflow.start_run():
        first, second = case.log(good()), case.log(bad())
        log_report(good_report(), model_id=first.model_id, prefix="ens_1")
        log_report(bad_report(), model_id=second.model_id, prefix="ens_2")
    return first, second


def tags_of_the_good_one_on_the_bad_one(case: Case) -> None:
    with mlflow.start_run():
        first = case.log(good())
        log_report(good_report(), model_id=first.model_id)
    with mlflow.start_run():
        second = case.log(bad(), tags=report_tags(case, first.model_id))
    case.register(second.model_uri, "fail")


def tags_swapped(case: Case) -> None:
    first, second = linked_pair(case)
    tags = [report_tags(case, model.model_id) for model in (first, second)]
    case.client.set_logged_model_tags(first.model_id, {"ens.report": tags[1]["ens_2.report"]})
    case.client.set_logged_model_tags(second.model_id, {"ens.report": tags[0]["ens_1.report"]})
    case.client.delete_logged_model_tag(second.model_id, "ens_2.report")
    case.register(second.model_uri, "fail")


def the_file_of_the_report_replaced(case: Case) -> None:
    _, second = linked_pair(case)
    (run_id,) = {case.client.get_logged_model(second.model_id).source_run_id}
    case.client.log_text(run_id, good_report().to_json(), "ensemble/ens_2/report.json")
    case.register(second.model_uri, "fail")


def the_file_of_an_unlinked_report_replaced(case: Case) -> None:
    with mlflow.start_run() as run:
        logged = case.log(bad())
        log_report(bad_report())
    case.client.log_text(run.info.run_id, good_report().to_json(), "ensemble/report.json")
    case.register(logged.model_uri, "fail")


def the_wrong_id(case: Case) -> None:
    with mlflow.start_run():
        logged = case.log(bad())
        with pytest.raises(InputError, match="is not the model that this report is about"):
            log_report(good_report(), model_id=logged.model_id)
    case.register(logged.model_uri, "fail")


def another_model_logged_over_the_first(case: Case) -> None:
    with mlflow.start_run():
        logged = case.log(good())
        log_report(good_report(), model_id=logged.model_id)
    with mlflow.start_run():
        case.log(bad(), model_id=logged.model_id)
    case.register(logged.model_uri, "fail")


def another_model_logged_over_that_of_an_unlinked_report(case: Case) -> None:
    with mlflow.start_run():
        logged = case.log(good())
        log_report(good_report())
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


def a_version_that_names_the_run_of_another_model(case: Case) -> None:
    with mlflow.start_run() as run:
        case.log(good())
        log_report(good_report())
    with mlflow.start_run():
        second = case.log(bad())
    case.client.create_registered_model(case.name)
    found = case.client.create_model_version(case.name, second.model_uri, run.info.run_id)
    case.expect(found.version, "fail")


def fitted_by_hand_in_the_parent_and_logged_in_the_child(case: Case) -> None:
    with mlflow.start_run():
        log_report(good_report())
        with mlflow.start_run(nested=True):
            logged = case.log(bad())
    case.register(logged.model_uri, "fail")


def changed_after_its_fit(case: Case) -> None:
    autolog()
    with mlflow.start_run():
        model = fit(0, Y)
        model.estimators_ = bad().estimators_
        logged = case.log(model)
    case.register(logged.model_uri, "fail")


def a_clone_fitted_otherwise(case: Case) -> None:
    with mlflow.start_run():
        log_report(good_report())
        logged = case.log(clone(good()).fit(X, NOISY))
    case.register(logged.model_uri, "fail")


MIXED = (
    by_hand_before_the_model, registered_by_name, the_last_of_two_fits_logged_elsewhere,
    the_good_one_linked_and_the_bad_one_logged_later, an_unlinked_report_and_two_models, a_resumed_run,
    the_report_of_a_model_that_was_never_logged, autologging_that_could_not_report_the_second_fit, no_forest,
    two_unlinked_reports_and_the_bad_model, two_reports_under_prefixes_of_their_own, one_report_replaced_by_another,
    two_processes_in_one_run, tags_of_the_good_one_on_the_bad_one, tags_swapped, the_file_of_the_report_replaced,
    the_file_of_an_unlinked_report_replaced, the_wrong_id, another_model_logged_over_the_first,
    another_model_logged_over_that_of_an_unlinked_report, the_model_of_the_report_deleted,
    a_model_deleted_after_its_registration, a_version_that_names_the_run_of_another_model,
    fitted_by_hand_in_the_parent_and_logged_in_the_child, changed_after_its_fit, a_clone_fitted_otherwise,
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
    """Return all arrangements on a database, and some on files: `benchmarks.checks.links` has more of them."""
    some = [
        arrange for arrange in arrangements if "logged_over" in arrange.__name__ or "autologged" in arrange.__name__
    ]
    pairs = [("embedded", arrange) for arrange in arrangements] + [("files", arrange) for arrange in some]
    return [pytest.param(store, arrange, id=f"{store}-{arrange.__name__}") for store, arrange in pairs]


@pytest.mark.fast_cases(
    "embedded-by_hand_after_the_model", "embedded-autologged_and_logged_outside_of_runs",
    "embedded-two_models_linked_under_two_prefixes", "embedded-two_fits_in_one_run",
    "files-autologged_then_logged",
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


def test_there_are_forty_arrangements() -> None:
    assert len({arrange.__name__ for arrange in (*PLAIN, *MIXED)}) >= 40


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
