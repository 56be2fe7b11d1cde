"""Forests of scikit-learn-intelex: judged on held-out rows as oneDAL predicts them, and refused by name elsewhere."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import ens_plugin
from ens_plugin.adapters import find_adapter
from ens_plugin.errors import BagError, InputError, UnsupportedModelError
from tests.extras import imported

imported("sklearnex")
from sklearnex.ensemble import (  # noqa: E402
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

# Slow, so that they are run where .ci/run has installed the library.
pytestmark = pytest.mark.slow

_RNG = np.random.default_rng(3)
# Of values near each other and far from 0, few are the same as float32.
X = 1e6 + _RNG.normal(size=(700, 5)).round(3)
VALUES = (X - 1e6) @ [1.0, 1.0, 0.5, 0.0, 0.0] + 0.5 * _RNG.normal(size=700)
LABELS = (VALUES > 0.3).astype(int)
TRAIN, FRESH = slice(0, 450), slice(450, 700)


def trained(cls: Any, rows: Any = X[TRAIN], **options: Any) -> Any:
    target = LABELS if "Classifier" in cls.__name__ else VALUES
    return cls(40, random_state=0, **options).fit(rows, target[TRAIN])


@pytest.mark.parametrize("cls", [RandomForestClassifier, RandomForestRegressor, ExtraTreesRegressor])
def test_held_out_rows_are_read_as_onedal_reads_them(cls: Any) -> None:
    """scikit-learn's trees, which take float32, had another error of many times the size, in silence."""
    forest = trained(cls)
    adapter = find_adapter(pickle.loads(pickle.dumps(forest)))
    mean = adapter.outputs(adapter.prepare(X[FRESH])).mean(axis=0)
    is_classifier = "Classifier" in cls.__name__
    np.testing.assert_allclose(
        mean, forest.predict_proba(X[FRESH]) if is_classifier else forest.predict(X[FRESH]), rtol=1e-12, atol=1e-12
    )
    target = LABELS if is_classifier else VALUES
    report = ens_plugin.analyze(forest, X[FRESH], target[FRESH], data="holdout")
    residual = forest.predict(X[FRESH]) - target[FRESH]
    expected = np.mean(residual != 0) if is_classifier else np.mean(residual**2)
    assert report.error == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("cls", [RandomForestClassifier, ExtraTreesClassifier])
def test_bags_and_fewer_trees_are_refused(cls: Any) -> None:
    """truncate returned a model that stated 3 trees and predicted with all."""
    forest = trained(cls, bootstrap=True)
    with pytest.raises(BagError, match=r"trained by scikit-learn-intelex.* sklearnex\.unpatch_sklearn\(\)"):
        ens_plugin.analyze(forest, X[TRAIN], LABELS[TRAIN])
    with pytest.raises(UnsupportedModelError, match="cannot be cut: a copy with its first 3 members"):
        ens_plugin.truncate(forest, 3)


def test_forest_that_is_left_to_scikit_learn_is_one_of_its_own() -> None:
    forest = trained(RandomForestClassifier, csr_matrix(X[TRAIN]))
    assert not hasattr(forest, "_onedal_estimator")
    assert ens_plugin.in_bag(forest, X[TRAIN], LABELS[TRAIN]).shape == (40, 450)
    small = ens_plugin.truncate(forest, 5)
    np.testing.assert_array_equal(
        small.predict_proba(X[FRESH]),
        np.mean([tree.predict_proba(X[FRESH]) for tree in forest.estimators_[:5]], axis=0),
    )


def test_sparse_rows_have_another_rounding() -> None:
    with pytest.raises(InputError, match=r"another rounding\. Pass numbers .* X\.toarray\(\)"):
        ens_plugin.analyze(trained(RandomForestClassifier), csr_matrix(X[FRESH]), LABELS[FRESH], data="holdout")
