"""The difference of two forests' metrics on the same rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score

from ens_plugin import CustomEnsemble
from ens_plugin.adapters import find_adapter
from ens_plugin.analysis import analyze_rows
from ens_plugin.analysis.judged import JudgedMetric, judge_metric, metric_difference
from ens_plugin.analysis.metrics import resolve_metric
from ens_plugin.core.sample import Sample
from ens_plugin.core.tally import RowBlock
from ens_plugin.errors import InputError
from tests.forests import Array

RNG = np.random.default_rng(0)
X = RNG.normal(size=(900, 5))
Y = (RNG.random(900) < 1.0 / (1.0 + np.exp(-2.0 * X[:, 0] - X[:, 1]))).astype(int)
TRAINED, FRESH = slice(0, 300), slice(300, None)


def forest(seed: int, **options: Any) -> Any:
    return RandomForestClassifier(30, min_samples_leaf=5, random_state=seed, **options).fit(X[TRAINED], Y[TRAINED])


def judged(model: Any, rows: slice, data: Any) -> JudgedMetric:
    return analyze_rows(model, X[rows], Y[rows], data=data, metric="roc_auc")[1]


def of_outputs(outputs: Array, is_oob: Array, y: Array, metric: str) -> JudgedMetric:
    """The rows of a metric at the size of the members out of bag, without an analysis."""
    adapter = find_adapter(CustomEnsemble(outputs, ~is_oob, aggregation="mean_proba", classes=[0, 1]))
    evidence: Any = SimpleNamespace(
        rows_of_metric=Sample(RowBlock(outputs, is_oob, y, 2), np.arange(y.size), np.ones(y.size))
    )
    resolved = resolve_metric(metric, adapter)
    return judge_metric(adapter, evidence, y, resolved, 0.0)._replace(shift=0.0)


def test_out_of_bag_the_rows_of_a_loss_have_twice_the_variance() -> None:
    """Losses of rows out of bag go together; those of labels do not, see the benchmarks."""
    rng = np.random.default_rng(2)
    y, every = np.arange(200) % 2, np.ones((10, 200), dtype=bool)
    second = np.clip(0.25 + 0.5 * y + rng.normal(0.0, 0.3, (2, 10, 200)), 0.0, 1.0)
    outputs = np.stack([1.0 - second, second], axis=3)
    out_of_bag = every & (np.arange(2000).reshape(10, 200) > 0)

    def width(is_oob: Array, metric: str) -> float:
        one, other = (of_outputs(own, is_oob, y, metric)._replace(seed_variance=0.0) for own in outputs)
        found = metric_difference(one, other, 0.95)
        return found.upper - found.lower

    for metric, factor in (("neg_log_loss", 2.0), ("neg_brier_score", 2.0)):
        assert (width(out_of_bag, metric) / width(every, metric)) ** 2 == pytest.approx(factor, rel=0.02)


def test_a_row_that_one_member_is_right_about_is_not_all_of_the_variance_over_seeds() -> None:
    """Without that member its probability is 0, and the logarithm of the clipped one is -36."""
    rng = np.random.default_rng(0)
    y = np.arange(200) % 2
    second = np.clip(0.2 + 0.6 * y + rng.normal(0.0, 0.1, (40, 200)), 0.05, 0.95)
    usual = of_outputs(np.stack([1.0 - second, second], axis=2), np.ones((40, 200), dtype=bool), y, "neg_log_loss")
    second[:, 0] = 1.0
    second[7, 0] = 0.6
    single = of_outputs(np.stack([1.0 - second, second], axis=2), np.ones((40, 200), dtype=bool), y, "neg_log_loss")
    # To first order the row adds the relative spread of its probability, which one member of 40 has.
    assert single.seed_variance < usual.seed_variance + 2.0 / 200**2


def test_the_variances_over_seeds_of_both_add_up_and_missing_members_shift_the_difference() -> None:
    rng = np.random.default_rng(1)
    y = np.arange(100) % 2
    proba = np.clip(0.25 + 0.5 * y + rng.normal(0.0, 0.3, (2, 10, 100)), 0.05, 0.95)
    every = np.ones((10, 100), dtype=bool)
    one, other = (
        of_outputs(np.stack([1.0 - own, own], axis=2), every, y, "neg_brier_score")._replace(seed_variance=0.0)
        for own in proba
    )
    plain = metric_difference(one, other, 0.95)
    seeds = [judged._replace(seed_variance=variance) for judged, variance in ((one, 1e-4), (other, 3e-4))]
    found = metric_difference(seeds[0], seeds[1], 0.95)
    half = np.hypot(plain.upper - plain.estimate, 1.959964 * 0.02)
    assert found == pytest.approx((plain.estimate, plain.estimate - half, plain.estimate + half), rel=1e-6)
    # The score rises by 0.25 for the candidate and by 0.5 for the baseline: the candidate is worse by as much more.
    shifted = metric_difference(one._replace(shift=0.25), other._replace(shift=0.5), 0.95)
    assert np.subtract(shifted, plain) == pytest.approx(0.25)


def test_rows_of_other_kinds_may_tell_two_ensembles_apart_that_agree_on_all_of_these() -> None:
    """Half a row of each of two labels, and of each ensemble, that it alone predicts right: each moves it by 1/101."""
    y, every = np.arange(100) % 2, np.ones((10, 100), dtype=bool)
    outputs = np.tile(np.stack([np.where(y == 1, 0.2, 0.9), np.where(y == 1, 0.8, 0.1)], axis=1), (10, 1, 1))
    one, other = (of_outputs(outputs, every, y, "accuracy")._replace(seed_variance=0.0) for _ in range(2))
    found = metric_difference(one, other, 0.95)
    half = 1.959964 * np.sqrt(4 * 0.5 / 101**2)
    assert found == pytest.approx((0.0, -half, half), rel=1e-6)


def test_a_log_loss_that_is_infinite_at_the_size_is_not_compared() -> None:
    """Of 12 members, some give the label of many rows probability 0."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    right = rng.random((12, 300)) < rng.beta(1.5, 0.7, 300)
    ensemble = CustomEnsemble(np.eye(2)[np.where(right, y, 1 - y)], None, aggregation="mean_proba")
    report, rows = analyze_rows(ensemble, None, y, data="holdout", metric="neg_log_loss")
    assert np.isnan(report.error)
    assert isinstance(rows, JudgedMetric)
    with pytest.raises(InputError, match=r"of one of the ensembles is infinite at its size.*'neg_brier_score'"):
        metric_difference(rows, rows, 0.95)


@pytest.mark.slow
def test_on_held_out_rows_it_is_the_difference_of_the_scores() -> None:
    good, poor = forest(0), forest(1, max_depth=1)
    found = metric_difference(judged(poor, FRESH, "holdout"), judged(good, FRESH, "holdout"), 0.95)
    scores = [roc_auc_score(Y[FRESH], model.predict_proba(X[FRESH])[:, 1]) for model in (good, poor)]
    # An increase of the error: the poorer candidate has it.
    assert found.estimate == pytest.approx(scores[0] - scores[1], abs=1e-9)
    assert found.lower < found.estimate < found.upper
