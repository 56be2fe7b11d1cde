"""The analysis of a fit ends in time: members read rows, and a metric is evaluated, until the time is over."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.neighbors import KNeighborsClassifier

from ens_plugin import EnsembleReport
from ens_plugin.analysis import AnalysisOptions, run_analysis
from ens_plugin.errors import InputError
from ens_plugin.tracking import autologging
from ens_plugin.tracking.autologging import AnalysisTime
from ens_plugin.tracking.settings import AutologOptions

X, Y = make_classification(3000, 5, n_informative=3, n_redundant=0, flip_y=0.1, random_state=0)


class Clock:
    """Stands for the clock, which slow members and metrics move on."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now


CLOCK = Clock()


class SlowNeighbours(KNeighborsClassifier):
    """Neighbours that take their time for each row."""

    seconds_per_row = 0.0

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        CLOCK.now += SlowNeighbours.seconds_per_row * len(X)
        return super().predict_proba(X)


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(CLOCK, "now", 0.0)
    monkeypatch.setattr(autologging, "time", CLOCK)
    return CLOCK


@pytest.fixture(scope="module")
def neighbours() -> BaggingClassifier:
    return BaggingClassifier(SlowNeighbours(), 10, random_state=0).fit(X, Y)


def limit(fit_seconds: float = 0.0, n_outputs: int = 1) -> AnalysisTime:
    settings = AutologOptions(False, False, 0.1, "ens", True, AnalysisOptions())
    return AnalysisTime(settings, fit_seconds, n_outputs)


def without_date(report: EnsembleReport) -> dict[str, Any]:
    return replace(report, created="").to_dict()


def analysed_in(
    seconds_per_row: float, model: BaggingClassifier, monkeypatch: pytest.MonkeyPatch, fit_seconds: float = 0.0
) -> tuple[EnsembleReport, AnalysisTime]:
    """Analyse with members that take so long together."""
    monkeypatch.setattr(SlowNeighbours, "seconds_per_row", seconds_per_row / len(model.estimators_))
    time = limit(fit_seconds)
    return run_analysis(model, X, Y, AnalysisOptions(), limit=time), time


def test_quick_members_read_all_rows(neighbours: BaggingClassifier, monkeypatch: pytest.MonkeyPatch) -> None:
    report, time = analysed_in(1e-5, neighbours, monkeypatch)
    assert without_date(report) == without_date(run_analysis(neighbours, X, Y, AnalysisOptions()))
    assert not time.findings


def test_slow_members_read_as_many_as_half_of_the_time_allows(
    neighbours: BaggingClassifier, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    report, time = analysed_in(1e-3, neighbours, monkeypatch)
    # Each member predicts the rows that it has not drawn, a third of them.
    assert report.n_rows + report.rows_without_oob == 2048
    (found,) = time.findings
    assert found.code == "part-of-rows"
    assert f"Only {report.n_rows + report.rows_without_oob} of the 3000 training rows" in found.sentence
    assert "max_overhead=0.1" in found.sentence
    # Proofs of the model and of its bags are by few rows.
    assert clock.now < 1.5
    longer, _ = analysed_in(1e-3, neighbours, monkeypatch, fit_seconds=100.0)
    assert longer.n_rows > report.n_rows


def test_members_that_are_too_slow_are_refused_soon(
    neighbours: BaggingClassifier, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=r"16 rows were predicted.*too few.*Raise max_overhead"):
        analysed_in(0.3, neighbours, monkeypatch)


def rows_read(time: AnalysisTime, seconds_per_row: float, first: float, n_rows: int = 1_000_000) -> int:
    """Read rows as an analysis does, where the first ones take some time more."""
    n_read, CLOCK.now = 0, CLOCK.now + first
    while n_read < n_rows and time.goes_on(n_read, n_rows):
        added = min(max(n_read, 8), n_rows - n_read)
        n_read, CLOCK.now = n_read + added, CLOCK.now + added * seconds_per_row
    return n_read


@pytest.mark.parametrize("pace", [1e-6, 2e-5, 1e-4, 1e-3])
def test_reading_ends_within_half_of_the_time(pace: float, clock: Clock) -> None:
    n_read = rows_read(limit(), pace, first=0.0)
    assert n_read == 1_000_000 or 0.4 < clock.now < 1.0 + 16 * pace


def test_outputs_share_the_time(clock: Clock) -> None:
    assert rows_read(limit(), 1e-4, first=0.0) >= 4 * rows_read(limit(n_outputs=8), 1e-4, first=0.0)


def test_every_output_is_judged_by_the_rows_of_the_first() -> None:
    class OnlyOnce(AnalysisTime):
        def goes_on(self, n_read: int, n_rows: int) -> bool:
            CLOCK.now += 0.07
            return super().goes_on(n_read, n_rows)

    target = np.column_stack([X[:, 0] + X[:, 1], X[:, 2]])
    forest = RandomForestRegressor(20, random_state=0).fit(X, target)
    settings = AutologOptions(False, False, 0.1, "ens", True, AnalysisOptions())
    time = OnlyOnce(settings, 0.0)
    report = run_analysis(forest, X, target, AnalysisOptions(), limit=time)
    assert len(time.findings) == 1
    assert report.n_rows < 3000
    assert len({own.n_rows for own in report.outputs.values()}) == 1


def test_a_slow_metric_ends_in_time(clock: Clock) -> None:
    forest = RandomForestClassifier(20, max_depth=3, random_state=0).fit(X, Y)
    n_calls = 0

    def slow(y: NDArray[Any], mean_output: NDArray[np.float64]) -> float:
        nonlocal n_calls
        n_calls, clock.now = n_calls + 1, clock.now + 0.1
        return float(np.mean(np.abs(mean_output[:, 1] - y) ** 1.5))

    with pytest.raises(InputError, match=r"metric takes longer than autologging may take.*Raise max_overhead"):
        run_analysis(forest, X, Y, AnalysisOptions(metric=slow), limit=limit())
    assert 20 <= n_calls <= 22
    run_analysis(forest, X, Y, AnalysisOptions(metric=slow), limit=limit(fit_seconds=1e6))


def test_a_metric_is_computed_on_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ens_plugin.analysis.evidence.METRIC_ROWS_IN_TIME", 500)
    forest = RandomForestClassifier(20, max_depth=3, random_state=0).fit(X, Y)
    sizes = list[int]()

    def metric(y: NDArray[Any], mean_output: NDArray[np.float64]) -> float:
        sizes.append(y.size)
        return float(np.mean(np.abs(mean_output[:, 1] - y) ** 1.5))

    few = run_analysis(forest, X, Y, AnalysisOptions(metric=metric), limit=limit())
    assert max(sizes) <= 500 + 2  # labels of a bootstrap sample
    whole = run_analysis(forest, X, Y, AnalysisOptions(metric=metric))
    assert few.n_rows == whole.n_rows
    assert abs(few.error - whole.error) < 0.03
