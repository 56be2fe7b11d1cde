"""Weights of entries that stand for several rows, against the rows one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ens_plugin.core.error_curve import hypergeometric_limit
from ens_plugin.core.weights import RowWeight, as_row_weight, row_quantiles
from ens_plugin.errors import InputError
from ens_plugin.papers.wrong_votes import hypergeometric_curve

entries = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 5)), min_size=1, max_size=30)


@given(entries, st.floats(0, 1))
def test_quantiles_are_those_of_all_rows(pairs: list[tuple[int, int]], level: float) -> None:
    values, rows = (np.array(part, dtype=np.float64) for part in zip(*pairs, strict=True))
    every_row = np.repeat(values, rows.astype(int))
    assert row_quantiles(values, [level], rows)[0] == np.quantile(every_row, level)
    assert row_quantiles(every_row, [level])[0] == np.quantile(every_row, level)


@given(entries)
def test_limit_is_that_of_all_rows(pairs: list[tuple[int, int]]) -> None:
    values, rows = (np.array(part, dtype=np.float64) for part in zip(*pairs, strict=True))
    assert hypergeometric_limit(values, rows) == hypergeometric_limit(np.repeat(values, rows.astype(int)))


def test_effective_rows_are_kishs() -> None:
    every_row = np.array([1.0, 3.0, 2.0, 2.0])
    grouped = RowWeight(np.array([4.0, 4.0]), np.array([2.0, 2.0]), np.array([10.0, 8.0]))
    kish = every_row.sum() ** 2 / (every_row**2).sum()
    assert grouped.n_effective == pytest.approx(kish)
    assert RowWeight(every_row).n_effective == pytest.approx(kish)
    np.testing.assert_allclose(grouped.effective(), [kish / 2, kish / 2])
    assert (grouped.n_rows, RowWeight(every_row).n_rows) == (4, 4)


def test_selection_keeps_rows_and_squares() -> None:
    grouped = RowWeight(np.array([4.0, 1.0]), np.array([2.0, 1.0]), np.array([10.0, 1.0]))
    kept = grouped.select(np.array([True, False]))
    assert (kept.n_rows, kept.n_effective) == (2, 1.6)
    assert kept.row_sum(np.array([3.0])) == 6.0


def test_entries_and_weights_must_be_as_many() -> None:
    with pytest.raises(InputError, match="length 3"):
        as_row_weight(RowWeight(np.ones(2), np.ones(2), np.ones(2)), 3)
    with pytest.raises(InputError, match="rows"):
        as_row_weight(RowWeight(np.ones(1), -np.ones(1), np.ones(1)), 1)


def test_curve_of_subsets_reaches_the_sizes_that_most_rows_can_answer() -> None:
    """Most rows have 9 members, and more than a tenth of the entries, though not of the rows, have fewer."""
    trials, wrong = np.array([9.0, 9.0, 3.0, 5.0]), np.array([2.0, 6.0, 1.0, 2.0])
    rows = np.array([40.0, 50.0, 2.0, 3.0])
    every_row = [np.repeat(part, rows.astype(int)) for part in (wrong, trials)]
    sizes = [1, 5, 9]
    np.testing.assert_allclose(
        hypergeometric_curve(wrong, trials, sizes, RowWeight(rows, rows, rows)),
        hypergeometric_curve(*every_row, sizes),
        rtol=1e-12,
    )


@pytest.mark.parametrize("weight", [1.0, 0.3])
def test_equal_weights_that_take_no_memory_are_those_written_out(weight: float) -> None:
    n_rows = 100_003
    light = RowWeight(np.broadcast_to(np.float64(weight), n_rows), design_effect=1.7)
    written = RowWeight(np.full(n_rows, weight), design_effect=1.7)
    assert light.n_effective == written.n_effective
    np.testing.assert_array_equal(light.effective(), written.effective())
    assert light.effective().strides == (0,)
    usable = np.arange(n_rows) % 3 > 0
    assert light.select(usable).total.strides == (0,)
    np.testing.assert_array_equal(light.select(usable).total, written.select(usable).total)


def test_quantiles_of_many_rows_are_numpys() -> None:
    values = np.random.default_rng(0).binomial(300, 0.37, 200_000).astype(np.float64)
    levels = np.arange(1, 8) / 8
    np.testing.assert_array_equal(row_quantiles(values, levels), np.quantile(values, levels))
    # Of numbers that are not whole, too.
    np.testing.assert_array_equal(row_quantiles(values / 3.0, levels), np.quantile(values / 3.0, levels))
