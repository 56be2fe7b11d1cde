"""Forests of several outputs, and the rows they were trained on."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from sklearn.datasets import make_multilabel_classification, make_regression
from sklearn.ensemble import BaggingRegressor, ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ens_plugin
from ens_plugin import EnsembleReport

X, LABELS = make_multilabel_classification(150, 8, n_classes=3, n_labels=2, random_state=0)
CLASSES = np.stack([LABELS[:, 0] + LABELS[:, 1], LABELS[:, 2]], axis=1)
XR, VALUES = make_regression(150, 5, n_targets=3, noise=20, random_state=0)
WEIGHT = np.random.default_rng(0).integers(1, 4, 150).astype(float)
FOREST: dict[str, Any] = {"n_estimators": 60, "random_state": 0}


@cache
def label_forest() -> Any:
    return RandomForestClassifier(max_depth=5, oob_score=True, **FOREST).fit(X, LABELS)


@cache
def value_forest() -> Any:
    return RandomForestRegressor(oob_score=True, **FOREST).fit(XR, VALUES)


@cache
def label_report() -> EnsembleReport:
    return ens_plugin.analyze(label_forest(), X, LABELS)


@cache
def value_report() -> EnsembleReport:
    return ens_plugin.analyze(value_forest(), XR, VALUES)


MODELS: dict[str, Callable[[], Any]] = {
    "pure leaves": lambda: RandomForestClassifier(**FOREST).fit(X, LABELS),
    "extra trees": lambda: ExtraTreesClassifier(bootstrap=True, **FOREST).fit(X, LABELS),
    "pipeline": lambda: make_pipeline(StandardScaler(), RandomForestClassifier(**FOREST)).fit(X, LABELS),
    "own forests": lambda: MultiOutputClassifier(RandomForestClassifier(**FOREST)).fit(X, LABELS),
    "own pipelines": lambda: MultiOutputClassifier(
        make_pipeline(StandardScaler(), RandomForestClassifier(**FOREST))
    ).fit(X, LABELS),
    "unequal labels": lambda: RandomForestClassifier(**FOREST).fit(X, CLASSES),
    "own unequal labels": lambda: MultiOutputClassifier(RandomForestClassifier(**FOREST)).fit(X, CLASSES),
    "balanced": lambda: RandomForestClassifier(class_weight="balanced", max_depth=4, **FOREST).fit(X, LABELS),
    "bagging": lambda: BaggingRegressor(**FOREST).fit(XR, VALUES),
    "own forests of values": lambda: MultiOutputRegressor(RandomForestRegressor(**FOREST)).fit(XR, VALUES),
}
