from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from tests.extras import imported
from tests.walk.random_models import MODELS, large_model

imported("ens_plugin_walk")

from ens_plugin.adapters.registry import find_adapter  # noqa: E402
from ens_plugin.adapters.shared.trees import leaf_walk  # noqa: E402

N_MODELS = 700


def walked_leaves(model: Any, rows: Any) -> Any:
    """Return the leaves that the walk finds in all trees."""
    adapter = find_adapter(model)
    features = adapter.prepare(rows)
    walk: Any = adapter.forest.walk if hasattr(adapter, "forest") else getattr(adapter, "_walk")  # noqa: B009
    assert walk._walk.is_used
    if hasattr(walk, "leaves"):
        return walk.leaves(features, range(adapter.n_members))
    return walk._walk.leaves(features)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("library", MODELS)
def test_no_leaf_differs_in_random_models(library: str) -> None:
    if library != "sklearn":
        imported(library)
    rng = np.random.default_rng(17)
    different, n_cells, sizes = [], 0, []
    for index in range(N_MODELS):
        with warnings.catch_warnings():
            # Those of the libraries on odd data; one of ours would show a comparison that failed.
            warnings.simplefilter("ignore")
            warnings.filterwarnings("error", message="ens-plugin-walk")
            model, rows, own = MODELS[library](rng)
            found, expected = walked_leaves(model, rows), own()
        assert found.shape == expected.shape
        n_cells += found.size
        sizes.append(int(expected.max()) + 1)
        if (found != expected).any():
            different.append((index, int((found != expected).sum())))
    assert not different
    assert n_cells > 1_000_000
    assert min(sizes) == 1
    assert max(sizes) > 200
    assert leaf_walk.is_installed()


@pytest.mark.slow
@pytest.mark.parametrize("library", MODELS)
def test_no_leaf_differs_in_trees_of_65535_leaves(library: str) -> None:
    if library != "sklearn":
        imported(library)
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(200_000, 4)).astype(np.float32), rng.normal(size=200_000)
    model, own = large_model(library, X, y)
    found = walked_leaves(model, X)
    assert found.max() + 1 > 65_000
    np.testing.assert_array_equal(found, own)
