"""Held-out rows with other units than the training rows: a doubt or a warning, which names the columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import ens_plugin

Array = NDArray[Any]
N_ROWS, N_MEMBERS = 200, 15
RNG = np.random.default_rng(0)
X = RNG.normal(size=(2 * N_ROWS, 6)) * [1, 10, 100, 1000, 5, 2] + [20, 400, 900, 8000, 50, 10]
y = (X[:, 0] - 20 + (X[:, 3] - 8000) / 1000 + RNG.normal(size=2 * N_ROWS) > 0).astype(int)
TRAIN, FRESH = slice(0, N_ROWS), slice(N_ROWS, None)
SCALED = (X - X[TRAIN].mean(axis=0)) / X[TRAIN].std(axis=0)


def custom() -> Any:
    bags = [RNG.integers(0, N_ROWS, N_ROWS) for _ in range(N_MEMBERS)]
    trees = [DecisionTreeClassifier(random_state=0).fit(X[TRAIN][bag], y[TRAIN][bag]) for bag in bags]
    return ens_plugin.CustomEnsemble.from_estimators(trees, bags)


def lightgbm_model() -> Any:
    lightgbm = pytest.importorskip("lightgbm")
    model = lightgbm.LGBMClassifier(
        boosting_type="rf", n_estimators=N_MEMBERS, subsample=0.6, subsample_freq=1, min_child_samples=5, verbose=-1
    )
    return model.fit(X[TRAIN], y[TRAIN])


def xgboost_model() -> Any:
    xgboost = pytest.importorskip("xgboost")
    return xgboost.XGBRFClassifier(n_estimators=N_MEMBERS, random_state=0).fit(X[TRAIN], y[TRAIN])


MODELS: dict[str, Callable[[], Any]] = {
    "forest": lambda: RandomForestClassifier(N_MEMBERS, random_state=0).fit(X[TRAIN], y[TRAIN]),
    "extra trees": lambda: ExtraTreesClassifier(N_MEMBERS, random_state=0).fit(X[TRAIN], y[TRAIN]),
    "bagging of columns": lambda: BaggingClassifier(n_estimators=N_MEMBERS, max_features=0.7, random_state=0).fit(
        X[TRAIN], y[TRAIN]
    ),
    "custom": custom,
    "lightgbm": lightgbm_model,
    "xgboost": xgboost_model,
}


@pytest.mark.parametrize("name", MODELS)
def test_standardised_rows_are_doubted_and_rows_as_trained_are_not(name: str) -> None:
    model = MODELS[name]()
    scaled = ens_plugin.analyze(model, SCALED[FRESH], y[FRESH], data="holdout")
    assert any("another scale than the training rows" in doubt for doubt in scaled.basis.doubts)
    assert "Do not use these figures." in str(scaled)
    fresh = ens_plugin.analyze(model, X[FRESH], y[FRESH], data="holdout")
    assert not fresh.basis.doubts
    assert not any("outside of the values" in warning for warning in fresh.warnings)


def test_one_moved_column_is_named_in_a_warning() -> None:
    """Such as a date, of which later rows hold later ones."""
    names = [f"measure {place}" for place in range(5)] + ["day"]
    frame = pd.DataFrame(X, columns=names)
    model = RandomForestClassifier(N_MEMBERS, random_state=0).fit(frame[TRAIN], y[TRAIN])
    later = frame[FRESH].assign(day=frame["day"] + 100)
    report = ens_plugin.analyze(model, later, y[FRESH], data="holdout")
    assert not report.basis.doubts
    (warning,) = [own for own in report.warnings if "outside of the values" in own]
    assert warning.startswith("Column 'day' lies outside")


DRAWS: dict[str, Callable[[np.random.Generator, Any], Array]] = {
    "Cauchy": lambda rng, size: rng.standard_cauchy(size),
    "counts": lambda rng, size: rng.poisson(3, size),
    "skewed": lambda rng, size: rng.random(size) ** 9,
}


@pytest.mark.filterwarnings("ignore::ens_plugin.errors.WeakEstimateWarning")
@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("forest", [RandomForestClassifier, ExtraTreesClassifier])
def test_heavy_tails_counts_and_few_rows_are_not_other_units(draw: str, forest: type) -> None:
    rng = np.random.default_rng(1)
    rows = DRAWS[draw](rng, (N_ROWS + 12, 4))
    labels = (rows[:, 0] + rng.normal(size=rows.shape[0]) > np.median(rows[:, 0])).astype(int)
    labels[N_ROWS : N_ROWS + 2] = 0, 1
    model = forest(N_MEMBERS, random_state=0).fit(rows[:N_ROWS], labels[:N_ROWS])
    report = ens_plugin.analyze(model, rows[N_ROWS:], labels[N_ROWS:], data="holdout")
    assert not any("outside of the values" in text for text in (*report.basis.doubts, *report.warnings))
