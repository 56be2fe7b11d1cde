"""Reports that are not of the stored model, linked in every way that there is: counts the verdicts that rest on one.

Run by hand: ``python -m tests.attacks.links``.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import os
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import mlflow
import mlflow.lightgbm
import mlflow.sklearn
import mlflow.xgboost
import numpy as np
import pytest
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import (
    BaggingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import ens_plugin
from ens_plugin import EnsembleReport, RightSizedClassifier
from ens_plugin.errors import EnsPluginError
from ens_plugin.tracking.uploads import wait_until_sent
from tests.extras import lightgbm, xgboost
from tests.registry.registry import stub_artifacts
from tests.tracking.stores import embedded_store, served_store, tracking_to

__all__ = ["ARRANGED", "HONEST", "KINDS", "STORED", "STORES", "Trial", "attack", "named", "store"]

X, Y = (part[:200] for part in load_breast_cancer(return_X_y=True))
X = X[:, :6]
XR, YR = (part[:200] for part in load_diabetes(return_X_y=True))
SHUFFLED = np.random.default_rng(0).permutation(Y)
# A column of zeros and ones splits every bag alike, and five rows have the rarer label.
X_RARE = np.random.default_rng(0).integers(0, 2, size=(200, 2)).astype(float)
Y_RARE = (np.arange(200) % 40 == 0) * 1
# What every model of these meets: a verdict is a pass.
POLICY = {"report": {"n_members": {"min": 2}}}
XGBOOST = {"objective": "binary:logistic", "subsample": 0.6, "num_parallel_tree": 30, "learning_rate": 1.0,
           "nthread": 1}  # fmt: skip
LIGHTGBM = {"objective": "binary", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6, "verbose": -1,
            "num_threads": 1}  # fmt: skip
VERDICT, NO_VERDICT, REFUSED = "verdict", "no verdict", "refused"


class Trial(NamedTuple):
    """How one kind ended, what was said, and the seconds of logging reports, of logging models and of judging."""

    kind: str
    outcome: str
    words: str
    linking: float
    logging: float
    judging: float


class Subject(NamedTuple):
    """A fit to analyse, its rows, and what is made of the model before it is stored."""

    fit: Callable[[], Any]
    change: Callable[[Any], Any] = lambda model: model
    flavour: str = "sklearn"
    X: Any = X
    y: Any = Y

    def report(self, model: Any) -> EnsembleReport:
        """Analyse the model as it was fitted."""
        return ens_plugin.analyze(model, self.X, self.y)


@dataclass
class Case:
    """A registered model of its own, the version that is to be judged, and how long everything took."""

    client: mlflow.MlflowClient = field(default_factory=mlflow.MlflowClient)
    name: str = field(default_factory=lambda: f"m-{uuid4().hex[:8]}")
    uri: str = ""
    refusal: str = ""
    linking: list[float] = field(default_factory=list)
    logging: list[float] = field(default_factory=list)

    def log(self, model: Any, flavour: str = "sklearn", **options: Any) -> Any:
        """Log a model; return what MLflow returns."""
        if flavour == "sklearn":
            options["serialization_format"] = "cloudpickle"
        begun = time.perf_counter()
        logged = getattr(mlflow, flavour).log_model(model, **{"name": "m", "pip_requirements": [], **options})
        self.logging.append(time.perf_counter() - begun)
        return logged

    def link(self, report: EnsembleReport, model_id: str, **options: Any) -> None:
        """Log a report for a model; a refusal is noted, and its author goes on."""
        begun = time.perf_counter()
        try:
            ens_plugin.log_report(report, model_id=model_id, **options)
        except EnsPluginError as error:
            self.refusal = str(error)
        self.linking.append(time.perf_counter() - begun)

    def register(self, logged: Any, **options: Any) -> str:
        """Make a version of a logged model, which is then the one to judge."""
        version = mlflow.register_model(f"models:/{logged.model_id}", self.name, **options)
        self.uri = f"models:/{self.name}/{version.version}"
        return self.uri

    def linked(self, subject: Subject | None = None) -> Any:
        """Log an honest model and its report; return what MLflow returns."""
        subject = subject or Subject(forest_of(Y))
        model = subject.fit()
        with mlflow.start_run():
            logged = self.log(model, subject.flavour)
        self.link(subject.report(model), logged.model_id)
        assert not self.refusal, self.refusal
        return logged

    def folder(self, model_id: str) -> Path:
        """Return a copy of a model's files."""
        place = Path(tempfile.mkdtemp())
        return Path(mlflow.artifacts.download_artifacts(artifact_uri=self.place(model_id), dst_path=str(place)))

    def place(self, model_id: str) -> str:
        """Return where a model's files are."""
        return str(self.client.get_logged_model(model_id).artifact_location)

    def put(self, model_id: str, file: Path) -> None:
        """Put a file beside those of a model, or over one of them."""
        repository: Any = get_artifact_repository(self.place(model_id))
        repository.log_artifact(str(file))

    def run_of_the_report(self, model_id: str) -> str:
        """Return the run that has the report of a linked model."""
        metrics = self.client.get_logged_model(model_id).metrics
        assert metrics
        return str(metrics[0].run_id)

    def tag(self) -> str | None:
        """Return what the version's tag says about its verdict."""
        _, name, version = self.uri.split("/")
        return self.client.get_model_version(name, version).tags.get("ens.gate")

    def judge(self, **options: Any) -> str:
        """Ask the gate about the version."""
        return ens_plugin.gate(self.uri, POLICY, **options).verdict


Way = Callable[[Case, Subject], None]


def autologged(case: Case, subject: Subject) -> None:
    """Fit with autologging on, then log something else in the same run."""
    ens_plugin.autolog(max_overhead=math.inf)
    with mlflow.start_run():
        logged = case.log(subject.change(subject.fit()), subject.flavour)
    case.register(logged)


def in_the_run(case: Case, subject: Subject) -> None:
    """Log a report without naming a model, then the model in the same run."""
    model = subject.fit()
    with mlflow.start_run():
        ens_plugin.log_report(subject.report(model))
        logged = case.log(subject.change(model), subject.flavour)
    case.register(logged)


def by_id(case: Case, subject: Subject) -> None:
    """Log the model first, and the report of another one for it."""
    model = subject.fit()
    report = subject.report(model)
    with mlflow.start_run():
        logged = case.log(subject.change(model), subject.flavour)
    case.link(report, logged.model_id)
    case.register(logged)


def from_json(case: Case, subject: Subject) -> None:
    """Read the report back, as another process does."""
    model = subject.fit()
    report = EnsembleReport.from_json(subject.report(model).to_json())
    with mlflow.start_run():
        logged = case.log(subject.change(model), subject.flavour)
    case.link(report, logged.model_id, rows=subject.X)
    case.register(logged)


def by_mlflow(case: Case, subject: Subject) -> None:
    """Let MLflow's autologging log the model of the fit."""
    ens_plugin.autolog(max_overhead=math.inf)
    mlflow.autolog(log_model_signatures=False, log_datasets=False)
    with mlflow.start_run() as run:
        begun = time.perf_counter()
        subject.fit()
        case.logging.append(time.perf_counter() - begun)
    outputs = case.client.get_run(run.info.run_id).outputs
    assert outputs is not None
    case.register(outputs.model_outputs[0])


def forest_of(y: Any, n_trees: int = 30, **options: Any) -> Callable[[], RandomForestClassifier]:
    """Return a fit on these labels."""
    return lambda: RandomForestClassifier(n_trees, **{"random_state": 0, **options}).fit(X, y)


def regressor_of(y: Any) -> Callable[[], RandomForestRegressor]:
    return lambda: RandomForestRegressor(30, random_state=0).fit(XR, y)


class Contrary(RandomForestClassifier):  # type: ignore[misc]
    """A forest that says the opposite."""

    def predict(self, X: Any) -> Any:
        return self.classes_[::-1][super().predict_proba(X).argmax(axis=1)]


def refit(model: Any, other: Any) -> Any:
    """Give a model the state of another one, as a second fit does."""
    model.__dict__.update(copy.deepcopy(other.__dict__))
    return model


def swap_classes(model: Any) -> Any:
    model.classes_ = model.classes_[::-1]
    return model


def shorten(model: Any) -> Any:
    """Keep three trees: the first, one in the middle and the last."""
    model.estimators_ = [model.estimators_[place] for place in (0, len(model.estimators_) // 2, -1)]
    model.n_estimators = 3
    return model


def reorder(model: Any) -> Any:
    model.estimators_ = model.estimators_[::-1]
    return model


def contradict(model: Any) -> Any:
    model.__class__ = Contrary
    return model


def replace_trees(model: Any, others: Any) -> Any:
    """Keep two trees at the start, two in the middle and two at the end."""
    n_trees = len(model.estimators_)
    kept = (0, 1, n_trees // 2 - 1, n_trees // 2, n_trees - 2, n_trees - 1)
    model.estimators_ = [(model if place in kept else others).estimators_[place] for place in range(n_trees)]
    return model


def add_trees(model: Any, others: Any) -> Any:
    """Let a forest grow by the further trees of another one."""
    model.estimators_ += others.estimators_[len(model.estimators_) :]
    model.n_estimators = len(model.estimators_)
    return model


def rewrite_leaves(model: Any) -> Any:
    for tree in model.estimators_[3:]:
        tree.tree_.value[:] = tree.tree_.value[:, :, ::-1]
    return model


def move_thresholds(model: Any) -> Any:
    """Move every threshold but that of the root."""
    for tree in model.estimators_:
        tree.tree_.threshold[1:] *= 1.5
    return model


def use_other_columns(model: Any) -> Any:
    model.estimators_features_ = [(columns + 1) % 6 for columns in model.estimators_features_]
    return model


def vote_with_a_constant(model: Any) -> Any:
    parts = [("forest", FrozenEstimator(model)), ("constant", DummyClassifier(strategy="constant", constant=0))]
    return VotingClassifier(parts, voting="soft", weights=[1, 9]).fit(X, Y)


def stack_on_swapped_labels(model: Any) -> Any:
    return StackingClassifier([("forest", model)], LogisticRegression(), cv="prefit").fit(X, 1 - Y)


def calibrate(model: Any) -> Any:
    return CalibratedClassifierCV(FrozenEstimator(model), method="isotonic").fit(X, SHUFFLED)


def scale_first(model: Any) -> Any:
    return make_pipeline(StandardScaler().fit(X), model)


def square_first(model: Any) -> Any:
    return make_pipeline(FunctionTransformer(np.square).fit(X), model)


def reverse_columns_first(model: Any) -> Any:
    columns = [(str(column), "passthrough", [column]) for column in range(6)[::-1]]
    return make_pipeline(ColumnTransformer(columns).fit(X), model)


def ask_for_certainty(model: Any) -> Any:
    return FixedThresholdClassifier(FrozenEstimator(model), threshold=0.95).fit(X, Y)


def transform_target(model: Any) -> Any:
    wrapped = TransformedTargetRegressor(FrozenEstimator(model), func=np.log1p, inverse_func=np.expm1)
    return wrapped.fit(XR, YR)


def repeat_output(model: Any) -> Any:
    return MultiOutputClassifier(FrozenEstimator(model)).fit(X, np.column_stack([Y, 1 - Y]))


def xgb_forest(y: Any = YR, **options: Any) -> Callable[[], Any]:
    return lambda: xgboost.XGBRFRegressor(n_estimators=30, subsample=0.6, n_jobs=1, **options).fit(XR, y)


def xgb_labels(y: Any) -> Callable[[], Any]:
    return lambda: xgboost.XGBRFClassifier(n_estimators=30, subsample=0.6, n_jobs=1).fit(X, y)


def xgb_booster(y: Any) -> Callable[[], Any]:
    return lambda: xgboost.train(XGBOOST, xgboost.DMatrix(X, y), 1)


def edit_xgboost(model: Any, path: tuple[str, ...], text: str) -> Any:
    """Write another text into the document of a model."""
    edited = copy.deepcopy(model)
    document = json.loads(bytes(model.get_booster().save_raw("json")))
    place = document
    for key in path[:-1]:
        place = place[key]
    assert place[path[-1]] != text
    place[path[-1]] = text
    edited.get_booster().load_model(bytearray(json.dumps(document), "utf-8"))
    return edited


def lgb_booster(y: Any) -> Callable[[], Any]:
    return lambda: lightgbm.train(LIGHTGBM, lightgbm.Dataset(X, y), 30)


def lgb_labels(y: Any) -> Callable[[], Any]:
    options = {"boosting_type": "rf", "subsample_freq": 1, "subsample": 0.6, "n_jobs": 1, "verbose": -1}
    return lambda: lightgbm.LGBMClassifier(n_estimators=30, **options).fit(X, y)


def read_lightgbm(text: str) -> Any:
    return lightgbm.Booster(model_str=text)


def forget_objective(model: Any) -> Any:
    return read_lightgbm(model.model_to_string().replace("objective=binary sigmoid:1", "objective=regression"))


def set_leaves(model: Any) -> Any:
    changed = read_lightgbm(model.model_to_string())
    for tree in range(3, 30):
        changed.set_leaf_output(tree, 0, 100.0)
    return changed


def other_fit(fit: Callable[[], Any], other: Callable[[], Any], **options: Any) -> Subject:
    """Store another fit, which was made while nothing was logged."""
    made = other()
    return Subject(fit, lambda model: made, **options)


def other_fit_in_place(fit: Callable[[], Any], other: Callable[[], Any], **options: Any) -> Subject:
    """Store the same object after another fit of it."""
    made = other()
    return Subject(fit, lambda model: refit(model, made), **options)


def with_others(change: Callable[[Any, Any], Any], n_trees: int) -> Subject:
    """Change 60 trees by those of a forest on shuffled labels."""
    others = forest_of(SHUFFLED, n_trees)()
    return Subject(forest_of(Y, 60), lambda model: change(model, others))


def bagging() -> Any:
    return BaggingClassifier(n_estimators=30, max_features=0.5, random_state=0).fit(X, Y)


def rare(seed: int) -> Callable[[], Any]:
    return lambda: RandomForestClassifier(30, random_state=seed).fit(X_RARE, Y_RARE)


FOREST = partial(Subject, forest_of(Y))
BASE_SCORE = ("learner", "learner_model_param", "base_score")
OBJECTIVE = ("learner", "objective", "name")
# What is stored in place of the model that was analysed, and how the report gets to it.
STORED: dict[str, tuple[Callable[[], Subject], tuple[Way, ...]]] = {
    "y and 1 - y": (lambda: other_fit(forest_of(Y), forest_of(1 - Y)), (in_the_run, by_id, from_json)),
    "y and -y": (lambda: other_fit(regressor_of(YR), regressor_of(-YR), X=XR, y=YR), (in_the_run, by_id)),
    "100 leaves and 2": (
        lambda: other_fit(forest_of(Y, max_leaf_nodes=100), forest_of(Y, max_leaf_nodes=2)), (in_the_run, by_id)),
    "another seed, a rare label": (lambda: other_fit(rare(0), rare(1), X=X_RARE, y=Y_RARE), (in_the_run, by_id)),
    "fitted again in place": (lambda: other_fit_in_place(forest_of(Y), forest_of(1 - Y)), (autologged, by_id)),
    "54 of 60 trees replaced": (lambda: with_others(replace_trees, 60), (autologged, in_the_run, by_id)),
    "60 trees grown to 600": (lambda: with_others(add_trees, 600), (autologged, in_the_run, by_id)),
    "classes_ swapped": (lambda: FOREST(swap_classes), (autologged, by_id)),
    "estimators_ shortened": (lambda: FOREST(shorten), (autologged, by_id)),
    "estimators_ reordered": (lambda: FOREST(reorder), (autologged, by_id)),
    "a subclass": (lambda: FOREST(contradict), (autologged, by_id)),
    "leaves rewritten": (lambda: FOREST(rewrite_leaves), (autologged, by_id)),
    "thresholds moved": (lambda: FOREST(move_thresholds), (autologged, by_id)),
    "other columns": (lambda: Subject(bagging, use_other_columns), (autologged, by_id)),
    "VotingClassifier": (lambda: FOREST(vote_with_a_constant), (autologged, by_id)),
    "StackingClassifier": (lambda: FOREST(stack_on_swapped_labels), (autologged, by_id)),
    "CalibratedClassifierCV": (lambda: FOREST(calibrate), (autologged, by_id)),
    "a scaler": (lambda: FOREST(scale_first), (autologged, in_the_run, by_id)),
    "FunctionTransformer": (lambda: FOREST(square_first), (autologged, by_id)),
    "ColumnTransformer": (lambda: FOREST(reverse_columns_first), (autologged, by_id)),
    "FixedThresholdClassifier": (lambda: FOREST(ask_for_certainty), (autologged, by_id)),
    "TransformedTargetRegressor": (
        lambda: Subject(regressor_of(YR), transform_target, X=XR, y=YR), (autologged, by_id)),
    "MultiOutputClassifier": (lambda: FOREST(repeat_output), (autologged, by_id)),
    "XGBRFClassifier, y and 1 - y": (
        lambda: other_fit(xgb_labels(Y), xgb_labels(1 - Y), flavour="xgboost"), (in_the_run, by_id)),
    "XGBRFRegressor, base_score": (
        lambda: Subject(xgb_forest(), lambda model: edit_xgboost(model, BASE_SCORE, "[9E2]"), "xgboost", XR, YR),
        (autologged, by_id)),
    "XGBRFRegressor, objective": (
        lambda: Subject(xgb_forest(), lambda model: edit_xgboost(model, OBJECTIVE, "reg:gamma"), "xgboost", XR, YR),
        (autologged, by_id)),
    "XGBRFRegressor, 5 of 30 trees": (
        lambda: Subject(xgb_forest(), lambda model: ens_plugin.truncate(model, 5), "xgboost", XR, YR),
        (autologged, by_id)),
    "xgboost.train on shuffled labels": (
        lambda: other_fit(xgb_booster(Y), xgb_booster(SHUFFLED), flavour="xgboost"), (autologged, by_id)),
    "LGBMClassifier, y and 1 - y": (
        lambda: other_fit(lgb_labels(Y), lgb_labels(1 - Y), flavour="lightgbm"), (in_the_run, by_id)),
    "lightgbm.train on shuffled labels": (
        lambda: other_fit(lgb_booster(Y), lgb_booster(SHUFFLED), flavour="lightgbm"), (autologged, by_id)),
    "lightgbm.train, objective": (lambda: Subject(lgb_booster(Y), forget_objective, "lightgbm"), (autologged, by_id)),
    "lightgbm.train, leaves": (lambda: Subject(lgb_booster(Y), set_leaves, "lightgbm"), (autologged, by_id)),
    "lightgbm.train, 5 of 30 trees": (
        lambda: Subject(lgb_booster(Y), lambda model: read_lightgbm(model.model_to_string(5)), "lightgbm"),
        (autologged, by_id)),
}  # fmt: skip


def first_candidate_on_the_last_report(case: Case) -> None:
    """A search in one run, which keeps the first."""
    models = [forest_of(Y, max_leaf_nodes=leaves)() for leaves in (2, 100)]
    with mlflow.start_run():
        for model in models:
            ens_plugin.log_report(ens_plugin.analyze(model, X, Y))
        case.register(case.log(models[0]))


def candidate_that_was_not_analysed(case: Case) -> None:
    """A search with autologging, and a candidate that was fitted without."""
    other = forest_of(Y, max_leaf_nodes=10)()
    ens_plugin.autolog(max_overhead=math.inf)
    with mlflow.start_run():
        for leaves in (2, 100):
            forest_of(Y, max_leaf_nodes=leaves)()
        case.register(case.log(other))


def model_overwritten(case: Case) -> None:
    """Put the file of another forest over that of a linked one."""
    logged = case.linked()
    other = case.log(forest_of(1 - Y)())
    case.put(logged.model_id, case.folder(other.model_id) / "model.pkl")
    case.register(logged)


def model_overwritten_after_its_registration(case: Case) -> None:
    logged = case.linked()
    case.register(logged)
    assert case.judge() == "pass"
    other = case.log(forest_of(1 - Y)())
    case.put(logged.model_id, case.folder(other.model_id) / "model.pkl")


def models_exchanged(case: Case) -> None:
    """Two linked models, each with the other's file."""
    pair = case.linked(), case.linked(Subject(forest_of(1 - Y), y=1 - Y))
    files = [case.folder(logged.model_id) / "model.pkl" for logged in pair]
    for logged, file in zip(pair, files[::-1], strict=True):
        case.put(logged.model_id, file)
    case.register(pair[0])


def second_pickle(case: Case) -> Any:
    """Put another forest beside that of a linked one."""
    logged = case.linked()
    other = case.folder(case.log(forest_of(1 - Y)()).model_id) / "model.pkl"
    case.put(logged.model_id, other.rename(other.with_name("other.pkl")))
    case.register(logged)
    return logged


def second_pickle_named_by_mlmodel(case: Case) -> None:
    edit_mlmodel(case, second_pickle(case).model_id, "model.pkl", "other.pkl")


def another_flavour(case: Case) -> None:
    """Let MLflow read the model by other code."""
    logged = case.linked()
    edit_mlmodel(case, logged.model_id, "mlflow.sklearn", "tests.attacks.links")
    case.register(logged)


def edit_mlmodel(case: Case, model_id: str, old: str, new: str) -> None:
    file = case.folder(model_id) / "MLmodel"
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")
    case.put(model_id, file)


def report_copied_over(case: Case) -> None:
    """Put the report of a good model over that of a bad one."""
    bad = Subject(forest_of(SHUFFLED), y=SHUFFLED)
    logged = case.linked(bad)
    report = ens_plugin.analyze(forest_of(Y)(), X, Y).to_dict()
    text = json.dumps({**report, "model_id": logged.model_id})
    case.client.log_text(case.run_of_the_report(logged.model_id), text, "ensemble/report.json")
    case.register(logged)


def tags_copied(case: Case) -> None:
    """Give a model the tags of a linked one."""
    linked, other = case.linked(), case.log(forest_of(1 - Y)())
    tags = case.client.get_logged_model(linked.model_id).tags
    case.client.set_logged_model_tags(
        other.model_id, {key: text for key, text in tags.items() if key.startswith("ens")}
    )
    case.register(other)


def logged_anew_under_the_same_id(case: Case) -> None:
    logged = case.linked()
    case.log(forest_of(1 - Y)(), model_id=logged.model_id)
    case.register(logged)


def run_of_the_report_deleted(case: Case) -> None:
    logged = case.linked()
    case.register(logged)
    case.client.delete_run(case.run_of_the_report(logged.model_id))


def fitted_again_after_logging(case: Case) -> None:
    """Analyse what the object is now, and link it to what was stored before."""
    model = forest_of(1 - Y)()
    with mlflow.start_run():
        logged = case.log(model)
    model.fit(X, Y)
    case.link(ens_plugin.analyze(model, X, Y), logged.model_id)
    case.register(logged)


def another_model_of_the_run(case: Case) -> None:
    """Two models in one run, of which the other one is linked."""
    model = forest_of(Y)()
    with mlflow.start_run():
        first, second = case.log(model), case.log(forest_of(1 - Y)())
        case.link(ens_plugin.analyze(model, X, Y), first.model_id)
    case.register(second)


def logged_twice_and_changed_between(case: Case) -> None:
    ens_plugin.autolog(max_overhead=math.inf)
    with mlflow.start_run():
        model = forest_of(Y)()
        case.log(model)
        case.register(case.log(rewrite_leaves(model)))


def source_of_another_model(case: Case) -> None:
    """Name the folder of one model, and the run and the id of a linked one."""
    linked, other = case.linked(), case.log(forest_of(1 - Y)())
    case.client.create_registered_model(case.name)
    run_id = case.client.get_logged_model(linked.model_id).source_run_id
    found = case.client.create_model_version(case.name, case.place(other.model_id), run_id, model_id=linked.model_id)
    case.uri = f"models:/{case.name}/{found.version}"


def run_of_another_model(case: Case) -> None:
    """Register a model under the run of another one, whose report names none."""
    model = forest_of(Y)()
    with mlflow.start_run() as run:
        ens_plugin.log_report(ens_plugin.analyze(model, X, Y))
    other = case.log(forest_of(1 - Y)())
    case.client.create_registered_model(case.name)
    found = case.client.create_model_version(case.name, f"models:/{other.model_id}", run.info.run_id)
    case.uri = f"models:/{case.name}/{found.version}"


def tag_of_the_verdict_copied(case: Case) -> str:
    """Copy a version that has passed: its tag has to be another one than the gate writes for the copy."""
    case.register(case.linked())
    case.judge()
    copied = case.client.copy_model_version(case.uri, f"{case.name}-copy")
    case.uri = f"models:/{copied.name}/{copied.version}"
    return tag_at(case)


def tag_of_the_verdict_given_at_registration(case: Case) -> str:
    case.register(case.linked())
    case.judge()
    case.register(case.linked(Subject(forest_of(1 - Y), y=1 - Y)), tags={"ens.gate": case.tag()})
    return tag_at(case)


def tag_at(case: Case) -> str:
    before = case.tag()
    case.judge()
    return VERDICT if before == case.tag() else NO_VERDICT


def late_delivery(case: Case) -> str:
    """Judge version 2, and version 1 after it."""
    first, second = case.register(case.linked()), case.register(case.linked())
    for case.uri in (second, first):
        try:
            case.judge(promote="champion")
        except EnsPluginError as error:
            case.refusal = str(error)
    held = case.client.get_registered_model(case.name).aliases["champion"]
    return VERDICT if str(held) == "1" else NO_VERDICT


ARRANGED: tuple[Callable[[Case], object], ...] = (
    first_candidate_on_the_last_report, candidate_that_was_not_analysed, model_overwritten,
    model_overwritten_after_its_registration, models_exchanged, second_pickle, second_pickle_named_by_mlmodel,
    another_flavour, report_copied_over, tags_copied, logged_anew_under_the_same_id, run_of_the_report_deleted,
    fitted_again_after_logging, another_model_of_the_run, logged_twice_and_changed_between, source_of_another_model,
    run_of_another_model, tag_of_the_verdict_copied, tag_of_the_verdict_given_at_registration, late_delivery,
)  # fmt: skip


def named(function: Callable[..., object]) -> str:
    return function.__name__.replace("_", " ")


def _arranged(make: Callable[[], Subject], way: Way) -> Callable[[Case], object]:
    return lambda case: way(case, make())


KINDS: dict[str, Callable[[Case], object]] = {
    **{f"{name}, {named(way)}": _arranged(make, way) for name, (make, ways) in STORED.items() for way in ways},
    **{named(arrange): arrange for arrange in ARRANGED},
}
OWN: dict[str, Subject] = {
    "forest": Subject(forest_of(Y)),
    "regression": Subject(regressor_of(YR), X=XR, y=YR),
    "bagging": Subject(bagging),
    "pipeline": Subject(lambda: make_pipeline(StandardScaler(), RandomForestClassifier(30, random_state=0)).fit(X, Y)),
    "RightSizedClassifier": Subject(
        lambda: RightSizedClassifier(
            RandomForestClassifier(30, random_state=0), criterion="agreement", tolerance=0.03, max_size=2001
        ).fit(X, Y)
    ),
    "XGBRFClassifier": Subject(xgb_labels(Y), flavour="xgboost"),
    "xgboost.train": Subject(xgb_booster(Y), flavour="xgboost"),
    "LGBMClassifier": Subject(lgb_labels(Y), flavour="lightgbm"),
    "lightgbm.train": Subject(lgb_booster(Y), flavour="lightgbm"),
}
# The model is the one that was analysed: logged before its report, after an autologged fit, or by MLflow itself, which
# logs the forest inside a RightSizedClassifier at each of its sizes.
HONEST: dict[str, Callable[[Case], object]] = {
    f"{name}, {named(way)}": _arranged(lambda subject=subject: subject, way)  # type: ignore[misc]
    for name, subject in OWN.items()
    for way in (by_id, autologged, by_mlflow)
    if (name, way) != ("RightSizedClassifier", by_mlflow)
}


def attack(kind: str) -> Trial:
    """Run one kind on the present store; return "no verdict", "verdict" or "refused", what was said and the seconds."""
    case, begun = Case(), 0.0
    try:
        outcome = (KINDS | HONEST)[kind](case)
        begun = time.perf_counter()
        if not isinstance(outcome, str):
            case.judge()
            outcome = VERDICT
        words = ""
    except EnsPluginError as error:
        outcome, words = (REFUSED, case.refusal) if case.refusal else (NO_VERDICT, str(error))
    finally:
        judging = time.perf_counter() - begun
        assert wait_until_sent(60), "reports are still being sent"
        _switch_off()
    return Trial(kind, outcome, words, sum(case.linking[-1:]), sum(case.logging[-1:]), judging if begun else 0.0)


def _switch_off() -> None:
    ens_plugin.autolog(disable=True)
    mlflow.autolog(disable=True)


def _in_files(folder: Path) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patches:
        patches.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        uri = (folder / "mlruns").as_uri()
        mlflow.MlflowClient(tracking_uri=uri).create_experiment("tests", (folder / "artifacts").as_uri())
        yield uri


def _in_a_database(folder: Path) -> Iterator[str]:
    yield embedded_store(folder)


STORES: dict[str, Callable[[Path], AbstractContextManager[str]]] = {
    "SQLite": contextmanager(_in_a_database),
    "files": contextmanager(_in_files),
    "server": served_store,
}


@contextmanager
def store(name: str) -> Iterator[None]:
    """Track to a new store of this kind, with reports that have no pictures and models that are not looked into."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        patches = stack.enter_context(pytest.MonkeyPatch.context())
        patches.setenv("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
        patches.setenv("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")
        patches.setattr("mlflow.models.infer_pip_requirements", lambda *arguments, **options: [])
        patches.setattr(tempfile, "tempdir", str(folder))
        stub_artifacts(patches)
        stub_artifacts(patches, "uploads")
        stack.enter_context(tracking_to(stack.enter_context(STORES[name](folder))))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        mlflow.set_experiment("tests")
        try:
            yield
        finally:
            os.environ.pop("MLFLOW_EXPERIMENT_ID", None)


def main() -> None:
    """Print how each kind ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", choices=STORES, default="SQLite")
    parser.add_argument("--only", default="", help="part of the names of the kinds to run")
    options = parser.parse_args()
    with store(options.store):
        for title, kinds in (("not of the stored model", KINDS), ("of the stored model", HONEST)):
            trials = []
            for kind in (kind for kind in kinds if options.only in kind):
                trials.append(attack(kind))
                print(f"{trials[-1].outcome:10} {kind:60} {trials[-1].words[:120]}", flush=True)
            print(f"{title}: {dict(Counter(trial.outcome for trial in trials))}", flush=True)


if __name__ == "__main__":
    main()
