from __future__ import annotations

import math
from dataclasses import replace

import pytest

from ens_plugin import EnsembleReport
from ens_plugin.errors import InputError
from ens_plugin.registry.policy import REPORT_SCALARS, check_share_bounds, read_policy
from ens_plugin.report.result import MetricBasis
from tests.reports import all_reports, classification_report, custom_metric_report, regression_report, score_report

SHARES = (
    "accuracy", "accuracy_lower", "accuracy_upper", "asymptotic_accuracy",
    "error", "error_lower", "error_upper", "asymptotic_error", "algorithmic_sd", "agreement", "member_error",
    "member_variance", "bias",
)  # fmt: skip
COUNTS = ("n_members", "recommended_size", "size_capped", "size_ratio", "megabytes", "latency_ms")
ROOTS = ("rmse", "rmse_lower", "rmse_upper", "asymptotic_rmse")


def check(table: str, name: str, bound: str, threshold: float, report: EnsembleReport | None) -> None:
    check_share_bounds(read_policy({table: {name: {bound: threshold}}}), report)


@pytest.mark.parametrize("name", SHARES)
def test_bounds_on_shares_lie_between_0_and_1(name: str) -> None:
    report = classification_report()
    for bound, thresholds in (("max", (0, 0.06)), ("min", (0.06, 1))):
        for threshold in thresholds:
            check("report", name, bound, threshold, report)
        with pytest.raises(InputError, match=rf"report\.{name}\.{bound} = -0\.01'.* from 0 to 1\."):
            check("report", name, bound, -0.01, report)
    with pytest.raises(InputError, match=rf"report\.{name}\.max = 6'.* from 0 to 1\. Write 0\.06 for 6 %"):
        check("report", name, "max", 6, report)


@pytest.mark.parametrize("name", SHARES)
def test_bounds_on_shares_that_every_model_meets_are_refused(name: str) -> None:
    report = classification_report()
    with pytest.raises(InputError, match=rf"{name}\.max = 1'.* Write 0\.01 for 1 %\. Every model meets this bound"):
        check("report", name, "max", 1, report)
    with pytest.raises(InputError, match=rf"{name}\.min = 0'.* Every model meets this bound: correct or remove it"):
        check("report", name, "min", 0, report)


@pytest.mark.parametrize(
    ("name", "bound", "threshold"),
    [("n_members", "min", 1), ("n_members", "min", -5), ("recommended_size", "min", 0), ("size_capped", "max", 1),
     ("size_capped", "min", 0), ("excess_error", "max", 1), ("excess_error", "min", -1)],
)  # fmt: skip
def test_so_are_those_on_counts_and_differences(name: str, bound: str, threshold: float) -> None:
    with pytest.raises(InputError, match="Every model meets this bound"):
        check("report", name, bound, threshold, classification_report())


@pytest.mark.parametrize(
    "name", ["error", "error_lower", "error_upper", "asymptotic_error", "algorithmic_sd", "member_error",
             "member_variance", "bias", *ROOTS],
)  # fmt: skip
def test_so_are_those_on_squares(name: str) -> None:
    check("report", name, "min", 0.1, regression_report())
    check("report", name, "max", 0, regression_report())
    with pytest.raises(InputError, match=r"at least 0.* Every model meets this bound"):
        check("report", name, "min", 0, regression_report())


@pytest.mark.parametrize(
    ("metric", "ends", "every", "some"),
    [("roc_auc", (0, 1), {"min": 0}, {"min": 0.5}), ("roc_auc", (0, 1), {"max": 1}, {"max": 0.9}),
     ("matthews_corrcoef", (-1, 1), {"min": -1}, {"min": 0}), ("r2", (-math.inf, 1), {"max": 1}, {"min": -2}),
     ("neg_log_loss", (-math.inf, 0), {"max": 0.3}, {"min": -0.3})],
)  # fmt: skip
def test_so_are_those_on_scores(
    metric: str, ends: tuple[float, float], every: dict[str, float], some: dict[str, float]
) -> None:
    report = score_report()
    basis = MetricBasis(True, *ends, n_rows=100)
    report = replace(report, error_curve=replace(report.error_curve, metric=metric, metric_basis=basis))
    check_share_bounds(read_policy({"report": {metric: some, f"{metric}_lower": some}}), report)
    for name in (metric, f"{metric}_lower", f"{metric}_upper", f"asymptotic_{metric}"):
        with pytest.raises(InputError, match="Every model meets this bound"):
            check_share_bounds(read_policy({"report": {name: every}}), report)


def test_a_score_that_none_can_reach_is_refused() -> None:
    report = score_report()
    for bound in ({"roc_auc": {"min": 1.5}}, {"roc_auc": {"max": -0.5}}):
        with pytest.raises(InputError, match="No model can meet this bound"):
            check_share_bounds(read_policy({"report": bound}), report)


@pytest.mark.parametrize(
    ("table", "name"),
    [
        ("report", "excess_error"),
        ("baseline", "error_increase"),
        ("baseline", "error_increase_lower"),
        ("baseline", "error_increase_upper"),
    ],
)
def test_differences_of_shares_may_be_negative(table: str, name: str) -> None:
    report = classification_report()
    for threshold in (-1, -0.2, 0.99):
        check(table, name, "max", threshold, report)
    for threshold in (-1.5, 1, 2):
        with pytest.raises(InputError, match="from -1 to 1"):
            check(table, name, "max", threshold, report)


def test_every_scalar_is_a_share_a_difference_a_count_or_a_root() -> None:
    assert {*SHARES, "excess_error", *COUNTS, *ROOTS} == {*REPORT_SCALARS}


@pytest.mark.parametrize("name", [*sorted({*COUNTS} - {"size_capped"}), *ROOTS])
def test_counts_and_roots_are_free(name: str) -> None:
    check("report", name, "max", 500, classification_report())


@pytest.mark.parametrize("name", sorted({*REPORT_SCALARS} - {"size_capped"}))
def test_squared_errors_are_free(name: str) -> None:
    check("report", name, "max", 3000, regression_report())


def test_a_metric_of_the_users_own_is_free_and_the_labels_are_not() -> None:
    report = custom_metric_report()
    check("report", "error", "max", 6, report)
    check("baseline", "error_increase", "max", 6, report)
    with pytest.raises(InputError, match=r"Write 0\.99 for 99 %\. No model can meet this bound"):
        check("report", "agreement", "min", 99, report)


def test_other_metrics_are_free() -> None:
    check("metrics", "error", "max", 6, classification_report())


def test_no_hint_is_outside_either() -> None:
    with pytest.raises(InputError, match=r"Write 0\.06 for 6 %"):
        check("report", "error", "max", 1e300, classification_report())


@pytest.mark.parametrize("name", all_reports())
def test_what_a_report_holds_is_a_bound_it_can_meet(name: str) -> None:
    report = all_reports()[name]
    for scalar, value in report.metrics().items():
        # Of a share of 1, every model has at most as much.
        if value < 1 or scalar in COUNTS[:2] or scalar in ROOTS:
            check("report", scalar, "max", value, report)


def test_scores_of_scikit_learn_may_be_bounded() -> None:
    policy = read_policy({"report": {"roc_auc": {"min": 0.9}, "asymptotic_f1_macro": {"min": 0.5}}})
    assert [requirement.name for requirement in policy.requirements] == ["roc_auc", "asymptotic_f1_macro"]
    with pytest.raises(InputError, match="no known key"):
        read_policy({"report": {"roc_auk": {"min": 0.9}}})
