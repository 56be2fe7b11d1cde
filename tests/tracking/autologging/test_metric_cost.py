"""The time that a metric takes, foreseen from one evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from ens_plugin.adapters import find_adapter
from ens_plugin.analysis.metrics import resolve_metric
from ens_plugin.tracking import autologging as metric_cost
from ens_plugin.tracking.autologging import N_EVALUATIONS, PredictedRows, metric_seconds_per_row

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3000, 3))
Y = (X[:, 0] > 0).astype(int)
FOREST = RandomForestClassifier(10, max_depth=3, random_state=0).fit(X, Y)


class Clock:
    """Stands for the clock, which a metric moves on."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now


def pace(monkeypatch: pytest.MonkeyPatch, metric: Any, clock: Clock, enough: float = 1e9) -> float:
    monkeypatch.setattr(metric_cost, "time", clock)
    adapter = find_adapter(FOREST)
    features, resolved = adapter.prepare(X), resolve_metric(metric, adapter)
    assert resolved is not None
    bags, rng = adapter.bags(X, features, Y), np.random.default_rng(0)
    predicted = PredictedRows(adapter, features, bags)
    return metric_seconds_per_row(predicted, Y, resolved, enough=enough, rng=rng)


def test_a_metric_without_a_formula_takes_as_long_as_its_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, sizes = Clock(), []

    def slow(y: Any, mean_output: Any) -> float:
        clock.now += 1e-6 * len(y)
        sizes.append(len(y))
        return float(np.mean(np.abs(mean_output[:, 1] - y) ** 1.5))

    assert pace(monkeypatch, slow, clock) == pytest.approx(N_EVALUATIONS * 1e-6, rel=0.02)
    assert max(sizes) > 2000
    sizes.clear()
    pace(monkeypatch, slow, clock, enough=1e-6)
    assert max(sizes) <= 256


def test_a_metric_with_a_formula_is_not_called_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()

    def brier(y: Any, mean_output: Any) -> float:
        clock.now += 1.0
        return float(np.mean((mean_output[:, 1] - y) ** 2))

    assert pace(monkeypatch, brier, clock) == 0.0


def test_a_metric_that_fails_on_few_rows_takes_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(y: Any, mean_output: Any) -> float:
        raise ValueError("too few rows")

    assert pace(monkeypatch, failing, Clock()) == 0.0
