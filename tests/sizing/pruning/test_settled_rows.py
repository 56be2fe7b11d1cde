"""Rows that compiled code settles one after the other, against blocks of members for all rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ens_plugin import DynamicPruningClassifier, _kernel
from ens_plugin.adapters.trees import LeafWalk
from ens_plugin.errors import DataMismatchError
from tests.extras import needs_kernel
from tests.sizing.pruning.cases import ensemble, frozen

N_ROWS = 400
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N_ROWS, 6))
X[:, 4] = RNG.integers(0, 9, N_ROWS)
Y = (X[:, 0] + (X[:, 4] % 3) / 2 + RNG.normal(size=N_ROWS) > 0.5).astype(int)
WITH_MISSING = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
FRAME = pd.DataFrame(WITH_MISSING, columns=list("abcdef")).assign(e=pd.Categorical([f"c{v:g}" for v in X[:, 4]]))

CASES: dict[str, Callable[[], tuple[Any, Any]]] = {
    "lightgbm": lambda: (ensemble("lightgbm"), X),
    "lightgbm, float32": lambda: (ensemble("lightgbm"), WITH_MISSING.astype(np.float32)),
    "lightgbm, zeros": lambda: (ensemble("lightgbm").set_params(zero_as_missing=True), X.round()),
    "lightgbm, categories": lambda: (ensemble("lightgbm"), FRAME),
    "xgboost": lambda: (ensemble("xgboost"), WITH_MISSING),
    "xgboost, zeros": lambda: (ensemble("xgboost").set_params(missing=0.0), X.round()),
    "xgboost, categories": lambda: (
        ensemble("xgboost").set_params(
            tree_method="hist", enable_categorical=True, feature_types=["q"] * 4 + ["c", "q"]
        ),
        X,
    ),
}


def some(rows: Any, chosen: slice) -> Any:
    return rows.iloc[chosen] if hasattr(rows, "iloc") else rows[chosen]


@needs_kernel
@pytest.mark.parametrize("rule", ["learned", "full", "infinite"])
@pytest.mark.parametrize("case", CASES)
def test_rows_in_turn_and_blocks_of_members_predict_the_same(
    case: str, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, rows = CASES[case]()
    fitted = frozen(model.fit(rows, Y))
    compiled = DynamicPruningClassifier(fitted, rule=rule).fit(rows, Y)
    with monkeypatch.context() as patched:
        patched.setattr(_kernel, "is_used", lambda: False)
        plain = DynamicPruningClassifier(fitted, rule=rule).fit(rows, Y)
    found: list[bool] = []
    stopped_sums = LeafWalk.stopped_sums

    def watched(walk: LeafWalk, *arguments: Any) -> Any:
        sums = stopped_sums(walk, *arguments)
        found.append(sums is not None)
        return sums

    monkeypatch.setattr(LeafWalk, "stopped_sums", watched)
    for chosen in (slice(0, 1), slice(7, 8), slice(0, 5), slice(0, N_ROWS)):
        ours, theirs = (pruned.query(some(rows, chosen)) for pruned in (compiled, plain))
        np.testing.assert_array_equal(ours.labels, theirs.labels)
        np.testing.assert_array_equal(ours.probabilities, theirs.probabilities)
        np.testing.assert_array_equal(ours.n_queries, theirs.n_queries)
    # Both ask the walk for sums, which it has where the compiled code is used.
    assert found == [True, False] * 4
    assert np.unique(ours.n_queries).size > 1


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost"])
def test_one_row_of_other_columns_is_refused(kind: str) -> None:
    pruned = DynamicPruningClassifier(ensemble(kind)).fit(X, Y)
    for wrong in (X[:1, 1:], X[0], X[:1].tolist()[0]):
        with pytest.raises((DataMismatchError, ValueError)):
            pruned.predict(wrong)
    assert pruned.predict(X[:1].tolist()).shape == (1,)
