from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from ens_plugin import EnsembleReport
from ens_plugin.tracking.log import charted_sizes, curve_values, scalar_values
from tests.reports import (
    all_reports,
    capped_report,
    classification_report,
    regression_report,
)

REPORTS = all_reports()


def with_sizes(report: EnsembleReport, sizes: list[int]) -> EnsembleReport:
    low, middle, high = (np.full(len(sizes), value) for value in (0.2, 0.3, 0.4))
    shortened = replace(report.error_curve, sizes=np.array(sizes), error=middle, lower=low, upper=high)
    return replace(report, error_curve=shortened)


@pytest.mark.parametrize("name", REPORTS)
def test_charted_sizes_are_within_the_curve_and_about_a_hundred(name: str) -> None:
    report = REPORTS[name]
    sizes = charted_sizes(report)
    assert all(report.error_curve.reaches(int(size)) for size in sizes)
    assert np.all(np.diff(sizes) > 0)
    assert 1 <= len(sizes) <= 100


@pytest.mark.parametrize("name", REPORTS)
def test_the_last_point_of_a_curve_is_the_scalar_of_its_name(name: str) -> None:
    report = REPORTS[name]
    scalars = scalar_values(report, "ens")
    last = {name: list(values.items())[-1] for name, values in curve_values(report, "ens").items()}
    for ending in ("", "_lower", "_upper"):
        own = f"{report.measure_key}{ending}"
        if f"ens.{own}" in scalars:
            assert last[f"ens/{own}"] == (report.n_members, scalars[f"ens.{own}"])


@pytest.mark.parametrize("report", [classification_report(), regression_report(), capped_report()])
@pytest.mark.parametrize("more", [0, 1])
def test_charted_sizes_have_the_parity_of_the_current_one(report: EnsembleReport, more: int) -> None:
    report = replace(report, n_members=report.n_members + more)
    sizes = charted_sizes(report)
    assert sizes[0] in (11, 12)
    assert np.all(sizes % 2 == report.n_members % 2)
    assert sizes[-1] == report.n_members


@pytest.mark.parametrize("n_members", [20, 60, 100])
def test_a_curve_does_not_end_in_a_step_where_the_votes_of_even_sizes_tie(n_members: int) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    report = ens_plugin.analyze(RandomForestClassifier(n_members, random_state=0).fit(X, y), X, y)
    assert report.error > report.error_curve.at(n_members - 1)
    values = list(curve_values(report, "ens")["ens/accuracy"].values())
    # A hundredth of a row is not a step.
    assert np.diff(values[-3:]).min() >= -0.01 / len(y)
    assert values[-1] == report.accuracy


def test_charted_sizes_of_few_members_start_at_five() -> None:
    assert charted_sizes(replace(classification_report(), n_members=9))[0] == 5


@pytest.mark.parametrize("n_members", [21, 101, 1001, 10_001])
def test_the_curves_of_several_runs_begin_at_the_same_size(n_members: int) -> None:
    for report in (classification_report(), regression_report(), capped_report()):
        assert charted_sizes(replace(report, n_members=n_members))[0] == 11


@pytest.mark.parametrize(
    ("tabulated", "charted"),
    [
        ([10, 20, 30], [10, 20, 30, 200]),
        ([1, 2, 3], [1, 2, 3, 200]),
        ([100_000], [100_000]),
        ([1, 5, 6, 7], [6, 8, 200]),
    ],
)
def test_a_curve_with_few_sizes_gives_what_it_has(tabulated: list[int], charted: list[int]) -> None:
    assert charted_sizes(with_sizes(classification_report(), tabulated)).tolist() == charted


def test_a_dense_curve_is_thinned_evenly_on_a_log_axis() -> None:
    report = with_sizes(classification_report(), list(range(1, 20_002, 2)))
    sizes = charted_sizes(replace(report, n_members=10_000))
    steps = np.diff(np.log(sizes[sizes > 200]))
    assert 70 <= len(sizes) <= 100
    assert sizes[-1] == 10_000
    np.testing.assert_allclose(steps[:-1], np.log(9_999 / sizes[0]) / 98, atol=0.01)


def test_curves_repeat_the_table_under_names_with_a_slash() -> None:
    report = classification_report()
    lines = curve_values(report, "ens")
    assert set(lines) == {"ens/accuracy", "ens/accuracy_lower", "ens/accuracy_upper"}
    curve = report.error_curve
    columns = {
        "ens/accuracy": 1.0 - curve.error,
        "ens/accuracy_lower": 1.0 - curve.upper,
        "ens/accuracy_upper": 1.0 - curve.lower,
    }  # fmt: skip
    for name, values in lines.items():
        assert list(values) == charted_sizes(report).tolist()
        for size, value in values.items():
            if size != report.n_members:
                above, below = columns[name][curve.sizes >= size][0], columns[name][curve.sizes <= size][-1]
                assert min(above, below) <= value <= max(above, below)


def test_points_that_are_not_finite_are_left_out() -> None:
    report = replace(with_sizes(classification_report(), [5, 7, 9]), n_members=9)
    report.error_curve.lower[1] = math.nan
    report.error_curve.upper[2] = math.inf
    assert {name: list(values) for name, values in curve_values(report, "a").items()} == {
        "a/accuracy": [5, 7, 9],
        "a/accuracy_lower": [5, 7],
        "a/accuracy_upper": [5, 9],
    }


@pytest.mark.parametrize("name", REPORTS)
def test_scalars_are_the_reports_metrics_with_a_dot(name: str) -> None:
    report = REPORTS[name]
    assert scalar_values(report, "rf") == {f"rf.{key}": value for key, value in report.metrics().items()}


def test_the_curve_of_values_is_that_of_the_root_and_of_a_metric_has_its_name() -> None:
    for name, key in (("regression", "rmse"), ("score", "roc_auc"), ("custom_metric", "error")):
        assert set(curve_values(REPORTS[name], "ens")) == {f"ens/{key}{ending}" for ending in ("", "_lower", "_upper")}
