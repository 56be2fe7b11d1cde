"""Predictions with standard errors and intervals: by their definitions, for each library, and on wrong input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification, make_friedman1
from sklearn.ensemble import BaggingClassifier, BaggingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeRegressor

import ens_plugin
from ens_plugin import predict_with_uncertainty
from ens_plugin.errors import BagError, DataMismatchError, InputError, TooFewMembersError
from tests.extras import lightgbm, xgboost

N = 90
X, Y = make_friedman1(N, n_features=6, noise=1.0, random_state=0)
NEW = make_friedman1(25, n_features=6, random_state=1)[0]
LABELS = np.array(["a", "b", "c"])[np.digitize(Y, np.quantile(Y, [0.3, 0.6]))]
LIGHTGBM: dict[str, Any] = {
    "boosting_type": "rf", "n_estimators": 25, "subsample": 0.6, "subsample_freq": 1, "min_child_samples": 3,
    "random_state": 3, "verbose": -1, "n_jobs": 1,
}  # fmt: skip
XGBOOST: dict[str, Any] = {"n_estimators": 25, "subsample": 0.6, "max_depth": 4, "random_state": 3, "n_jobs": 1}


def forest(n_estimators: int = 40, **options: Any) -> Any:
    return RandomForestRegressor(n_estimators, random_state=0, **options)


def offsets(found: Any) -> tuple[float, float]:
    """Distances of the limits from the prediction, equal for all rows."""
    for limit in (found.lower, found.upper):
        np.testing.assert_allclose(limit - found.prediction, (limit - found.prediction)[0], rtol=1e-9)
    return float((found.lower - found.prediction)[0]), float((found.upper - found.prediction)[0])


class TestIntervals:
    def test_limits_are_quantiles_of_narrowed_out_of_bag_residuals(self) -> None:
        model = forest(oob_score=True).fit(X, Y)
        found = predict_with_uncertainty(model, X, Y, NEW, interval_level=0.9)
        in_bag = np.zeros((40, N), dtype=bool)
        for member, rows in enumerate(model.estimators_samples_):
            in_bag[member, rows] = True
        outputs = np.stack([tree.predict(X) for tree in model.estimators_])
        trials = (~in_bag).sum(axis=0)
        member = np.array([outputs[~in_bag[:, row], row].var(ddof=1) for row in range(N)])
        residuals = Y - model.oob_prediction_
        off = residuals - residuals.mean()
        spread = np.mean(off**2 - member / trials)
        assert spread > 0
        factor = np.sqrt((spread + member.mean() / 40) / (spread + member.mean() / trials))
        narrowed = residuals.mean() + factor * off
        limits = np.quantile(narrowed, [0.05, 0.95], method="weibull")  # the (n + 1) p-th
        np.testing.assert_allclose(offsets(found), limits, rtol=1e-9)
        assert found.interval_level == 0.9
        assert factor.max() < 1
        assert np.ptp(limits) < np.ptp(np.quantile(residuals, [0.05, 0.95], method="weibull"))

    def test_too_few_rows_for_a_level_are_refused(self) -> None:
        model = forest().fit(X[:38], Y[:38])
        with pytest.raises(InputError, match=r"level 0\.95 needs at least 39 rows .* there are 38"):
            predict_with_uncertainty(model, X[:38], Y[:38], NEW)
        assert offsets(predict_with_uncertainty(model, X[:38], Y[:38], NEW, interval_level=0.9))[0] < 0

    def test_groups_are_left_out_as_wholes(self) -> None:
        rng = np.random.default_rng(0)
        groups = np.repeat(np.arange(45), 4)
        table = np.repeat(X[:45], 4, axis=0) + 0.01 * rng.normal(size=(180, 6))
        target = np.repeat(Y[:45], 4) + 0.1 * rng.normal(size=180)
        model = forest(80, max_samples=0.3).fit(table, target)
        grouped = offsets(predict_with_uncertainty(model, table, target, NEW, groups=groups))
        alone = offsets(predict_with_uncertainty(model, table, target, NEW))
        assert grouped[1] - grouped[0] > 1.5 * (alone[1] - alone[0])
        with pytest.raises(InputError, match="at least 39 groups"):
            predict_with_uncertainty(model, table, target, NEW, groups=groups // 2)

    def test_weights_move_the_quantiles(self) -> None:
        model = forest().fit(X, Y)
        high = np.quantile(Y, 0.3) < Y
        plain = offsets(predict_with_uncertainty(model, X, Y, NEW, interval_level=0.8))
        weighted = predict_with_uncertainty(
            model, X, Y, NEW, interval_level=0.8, sample_weight=np.where(high, 1.0, 0.1)
        )
        # Rows of low targets are predicted too high: with less weight on them, both ends go up.
        assert offsets(weighted)[0] > plain[0]
        equal = predict_with_uncertainty(model, X, Y, NEW, interval_level=0.8, sample_weight=np.full(N, 0.2))
        np.testing.assert_allclose(offsets(equal), plain)


class TestPredictions:
    """Those of the library's own predict, with intervals around them for regression."""

    @pytest.mark.fast_cases("forest", "bagging", "estimators")
    @pytest.mark.parametrize("kind", ["forest", "bagging", "pipeline", "search", "estimators"])
    def test_regression(self, kind: str) -> None:
        drawn = np.random.default_rng(0).integers(0, N, (40, N))
        trees = [DecisionTreeRegressor(random_state=0).fit(X[rows], Y[rows]) for rows in drawn]
        model: Any = {
            "forest": lambda: forest().fit(X, Y),
            "bagging": lambda: BaggingRegressor(n_estimators=40, random_state=0).fit(X, Y),
            "pipeline": lambda: make_pipeline(StandardScaler(), forest()).fit(X, Y),
            "search": lambda: GridSearchCV(forest(), {"max_depth": [3]}, cv=2).fit(X, Y),
            "estimators": lambda: ens_plugin.CustomEnsemble.from_estimators(trees, drawn),
        }[kind]()
        found = predict_with_uncertainty(model, X, Y, NEW)
        own = np.mean([tree.predict(NEW) for tree in trees], axis=0) if kind == "estimators" else model.predict(NEW)
        np.testing.assert_allclose(found.prediction, own, rtol=1e-9)
        assert (found.lower < found.prediction).all()
        assert (found.prediction < found.upper).all()
        assert (found.standard_error > 0).all()
        variance = ens_plugin.training_variance(model, X, NEW, y_train=Y)
        assert (found.standard_error**2 > variance.seed_variance).all()
        assert found.standard_error_kind == "upper bound"
        assert "40 members are too few to estimate" in found.warnings[-1]

    def test_classification_has_no_interval(self) -> None:
        model = RandomForestClassifier(40, random_state=0).fit(X, LABELS)
        found = predict_with_uncertainty(model, X, LABELS, NEW)
        np.testing.assert_allclose(found.prediction, model.predict_proba(NEW), atol=1e-12)
        assert found.lower is found.upper is None
        assert found.classes.tolist() == ["a", "b", "c"]
        frame = found.to_frame()
        assert list(frame["standard_error"].columns) == ["a", "b", "c"]
        np.testing.assert_array_equal(frame["prediction"]["b"], found.prediction[:, 1])
        votes = BaggingClassifier(LinearSVC(dual=False), 20, random_state=0).fit(X, LABELS)
        shares = predict_with_uncertainty(votes, X, LABELS, NEW).prediction
        np.testing.assert_allclose(shares, votes.predict_proba(NEW), atol=1e-12)

    @pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
    def test_boosters(self, library: str) -> None:
        regressor = xgboost.XGBRFRegressor(**XGBOOST) if library == "xgboost" else lightgbm.LGBMRegressor(**LIGHTGBM)
        regressor.fit(X, Y)
        found = predict_with_uncertainty(regressor, X, Y, NEW)
        np.testing.assert_allclose(found.prediction, regressor.predict(NEW), rtol=1e-4)
        # XGBoost's draws put the first two rows into nearly every bag, which moves no limit.
        assert not any("in the bag of every member" in text for text in found.warnings)
        low, high = offsets(found)
        assert low < -1 < 1 < high
        assert np.isfinite(found.standard_error).all()
        single = predict_with_uncertainty(regressor, X, Y, NEW, groups=np.arange(N))
        np.testing.assert_array_equal(single.standard_error, found.standard_error)
        pairs = predict_with_uncertainty(regressor, X, Y, NEW, groups=np.arange(N) // 2)
        assert np.isnan(pairs.standard_error).all()
        assert pairs.standard_error_kind == "unknown"
        assert "only for bags drawn with replacement" in pairs.warnings[-1]
        kind = xgboost.XGBRFClassifier(**XGBOOST) if library == "xgboost" else lightgbm.LGBMClassifier(**LIGHTGBM)
        codes = np.unique(LABELS, return_inverse=True)[1]
        kind.fit(X, codes)
        shares = predict_with_uncertainty(kind, X, codes, NEW)
        np.testing.assert_allclose(shares.prediction, kind.predict_proba(NEW), rtol=1e-4)
        if library == "xgboost":
            # Its trees of several labels have bags of their own, for which no formula is known.
            assert np.isnan(shares.standard_error).all()
            assert any(text.startswith("The standard error is not known.") for text in shares.warnings)

    def test_few_members_have_no_standard_error(self) -> None:
        drawn = np.arange(N) % 3 != np.arange(3)[:, None]
        trees = [DecisionTreeRegressor(random_state=0).fit(X[rows], Y[rows]) for rows in drawn]
        two = ens_plugin.CustomEnsemble.from_estimators(trees, drawn)
        with pytest.raises(InputError, match="Fewer than two rows have two out-of-bag members"):
            predict_with_uncertainty(two, X, Y, NEW)
        classifier = RandomForestClassifier(3, max_samples=0.3, random_state=0).fit(X, LABELS)
        found = predict_with_uncertainty(classifier, X, LABELS, NEW)
        assert np.isnan(found.standard_error).all()
        assert "has 3 members" in found.warnings[-1]

    def test_table_has_the_index_of_the_new_rows(self) -> None:
        names = [f"column {index}" for index in range(6)]
        table, new = pd.DataFrame(X, columns=names), pd.DataFrame(NEW, columns=names, index=np.arange(25) * 3)
        model = forest().fit(table, Y)
        found = predict_with_uncertainty(model, table, Y, new)
        frame = found.to_frame()
        assert frame.index.tolist() == new.index.tolist()
        assert frame.columns.tolist() == ["prediction", "standard_error", "lower", "upper"]
        assert predict_with_uncertainty(model, table, Y, new, n_jobs=2).to_frame().equals(frame)

    def test_many_rows_are_a_short_text_with_the_warnings(self) -> None:
        found = predict_with_uncertainty(forest(20).fit(X, Y), X, Y, np.tile(NEW, (6, 1)))
        text = str(found)
        assert text.startswith("PredictionUncertainty of 150 rows, of which these are the first 5:")
        assert max(map(len, text.splitlines())) <= 80
        assert text.count("Warning: ") == len(found.warnings) > 0


class TestKindOfStandardError:
    @pytest.mark.slow
    def test_many_members_give_an_estimate_and_rows_without_spread_a_standard_error(self) -> None:
        model = RandomForestClassifier(500, random_state=0).fit(X, np.quantile(Y, 0.85) < Y)
        found = predict_with_uncertainty(model, X, np.quantile(Y, 0.85) < Y, NEW)
        assert found.standard_error_kind == "estimate"
        agreed = ens_plugin.training_variance(model, X, NEW).seed_variance[:, 0] < 1e-4
        assert agreed.any()
        assert (found.standard_error[agreed] > 0.01).all()

    def test_few_members_and_bags_of_unequal_chances_give_a_named_upper_bound(self) -> None:
        few = predict_with_uncertainty(forest(12).fit(X, Y), X, Y, NEW[:1])
        assert few.standard_error_kind == "upper bound"
        assert "The standard errors are an upper bound: 12 members are too few" in str(few.warnings)
        drawn = np.random.default_rng(0).integers(0, N, (60, N))
        drawn[:, :2] = [0, 1]
        trees = [DecisionTreeRegressor(random_state=0).fit(X[rows], Y[rows]) for rows in drawn]
        unequal = ens_plugin.CustomEnsemble.from_estimators(trees, drawn)
        found = predict_with_uncertainty(unequal, X, Y, NEW)
        assert found.standard_error_kind == "upper bound"
        assert "only the infinitesimal jackknife is known" in str(found.warnings)


class TestRefusals:
    def test_rows_that_are_not_those_of_training(self) -> None:
        model = forest().fit(X, Y)
        with pytest.raises(DataMismatchError):
            predict_with_uncertainty(model, X[::-1], Y[::-1], NEW)
        with pytest.raises(DataMismatchError, match=r"X_new cannot be predicted\. X has 3 columns"):
            predict_with_uncertainty(model, X, Y, NEW[:, :3])
        with pytest.raises(InputError, match=r"no rows|0 sample"):
            predict_with_uncertainty(model, X, Y, NEW[:0])
        with pytest.raises(BagError, match="without bootstrap"):
            predict_with_uncertainty(forest(bootstrap=False).fit(X, Y), X, Y, NEW)
        with pytest.raises(TooFewMembersError, match="in the bag of every member"):
            predict_with_uncertainty(forest(2).fit(X, Y), X, Y, NEW)

    def test_options(self) -> None:
        model = forest(10).fit(X, Y)
        for level in (0.0, 1.0, 95, "high", float("nan")):
            with pytest.raises(InputError, match="interval_level"):
                predict_with_uncertainty(model, X, Y, NEW, interval_level=level)  # type: ignore[arg-type]
        arrays = ens_plugin.CustomEnsemble(np.zeros((5, N)), np.eye(N, dtype=bool)[:5], aggregation="mean")
        with pytest.raises(InputError, match="from_estimators"):
            predict_with_uncertainty(arrays, X, Y, NEW)
        rows, labels = make_classification(60, random_state=0)
        classifier = RandomForestClassifier(10, random_state=0).fit(rows, labels)
        with pytest.raises(InputError, match="sample_weight weights the residuals"):
            predict_with_uncertainty(classifier, rows, labels, rows, sample_weight=np.ones(60))
