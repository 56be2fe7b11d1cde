from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from ens_plugin.adapters.registry import find_adapter
from ens_plugin.adapters.tree_table import count_leaves
from ens_plugin.core.bags import Bags
from ens_plugin.core.stopping import StoppingTable
from tests.extras import NEEDS_KERNEL, imported
from tests.kernel.random_models import MODELS, large_model

pytestmark = NEEDS_KERNEL

N_MODELS, N_COUNTED = 700, 100


def walk_of(model: Any, rows: Any) -> tuple[Any, Any, Any]:
    """Return the adapter, the prepared rows and the walk, which is used for them."""
    adapter = find_adapter(model)
    features = adapter.prepare(rows)
    walk: Any = adapter.forest.walk if hasattr(adapter, "forest") else getattr(adapter, "_walk")  # noqa: B009
    assert walk.is_used
    return adapter, features, walk


def walked_leaves(model: Any, rows: Any) -> Any:
    """Return the leaves that the walk finds in all trees."""
    _, features, walk = walk_of(model, rows)
    return walk.leaves(features)


@pytest.mark.long
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
            warnings.filterwarnings("error", message="The compiled search")
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


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_nothing_differs_in_random_models_by_bits(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from ens_plugin._kernel.forest import Slices

    imported(library)
    monkeypatch.setattr(Slices, "is_shorter", lambda *_: True)
    rng = np.random.default_rng(29)
    n_counted = 0
    for _ in range(N_COUNTED):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model, rows, own = MODELS[library](rng)
            _, features, walk = walk_of(model, rows)
        expected = own()
        in_bag = rng.random(expected.shape) < 0.6
        counted = walk.count(features, Bags.from_mask(in_bag), np.arange(expected.shape[0]))
        if counted is None:
            continue
        n_counted += 1
        np.testing.assert_array_equal(walk.leaves(features), expected)
        by_tree = [count_leaves(*own) for own in zip(expected, in_bag, walk.table.n_leaves.tolist(), strict=True)]
        for found, parts in zip(counted, zip(*by_tree, strict=True), strict=True):
            np.testing.assert_array_equal(found, np.concatenate(parts))
    assert n_counted > N_COUNTED / 4


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_sums_of_trees_in_turn_are_those_of_the_leaves_of_random_models(library: str) -> None:
    imported(library)
    rng = np.random.default_rng(31)
    n_queries = []
    for _ in range(N_COUNTED):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model, rows, own = MODELS[library](rng)
            adapter, features, walk = walk_of(model, rows)
        leaves, most = own(), adapter.n_members
        pairs = zip(walk.table.leaf_values, leaves, strict=True)
        sums = np.cumsum([own.take(reached) for own, reached in pairs], axis=0)
        bound = np.append(np.quantile(np.abs(sums), rng.random(most - 1)), 0.0)
        totals, queries = walk.stopped_sums(features, StoppingTable(np.arange(most) + 1, -bound, bound))
        settled = np.abs(sums) >= bound[:, None]
        settled[-1] = True
        np.testing.assert_array_equal(queries, settled.argmax(axis=0) + 1)
        np.testing.assert_array_equal(totals, sums[queries - 1, np.arange(queries.size)])
        n_queries.append(np.unique(queries).size)
    assert max(n_queries) > 2


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
