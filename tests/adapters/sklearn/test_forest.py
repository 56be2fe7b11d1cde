from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.sparse import csr_matrix
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor, RandomTreesEmbedding

from ens_plugin.adapters import find_adapter
from ens_plugin.adapters.sklearn.forest import SklearnForestAdapter
from ens_plugin.errors import BagError, DataMismatchError, InputError, NotFittedError, UnsupportedModelError
from tests.adapters.cases import FRAME, X2, X3, XR, Y2, Y3, YR


def fitted(X: Any = X2, y: Any = Y2, **options: Any) -> RandomForestClassifier:
    return RandomForestClassifier(**{"n_estimators": 10, "random_state": 0, **options}).fit(X, y)


def bags_for(model: Any, X: Any, y: Any) -> Any:
    adapter = SklearnForestAdapter(model)
    return adapter.bags(X, adapter.prepare(X), y)


def test_fully_grown_trees_give_labels_and_others_probabilities() -> None:
    assert SklearnForestAdapter(fitted()).output_kind == "labels"
    assert SklearnForestAdapter(fitted(X3, Y3)).output_kind == "labels"
    assert SklearnForestAdapter(fitted(max_depth=2)).output_kind == "probabilities"
    assert SklearnForestAdapter(RandomForestRegressor(5, random_state=0).fit(XR, YR)).output_kind == "values"


def test_one_mixed_leaf_is_enough_for_probabilities() -> None:
    X = np.vstack([X2, X2[:1], X2[:1]])
    y = np.append(Y2, [0, 1])
    model = fitted(X, y, bootstrap=False)
    assert SklearnForestAdapter(model).output_kind == "probabilities"


@pytest.mark.parametrize("cls", [RandomForestClassifier, ExtraTreesClassifier])
def test_no_bootstrap_needs_holdout_rows(cls: Any) -> None:
    model = cls(5, bootstrap=False, random_state=0).fit(X2, Y2)
    with pytest.raises(BagError, match='data="holdout"'):
        bags_for(model, X2, Y2)


def test_unfitted_forest() -> None:
    with pytest.raises(NotFittedError, match="RandomForestClassifier has not been fitted"):
        find_adapter(RandomForestClassifier())


def test_several_outputs_are_not_covered() -> None:
    model = RandomForestRegressor(5, random_state=0).fit(XR, np.stack([YR, YR], axis=1))
    with pytest.raises(UnsupportedModelError, match="predicts 2 outputs"):
        find_adapter(model)


def test_embedding_is_not_an_ensemble_of_predictions() -> None:
    with pytest.raises(UnsupportedModelError, match="RandomTreesEmbedding"):
        find_adapter(RandomTreesEmbedding(5, random_state=0).fit(X2))


def test_subclass_that_changes_fit_is_refused_and_another_is_not() -> None:
    class Same(RandomForestClassifier):  # type: ignore[misc]
        pass

    class Other(RandomForestClassifier):  # type: ignore[misc]
        def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
            return super().fit(X[::-1], y[::-1], sample_weight)

    assert find_adapter(Same(5, random_state=0).fit(X2, Y2)).n_members == 5
    with pytest.raises(UnsupportedModelError, match="replaces fit"):
        find_adapter(Other(5, random_state=0).fit(X2, Y2))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([*FRAME.columns[:-1], "other"], "missing 'feature 5'; unknown 'other'"),
        (list(FRAME.columns[::-1]), "another order"),
        ([*FRAME.columns, "one more"], "unknown 'one more'"),
    ],
)
def test_other_columns_are_named(columns: list[str], message: str) -> None:
    X = FRAME.reindex(columns=columns, fill_value=0.0)
    with pytest.raises(DataMismatchError, match=message):
        SklearnForestAdapter(fitted(FRAME)).prepare(X)


def test_array_is_taken_for_a_frame_with_the_same_columns() -> None:
    model = fitted(FRAME)
    adapter = SklearnForestAdapter(model)
    np.testing.assert_array_equal(adapter.prepare(FRAME.to_numpy()), adapter.prepare(FRAME))
    with pytest.raises(DataMismatchError, match="X has 5 columns"):
        adapter.prepare(FRAME.to_numpy()[:, :5])


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.where(np.arange(6) == 2, np.inf, X2), "infinite"),
        (np.where(np.arange(6) == 2, 1e300, X2), "infinite values as float32"),
        (np.full((3, 6), "a"), "X cannot be used"),
        (np.zeros(6), "X cannot be used"),
        (np.zeros((0, 6)), "X cannot be used"),
        (csr_matrix(np.where(np.arange(6) == 2, np.nan, X2)), "NaN"),
    ],
    ids=["infinite", "too large", "text", "one dimension", "no rows", "sparse NaN"],
)
def test_rows_the_forest_cannot_take(X: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        SklearnForestAdapter(fitted()).prepare(X)


def test_infinite_value_after_an_allowed_nan_is_still_refused() -> None:
    X = X2.copy()
    X[0, 0], X[5, 0] = np.nan, np.inf
    with pytest.raises(InputError, match="row 5"):
        SklearnForestAdapter(fitted()).prepare(X)


@pytest.mark.parametrize("form", [pd.DataFrame, np.asarray, csr_matrix], ids=["frame", "array", "sparse"])
def test_missing_values_of_a_forest_with_feature_names_raise_no_warning(form: Any) -> None:
    """Without the names, scikit-learn would warn that X has none; pytest turns warnings into errors."""
    X = FRAME.copy()
    X.iloc[5, 0] = np.nan
    refused = pytest.raises(InputError, match="1 of 160 rows of X holds NaN") if form is csr_matrix else nullcontext()
    with refused:
        assert np.isnan(SklearnForestAdapter(fitted(X)).prepare(form(X))[5, 0])


def test_an_arrow_table_is_read_by_its_column_names() -> None:
    forest, table = fitted(FRAME), pa.table(FRAME)
    rows = SklearnForestAdapter(forest).prepare(table)
    np.testing.assert_array_equal(rows, SklearnForestAdapter(forest).prepare(FRAME))
    with pytest.raises(DataMismatchError, match=r"the same names in another order.*X\.select\("):
        SklearnForestAdapter(forest).prepare(table.select(table.column_names[::-1]))


def test_large_finite_values_are_not_taken_for_infinite() -> None:
    X = np.full((4, 6), 3e38)
    assert SklearnForestAdapter(fitted()).prepare(X).dtype == np.float32


def test_sparse_rows_with_64_bit_indices() -> None:
    X = csr_matrix(X2.astype(np.float32))
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    with pytest.raises(InputError, match="64-bit"):
        SklearnForestAdapter(fitted()).prepare(X)


def test_float32_rows_are_not_copied() -> None:
    X = np.ascontiguousarray(X2, dtype=np.float32)
    assert np.shares_memory(SklearnForestAdapter(fitted()).prepare(X), X)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (Y2[:-1], "y has shape"),
        (np.where(Y2 == 0, 7, Y2), "labels that are not among the model's: 7"),
        (np.where(Y2 == 0, "no", "yes"), "not among the model's"),
    ],
)
def test_target_that_cannot_be_the_training_target(y: Any, message: str) -> None:
    with pytest.raises(DataMismatchError, match=message):
        bags_for(fitted(), X2, y)


def test_target_as_a_column_or_a_series_is_the_same_target() -> None:
    model = fitted()
    expected = bags_for(model, X2, Y2).bits
    np.testing.assert_array_equal(bags_for(model, X2, Y2[:, None]).bits, expected)
    np.testing.assert_array_equal(bags_for(model, X2, pd.Series(Y2)).bits, expected)


@pytest.mark.parametrize("max_samples", [None, 0.5])
def test_rows_swapped_in_a_single_pair_are_refused(max_samples: float | None) -> None:
    model = fitted(max_samples=max_samples, n_estimators=40)
    first, second = np.flatnonzero(Y2 == 0)[0], np.flatnonzero(Y2 == 1)[0]
    rows = np.arange(len(Y2))
    rows[[first, second]] = second, first
    drawn = [model.estimators_samples_[member] for member in (0, 20, 39)]
    assert any((first in bag) != (second in bag) for bag in drawn)
    with pytest.raises(DataMismatchError):
        bags_for(model, X2[rows], Y2[rows])
