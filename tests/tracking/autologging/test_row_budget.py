from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from ens_plugin.core.bags import Bags
from ens_plugin.errors import InputError
from ens_plugin.tracking import autologging as row_budget
from ens_plugin.tracking.autologging import PredictedRows, affordable_rows

N_ROWS = 100_000
BAGS = Bags.from_mask(np.zeros((2, N_ROWS), dtype=bool))
FEATURES = np.zeros((N_ROWS, 1))


class Clock:
    """Stands for both the members, which take a fixed time for a row, and the clock."""

    def __init__(self, seconds_per_row: float) -> None:
        self.seconds_per_row = seconds_per_row
        self.now = 0.0
        self.row_counts: list[int] = []

    def perf_counter(self) -> float:
        return self.now

    def block(self, features: NDArray[np.float64], bags: Bags, rows: slice) -> None:
        assert features.shape[0] == bags.n_rows == rows.stop
        self.row_counts.append(features.shape[0])
        self.now += self.seconds_per_row * features.shape[0]


def choose(
    monkeypatch: pytest.MonkeyPatch,
    seconds_per_row: float,
    seconds: float,
    allowance: float = 2.0,
    metric_pace: float = 0.0,
) -> tuple[Any, Clock]:
    clock = Clock(seconds_per_row)
    monkeypatch.setattr(row_budget, "time", clock)
    predicted = PredictedRows(clock, FEATURES, BAGS)  # type: ignore[arg-type]
    rows = affordable_rows(predicted, seconds, allowance, random_state=0, metric_pace=metric_pace)
    return rows, clock


def test_all_rows_where_there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, _ = choose(monkeypatch, 1e-6, 2.0)
    assert rows is None


@pytest.mark.parametrize(("pace", "seconds"), [(1e-4, 2.0), (1e-3, 5.0), (2e-5, 1.0), (1e-4, 8.0)])
def test_the_rows_chosen_take_the_time_there_is(pace: float, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, _ = choose(monkeypatch, pace, seconds)
    estimate = row_budget.ESTIMATE_S + row_budget.ESTIMATE_S_PER_ROW * min(rows.size, row_budget.SAMPLE_ROWS)
    assert pace * rows.size + estimate == pytest.approx(seconds, rel=0.05)


def test_they_are_drawn_from_all_in_ascending_order(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, _ = choose(monkeypatch, 1e-4, 2.0)
    assert (np.diff(rows) > 0).all()
    assert rows[0] < 0.01 * N_ROWS
    assert rows[-1] > 0.99 * N_ROWS


def test_the_first_thousand_may_take_half_of_the_allowance(monkeypatch: pytest.MonkeyPatch) -> None:
    assert choose(monkeypatch, 1e-4, -1.0)[0].size == 1000
    assert choose(monkeypatch, 2e-3, -1.0)[0].size == 500
    assert choose(monkeypatch, 2e-3, -1.0, allowance=20.0)[0].size == 1000


def test_a_metric_counts_as_much_as_the_members(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, _ = choose(monkeypatch, 1e-4, 5.0, metric_pace=9e-4)
    alone, _ = choose(monkeypatch, 1e-3, 5.0)
    assert rows.size == pytest.approx(alone.size, rel=1e-6)
    with pytest.raises(InputError, match=r"The members and the metric take 0\.1 s"):
        choose(monkeypatch, 1e-4, 2.0, metric_pace=0.1)


def test_members_that_are_too_slow_are_refused_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(0.1)
    monkeypatch.setattr(row_budget, "time", clock)
    with pytest.raises(InputError, match=r"take 0\.1 s.*max_overhead"):
        affordable_rows(PredictedRows(clock, FEATURES, BAGS), 2.0, 2.0, random_state=0, metric_pace=0.0)  # type: ignore[arg-type]
    assert sum(clock.row_counts) <= 16


def test_real_time_is_taken() -> None:
    assert row_budget.time is time


class TestPasses:
    """What no choice of rows shortens is foreseen before it begins."""

    @pytest.mark.parametrize("container", [np.asarray, pd.DataFrame])
    def test_they_take_as_long_as_those_over_the_first_rows_tell(
        self, container: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        clock = Clock(0.0)

        def taking(seconds_per_row: float) -> Any:
            def go(rows: Any, *others: Any) -> None:
                clock.now += seconds_per_row * len(getattr(rows, "hashes", rows))

            return go

        monkeypatch.setattr(row_budget, "time", clock)
        monkeypatch.setattr(row_budget, "row_cells", taking(1e-6))
        monkeypatch.setattr(row_budget, "find_repeats", taking(2e-6))
        monkeypatch.setattr(row_budget, "data_digest", taking(4e-6))
        passes = row_budget.pass_seconds(container(FEATURES), np.arange(N_ROWS) % 2)
        assert passes == pytest.approx((3e-6 * N_ROWS, 4e-6 * N_ROWS))

    @pytest.mark.parametrize("rows", [np.zeros((10, 2)), [[0.0]] * 20_000, None])
    def test_few_rows_and_what_is_no_table_are_not_timed(self, rows: Any) -> None:
        assert row_budget.pass_seconds(rows, [0.0] * 20_000) == (0.0, 0.0)
