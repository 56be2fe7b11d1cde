"""The size by a metric is the one that its own curve and tolerance imply, and its interval has the sizes of draws."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import make_scorer, zero_one_loss

from ens_plugin import CustomEnsemble, EnsembleReport, analyze
from ens_plugin.adapters import find_adapter
from ens_plugin.analysis import AnalysisOptions
from ens_plugin.analysis.arguments import resolve_options
from ens_plugin.analysis.metric_curves import (
    Resampled,
    SubsetAverages,
    metric_size,
    subset_curve,
)
from ens_plugin.core.error_curve import extrapolate
from ens_plugin.core.intervals import DrawnCurve
from tests.forests import Array
from tests.scorers import ACCURACY

LARGEST = 400
ERROR = make_scorer(zero_one_loss, greater_is_better=False)


def members(kind: str, n_members: int, n_rows: int, seed: int = 0) -> tuple[Any, Array]:
    """Votes, or probabilities of 0 and 1, of members that are right in two thirds of the cases."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n_rows)
    # Those of "sure" are right equally often on all rows, so that many rank perfectly.
    chance = 0.25 + 0.5 * y if kind == "sure" else np.clip(0.3 + 0.4 * y + rng.normal(0.0, 0.2, n_rows), 0.02, 0.98)
    votes = (rng.random((n_members, n_rows)) < chance).astype(int)
    if kind == "vote":
        return CustomEnsemble(votes, None, aggregation="vote"), y
    outputs = np.clip(chance + rng.normal(0.0, 0.5, (n_members, n_rows)), 0.0, 1.0) if kind == "soft" else votes
    return CustomEnsemble(np.stack([1.0 - outputs, outputs], axis=2), None, aggregation="mean_proba"), y


@cache
def scored(kind: str, metric: Any, n_members: int, n_rows: int, tolerance: float | None = None) -> EnsembleReport:
    ensemble, y = members(kind, n_members, n_rows)
    return analyze(ensemble, None, y, metric=metric, data="holdout", tolerance=tolerance)


@pytest.mark.parametrize(
    ("kind", "metric", "n_members", "n_rows", "tolerance"),
    [
        pytest.param("soft", ACCURACY, 30, 40, None, marks=pytest.mark.slow),
        ("vote", ACCURACY, 41, 200, 0.01),
        ("soft", ERROR, 20, 200, 0.05),
        ("sure", "roc_auc", 8, 100, None),
        pytest.param("sure", "average_precision", 8, 100, None, marks=pytest.mark.slow),
    ],
)
def test_the_size_is_the_first_from_which_on_the_curve_is_close(
    kind: str, metric: Any, n_members: int, n_rows: int, tolerance: float | None
) -> None:
    report = scored(kind, metric, n_members, n_rows, tolerance)
    found, curve = report.recommendation, report.error_curve
    distances = np.array([abs(curve.at(size) - curve.asymptote) for size in range(1, LARGEST + 1)])
    far = np.flatnonzero(distances > found.tolerance + 1e-12)
    size = far[-1] + 2 if far.size else 1
    assert size <= (found.size or np.inf) <= (found.interval[1] or np.inf)
    assert found.interval[0] <= size


def test_a_curve_does_not_reach_the_best_value_at_a_finite_size() -> None:
    curve = scored("sure", "roc_auc", 8, 100).error_curve
    assert curve.asymptote_raw > 1.0
    assert curve.asymptote == 1.0
    assert (np.diff(curve.error[8:]) > 0).all()
    assert curve.error[-1] < 1.0


def test_the_size_by_both_errors_is_that_of_curves_that_go_up_or_down() -> None:
    """The mean of the curves is flat, and needs one member; each needs many, and 95 % are within the promise."""
    sizes = np.append(np.arange(1.0, 4001.0, 2.0), np.inf)
    slopes = np.random.default_rng(0).normal(0.0, 0.5, 400)
    options = AnalysisOptions(data="holdout", metric="f1", tolerance=0.005, max_size=3000)
    settings = resolve_options(find_adapter(members("vote", 5, 20)[0]), options)
    curve = DrawnCurve(sizes, np.full(sizes.size, 0.5), 0.5 - slopes[:, None] / sizes, np.inf)
    found = metric_size(curve, 0.0, 20, None, settings)
    needed = np.maximum(np.abs(slopes) / 0.005, 1.0)
    assert curve.size_within(0.005, 3000) == 1
    assert found.size == pytest.approx(np.quantile(needed, 0.95), rel=0.05)
    assert found.interval == pytest.approx(tuple(np.quantile(needed, [0.025, 0.975])), rel=0.1, abs=2.0)


def settings_of(metric: str, tolerance: float) -> Any:
    """Return options by which the metric may differ from its limit by `tolerance`, in its own unit."""
    ensemble, _ = members("vote" if metric == "f1" else "soft", 5, 20)
    resolved = resolve_options(find_adapter(ensemble), AnalysisOptions(data="holdout", metric=metric))
    return replace(resolved, metric_tolerance=tolerance, metric_reference=None)


class TestEqualDraws:
    """Draws that are all the curve itself have its size."""

    @pytest.mark.parametrize("distance", [0.0011, 0.0041, 0.0063, 0.0113, 0.0207])
    @pytest.mark.parametrize("ties_to", [0.0, np.inf])
    def test_of_labels(self, distance: float, ties_to: float) -> None:
        sizes = np.append(np.arange(1.0, 1000.0, 2.0), np.inf)
        values = 0.8 - 0.3 / sizes
        curve = DrawnCurve(sizes, values, np.tile(values, (3, 1)), ties_to)
        far = np.flatnonzero(curve.losses(np.arange(1, 900)) > distance)
        assert curve.size_within(distance, 1000) == far[-1] + 2
        assert curve.size_draws(distance).tolist() == [far[-1] + 2] * 3

    @pytest.mark.parametrize("distance", [0.0003, 0.004, 0.02, 0.11])
    def test_of_subsets(self, distance: float) -> None:
        sizes = np.array([1, 2, 3, 5, 8, 12, 20])
        by_order = np.tile(0.9 - 0.3 / sizes, (4, 1))
        law = extrapolate(sizes, by_order[0])
        averages, settings = SubsetAverages(sizes, by_order, (4, 6), np.arange(5)), settings_of("roc_auc", distance)
        curve = subset_curve(law, averages, Resampled(0.0, 0.0), (0.0, 1.0), settings)
        size = int(np.ceil(0.3 / distance - 1e-9))
        assert curve.size_within(distance, 20_001) == size
        assert set(curve.size_draws(distance).tolist()) == {size}
