"""autolog beside MLflow's own autologging, and what happens when something goes wrong."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import mlflow
import numpy as np
import pytest
from mlflow.utils.autologging_utils.events import AutologgingEventLogger
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import DataConversionWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from ens_plugin import autolog
from ens_plugin.tracking.digest import data_digest
from ens_plugin.tracking.uploads import wait_until_sent
from tests.extras import lightgbm, xgboost
from tests.tracking.autologged_fits import PATIENT, X, classifier, has_report, messages, only_run, y
from tests.tracking.fits import LIGHTGBM, XGBOOST, top_runs
from tests.tracking.stores import MLFLOW_WARNINGS, linked_metrics

pytestmark = [MLFLOW_WARNINGS, pytest.mark.usefixtures("autologging")]


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
        quietly = {"log_model_signatures": False, "log_datasets": False}
        steps = [lambda: autolog(log_artifacts=False, max_overhead=PATIENT), lambda: mlflow.autolog(**quietly)]
        for step in steps if ours_first else steps[::-1]:
            step()
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
            autolog(log_artifacts=False, max_overhead=PATIENT)
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

        steps = [
            lambda: autolog(log_artifacts=False, max_overhead=PATIENT),
            lambda: AutologgingEventLogger.set_logger(Listener()),
        ]
        for step in steps if ours_first else steps[::-1]:
            step()
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
        autolog(log_artifacts=False, max_overhead=PATIENT)
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
        autolog(silent=True, log_artifacts=False, max_overhead=PATIENT)
        classifier(n_estimators=1).fit(X, y)
        classifier(bootstrap=False).fit(X, y)
        classifier().fit(X, y)
        assert has_report(only_run(embedded, experiment))
        assert messages(log, logging.DEBUG) + messages(log, logging.INFO) + messages(log, logging.WARNING) == []

    @pytest.mark.usefixtures("canned_report")
    def test_a_run_deleted_meanwhile(
        self, embedded: mlflow.MlflowClient, experiment: str, log: pytest.LogCaptureFixture
    ) -> None:
        autolog(log_artifacts=False, max_overhead=PATIENT)
        with mlflow.start_run() as run:
            embedded.delete_run(run.info.run_id)
            classifier().fit(X, y)
            embedded.restore_run(run.info.run_id)
        (warning,) = messages(log, logging.WARNING)
        assert "deleted" in warning
        assert not has_report(only_run(embedded, experiment))
