"""What autolog reports and leaves alone, its options, and that nothing of it is left when it is off."""

from __future__ import annotations

import logging
import multiprocessing
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import mlflow
import numpy as np
import pandas as pd
import pytest
from mlflow.utils.autologging_utils import disable_autologging
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
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
from tests.tracking.autologged_fits import PATIENT, X, classifier, has_report, messages, only_run, y
from tests.tracking.fits import LIGHTGBM, XGBOOST, top_runs
from tests.tracking.stores import MLFLOW_WARNINGS

pytestmark = [MLFLOW_WARNINGS, pytest.mark.usefixtures("autologging")]


class OwnWayWithTrainingRows(TransformerMixin, BaseEstimator):
    def fit(self, X: Any, y: Any = None) -> OwnWayWithTrainingRows:
        return self

    def transform(self, X: Any) -> Any:
        return X

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        return X[:, ::-1]


class Interrupted(RandomForestClassifier):
    """Meets Ctrl-C while it is fitted."""

    def _validate_y_class_weight(self, *arguments: Any) -> Any:
        raise KeyboardInterrupt


class TestReports:
    """The report is the one that analyze() gives for the ensemble and the rows that reached it."""

    @pytest.fixture(autouse=True)
    def on(self) -> None:
        autolog(log_artifacts=False, max_overhead=PATIENT)

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

    @pytest.mark.slow
    def test_of_a_search_over_ensembles_grown_to_size(self, embedded: mlflow.MlflowClient, experiment: str) -> None:
        search = GridSearchCV(RightSizedClassifier(classifier()), {"tolerance": [0.1, 0.2]}, cv=2)
        search.fit(X, y)
        self.check(embedded, experiment, ens_plugin.analyze(search, X, y))

    def test_of_the_rows_that_reached_the_ensemble(self, embedded: mlflow.MlflowClient, experiment: str) -> None:
        # As a cross-fitted target encoder does: training rows come out other than they do from transform.
        pipeline = make_pipeline(OwnWayWithTrainingRows(), classifier()).fit(X, y)
        self.check(embedded, experiment, ens_plugin.analyze(pipeline[-1], X[:, ::-1], y))

    @pytest.mark.slow
    def test_of_the_best_estimator_of_a_search(self, embedded: mlflow.MlflowClient, experiment: str) -> None:
        pipeline = make_pipeline(StandardScaler(), classifier())
        search = GridSearchCV(pipeline, {"randomforestclassifier__max_depth": [1, 5]}, cv=2).fit(X, y)
        self.check(embedded, experiment, ens_plugin.analyze(search.best_estimator_, X, y))

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
        autolog(log_artifacts=False, max_overhead=PATIENT)

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
    class Sampler(TransformerMixin, BaseEstimator):
        def fit(self, X: Any, y: Any = None) -> Sampler:
            return self

        def transform(self, X: Any) -> Any:
            return X

        def fit_resample(self, X: Any, y: Any) -> Any:
            return X, y

    autolog()
    make_pipeline(Sampler(), LogisticRegression(max_iter=10_000)).fit(X, y)
    xgboost.XGBClassifier(n_estimators=3, n_jobs=1).fit(X.astype(object), y)
    assert top_runs(embedded, experiment) == []
    assert messages(log, logging.WARNING) == []


@pytest.mark.usefixtures("embedded", "experiment")
def test_data_that_cannot_be_read_are_not_told_before_a_fit_that_raises(log: pytest.LogCaptureFixture) -> None:
    autolog()
    with pytest.raises(TypeError):
        xgboost.train({"num_parallel_tree": 20, "subsample": 0.6}, X, 1)
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


def test_copies_that_an_oversampler_made_are_doubted(
    embedded: mlflow.MlflowClient, experiment: str, tmp_path: Path
) -> None:
    autolog(max_overhead=PATIENT)
    fewer = np.sort(np.append(np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:20]))
    OversamplingPipeline([("forest", classifier())]).fit(X[fewer], y[fewer])
    assert wait_until_sent(60)
    run = only_run(embedded, experiment).info.run_id
    file = embedded.download_artifacts(run, "ensemble/report.json", str(tmp_path))
    report = EnsembleReport.from_json(Path(file).read_text(encoding="utf-8"))
    assert not report.is_actionable
    assert "look like copies of another one" in report.basis.doubts[0]


def test_a_resampling_step_is_warned_of(
    embedded: mlflow.MlflowClient, experiment: str, log: pytest.LogCaptureFixture
) -> None:
    class Sampler(OwnWayWithTrainingRows):
        def fit_resample(self, X: Any, y: Any) -> Any:
            return X, y

    autolog(log_artifacts=False, max_overhead=PATIENT)
    make_pipeline(Sampler(), classifier()).fit(X, y)
    assert not any(map(has_report, top_runs(embedded, experiment)))
    (warning,) = messages(log, logging.WARNING)
    assert "resamples the rows" in warning


@pytest.mark.usefixtures("canned_report")
class TestRuns:
    def test_a_fit_that_raises_leaves_nothing(self, embedded: mlflow.MlflowClient, experiment: str) -> None:
        autolog(log_artifacts=False, max_overhead=PATIENT)
        with pytest.raises(ValueError, match="max_depth"):
            classifier(max_depth=-1).fit(X, y)
        with pytest.raises(TypeError, match="nonsense"):
            classifier().fit(X, y, nonsense=1)
        assert top_runs(embedded, experiment) == []
        classifier().fit(X, y)
        assert has_report(only_run(embedded, experiment))

    @pytest.mark.fast_cases("False")
    @pytest.mark.parametrize("ours_first", [True, False])
    def test_a_fit_that_raises_under_mlflow_leaves_nothing_of_ours(
        self, ours_first: bool, embedded: mlflow.MlflowClient, experiment: str
    ) -> None:
        steps = [
            lambda: autolog(log_artifacts=False, max_overhead=PATIENT),
            lambda: mlflow.sklearn.autolog(log_models=False),
        ]
        for step in steps if ours_first else steps[::-1]:
            step()
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

    def test_a_run_of_its_own_says_so(self, embedded: mlflow.MlflowClient, experiment: str) -> None:
        autolog(log_artifacts=False, max_overhead=PATIENT)
        classifier().fit(X, y)
        assert only_run(embedded, experiment).data.tags["mlflow.autologging"] == "ens_plugin"

    def test_the_run_of_the_environment_is_used_and_stays_open(
        self, embedded: mlflow.MlflowClient, experiment: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        run = embedded.create_run(experiment)
        monkeypatch.setenv("MLFLOW_RUN_ID", run.info.run_id)
        autolog(log_artifacts=False, max_overhead=PATIENT)
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
        autolog(log_artifacts=False, max_overhead=PATIENT)
        with ThreadPoolExecutor(4) as pool:
            models = list(pool.map(lambda seed: classifier(random_state=seed).fit(X, y), range(8)))
        assert [model.random_state for model in models] == list(range(8))
        runs = top_runs(embedded, experiment)
        assert sum(has_report(run) for run in runs) == 8

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
    @pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
    def test_forked_processes_report_nothing(self, embedded: mlflow.MlflowClient, experiment: str) -> None:
        autolog(log_artifacts=False, max_overhead=PATIENT)
        child = multiprocessing.get_context("fork").Process(target=lambda: classifier().fit(X, y))
        child.start()
        child.join(60)
        assert child.exitcode == 0
        assert top_runs(embedded, experiment) == []

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
    @pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
    def test_forked_processes_that_switch_it_on_report_theirs(
        self, embedded: mlflow.MlflowClient, experiment: str
    ) -> None:
        """Whatever threads of the parent were doing."""
        autolog(log_artifacts=False, max_overhead=PATIENT)
        classifier().fit(X, y)

        def work() -> None:
            autolog(log_artifacts=False, max_overhead=PATIENT)
            classifier().fit(X, y)

        child = multiprocessing.get_context("fork").Process(target=work)
        with settings.LOCKS.analysis:
            child.start()
            child.join(60)
        code = child.exitcode
        child.kill()
        assert code == 0
        assert [has_report(run) for run in top_runs(embedded, experiment)] == [True, True]

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
        autolog(log_artifacts=False, max_overhead=PATIENT)
        classifier().fit(X, y)
        assert [has_report(run) for run in top_runs(embedded, experiment)] == [True]
