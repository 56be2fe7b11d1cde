"""What a cut ensemble is held to, at the edge of each demand."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from ens_plugin import EnsembleReport, analyze
from ens_plugin.sizing.truncate import cut_checks

N_ROWS = 1000
ROWS = np.arange(N_ROWS)


class Labels:
    """Gives the label 1 to its first rows."""

    def __init__(self, count: int) -> None:
        self.count = count

    def predict(self, rows: Any) -> Any:
        return np.asarray(rows) < self.count


@cache
def of_labels() -> EnsembleReport:
    X, y = load_breast_cancer(return_X_y=True)
    return analyze(RandomForestClassifier(200, random_state=0).fit(X, y), X, y, criterion="agreement")


@cache
def of_values() -> EnsembleReport:
    X, y = load_diabetes(return_X_y=True)
    return analyze(RandomForestRegressor(200, random_state=0).fit(X, y), X, y)


def cut_to(report: EnsembleReport, size: int, error: float, algorithmic_sd: float = 0.0) -> EnsembleReport:
    """The report of the cut ensemble, whose error is as given, and whose losses are those of the whole one's report."""
    curve = report.error_curve
    shift = error - curve.at(size)
    moved = replace(curve, error=curve.error + shift, lower=curve.lower + shift, upper=curve.upper + shift)
    moved_report = replace(report, n_members=size, error_curve=moved, algorithmic_sd=algorithmic_sd)
    return with_sizes(moved_report, loss=report.recommendation.loss_at(size))


def with_sizes(report: EnsembleReport, **fields: Any) -> EnsembleReport:
    """The report with other fields of its recommendation, which is the only one that is required."""
    recommendation = replace(report.recommendation, **fields)
    others = [found for found in report.criteria if not found.is_required]
    return replace(report, recommendation=recommendation, criteria=(recommendation, *others))


def held_out(report: EnsembleReport) -> EnsembleReport:
    """The same report, as if its rows had been held out."""
    return replace(report, data="holdout", bags="holdout")


def checks(report: EnsembleReport, cut_report: EnsembleReport, differing: int = 0) -> dict[str, bool]:
    found = cut_checks(Labels(500), Labels(500 + differing), ROWS, report, cut_report, None)
    return {check.name: check.passed for check in found}


# A share of 0.99 has a standard error of 0.00315 in 1000 rows; 1.96 of them are 6.2 rows more than the 10 wanted.
@pytest.mark.parametrize(("differing", "passed"), [(0, True), (10, True), (16, True), (17, False), (400, False)])
def test_labels_may_differ_as_far_as_held_out_rows_allow(differing: int, passed: bool) -> None:
    report = held_out(of_labels())
    assert report.recommendation.tolerance == 0.01
    cut_report = cut_to(report, 151, report.error_curve.at(151))
    assert checks(report, cut_report, differing) == {"enough": True, "agreement": passed, "error": True}


def test_weights_decide_which_rows_agree() -> None:
    report = held_out(of_labels())
    cut_report = cut_to(report, 51, report.error_curve.at(51))
    weight = np.where((ROWS >= 500) & (ROWS < 900), 0.0, 1.0)
    _, agreement, _ = cut_checks(Labels(500), Labels(900), ROWS, report, cut_report, weight)
    assert agreement.passed
    assert agreement.value == 1.0


@pytest.mark.parametrize("of_kind", [of_labels, of_values])
def test_the_error_has_to_be_in_the_promised_interval(of_kind: Any) -> None:
    report = of_kind()
    lower, upper = report.error_curve.interval_at(51)
    inside = 1e-6 * (upper - lower)
    for error, passed in (
        (lower - inside, False),
        (lower + inside, True),
        (upper - inside, True),
        (upper + inside, False),
    ):
        assert checks(report, cut_to(report, 51, error))["error"] is passed


def test_what_another_seed_would_give_is_allowed_too() -> None:
    report = of_labels()
    _, upper = report.error_curve.interval_at(51)
    assert not checks(report, cut_to(report, 51, upper * 1.01))["error"]
    assert checks(report, cut_to(report, 51, upper * 1.01, algorithmic_sd=upper))["error"]


def test_a_regression_has_no_labels_to_agree() -> None:
    report = held_out(of_values())
    assert set(checks(report, cut_to(report, 51, report.error_curve.at(51)))) == {"enough", "error"}


@pytest.mark.parametrize("of_kind", [of_labels, of_values])
def test_the_report_on_the_cut_ensemble_has_to_find_it_enough(of_kind: Any) -> None:
    report = of_kind()
    loss = report.recommendation.loss_at(51)
    for tolerance, passed in ((loss * (1.0 - 1e-9), False), (loss * (1.0 + 1e-9), True)):
        of_cut = with_sizes(cut_to(report, 51, report.error_curve.at(51)), tolerance=tolerance)
        # On training rows the labels of both ensembles agree whatever their sizes, and are not compared.
        enough, error = cut_checks(Labels(500), Labels(500), ROWS, report, of_cut, None)
        assert (enough.passed, enough.value, enough.limit) == (passed, loss, tolerance)
        assert error.passed
        assert enough.sentence.startswith("51 members: ")
