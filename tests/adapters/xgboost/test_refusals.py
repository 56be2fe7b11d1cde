"""What the XGBoost adapter refuses, and with which message."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import numpy as np
import pytest

import ens_plugin
from ens_plugin.errors import (
    BagError,
    DataMismatchError,
    EnsPluginError,
    InputError,
    NotFittedError,
    TooFewMembersError,
    UnsupportedModelError,
)

xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed: pip install xgboost-cpu")

from ens_plugin.adapters.xgboost.trees import XGBoostTreesAdapter  # noqa: E402
from tests.adapters.xgboost.xgboost_cases import FOREST, X2, XR, Y2, YR  # noqa: E402

N = len(Y2)
BINARY = {"objective": "binary:logistic"}


def train(options: dict[str, Any], X: Any = X2, y: Any = Y2, rounds: int = 1) -> Any:
    return xgboost.train({**FOREST, **options}, xgboost.DMatrix(X, y), num_boost_round=rounds)


def linear() -> Any:
    return xgboost.train({"booster": "gblinear", "verbosity": 0}, xgboost.DMatrix(XR, YR), num_boost_round=1)


def ranking() -> Any:
    matrix = xgboost.DMatrix(X2, Y2, qid=np.arange(N) // 8)
    return xgboost.train({**FOREST, "objective": "rank:pairwise"}, matrix, num_boost_round=1)


def vector_leaves() -> Any:
    options = {"multi_strategy": "multi_output_tree", "tree_method": "hist", "num_parallel_tree": 1}
    return train(options, XR, np.stack([YR, -YR], axis=1))


UNSUPPORTED = {
    "linear": (linear, UnsupportedModelError, "gblinear"),
    "dropout": (lambda: train({"booster": "dart"}), UnsupportedModelError, "'dart'.*drops and rescales"),
    "ranking": (ranking, UnsupportedModelError, "'rank:pairwise'.*ranks rows"),
    "bags of ranking": (ranking, BagError, "cannot be proved for objective 'rank:pairwise'"),
    "vector leaves": (vector_leaves, UnsupportedModelError, "vector in each leaf"),
    "untrained": (lambda: xgboost.Booster(FOREST, [xgboost.DMatrix(X2, Y2)]), NotFittedError, "no trees"),
    "not fitted": (xgboost.XGBClassifier, NotFittedError, "call its fit"),
    "no sampling": (lambda: train({"subsample": 1}), BagError, "subsample=1"),
    "unknown objective": (
        lambda: train({"objective": "reg:gamma"}, XR, YR - YR.min() + 1),
        BagError,
        "cannot be proved",
    ),
    "two outputs": (lambda: train({}, XR, np.stack([YR, -YR], axis=1)), UnsupportedModelError, "2 columns of y"),
    "several rounds": (lambda: train({}, XR, YR, rounds=2), UnsupportedModelError, "2 rounds"),
    "log link": (lambda: train({"objective": "count:poisson"}, XR, Y2), UnsupportedModelError, "by a link"),
}


@pytest.mark.filterwarnings("ignore:(?s).*gblinear. is deprecated")
@pytest.mark.parametrize("name", list(UNSUPPORTED))
def test_refused_models(name: str) -> None:
    make, error, message = UNSUPPORTED[name]
    bags_alone = ("no sampling", "unknown objective", "bags of ranking")
    model, function = make(), ens_plugin.in_bag if name in bags_alone else ens_plugin.analyze
    with pytest.raises(error, match=message):
        function(model, XR if name not in ("no sampling", "untrained") else X2, Y2)


@pytest.mark.filterwarnings("ignore:.*dart. is deprecated")
def test_dropout_is_refused() -> None:
    booster = train({"booster": "dart", "rate_drop": 0.9, "one_drop": 1}, rounds=3)
    with pytest.raises(UnsupportedModelError, match="dart drops and rescales trees while it trains"):
        ens_plugin.in_bag(booster, X2, Y2)


def test_weights_of_dropout_are_refused_in_boosters_of_kind_gbtree(monkeypatch: pytest.MonkeyPatch) -> None:
    booster = train(BINARY)
    document = json.loads(booster.save_raw("json"))
    document["learner"]["gradient_booster"]["model"]["weight_drop"] = [1.0] * 19 + [0.25]
    # As XGBoost 3.4 writes them.
    monkeypatch.setattr(xgboost.Booster, "save_raw", lambda *_: json.dumps(document))
    with pytest.raises(UnsupportedModelError, match=r"count with weights from 0\.25 to 1: dart drops"):
        ens_plugin.in_bag(booster, X2, Y2)


@pytest.mark.parametrize(
    ("section", "name", "value", "message"),
    [
        ("tree_train_param", "sampling_method", "gradient_based", "drawn by their gradients"),
        ("generic_param", "device", "cuda:0", "device 'cuda:0'"),
        ("gbtree_train_param", "updater_seq", "grow_gpu_hist", "row sampler differs"),
        ("gbtree_train_param", "process_type", "update", "were refreshed"),
    ],
)
def test_refused_settings(monkeypatch: Any, section: str, name: str, value: str, message: str) -> None:
    """As a booster of a GPU, or of a release that samples so, describes itself."""
    booster = train(BINARY)
    configuration = json.loads(booster.save_config())
    part = configuration["learner"] if section == "generic_param" else configuration["learner"]["gradient_booster"]
    part[section][name] = value
    monkeypatch.setattr(xgboost.Booster, "save_config", lambda _: json.dumps(configuration))
    with pytest.raises(BagError, match=message):
        ens_plugin.in_bag(booster, X2)


def test_absolute_error_counts_something_else_since_3_3(monkeypatch: Any) -> None:
    booster = train({"objective": "reg:absoluteerror"}, XR, YR)
    configuration = json.loads(booster.save_config())
    monkeypatch.setattr(xgboost.Booster, "save_config", lambda _: json.dumps({**configuration, "version": [3, 3, 0]}))
    with pytest.raises(BagError, match=r"cannot be proved for objective 'reg:absoluteerror' \(XGBoost 3\.3\.0\)"):
        ens_plugin.in_bag(booster, XR)


# ---- one draw for all parallel trees

APPROX = {**BINARY, "tree_method": "approx", "colsample_bynode": 0.5}


def test_parallel_trees_of_approx_leave_held_out_rows() -> None:
    booster = train({**APPROX, "max_depth": 0, "reg_lambda": 0, "min_child_weight": 0})
    in_bag = ens_plugin.in_bag(booster, X2, Y2)
    assert (in_bag == in_bag[0]).all()
    with pytest.raises(
        TooFewMembersError, match=rf"All 20 members .* same {in_bag[0].sum()} of {N} .* tree_method='hist'"
    ):
        ens_plugin.analyze(booster, X2, Y2)
    out = ~in_bag[0]
    assert ens_plugin.analyze(booster, X2[out], Y2[out], data="holdout").n_rows == out.sum()


def test_small_trees_of_approx_prove_little_together() -> None:
    with pytest.raises(BagError, match=r"20 trees of this booster, grown on 1 draw of rows.*tree_method='hist'"):
        ens_plugin.in_bag(train({**APPROX, "max_depth": 1}), X2, Y2)


def test_sums_above_those_of_all_rows_are_no_bags() -> None:
    """As after training with weights, or by gradients with a booster that forgot it."""
    heavy = xgboost.train({**FOREST, **BINARY}, xgboost.DMatrix(X2, Y2, weight=np.full(N, 3.0)), num_boost_round=1)
    with pytest.raises(
        DataMismatchError, match=r"the trees hold 1\d\d\.\d % of the rows of X.*Training weights.*gradient"
    ):
        ens_plugin.in_bag(heavy, X2, Y2)


def test_members_that_do_not_add_up_to_the_prediction_are_refused() -> None:
    adapter = XGBoostTreesAdapter(train(BINARY))
    features = adapter.prepare(X2)
    adapter.check_members(features)
    values = adapter._values
    adapter._values = lambda rows, members: values(rows, members) * 1.01  # type: ignore[method-assign]
    with pytest.raises(UnsupportedModelError, match="differs from the booster's own prediction"):
        adapter.check_members(features)


ROWS_REFUSED: dict[str, tuple[Any, type[EnsPluginError], str]] = {
    "text": (np.full((N, 6), "a"), InputError, "X cannot be used"),
    "one dimension": (np.zeros(6), InputError, "X cannot be used"),
    "infinite": (np.where(np.arange(6) == 2, np.inf, X2), InputError, "X cannot be used"),
    "a column less": (X2[:, :5], DataMismatchError, "5 columns"),
    "two rows swapped": (X2[[*range(50), 51, 50, *range(52, N)]], DataMismatchError, "not the target|not the rows"),
    "one row changed": (np.vstack([X2[:40], -X2[40:41], X2[41:]]), DataMismatchError, "not the rows|not the target"),
    "last row dropped": (X2[:-1], DataMismatchError, "y has shape|not the rows"),
}


@pytest.mark.parametrize("name", list(ROWS_REFUSED))
def test_rows_that_are_not_the_training_rows(name: str) -> None:
    X, error, message = ROWS_REFUSED[name]
    with pytest.raises(error, match=message):
        ens_plugin.in_bag(train(BINARY), X, Y2)


def test_last_row_dropped_is_refused_without_a_target() -> None:
    with pytest.raises(DataMismatchError, match="not the rows"):
        ens_plugin.in_bag(train(BINARY), X2[:-1])


def test_columns_in_another_order_are_refused() -> None:
    import pandas as pd

    frame = pd.DataFrame(X2, columns=list("abcdef"))
    booster = train(BINARY, frame)
    with pytest.raises(DataMismatchError, match="columns of X"):
        ens_plugin.in_bag(booster, frame[list("bacdef")])
    np.testing.assert_array_equal(ens_plugin.in_bag(booster, X2), ens_plugin.in_bag(booster, frame))


class TestSeveralColumnsOfTarget:
    """Boosters that were trained on y of several columns, with trees of its own for each."""

    VALUES = np.stack([YR, -YR], axis=1)
    INDICATORS = np.stack([Y2, 1 - Y2], axis=1)

    @staticmethod
    def forest(kind: str, y: Any) -> Any:
        X = XR if kind == "regressor" else X2
        cls = xgboost.XGBRFRegressor if kind == "regressor" else xgboost.XGBRFClassifier
        return cls(n_estimators=10, n_jobs=1).fit(X, y), X

    @pytest.mark.parametrize("kind", ["regressor", "classifier"])
    @pytest.mark.parametrize("columns", [slice(None), 0], ids=["all columns", "one column"])
    @pytest.mark.parametrize("verb", ["analyze", "held out", "oob_predictions", "split_outputs"])
    def test_the_columns_are_named_as_the_cause(self, kind: str, columns: Any, verb: str) -> None:
        y = self.VALUES if kind == "regressor" else self.INDICATORS
        model, X = self.forest(kind, y)
        verbs: dict[str, Any] = {
            "analyze": lambda: ens_plugin.analyze(model, X, y[:, columns]),
            "held out": lambda: ens_plugin.analyze(model, X + 0.1, y[:, columns], data="holdout"),
            "oob_predictions": lambda: ens_plugin.oob_predictions(model, X, y[:, columns]),
            "split_outputs": lambda: ens_plugin.split_outputs(model),
        }
        with pytest.raises(UnsupportedModelError, match=r"was trained on 2 columns of y.*MultiOutputRegressor of such"):
            verbs[verb]()

    def test_bags_are_read_with_all_columns(self) -> None:
        model, X = self.forest("regressor", self.VALUES)
        assert np.array_equal(ens_plugin.in_bag(model, X, self.VALUES), ens_plugin.in_bag(model, X))

    def test_one_column_in_two_dimensions_is_one_target(self) -> None:
        model, X = self.forest("classifier", Y2[:, None])
        assert ens_plugin.in_bag(model, X, Y2[:, None]).shape == (10, N)

    def test_several_quantiles_of_one_column_are_named(self) -> None:
        options = {"objective": "reg:quantileerror", "quantile_alpha": [0.1, 0.9]}
        with pytest.raises(UnsupportedModelError, match=r"predicts 2 quantiles.*one model for each quantile_alpha"):
            ens_plugin.analyze(train(options, XR, YR), XR, YR)


class TestWeightsOfTraining:
    WEIGHT = np.random.default_rng(0).integers(1, 4, N).astype(float)

    @staticmethod
    @cache
    def weighted() -> Any:
        return xgboost.XGBRFClassifier(n_estimators=50, n_jobs=1).fit(
            X2, Y2, sample_weight=TestWeightsOfTraining.WEIGHT
        )

    def test_weights_of_the_evaluation_are_tried_as_those_of_training(self) -> None:
        matrix = xgboost.DMatrix(X2, label=Y2, weight=self.WEIGHT)
        expected = ens_plugin.analyze(self.weighted(), matrix, Y2, sample_weight=self.WEIGHT)
        found = ens_plugin.analyze(self.weighted(), X2, Y2, sample_weight=self.WEIGHT)
        assert found.error == expected.error
        assert found.basis == expected.basis

    @pytest.mark.parametrize("weight", [None, WEIGHT[::-1]], ids=["none", "others"])
    def test_without_them_the_message_names_them(self, weight: Any) -> None:
        with pytest.raises(DataMismatchError, match="pass the weights as sample_weight"):
            ens_plugin.analyze(self.weighted(), X2, Y2, sample_weight=weight)

    def test_weights_of_the_evaluation_alone_need_not_be_those_of_training(self) -> None:
        model = xgboost.XGBRFClassifier(n_estimators=50, n_jobs=1).fit(X2, Y2)
        assert ens_plugin.analyze(model, X2, Y2, sample_weight=self.WEIGHT).bags == "proved"
