"""Isolation forests, by labels that they were not trained with."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score

import ens_plugin
from ens_plugin.errors import BagError, InputError
from ens_plugin.testing import check_adapter

RNG = np.random.default_rng(0)
X = np.concatenate([RNG.normal(size=(360, 3)), 2.5 * RNG.normal(size=(40, 3))])
Y = np.repeat([1, -1], [360, 40])
FORMS: dict[str, dict[str, Any]] = {
    "default": {},
    "contamination": {"max_samples": 100, "contamination": 0.1},
    "columns": {"max_features": 0.7},
    "bootstrap": {"bootstrap": True, "max_samples": 1.0},
}


def fitted(**options: Any) -> Any:
    return IsolationForest(**{"n_estimators": 40, "random_state": 0, **options}).fit(X)


def splits_beyond_threshold(forest: Any, X: Any) -> Any:
    """The mean score by the forest's own public scores: equation 2 of Liu et al. (2008) solved for the mean depth."""
    n = forest.max_samples_
    expected = 2 * (np.log(n - 1) + np.euler_gamma) - 2 * (n - 1) / n
    score = expected * (np.log2(-forest.offset_) - np.log2(-forest.score_samples(X)))
    return np.stack([-score, score], axis=1) / 2


@pytest.mark.fast_cases("bootstrap", "columns")
@pytest.mark.parametrize("options", FORMS.values(), ids=FORMS)
def test_the_contract(options: dict[str, Any]) -> None:
    promises = check_adapter(
        fitted(**options), X, Y,
        samples=lambda forest: forest.estimators_samples_,
        predict=splits_beyond_threshold, tolerance=1e-9, proves_target=False,
    )  # fmt: skip
    assert len(promises) == 16


@pytest.mark.parametrize("options", FORMS.values(), ids=FORMS)
def test_out_of_bag_labels_and_order_are_those_of_brute_force(options: dict[str, Any]) -> None:
    """A forest of one tree predicts its score; the mean over the trees that a row is out of bag for is the forest's."""
    forest = fitted(**options)
    depths = np.full((40, len(X)), np.nan)
    for tree, (drawn, nodes) in enumerate(zip(forest.estimators_samples_, forest.estimators_, strict=True)):
        columns = forest.estimators_features_[tree]
        path = np.asarray(nodes.decision_path(X[:, columns].astype(np.float32)).sum(axis=1)).ravel() - 1.0
        size = nodes.tree_.n_node_samples[nodes.apply(X[:, columns].astype(np.float32))]
        large = np.maximum(size, 3)
        rest = 2 * (np.log(large - 1.0) + np.euler_gamma) - 2 * (large - 1.0) / large
        depth = path + np.where(size <= 1, 0.0, np.where(size == 2, 1.0, rest))
        depths[tree] = np.where(np.isin(np.arange(len(X)), drawn), np.nan, depth)
    mean = np.nanmean(depths, axis=0)
    found = ens_plugin.oob_predictions(forest, X, Y)
    np.testing.assert_array_equal(found.n_members, np.isfinite(depths).sum(axis=0))
    score = found.values[:, 1] if found.values.ndim == 2 else found.values
    gap = score * (2.0 if found.values.ndim == 2 else 1.0) - mean
    np.testing.assert_allclose(gap, gap[0], rtol=0, atol=1e-9)


@pytest.mark.slow
def test_a_ranking_metric() -> None:
    forest = fitted(n_estimators=200, max_samples=100)
    report = ens_plugin.analyze(forest, X, Y, metric="roc_auc")
    own = roc_auc_score(Y, forest.decision_function(X))
    assert report.error == pytest.approx(own, abs=0.03)
    assert report.recommendation.size is not None


def test_labels_of_another_code_and_full_bags_are_refused() -> None:
    with pytest.raises(InputError, match="predicts 1 for inliers and -1 for outliers"):
        ens_plugin.analyze(fitted(), X, (Y == -1).astype(int))
    with pytest.raises(BagError, match=r"trained on all 400 rows.*smaller max_samples"):
        ens_plugin.analyze(fitted(max_samples=1.0), X, Y)


@pytest.mark.parametrize("labels", [Y < 0, (Y < 0).astype(int), np.where(Y < 0, "out", "in"), np.zeros(400)])
def test_labels_of_another_form_are_told_those_of_an_isolation_forest(labels: Any) -> None:
    with pytest.raises(InputError, match=r"predicts 1 for inliers and -1 for outliers.*where\(is_outlier, -1, 1\)"):
        ens_plugin.analyze(fitted(), X, labels)
