"""The display of the error by size: it draws what the report has, as the displays of scikit-learn do."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

from ens_plugin import ErrorCurveDisplay, analyze
from ens_plugin.errors import InputError

X, Y = load_breast_cancer(return_X_y=True)
FOREST = RandomForestClassifier(40, random_state=0).fit(X, Y)


@pytest.fixture(autouse=True)
def no_figures() -> Iterator[None]:
    yield
    plt.close("all")


def test_an_estimator_and_its_report_give_the_same_line() -> None:
    report = analyze(FOREST, X, Y)
    shown = ErrorCurveDisplay.from_estimator(FOREST, X, Y)
    again = ErrorCurveDisplay.from_report(report)
    np.testing.assert_array_equal(shown.line_.get_xydata(), again.line_.get_xydata())
    beside = ErrorCurveDisplay.from_report(report, ax=Figure().subplots())
    sizes, values = (np.asarray(data) for data in beside.line_.get_data())
    np.testing.assert_allclose(values, [1.0 - report.error_curve.at(size) for size in sizes], rtol=1e-12)
    assert shown.figure_ is shown.ax_.figure
    assert shown.report.error == report.error


def test_arguments_of_the_analysis_are_passed_on() -> None:
    shown = ErrorCurveDisplay.from_estimator(FOREST, X, Y, metric="roc_auc", ax=Figure().subplots())
    assert shown.ax_.get_ylabel().lower().startswith("roc_auc")


def test_what_is_no_report_is_refused() -> None:
    with pytest.raises(InputError, match="report is of type RandomForestClassifier; pass what"):
        ErrorCurveDisplay.from_report(FOREST)  # type: ignore[arg-type]
