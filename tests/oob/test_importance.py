"""Permutation importance of out-of-bag rows: by brute force, of columns of any kind, and on wrong input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.compose import make_column_transformer
from sklearn.ensemble import BaggingClassifier, BaggingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import ens_plugin
from ens_plugin import oob_permutation_importance
from ens_plugin.errors import BagError, DataMismatchError, InputError, TooFewMembersError
from tests.adapters.lightgbm.lightgbm_draws import drawn_bags, stated_seed
from tests.extras import lightgbm, xgboost
from tests.oob.importances import NAMES, X3, Y3, Array, N, X, Y, in_bag_of, orders, values_of

LIGHTGBM: dict[str, Any] = {
    "boosting_type": "rf", "n_estimators": 15, "subsample": 0.6, "subsample_freq": 1, "min_child_samples": 3,
    "random_state": 3, "verbose": -1, "n_jobs": 1,
}  # fmt: skip
XGBOOST: dict[str, Any] = {"n_estimators": 15, "subsample": 0.6, "max_depth": 4, "random_state": 3, "n_jobs": 1}


def brute_force(predict: Any, in_bag: Array, X: Array, y: Array, n_repeats: int = 2) -> Array:
    """Importances from the outputs (members, rows[, labels]) of members that each predict whole tables."""
    rows = np.flatnonzero(~in_bag.all(axis=0))

    def losses(table: Array) -> Array:
        outputs = predict(table)[:, rows]
        mean = [outputs[~in_bag[:, row], place].mean(axis=0) for place, row in enumerate(rows)]
        if outputs.ndim == 2:
            return np.array([(value - y[row]) ** 2 for value, row in zip(mean, rows, strict=True)])
        truth = np.array([shares[y[row]] for shares, row in zip(mean, rows, strict=True)])
        other = np.array([np.delete(shares, y[row]).max() for shares, row in zip(mean, rows, strict=True)])
        return (truth < other) + 0.5 * (truth == other)

    found = np.empty((X.shape[1], n_repeats))
    for column in range(X.shape[1]):
        for repeat, order in enumerate(orders(column, n_repeats, rows.size)):
            table = X.copy()
            table[rows, column] = X[rows[order], column]
            found[column, repeat] = (losses(table) - losses(X)).mean()
    return found


def probabilities_of(members: Any) -> Any:
    return lambda table: np.stack([member.predict_proba(table) for member in members])


class TestBruteForce:
    """Importances are those of the members' own predictions, library by library."""

    def test_forest_regression(self) -> None:
        model = RandomForestRegressor(12, random_state=0).fit(X, Y)
        found = oob_permutation_importance(model, X, Y, n_repeats=2)
        expected = brute_force(values_of(model.estimators_), in_bag_of(model.estimators_samples_), X, Y)
        np.testing.assert_allclose(found.importances, expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.importances_mean, expected.mean(axis=1))
        np.testing.assert_allclose(found.importances_std, expected.std(axis=1), atol=1e-9)
        stored = RandomForestRegressor(60, oob_score=True, random_state=0).fit(X, Y)
        error = oob_permutation_importance(stored, X, Y, n_repeats=1).error
        assert error == pytest.approx(np.mean((stored.oob_prediction_ - Y) ** 2))

    @pytest.mark.parametrize("depth", [None, 3])
    def test_forest_of_three_labels(self, depth: int | None) -> None:
        model = RandomForestClassifier(15, max_depth=depth, random_state=0).fit(X3, NAMES[Y3])
        found = oob_permutation_importance(model, X3, NAMES[Y3], n_repeats=2)
        codes = np.searchsorted(model.classes_, NAMES[Y3])
        expected = brute_force(probabilities_of(model.estimators_), in_bag_of(model.estimators_samples_), X3, codes)
        # Sums of probabilities that tie but for rounding count as half an error or not.
        np.testing.assert_allclose(found.importances, expected, atol=1e-9 if depth is None else 1.1 / N)

    def test_bagging_of_feature_subsets_that_votes(self) -> None:
        model = BaggingClassifier(LinearSVC(dual=False), 12, max_features=0.6, random_state=0).fit(X3, Y3)

        def predict(table: Array) -> Array:
            columns = zip(model.estimators_, model.estimators_features_, strict=True)
            return np.stack([np.eye(3)[member.predict(table[:, own])] for member, own in columns])

        found = oob_permutation_importance(model, X3, Y3, n_repeats=2)
        expected = brute_force(predict, in_bag_of(model.estimators_samples_), X3, Y3)
        np.testing.assert_allclose(found.importances, expected, atol=1e-12)
        assert "Nothing in this model shows" in found.warnings[0]

    def test_lightgbm(self) -> None:
        labels = (np.median(Y) < Y).astype(int)
        model = lightgbm.LGBMClassifier(**LIGHTGBM).fit(X, labels)
        bags = drawn_bags(N, stated_seed(model.booster_), int(np.ceil(0.6 * 32768)), 15)

        def predict(table: Array) -> Array:
            scores = [
                model.booster_.predict(table, raw_score=True, start_iteration=tree, num_iteration=1)
                for tree in range(15)
            ]
            return np.stack([-np.array(scores), scores], axis=2)

        found = oob_permutation_importance(model, X, labels, n_repeats=2)
        np.testing.assert_allclose(found.importances, brute_force(predict, np.array(bags, bool), X, labels), atol=1e-9)

    def test_xgboost(self) -> None:
        model = xgboost.XGBRFRegressor(**XGBOOST).fit(X, Y)
        booster = model.get_booster()
        trees = booster.trees_to_dataframe().set_index(["Tree", "Node"])["Gain"].to_dict()

        def predict(table: Array) -> Array:
            leaves = booster.predict(xgboost.DMatrix(table), pred_leaf=True).astype(int)
            by_tree = [[trees[tree, leaf] for leaf in leaves[:, tree]] for tree in range(leaves.shape[1])]
            raw = np.array(by_tree) * len(by_tree)
            return raw + (model.predict(table) - raw.mean(axis=0))

        found = oob_permutation_importance(model, X, Y, n_repeats=2)
        in_bag = ens_plugin.in_bag(model, X, Y)
        assert found.n_rows == np.count_nonzero(~in_bag.all(axis=0)) < N
        assert not any("left out" in text for text in found.warnings)
        np.testing.assert_allclose(found.importances, brute_force(predict, in_bag, X, Y), rtol=1e-3, atol=1e-3)


class TestColumns:
    def test_those_of_a_pipeline_are_permuted_before_its_steps(self) -> None:
        kind = NAMES[np.random.default_rng(0).integers(0, 3, N)]
        frame = pd.DataFrame({"kind": pd.Categorical(kind), "x": X[:, 0], "text": kind[::-1]}, index=np.arange(N) * 7)
        target = 5.0 * (kind == "oak") + X[:, 0]
        steps = make_column_transformer((OneHotEncoder(), ["kind", "text"]), remainder="passthrough")
        model = make_pipeline(steps, RandomForestRegressor(30, random_state=0)).fit(frame, target)
        before = frame.copy()
        found = oob_permutation_importance(model, frame, target, n_repeats=2)
        pd.testing.assert_frame_equal(frame, before)
        assert found.feature_names == ("kind", "x", "text")
        assert found.to_frame()["importances_mean"].idxmax() == "kind"
        coded = model[:-1].transform(frame)
        forest = model[-1]
        order, in_bag = orders(0, 2, N)[0], in_bag_of(forest.estimators_samples_)
        changed = coded.copy()
        changed[:, :3] = coded[order, :3]
        assert model[0].get_feature_names_out()[2] == "onehotencoder__kind_oak"

        def error(table: Array) -> float:
            values = values_of(forest.estimators_)(table)
            mean = (values * ~in_bag).sum(axis=0) / (~in_bag).sum(axis=0)
            return float(np.mean((mean - target) ** 2))

        assert found.importances[0, 0] == pytest.approx(error(changed) - error(coded))

    @pytest.mark.fast_cases("frame", "sparse")
    @pytest.mark.parametrize("kind", ["frame", "sparse", "list", "float32"])
    def test_every_form_of_a_table_gives_the_same(self, kind: str) -> None:
        table = np.where(np.abs(X3) < 0.5, 0.0, X3).astype(np.float32).astype(np.float64)
        made: Any = {
            "frame": pd.DataFrame, "sparse": csr_matrix, "list": np.ndarray.tolist, "float32": np.float32,
        }[kind](table)  # fmt: skip
        model = RandomForestClassifier(15, random_state=0).fit(table, Y3)
        found = oob_permutation_importance(RandomForestClassifier(15, random_state=0).fit(made, Y3), made, Y3)
        np.testing.assert_array_equal(found.importances, oob_permutation_importance(model, table, Y3).importances)

    def test_xgboost_takes_a_dmatrix_and_missing_values_of_sparse_rows(self) -> None:
        rows = csr_matrix(np.where(np.abs(X3) < 0.5, 0.0, X3))
        rows.data[:5] = 0.0  # stored, so not missing
        options = {**XGBOOST, "num_parallel_tree": 20, "objective": "multi:softprob", "num_class": 3}
        options = {key: value for key, value in options.items() if key not in ("n_estimators", "n_jobs")}
        options |= {"seed": options.pop("random_state"), "learning_rate": 1}
        matrix = xgboost.DMatrix(rows, Y3)
        booster = xgboost.train(options, matrix, num_boost_round=1)
        from_matrix = oob_permutation_importance(booster, matrix, Y3, n_repeats=2)
        np.testing.assert_array_equal(
            from_matrix.importances, oob_permutation_importance(booster, rows, Y3, n_repeats=2).importances
        )
        assert from_matrix.importances.max() > 0.05

    def test_a_constant_one_has_exactly_none(self) -> None:
        table = np.column_stack([X, np.full(N, 3.0), np.full(N, np.nan)])
        model = RandomForestRegressor(20, random_state=0).fit(np.nan_to_num(table), Y)
        found = oob_permutation_importance(model, np.nan_to_num(table), Y)
        assert found.importances[6:].tolist() == [[0.0] * 5] * 2
        assert found.standard_error[6:].tolist() == [0.0, 0.0]
        ridge = BaggingRegressor(Ridge(), 20, random_state=0).fit(table[:, :7], Y)
        assert oob_permutation_importance(ridge, table[:, :7], Y).importances[6].tolist() == [0.0] * 5


class TestRefusals:
    def test_rows_that_are_not_those_of_training(self) -> None:
        model = RandomForestRegressor(30, random_state=0).fit(X, Y)
        for table, target in ((X[::-1], Y[::-1]), (X[:-1], Y[:-1]), (X[:, :5], Y)):
            with pytest.raises(DataMismatchError):
                oob_permutation_importance(model, table, target)
        with pytest.raises(BagError, match="without bootstrap"):
            oob_permutation_importance(RandomForestRegressor(5, bootstrap=False).fit(X, Y), X, Y)

    def test_ensembles_of_arrays_cannot_predict(self) -> None:
        arrays = ens_plugin.CustomEnsemble(np.zeros((5, N)), np.eye(N, dtype=bool)[:5], aggregation="mean")
        with pytest.raises(InputError, match="from_estimators"):
            oob_permutation_importance(arrays, X, Y)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"n_repeats": 0}, "n_repeats"), ({"n_repeats": 1.5}, "n_repeats"),
            ({"n_repeats": 10**30}, "n_repeats must be a whole number of at most 100000"),
            ({"max_rows": 1}, "max_rows"), ({"max_rows": 10**400}, "max_rows must be a whole number of at most"),
            ({"random_state": -1}, "random_state"), ({"n_jobs": 0}, "n_jobs"),
            ({"metric": "roc_auc"}, "'roc_auc' is for labels"),
            ({"metric": lambda y, mean: np.nan}, "must return a finite number"),
            ({"metric": lambda y, mean: 0.0, "sample_weight": np.ones(N)}, "takes no weights"),
            ({"sample_weight": np.ones(3)}, "sample_weight"), ({"groups": np.zeros(N)}, "single group"),
        ],
    )  # fmt: skip
    def test_wrong_options(self, options: dict[str, Any], words: str) -> None:
        model = RandomForestRegressor(10, random_state=0).fit(X, Y)
        with pytest.raises(InputError, match=words):
            oob_permutation_importance(model, X, Y, **options)

    def test_more_permutations_than_fit_into_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("ens_plugin.oob.importance.MOST_PERMUTED", 4 * N)
        model = RandomForestRegressor(30, random_state=0).fit(X, Y)
        with pytest.raises(
            InputError, match=rf"n_repeats=5 permutations of {N} rows do not fit into memory.* at most 4,"
        ):
            oob_permutation_importance(model, X, Y)

    def test_tables_without_columns_to_permute(self) -> None:
        class Table:
            def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
                return X

        model = make_pipeline(StandardScaler(), RandomForestRegressor(10, random_state=0)).fit(X, Y)
        with pytest.raises(InputError, match="is of type Table, whose columns cannot be permuted"):
            oob_permutation_importance(model, Table(), Y)

    def test_rows_in_every_bag(self) -> None:
        with pytest.raises(TooFewMembersError, match="in the bag of every member"):
            oob_permutation_importance(RandomForestRegressor(2, random_state=0).fit(X, Y), X, Y)
        rare = np.zeros(N, dtype=int)
        rare[:3] = 1
        drawn = [np.r_[:3, np.random.default_rng(seed).integers(3, N, N)] for seed in range(30)]
        trees = [DecisionTreeClassifier().fit(X[rows], rare[rows]) for rows in drawn]
        ensemble = ens_plugin.CustomEnsemble.from_estimators(trees, drawn)
        with pytest.raises(TooFewMembersError, match="3 of 3 rows of label 1"):
            oob_permutation_importance(ensemble, X, rare)


def test_a_metric_shows_no_standard_errors() -> None:
    forest = RandomForestClassifier(15, random_state=0).fit(X3, Y3)
    with_metric = oob_permutation_importance(forest, X3, Y3, metric="balanced_accuracy", n_repeats=1)
    assert "NaN" not in str(with_metric)
    assert "standard_error" not in str(with_metric)
    assert with_metric.to_frame()["standard_error"].isna().all()
    assert "standard_error" in str(oob_permutation_importance(forest, X3, Y3, n_repeats=1))
