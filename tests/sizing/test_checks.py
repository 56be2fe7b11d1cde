"""What a cut ensemble is held to, at the edge of each demand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ens_plugin import EnsembleReport
from ens_plugin.errors import InputError
from ens_plugin.sizing import cut_checks
from tests.reports import classification_report, path_report, regression_report

N_ROWS = 1000
ROWS = np.arange(N_ROWS)


class Labels:
    """Gives the label 1 to its first rows."""

    def __init__(self, count: int) -> None:
        self.count = count

    def predict(self, rows: Any) -> Any:
        return np.asarray(rows) < self.count


def cut_to(report: EnsembleReport, size: int, error: float, algorithmic_sd: float = 0.0) -> EnsembleReport:
    """The report of the cut ensemble, whose error is as given."""
    curve = report.error_curve
    shift = error - curve.at(size)
    moved = replace(curve, error=curve.error + shift, lower=curve.lower + shift, upper=curve.upper + shift)
    return replace(report, n_members=size, error_curve=moved, algorithmic_sd=algorithmic_sd)


def held_out(report: EnsembleReport) -> EnsembleReport:
    """The same report, as if its rows had been held out."""
    return replace(report, data="holdout", bags="holdout")


def checks(report: EnsembleReport, cut_report: EnsembleReport, differing: int = 0) -> dict[str, bool]:
    found = cut_checks(Labels(500), Labels(500 + differing), ROWS, report, cut_report, None)
    return {check.name: check.passed for check in found}


# A share of 0.99 has a standard error of 0.00315 in 1000 rows; 1.96 of them are 6.2 rows more than the 10 wanted.
@pytest.mark.parametrize(("differing", "passed"), [(0, True), (10, True), (16, True), (17, False), (400, False)])
def test_labels_may_differ_as_far_as_held_out_rows_allow(differing: int, passed: bool) -> None:
    report = held_out(classification_report())
    assert report.recommendation.confidence == 0.99
    cut_report = cut_to(report, 51, report.error_curve.at(51))
    assert checks(report, cut_report, differing) == {"agreement": passed, "error": True}


def test_weights_decide_which_rows_agree() -> None:
    report = held_out(classification_report())
    cut_report = cut_to(report, 51, report.error_curve.at(51))
    weight = np.where((ROWS >= 500) & (ROWS < 900), 0.0, 1.0)
    (agreement, _) = cut_checks(Labels(500), Labels(900), ROWS, report, cut_report, weight)
    assert agreement.passed
    assert agreement.value == 1.0


@pytest.mark.parametrize("report", [classification_report(), regression_report()], ids=["classification", "regression"])
def test_the_error_has_to_be_in_the_promised_interval(report: EnsembleReport) -> None:
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
    report = classification_report()
    _, upper = report.error_curve.interval_at(51)
    assert not checks(report, cut_to(report, 51, upper * 1.01))["error"]
    assert checks(report, cut_to(report, 51, upper * 1.01, algorithmic_sd=upper))["error"]


def test_a_regression_has_no_labels_to_agree() -> None:
    report = regression_report()
    assert set(checks(report, cut_to(report, 51, report.error_curve.at(51)))) == {"error"}


@pytest.mark.parametrize(("recommended", "passed"), [(51, True), (53, False), (None, False)])
def test_out_of_bag_the_agreement_is_that_of_the_report_on_the_cut_ensemble(
    recommended: int | None, passed: bool
) -> None:
    report = classification_report()
    cut_report = cut_to(report, 51, report.error_curve.at(51))
    cut_report = replace(
        cut_report, recommendation=replace(cut_report.recommendation, size=recommended, agreement=0.985)
    )
    # On training rows the labels of both ensembles agree whatever their sizes.
    agreement, _ = cut_checks(Labels(500), Labels(500), ROWS, report, cut_report, None)
    assert (agreement.passed, agreement.value, agreement.limit) == (passed, 0.985, 0.99)
    assert agreement.sentence.startswith("51 members and infinitely many give the same label on 98.50 % of rows")


def test_sentences_name_what_was_found_and_wanted() -> None:
    report = held_out(classification_report())
    agreement, error = cut_checks(
        Labels(500), Labels(520), ROWS, report, cut_to(report, 51, report.error_curve.at(51)), None
    )
    assert agreement.sentence.startswith("51 members and all 200 give the same label on 98.00 % of these rows")
    assert (agreement.value, agreement.limit) == (0.98, 0.99)
    assert "95 % interval" in error.sentence


def test_a_curve_that_ends_below_the_size_cannot_answer() -> None:
    report = path_report()
    beyond = int(report.error_curve.sizes[-1]) + 1
    assert not report.error_curve.reaches(beyond)
    with pytest.raises(InputError, match="'path' ends below"):
        cut_checks(Labels(1), Labels(1), ROWS, report, replace(report, n_members=beyond), None)
