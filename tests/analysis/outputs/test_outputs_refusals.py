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


@pytest.mark.parametrize(
    ("model", "y", "options", "error", "message"),
    [
        (label_forest, LABELS[:, 0], {}, InputError, r"y has shape \(150,\).*predicts 3 outputs; pass y of shape"),
        (label_forest, LABELS[:, :2], {}, InputError, r"pass y of shape \(n_rows, 3\)"),
        (label_forest, LABELS[:, ::-1], {}, DataMismatchError, "Output '0': y is not the target"),
        (label_forest, LABELS, {"metric": "r2"}, InputError, "Output '0': metric='r2' scores values"),
        (
            lambda: RandomForestClassifier(bootstrap=False, **FOREST).fit(X, LABELS),
            LABELS,
            {},
            BagError,
            "Output '0': This RandomForestClassifier was trained without bootstrap",
        ),
        (lambda: MultiOutputClassifier(RandomForestClassifier()), LABELS, {}, NotFittedError, "has not been fitted"),
        (
            lambda: MultiOutputClassifier(LogisticRegression()).fit(X, LABELS),
            LABELS,
            {},
            UnsupportedModelError,
            "Output '0': No adapter accepts",
        ),
        (
            lambda: RandomForestClassifier(**FOREST).fit(X, LABELS * [1, 0, 1]),
            LABELS * [1, 0, 1],
            {},
            InputError,
            "Output '1': y holds a single label",
        ),
        (
            lambda: RandomForestClassifier(2, random_state=0).fit(X, LABELS),
            LABELS,
            {},
            TooFewMembersError,
            "Output '0': .* fewer than 2 out-of-bag members",
        ),
    ],
)
def test_what_is_refused(model: Any, y: Any, options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ens_plugin.analyze(model(), X, y, **options)


def test_missing_values_are_named_by_row() -> None:
    y = VALUES.copy()
    y[4, 1] = np.nan
    with pytest.raises(InputError, match=r"1 missing value .* in row 4;"):
        ens_plugin.analyze(value_forest(), XR, y)


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
