from __future__ import annotations

import numpy as np
import pytest

from ens_plugin.adapters.tree_table import count_leaves
from ens_plugin.adapters.trees import target_ranges


@pytest.mark.parametrize("n_leaves", [1, 2, 127, 128, 129, 32768, 40000])
def test_counts_are_those_of_each_leaf(n_leaves: int) -> None:
    """Where twice a leaf no longer fits the leaves' own type, too."""
    rng = np.random.default_rng(n_leaves)
    leaves = np.append(rng.integers(0, n_leaves, 500), n_leaves - 1).astype(np.min_scalar_type(n_leaves - 1))
    in_bag = rng.random(501) < 0.6
    in_bag_counts, counts = count_leaves(leaves, in_bag, n_leaves)
    np.testing.assert_array_equal(in_bag_counts, np.bincount(leaves[in_bag], minlength=n_leaves))
    np.testing.assert_array_equal(counts, np.bincount(leaves, minlength=n_leaves))


def test_ranges_are_those_of_each_leaf_and_merge_by_the_minimum() -> None:
    rng = np.random.default_rng(0)
    leaves, target = rng.integers(0, 7, 300), rng.normal(size=300)
    found = target_ranges(leaves, target, 9)
    for leaf in range(7):
        assert found["lowest"][leaf] == target[leaves == leaf].min()
        assert -found["highest"][leaf] == target[leaves == leaf].max()
    assert np.isposinf([found["lowest"][7:], found["highest"][7:]]).all()
    parts = [target_ranges(leaves[rows], target[rows], 9) for rows in (slice(0, 10), slice(10, 300))]
    for name, values in found.items():
        np.testing.assert_array_equal(np.minimum(parts[0][name], parts[1][name]), values)
