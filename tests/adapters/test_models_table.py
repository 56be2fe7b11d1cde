"""Each cell of the table in docs/reference/models.md: it works, or is refused with what to do instead."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import BaggingRegressor, IsolationForest, RandomForestClassifier

import ens_plugin
from ens_plugin import autolog
from ens_plugin.errors import EnsPluginError
from tests.extras import INSTALL, needs_pyspark
from tests.spark.conftest import session  # noqa: F401  (a fixture)
from tests.tracking.stores import MLFLOW_WARNINGS, new_store, tracking_to

pytestmark = MLFLOW_WARNINGS

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 4))
FRESH = RNG.normal(size=(200, 4))
COLUMNS = list("abcd")


def labels(rows: Any) -> Any:
    return (rows[:, 0] + 0.7 * np.random.default_rng(1).normal(size=len(rows)) > 0.7).astype(int)


def values(rows: Any) -> Any:
    return rows[:, 0] + np.random.default_rng(1).normal(size=len(rows))


def outliers(rows: Any) -> Any:
    return np.where(np.abs(rows).max(axis=1) > 2.2, -1, 1)


def censored(rows: Any) -> Any:
    rng = np.random.default_rng(1)
    times, limits = rng.exponential(np.exp(rows[:, 0])), rng.exponential(2.0, len(rows))
    y = np.empty(len(rows), dtype=[("event", bool), ("time", float)])
    y["event"], y["time"] = times <= limits, np.minimum(times, limits)
    return y


def as_it_is(model: Any) -> Any:
    return model


@dataclass(frozen=True, eq=False)
class Row:
    """One row of the table: an unfitted ensemble, its target, how it is passed once it is fitted, and how it is."""

    library: str
    make: Callable[[], Any]
    target: Callable[[Any], Any]
    wrap: Callable[[Any], Any] = as_it_is
    fit: Callable[[Any, Any], Any] = lambda estimator, y: estimator.fit(X, y)
    takes_names: bool = False

    def estimator(self) -> Any:
        pytest.importorskip(self.library, reason=f"needs {self.library}: {INSTALL.get(self.library, self.library)}")
        return self.make()

    def fitted(self) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.wrap(self.fit(self.estimator(), self.target(X)))


def imblearn(name: str, **options: Any) -> Callable[[], Any]:
    return made("imblearn.ensemble", name, **options)


def made(module: str, name: str, **options: Any) -> Callable[[], Any]:
    from importlib import import_module

    return lambda: getattr(import_module(module), name)(**{"n_estimators": 40, "random_state": 0, **options})


def at_time(forest: Any) -> Any:
    from ens_plugin.adapters.sksurv import survival_at

    return survival_at(forest, 0.7)


def ydf_learner() -> Any:
    import ydf

    ydf.verbose(0)
    return ydf.RandomForestLearner(label="y", num_trees=41)


def fit_of_ydf(learner: Any, y: Any) -> Any:
    return learner.train(pd.DataFrame(X, columns=COLUMNS).assign(y=y.astype(str)))


ROWS = {
    "`RandomForestClassifier`": Row("sklearn", lambda: RandomForestClassifier(40, random_state=0), labels),
    "`BaggingRegressor`": Row("sklearn", lambda: BaggingRegressor(n_estimators=40, random_state=0), values),
    "`IsolationForest`": Row(
        "sklearn", lambda: IsolationForest(n_estimators=40, max_samples=100, random_state=0), outliers
    ),
    "`BalancedRandomForestClassifier`": Row("imblearn", imblearn("BalancedRandomForestClassifier"), labels),
    "`BalancedBaggingClassifier`": Row("imblearn", imblearn("BalancedBaggingClassifier"), labels),
    "`RandomForestQuantileRegressor`": Row(
        "quantile_forest", made("quantile_forest", "RandomForestQuantileRegressor"), values
    ),
    "`RegressionForest`": Row("econml", made("econml.grf", "RegressionForest", n_estimators=80), values),
    "`CausalForest`": Row(
        "econml",
        made("econml.grf", "CausalForest", n_estimators=80),
        values,
        fit=lambda forest, y: forest.fit(X, labels(X), y),
    ),
    "`RandomSurvivalForest`": Row("sksurv", made("sksurv.ensemble", "RandomSurvivalForest"), censored),
    "`survival_at(RandomSurvivalForest, time)`": Row(
        "sksurv", made("sksurv.ensemble", "RandomSurvivalForest"), censored, at_time
    ),
    "`RandomForestModel`": Row("ydf", ydf_learner, labels, fit=fit_of_ydf, takes_names=True),
}
PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "models.md").read_text(encoding="utf-8")
HEADER = ("oob", "held out", "truncate", "grow", "autolog", "Spark")


def table() -> dict[str, dict[str, bool]]:
    """Return the first table of the page: for each model of ROWS, which cells begin with yes."""
    found = {}
    for line in re.findall(r"^\| (.*) \|$", PAGE, flags=re.MULTILINE):
        cells = [cell.strip() for cell in line.split("|")]
        if cells[0] in ROWS and cells[0] not in found:
            found[cells[0]] = {name: cell.startswith("yes") for name, cell in zip(HEADER, cells[1:], strict=True)}
    return found


TABLE = table()
# The others are run where .ci/run has installed their library.
QUICK = {"`RandomForestClassifier`", "`BaggingRegressor`", "`IsolationForest`"}
every_model = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in ROWS]
)


def test_the_table_has_every_model_of_this_file() -> None:
    assert set(TABLE) == set(ROWS)
    header = next(line for line in PAGE.splitlines() if line.startswith("| model | oob"))
    assert [cell.strip() for cell in header.strip("|").split("|")][1:] == list(HEADER)


def rows_of(name: str, values: Any) -> Any:
    return pd.DataFrame(values, columns=COLUMNS) if ROWS[name].takes_names else values


def check(name: str, cell: str, run: Callable[[], object]) -> None:
    """Run what a cell is about: it works, or raises an error of ours that has something to do instead."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if TABLE[name][cell]:
            run()
            return
        with pytest.raises(EnsPluginError, match=r"[Pp]ass|[Tt]rain|Supported"):
            run()


@every_model
def test_oob(name: str) -> None:
    model, y = ROWS[name].fitted(), ROWS[name].target(X)
    check(name, "oob", lambda: ens_plugin.analyze(model, rows_of(name, X), y))


@every_model
def test_held_out(name: str) -> None:
    model, y = ROWS[name].fitted(), ROWS[name].target(FRESH)
    check(name, "held out", lambda: ens_plugin.analyze(model, rows_of(name, FRESH), y, data="holdout"))


@every_model
def test_truncate(name: str) -> None:
    model = ROWS[name].fitted()
    check(name, "truncate", lambda: ens_plugin.truncate(model, 4))


@pytest.mark.fast_cases("`BaggingRegressor`", "`IsolationForest`")
@every_model
def test_grow(name: str) -> None:
    estimator, y = ROWS[name].estimator(), ROWS[name].target(X)
    check(name, "grow", lambda: ens_plugin.grow(estimator, rows_of(name, X), y, probe_size=30, max_size=2001))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[mlflow.MlflowClient]:
    with tracking_to(new_store(tmp_path)):
        mlflow.create_experiment("reach", artifact_location=(tmp_path / "artifacts").as_uri())
        mlflow.set_experiment("reach")
        yield mlflow.MlflowClient()


@pytest.mark.slow
@every_model
def test_autolog(name: str, store: mlflow.MlflowClient) -> None:
    ROWS[name].estimator()
    autolog(log_artifacts=False, max_overhead=1e3)
    try:
        with mlflow.start_run() as run:
            ROWS[name].fitted()
    finally:
        autolog(disable=True)
    assert ("ens.n_members" in store.get_run(run.info.run_id).data.metrics) == TABLE[name]["autolog"]


@needs_pyspark
@every_model
def test_spark(name: str, session: Any) -> None:  # noqa: F811  (the fixture)
    from ens_plugin import spark

    model, y = ROWS[name].fitted(), ROWS[name].target(FRESH)
    if y.dtype.names is not None:
        assert not TABLE[name]["Spark"]
        y = y["event"].astype(int)
    if ROWS[name].takes_names:
        y = y.astype(str)
    frame = session.createDataFrame(pd.DataFrame(FRESH, columns=COLUMNS).assign(label=y))

    def run() -> object:
        return spark.analyze(model, frame, label_col="label", feature_cols=COLUMNS)

    if TABLE[name]["Spark"]:
        run()
    else:
        with pytest.raises(EnsPluginError):
            run()
