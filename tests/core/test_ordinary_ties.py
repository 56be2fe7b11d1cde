from __future__ import annotations

import itertools

import numpy as np
import pytest

from ens_plugin.core.alike_rows import chance_share, paired_halves, tied_pairs, ties_explain, unlike_columns


@pytest.mark.parametrize("seed", range(20))
def test_a_column_follows_from_another_of_more_values_where_it_is_a_function_of_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    town = rng.integers(0, 12, 60)
    columns = np.stack([town // 4, town, rng.integers(0, 3, 60), 7 * town, rng.integers(0, 30, 60)]).astype(np.uint64)
    expected: list[int] = []
    for column in sorted(range(5), key=lambda column: -len(set(columns[column].tolist()))):
        pairs = [set(zip(columns[other].tolist(), columns[column].tolist(), strict=True)) for other in expected]
        if all(len(found) > len({value for value, _ in found}) for found in pairs):
            expected.append(column)
    assert unlike_columns(columns).tolist() == expected
    assert 1 in expected
    assert not {0, 3} & set(expected)


def test_the_columns_of_most_values_are_in_different_halves() -> None:
    columns = np.array([4, 1, 3, 0, 5])
    halves = paired_halves(columns, 7)
    assert halves.shape == (16, 7)
    assert np.array_equal(halves[::2] ^ halves[1::2], np.tile(np.isin(np.arange(7), columns), (8, 1)))
    for first, second in ((4, 1), (3, 0)):
        assert np.all(halves[:, first] != halves[:, second])
    assert 0 < halves[::2, 5].sum() < 8
    assert np.array_equal(halves, paired_halves(columns, 7))


def test_the_share_of_pairs_that_independent_halves_explain() -> None:
    first, second = (values.ravel().astype(np.uint64) for values in np.indices((3, 4, 2))[:2])
    pairs = list(itertools.combinations(zip(first.tolist(), second.tolist(), strict=True), 2))
    in_first, in_second = (sum(one[place] == other[place] for one, other in pairs) for place in (0, 1))
    equal = sum(one == other for one, other in pairs)
    assert (in_first, in_second, equal, len(pairs)) == (84, 60, 12, 276)
    found = chance_share(4 * first + second, np.stack([first, second]))
    assert found == pytest.approx(84 * 60 / 276 / 12)


def test_pairs_of_rows_with_equal_features() -> None:
    rng = np.random.default_rng(0)
    cells, target = rng.integers(0, 8, 50), rng.integers(0, 3, 50)
    expected = np.zeros((2, 8))
    for one, other in itertools.combinations(range(50), 2):
        if cells[one] == cells[other]:
            expected[int(target[one] != target[other]), cells[one]] += 1
    assert np.array_equal(tied_pairs(cells, 3 * cells + target), expected)


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_ties_of_drawn_rows_are_explained_and_copies_are_not(share: float) -> None:
    """Labels of a share agree with that of the cell's first row; and as many pairs again are copies."""
    rng, explained = np.random.default_rng(0), np.zeros(2)
    for _ in range(400):
        agree = (rng.random(400) < share).astype(np.float64)
        copies = np.append(agree, np.ones(400))
        explained += [
            ties_explain(agree, 1 - agree, share),
            ties_explain(copies, np.append(1 - agree, np.zeros(400)), share),
        ]
    # Beyond two standard errors on one side are 2.3 %; 400 draws add three standard errors.
    assert explained[0] >= 400 * (1 - 0.023) - 3 * np.sqrt(400 * 0.023)
    assert explained[1] == 0


def test_few_pairs_with_another_target_explain_nothing() -> None:
    n_equal, n_unlike = np.zeros(20), (np.arange(20) < 9).astype(np.float64)
    assert not ties_explain(n_equal, n_unlike, 0.5)
    assert ties_explain(n_equal, (np.arange(20) < 10).astype(np.float64), 0.5)
