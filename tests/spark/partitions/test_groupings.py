"""Groups of rows become entries of a tally that rounding moves nowhere, and samples of alike rows are refused."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin.core.tally import SupportTally
from ens_plugin.errors import InputError
from ens_plugin.spark.columns import target_labels
from ens_plugin.spark.partition import KeptRows, block_groups, codes_of, refuse_alike_rows, tally_of

N_MEMBERS = 400
TRIALS = np.repeat(np.arange(2.0, N_MEMBERS + 1), 5)
WEIGHT = np.random.default_rng(0).uniform(0.1, 3.0, TRIALS.size)


def shares(wrong: NDArray[np.float64], squares: NDArray[np.float64]) -> SupportTally:
    """The tally of rows with soft votes, by way of cells."""
    tally = SupportTally(TRIALS, wrong, squares, np.round(wrong))
    code = codes_of("shares", tally, np.arange(TRIALS.size), N_MEMBERS)
    found = tally_of("shares", block_groups("shares", tally, code, WEIGHT), N_MEMBERS, SupportTally)
    assert isinstance(found, SupportTally)
    return found


def test_tied_shares_of_a_cell_stay_tied_whatever_the_weights() -> None:
    found = shares(TRIALS / 2, TRIALS / 3)
    np.testing.assert_array_equal(found.trials, np.arange(2, N_MEMBERS + 1))
    np.testing.assert_array_equal(found.wrong, found.trials / 2)


def test_members_that_all_err_are_no_more_than_there_are() -> None:
    found = shares(TRIALS, TRIALS)
    assert (found.wrong <= found.trials).all()
    assert (found.squares <= found.trials).all()
    np.testing.assert_allclose(found.squares, found.trials, rtol=1e-14)


def kept(row: NDArray[np.int64]) -> KeptRows:
    nothing = np.zeros(row.size)
    whole = nothing.astype(np.int64)
    outputs = np.zeros((3, row.size))
    return KeptRows(outputs, outputs.astype(np.uint8), nothing, nothing, whole.astype(np.uint64), row, whole)


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
