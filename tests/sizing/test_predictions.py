from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.ensemble import RandomForestClassifier

from ens_plugin.sizing.truncate import labels

DATA = {2: load_breast_cancer(return_X_y=True), 3: load_iris(return_X_y=True)}


def xgboost_model(n_labels: int) -> Any:
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed: pip install 'ens-plugin[xgboost]'")
    return xgboost.XGBClassifier(n_estimators=1, num_parallel_tree=12, subsample=0.6).fit(*DATA[n_labels])


def lightgbm_model(n_labels: int) -> Any:
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed: pip install 'ens-plugin[lightgbm]'")
    forest = lightgbm.LGBMClassifier(boosting_type="rf", n_estimators=12, subsample=0.6, subsample_freq=1, verbose=-1)
    return forest.fit(*DATA[n_labels])


@pytest.mark.parametrize("n_labels", DATA)
def test_a_booster_gives_the_labels_of_its_own_wrapper(n_labels: int) -> None:
    rows = DATA[n_labels][0]
    for model, booster in (
        (xgboost_model(n_labels), lambda model: model.get_booster()),
        (lightgbm_model(n_labels), lambda model: model.booster_),
    ):
        expected = model.predict(rows)
        assert set(expected) == set(range(n_labels))
        assert np.array_equal(labels(model, rows), expected)
        assert np.array_equal(labels(booster(model), rows), expected)


def test_labels_of_a_classifier_are_its_own() -> None:
    rows, y = DATA[3]
    names = np.array(["x", "y", "z"])[y]
    forest = RandomForestClassifier(5, random_state=0).fit(rows, names)
    assert np.array_equal(labels(forest, rows), forest.predict(rows))
