"""What autolog reports and leaves alone, and in which run."""

from __future__ import annotations

import logging
import multiprocessing
import os
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
from mlflow.utils.autologging_utils import disable_autologging
from mlflow.utils.autologging_utils.events import AutologgingEventLogger
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.exceptions import DataConversionWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import ens_plugin
from ens_plugin import EnsembleReport, RightSizedClassifier, autolog
from ens_plugin.tracking import settings
from ens_plugin.tracking.digest import data_digest
from ens_plugin.tracking.uploads import wait_until_sent
from tests.extras import lightgbm, xgboost
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
from tests.tracking.fits import LIGHTGBM, XGBOOST, top_runs
from tests.tracking.stores import MLFLOW_WARNINGS, linked_metrics

pytestmark = [MLFLOW_WARNINGS, pytest.mark.usefixtures("autologging")]


class OwnWayWithTrainingRows(TransformerMixin, BaseEstimator):
    def fit(self, X: Any, y: Any = None) -> OwnWayWithTrainingRows:
        return self

    def transform(self, X: Any) -> Any:
        return X

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        return X[:, ::-1]


class Sampler(OwnWayWithTrainingRows):
    def fit_resample(self, X: Any, y: Any) -> Any:
        return X, y


class Interrupted(RandomForestClassifier):
    """Meets Ctrl-C while it is fitted."""

    def _validate_y_class_weight(self, *arguments: Any) -> Any:
        raise KeyboardInterrupt


class TestReports:
    """The report is the one that analyze() gives for the ensemble and the rows that reached it."""

    @pytest.fixture(autouse=True)
    def on(self) -> None:
        patiently()

    def check(self, client: mlflow.MlflowClient, experiment: str, expected: EnsembleReport) -> None:
        logged = only_run(client, experiment).data.metrics
        assert {name: logged[f"ens.{name}"] for name in expected.metrics()} == pytest.approx(expected.metrics())

    @pytest.mark.parametrize(
        "model",
        [classifier(), ExtraTreesClassifier(25, bootstrap=True, random_state=0), BaggingClassifier(random_state=0)],
        ids=lambda model: type(model).__name__,
    )
    def test_of_an_ensemble(self, model: Any, embedded: mlflow.MlflowClient, experiment: str) -> None:
        fitted = model.fit(X, y)
        assert fitted is model
        self.check(embedded, experiment, ens_plugin.analyze(model, X, y))

    def test_of_named_arguments_and_a_frame(self, embedded: mlflow.MlflowClient, experiment: str) -> None:
        frame = pd.DataFrame(X).add_prefix("x")
        model = classifier().fit(y=pd.Series(y), X=frame)
        self.check(embedded, experiment, ens_plugin.analyze(model, frame, y))

    @pytest.mark.fast_cases("<lambda>0-members added", "<lambda>1-members left out")
    @pytest.mark.parametrize("tolerance", [0.05, 0.02], ids=["members left out", "members added"])
    @pytest.mark.parametrize("wrap", [lambda model: model, lambda model: make_pipeline(StandardScaler(), model)])
    def test_of_an_ensemble_grown_to_size(
        self, wrap: Any, tolerance: float, embedded: mlflow.MlflowClient, experiment: str
    ) -> None:
        model = RightSizedClassifier(wrap(classifier()), criterion="agreement", tolerance=tolerance).fit(X, y)
        assert (model.n_members_ < 50) == (tolerance == 0.05)
        self.check(embedded, experiment, ens_plugin.analyze(model, X, y))

    def test_of_the_rows_that_reached_the_ensemble(self, embedded: mlflow.MlflowClient, experiment: str) -> None:
        # As a cross-fitted target encoder does: training rows come out other than they do from transform.
        pipeline = make_pipeline(OwnWayWithTrainingRows(), classifier()).fit(X, y)
        self.check(embedded, experiment, ens_plugin.analyze(pipeline[-1], X[:, ::-1], y))

    @pytest.mark.fast_cases("pipeline", "lightgbm.train")
    @pytest.mark.parametrize(
        "name", ["argument", "pipeline", "search", "XGBRFClassifier", "xgboost.train", "lightgbm.train"]
    )
    def test_of_weighted_fits(self, name: str, embedded: mlflow.MlflowClient, experiment: str) -> None:
        weight = np.linspace(0.2, 3.0, y.size)
        matrix = xgboost.DMatrix(X, y, weight=weight)
        fits: dict[str, Any] = {
            "argument": lambda: (classifier().fit(X, y, weight), X),
            "pipeline": lambda: (Pipeline([("f", classifier())]).fit(X, y, f__sample_weight=weight), X),
            "search": lambda: (GridSearchCV(classifier(), {"max_depth": [2]}, cv=2).fit(X, y, sample_weight=weight), X),
            "XGBRFClassifier": lambda: (
                xgboost.XGBRFClassifier(n_estimators=25, subsample=0.6, n_jobs=1).fit(X, y, sample_weight=weight),
                xgboost.DMatrix(X, weight=weight),
            ),
            "xgboost.train": lambda: (xgboost.train({**XGBOOST, "objective": "binary:logistic"}, matrix, 1), matrix),
            "lightgbm.train": lambda: (
                lightgbm.train({**LIGHTGBM, "objective": "binary"}, lightgbm.Dataset(X, y, weight=weight), 25), X
            ),
        }  # fmt: skip
        model, rows = fits[name]()
        expected = ens_plugin.analyze(model, rows, y, sample_weight=weight)
        unweighted = ens_plugin.analyze(model, rows, y)
        assert expected.error != pytest.approx(unweighted.error)
        self.check(embedded, experiment, expected)


@pytest.mark.usefixtures("canned_report")
class TestLeftAlone:
    @pytest.fixture(autouse=True)
    def on(self) -> None:
        patiently()

    @pytest.mark.parametrize(
        "model",
        [
            GradientBoostingClassifier(n_estimators=2),
            make_pipeline(StandardScaler(), LogisticRegression()),
            GridSearchCV(classifier(n_estimators=2), {"max_depth": [1]}, cv=2, refit=False),
            VotingClassifier([("a", classifier()), ("b", classifier())]),
            make_pipeline(VotingClassifier([("a", classifier()), ("b", classifier())])),
        ],
        ids=["boosting", "another model", "nothing refitted", "part of more", "part of more in a pipeline"],
    )
    def test_models_that_are_no_bagged_ensembles(
        self, model: Any, embedded: mlflow.MlflowClient, experiment: str, log: pytest.LogCaptureFixture
    ) -> None:
        model.fit(X, y)
        assert top_runs(embedded, experiment) == []
        assert messages(log, logging.WARNING) == []

    def test_fits_of_cross_validation(self, embedded: mlflow.MlflowClient, experiment: str) -> None:
        cross_val_score(classifier(), X, y, cv=2)
        cross_val_score(make_pipeline(classifier()), X, y, cv=2)
        assert top_runs(embedded, experiment) == []

    def test_while_mlflow_suspends_autologging(self, embedded: mlflow.MlflowClient, experiment: str) -> None:
        with disable_autologging():
            classifier().fit(X, y)
        assert top_runs(embedded, experiment) == []


def test_ensembles_without_rows_out_of_bag_are_left_alone_with_a_word_for_debugging(
    embedded: mlflow.MlflowClient, experiment: str, log: pytest.LogCaptureFixture
) -> None:
    autolog()
    classifier(bootstrap=False).fit(X, y)
    xgboost.XGBClassifier(n_estimators=3, n_jobs=1).fit(X, y)
    xgboost.XGBRFClassifier(n_estimators=3, subsample=1, n_jobs=1).fit(X, y)
    lightgbm.LGBMClassifier(n_estimators=3, verbose=-1, n_jobs=1).fit(X, y)
    assert top_runs(embedded, experiment) == []
    assert messages(log, logging.WARNING) == []
    found = messages(log, logging.DEBUG)
    assert len(found) == 4
    assert "without bootstrap" in found[0]


def test_data_of_models_without_a_report_need_no_warning(
    embedded: mlflow.MlflowClient, experiment: str, log: pytest.LogCaptureFixture
) -> None:
    autolog()
    make_pipeline(Sampler(), LogisticRegression(max_iter=10_000)).fit(X, y)
    xgboost.XGBClassifier(n_estimators=3, n_jobs=1).fit(X.astype(object), y)
    assert top_runs(embedded, experiment) == []
    assert messages(log, logging.WARNING) == []


@pytest.mark.usefixtures("embedded", "experiment")
def test_data_that_cannot_be_read_are_told_after_a_fit_that_has_no_trouble_with_them(
    log: pytest.LogCaptureFixture,
) -> None:
    class Closed(xgboost.DMatrix):
        def get_weight(self) -> Any:
            raise AttributeError("no rows here")

    autolog()
    options = {"num_parallel_tree": 20, "subsample": 0.6, "learning_rate": 1, "nthread": 1}
    with pytest.raises(TypeError):
        xgboost.train(options, X, 1)
    xgboost.train({**options, "num_parallel_tree": 1}, Closed(X, y), 3)
    assert messages(log, logging.WARNING) == []
    xgboost.train(options, Closed(X, y), 1)
    (warning,) = messages(log, logging.WARNING)
    assert "no rows here" in warning


class OversamplingPipeline(Pipeline):  # type: ignore[misc]
    """As imbalanced-learn's: its fit gives the last step copies of the rarer label's rows."""

    def fit(self, X: Any, y: Any) -> OversamplingPipeline:
        rare = np.flatnonzero(y == np.argmin(np.bincount(y)))
        rows = np.append(np.arange(y.size), np.resize(rare, y.size - 2 * rare.size))
        self.steps[-1][1].fit(X[rows], y[rows])
        return self


def test_copies_that_an_oversampler_made_are_doubted(embedded: mlflow.MlflowClient, experiment: str) -> None:
    autolog(max_overhead=PATIENT)
    fewer = np.sort(np.append(np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:20]))
    OversamplingPipeline([("forest", classifier())]).fit(X[fewer], y[fewer])
    report = logged_report(embedded, experiment)
    assert not report.is_actionable
    assert "look like copies of another one" in report.basis.doubts[0]


def test_a_resampling_step_is_warned_of(
    embedded: mlflow.MlflowClient, experiment: str, log: pytest.LogCaptureFixture
) -> None:
    patiently()
    make_pipeline(Sampler(), classifier()).fit(X, y)
    assert not any(map(has_report, top_runs(embedded, experiment)))
    (warning,) = messages(log, logging.WARNING)
    assert "resamples the rows" in warning


@pytest.mark.usefixtures("canned_report")
class TestRuns:
    def test_a_fit_that_raises_leaves_nothing(self, embedded: mlflow.MlflowClient, experiment: str) -> None:
        patiently()
        with pytest.raises(ValueError, match="max_depth"):
            classifier(max_depth=-1).fit(X, y)
        with pytest.raises(TypeError, match="nonsense"):
            classifier().fit(X, y, nonsense=1)
        assert top_runs(embedded, experiment) == []
        classifier().fit(X, y)
        run = only_run(embedded, experiment)
        assert has_report(run)
        assert run.data.tags["mlflow.autologging"] == "ens_plugin"

    @pytest.mark.fast_cases("False")
    @pytest.mark.parametrize("ours_first", [True, False])
    def test_a_fit_that_raises_under_mlflow_leaves_nothing_of_ours(
        self, ours_first: bool, embedded: mlflow.MlflowClient, experiment: str
    ) -> None:
        in_order(ours_first, patiently, lambda: mlflow.sklearn.autolog(log_models=False))
        with pytest.raises(ValueError, match="max_depth"):
            classifier(max_depth=-1).fit(X, y)
        with pytest.raises(KeyboardInterrupt):
            Interrupted().fit(X, y)
        classifier().fit(X, y)
        classifier().fit(X, y)
        runs = embedded.search_runs([experiment], order_by=["attributes.start_time"])
        assert [run.info.status for run in runs] == ["FAILED", "FAILED", "FINISHED", "FINISHED"]
        assert [has_report(run) for run in runs] == [False, False, True, True]

    def test_fits_in_one_run_have_names_of_their_own(self, embedded: mlflow.MlflowClient, experiment: str) -> None:
        autolog(max_overhead=PATIENT)
        with mlflow.start_run():
            for rows in (200, 150, 100):
                classifier().fit(X[:rows], y[:rows])
        run = only_run(embedded, experiment)
        prefixes = ("ens", "ens_2", "ens_3")
        for prefix, rows in zip(prefixes, (200, 150, 100), strict=True):
            assert len(embedded.get_metric_history(run.info.run_id, f"{prefix}.accuracy")) == 1
            assert run.data.tags[f"{prefix}.data_digest"] == data_digest(X[:rows], y[:rows])
        folders = {item.path for item in embedded.list_artifacts(run.info.run_id, "ensemble") if item.is_dir}
        assert folders == {"ensemble/ens_2", "ensemble/ens_3"}
        assert embedded.list_artifacts(run.info.run_id, "ensemble/ens_2")

    def test_the_run_of_the_environment_is_used_and_stays_open(
        self, embedded: mlflow.MlflowClient, experiment: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = embedded.create_run(experiment)
        monkeypatch.setenv("MLFLOW_RUN_ID", run.info.run_id)
        patiently()
        classifier().fit(X, y)
        assert has_report(embedded.get_run(run.info.run_id))
        assert embedded.get_run(run.info.run_id).info.status == "RUNNING"
        embedded.set_terminated(run.info.run_id)

    @pytest.mark.fast_cases("False")
    @pytest.mark.parametrize("with_mlflow", [False, True])
    def test_threads_of_the_users_have_a_report_for_each_fit(
        self, with_mlflow: bool, embedded: mlflow.MlflowClient, experiment: str
    ) -> None:
        if with_mlflow:
            mlflow.sklearn.autolog(log_models=False, log_post_training_metrics=False)
        patiently()
        with ThreadPoolExecutor(4) as pool:
            models = list(pool.map(lambda seed: classifier(random_state=seed).fit(X, y), range(8)))
        assert [model.random_state for model in models] == list(range(8))
        runs = top_runs(embedded, experiment)
        assert sum(has_report(run) for run in runs) == 8

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
    @pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
    @pytest.mark.parametrize("switched_on", [False, True])
    def test_forked_processes_report_only_where_they_switch_it_on(
        self, switched_on: bool, embedded: mlflow.MlflowClient, experiment: str
    ) -> None:
        """Whatever threads of the parent were doing."""
        patiently()

        def work() -> None:
            if switched_on:
                patiently()
            classifier().fit(X, y)

        child = multiprocessing.get_context("fork").Process(target=work)
        with settings.LOCKS.analysis:
            child.start()
            child.join(60)
        code = child.exitcode
        child.kill()
        assert code == 0
        assert [has_report(run) for run in top_runs(embedded, experiment)] == [True] * switched_on

    def test_a_fit_does_not_wait_for_reports_of_other_threads_beyond_its_own_time(
        self, embedded: mlflow.MlflowClient, experiment: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """The report of a fit of an hour may take six minutes."""
        autolog(log_artifacts=False)
        is_held, is_over = threading.Event(), threading.Event()

        def report_for_long() -> None:
            with settings.LOCKS.analysis:
                is_held.set()
                is_over.wait(60)

        other = threading.Thread(target=report_for_long)
        other.start()
        is_held.wait()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(settings, "LEAST_SECONDS", 0.5)
            classifier().fit(X, y)
        is_still_reporting = other.is_alive()
        is_over.set()
        other.join()
        assert is_still_reporting
        assert "Reports of other threads used up the time" in messages(caplog, logging.WARNING)[-1]
        assert top_runs(embedded, experiment) == []
        patiently()
        classifier().fit(X, y)
        assert [has_report(run) for run in top_runs(embedded, experiment)] == [True]


@pytest.mark.usefixtures("canned_report")
class TestTogetherWithMlflow:
    @pytest.fixture(autouse=True)
    def quick_models(self, monkeypatch: pytest.MonkeyPatch) -> None:
        # MLflow loads each model in a process of its own to see what it needs.
        monkeypatch.setattr("mlflow.models.infer_pip_requirements", lambda *arguments, **options: [])

    @pytest.mark.fast_cases("search-False", "xgboost.train-True")
    @pytest.mark.parametrize("ours_first", [True, False])
    @pytest.mark.parametrize("kind", ["forest", "search", "xgboost.train"])
    def test_scalars_and_digest_are_linked_to_the_model_of_the_fit(
        self, kind: str, ours_first: bool, embedded: mlflow.MlflowClient, experiment: str
    ) -> None:
        in_order(ours_first, patiently, lambda: mlflow.autolog(log_model_signatures=False, log_datasets=False))
        if kind == "forest":
            classifier().fit(X, y)
        elif kind == "search":
            GridSearchCV(classifier(n_estimators=5), {"max_depth": [2]}, cv=2).fit(X, y)
        else:
            xgboost.train({**XGBOOST, "objective": "binary:logistic"}, xgboost.DMatrix(X, y), 1)
        assert wait_until_sent(60.0)
        outputs = only_run(embedded, experiment).outputs
        assert outputs is not None
        models = {
            model.name: model for model in map(embedded.get_logged_model, (o.model_id for o in outputs.model_outputs))
        }
        model = models["best_estimator" if kind == "search" else "model"]
        linked = linked_metrics(embedded, model.model_id)
        assert len(linked["ens.accuracy"]) == 1
        assert "ens/accuracy" not in linked
        rows = X.astype(np.float32) if kind == "xgboost.train" else X
        assert model.tags["ens.data_digest"] == data_digest(rows, y)

    @pytest.mark.slow
    def test_a_model_of_an_earlier_fit_is_not_linked(self, embedded: mlflow.MlflowClient, experiment: str) -> None:
        with mlflow.start_run():
            logged = mlflow.sklearn.log_model(
                classifier().fit(X, y), name="mine", serialization_format="cloudpickle", pip_requirements=[]
            )
            patiently()
            mlflow.sklearn.autolog(log_models=False, log_post_training_metrics=False)
            classifier().fit(X, y)
        assert has_report(only_run(embedded, experiment))
        assert linked_metrics(embedded, logged.model_id) == {}

    @pytest.mark.fast_cases("True")
    @pytest.mark.parametrize("ours_first", [True, False])
    def test_another_logger_of_events_does_not_lose_reports(
        self, ours_first: bool, embedded: mlflow.MlflowClient, experiment: str
    ) -> None:
        logged: list[str] = []

        class Listener(AutologgingEventLogger):
            def log_patch_function_success(self, session: Any, patch_obj: Any, function_name: str, *call: Any) -> None:
                logged.append(function_name)

        in_order(ours_first, patiently, lambda: AutologgingEventLogger.set_logger(Listener()))
        mlflow.sklearn.autolog(log_models=False, log_post_training_metrics=False)
        classifier().fit(X, y)
        autolog(disable=True)
        AutologgingEventLogger.set_logger(None)
        assert has_report(only_run(embedded, experiment))
        assert "fit" in logged


class TestTrouble:
    """Whatever goes wrong, the fit is unaffected and there is one warning."""

    @pytest.mark.fast_cases("False")
    @pytest.mark.parametrize("with_mlflow", [False, True])
    def test_an_analysis_that_fails(
        self,
        with_mlflow: bool,
        embedded: mlflow.MlflowClient,
        experiment: str,
        log: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        def fail(*rows: Any, **options: Any) -> None:
            raise ZeroDivisionError("a fault of ours")

        monkeypatch.setattr("ens_plugin.tracking.autologging.run_analysis", fail)
        autolog()
        if with_mlflow:
            mlflow.sklearn.autolog(log_models=False, log_post_training_metrics=False)
        for _ in range(3):
            classifier().fit(X, y)
        (warning,) = messages(log, logging.WARNING)
        assert "a fault of ours" in warning
        assert "not affected" in warning
        assert len(messages(log, logging.DEBUG)) == 2
        assert len(top_runs(embedded, experiment)) == (3 if with_mlflow else 0)

    def test_several_outputs_get_the_report_of_their_mean(
        self, embedded: mlflow.MlflowClient, experiment: str, log: pytest.LogCaptureFixture
    ) -> None:
        patiently()
        forest = classifier(n_estimators=20).fit(X, np.column_stack([y, 1 - y]))
        (run,) = top_runs(embedded, experiment)
        assert messages(log, logging.WARNING) == []
        assert run.data.metrics["ens.n_members"] == len(forest.estimators_)
        assert 0.5 < run.data.metrics["ens.accuracy"] < 1.0

    def test_rows_that_no_report_can_be_made_of(
        self, embedded: mlflow.MlflowClient, experiment: str, log: pytest.LogCaptureFixture
    ) -> None:
        autolog()
        classifier(n_estimators=2).fit(X, y)
        data = lightgbm.Dataset(X, y).construct()
        lightgbm.train({**LIGHTGBM, "objective": "binary"}, data, 5)
        few, gone = messages(log, logging.WARNING)
        assert "fewer than 2 out-of-bag members" in few
        assert "free_raw_data=False" in gone
        assert top_runs(embedded, experiment) == []

    def test_fits_that_nobody_expects_a_report_of(
        self, embedded: mlflow.MlflowClient, experiment: str, log: pytest.LogCaptureFixture
    ) -> None:
        autolog()
        parallel = {**XGBOOST, "num_parallel_tree": 1}
        parts = xgboost.XGBRFRegressor(n_estimators=5, n_jobs=1)
        fits: dict[str, Any] = {
            "one member": lambda: classifier(n_estimators=1).fit(X, y),
            "one bagged member": lambda: BaggingClassifier(n_estimators=1).fit(X, y),
            "one member in a pipeline": lambda: make_pipeline(classifier(n_estimators=1)).fit(X, y),
            "one round": lambda: xgboost.XGBClassifier(n_estimators=1, n_jobs=1).fit(X, y),
            "one round of parts": lambda: xgboost.train(parallel, xgboost.DMatrix(X, y), 1),
            "one tree": lambda: lightgbm.train(LIGHTGBM, lightgbm.Dataset(X, y), 1),
            "one label": lambda: classifier().fit(X, np.zeros(y.size)),
            "one label of one column": lambda: classifier().fit(X, np.full((y.size, 1), "a")),
            "several outputs of XGBoost": lambda: parts.fit(X, np.column_stack([y, y])),
        }  # fmt: skip
        for name, fit in fits.items():
            log.clear()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DataConversionWarning)
                fit()
            assert messages(log, logging.WARNING) == [], name
            assert len(messages(log, logging.DEBUG)) == 1, name
        assert top_runs(embedded, experiment) == []

    def test_silent_says_nothing_at_all(
        self, embedded: mlflow.MlflowClient, experiment: str, log: pytest.LogCaptureFixture
    ) -> None:
        patiently(silent=True)
        classifier(n_estimators=1).fit(X, y)
        classifier(bootstrap=False).fit(X, y)
        classifier().fit(X, y)
        assert has_report(only_run(embedded, experiment))
        assert messages(log, logging.DEBUG) + messages(log, logging.INFO) + messages(log, logging.WARNING) == []

    @pytest.mark.usefixtures("canned_report")
    def test_a_run_deleted_meanwhile(
        self, embedded: mlflow.MlflowClient, experiment: str, log: pytest.LogCaptureFixture
    ) -> None:
        patiently()
        with mlflow.start_run() as run:
            embedded.delete_run(run.info.run_id)
            classifier().fit(X, y)
            embedded.restore_run(run.info.run_id)
        (warning,) = messages(log, logging.WARNING)
        assert "deleted" in warning
        assert not has_report(only_run(embedded, experiment))
