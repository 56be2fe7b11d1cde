"""Rows that are refused as training rows: the message names the cause, where the members show it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from ens_plugin.errors import DataMismatchError

N_ROWS = 200
RNG = np.random.default_rng(0)
X = RNG.normal(size=(2 * N_ROWS, 5))
Y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.7 * RNG.normal(size=2 * N_ROWS) > 0).astype(int)
ORDER = RNG.permutation(N_ROWS)
TRAIN, FRESH = slice(0, N_ROWS), slice(N_ROWS, None)
CHANGED, MOVED = "with values changed since", "in another order"


@pytest.fixture(scope="module")
def forest() -> RandomForestClassifier:
    return RandomForestClassifier(20, random_state=0).fit(X[TRAIN], Y[TRAIN])


def refusal(model: Any, rows: Any, y: Any) -> str:
    with pytest.raises(DataMismatchError) as caught:
        ens_plugin.analyze(model, rows, y)
    return str(caught.value)


def test_rows_in_another_order(forest: RandomForestClassifier) -> None:
    for y in (Y[TRAIN][ORDER], Y[TRAIN]):
        message = refusal(forest, X[TRAIN][ORDER], y)
        assert message.startswith("These are training rows in another order, or not all of them.")
        assert MOVED in message
        assert CHANGED not in message


def test_rounded_rows(forest: RandomForestClassifier) -> None:
    message = refusal(forest, X[TRAIN].round(1), Y[TRAIN])
    assert CHANGED in message
    assert MOVED not in message


@pytest.mark.parametrize(
    ("rows", "y"),
    [(X[FRESH], Y[FRESH]), (X[TRAIN], Y[TRAIN][ORDER]), (X[TRAIN][:-1], Y[TRAIN][:-1])],
    ids=["as many fresh rows", "another target", "another number of rows"],
)
def test_no_cause_is_named_for_other_rows_another_target_or_number(
    forest: RandomForestClassifier, rows: Any, y: Any
) -> None:
    assert "Found:" not in refusal(forest, rows, y)
