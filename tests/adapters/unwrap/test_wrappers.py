from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import RFE, RFECV
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import ens_plugin
from ens_plugin.adapters.unwrap import replace_ensemble, unwrap
from ens_plugin.errors import DataMismatchError, NotFittedError, UnsupportedModelError
from tests.adapters.cases import FRAME, X2, Y2


def forest() -> RandomForestClassifier:
    return RandomForestClassifier(5, random_state=0)


def test_what_is_not_wrapped_is_returned_as_it_is() -> None:
    model, X = object(), object()
    assert unwrap(model, X) == (model, X)


def test_pipeline_gives_its_last_step_the_transformed_rows() -> None:
    pipeline = make_pipeline(StandardScaler(), "passthrough", forest()).fit(X2, Y2)
    model, X = unwrap(pipeline, X2)
    assert model is pipeline[-1]
    np.testing.assert_array_equal(X, pipeline[0].transform(X2))


def test_wrappers_inside_wrappers() -> None:
    inner = GridSearchCV(make_pipeline(StandardScaler(), forest()), {"randomforestclassifier__max_depth": [2]}, cv=2)
    outer = Pipeline([("twice", StandardScaler()), ("search", inner)]).fit(X2, Y2)
    model, X = unwrap(outer, X2)
    best = outer[-1].best_estimator_
    assert model is best[-1]
    np.testing.assert_array_equal(X, best[0].transform(outer[0].transform(X2)))


def test_unfitted_wrappers() -> None:
    for wrapper in (
        GridSearchCV(forest(), {"max_depth": [2]}),
        RandomizedSearchCV(forest(), {"max_depth": [2]}),
        make_pipeline(StandardScaler(), forest()),
    ):
        with pytest.raises(NotFittedError, match=f"{type(wrapper).__name__} has not been fitted"):
            unwrap(wrapper, X2)


def test_search_that_kept_no_model() -> None:
    search = GridSearchCV(forest(), {"max_depth": [2]}, cv=2, refit=False).fit(X2, Y2)
    with pytest.raises(NotFittedError, match="refit=False"):
        unwrap(search, X2)


def test_resampling_step_is_not_covered() -> None:
    class Sampler(BaseEstimator):  # type: ignore[misc]
        def fit_resample(self, X: Any, y: Any) -> Any:
            return X, y

    pipeline = Pipeline([("half", Sampler()), ("forest", forest().fit(X2, Y2))])
    with pytest.raises(UnsupportedModelError, match=r"Step 'half' of the pipeline \(Sampler\) resamples the rows"):
        unwrap(pipeline, X2)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("X", [FRAME.iloc[:, 1:], FRAME.to_numpy()[:, 1:], None], ids=["frame", "array", "none"])
def test_rows_the_pipeline_refuses(X: Any) -> None:
    pipeline = make_pipeline(StandardScaler(), forest()).fit(FRAME, Y2)
    with pytest.raises(DataMismatchError, match="steps before the ensemble refuse X"):
        unwrap(pipeline, X)


@pytest.mark.filterwarnings("ignore")  # warnings of MLflow's own imports and of saving are not ours
def test_pyfunc_gives_the_model_it_holds(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    pipeline = make_pipeline(StandardScaler(), forest()).fit(FRAME, Y2)
    mlflow.sklearn.save_model(pipeline, tmp_path / "model", serialization_format="cloudpickle", pip_requirements=[])
    model, X = unwrap(mlflow.pyfunc.load_model(str(tmp_path / "model")), FRAME)
    assert isinstance(model, RandomForestClassifier)
    np.testing.assert_array_equal(X, pipeline[0].transform(FRAME))


@pytest.mark.filterwarnings("ignore")
def test_pyfunc_that_holds_its_model_back() -> None:
    class Closed:
        def get_raw_model(self) -> Any:
            raise NotImplementedError

    Closed.__module__ = "mlflow.pyfunc"
    with pytest.raises(UnsupportedModelError, match=r"mlflow\.sklearn\.load_model"):
        unwrap(Closed(), pd.DataFrame())
    with pytest.raises(UnsupportedModelError, match=r"mlflow\.sklearn\.load_model"):
        replace_ensemble(Closed(), str)


def test_steps_of_a_changed_pipeline_are_copies() -> None:
    pipeline = make_pipeline(StandardScaler(), "passthrough", forest()).fit(X2, Y2)
    changed = replace_ensemble(pipeline, lambda ensemble: ensemble)
    assert changed is not pipeline
    assert changed[-1] is pipeline[-1]
    assert changed[0] is not pipeline[0]
    np.testing.assert_array_equal(changed[0].mean_, pipeline[0].mean_)
    assert [name for name, _ in changed.steps] == [name for name, _ in pipeline.steps]


@pytest.mark.slow
def test_unwrapping_loads_no_library() -> None:
    code = "import sys; from ens_plugin.adapters.unwrap import unwrap; unwrap(object(), None); "
    code += "sys.exit(any(name in sys.modules for name in ('sklearn', 'mlflow', 'pandas')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_frozen_estimator_gives_the_model_inside_it() -> None:
    frozen = pytest.importorskip("sklearn.frozen", reason="FrozenEstimator is new in scikit-learn 1.6")
    fitted = make_pipeline(StandardScaler(), forest()).fit(X2, Y2)
    model, X = unwrap(frozen.FrozenEstimator(fitted), X2)
    assert model is fitted[-1]
    np.testing.assert_array_equal(X, fitted[0].transform(X2))
    assert replace_ensemble(frozen.FrozenEstimator(forest()), lambda ensemble: "changed") == "changed"


@pytest.mark.parametrize("eliminate", [RFE, RFECV])
def test_an_elimination_of_columns_gives_its_ensemble_the_columns_that_it_chose(eliminate: Any) -> None:
    options = {"cv": 2} if eliminate is RFECV else {"n_features_to_select": 2}
    model = eliminate(RandomForestClassifier(20, random_state=0), step=2, **options).fit(FRAME, Y2)
    ensemble, rows = unwrap(model, FRAME)
    assert ensemble is model.estimator_
    assert np.array_equal(rows, FRAME.to_numpy()[:, model.support_])
    assert np.array_equal(ens_plugin.in_bag(model, FRAME, Y2), ens_plugin.in_bag(ensemble, rows, Y2))
    with pytest.raises(DataMismatchError, match="refuse X"):
        unwrap(model, FRAME[FRAME.columns[::-1]])


def test_an_elimination_is_doubted_as_a_step_that_chose_by_the_target() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 200)), np.arange(60) % 2
    forest = RandomForestClassifier(50, random_state=0)
    step = make_pipeline(RFE(forest, n_features_to_select=2, step=0.5), forest).fit(X, y)
    alone = RFE(forest, n_features_to_select=2, step=0.5).fit(X, y)
    doubts = ens_plugin.analyze(step, X, y).basis.doubts
    assert any("rfe" in doubt for doubt in doubts)
    assert ens_plugin.analyze(alone, X, y).basis.doubts == doubts


def test_an_elimination_cut_to_size_is_one_of_the_smaller_ensemble() -> None:
    model = RFE(RandomForestClassifier(20, random_state=0), n_features_to_select=2).fit(X2, Y2)
    cut = ens_plugin.truncate(model, 5)
    assert isinstance(cut, RFE)
    assert len(model.estimator_.estimators_) == 20
    assert np.array_equal(cut.predict(X2), ens_plugin.truncate(model.estimator_, 5).predict(X2[:, model.support_]))


def test_an_unfitted_elimination_is_refused_as_unfitted() -> None:
    with pytest.raises(NotFittedError, match="This RFE has not been fitted"):
        unwrap(RFE(RandomForestClassifier()), X2)
