"""A target comes in any container; what is missing is named by its row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from ens_plugin import CustomEnsemble, EnsembleReport, analyze
from ens_plugin.analysis.arguments import encode_target, target_array
from ens_plugin.errors import InputError
from tests.analysis.test_arguments import adapter


@pytest.mark.parametrize(
    ("classes", "y", "codes"),
    [
        ([0, 1, 2], [2, 0, 1, 2], [2, 0, 1, 2]), (["no", "yes"], ["yes", "no", "yes"], [1, 0, 1]),
        ([False, True], [True, False], [1, 0]), ([-1.0, 1.0], [1, -1], [1, 0]), ([10, 20], [[20], [10]], [1, 0]),
        (["no", "yes"], np.array(["yes", "no"], dtype=object), [1, 0]), ([3, 5, 7], [7, 3], [2, 0]),
    ],
)  # fmt: skip
def test_labels_become_positions_among_the_classes(classes: list[Any], y: Any, codes: list[int]) -> None:
    encoded = encode_target(adapter(classes), y)
    assert encoded.dtype == np.int64
    np.testing.assert_array_equal(encoded, codes)


def test_labels_come_in_any_container_and_values_become_floats() -> None:
    texts = pd.Series(["yes", "no"])
    for y in (texts, texts.astype("category"), pd.array(["yes", "no"]), ("yes", "no")):
        np.testing.assert_array_equal(encode_target(adapter(["no", "yes"]), y), [1, 0])
    encoded = encode_target(adapter(), [1, 2, 3])
    assert encoded.dtype == np.float64
    np.testing.assert_array_equal(encoded, [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("classes", "y", "says"),
    [
        ([0, 1], [], "empty"), ([0, 1], None, "dimension"), ([0, 1], [[0, 1], [1, 0]], "dimension"),
        ([0, 1], [0, 1, 2], r"does not have: \[2\]"), ([0, 1], ["0", "1"], "does not have.*convert y, with y.astype"),
        ([0, 1], ["no", "yes"], "does not have.*pass their codes"),
        (["a", "b"], np.array(["a", None, "b"], dtype=object), "1 missing"),
        (["a", "b"], ["a", None, "b"], "1 missing"), (["a", "b", "nan"], ["a", float("nan"), "b"], "1 missing"),
        (["a", "b"], pd.Categorical(["a", None, "b"]), "1 missing"),
        ([False, True], pd.array([True, pd.NA, False], dtype="boolean"), "1 missing"),
        ([0, 1], np.array(["2020-01-01", "NaT"], dtype="M8[D]"), "1 missing"),
        (["a", "b"], np.array(["a", np.nan, "b"], dtype=object), "1 missing"),
        (["a", "b"], pd.array(["a", pd.NA, "b"], dtype="string"), "1 missing"),
        ([0, 1], pd.array([0, 1, pd.NA], dtype="Int64"), "1 missing"), ([0.0, 1.0], [0.0, np.nan, np.nan], "2 missing"),
        ([0, 1], [1, 1, 1], "single label"), ([0, 1], np.array([0, "a", 1], dtype=object), "mixes labels"),
        (None, [1.0, np.nan], "1 missing"), (None, [1.0, np.inf], "missing|infinite"), (None, ["a", "b"], "numbers"),
        (None, [[1.0, 2.0], [3.0, 4.0]], "dimension"), (None, [], "empty"),
        (None, [1.0, 1e31], "beyond 1e.30.*divide y"), (None, [1e-31, 0.0], "beyond 1e-31.*multiply y"),
    ],
)  # fmt: skip
def test_target_that_cannot_be_judged_by(classes: list[Any] | None, y: Any, says: str) -> None:
    with pytest.raises(InputError, match=f"y .*({says})"):
        encode_target(adapter(classes), y)


@pytest.mark.parametrize("exponent", [-97, 97])
def test_target_in_the_smallest_and_in_the_largest_unit_has_the_same_report(exponent: int) -> None:
    rng = np.random.default_rng(0)
    outputs, y, in_bag = rng.normal(size=(20, 100)), rng.normal(size=100), rng.random((20, 100)) < 0.5

    def report(unit: float) -> EnsembleReport:
        return analyze(CustomEnsemble(outputs * unit, in_bag, aggregation="mean"), None, y * unit)

    scaled, wanted, unit = report(2.0**exponent), report(1.0), 4.0**exponent
    assert scaled.recommendation.interval == wanted.recommendation.interval
    np.testing.assert_allclose(scaled.error_curve.upper / unit, wanted.error_curve.upper, rtol=1e-12)
    np.testing.assert_allclose(scaled.error_curve.lower / unit, wanted.error_curve.lower, rtol=1e-12)
    assert scaled.algorithmic_sd / unit == pytest.approx(wanted.algorithmic_sd)


def test_missing_values_are_named_by_row() -> None:
    y = pd.Series([1, 2, None, 4, None], index=[7, 7, 7, 7, 7], dtype="Int64")
    with pytest.raises(InputError, match=r"y holds 2 missing values \(.*\), in rows 2, 4; leave these rows out"):
        target_array(y)
    with pytest.raises(InputError, match=r"y_train holds 1 missing value \(.*\), in row 0;"):
        target_array(pd.DataFrame({"a": [None, 1.0], "b": [1.0, 2.0]}), "y_train")
    with pytest.raises(InputError, match=r"9 missing values \(.*\), in rows 0, 1, 2, 3, 4, \.\.\.;"):
        target_array([np.nan] * 9)


def test_array_of_the_user_is_returned_as_it_is_and_not_modified() -> None:
    y = np.array(["b", "a"])
    assert target_array(y) is y
    assert target_array(["b", "a"]).dtype == y.dtype
    values = np.array([1.0, 2.0])
    encode_target(adapter(), values)[0] = 99.0
    np.testing.assert_array_equal(values, [1.0, 2.0])


@pytest.mark.skipif(not hasattr(np, "dtypes") or not hasattr(np.dtypes, "StringDType"), reason="needs NumPy 2")
def test_texts_of_variable_width_are_labels() -> None:
    kind = np.dtypes.StringDType(na_object=np.nan)
    np.testing.assert_array_equal(encode_target(adapter(["a", "b"]), np.array(["b", "a"], dtype=kind)), [1, 0])
    with pytest.raises(InputError, match="1 missing value"):
        target_array(np.array(["b", np.nan], dtype=kind))
