"""What a budget says of any report: one screen at most, the limits first, and the price in quality."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from ens_plugin import Costs, EnsembleReport
from ens_plugin.errors import InputError
from ens_plugin.report.result import LinearCost
from tests.report.charts import REPORTS
from tests.reports import capped_report, classification_report, regression_report, with_doubts

MEMBER_BYTES, MEMBER_SECONDS = 1e5, 4e-5


def costs_of(report: EnsembleReport, **changes: Any) -> Costs:
    """A member has 100 kB and takes 40 µs, beside 10 kB and 1 ms."""
    costs = Costs(
        n_members=report.n_members,
        bytes=LinearCost(1e4, MEMBER_BYTES),
        latency=LinearCost(1e-3, MEMBER_SECONDS, 0.03),
        row_seconds=LinearCost(2e-6, 1e-7, 0.01),
        batch_rows=1000,
    )
    return replace(costs, **changes)


REPORT = classification_report()
COSTS = costs_of(REPORT)


def test_a_line_gives_the_cost_of_a_size_and_the_size_of_a_cost() -> None:
    cost = LinearCost(0.1, 0.7)
    assert [cost.largest_size(cost.at(size)) for size in range(1, 200)] == list(range(1, 200))
    assert cost.largest_size(math.nextafter(cost.at(5), 0.0)) == 4
    assert (cost.largest_size(0.79), cost.largest_size(0.0)) == (0, 0)


def test_a_cost_that_no_member_adds_to_limits_nothing_or_everything() -> None:
    assert LinearCost(2.0, 0.0).largest_size(2.0) > 10**6
    assert LinearCost(2.0, 0.0).largest_size(1.9) == 0


@pytest.mark.parametrize(
    ("limits", "size"),
    [
        ({}, None),
        ({"max_bytes": 5_010_000}, 50),
        ({"max_latency": 0.003}, 50),
        ({"max_bytes": 5_010_000, "max_latency": 0.002}, 25),
        ({"max_bytes": 3_010_000, "max_latency": 0.003}, 30),
        ({"max_bytes": 100}, 0),
    ],
)
def test_the_size_is_the_largest_within_all_limits(limits: dict[str, float], size: int | None) -> None:
    assert REPORT.budget(COSTS, **limits).size == size


def test_a_budget_below_the_recommended_size_wins_and_says_what_it_costs() -> None:
    size = REPORT.recommended_size
    assert size is not None
    budget = REPORT.budget(COSTS, max_bytes=1e4 + 10.5 * MEMBER_BYTES)
    kept, wanted, limit = (100.0 * (1.0 - REPORT.error_curve.at(each)) for each in (10, size, math.inf))
    assert budget.verdict.startswith("1.06 MB allow 10 of the 200 trees. Accuracy on new rows: ")
    assert f"{kept:.1f} % with 10, {wanted:.1f} % with the recommended {size}, {limit:.1f} % with inf" in budget.verdict
    assert f"The recommended {size} would take {(1e4 + size * MEMBER_BYTES) / 1e6:.3g} MB and " in budget.verdict


def test_a_budget_above_the_whole_keeps_all_and_says_so() -> None:
    verdict = REPORT.budget(COSTS, max_bytes=50_010_000).verdict
    assert verdict.startswith("50 MB allow all 200 trees, and up to 500.")
    assert "would take" not in verdict
    assert REPORT.budget(COSTS, max_bytes=20_010_000).verdict.startswith("20 MB allow all 200 trees. Accuracy")


def test_a_latency_that_no_tree_adds_to_allows_any_number() -> None:
    budget = REPORT.budget(costs_of(REPORT, latency=LinearCost(1e-3, 0.0)), max_latency=0.002)
    assert budget.verdict.startswith("2 ms allow all 200 trees, and any number. Accuracy")
    assert "fits" not in str(budget)


def test_a_budget_below_one_tree_says_what_one_takes() -> None:
    budget = REPORT.budget(COSTS, max_bytes=50_000, max_latency=1.0)
    assert budget.verdict == (
        "50 kB and 1 s allow not even one tree, which takes 110 kB and 1.04 ms for a request of one row. Allow more, "
        "or train smaller ones."
    )
    assert "fits" not in str(budget)


def test_without_limits_it_says_what_a_tree_takes() -> None:
    assert REPORT.budget(COSTS).verdict.startswith(
        "200 trees take 20 MB and 9 ms for a request of one row; one tree adds 100 kB and 40 µs. Accuracy on new rows: "
    )


def test_of_values_the_price_is_in_the_root_of_the_squared_error() -> None:
    report = regression_report()
    assert "RMSE on new rows: " in report.budget(costs_of(report), max_bytes=1e6).verdict


def test_a_size_that_is_not_recommended_is_not_named() -> None:
    report = capped_report()
    verdict = report.budget(costs_of(report), max_bytes=1e6).verdict
    assert "recommended" not in verdict
    assert "% with 9, " in verdict


def test_doubts_come_first() -> None:
    report = with_doubts(REPORT, "Copies hide the error.")
    assert str(report.budget(COSTS)).startswith("Do not use these figures. Copies hide the error.")


@pytest.mark.parametrize("limits", [{}, {"max_bytes": 2e6}, {"max_bytes": 1e9, "max_latency": 0.9}, {"max_bytes": 1.0}])
@pytest.mark.parametrize("name", REPORTS)
def test_a_budget_is_printed_on_twelve_lines_of_80_columns(name: str, limits: dict[str, float]) -> None:
    report = REPORTS[name]
    lines = str(report.budget(costs_of(report), **limits)).splitlines()
    assert len(lines) <= 12
    assert max(map(len, lines)) <= 80


def test_the_table_has_the_costs_and_the_error_of_each_size() -> None:
    table = REPORT.budget(COSTS, max_bytes=5_010_000).rows(7)
    assert table[0] == ("", "trees", "size", "latency", "in a batch", "accuracy")
    named = {row[0]: row for row in table}
    error = f"{100.0 * (1.0 - REPORT.error_curve.at(50)):.1f} %"
    assert named["fits"] == ("fits", "50", "5.01 MB", "3 ms", "7 µs", error)
    assert named["infinite"][1:5] == ("-",) * 4
    assert [int(row[1]) for row in table[1:-1]] == sorted(int(row[1]) for row in table[1:-1])


def test_the_frame_has_bytes_and_seconds_beside_the_curve() -> None:
    frame = REPORT.budget(COSTS).to_frame()
    curve = REPORT.error_curve.to_frame()
    assert frame[curve.columns].equals(curve)
    assert frame["bytes"].tolist() == [COSTS.bytes.at(size) for size in curve["size"]]
    assert frame["latency"].tolist() == [COSTS.latency.at(size) for size in curve["size"]]


def test_a_report_keeps_costs_through_json_logged_as_megabytes_and_milliseconds() -> None:
    kept = REPORT.with_costs(COSTS)
    again = EnsembleReport.from_json(kept.to_json())
    assert again.costs == COSTS
    assert again.to_json() == kept.to_json()
    assert str(again.budget(max_bytes=1e6)) == str(REPORT.budget(COSTS, max_bytes=1e6))
    assert again.metrics()["megabytes"] == pytest.approx(20.01)
    assert again.metrics()["latency_ms"] == pytest.approx(9.0)


def test_what_was_not_measured_is_null() -> None:
    assert REPORT.to_dict()["costs"] is None
    assert "megabytes" not in REPORT.metrics()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_members": 3}, r"'costs\.n_members' of this report holds 3 and should hold the 'n_members'"),
        ({"bytes": LinearCost(-1.0, 5.0)}, r"'costs\.bytes\.fixed'"),
        ({"latency": LinearCost(1.0, math.inf)}, r"'costs\.latency\.per_member'"),
        ({"batch_rows": 0}, r"'costs\.batch_rows'"),
    ],
)
def test_costs_that_nobody_measures_are_refused(changes: dict[str, Any], message: str) -> None:
    broken = replace(REPORT, costs=replace(COSTS, **changes))
    with pytest.raises(InputError, match=message):
        EnsembleReport.from_json(broken.to_json())


def test_a_report_without_costs_says_which_call_measures_them() -> None:
    with pytest.raises(InputError, match=r"report\.budget\(ens_plugin\.measure_costs\(model, X\)\)"):
        REPORT.budget()


def test_costs_of_another_ensemble_are_refused() -> None:
    call: Any
    for call in (REPORT.budget, REPORT.with_costs):
        with pytest.raises(InputError, match="costs are of an ensemble of 7 members, and the report is on 200"):
            call(costs_of(REPORT, n_members=7))
        with pytest.raises(InputError, match=r"costs is of type \w+ and no result of ens_plugin\.measure_costs"):
            call(REPORT)


@pytest.mark.parametrize("limit", [math.nan, math.inf, -1, 0, True, "50"])
@pytest.mark.parametrize("name", ["max_bytes", "max_latency"])
def test_limits_are_positive_finite_numbers(name: str, limit: Any) -> None:
    with pytest.raises(InputError, match=f"{name} must be a positive finite number"):
        REPORT.budget(COSTS, **{name: limit})
