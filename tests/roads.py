"""Roads from a fit to a verdict, each a line of ``roads.csv``: a library, steps in their order, a door and the outcome.

A step is what a user writes or does; `STEPS` has them all.  `walk` takes the steps and returns what the door says.
"""

from __future__ import annotations

import csv
import math
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import mlflow
import mlflow.lightgbm
import mlflow.sklearn
import mlflow.xgboost
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ens_plugin
from ens_plugin import EnsembleReport, RightSizedClassifier
from ens_plugin.cli.main import main
from ens_plugin.errors import EnsPluginError
from tests.extras import lightgbm, xgboost

__all__ = ["ROADS", "Road", "walk"]

TABLE, LABELS = load_breast_cancer(return_X_y=True, as_frame=True)
TABLE = TABLE.iloc[:, :8].rename(columns=lambda column: column.replace(" ", "_"))
X, Y, UNSEEN = TABLE[:300], LABELS[:300], TABLE[300:].assign(benign=LABELS[300:])
LOOSE, STRICT = {"report": {"error": {"max": 0.25}}}, {"report": {"error": {"max": 0.001}}}
NO_WORSE = {**LOOSE, "baseline": {"no_worse": True}}
EASY: dict[str, Any] = {"criterion": "agreement", "tolerance": 0.03, "max_size": 2001}
TREES = ["sklearn.tree._tree.Tree"]
OTHER_PREFIX = "val"
XGBOOST = {"objective": "binary:logistic", "subsample": 0.6, "num_parallel_tree": 20, "learning_rate": 1.0,
           "nthread": 1}  # fmt: skip
LIGHTGBM = {"objective": "binary", "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6, "verbose": -1,
            "num_threads": 1}  # fmt: skip


class Road(NamedTuple):
    """One line of the table."""

    road: str
    library: str
    steps: str
    door: str
    outcome: str
    words: str
    speed: str

    def is_walked(self, found: str) -> bool:
        """Return whether this outcome is the expected one."""
        return found.partition(":")[0] == self.outcome and self.words in found


with (Path(__file__).parent / "roads.csv").open(encoding="utf-8", newline="") as opened:
    ROADS = [Road(**line) for line in csv.DictReader(opened)]


def forest(n_trees: int = 20, **options: Any) -> RandomForestClassifier:
    return RandomForestClassifier(n_trees, random_state=0, **options)


def _fit_lightgbm() -> Any:
    options = {"boosting_type": "rf", "subsample_freq": 1, "subsample": 0.6, "n_jobs": 1, "verbose": -1}
    return lightgbm.LGBMClassifier(n_estimators=20, **options).fit(X, Y)


# By library and class: the flavour of MLflow, and the fit.
FITS: Mapping[str, tuple[str, Callable[[], Any]]] = {
    "RandomForestClassifier": ("sklearn", lambda: forest().fit(X, Y)),
    "60 trees": ("sklearn", lambda: forest(60).fit(X, Y)),
    "RandomForestRegressor": ("sklearn", lambda: RandomForestRegressor(20, random_state=0).fit(X, Y * 1.0)),
    "ExtraTreesClassifier": ("sklearn", lambda: ExtraTreesClassifier(20, bootstrap=True, random_state=0).fit(X, Y)),
    "BaggingClassifier": ("sklearn", lambda: BaggingClassifier(n_estimators=20, random_state=0).fit(X, Y)),
    "bagged neighbours": (
        "sklearn",
        lambda: BaggingClassifier(KNeighborsClassifier(), n_estimators=20, random_state=0).fit(X, Y),
    ),
    "pipeline": ("sklearn", lambda: make_pipeline(StandardScaler(), forest()).fit(X, Y)),
    "GridSearchCV": ("sklearn", lambda: GridSearchCV(forest(), {"max_depth": [2, None]}, cv=2).fit(X, Y)),
    "best_estimator_": ("sklearn", lambda: FITS["GridSearchCV"][1]().best_estimator_),
    "RightSizedClassifier": ("sklearn", lambda: RightSizedClassifier(forest(60), **EASY).fit(X, Y)),
    "XGBRFClassifier": (
        "xgboost",
        lambda: xgboost.XGBRFClassifier(n_estimators=20, subsample=0.6, n_jobs=1).fit(X, Y),
    ),
    "xgboost.train": ("xgboost", lambda: xgboost.train(XGBOOST, xgboost.DMatrix(X, Y), 1)),
    "LGBMClassifier": ("lightgbm", _fit_lightgbm),
    "lightgbm.train": ("lightgbm", lambda: lightgbm.train(LIGHTGBM, lightgbm.Dataset(X, Y), 20)),
}


@dataclass
class Walk:
    """How far somebody got."""

    library: str
    folder: Path
    client: mlflow.MlflowClient = field(default_factory=mlflow.MlflowClient)
    model: Any = None
    report: Any = None
    run_id: str = ""
    model_id: str = ""
    name: str = "churn"
    version: str = ""

    @property
    def uri(self) -> str:
        """URI of the version that is to be judged."""
        return f"models:/{self.name}/{self.version}"

    def log(self, flavour: str | None = None, **options: Any) -> None:
        """Log the model as its library's flavour does."""
        flavour = flavour or FITS[self.library][0]
        if flavour == "sklearn" and "skops_trusted_types" not in options:
            options["serialization_format"] = "cloudpickle"
        logged = getattr(mlflow, flavour).log_model(self.model, **{"name": "m", "pip_requirements": [], **options})
        self.model_id, self.run_id = logged.model_id, logged.run_id or self.run_id
        self.version = str(logged.registered_model_version or "")

    def take(self, name: str) -> None:
        """Take the model that MLflow's autologging logged under this name."""
        run = mlflow.last_active_run()
        assert run is not None
        assert run.outputs is not None
        self.run_id = run.info.run_id
        ids = [output.model_id for output in run.outputs.model_outputs]
        (self.model_id,) = (one for one in ids if self.client.get_logged_model(one).name == name)

    def register(self, uri: str) -> None:
        """Make a version of what is at this URI."""
        self.version = str(mlflow.register_model(uri, self.name).version)


def _start_run(walk: Walk) -> None:
    walk.run_id = mlflow.start_run().info.run_id


def _fit(walk: Walk) -> None:
    walk.model = FITS[walk.library][1]()


def _fit_other(walk: Walk) -> None:
    walk.model = forest().set_params(random_state=1).fit(X, Y)


def _fit_growing(walk: Walk) -> None:
    walk.model = forest(warm_start=True).fit(X, Y)


def _grow(walk: Walk) -> None:
    walk.model.set_params(n_estimators=2 * walk.model.n_estimators).fit(X, Y)


def _analyze(walk: Walk) -> None:
    """Analyse with the training rows; a booster's target is that of its fit."""
    walk.report = ens_plugin.analyze(walk.model, X, Y)


def _through_pickle(walk: Walk) -> None:
    walk.model = pickle.loads(pickle.dumps(walk.model))


def _through_json(walk: Walk) -> None:
    walk.report = EnsembleReport.from_json(walk.report.to_json())


def _reserve(walk: Walk) -> None:
    walk.model_id = mlflow.initialize_logged_model(name="m").model_id


def _save(walk: Walk) -> None:
    mlflow.sklearn.save_model(walk.model, walk.folder / "m", serialization_format="cloudpickle", pip_requirements=[])
    mlflow.log_artifacts(str(walk.folder / "m"), "m")


def _copy(walk: Walk) -> None:
    copy = walk.client.copy_model_version(walk.uri, "copied")
    walk.name, walk.version = copy.name, str(copy.version)


def _register_place(walk: Walk) -> None:
    walk.client.create_registered_model(walk.name)
    place = walk.client.get_logged_model(walk.model_id).artifact_location
    walk.version = str(walk.client.create_model_version(walk.name, place, walk.run_id).version)


def _log_in_another_process(walk: Walk) -> None:
    """As a job that gets the pickled model from the one that trained it."""
    with (walk.folder / "model.pkl").open("wb") as file:
        pickle.dump(walk.model, file)
    code = (
        "import mlflow, mlflow.sklearn, pickle, sys\n"
        "model = pickle.load(open(sys.argv[2], 'rb'))\n"
        "with mlflow.start_run(run_id=sys.argv[1]):\n"
        "    logged = mlflow.sklearn.log_model(model, name='m', serialization_format='cloudpickle',\n"
        "        pip_requirements=[])\n"
        "print(logged.model_id)"
    )
    walk.model_id = _run("-c", code, walk.run_id, str(walk.folder / "model.pkl")).split()[-1]


def _command_log(walk: Walk) -> None:
    _analyze_and_log(walk, walk.uri)


def _command_log_model(walk: Walk) -> None:
    _analyze_and_log(walk, f"models:/{walk.model_id}")


def _analyze_and_log(walk: Walk, uri: str) -> None:
    """As a job of its own, which has the rows in a file."""
    rows = walk.folder / "rows.csv"
    X.assign(benign=Y).to_csv(rows, index=False)
    _run("-m", "ens_plugin", "analyze", uri, "--data", str(rows), "--target", "benign", "--log")


def _evaluate(walk: Walk) -> None:
    evaluate: Any = mlflow.models.evaluate
    evaluate(f"models:/{walk.model_id}", UNSEEN, targets="benign", model_type="classifier", evaluators="ensemble")


def _rightsize(walk: Walk) -> None:
    found = ens_plugin.rightsize(walk.uri, X, Y, **EASY)
    assert found.logged is not None
    walk.version = str(found.logged.version)


def _champion(walk: Walk) -> None:
    walk.client.set_registered_model_alias(walk.name, "champion", walk.version)


def _first_version(walk: Walk) -> None:
    walk.version = "1"


def _run(*arguments: str) -> str:
    """Run another interpreter on the same store; return what it prints."""
    environment = {**os.environ, "MLFLOW_TRACKING_URI": mlflow.get_tracking_uri()}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=True, env=environment
    ).stdout


STEPS: Mapping[str, Callable[[Walk], object]] = {
    "autolog": lambda walk: ens_plugin.autolog(max_overhead=math.inf),
    "autolog(prefix=)": lambda walk: ens_plugin.autolog(max_overhead=math.inf, prefix=OTHER_PREFIX),
    "autolog(disable=True)": lambda walk: ens_plugin.autolog(disable=True),
    "mlflow.autolog": lambda walk: mlflow.autolog(log_model_signatures=False, log_datasets=False),
    "mlflow.autolog(log_models=False)": lambda walk: mlflow.autolog(log_models=False, log_datasets=False),
    "start_run": _start_run,
    "end_run": lambda walk: mlflow.end_run(),
    "resume run": lambda walk: mlflow.start_run(run_id=walk.run_id),
    "fit": _fit,
    "fit another": _fit_other,
    "fit with warm_start": _fit_growing,
    "grow": _grow,
    "analyze": _analyze,
    "pickle and back": _through_pickle,
    "to JSON and back": _through_json,
    "log_report": lambda walk: ens_plugin.log_report(walk.report),
    "log_report(prefix=)": lambda walk: ens_plugin.log_report(walk.report, prefix=OTHER_PREFIX),
    "log_report(run_id=)": lambda walk: ens_plugin.log_report(walk.report, run_id=walk.run_id),
    "log_report(model_id=)": lambda walk: ens_plugin.log_report(walk.report, model_id=walk.model_id),
    "log_report(model_id=, prefix=ens_2)": lambda walk: ens_plugin.log_report(
        walk.report, model_id=walk.model_id, prefix="ens_2"
    ),
    "log_report(model_id=, rows=)": lambda walk: ens_plugin.log_report(
        walk.report, model_id=walk.model_id, **{"rows": X}
    ),
    "ens-plugin analyze --log": _command_log,
    "ens-plugin analyze --log of the logged model": _command_log_model,
    "evaluate": _evaluate,
    "initialize_logged_model": _reserve,
    "log_model": Walk.log,
    "log_model(model_id=)": lambda walk: walk.log(model_id=walk.model_id),
    "log_model(skops)": lambda walk: walk.log(skops_trusted_types=TREES),
    "sklearn.log_model": lambda walk: walk.log("sklearn"),
    "log_model(registered_model_name=)": lambda walk: walk.log(registered_model_name=walk.name),
    "log_model(skops, registered_model_name=)": lambda walk: walk.log(
        skops_trusted_types=TREES, registered_model_name=walk.name
    ),
    "log_model in another process": _log_in_another_process,
    "save_model, log_artifacts": _save,
    "model of autologging": lambda walk: walk.take("model"),
    "best_estimator of autologging": lambda walk: walk.take("best_estimator"),
    "register models:/": lambda walk: walk.register(f"models:/{walk.model_id}"),
    "register runs:/": lambda walk: walk.register(f"runs:/{walk.run_id}/m"),
    "create_model_version of the place": _register_place,
    "copy_model_version": _copy,
    "rightsize": _rightsize,
    "champion": _champion,
    "version 1 again": _first_version,
}


def _gate(walk: Walk, policy: Mapping[str, Any] = LOOSE, **options: Any) -> str:
    return ens_plugin.gate(walk.uri, policy, **options).verdict


def _promote(walk: Walk) -> str:
    decision = ens_plugin.gate(walk.uri, LOOSE, promote="champion")
    assert decision.promoted == ("champion" if decision.passed else None)
    return decision.verdict


def _command_gate(walk: Walk) -> str:
    policy, said = walk.folder / "policy.toml", StringIO()
    policy.write_text("[report]\nerror.max = 0.25\n", encoding="utf-8")
    arguments = ["gate", walk.uri, "--policy", str(policy), "--promote", "champion"]
    try:
        with redirect_stdout(StringIO()), redirect_stderr(said):
            main([*arguments, "--tracking-uri", mlflow.get_tracking_uri()])
    except SystemExit as end:
        return {0: "pass", 1: "fail"}.get(int(end.code or 0), f"no verdict: {' '.join(said.getvalue().split())}")
    raise AssertionError("the command has not ended")


DOORS: Mapping[str, Callable[[Walk], str]] = {
    "gate": _gate,
    "gate, strict policy": lambda walk: _gate(walk, STRICT),
    "gate(prefix=)": lambda walk: _gate(walk, prefix=OTHER_PREFIX),
    "gate(X, y)": lambda walk: _gate(walk, X=X, y=Y),
    "gate(promote=)": _promote,
    "gate(promote=, allow_older=True)": lambda walk: _gate(walk, promote="champion", allow_older=True),
    "gate(baseline=)": lambda walk: _gate(walk, NO_WORSE, baseline="champion"),
    "gate(baseline=, X, y)": lambda walk: _gate(walk, NO_WORSE, baseline="champion", X=X, y=Y),
    "ens-plugin gate --promote": _command_gate,
}


def walk(road: Road, folder: Path) -> str:
    """Take a road and return "pass", "fail", or "no verdict" and the reason."""
    walked = Walk(road.library, folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for step in road.steps.split("; "):
                STEPS[step](walked)
            mlflow.end_run()
            return DOORS[road.door](walked)
        except EnsPluginError as error:
            return f"no verdict: {error}"
