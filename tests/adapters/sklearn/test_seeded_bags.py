"""Bags drawn by the seeds of members: the library's; and which members are compared with the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

from ens_plugin.adapters.registry import find_adapter
from ens_plugin.adapters.sklearn.bags import PROVING_TREES, checked_members
from ens_plugin.core.bags import Bags


@pytest.mark.parametrize("options", [{}, {"max_samples": 0.3}, {"max_samples": 7}, {"random_state": 2**31 - 2}])
def test_bags_of_forests_are_those_that_scikit_learn_lists(options: dict[str, Any]) -> None:
    X, y = make_classification(130, random_state=0)
    forest = RandomForestClassifier(**{"n_estimators": 12, "random_state": 0, **options}).fit(X, y)
    adapter = find_adapter(forest)
    bags = adapter.bags(X, adapter.prepare(X), y)
    np.testing.assert_array_equal(bags.bits, Bags.from_indices(forest.estimators_samples_, y.size).bits)


@pytest.mark.parametrize("n_members", [1, 2, 5, 16, 17, 40, 60, 999])
def test_members_from_every_part_are_compared(n_members: int) -> None:
    members = checked_members(n_members)
    assert members == sorted(set(members)) == checked_members(n_members)
    assert min(PROVING_TREES, n_members) <= len(members) <= PROVING_TREES + 2
    assert (members[0], members[-1]) == (0, n_members - 1)
    assert max(np.diff([-1, *members])) <= 2 * max(n_members // PROVING_TREES, 1) + 2
