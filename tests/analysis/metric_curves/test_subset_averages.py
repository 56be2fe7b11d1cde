"""Averages of metrics over subsets, against all subsets of few members; and the closed forms of the rows."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, log_loss, mean_squared_error, r2_score

from ens_plugin import CustomEnsemble, analyze
from ens_plugin.adapters import find_adapter
from ens_plugin.analysis.metric_curves import closed_form, largest_subsets, subset_averages
from ens_plugin.analysis.metric_rows import MetricRows, metric_rows
from ens_plugin.analysis.metrics import resolve_metric
from ens_plugin.core.sample import Sample
from ens_plugin.core.tally import RowBlock
from tests.forests import Array

N_MEMBERS, N_ROWS = 6, 80
VALUES: dict[str, Callable[..., float]] = {
    "r2": r2_score,
    "neg_mean_squared_error": lambda *a, **k: -mean_squared_error(*a, **k),
}


def over_subsets(outputs: Array, size: int, value: Callable[[Array], float]) -> float:
    """Return the mean of a metric of mean outputs over all subsets of one size."""
    return float(np.mean([value(outputs[list(chosen)].mean(axis=0)) for chosen in combinations(range(6), size)]))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("metric", VALUES)
def test_squared_losses_of_values_are_averaged_over_all_subsets(metric: str, weighted: bool) -> None:
    rng = np.random.default_rng(0)
    y = rng.normal(size=N_ROWS)
    outputs = y / 2.0 + rng.normal(size=(N_MEMBERS, N_ROWS))
    weight = rng.choice([0.0, 1.0, 5.0], N_ROWS) if weighted else None
    ensemble = CustomEnsemble(outputs, None, aggregation="mean")
    curve = analyze(ensemble, None, y, metric=metric, data="holdout", sample_weight=weight).error_curve
    for size in (1, 2, 3, 6):
        exact = over_subsets(outputs, size, lambda mean: VALUES[metric](y, mean, sample_weight=weight))
        assert curve.at(size) == pytest.approx(exact, rel=1e-9)


def test_squared_losses_of_probabilities_are_averaged_over_all_subsets() -> None:
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, N_ROWS)
    second = 0.5 * rng.beta(2.0, 2.0, (N_MEMBERS, N_ROWS)) + 0.25 * y
    ensemble = CustomEnsemble(np.stack([1.0 - second, second], axis=2), None, aggregation="mean_proba")
    curve = analyze(ensemble, None, y, metric="neg_brier_score", data="holdout").error_curve
    for size in (1, 2, 3, 6):
        assert curve.at(size) == pytest.approx(over_subsets(second, size, lambda p: -brier_score_loss(y, p)), rel=1e-9)


def test_rows_with_few_members_move_the_level_and_others_give_the_steps() -> None:
    """Up to four members the steps are those of 95 rows, then of the 70 with nine."""
    rng = np.random.default_rng(2)
    trials = np.repeat([2, 4, 9], [5, 25, 70])
    y, outputs = rng.normal(size=100), rng.normal(size=(9, 100)) * np.linspace(0.5, 2.0, 100)
    is_oob = np.arange(9)[:, None] < trials
    adapter = find_adapter(CustomEnsemble(outputs, ~is_oob, aggregation="mean"))
    metric = resolve_metric("neg_mean_squared_error", adapter)
    rows = metric_rows(metric, adapter, Sample(RowBlock(outputs, is_oob, y, 0), np.arange(100), np.ones(100)), y)
    limits = largest_subsets(rows.trials, None)
    assert limits == (4, 9)
    averages = subset_averages(rows, limits, rng)
    mean = np.sum(outputs, axis=0, where=is_oob) / trials
    variance = np.sum((outputs - mean) ** 2, axis=0, where=is_oob) / (trials - 1)

    def loss(size: float, chosen: Array) -> float:
        return float(((mean - y) ** 2 + variance * (1.0 / size - 1.0 / trials))[chosen].mean())

    near, far = trials >= 4, trials == 9
    shift = np.mean((mean - y) ** 2) - np.mean((mean - y)[near] ** 2)
    exact = [
        loss(min(size, 4), near) + shift + (loss(size, far) - loss(4, far) if size > 4 else 0.0)
        for size in averages.sizes
    ]
    assert averages.sizes[[0, -1]].tolist() == [1, 9]
    np.testing.assert_allclose(-averages.by_order, np.tile(exact, (2, 1)), rtol=1e-9)


def test_a_log_loss_without_probabilities_of_0_is_averaged_and_continued_in_a_line() -> None:
    """The members' probabilities of a row's label have mean 2/3, whatever the form of their distribution."""
    rng = np.random.default_rng(3)
    y, n_members = rng.integers(0, 2, 1000), 8
    own = rng.beta(3.0, 1.5, (n_members, 1000))
    second = np.where(y == 1, own, 1.0 - own)
    ensemble = CustomEnsemble(np.stack([1.0 - second, second], axis=2), None, aggregation="mean_proba")
    curve = analyze(ensemble, None, y, metric="neg_log_loss", data="holdout").error_curve
    assert -curve.at(1) == pytest.approx(np.mean([log_loss(y, each) for each in second]), rel=5e-3)
    assert -curve.at(8) == pytest.approx(log_loss(y, second.mean(axis=0)), rel=1e-6)
    assert -curve.asymptote == pytest.approx(-np.log(2.0 / 3.0), rel=0.025)  # three standard errors


def rows_of(outputs: Array, y: Array, weight: Array, metric: str) -> MetricRows:
    """Values, or probabilities of the second of two labels, of members that all count."""
    is_of_labels = y.dtype.kind == "i"
    members = np.stack([1.0 - outputs, outputs], axis=2) if is_of_labels else outputs
    adapter = find_adapter(CustomEnsemble(members, None, aggregation="mean_proba" if is_of_labels else "mean"))
    block = RowBlock(members, np.ones(outputs.shape, dtype=bool), y, 2 if is_of_labels else 0)
    resolved = resolve_metric(metric, adapter)
    return metric_rows(resolved, adapter, Sample(block, np.arange(y.size), weight), y)


@pytest.mark.parametrize("metric", ["neg_mean_squared_error", "neg_brier_score"])
def test_the_luck_of_squared_losses_is_the_spread_of_their_slope_over_members(metric: str) -> None:
    """Members that vary more or less about levels of their own, on rows of unequal weight."""
    rng = np.random.default_rng(6)
    target = rng.integers(0, 2, 300)
    y, weight = target if metric == "neg_brier_score" else target.astype(np.float64), rng.choice([1.0, 9.0], 300)
    slopes, luck = [], []
    for _ in range(200):
        noise = rng.choice([0.5, 2.0], (25, 1)) * rng.normal(size=(25, 300)).clip(-4.0, 4.0)
        outputs = 0.5 + 0.05 * (noise + rng.choice([-1.0, 1.0], (25, 1)))
        found = closed_form(rows_of(outputs, y, weight, metric), None)
        assert found is not None
        exact = np.average(outputs.var(axis=0, ddof=1), weights=weight)
        assert found.member_variance == pytest.approx(exact, rel=1e-9)
        slopes.append(found.member_variance)
        luck.append(found.luck)
    assert np.sqrt(np.mean(np.square(luck))) == pytest.approx(np.std(slopes), rel=0.12)


@pytest.mark.parametrize("metric", ["neg_mean_squared_error", "neg_brier_score"])
def test_the_closed_form_is_of_rows_with_weight_and_of_groups_as_one(metric: str) -> None:
    rng = np.random.default_rng(7)
    y = rng.integers(0, 2, 200)
    outputs = rng.beta(0.5 + 4.0 * y, 4.5 - 4.0 * y, (12, 200)).clip(0.01, 0.99)
    y = y if metric == "neg_brier_score" else y.astype(np.float64)
    weight = np.repeat([1.0, 2.0, 0.0], [80, 80, 40])
    some, every = (closed_form(rows_of(outputs[:, :n], y[:n], weight[:n], metric), None) for n in (160, 200))
    groups = np.repeat(np.arange(160), 3)
    copies = [np.repeat(each, 3, axis=-1) for each in (outputs[:, :160], y[:160], weight[:160])]
    grouped = closed_form(rows_of(*copies, metric), groups)
    for found in (every, grouped):
        assert found.member_variance == pytest.approx(some.member_variance, rel=1e-9)
        assert found.raw_asymptote == pytest.approx(some.raw_asymptote, rel=1e-9)
        np.testing.assert_allclose(found.covariance, some.covariance, rtol=1e-9)
    assert every.luck == pytest.approx(some.luck if some is not None else None, rel=1e-9)


@pytest.mark.parametrize("metric", ["neg_mean_squared_error", "neg_brier_score"])
def test_members_that_agree_have_no_closed_form(metric: str) -> None:
    y = np.arange(40) % 2
    outputs = np.tile(np.where(y == 1, 0.75, 0.25), (6, 1))
    target = y if metric == "neg_brier_score" else y.astype(np.float64)
    assert closed_form(rows_of(outputs, target, np.ones(40), metric), None) is None
