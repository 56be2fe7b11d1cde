"""Parts of members by which the files of a stored model are recognised."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ens_plugin.adapters import find_adapter
from tests.extras import lightgbm, xgboost

X, Y = (part[:150] for part in load_breast_cancer(return_X_y=True))

MODELS: dict[str, Callable[[int], Any]] = {
    "forest": lambda seed: RandomForestClassifier(10, random_state=seed),
    "extra trees": lambda seed: ExtraTreesClassifier(10, bootstrap=True, random_state=seed),
    "bagging": lambda seed: BaggingClassifier(n_estimators=10, random_state=seed),
    "lightgbm": lambda seed: lightgbm.LGBMClassifier(
        n_estimators=10, boosting_type="rf", bagging_freq=1, bagging_fraction=0.6, random_state=seed, verbose=-1,
        n_jobs=1,
    ),
    "xgboost": lambda seed: xgboost.XGBRFClassifier(n_estimators=10, subsample=0.6, random_state=seed, n_jobs=1),
}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_it_is_in_every_pickle_of_the_model_and_in_none_of_another(name: str) -> None:
    model, other = (MODELS[name](seed).fit(X, Y) for seed in (0, 1))
    parts = find_adapter(model).fingerprint()
    assert len(parts) == 3
    content = pickle.dumps(make_pipeline(StandardScaler(), model))
    loaded = pickle.loads(content)[-1]
    assert find_adapter(loaded).fingerprint() == parts
    for stored in (content, pickle.dumps(loaded)):
        assert all(part in stored for part in parts)
    assert not any(part in pickle.dumps(other) for part in parts)


def test_boosters_have_it_in_their_own_formats_too() -> None:
    model = MODELS["lightgbm"](0).fit(X, Y)
    assert all(part in model.booster_.model_to_string().encode() for part in find_adapter(model).fingerprint())
    model = MODELS["xgboost"](0).fit(X, Y)
    raw = bytes(model.get_booster().save_raw("ubj"))
    assert all(part in raw for part in find_adapter(model).fingerprint())


def test_members_that_are_no_trees_have_none() -> None:
    model = BaggingClassifier(KNeighborsClassifier(), n_estimators=5, random_state=0).fit(X, Y)
    assert find_adapter(model).fingerprint() == ()
