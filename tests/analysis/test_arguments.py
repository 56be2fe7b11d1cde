from __future__ import annotations

import sys
from dataclasses import replace
from types import ModuleType
from typing import Any, cast

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

from ens_plugin import analyze
from ens_plugin.adapters import EnsembleAdapter, EnsembleInfo, Task
from ens_plugin.analysis import AnalysisOptions, resolve_options, row_weights
from ens_plugin.analysis.estimates import ResolvedOptions
from ens_plugin.analysis.metrics import ResolvedMetric
from ens_plugin.errors import InputError

METRIC = ResolvedMetric("half", lambda y, mean, weight: 0.5, False, 0.0, 1.0, False, False)


class Stub:
    """As much of an adapter as the arguments are checked against."""

    encode_target, loss_name = EnsembleAdapter.encode_target, EnsembleAdapter.loss_name

    def __init__(self, classes: list[Any] | None, n_members: int = 50) -> None:
        self.classes = None if classes is None else np.array(classes)
        self.n_members = n_members
        task: Task = "regression" if classes is None else "classification"
        self.info = EnsembleInfo(task, self.classes, n_members, "vote", "labels", "given")


def adapter(classes: list[Any] | None = None, n_members: int = 50) -> EnsembleAdapter:
    return cast(EnsembleAdapter, Stub(classes, n_members))


def resolve(model: EnsembleAdapter | None = None, **options: Any) -> ResolvedOptions:
    return resolve_options(adapter([0, 1]) if model is None else model, AnalysisOptions(**options))


@pytest.mark.parametrize(("name", "value"), [("interval_level", 1.0 - 1e-12), ("max_size", 10**9)])
def test_the_largest_value_that_is_accepted_can_be_computed_with(name: str, value: Any) -> None:
    X, y = load_iris(return_X_y=True)
    for forest in (RandomForestClassifier(20, random_state=0), RandomForestRegressor(20, random_state=0)):
        report = analyze(forest.fit(X, y), X, y, **{name: value})
        assert np.isfinite(report.error_curve.upper).all()
        assert report.error_curve.sizes[-1] <= 10**9


WRONG: dict[str, tuple[Any, ...]] = {
    "data": ("validation",), "interval_level": (0.0, 1.0, np.nan, 1.0 - 1e-16),
    "tolerance": (0.0, -0.1, np.inf, np.nan), "max_size": (0, 10.5, np.inf, np.nan), "metric": ("accurate",),
    "random_state": (-1, 0.5, True, "seed"),
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_option_out_of_range_is_named(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=name):
        resolve(**{name: value})


def test_default_sizes_are_odd_from_one_to_the_largest_and_hold_the_current() -> None:
    sizes = resolve(adapter([0, 1], n_members=100)).sizes
    assert sizes.dtype == np.int64
    assert (np.diff(sizes) > 0).all()
    assert (sizes[0], sizes[-1]) == (1, 20001)
    assert set(sizes[sizes % 2 == 0].tolist()) == {100}
    assert 100 <= sizes.size <= 250
    assert resolve(adapter([0, 1], n_members=30_000)).sizes[-1] >= 60_000


def test_no_seed_is_another_seed_each_time() -> None:
    assert resolve(random_state=None).random_state != resolve(random_state=None).random_state
    assert resolve(random_state=np.int64(7)).random_state == 7


@pytest.mark.parametrize("weight", [[1.0], [1.0, -1.0, 1.0], [0.0, 0.0, 0.0], [1.0, np.nan, 1.0], ["a", "b", "c"]])
def test_bad_weights_are_named(weight: Any) -> None:
    with pytest.raises(InputError, match="sample_weight"):
        row_weights(weight, 3, None)


def test_weights_default_to_one_and_exclude_a_metric() -> None:
    np.testing.assert_array_equal(row_weights(None, 3, None), np.ones(3))
    np.testing.assert_array_equal(row_weights([1, 2, 3], 3, None), [1.0, 2.0, 3.0])
    with pytest.raises(InputError, match="metric"):
        row_weights([1, 2, 3], 3, METRIC)
    np.testing.assert_array_equal(row_weights([1, 2, 3], 3, replace(METRIC, takes_weights=True)), [1.0, 2.0, 3.0])


def blas_threads() -> set[int]:
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_blas_has_one_thread_in_each_analysis_and_its_own_number_after() -> None:
    X, y = load_iris(return_X_y=True)
    forest = RandomForestRegressor(10, random_state=0).fit(X, y)
    seen: list[set[int]] = []

    def squared_error(target: Any, mean: Any) -> float:
        if len(seen) < 5:  # a look at all libraries takes longer than an analysis
            seen.append(blas_threads())
        return float(np.mean((target - mean) ** 2))

    for n_threads in (2, 3):
        with threadpool_limits(n_threads, "blas"):
            analyze(forest, X, y, metric=squared_error)
            assert blas_threads() == {n_threads}
    assert seen == [{1}] * 5


def test_thread_pools_are_searched_for_again_once_modules_were_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = load_iris(return_X_y=True)
    forest = RandomForestClassifier(20, random_state=0).fit(X, y)
    analyze(forest, X, y)  # what it imports is imported
    analyze(forest, X, y)
    searches: list[object] = []
    search = ThreadpoolController.__init__

    def recorded(self: Any) -> None:
        searches.append(self)
        search(self)

    monkeypatch.setattr(ThreadpoolController, "__init__", recorded)
    analyze(forest, X, y)
    assert searches == []
    monkeypatch.setitem(sys.modules, "a_module_with_a_blas", ModuleType("a_module_with_a_blas"))
    analyze(forest, X, y)
    assert len(searches) == 1
