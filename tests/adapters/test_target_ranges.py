from __future__ import annotations

import numpy as np

from ens_plugin.adapters.trees import target_ranges


def test_ranges_are_those_of_each_leaf() -> None:
    rng = np.random.default_rng(0)
    leaves, target = rng.integers(0, 7, 300), rng.normal(size=300)
    found = target_ranges(leaves, target, 9)
    for leaf in range(7):
        assert found["lowest"][leaf] == target[leaves == leaf].min()
        assert found["highest"][leaf] == target[leaves == leaf].max()
    assert np.isposinf([found["lowest"][7:], -found["highest"][7:]]).all()
