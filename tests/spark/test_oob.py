"""Out-of-bag rows spread over partitions: the local report, and the local refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import ens_plugin
from ens_plugin import spark
from ens_plugin.errors import BagError, DataMismatchError, InputError, TooFewMembersError
from tests.extras import xgboost
from tests.spark.cases import COLUMNS, fitted, in_order, largest_difference, trained_on

ROUNDING = 1e-12
SKLEARN = ("votes", "shares", "three", "values", "bagging")
BOOSTERS = ("lightgbm", "xgboost", "xgboost_exact")


def from_spark(session: Any, model: Any, frame: pd.DataFrame, n_partitions: int = 3) -> Any:
    df = session.createDataFrame(frame).repartition(n_partitions)
    return spark.analyze(model, df, label_col="y", feature_cols=COLUMNS, row_id_col="row", data="oob")


@pytest.mark.parametrize("name", [*SKLEARN, *BOOSTERS])
def test_out_of_bag_report_is_the_local_one(session: Any, name: str) -> None:
    frame = trained_on(name)
    X, y, _ = in_order(frame)
    local = ens_plugin.analyze(fitted(name), X, y, n_jobs=1)
    assert largest_difference(local, from_spark(session, fitted(name), frame)) < ROUNDING


@pytest.mark.parametrize("name", ["votes", "lightgbm", "xgboost"])
def test_positions_must_be_those_of_the_training_rows(session: Any, name: str) -> None:
    frame = trained_on(name)
    other_order = frame.assign(row=(frame["row"] + 1) % len(frame))
    with pytest.raises(DataMismatchError, match="not the rows the model was trained on"):
        from_spark(session, fitted(name), other_order)


@pytest.mark.parametrize("name", ["votes", "lightgbm", "xgboost"])
def test_target_must_be_that_of_the_training(session: Any, name: str) -> None:
    frame = trained_on(name)
    with pytest.raises(DataMismatchError, match="not the target the model was trained on"):
        from_spark(session, fitted(name), frame.assign(y=frame["y"].to_numpy()[::-1]))


@pytest.mark.parametrize("rows", [np.r_[0:599, 598], np.r_[1:601], np.r_[0:300, 299, 301:600]])
def test_positions_must_be_whole_and_each_once(session: Any, rows: Any) -> None:
    frame = trained_on("votes").sort_values("row").assign(row=rows)
    with pytest.raises(DataMismatchError, match=r"'row' holds numbers from \d+ to \d+ in 600 rows"):
        from_spark(session, fitted("votes"), frame)


def test_other_numbers_of_rows_are_refused_before_the_work(session: Any) -> None:
    with pytest.raises(DataMismatchError, match="was trained on 600"):
        from_spark(session, fitted("votes"), trained_on("votes")[:-1])


def test_forest_without_bags_is_refused(session: Any) -> None:
    frame = trained_on("votes")
    X, y, _ = in_order(frame)
    model = RandomForestClassifier(5, bootstrap=False, random_state=0).fit(X, y)
    with pytest.raises(BagError, match="without bootstrap"):
        from_spark(session, model, frame)


def test_positions_are_asked_for(session: Any) -> None:
    df = session.createDataFrame(trained_on("votes"))
    with pytest.raises(InputError, match="row_id_col"):
        spark.analyze(fitted("votes"), df, label_col="y", feature_cols=COLUMNS, data="oob")


def test_stored_out_of_bag_outputs_are_compared(session: Any) -> None:
    frame = trained_on("shares")
    X, y, _ = in_order(frame)
    model = RandomForestClassifier(25, max_depth=4, oob_score=True, random_state=0).fit(X, y)
    assert from_spark(session, model, frame).bags == "recorded"
    model.oob_decision_function_ = model.oob_decision_function_[::-1]
    with pytest.raises(DataMismatchError, match="other out-of-bag outputs"):
        from_spark(session, model, frame)


def weighted(model: Any, weight: Any) -> Any:
    """The same kind of model, trained with weights on the rows of `xgboost` or `lightgbm`."""
    name = "xgboost" if "xgboost" in type(model).__module__ else "lightgbm"
    X, y, _ = in_order(trained_on(name))
    return type(model)(**model.get_params()).fit(X, y, sample_weight=weight)


def test_boosters_of_xgboost_trained_with_weights_are_refused(session: Any) -> None:
    model = weighted(fitted("xgboost"), np.random.default_rng(0).uniform(0.5, 1.5, 600))
    with pytest.raises(DataMismatchError, match="Training weights and base margins are not known on a cluster"):
        from_spark(session, model, trained_on("xgboost"))


def test_boosters_of_lightgbm_trained_with_weights_have_the_same_bags(session: Any) -> None:
    frame = trained_on("lightgbm")
    X, y, _ = in_order(frame)
    model = weighted(fitted("lightgbm"), np.random.default_rng(0).uniform(0.5, 1.5, 600))
    local = ens_plugin.analyze(model, X, y, n_jobs=1)
    assert largest_difference(local, from_spark(session, model, frame)) < ROUNDING


def test_seed_that_was_lost_is_searched_for_on_one_machine_only(session: Any, tmp_path: Path) -> None:
    frame = trained_on("xgboost")
    X, y, _ = in_order(frame)
    type(fitted("xgboost"))(**{**fitted("xgboost").get_params(), "random_state": 9}).fit(X, y).save_model(
        tmp_path / "forest.json"
    )
    booster = xgboost.Booster(model_file=tmp_path / "forest.json")
    with pytest.raises(BagError, match=r"lost its settings.*ens_plugin.analyze.*booster.set_param"):
        from_spark(session, booster, frame)
    booster.set_param({"seed": 9, "subsample": 0.8, "reg_lambda": 1e-5})
    assert from_spark(session, booster, frame).bags == "proved"


def test_draw_that_is_not_the_likeliest_is_found_or_the_first_refusal_told(session: Any, tmp_path: Path) -> None:
    """A saved booster does not state its tree method; the draws of `exact` are tried after those of the others."""
    frame = trained_on("xgboost_exact")
    X, y, _ = in_order(frame)
    fitted("xgboost_exact").save_model(tmp_path / "forest.json")
    booster = xgboost.Booster(model_file=tmp_path / "forest.json")
    booster.set_param({"seed": 3, "subsample": 0.8, "reg_lambda": 1e-5, "colsample_bynode": 1})
    local = ens_plugin.analyze(booster, X, y, n_jobs=1)
    assert largest_difference(local, from_spark(session, booster, frame)) < ROUNDING
    with pytest.raises(DataMismatchError, match="the rows drawn for tree 0 and 24 more of 25"):
        from_spark(session, booster, frame.assign(row=(frame["row"] + 1) % len(frame)))


def test_equal_rows_of_few_values_are_judged_as_on_one_machine(session: Any) -> None:
    def doubts(X: Any, y: Any) -> tuple[str, ...]:
        model = RandomForestClassifier(25, max_samples=0.5, random_state=0).fit(X, y)
        names = [f"x{column}" for column in range(X.shape[1])]
        df = session.createDataFrame(pd.DataFrame(X, columns=names).assign(y=y, row=np.arange(y.size))).repartition(3)
        report = spark.analyze(model, df, label_col="y", feature_cols=names, row_id_col="row", data="oob")
        local = ens_plugin.analyze(model, X, y)
        assert len(report.basis.doubts) == len(local.basis.doubts)
        assert report.basis.n_repeated == local.basis.n_repeated
        return report.basis.doubts

    rng = np.random.default_rng([1, 0])
    species = (rng.random(800) < 0.4).astype(int)
    tails = np.round(rng.normal(220.0 - 50.0 * species, 16.0))[:, None]
    assert doubts(tails, species) == ()
    measured = np.column_stack([tails, rng.normal(size=800)])
    (doubt,) = doubts(np.repeat(measured, 2, axis=0), np.repeat(species, 2))
    assert "look like copies" in doubt
    codes, label = rng.integers(0, 4, (3000, 7)).astype(float), (rng.random(3000) < 0.1).astype(int)
    drawn = rng.permutation(np.append(np.arange(3000), rng.choice(np.flatnonzero(label), 3000 - 2 * label.sum())))
    (doubt,) = doubts(codes[drawn], label[drawn])
    assert "look like copies" in doubt


@pytest.mark.parametrize("task", ["votes", "shares", "values"])
def test_rows_that_bags_leave_out_unevenly_are_refused(session: Any, task: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3)).astype(np.float32)
    y = (X[:, 0] + 0.5 * rng.normal(size=500) > 1.0).astype(int)
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y, row=np.arange(500))
    df = session.createDataFrame(frame)
    columns: dict[str, Any] = {"label_col": "y", "feature_cols": ["a", "b", "c"], "row_id_col": "row", "data": "oob"}
    if task == "values":
        mild = RandomForestRegressor(60, random_state=0).fit(X, y, sample_weight=np.exp(rng.normal(size=500) / 2))
        with pytest.raises(InputError, match="not leave out all rows equally often"):
            spark.analyze(mild, df, **columns)
        return
    depth = None if task == "votes" else 3
    rare = RandomForestClassifier(60, max_depth=depth, class_weight={0: 1, 1: 40}, random_state=0).fit(X, y)
    with pytest.raises(TooFewMembersError, match=f"Of the {y.sum()} rows of label '1'"):
        spark.analyze(rare, df, **columns)
    some = RandomForestClassifier(60, max_depth=depth, class_weight={0: 1, 1: 3}, random_state=0).fit(X, y)
    with pytest.raises(InputError, match=r"one of label '0' .*ens_plugin\.analyze"):
        spark.analyze(some, df, **columns)
    assert ens_plugin.analyze(some, X, y).is_actionable
