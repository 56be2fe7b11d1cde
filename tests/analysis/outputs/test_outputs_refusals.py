"""What is refused of models of several outputs, with the output that is the cause."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor

import ens_plugin
from ens_plugin import oob_predictions
from ens_plugin.errors import (
    BagError,
    DataMismatchError,
    InputError,
    NotFittedError,
    TooFewMembersError,
    UnsupportedModelError,
)
from ens_plugin.papers.dynamic_pruning_2009 import prune
from tests.analysis.outputs.cases import FOREST, LABELS, MODELS, VALUES, XR, X, label_forest, value_forest

MISSING = np.where(np.arange(VALUES.size).reshape(VALUES.shape) == 13, np.nan, VALUES)
CASES: dict[str, tuple[Callable[[], Any], Any, Any, type[Exception], str]] = {
    "one target": (label_forest, X, LABELS[:, 0], InputError, r"y has shape \(150,\).*predicts 3 outputs; pass y of s"),
    "two targets": (label_forest, X, LABELS[:, :2], InputError, r"pass y of shape \(n_rows, 3\)"),
    "targets reversed": (label_forest, X, LABELS[:, ::-1], DataMismatchError, "Output '0': y is not the target"),
    "missing value": (value_forest, XR, MISSING, InputError, r"1 missing value .* in row 4;"),
    "no bootstrap": (
        lambda: RandomForestClassifier(bootstrap=False, **FOREST).fit(X, LABELS), X, LABELS,
        BagError, "Output '0': This RandomForestClassifier was trained without bootstrap",
    ),
    "not fitted": (
        lambda: MultiOutputClassifier(RandomForestClassifier()), X, LABELS, NotFittedError, "has not been fitted"
    ),
    "no ensembles": (
        lambda: MultiOutputClassifier(LogisticRegression()).fit(X, LABELS), X, LABELS,
        UnsupportedModelError, "Output '0': No adapter accepts",
    ),
    "single label": (
        lambda: RandomForestClassifier(**FOREST).fit(X, LABELS * [1, 0, 1]), X, LABELS * [1, 0, 1],
        InputError, "Output '1': y holds a single label",
    ),
    "two members": (
        lambda: RandomForestClassifier(2, random_state=0).fit(X, LABELS), X, LABELS,
        TooFewMembersError, "Output '0': .* fewer than 2 out-of-bag members",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_refusal(case: str) -> None:
    model, rows, y, error, message = CASES[case]
    with pytest.raises(error, match=message):
        ens_plugin.analyze(model(), rows, y)


def test_a_metric_of_another_task_is_refused() -> None:
    with pytest.raises(InputError, match="Output '0': metric='r2' scores values"):
        ens_plugin.analyze(label_forest(), X, LABELS, metric="r2")


def test_forests_of_unequal_sizes_are_reported_each() -> None:
    model = MultiOutputRegressor(RandomForestRegressor(**FOREST)).fit(XR, VALUES)
    model.estimators_[1] = ens_plugin.truncate(model.estimators_[1], 30)
    report = ens_plugin.analyze(model, XR, VALUES)
    assert [part.n_members for part in report.outputs.values()] == [60, 30, 60]


@pytest.mark.fast_cases(
    "own forests-<lambda>0", "forest-<lambda>0", "forest-<lambda>1", "forest-<lambda>2", "forest-<lambda>3"
)
@pytest.mark.parametrize(
    "call",
    [
        lambda model: oob_predictions(model, X, LABELS),
        lambda model: ens_plugin.oob_permutation_importance(model, X, LABELS),
        lambda model: ens_plugin.training_variance(model, X, X[:2]),
        lambda model: prune(model, X, LABELS),
    ],
)
@pytest.mark.parametrize("name", ["forest", "own forests"])
def test_functions_of_one_output_recommend_to_split(name: str, call: Callable[[Any], Any]) -> None:
    model = label_forest() if name == "forest" else MODELS[name]()
    with pytest.raises(UnsupportedModelError, match=r"predicts 3 outputs.*pass ens_plugin.split_outputs\(model\)\[k\]"):
        call(model)
