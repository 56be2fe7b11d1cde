"""Policies: how they are read, which bounds say nothing or cannot be met, and what is advised where one fails."""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ens_plugin import EnsembleReport
from ens_plugin.analysis import ScorerOfLabel
from ens_plugin.errors import InputError
from ens_plugin.registry.policy import (
    COSTS,
    REPORT_SCALARS,
    Requirement,
    check_share_bounds,
    read_policy,
)
from ens_plugin.report.result import MetricBasis
from tests.reports import (
    HOSTILE_STRINGS,
    all_reports,
    classification_report,
    custom_metric_report,
    regression_report,
    score_report,
)

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "gate-policy.md"
FULL = """
# a comment
[report]
error_upper.max = 0.08
agreement = { min = 0.99, max = 1 }
size_ratio.max = 2

[baseline]
no_worse = true
error_increase.max = 0.01
required = false

[metrics]
"val.auc".min = 0.9
"""


def test_numbers_of_numpy_are_numbers() -> None:
    plain = {"report": {"n_members": {"max": 500}, "error": {"max": 0.5}}, "baseline": {"no_worse": True}}
    of_numpy = {
        "report": {"n_members": {"max": np.int64(500)}, "error": {"max": np.longdouble(0.5)}},
        "baseline": {"no_worse": np.True_},
    }
    assert read_policy(of_numpy) == read_policy(plain)
    with pytest.raises(InputError, match=r"neither a table, a number, true nor false \(an object of type ndarray\)"):
        read_policy({"report": {"n_members": {"max": np.ones(1)}}})


def test_a_byte_order_mark_is_no_part_of_a_policy(tmp_path: Path) -> None:
    path, plain = tmp_path / "policy.toml", tmp_path / "plain.toml"
    path.write_text(FULL, encoding="utf-8-sig")
    plain.write_text(FULL, encoding="utf-8")
    policy = read_policy(path)
    assert policy.requirements == read_policy(plain).requirements
    assert policy.digest == f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"


def test_a_policy_is_read_in_its_order(tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_text(FULL)
    policy = read_policy(path)
    assert policy.requirements == (
        Requirement("report", "error_upper", "max", 0.08),
        Requirement("report", "agreement", "max", 1.0),
        Requirement("report", "agreement", "min", 0.99),
        Requirement("report", "size_ratio", "max", 2.0),
        Requirement("baseline", "error_increase_lower", "max", 0.0),
        Requirement("baseline", "error_increase", "max", 0.01),
        Requirement("metrics", "val.auc", "min", 0.9),
    )
    assert not policy.baseline_required
    assert policy.digest == "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()
    assert read_policy(str(path)) == policy


def test_the_policy_of_the_documentation_is_one(tmp_path: Path) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    (tmp_path / "policy.toml").write_text(text)
    policy = read_policy(tmp_path / "policy.toml")
    assert {requirement.table for requirement in policy.requirements} == {"report", "baseline", "metrics"}
    assert all(f"`{name}`" in PAGE.read_text(encoding="utf-8") or name in text for name in REPORT_SCALARS)


def test_a_policy_tells_what_it_needs() -> None:
    policies = [{table: {"error_increase" if table == "baseline" else "error": {"max": 1}}}
                for table in ("report", "baseline", "metrics")]  # fmt: skip
    assert [(read_policy(policy).needs_report(), read_policy(policy).compares()) for policy in policies] == [
        (True, False),
        (True, True),
        (False, False),
    ]


def test_every_scalar_that_is_logged_can_be_asked_for() -> None:
    logged = {name for report in all_reports().values() for name in (*report.scalars(), *COSTS)}
    scores = {"roc_auc", "roc_auc_lower", "roc_auc_upper", "asymptotic_roc_auc", "roc_auc_shortfall"}
    assert {*REPORT_SCALARS} | scores == logged | {"size_ratio"}
    assert read_policy({"report": {name: {"min": 0.5} for name in scores}}).requirements


def test_the_digest_of_a_mapping_does_not_depend_on_its_order() -> None:
    one = {"report": {"error": {"max": 1}, "bias": {"max": 2}}, "metrics": {"a": {"min": 0}}}
    other = {"metrics": {"a": {"min": 0}}, "report": {"bias": {"max": 2}, "error": {"max": 1}}}
    assert read_policy(one).digest == read_policy(other).digest
    assert read_policy(one).digest != read_policy({**one, "metrics": {"a": {"min": 0.1}}}).digest


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"raport": {}}, "'raport', which is no known key; did you mean 'report'"),
        (
            {"report": {"eror_upper": {"max": 1}}},
            "'report.eror_upper', which is no known key; did you mean 'error_upper",
        ),
        ({"report": {"error": {"maximum": 1}}}, "'report.error.maximum', which is no known key; did you mean 'max'"),
        ({"baseline": {"no_wrose": True}}, "did you mean 'no_worse'"),
        ({"baseline": {"requird": True, "no_worse": True}}, "did you mean 'required'"),
        ({"metrics": {"val": {"auc": {"min": 1}}}}, "go into quotes"),
        ({"report": {"size_ratio": {"min": 1}}}, "report.agreement.min"),
        ({"report": {"error": {"min": 2, "max": 1}}}, "min above max"),
        ({"report": {"error": {}}}, "without a bound"),
        ({"report": {"error": 0.1}}, "is not a table"),
        ({"report": 1}, "is not a table"),
        ({"report": {1: {"max": 1}}}, "is not a table"),
        ({"baseline": {"no_worse": 1}}, "true or false"),
        ({"baseline": {"no_worse": False}}, "Remove the line"),
        ({"baseline": {"required": "no"}}, "true or false"),
        ({"baseline": {"required": False}}, "no requirement"),
        ({"report": {}}, "no requirement"),
        ({}, "no requirement"),
        ({"report": {"error": {"max": {1, 2}}}}, "A policy is data"),
        ({"report": {"error": {"max": math.inf}}}, "A policy is data"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(content: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as refused:
        read_policy(content)
    assert message in str(refused.value)


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "true", '"0.1"', "[1]", "1979-05-27", "1" + "0" * 400])
def test_thresholds_are_finite_numbers(value: str, tmp_path: Path) -> None:
    (tmp_path / "policy.toml").write_text(f"[report]\nerror.max = {value}\n")
    with pytest.raises(InputError, match=r"finite number|not TOML"):
        read_policy(tmp_path / "policy.toml")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("gone.toml", None, "no policy file"),
        (".", None, "no policy file"),
        ("binary.toml", b"\xff\xfe", "is not TOML"),
        ("large.toml", b"#" * 1_000_001, "more than 1000000 bytes"),
        *[
            ("policy.toml", text.encode(), "is not TOML")
            for text in ("[report", "error.max: 1", "{}", "\x00", "a = " + "[" * 20_000, "[report]\n[report]")
        ],
    ],
    ids=lambda value: str(value)[:20],
)
def test_files_that_cannot_be_a_policy(name: str, content: bytes | None, message: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_policy(tmp_path / name)


@pytest.mark.parametrize("text", HOSTILE_STRINGS)
def test_hostile_keys_are_data_and_messages_stay_short(text: str) -> None:
    assert read_policy({"metrics": {text: {"max": 1}}}).requirements[0].name == text
    for content in ({text: {}}, {"report": {text: {"max": 1}}}, {"report": {"error": {"max": text}}}):
        with pytest.raises(InputError) as refused:
            read_policy(content)
        assert len(str(refused.value)) < 600
        assert str(refused.value).isprintable()


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(
        ["report", "baseline", "metrics", "error", "max", "min", "no_worse", "required", "x"]), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(content=st.dictionaries(st.sampled_from(["report", "baseline", "metrics", "x"]), json_like, max_size=3))
def test_any_content_is_a_policy_or_an_input_error(content: dict[str, Any]) -> None:
    before = json.dumps(content, sort_keys=True)
    try:
        policy = read_policy(content)
    except InputError:
        policy = None
    assert json.dumps(content, sort_keys=True) == before
    assert policy is None or all(math.isfinite(requirement.threshold) for requirement in policy.requirements)


class Unprintable:
    """Raises where it is shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize("source", ["x" * 10_000, Unprintable()])
def test_a_source_that_cannot_even_be_looked_for(source: Any) -> None:
    with pytest.raises(InputError, match="policy"):
        read_policy(source)


def test_a_policy_names_a_metric_of_scikit_learn() -> None:
    assert read_policy({"report": {"metric": "roc_auc", "roc_auc": {"min": 0.9}}}).metric == "roc_auc"
    assert read_policy({"report": {"error": {"max": 0.1}}}).metric is None
    with pytest.raises(InputError, match=r"'report\.metric' = 'roc_auk'.*did you mean 'roc_auc'\?"):
        read_policy({"report": {"metric": "roc_auk", "error": {"max": 0.1}}})
    with pytest.raises(InputError, match="no requirement"):
        read_policy({"report": {"metric": "roc_auc"}})


def test_a_policy_names_the_positive_label_of_its_metric() -> None:
    report = {"metric": "f1", "positive_label": "yes", "f1": {"min": 0.9}}
    policy = read_policy({"report": report})
    assert (policy.metric, policy.measured_metric) == ("f1", ScorerOfLabel("f1", "yes"))
    assert read_policy({"report": {**report, "positive_label": 0}}).measured_metric == ScorerOfLabel("f1", "0")
    with pytest.raises(InputError, match=r"'report\.positive_label' = 'yes' without a metric"):
        read_policy({"report": {"positive_label": "yes", "error": {"max": 0.1}}})
    with pytest.raises(InputError, match=r"'report\.positive_label' = \['yes'\], which is no label"):
        read_policy({"report": {**report, "positive_label": ["yes"]}})


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
