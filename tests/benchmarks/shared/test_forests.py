"""The reduced forests against scikit-learn's own figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from benchmarks.shared.forests import Plan, Record, hard_votes, kept, seed_votes

SMALL = Plan("twonorm", 120, 200, None, 300, 0, 1)


def _forest(plan: Plan) -> tuple[RandomForestClassifier, np.ndarray, np.ndarray]:
    features, y, _ = plan.sample()
    forest = RandomForestClassifier(plan.n_trees, oob_score=True, random_state=plan.forest_seed())
    return forest.fit(features, y), features, y


@pytest.mark.slow
def test_votes_are_those_of_scikit_learns_out_of_bag_score() -> None:
    forest, _, y = _forest(SMALL)
    record = hard_votes(SMALL)
    share = record["wrong_200"] / record["trials_200"]
    np.testing.assert_allclose(share, 1.0 - forest.oob_decision_function_[np.arange(y.size), y], atol=1e-12)


@pytest.mark.slow
def test_fresh_error_counts_ties_half() -> None:
    forest, _, _ = _forest(SMALL)
    _, _, rng = SMALL.sample()
    from benchmarks.shared.problems import FORMULAS

    fresh, fresh_y = FORMULAS["twonorm"].sample(300, rng)
    wrong = np.mean([tree.predict(fresh) != fresh_y for tree in forest.estimators_[:50]], axis=0)
    expected = np.mean(wrong > 0.5) + 0.5 * np.mean(wrong == 0.5)
    assert float(hard_votes(SMALL)["fresh_error_50"]) == pytest.approx(expected)


def test_seeds_share_rows_and_differ_in_votes() -> None:
    first, second = (seed_votes(Plan("twonorm", 60, 11, None, 40, 0, seed)) for seed in (0, 1))
    np.testing.assert_array_equal(first["held_out_target"], second["held_out_target"])
    np.testing.assert_array_equal(first["target"], second["target"])
    assert not np.array_equal(first["held_out_labels"], second["held_out_labels"])
    majority = first["held_out_labels"].sum(axis=0, dtype=int) > 5
    np.testing.assert_array_equal(first["wrong"], majority != first["held_out_target"])


def test_a_kept_forest_is_not_grown_again(tmp_path: Path) -> None:
    calls = []

    def grow(plan: Plan) -> Record:
        calls.append(plan)
        return {"value": np.arange(3)}

    first, again = (kept(tmp_path, "test", SMALL, grow) for _ in range(2))
    kept(tmp_path, "test", SMALL._replace(repetition=2), grow)
    np.testing.assert_array_equal(first["value"], again["value"])
    assert [plan.repetition for plan in calls] == [1, 2]
