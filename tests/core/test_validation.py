from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ens_plugin.core.validation import (
    as_array,
    as_chance,
    as_count,
    as_probability,
    as_python,
    as_sizes,
    as_values,
    as_weight,
    counted,
    label_text,
    one_line,
    pair_index,
    rounded_up,
    shown,
    with_missing,
)
from ens_plugin.errors import EnsPluginError, InputError
from ens_plugin.papers.wrong_votes import as_confidence, as_counts


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ([], "empty"), ([[1.0]], "one dimension"), (1.0, "one dimension"), ([np.nan], "NaN"), ([np.inf], "infinite"),
        (["x"], "numbers"), ([None], "numbers|NaN"), ([[1], [1, 2]], "numbers"), ([1.0, 2.0, 3.0], "length 2"),
    ],
)  # fmt: skip
def test_values_name_the_argument_and_the_fault(values: Any, fault: str) -> None:
    with pytest.raises(InputError, match=f"^outputs .*({fault})"):
        as_values(values, "outputs", 2 if fault == "length 2" else None)


@pytest.mark.parametrize("values", [[-1e-9], [1.0 + 1e-9], [0.2, 3.0]])
def test_probability_outside_the_unit_interval(values: list[float]) -> None:
    with pytest.raises(InputError, match=r"^p must lie in \[0, 1\]"):
        as_probability(values, "p")


@pytest.mark.parametrize(
    ("wrong", "trials", "named"),
    [([1], [0], "trials"), ([0], [-1], "trials"), ([2], [1], "wrong"), ([-1], [1], "wrong"), ([1, 1], [2], "trials")],
)
def test_counts(wrong: list[float], trials: list[float], named: str) -> None:
    with pytest.raises(InputError, match=f"^{named} "):
        as_counts(wrong, trials)


@pytest.mark.parametrize("weight", [[-1.0, 2.0], [0.0, 0.0], [1.0], [np.nan, 1.0]])
def test_weight(weight: list[float]) -> None:
    with pytest.raises(InputError, match=r"^sample_weight "):
        as_weight(weight, 2, "sample_weight")


def test_no_weight_means_equal_weights() -> None:
    np.testing.assert_array_equal(as_weight(None, 3), [1.0, 1.0, 1.0])


@pytest.mark.parametrize("sizes", [[], 0, [0], [-3], [2.5], [np.nan], [-np.inf], ["a"], [[1, 3]]])
def test_sizes(sizes: Any) -> None:
    with pytest.raises(InputError, match=r"^sizes "):
        as_sizes(sizes)


def test_good_input_passes_unchanged() -> None:
    np.testing.assert_array_equal(as_sizes([3, 1, np.inf]), [3.0, 1.0, np.inf])
    np.testing.assert_array_equal(as_sizes(7), [7.0])
    np.testing.assert_array_equal(as_probability([0.0, 1.0], "p"), [0.0, 1.0])


def test_refusals_are_value_errors_and_ours() -> None:
    assert issubclass(InputError, ValueError)
    assert issubclass(InputError, EnsPluginError)


number = st.one_of(st.integers(0, 6).map(float), st.sampled_from([0.5, 1.25, 3.75]))


@example([(0.5, 1.0), (0.75, 1.0)])
@given(st.lists(st.tuples(number, number), min_size=1, max_size=20))
def test_pair_index_numbers_the_distinct_pairs_in_order(pairs: list[tuple[float, float]]) -> None:
    distinct = sorted(set(pairs))
    first, second = (np.array(column) for column in zip(*pairs, strict=True))
    np.testing.assert_array_equal(pair_index(first, second), [distinct.index(pair) for pair in pairs])


@pytest.mark.parametrize("factor", [1, 10**9])
def test_pairs_of_many_rows_are_numbered_as_numpy_does(factor: int) -> None:
    """Counted in a table, and sorted where their codes are far apart."""
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 40, 150_000) * factor, rng.integers(0, 90, 150_000)
    expected = np.unique(first * 90 + second, return_inverse=True)[1]
    np.testing.assert_array_equal(pair_index(first.astype(float), second.astype(float)), expected)


def test_good_numbers_pass_unchanged() -> None:
    assert as_chance(0.01, "x") == 0.01
    assert as_confidence(0.99) == 0.99
    assert as_count(np.int64(7), "x") == 7
    assert as_count(3.0, "x", smallest=3) == 3


@pytest.mark.parametrize("value", [0, 1, -0.5, math.nan, "0.5", None])
def test_chance_refuses(value: float) -> None:
    with pytest.raises(InputError, match="delta must lie strictly between 0 and 1"):
        as_chance(value, "delta")


@pytest.mark.parametrize("value", [0.5, 1.0, math.nan, "0.9"])
def test_confidence_refuses(value: float) -> None:
    with pytest.raises(InputError, match="confidence must lie strictly between"):
        as_confidence(value)


@pytest.mark.parametrize("value", [10**9 + 1, 1e30, 10**400])
def test_count_refuses_what_no_computer_counts_to(value: float) -> None:
    with pytest.raises(InputError, match="n_models must be a whole number of at most 1000000000"):
        as_count(value, "n_models")


@pytest.mark.parametrize("value", [0, -3, 2.5, math.nan, math.inf, "4", None])
def test_count_refuses(value: float) -> None:
    with pytest.raises(InputError, match="n_models must be a whole number of at least 1"):
        as_count(value, "n_models")


def test_texts_of_unknown_origin_are_shown_on_one_line() -> None:
    assert shown("a\x1b[31m") == "'a\\x1b[31m'"
    assert shown(list(range(100)), limit=12) == "[0, 1, 2, 3…"
    assert one_line("two\nlines", limit=6) == "two l…"


def test_equal_labels_have_one_text() -> None:
    assert [label_text(label) for label in (1, 1.0, True, "yes", 0.5)] == ["1", "1", "1", "yes", "0.5"]


def test_a_count_of_one_is_followed_by_the_singular() -> None:
    assert (counted(1, "row"), counted(3, "row"), counted("1", "copy is", "copies are")) == (
        "1 row",
        "3 rows",
        "1 copy is",
    )
    assert counted(1, "has", "have", of="3 rows") == "1 of 3 rows has"


def test_numbers_are_rounded_upwards_to_two_digits() -> None:
    assert (rounded_up(1234.0), rounded_up(7.2)) == (1300, 8)


def test_numbers_of_numpy_become_those_of_python() -> None:
    found = [as_python(value) for value in (np.longdouble(0.5), np.True_, np.int8(3), "0.5")]
    assert found == [0.5, True, 3, "0.5"]
    assert [type(value) for value in found] == [float, bool, int, str]


def test_rows_of_different_lengths_are_not_an_array() -> None:
    with pytest.raises(InputError, match=r"^y is not an array .*give every row the same number of values"):
        as_array([[1, 2], [3]], "y")


def test_a_missing_value_among_texts_stays_a_missing_value() -> None:
    values = ["a", math.nan]
    assert np.asarray(values).tolist() == ["a", "nan"]
    text, missing = with_missing(np.asarray(values), values).tolist()
    assert text == "a"
    assert math.isnan(missing)
