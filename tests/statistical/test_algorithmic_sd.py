"""The standard deviation over seeds, estimated from one forest, against that of many forests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_friedman1
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import get_scorer

from ens_plugin import analyze

pytestmark = pytest.mark.slow

N_TRAIN, N_MEMBERS, N_SEEDS, N_ANALYSED = 300, 25, 160, 20


def two_labels() -> Any:
    return make_classification(2300, 10, n_informative=5, flip_y=0.05, class_sep=0.8, random_state=0)


def four_labels() -> Any:
    return make_classification(2300, 10, n_informative=6, n_classes=4, n_clusters_per_class=1, random_state=1)


def friedman() -> Any:
    return make_friedman1(2300, noise=1.0, random_state=2)


@pytest.mark.long
@pytest.mark.parametrize(
    ("data", "forest"),
    [
        (two_labels, RandomForestClassifier(N_MEMBERS)),
        (two_labels, RandomForestClassifier(N_MEMBERS, max_depth=4)),
        (four_labels, RandomForestClassifier(N_MEMBERS)),
        (friedman, RandomForestRegressor(N_MEMBERS)),
    ],
    ids=["two labels", "soft votes", "four labels", "regression"],
)
def test_held_out_sd_is_that_over_seeds(data: Any, forest: Any) -> None:
    """Within 20 %: 160 forests give the truth to 5.6 %, 20 analyses their own mean to a few percent."""
    X, y = data()
    train, held_out = slice(0, N_TRAIN), slice(N_TRAIN, None)
    losses, estimates = [], []
    for seed in range(N_SEEDS):
        model = forest.set_params(random_state=seed).fit(X[train], y[train])
        predicted = model.predict(X[held_out])
        regression = isinstance(model, RandomForestRegressor)
        losses.append(np.mean((predicted - y[held_out]) ** 2 if regression else predicted != y[held_out]))
        if seed < N_ANALYSED:
            report = analyze(model, X[held_out], y[held_out], data="holdout", max_size=N_MEMBERS)
            estimates.append(report.algorithmic_sd)
    truth = np.std(losses, ddof=1)
    assert np.sqrt(np.mean(np.square(estimates))) == pytest.approx(truth, rel=0.2)


@pytest.mark.long
@pytest.mark.parametrize("metric", ["roc_auc", "f1", "neg_brier_score"])
def test_sd_of_a_metric_is_that_over_seeds(metric: str) -> None:
    """On held-out rows within 20 %; on fresh rows, from out-of-bag ones, it errs high as that of the error does.

    Of the Brier score, to which each row's own luck adds most, the sd on fresh rows is 2.3 times the true one.
    """
    X, y = make_classification(4400, 10, n_informative=5, weights=[0.9], class_sep=0.8, random_state=3)
    train, held_out, fresh = slice(0, 400), slice(400, 800), slice(800, None)
    score, values, on_held_out, out_of_bag = get_scorer(metric), [], [], []
    for seed in range(100):
        model = RandomForestClassifier(N_MEMBERS, random_state=seed).fit(X[train], y[train])
        values.append([score(model, X[rows], y[rows]) for rows in (held_out, fresh)])
        if seed < N_ANALYSED:
            report = analyze(model, X[held_out], y[held_out], data="holdout", metric=metric)
            on_held_out.append(report.algorithmic_sd)
            out_of_bag.append(analyze(model, X[train], y[train], metric=metric).algorithmic_sd)
    truth, of_fresh = np.std(values, axis=0, ddof=1)
    assert np.sqrt(np.mean(np.square(on_held_out))) == pytest.approx(truth, rel=0.2)
    assert 0.5 < np.sqrt(np.mean(np.square(out_of_bag))) / of_fresh < 2.5
