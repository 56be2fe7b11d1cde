"""The paper's growing algorithm, step by step."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.pipeline import make_pipeline

import ens_plugin
from ens_plugin.errors import InputError, NotConvergedWarning, UnsupportedModelError
from ens_plugin.papers import ensemble_size_2013

X, Y = load_breast_cancer(return_X_y=True)
CONFIDENCE = 0.994


def test_growth_follows_the_pseudo_code() -> None:
    forest, history = ensemble_size_2013.grow(RandomForestClassifier(random_state=0), X, Y, confidence=CONFIDENCE)
    sizes, wanted = list(history), list(history.values())
    assert sizes[0] == 100
    assert len(sizes) > 1
    for (size, following), recommended in zip(pairwise(sizes), wanted, strict=False):
        assert recommended is not None
        assert size < recommended
        assert following == min(recommended, 2 * size)
    assert wanted[-1] is not None
    assert wanted[-1] <= sizes[-1]
    assert len(forest.estimators_) == wanted[-1]
    whole = RandomForestClassifier(wanted[-1], random_state=0).fit(X, Y)
    np.testing.assert_array_equal(forest.predict_proba(X), whole.predict_proba(X))
    first = ens_plugin.analyze(
        RandomForestClassifier(100, random_state=0).fit(X, Y), X, Y, criterion="agreement", tolerance=1 - CONFIDENCE
    )
    assert wanted[0] == first.recommended_size


def test_max_size_says_how_many_members_are_recommended() -> None:
    with pytest.warns(NotConvergedWarning, match=r"stopped at max_size=110, and \d+ members are recommended"):
        forest, history = ensemble_size_2013.grow(
            RandomForestClassifier(random_state=0), X, Y, confidence=CONFIDENCE, max_size=110
        )
    assert list(history) == [100, 110]
    assert len(forest.estimators_) == 110


def test_what_cannot_be_grown_is_refused() -> None:
    with pytest.raises(InputError, match="confidence"):
        ensemble_size_2013.grow(RandomForestClassifier(), X, Y, confidence=0.5)
    for model in (GradientBoostingClassifier(), make_pipeline(RandomForestClassifier())):
        with pytest.raises(UnsupportedModelError, match="cannot be grown"):
            ensemble_size_2013.grow(model, X, Y)
