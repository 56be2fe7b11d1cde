"""Permutation importance of out-of-bag rows: by brute force, on wrong input, and in repeated simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification, make_friedman1
from sklearn.ensemble import BaggingClassifier, BaggingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import Ridge
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import ens_plugin
from ens_plugin import oob_permutation_importance
from ens_plugin.errors import BagError, DataMismatchError, InputError, TooFewMembersError
from tests.adapters.lightgbm.lightgbm_draws import drawn_bags, stated_seed
from tests.extras import lightgbm, xgboost

Array = np.ndarray[Any, Any]

N = 90
X, Y = make_friedman1(N, n_features=6, noise=1.0, random_state=0)
X3, Y3 = make_classification(N, 5, n_informative=3, n_redundant=0, n_classes=3, n_clusters_per_class=1, random_state=1)
NAMES = np.array(["birch", "ash", "oak"])
LIGHTGBM: dict[str, Any] = {
    "boosting_type": "rf", "n_estimators": 15, "subsample": 0.6, "subsample_freq": 1, "min_child_samples": 3,
    "random_state": 3, "verbose": -1, "n_jobs": 1,
}  # fmt: skip
XGBOOST: dict[str, Any] = {"n_estimators": 15, "subsample": 0.6, "max_depth": 4, "random_state": 3, "n_jobs": 1}


def orders(column: int, n_repeats: int, n_rows: int) -> list[Array]:
    """The permutations, as the docstring of the seed has them: one generator for each column and repetition."""
    return [np.random.default_rng([0, column, repeat]).permutation(n_rows) for repeat in range(n_repeats)]


def in_bag_of(samples: Any, n_rows: int = N) -> Array:
    mask = np.zeros((len(samples), n_rows), dtype=bool)
    for member, rows in enumerate(samples):
        mask[member, rows] = True
    return mask


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


def values_of(members: Any) -> Any:
    return lambda table: np.stack([member.predict(table) for member in members])


def probabilities_of(members: Any) -> Any:
    return lambda table: np.stack([member.predict_proba(table) for member in members])


def votes_of(members: Any, n_labels: int) -> Any:
    return lambda table: np.stack([np.eye(n_labels)[member.predict(table)] for member in members])


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

    def test_bagging_without_replacement(self) -> None:
        model = BaggingRegressor(Ridge(), 10, bootstrap=False, max_samples=0.5, random_state=0).fit(X, Y)
        found = oob_permutation_importance(model, X, Y, n_repeats=2)
        expected = brute_force(values_of(model.estimators_), in_bag_of(model.estimators_samples_), X, Y)
        np.testing.assert_allclose(found.importances, expected, atol=1e-8)

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
        assert "in the bag of every member" in found.warnings[-1]
        np.testing.assert_allclose(found.importances, brute_force(predict, in_bag, X, Y), rtol=1e-3, atol=1e-3)

    def test_models_of_ones_own(self) -> None:
        drawn = np.random.default_rng(0).integers(0, N, (8, N))
        frame = pd.DataFrame(X3, columns=list("abcde"))
        trees = [DecisionTreeClassifier(max_depth=2).fit(frame.iloc[rows], Y3[rows]) for rows in drawn]
        ensemble = ens_plugin.CustomEnsemble.from_estimators(trees, drawn)
        found = oob_permutation_importance(ensemble, frame, Y3, n_repeats=1)
        plain = [DecisionTreeClassifier(max_depth=2).fit(X3[rows], Y3[rows]) for rows in drawn]
        for own, other in zip(plain, trees, strict=True):
            own.tree_ = other.tree_
        expected = brute_force(probabilities_of(plain), in_bag_of(drawn), X3, Y3, n_repeats=1)
        np.testing.assert_allclose(found.importances, expected, atol=1.1 / N)
        assert found.feature_names == ("a", "b", "c", "d", "e")


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

    def test_two_copies_share_what_one_had(self) -> None:
        single = RandomForestRegressor(30, max_features=0.5, random_state=0).fit(X, Y)
        table = np.column_stack([X, X[:, 3]])
        double = RandomForestRegressor(30, max_features=0.5, random_state=0).fit(table, Y)
        alone = oob_permutation_importance(single, X, Y).importances_mean[3]
        found = oob_permutation_importance(double, table, Y)
        both = found.importances_mean[[3, 6]]
        assert (both > 3 * found.standard_error[[3, 6]]).all()
        assert both.max() < 0.8 * alone


class TestErrors:
    """Standard errors, weights, groups and metrics."""

    def test_weights_are_those_of_the_error(self) -> None:
        model = RandomForestRegressor(40, random_state=0).fit(X, Y)
        weight = np.random.default_rng(0).integers(0, 3, N).astype(float)
        kept = np.flatnonzero(weight)
        found = oob_permutation_importance(model, X, Y, sample_weight=weight, n_repeats=1)
        in_bag, members = in_bag_of(model.estimators_samples_), values_of(model.estimators_)

        def error(table: Array) -> float:
            mean = (members(table) * ~in_bag).sum(axis=0) / (~in_bag).sum(axis=0)
            return float(np.average((mean - Y) ** 2, weights=weight))

        changed = X.copy()
        changed[kept, 1] = X[kept[orders(1, 1, kept.size)[0]], 1]
        assert found.importances[1, 0] == pytest.approx(error(changed) - error(X))
        assert found.error == pytest.approx(error(X))
        doubled = oob_permutation_importance(model, X, Y, sample_weight=7 * weight, n_repeats=1)
        np.testing.assert_allclose(doubled.standard_error, found.standard_error)

    def test_groups_leave_out_all_their_rows_and_widen_the_error(self) -> None:
        table, target, groups = np.repeat(X, 2, axis=0), np.repeat(Y, 2), np.repeat(np.arange(N), 2)
        model = RandomForestRegressor(30, max_samples=0.5, random_state=0).fit(table, target)
        grouped = oob_permutation_importance(model, table, target, groups=groups)
        alone = oob_permutation_importance(model, table, target, groups=np.arange(2 * N))
        assert grouped.error > 1.3 * alone.error
        assert grouped.standard_error[3] / grouped.importances_mean[3] > (
            1.2 * alone.standard_error[3] / alone.importances_mean[3]
        )
        identical = oob_permutation_importance(model, table, target, groups="identical")
        np.testing.assert_array_equal(identical.importances, grouped.importances)
        with pytest.raises(InputError, match="probably copies"):
            oob_permutation_importance(model, table, target)

    def test_a_metric_sees_mean_probabilities_and_has_no_standard_error(self) -> None:
        model = RandomForestClassifier(30, max_depth=2, random_state=0).fit(X3, NAMES[Y3])

        def loss(y: Array, mean: Array) -> float:
            return float(log_loss(y, mean / mean.sum(axis=1, keepdims=True), labels=model.classes_))

        found = oob_permutation_importance(model, X3, NAMES[Y3], metric=loss, n_repeats=2)
        stored = RandomForestClassifier(30, max_depth=2, oob_score=True, random_state=0).fit(X3, NAMES[Y3])
        assert found.error == pytest.approx(loss(NAMES[Y3], stored.oob_decision_function_))
        assert np.isnan(found.standard_error).all()
        assert found.importances_mean.max() > 0.05
        squared = oob_permutation_importance(
            RandomForestRegressor(30, random_state=0).fit(X, Y), X, Y, metric=lambda y, mean: np.mean((y - mean) ** 2)
        )
        plain = oob_permutation_importance(RandomForestRegressor(30, random_state=0).fit(X, Y), X, Y)
        np.testing.assert_allclose(squared.importances, plain.importances)

    def test_threads_and_seeds(self) -> None:
        model = RandomForestClassifier(20, random_state=0).fit(X3, Y3)
        one, two = (oob_permutation_importance(model, X3, Y3, n_jobs=n_jobs).importances for n_jobs in (1, 2))
        np.testing.assert_array_equal(one, two)
        assert (one != oob_permutation_importance(model, X3, Y3, random_state=1).importances).any()

    def test_some_rows_stand_for_all(self) -> None:
        model = RandomForestRegressor(30, random_state=0).fit(X, Y)
        found = oob_permutation_importance(model, X, Y, max_rows=40)
        whole = oob_permutation_importance(model, X, Y)
        assert found.n_rows == 40
        assert (
            oob_permutation_importance(model, X, Y, max_rows=10**6).importances.tolist() == whole.importances.tolist()
        )
        assert found.standard_error[3] > whole.standard_error[3]

    def test_signs_agree_with_importances_of_single_trees(self) -> None:
        """As R's randomForest has them: each tree's own error on its own out-of-bag rows."""
        model = RandomForestRegressor(60, random_state=0).fit(X, Y)
        in_bag, rng = in_bag_of(model.estimators_samples_), np.random.default_rng(0)
        by_tree = np.zeros((60, 6))
        for tree, member in enumerate(model.estimators_):
            rows = np.flatnonzero(~in_bag[tree])
            before = np.mean((member.predict(X[rows]) - Y[rows]) ** 2)
            for column in range(6):
                table = X[rows].copy()
                table[:, column] = rng.permutation(table[:, column])
                by_tree[tree, column] = np.mean((member.predict(table) - Y[rows]) ** 2) - before
        found = oob_permutation_importance(model, X, Y)
        clear = found.importances_mean > 3 * found.standard_error
        assert clear.sum() >= 3
        assert (by_tree.mean(axis=0)[clear] > 0).all()

    def test_result_is_a_table_and_a_picture(self) -> None:
        found = oob_permutation_importance(RandomForestRegressor(20, random_state=0).fit(X, Y), X, Y)
        frame = found.to_frame()
        assert frame.index.tolist() == [f"x{column}" for column in range(6)]
        np.testing.assert_array_equal(frame["standard_error"], found.standard_error)
        ax = found.plot()
        assert ax.get_yticklabels()[-1].get_text() == frame["importances_mean"].idxmax()
        assert len(ax.patches) == 6


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
            ({"n_repeats": 0}, "n_repeats"),
            ({"n_repeats": 1.5}, "n_repeats"),
            ({"max_rows": 1}, "max_rows"),
            ({"random_state": -1}, "random_state"),
            ({"n_jobs": 0}, "n_jobs"),
            ({"metric": "roc_auc"}, "'roc_auc' is of labels"),
            ({"metric": lambda y, mean: np.nan}, "must return a finite number"),
            ({"metric": lambda y, mean: 0.0, "sample_weight": np.ones(N)}, "takes no weights"),
            ({"sample_weight": np.ones(3)}, "sample_weight"),
            ({"groups": np.zeros(N)}, "single group"),
        ],
    )
    def test_wrong_options(self, options: dict[str, Any], words: str) -> None:
        model = RandomForestRegressor(10, random_state=0).fit(X, Y)
        with pytest.raises(InputError, match=words):
            oob_permutation_importance(model, X, Y, **options)

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

    def test_tables_without_columns_to_permute(self) -> None:
        class Table:
            def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
                return X

        model = make_pipeline(StandardScaler(), RandomForestRegressor(10, random_state=0)).fit(X, Y)
        with pytest.raises(InputError, match="is a Table, whose columns cannot be permuted"):
            oob_permutation_importance(model, Table(), Y)


@pytest.mark.slow
def test_columns_of_noise_have_importances_within_three_standard_errors_of_none() -> None:
    """Over 200 data sets of two kinds; coverage is printed, and is at least 98 % for regression and for labels."""
    for is_classifier in (False, True):
        ratios, clear = [], []
        for seed in range(100):
            rng = np.random.default_rng(seed)
            table = rng.normal(size=(150, 6))
            values = table[:, 0] + table[:, 1] + rng.normal(size=150)
            kind = RandomForestClassifier if is_classifier else RandomForestRegressor
            target = values > 0 if is_classifier else values
            model = kind(60, random_state=seed).fit(table, target)
            found = oob_permutation_importance(model, table, target)
            clear.append(found.importances_mean[:2] > 2 * found.standard_error[:2])
            ratios.append(found.importances_mean[2:] / found.standard_error[2:])
        within = [float(np.mean(np.abs(ratios) < width)) for width in (1, 2, 3)]
        print(f"classifier {is_classifier}: within 1, 2, 3 standard errors {within}, mean ratio {np.mean(ratios):.2f}")
        assert np.mean(clear) > 0.9
        assert within[1] > 0.9
        assert within[2] > 0.98


@pytest.mark.slow
def test_standard_errors_are_those_over_draws_of_rows_that_members_never_met() -> None:
    """One forest, 300 draws of fresh rows: in no bag, they are judged as out-of-bag rows are."""
    table, target = make_friedman1(200, n_features=6, noise=1.0, random_state=0)
    trees = RandomForestRegressor(8, random_state=0).fit(table, target).estimators_
    found, errors = [], []
    for seed in range(1, 301):
        fresh, values = make_friedman1(100, n_features=6, noise=1.0, random_state=seed)
        ensemble = ens_plugin.CustomEnsemble.from_estimators(trees, np.zeros((8, 100), dtype=bool))
        result = oob_permutation_importance(ensemble, fresh, values, n_repeats=3)
        found.append(result.importances_mean)
        errors.append(result.standard_error)
    ratio = np.sqrt(np.mean(np.square(errors), axis=0)) / np.std(found, axis=0)
    print("standard error over spread, by column:", ratio.round(2))
    assert (np.abs(ratio[:5] - 1) < 0.15).all()
    assert (ratio > 0.85).all()


def test_regression_trees_of_ones_own_need_no_frame() -> None:
    drawn = np.random.default_rng(0).integers(0, N, (12, N))
    trees = [DecisionTreeRegressor(random_state=0).fit(X[rows], Y[rows]) for rows in drawn]
    ensemble = ens_plugin.CustomEnsemble.from_estimators(trees, drawn)
    found = oob_permutation_importance(ensemble, X, Y, n_repeats=2)
    np.testing.assert_allclose(found.importances, brute_force(values_of(trees), in_bag_of(drawn), X, Y), atol=1e-9)
