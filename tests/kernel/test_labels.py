from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.extras import NEEDS_KERNEL

pytestmark = NEEDS_KERNEL


def nodes_of(rng: np.random.Generator, n_labels: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return probabilities and first children of nodes, and the labels of those that are leaves, all pure."""
    left = np.where(rng.random(400) < 0.5, 3, -1)
    labels = rng.integers(n_labels, size=400)
    values = rng.dirichlet(np.ones(n_labels), size=400)
    values[left < 0] = np.eye(n_labels)[labels[left < 0]]
    return values, left, np.where(left < 0, labels, 0)


@pytest.mark.parametrize(("n_labels", "dtype"), [(2, np.uint8), (16, np.uint8), (101, np.uint8), (300, np.uint16)])
@pytest.mark.parametrize("kind", [np.int32, np.int64, np.int16])
def test_labels_of_pure_leaves_are_where_the_probability_is_1(n_labels: int, dtype: Any, kind: Any) -> None:
    from ens_plugin._kernel.outputs import pure_labels

    values, left, labels = nodes_of(np.random.default_rng(n_labels), n_labels)
    # As in a library's array of nodes, the numbers are far apart.
    apart = np.zeros(left.size, [("other", np.int64, 3), ("left", kind), ("more", np.int32)])
    apart["left"] = left
    found = pure_labels(values, apart["left"], dtype)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, labels)


@pytest.mark.parametrize("share", [0.5, np.nextafter(1.0, 0.0)])
def test_one_leaf_of_several_labels_leaves_no_labels(share: float) -> None:
    from ens_plugin._kernel.outputs import pure_labels

    values, left, _ = nodes_of(np.random.default_rng(1), 40)
    leaf = np.flatnonzero(left < 0)[-1]
    values[leaf] = 0
    values[leaf, [3, 30]] = share, 1 - share
    assert pure_labels(values, left, np.uint8) is None


def test_arrays_that_do_not_belong_together_are_refused() -> None:
    from ens_plugin._kernel.outputs import pure_labels

    values, left, _ = nodes_of(np.random.default_rng(1), 300)
    with pytest.raises(ValueError, match="399"):
        pure_labels(values, left[1:], np.uint16)
    with pytest.raises(ValueError, match="300 labels"):
        pure_labels(values, left, np.uint8)
