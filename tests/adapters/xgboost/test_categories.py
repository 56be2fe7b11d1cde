"""Categories that XGBoost stores of a table of Arrow or cuts of one of pandas, as a column of pandas meets them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from ens_plugin.adapters.xgboost.library import CUTTING, stored_categories
from ens_plugin.cli.inputs import rows_for_model
from ens_plugin.errors import DataMismatchError
from tests.extras import imported

xgboost = imported("xgboost")
NAMES = ["Bergen", "Bod\u00f8", "Oslo"]


def stored(pieces: list[bytes]) -> pa.Array:
    """The pieces as `get_categories` has them, which need not be text."""
    return pa.array(pieces, pa.binary()).view(pa.string())


def test_the_installed_library_cuts_names_in_the_stated_releases() -> None:
    table = pd.DataFrame({"city": pd.Categorical(NAMES)})
    found = xgboost.DMatrix(table, enable_categorical=True).get_categories(export_to_arrow=True).to_arrow()
    is_cut = found[0][1].cast(pa.binary()).to_pylist() != [name.encode() for name in NAMES]
    assert is_cut == (tuple(map(int, xgboost.__version__.split(".")[:2])) in CUTTING)


@pytest.mark.parametrize(
    ("pieces", "values", "release", "found"),
    [
        ([b"Bergen", b"Oslo"], ["Oslo", None], "3.2.0", ["Bergen", "Oslo"]),
        ([name.encode() for name in NAMES], NAMES[:2], "3.4.1", NAMES),
        ([name.encode() for name in NAMES], NAMES[:1], "3.2.0", None),
        # What an earlier release cut, read by a later one.
        ([b"Bergen", b"Bod\xc3", b"\xb8Osl"], ["Bergen"], "3.4.1", None),
        (["\u00e9".encode(), b"ab"], ["\u00e9a", "bb"], "3.4.1", None),
    ],
)
def test_names_that_may_be_cut_are_refused(
    pieces: list[bytes], values: list[str], release: str, found: list[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xgboost, "__version__", release)
    column = pd.Series(values, dtype=object, name="city")
    if found is not None:
        assert stored_categories(stored(pieces), column) == found
        return
    with pytest.raises(DataMismatchError, match=r"column 'city' cannot be read.*letters that are no ASCII"):
        stored_categories(stored(pieces), column)


def test_whole_names_of_ascii_are_those_of_training() -> None:
    names = ["Bergen", "Moss", "Oslo"]
    trained = pa.table({"city": pa.array(names * 20).dictionary_encode()})
    model = xgboost.XGBRegressor(n_estimators=2, enable_categorical=True).fit(trained, np.arange(60.0) % 3)
    X = rows_for_model(pd.DataFrame({"city": ["Oslo", None] * 5, "y": 0.0}), model, target="y").X
    arrow = pa.table({"city": pa.DictionaryArray.from_arrays(pa.array([2, None] * 5, pa.int32()), pa.array(names))})
    np.testing.assert_array_equal(model.predict(X), model.predict(arrow))
