from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris

import ens_plugin
from ens_plugin import grow
from ens_plugin.errors import BagError, UnsupportedModelError
from tests.extras import lightgbm, xgboost

X, Y = (part[::2] for part in load_breast_cancer(return_X_y=True))
TIGHT: dict[str, Any] = {"tolerance": 0.012, "probe_size": 20}


def lightgbm_forest(**options: Any) -> Any:
    settings = {
        "boosting_type": "rf", "subsample": 0.632, "subsample_freq": 1, "random_state": 0, "verbose": -1,
        "min_child_samples": 10, "n_jobs": 1,
    }  # fmt: skip
    return lightgbm.LGBMClassifier(**{**settings, "colsample_bytree": 0.5, **options})


def trees_of(model: Any) -> str:
    text = model.booster_.model_to_string()
    return str(text[text.index("Tree=0") : text.index("end of trees")])


class TestLightGBM:
    def test_grows_in_a_single_fit_to_the_trees_of_one_training(self) -> None:
        growth = grow(lightgbm_forest(), X, Y, **TIGHT)
        whole = lightgbm_forest(n_estimators=growth.n_members).fit(X, Y)
        assert growth.trained_members > 20
        assert growth.trained_members == growth.history[-1].n_members
        assert trees_of(growth.model) == trees_of(whole)
        assert growth.model.get_params() == whole.get_params()
        assert growth.model.n_estimators_ == whole.n_estimators_
        assert growth.model.best_iteration_ == whole.best_iteration_
        assert_array_equal(growth.model.predict_proba(X), whole.predict_proba(X))

    def test_the_estimates_on_the_way_are_those_of_such_models(self) -> None:
        growth = grow(lightgbm_forest(), X, Y, **TIGHT)
        for step in growth.history:
            model = lightgbm_forest(n_estimators=step.n_members).fit(X, Y)
            found = ens_plugin.analyze(model, X, Y, tolerance=TIGHT["tolerance"]).recommendation
            assert step.recommended_size == found.size
            assert step.loss == found.loss
        assert growth.report.model == "LGBMClassifier"

    def test_labels_need_not_be_codes(self) -> None:
        rows, codes = load_iris(return_X_y=True)
        names = np.array(["setosa", "versicolor", "virginica"])[codes]
        model = lightgbm_forest(min_child_samples=3)
        growth = grow(model, rows, names, criterion="agreement", tolerance=0.03)
        assert set(growth.model.predict(rows)) == set(names)
        assert growth.n_members == grow(model, rows, codes, criterion="agreement", tolerance=0.03).n_members

    def test_the_number_of_trees_under_another_name(self) -> None:
        growth = grow(lightgbm_forest(num_trees=7), X, Y, **TIGHT)
        assert growth.model.get_params()["num_trees"] == growth.n_members == growth.model.booster_.num_trees() > 20

    def test_boosting_and_rankers_are_refused(self) -> None:
        for options in ({"boosting_type": "gbdt"}, {"boosting": "gbdt"}):
            with pytest.raises(UnsupportedModelError, match="boosting_type='gbdt'"):
                grow(lightgbm_forest(**options), X, Y)
        with pytest.raises(UnsupportedModelError, match="LGBMRanker cannot be grown"):
            grow(lightgbm.LGBMRanker(boosting_type="rf"), X, Y)

    @pytest.mark.parametrize(
        "parameters", [{"subsample_freq": 0}, {"subsample": 1.0}, {"bagging_fraction": 1.0}, {"bagging_freq": 0}]
    )
    def test_parameters_without_bags_are_refused(self, parameters: dict[str, Any]) -> None:
        with pytest.raises(BagError, match=r"Set subsample=0\.632 and subsample_freq=1"):
            grow(lightgbm_forest(**parameters), X, Y)

    def test_bags_by_label_are_grown(self) -> None:
        bags = {"subsample": 1.0, "pos_subsample": 0.5, "neg_bagging_fraction": 0.6, "colsample_bytree": 0.8}
        assert grow(lightgbm_forest(**bags), X, Y).n_members > 20


class TestXGBoost:
    def test_starts_anew_and_counts_it(self) -> None:
        # By default four in five rows are in the bag, so that each row is out of bag for few.
        forest = xgboost.XGBRFClassifier(random_state=0, subsample=0.5, n_jobs=1)
        growth = grow(forest, X, Y, **TIGHT)
        whole = clone(forest).set_params(n_estimators=growth.history[-1].n_members).fit(X, Y)
        assert growth.trained_members == sum(step.n_members for step in growth.history)
        assert [step.trained_members for step in growth.history] == list(
            np.cumsum([step.n_members for step in growth.history])
        )
        assert ens_plugin.analyze(growth.model, X, Y).n_members == growth.n_members > 20
        if growth.n_members == growth.history[-1].n_members:
            assert growth.model.get_booster().get_dump() == whole.get_booster().get_dump()
        assert growth.model.get_params()["n_estimators"] == growth.n_members

    def test_parallel_trees_of_one_round(self) -> None:
        trees = xgboost.XGBClassifier(n_estimators=1, learning_rate=1, subsample=0.632, colsample_bynode=0.3, n_jobs=1)
        growth = grow(trees, X, Y, **TIGHT)
        whole = clone(trees).set_params(num_parallel_tree=growth.n_members).fit(X, Y)
        assert growth.model.get_booster().get_dump() == whole.get_booster().get_dump()

    def test_boosting_and_a_booster_are_refused(self) -> None:
        for model in (xgboost.XGBClassifier(), xgboost.XGBRegressor(n_estimators=10)):
            with pytest.raises(UnsupportedModelError, match="boosting rounds"):
                grow(model, X, Y)
        booster = xgboost.train({"num_parallel_tree": 3, "nthread": 1}, xgboost.DMatrix(X, Y), num_boost_round=1)
        with pytest.raises(UnsupportedModelError, match="a Booster only exists once it is trained"):
            grow(booster, X, Y)

    def test_members_that_see_every_row_are_refused(self) -> None:
        with pytest.raises(BagError, match="subsample"):
            grow(xgboost.XGBRFClassifier(subsample=1.0, n_jobs=1), X, Y)
