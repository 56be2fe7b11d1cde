"""H2O's random forests on held-out rows, against the predictions of its server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ens_plugin
from ens_plugin.adapters import find_adapter
from ens_plugin.errors import (
    BagError,
    DataMismatchError,
    InputError,
    ModelLoadError,
    NotFittedError,
    UnsupportedModelError,
)
from ens_plugin.testing import check_adapter
from tests.adapters.h2o.h2o_server import connected
from tests.extras import imported

imported("h2o")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def h2o() -> Any:
    return connected()


def table(seed: int, n_rows: int = 200) -> tuple[pd.DataFrame, Any]:
    """Numbers, some of them missing, two columns of categories, and the values that labels are made of."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n_rows, 3)), columns=list("abc"))
    frame = frame.assign(kind=rng.choice(list("xyz"), n_rows), is_new=rng.random(n_rows) > 0.5)
    values = frame["a"].to_numpy() + (frame["kind"] == "x") + rng.normal(size=n_rows)
    return frame.assign(a=frame["a"].where(rng.random(n_rows) > 0.1)), values.to_numpy()


def two_labels(values: Any) -> Any:
    return np.where(values > 0.5, "yes", "no")


def three_labels(values: Any) -> Any:
    return np.array(["low", "middle", "high"])[np.digitize(values, [-0.5, 1.0])]


def as_they_are(values: Any) -> Any:
    return values


F, VALUES = table(0)


def trained(h2o: Any, y: Any, frame: pd.DataFrame = F, roles: dict[str, str] | None = None, **options: Any) -> Any:
    rows = h2o.H2OFrame(frame.assign(y=y))
    if np.asarray(y).dtype.kind in "iub":
        rows["y"] = rows["y"].asfactor()
    model = h2o.estimators.H2ORandomForestEstimator(**{"ntrees": 11, "seed": 1, **options})
    model.train(y="y", training_frame=rows, **(roles or {}))
    return model


def own_prediction(model: Any, X: Any) -> Any:
    import h2o

    found = model.predict(h2o.H2OFrame(X)).as_data_frame()
    return found["predict"].to_numpy() if found.shape[1] == 1 else found.iloc[:, 1:].to_numpy()


@pytest.mark.parametrize("target", [two_labels, three_labels, as_they_are])
def test_the_contract(h2o: Any, target: Callable[[Any], Any]) -> None:
    y = target(VALUES)
    promises = check_adapter(trained(h2o, y), F, y, predict=own_prediction, tolerance=1e-9)
    assert "The mean output of all members is the model's own prediction." in promises


@pytest.mark.parametrize("target", [two_labels, three_labels, as_they_are])
def test_the_error_on_held_out_rows_is_that_of_its_own_predictions(h2o: Any, target: Callable[[Any], Any]) -> None:
    model, (fresh, values) = trained(h2o, target(VALUES)), table(1)
    report = ens_plugin.analyze(model, fresh, target(values), data="holdout", estimator="path")
    own = own_prediction(model, fresh)
    if target is as_they_are:
        expected = ((own - values) ** 2).mean()
    else:
        expected = (np.unique(target(VALUES))[own.argmax(axis=1)] != target(values)).mean()
    assert report.error == pytest.approx(expected, rel=1e-9)
    assert report.n_members == 11


@pytest.mark.parametrize("kind", [int, bool])
def test_labels_may_be_numbers_and_truth_values(h2o: Any, kind: Any) -> None:
    model, (fresh, values) = trained(h2o, (VALUES > 0.5).astype(kind)), table(1)
    y = (values > 0.5).astype(kind)
    report = ens_plugin.analyze(model, fresh, y, data="holdout", estimator="path")
    assert report.error == pytest.approx((own_prediction(model, fresh).argmax(axis=1) != y).mean(), abs=1e-12)
    with pytest.raises(InputError, match="single label"):
        ens_plugin.analyze(model, fresh, np.ones_like(y), data="holdout")


def test_a_report_names_the_threshold_of_its_labels(h2o: Any) -> None:
    model, (fresh, values) = trained(h2o, two_labels(VALUES)), table(1)
    (caution,) = find_adapter(model).cautions("holdout")
    assert f"predicts yes where its probability is at least {model.default_threshold():.3g}" in caution
    found = model.predict(h2o.H2OFrame(fresh)).as_data_frame()
    assert ((found["yes"] >= model.default_threshold()) == (found["predict"] == "yes")).all()
    assert caution in str(ens_plugin.analyze(model, fresh, two_labels(values), data="holdout")).replace("\n  ", " ")


def test_new_categories_and_columns_of_other_roles(h2o: Any) -> None:
    frame = F.assign(weight=np.arange(len(F)) % 3 + 1.0, fold=np.arange(len(F)) % 2)
    model = trained(h2o, VALUES, frame, {"weights_column": "weight", "fold_column": "fold"})
    fresh, values = table(1)
    fresh.loc[:20, "kind"] = "not in training"
    report = ens_plugin.analyze(model, fresh, values, data="holdout", estimator="path")
    assert report.error == pytest.approx(((own_prediction(model, fresh) - values) ** 2).mean(), rel=1e-9)
    assert report.error == ens_plugin.analyze(model, fresh.to_numpy(), values, data="holdout", estimator="path").error


def test_columns_that_it_encodes_itself(h2o: Any) -> None:
    model, (fresh, values) = trained(h2o, VALUES, categorical_encoding="one_hot_explicit"), table(1)
    report = ens_plugin.analyze(model, fresh, values, data="holdout", estimator="path")
    assert report.error == pytest.approx(((own_prediction(model, fresh) - values) ** 2).mean(), rel=1e-9)


def test_members_are_those_of_early_stopping(h2o: Any) -> None:
    options = {"stopping_rounds": 1, "stopping_tolerance": 0.5, "score_tree_interval": 2}
    model = trained(h2o, VALUES, ntrees=40, **options)
    assert find_adapter(model).n_members == model.ntrees_actual() < 40


def test_training_rows_are_refused(h2o: Any) -> None:
    with pytest.raises(BagError, match=r"H2O keeps no record .*Pass data=\"holdout\""):
        ens_plugin.analyze(trained(h2o, VALUES), F, VALUES)


def test_other_columns_are_refused(h2o: Any) -> None:
    model = trained(h2o, VALUES)
    with pytest.raises(DataMismatchError, match=r"lacks columns .*'kind'"):
        ens_plugin.analyze(model, F.drop(columns="kind"), VALUES, data="holdout")
    with pytest.raises(DataMismatchError, match="4 columns, but the forest was trained on 5"):
        ens_plugin.analyze(model, F.drop(columns="kind").to_numpy(), VALUES, data="holdout")
    with pytest.raises(DataMismatchError, match=r"No value of the column 'kind' .*'u' instead of 'x', 'y', 'z'"):
        ens_plugin.analyze(model, F.assign(kind="u"), VALUES, data="holdout")


@pytest.mark.parametrize("option", ["balance_classes", "binomial_double_trees"])
def test_forests_whose_trees_are_not_shown_as_they_predict_are_refused(h2o: Any, option: str) -> None:
    model = trained(h2o, two_labels(VALUES), **{option: True})
    with pytest.raises(UnsupportedModelError, match=f"with {option}=True.*Train it with {option}=False"):
        ens_plugin.analyze(model, F, two_labels(VALUES), data="holdout")


def test_a_tree_without_a_split_is_refused(h2o: Any) -> None:
    model = trained(h2o, np.where(np.arange(200) < 2, 50.0, 1.0), min_rows=90)
    with pytest.raises(UnsupportedModelError, match=r"of 200 rows are not the mean .*smaller min_rows"):
        ens_plugin.analyze(model, F, VALUES, data="holdout")


def test_models_that_are_not_on_a_server_are_refused(h2o: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    unfitted = h2o.estimators.H2ORandomForestEstimator()
    with pytest.raises(NotFittedError, match=r"holds no model .*h2o\.load_model"):
        ens_plugin.analyze(unfitted, F, VALUES, data="holdout")
    model = trained(h2o, VALUES)
    with pytest.raises(UnsupportedModelError, match="on H2O's server"):
        find_adapter(model).portable()

    def fail(*_: Any, **__: Any) -> None:
        raise h2o.exceptions.H2OConnectionError("no route to it")

    monkeypatch.setattr(h2o, "api", fail)
    with pytest.raises(ModelLoadError, match=r"cannot be reached or fails .*no route to it.*h2o\.connect"):
        ens_plugin.analyze(model, F, VALUES, data="holdout")


def test_a_failure_of_the_server_is_no_fault_of_the_rows(h2o: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    model = trained(h2o, VALUES)

    def fail(*_: Any, **__: Any) -> None:
        raise h2o.exceptions.H2OServerError("out of memory")

    monkeypatch.setattr(type(model), "predict", fail)
    with pytest.raises(ModelLoadError, match=r"fails .*out of memory"):
        ens_plugin.analyze(model, F, VALUES, data="holdout")

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("Job failed: a column is of another type")

    monkeypatch.setattr(type(model), "predict", refuse)
    with pytest.raises(InputError, match=r"H2O refuses X .*another type"):
        ens_plugin.analyze(model, F, VALUES, data="holdout")


def test_nothing_stays_on_the_server(h2o: Any) -> None:
    model, (fresh, values) = trained(h2o, VALUES), table(1)
    before = len(h2o.ls())
    ens_plugin.analyze(model, fresh, values, data="holdout")
    assert len(h2o.ls()) == before


def test_its_boosted_trees_are_refused(h2o: Any) -> None:
    model = h2o.estimators.H2OGradientBoostingEstimator(ntrees=2)
    model.train(y="y", training_frame=h2o.H2OFrame(F.assign(y=VALUES)))
    with pytest.raises(UnsupportedModelError, match=r"H2OGradientBoostingEstimator of H2O .*correct one another"):
        ens_plugin.analyze(model, F, VALUES, data="holdout")
