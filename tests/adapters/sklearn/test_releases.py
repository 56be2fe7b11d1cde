"""Ensembles that one release of scikit-learn trained and pickled, opened by the one that is installed."""

from __future__ import annotations

import lzma
import pickle
import warnings
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import ens_plugin
from ens_plugin.errors import BagError
from tests.adapters.sklearn.pickles.make import HERE, RELEASES, training_rows
from tests.extras import SKLEARN_RELEASE

FORESTS = ("RandomForestClassifier", "RandomForestRegressor", "ExtraTreesClassifier", "ExtraTreesRegressor")
NAMES = (*FORESTS, "BaggingClassifier", "BaggingRegressor")
X, LABELS, VALUES, WEIGHT = training_rows()


@lru_cache
def pickles_of(release: str) -> dict[str, bytes]:
    loaded: dict[str, bytes] = pickle.loads(lzma.decompress((HERE / f"{release}.pickle.xz").read_bytes()))
    return loaded


def opened(release: str, name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of another release
        return pickle.loads(pickles_of(release)[name])


def stored(model: Any) -> Any:
    return model.oob_decision_function_ if hasattr(model, "classes_") else model.oob_prediction_


@pytest.mark.slow
@pytest.mark.parametrize("weighted", ["", ", weighted"], ids=["", "weighted"])
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("release", RELEASES)
def test_ensemble_of_each_release_is_analysed_to_its_stored_predictions(release: str, name: str, weighted: str) -> None:
    model, target = opened(release, name + weighted), LABELS if "Classifier" in name else VALUES
    drew_by_weight = bool(weighted) and release >= "1.8" and (release >= "1.9" or "Bagging" in name)
    if drew_by_weight and "Bagging" in name and SKLEARN_RELEASE < (1, 8):
        with pytest.raises(BagError, match=r"trained by scikit-learn 1\.8 or later, .* scikit-learn 1\.\d\.\d"):
            ens_plugin.oob_predictions(model, X, target)
        return
    found = ens_plugin.oob_predictions(model, X, target)
    has_members = found.n_members > 0
    assert has_members.mean() > 0.5
    np.testing.assert_allclose(found.values[has_members], stored(model)[has_members], rtol=1e-12)
    report = ens_plugin.analyze(model, X, target)
    assert not [text for text in report.warnings if "could not be checked" in text]
