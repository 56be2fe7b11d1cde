"""The difference of two forests' metrics on the same rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score

from ens_plugin.analysis import analyze_rows
from ens_plugin.analysis.checks.judged_metric import JudgedMetric, metric_difference

RNG = np.random.default_rng(0)
X = RNG.normal(size=(900, 5))
Y = (RNG.random(900) < 1.0 / (1.0 + np.exp(-2.0 * X[:, 0] - X[:, 1]))).astype(int)
TRAINED, FRESH = slice(0, 300), slice(300, None)


def forest(seed: int, **options: Any) -> Any:
    return RandomForestClassifier(30, min_samples_leaf=5, random_state=seed, **options).fit(X[TRAINED], Y[TRAINED])


def judged(model: Any, rows: slice, data: Any) -> JudgedMetric:
    found = analyze_rows(model, X[rows], Y[rows], data=data, metric="roc_auc")[1]
    assert isinstance(found, JudgedMetric)
    return found


def test_on_held_out_rows_it_is_the_difference_of_the_scores() -> None:
    good, poor = forest(0), forest(1, max_depth=1)
    found = metric_difference(judged(poor, FRESH, "holdout"), judged(good, FRESH, "holdout"), 0.95)
    scores = [roc_auc_score(Y[FRESH], model.predict_proba(X[FRESH])[:, 1]) for model in (good, poor)]
    # An increase of the error: the poorer candidate has it.
    assert found.estimate == pytest.approx(scores[0] - scores[1], abs=1e-9)
    assert found.lower < found.estimate < found.upper


def test_of_another_seed_the_interval_holds_no_difference() -> None:
    first, second = (judged(forest(seed), TRAINED, "oob") for seed in (0, 1))
    found, back = metric_difference(first, second, 0.95), metric_difference(second, first, 0.95)
    assert found.lower < 0.0 < found.upper
    assert (found.estimate, found.lower) == pytest.approx((-back.estimate, -back.upper), rel=1e-9)


@pytest.mark.slow
def test_the_variance_over_seeds_is_that_of_refits() -> None:
    scores = [roc_auc_score(Y[FRESH], forest(seed).predict_proba(X[FRESH])[:, 1]) for seed in range(25)]
    found = np.mean([judged(forest(seed), FRESH, "holdout").seed_variance for seed in range(4)])
    assert 0.4 < found / np.var(scores, ddof=1) < 2.5
