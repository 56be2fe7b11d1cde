"""Categories that XGBoost stores of a table of Arrow or cuts of one of pandas, as a column of pandas meets them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from ens_plugin.adapters.xgboost import document as categories
from ens_plugin.cli.inputs import rows_for_model
from ens_plugin.errors import DataMismatchError
from tests.extras import imported

xgboost = imported("xgboost")


def cut(names: list[str]) -> list[bytes]:
    """What XGBoost 3.1 and 3.2 store of these categories: from each letter that is no ASCII on, too few bytes."""
    text, pieces, start = "".join(names).encode(), [], 0
    for name in names:
        pieces.append(text[start : start + len(name)])
        start += len(name)
    return pieces


def whole(names: list[str]) -> list[bytes]:
    return [name.encode() for name in names]


def stored(pieces: list[bytes]) -> Any:
    """The pieces as `get_categories` has them, which need not be text."""
    return pa.array(pieces, pa.binary()).view(pa.string())


def test_cuts_are_those_of_the_installed_library() -> None:
    names = ["Bergen", "Bod\u00f8", "Oslo"]
    table = pd.DataFrame({"city": pd.Categorical(names)})
    found = xgboost.DMatrix(table, enable_categorical=True).get_categories(export_to_arrow=True).to_arrow()
    cuts = categories.library_cuts_names()
    assert found[0][1].cast(pa.binary()).to_pylist() == (cut(names) if cuts else whole(names))


@pytest.mark.parametrize(("store", "passed"), [(cut, cut), (whole, cut), (whole, whole)])
def test_no_value_is_taken_for_another(
    store: Callable[[list[str]], list[bytes]],
    passed: Callable[[list[str]], list[bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All lists of up to three short names, of which a column holds any; they are found by what XGBoost reads."""
    monkeypatch.setattr(categories, "library_cuts_names", lambda: passed is cut)
    texts = ["a", "b", "\u00e9", "aa", "\u00e9a", "a\u00e9", "\u00e9\u00e9"]
    read = refused = 0
    for names in (list(some) for count in (1, 2, 3) for some in permutations(texts, count)):
        for values in (list(some) for count in range(len(names) + 1) for some in combinations(names, count)):
            try:
                found = categories.stored_categories(stored(store(names)), pd.Series(values, dtype=object))
            except DataMismatchError:
                refused += 1
                continue
            read += 1
            for value in values:
                assert store(names).index(passed(found)[found.index(value)]) == names.index(value), (names, values)
    assert read > 200
    assert refused > 100


@pytest.mark.parametrize("values", [["Oslo"], ["Bergen", "Oslo"], [None]])
def test_whole_names_are_recognised_by_rows_of_ascii_alone(values: list[str | None]) -> None:
    names = ["Bergen", "Bod\u00f8", "Oslo"]
    trained = pa.table({"city": pa.array(names * 20).dictionary_encode()})
    model = xgboost.XGBRegressor(n_estimators=2, enable_categorical=True).fit(trained, np.arange(60.0) % 3)
    rows = pd.DataFrame({"city": values * 5, "y": 0.0})
    X = rows_for_model(rows, model, target="y").X
    codes = [names.index(value) if value else None for value in values] * 5
    arrow = pa.table({"city": pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(names))})
    np.testing.assert_array_equal(model.predict(X), model.predict(arrow))


def test_whole_names_that_the_installed_library_would_cut_are_refused() -> None:
    names = ["Bergen", "Bod\u00f8", "Oslo"]
    trained = pa.table({"city": pa.array(names * 20).dictionary_encode()})
    model = xgboost.XGBRegressor(n_estimators=2, enable_categorical=True).fit(trained, np.arange(60.0) % 3)
    if not categories.library_cuts_names():
        pytest.skip("this release of XGBoost reads such names whole")
    rows = pd.DataFrame({"city": names, "y": 0.0})
    with pytest.raises(DataMismatchError, match=r"'city' holds names with letters that are no ASCII.*'Bod\u00f8'"):
        rows_for_model(rows, model, target="y")
