"""Means and labels from totals of member outputs, against computations by hand."""

from __future__ import annotations

import numpy as np
import pytest

from ens_plugin.sizing.pruning import Totals, codes, mean_outputs


def totals(total: list[object], queries: list[int]) -> Totals:
    return Totals(np.array(total, dtype=float), np.array(queries))


@pytest.mark.parametrize(
    ("kind", "total", "queries", "expected"),
    [
        ("labels", [1, 2, 3], [4, 4, 4], [0, 0, 1]),
        ("scores", [-0.1, 0.0, 0.1], [3, 3, 3], [0, 0, 1]),
        ("labels", [[2, 2, 1], [1, 2, 2]], [5, 5], [0, 1]),
        ("probabilities", [[1.5, 1.5], [1.0, 2.0]], [3, 3], [0, 1]),
    ],
)
def test_the_first_of_equal_labels_wins(kind: str, total: list[object], queries: list[int], expected: object) -> None:
    assert codes(totals(total, queries), kind).tolist() == expected


def test_means_are_over_the_members_queried() -> None:
    np.testing.assert_allclose(mean_outputs(totals([1, 3], [4, 3]), "labels"), [[0.75, 0.25], [0.0, 1.0]])
    np.testing.assert_allclose(mean_outputs(totals([6.0], [3]), "scores"), [[-1.0, 1.0]])
    np.testing.assert_allclose(mean_outputs(totals([[1, 3, 0]], [4]), "labels"), [[0.25, 0.75, 0.0]])
