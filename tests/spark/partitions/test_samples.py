"""Samples of rows that are few different ones are refused, and their targets are labels again."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin.errors import InputError
from ens_plugin.spark.columns import target_labels
from ens_plugin.spark.partition import KeptRows, refuse_alike_rows


def kept(row: NDArray[np.int64]) -> KeptRows:
    nothing = np.zeros(row.size)
    whole = nothing.astype(np.int64)
    outputs = np.zeros((3, row.size))
    return KeptRows(outputs, nothing, nothing, whole.astype(np.uint64), row, whole)


@pytest.mark.parametrize(("copies", "is_refused"), [(1, False), (3, False), (4, False), (5, True), (300, True)])
def test_samples_of_less_than_a_quarter_different_rows_are_refused(copies: int, is_refused: bool) -> None:
    rows = kept(np.repeat(np.arange(300 // copies), copies))
    if not is_refused:
        refuse_alike_rows(rows, None)
        return
    with pytest.raises(InputError, match=f"a sample of 300 rows has only {300 // copies} different ones"):
        refuse_alike_rows(rows, None)


def test_sample_without_any_row_is_refused() -> None:
    with pytest.raises(InputError, match="only 0 different ones"):
        refuse_alike_rows(kept(np.zeros(0, dtype=np.int64)), "row")


def test_sampled_targets_are_labels_as_the_user_gave_them() -> None:
    assert target_labels(np.array([1.0, 0.0, 1.0]), np.array(["no", "yes"])).tolist() == ["yes", "no", "yes"]
    assert target_labels(np.array([1.5, 0.25]), None).tolist() == [1.5, 0.25]
