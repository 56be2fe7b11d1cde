"""The options of autolog, its time limit, and that nothing of it is left when it is off."""

from __future__ import annotations

import inspect
import logging
import math
import os
import pickle
import subprocess
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import cloudpickle
import joblib
import mlflow
import numpy as np
import pytest
from mlflow.utils.autologging_utils.events import AutologgingEventLogger
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.feature_selection import SelectFromModel, SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.validation import has_fit_parameter

from ens_plugin import analyze, autolog
from ens_plugin.adapters import libraries
from ens_plugin.adapters.library import TrainingData
from ens_plugin.analysis.options import AnalysisOptions
from ens_plugin.errors import InputError
from ens_plugin.tracking.autologging import FinishedFit, findings_on_steps
from ens_plugin.tracking.digest import data_digest
from ens_plugin.tracking.settings import LOCKS, AutologOptions
from ens_plugin.tracking.uploads import send_report, wait_until_sent
from tests.extras import INSTALL, lightgbm, xgboost
from tests.tracking.autologged_fits import (
    PATIENT,
    X,
    classifier,
    has_report,
    in_order,
    logged_report,
    messages,
    only_run,
    patiently,
    y,
)
from tests.tracking.fits import top_runs
from tests.tracking.stores import MLFLOW_WARNINGS

pytestmark = [MLFLOW_WARNINGS, pytest.mark.usefixtures("autologging")]


@pytest.mark.usefixtures("canned_report")
class TestOptions:
    def test_exclusive_keeps_out_of_runs_of_the_users(self, embedded: mlflow.MlflowClient, experiment: str) -> None:
        patiently(exclusive=True)
        with mlflow.start_run():
            classifier().fit(X, y)
            make_pipeline(classifier()).fit(X, y)
        assert not has_report(only_run(embedded, experiment))
        classifier().fit(X, y)
        assert [has_report(run) for run in top_runs(embedded, experiment)] == [False, True]

    @pytest.mark.fast_cases("False")
    @pytest.mark.parametrize("ours_first", [True, False])
    def test_exclusive_does_not_keep_out_of_runs_of_mlflows(
        self, ours_first: bool, embedded: mlflow.MlflowClient, experiment: str
    ) -> None:
        quick = {"log_models": False, "log_post_training_metrics": False}
        in_order(ours_first, lambda: patiently(exclusive=True), lambda: mlflow.sklearn.autolog(**quick))
        classifier().fit(X, y)
        assert has_report(only_run(embedded, experiment))
        with mlflow.start_run():
            classifier().fit(X, y)
        assert [has_report(run) for run in top_runs(embedded, experiment)] == [True, False]

    def test_without_artifacts_there_are_metrics_only_under_the_prefix(
        self, embedded: mlflow.MlflowClient, experiment: str
    ) -> None:
        patiently(prefix="trees")
        classifier().fit(X, y)
        run = only_run(embedded, experiment)
        assert has_report(run, "trees")
        assert not has_report(run)
        assert run.data.tags["trees.data_digest"] == data_digest(X, y)
        assert embedded.list_artifacts(run.info.run_id) == []

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            *[({"max_overhead": value}, "max_overhead") for value in (-0.1, float("nan"), "much", None)],
            ({"prefix": "a b"}, "prefix"),
            ({"metric": "roc_auk"}, "near are 'roc_auc'"),
            ({"criterion": "metric"}, "needs a metric"),
            ({"criterion": "size"}, "criterion"),
            ({"tolerance": -1.0}, "tolerance"),
        ],
        ids=str,
    )
    def test_wrong_ones_are_refused_at_once(self, wrong: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            autolog(**wrong)

    def test_an_analysis_that_took_all_the_time_has_its_files(
        self,
        embedded: mlflow.MlflowClient,
        experiment: str,
        log: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def send_late(upload: Any, deadline: float) -> None:
            send_report(upload, -math.inf)

        monkeypatch.setattr("ens_plugin.tracking.autologging.send_report", send_late)
        autolog()
        classifier().fit(X, y)
        assert wait_until_sent(60)
        run = only_run(embedded, experiment)
        assert has_report(run)
        assert "ens/accuracy" in run.data.metrics
        files = {Path(item.path).name for item in embedded.list_artifacts(run.info.run_id, "ensemble")}
        assert files == {"report.json", "curve.csv", "report.html"}
        assert messages(log, logging.WARNING) == []

    @pytest.mark.parametrize("switch", ["disable", "silent", "exclusive", "log_artifacts"])
    @pytest.mark.parametrize("value", ["no", "False", 0, None])
    def test_switches_are_true_or_false(self, switch: str, value: Any) -> None:
        autolog()
        before = places()
        with pytest.raises(InputError, match=f"{switch}={value!r} is neither True nor False"):
            autolog(**{switch: value})
        assert places() == before


class TestSteps:
    """Steps before the ensemble are fitted again, which MLflow's autologging does not see."""

    def test_one_that_has_seen_the_target_is_doubted_in_the_only_run(
        self, embedded: mlflow.MlflowClient, experiment: str
    ) -> None:
        mlflow.sklearn.autolog(log_models=False)
        autolog(max_overhead=PATIENT)
        rng = np.random.default_rng(0)
        rows, labels = rng.normal(size=(300, 100)), rng.integers(0, 2, 300)
        step = SelectFromModel(LogisticRegression(), max_features=5, threshold=-np.inf)
        make_pipeline(step, classifier()).fit(rows, labels)
        assert "target-steps" in [found.code for found in logged_report(embedded, experiment).findings]

    def test_one_that_takes_too_long_is_noted(self) -> None:
        model = make_pipeline(SelectKBest(k=2), classifier()).fit(X, y)
        options = AutologOptions(False, False, 0.1, "ens", True, AnalysisOptions())
        fit = FinishedFit(options, model, TrainingData(X, y), model[-1], None, 2.0, None, step_seconds=1.0)
        [note] = findings_on_steps(fit, 3.0)
        assert note.code == "unjudged-steps"
        assert "its fit took 1 s, too long to repeat" in note.sentence
        assert "max_overhead=0.1" in note.sentence
        assert not findings_on_steps(fit, 4.0)


class TestTimeLimit:
    def test_a_short_one_means_fewer_rows_and_the_report_says_so(
        self, embedded: mlflow.MlflowClient, experiment: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("ens_plugin.analysis.evidence.FIRST_ROWS", 120)
        monkeypatch.setattr("ens_plugin.tracking.autologging.FEWEST_READ", 100)
        monkeypatch.setattr("ens_plugin.tracking.autologging.AnalysisTime.left", 0.0)
        autolog()
        classifier().fit(X, y)
        report = logged_report(embedded, experiment)
        assert report.n_rows + report.rows_without_oob == 120
        assert "120 of the 200 training rows" in report.warnings[0]
        assert "max_overhead=0.1" in report.warnings[0]

    @pytest.mark.usefixtures("canned_report")
    def test_a_digest_that_takes_too_long_is_left_out(
        self,
        embedded: mlflow.MlflowClient,
        experiment: str,
        log: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr("ens_plugin.tracking.autologging.AnalysisTime.left", 0.0)
        autolog(log_artifacts=False)
        classifier().fit(X, y)
        (warning,) = messages(log, logging.WARNING)
        assert "no digest, because it takes longer than autologging may take (max_overhead=0.1)" in warning
        run = only_run(embedded, experiment)
        assert has_report(run)
        assert "ens.data_digest" not in run.data.tags

    def test_an_infinite_one_means_all_rows(
        self, embedded: mlflow.MlflowClient, experiment: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("ens_plugin.tracking.autologging.AnalysisTime.goes_on", lambda *_: False)
        autolog(max_overhead=float("inf"), log_artifacts=False)
        classifier().fit(X, y)
        assert has_report(only_run(embedded, experiment))


def places() -> dict[tuple[str, str], Any]:
    """Everything that autologging, ours or MLflow's, puts something else in the place of."""
    found: dict[tuple[str, str], Any] = {("events", ""): AutologgingEventLogger._event_logger}
    for library in libraries():
        for site in library.fit_sites() if find_spec(library.library) is not None else ():
            for name, value in vars(site.owner).items():
                if name.endswith(site.name):
                    found[f"{site.owner.__name__}", name] = value
    return found


@pytest.mark.usefixtures("canned_report")
class TestUndoing:
    def test_puts_back_the_very_same_functions(self) -> None:
        before = places()
        autolog()
        assert places() != before
        autolog(prefix="other")
        autolog(disable=True)
        assert places() == before
        autolog(disable=True)
        assert places() == before

    def test_puts_back_mlflows_own(self) -> None:
        mlflow.autolog(log_models=False)
        before = places()
        autolog()
        autolog(disable=True)
        assert places() == before

    def test_leaves_nothing_in_what_mlflow_puts_back(self) -> None:
        before = places()
        autolog()
        mlflow.autolog(log_models=False)
        autolog(disable=True)
        mlflow.sklearn.autolog(disable=True)
        for library in ("xgboost", "lightgbm"):
            if find_spec(library) is not None:
                getattr(mlflow, library).autolog(disable=True)
        assert places() == before

    def test_keeps_a_logger_of_events_that_was_set_since(self) -> None:
        autolog()
        another = AutologgingEventLogger()
        AutologgingEventLogger.set_logger(another)
        autolog(disable=True)
        assert AutologgingEventLogger.get_logger() is another
        AutologgingEventLogger.set_logger(None)

    def test_ends_reports(self, embedded: mlflow.MlflowClient, experiment: str) -> None:
        patiently()
        autolog(disable=True)
        classifier().fit(X, y)
        assert top_runs(embedded, experiment) == []


class TestPatchedFunctions:
    @pytest.fixture(autouse=True)
    def on(self) -> None:
        autolog()

    def test_look_like_those_they_stand_for(self) -> None:
        assert list(inspect.signature(RandomForestClassifier.fit).parameters) == ["self", "X", "y", "sample_weight"]
        assert has_fit_parameter(classifier(), "sample_weight")
        assert RandomForestClassifier.fit.__doc__
        assert Pipeline.fit.__name__ == "fit"

    @pytest.mark.parametrize("with_mlflow", [False, True])
    @pytest.mark.parametrize("module", [pickle, cloudpickle])
    def test_can_be_pickled_and_are_the_same_again(self, module: Any, with_mlflow: bool) -> None:
        libraries = [lightgbm, xgboost]
        kept = [library.train for library in libraries]
        autolog(disable=True)
        own = [library.train for library in libraries]
        if with_mlflow:
            mlflow.autolog(log_models=False)
        autolog()
        if not with_mlflow:
            assert [library.train for library in libraries] == kept
        methods = [RandomForestClassifier.fit, BaggingClassifier.fit, Pipeline.fit, GridSearchCV.fit]
        now = [library.train for library in libraries]
        assert set(now).isdisjoint(own)
        for function in (*now, *(() if with_mlflow else own), *methods, lightgbm.LGBMRegressor.fit):
            pickled = module.dumps(function)
            assert pickle.loads(pickled) is function
            assert b"ens_plugin" not in pickled

    def test_do_not_travel_with_models(self, tmp_path: Path) -> None:
        joblib.dump(classifier(n_estimators=2).fit(X, y), tmp_path / "forest.joblib")
        assert b"ens_plugin" not in (tmp_path / "forest.joblib").read_bytes()


@pytest.mark.slow
def test_libraries_imported_later_are_watched(tmp_path: Path) -> None:
    for library in ("lightgbm", "xgboost"):
        pytest.importorskip(library, reason=f"needs {library}: {INSTALL[library]}")
    code = """
import sys
import threading
import ens_plugin
assert "sklearn" not in sys.modules
ens_plugin.autolog()
assert not {"xgboost", "lightgbm"} & set(sys.modules)
import mlflow
mlflow.autolog(disable=True)
import lightgbm, xgboost
from ens_plugin.tracking.autologging import _originals
from sklearn.ensemble import BaggingClassifier
assert xgboost.train in _originals and lightgbm.LGBMClassifier.fit in _originals
assert BaggingClassifier.fit in _originals
ens_plugin.autolog(disable=True)
assert not {xgboost.train, lightgbm.LGBMClassifier.fit, BaggingClassifier.fit} & set(_originals)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_metric_is_that_of_the_reports(embedded: mlflow.MlflowClient, experiment: str) -> None:
    patiently(metric="roc_auc")
    classifier().fit(X, y)
    assert wait_until_sent(60.0)
    metrics = only_run(embedded, experiment).data.metrics
    assert {"ens.roc_auc", "ens.asymptotic_roc_auc", "ens/roc_auc", "ens/roc_auc_lower"} <= metrics.keys()
    assert 0.5 < metrics["ens.roc_auc"] <= 1.0
    assert "ens.accuracy" not in metrics


def test_criterion_is_that_of_the_reports(embedded: mlflow.MlflowClient, experiment: str) -> None:
    patiently(criterion="agreement", tolerance=0.1)
    model = classifier().fit(X, y)
    assert wait_until_sent(60.0)
    expected = analyze(model, X, y, criterion="agreement", tolerance=0.1)
    size = only_run(embedded, experiment).data.metrics["ens.recommended_size"]
    assert size == expected.recommended_size
    assert size != analyze(model, X, y).recommended_size


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_lock_that_is_held_at_a_fork_is_free_in_the_child() -> None:
    with LOCKS.analysis, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
        if child == 0:
            os._exit(0 if LOCKS.analysis.acquire(blocking=False) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert not LOCKS.analysis.acquire(blocking=False)
