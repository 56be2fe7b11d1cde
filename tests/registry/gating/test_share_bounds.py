from __future__ import annotations

import pytest

from ens_plugin import EnsembleReport
from ens_plugin.errors import InputError
from ens_plugin.registry.gating import REPORT_SCALARS, check_share_bounds, read_policy
from tests.reports import all_reports, classification_report, custom_metric_report, regression_report

SHARES = (
    "error", "error_lower", "error_upper", "asymptotic_error", "algorithmic_sd", "agreement", "member_error",
    "member_variance", "bias",
)  # fmt: skip
COUNTS = ("n_members", "recommended_size", "size_capped", "size_ratio")
ROOTS = ("rmse", "rmse_lower", "rmse_upper", "asymptotic_rmse")


def check(table: str, name: str, bound: str, threshold: float, report: EnsembleReport | None) -> None:
    check_share_bounds(read_policy({table: {name: {bound: threshold}}}), report)


@pytest.mark.parametrize("name", SHARES)
@pytest.mark.parametrize("bound", ["max", "min"])
def test_bounds_on_shares_lie_between_0_and_1(name: str, bound: str) -> None:
    report = classification_report()
    for threshold in (0, 0.06, 1):
        check("report", name, bound, threshold, report)
    with pytest.raises(InputError, match=rf"report\.{name}\.{bound} = 6'.* from 0 to 1\. Write 0\.06 for 6 %"):
        check("report", name, bound, 6, report)
    with pytest.raises(InputError, match="from 0 to 1"):
        check("report", name, bound, -0.01, report)


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
    for threshold in (-1, -0.2, 1):
        check(table, name, "max", threshold, report)
    for threshold in (-1.5, 2):
        with pytest.raises(InputError, match="from -1 to 1"):
            check(table, name, "max", threshold, report)


def test_every_scalar_is_a_share_a_difference_a_count_or_a_root() -> None:
    assert {*SHARES, "excess_error", *COUNTS, *ROOTS} == {*REPORT_SCALARS}


@pytest.mark.parametrize("name", [*COUNTS, *ROOTS])
def test_counts_and_roots_are_free(name: str) -> None:
    check("report", name, "max", 500, classification_report())


@pytest.mark.parametrize("name", REPORT_SCALARS)
def test_squared_errors_are_free(name: str) -> None:
    check("report", name, "max", 3000, regression_report())


def test_a_metric_of_the_users_own_is_free_and_the_labels_are_not() -> None:
    report = custom_metric_report()
    check("report", "error", "max", 6, report)
    check("baseline", "error_increase", "max", 6, report)
    with pytest.raises(InputError, match=r"Write 0\.99 for 99 %"):
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
        check("report", scalar, "max", value, report)


def test_scores_of_scikit_learn_may_be_bounded() -> None:
    policy = read_policy({"report": {"roc_auc": {"min": 0.9}, "asymptotic_f1_macro": {"min": 0.5}}})
    assert [requirement.name for requirement in policy.requirements] == ["roc_auc", "asymptotic_f1_macro"]
    with pytest.raises(InputError, match="no known key"):
        read_policy({"report": {"roc_auk": {"min": 0.9}}})
