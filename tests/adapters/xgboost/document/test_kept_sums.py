"""Sums over trees that are kept from the proof of the bags are those that are computed without it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ens_plugin.adapters import find_adapter
from ens_plugin.core.bags import Bags
from tests.extras import NEEDS_KERNEL, xgboost

pytestmark = NEEDS_KERNEL

N_ROWS, N_TREES = 300, 40
RNG = np.random.default_rng(0)
X = RNG.integers(0, 9, (N_ROWS, 4)).astype(np.float32)
Y = (X[:, 0] + RNG.normal(0.0, 3.0, N_ROWS) > 4).astype(int)


def proved(weight: Any = None) -> tuple[Any, Any, Bags]:
    options = {"num_parallel_tree": N_TREES, "subsample": 0.6, "learning_rate": 1, "nthread": 1, "seed": 3}
    rows = xgboost.DMatrix(X, Y, weight=weight)
    booster = xgboost.train({**options, "objective": "binary:logistic", "max_depth": 4}, rows, num_boost_round=1)
    adapter: Any = find_adapter(booster)
    features = adapter.prepare(X if weight is None else rows)
    return adapter, features, adapter.bags(X, features, Y)


@pytest.mark.parametrize("rows", [slice(0, N_ROWS), slice(64, 200)])
def test_kept_sums_are_those_of_the_bags_they_were_computed_for(rows: slice) -> None:
    adapter, features, bags = proved()
    part = features[rows]
    assert part.sums.read(bags.part(rows)) is not None
    np.testing.assert_array_equal(
        adapter.value_sums(part, bags.part(rows)), adapter.value_sums(adapter.prepare(X)[rows], bags.part(rows))
    )


def test_sums_of_other_bags_are_computed_anew() -> None:
    adapter, features, bags = proved()
    other = Bags.from_mask(~bags.in_bag())
    assert features.sums.read(other) is features.sums.read(None) is None
    found = adapter.value_sums(features, other)
    np.testing.assert_array_equal(found, adapter.value_sums(adapter.prepare(X), other))
    np.testing.assert_array_equal(found[0], bags.in_bag().sum(axis=0))


def test_no_sums_are_kept_of_weighted_rows_which_are_not_counted() -> None:
    adapter, features, bags = proved(RNG.integers(1, 4, N_ROWS).astype(np.float64))
    assert features.sums is None or features.sums.read(bags) is None
    np.testing.assert_array_equal(adapter.value_sums(features, bags)[0], N_TREES - bags.in_bag().sum(axis=0))
