"""Reports side by side: the table is that of the reports, names are unique, other units are refused."""

from __future__ import annotations

import math
import pickle
from dataclasses import replace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import ens_plugin
from ens_plugin import EnsembleReport
from ens_plugin.errors import InputError
from ens_plugin.report.plots import plot_error_curve
from tests import reports
from tests.reports import with_doubts

REPORTS = reports.all_reports()
FOREST, DIGITS, CAPPED = (REPORTS[name] for name in ("classification", "large_classification", "capped"))
AT_90 = replace(DIGITS, error_curve=replace(DIGITS.error_curve, interval_level=0.9))


def test_the_table_has_the_values_of_each_report() -> None:
    named = {"forest": FOREST, "digits": DIGITS, "capped": CAPPED}
    frame = ens_plugin.compare(named).to_frame()
    assert frame.index.tolist() == list(named)
    for name, report in named.items():
        row, scalars = frame.loc[name], report.scalars()
        for key in ("error", "error_lower", "error_upper", "asymptotic_error", "algorithmic_sd", "n_members"):
            assert row[key] == scalars[key] if key in scalars else math.isnan(row[key])
        assert row["n_rows"] == report.n_rows
    assert frame.loc["forest", "recommended_size"] == 119
    assert frame.loc["forest", "recommended_error"] == FOREST.error_curve.at(119)
    assert frame.loc["capped", "recommended_size"] is pd.NA
    assert frame.loc["capped", "recommended_lower"] == 20_001
    assert frame.loc["capped", "recommended_upper"] is pd.NA
    assert math.isnan(frame.loc["capped", "recommended_error"])


def test_an_unknown_size_is_missing_and_doubts_are_in_the_table() -> None:
    advice = replace(FOREST.recommendation, size=None, interval=(1, None))
    unknown = with_doubts(replace(FOREST, recommendation=advice), "Few.", "Copies.")
    row = ens_plugin.compare([unknown]).to_frame().iloc[0]
    assert [row[f"recommended_{end}"] is pd.NA for end in ("size", "lower", "upper")] == [True, False, True]
    assert row["doubts"] == "Few. Copies."


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ([FOREST, REPORTS["small_classification"]], ["RandomForestClassifier", "BaggingClassifier"]),
        ([FOREST, DIGITS], ["RandomForestClassifier, 200 members", "RandomForestClassifier, 300 members"]),
        ([FOREST, FOREST], ["RandomForestClassifier, 200 members", "RandomForestClassifier, 200 members (2)"]),
    ],
)
def test_names_of_models_are_made_unique(given: list[Any], names: list[str]) -> None:
    assert list(ens_plugin.compare(given).reports) == names


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "no reports"),
        ({}, "no reports"),
        (FOREST, "pass a list of reports"),
        ("reports", "pass a list of reports"),
        (7, "pass a list of reports"),
        (np.array(7), "pass a list of reports"),
        ([FOREST, "model"], "Entry 1 of reports is of type str"),
        ({"a": FOREST, " ": DIGITS}, "not a text with letters"),
        ({3: FOREST}, "not a text with letters"),
        ([FOREST, REPORTS["regression"]], "different metrics .*0-1 error.*mean squared error.* same metric="),
        ([FOREST, REPORTS["score"]], "roc_auc, greater is better"),
    ],
)
def test_what_cannot_be_compared_is_refused(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        ens_plugin.compare(given)


def test_metrics_about_different_positive_labels_are_refused() -> None:
    """A report without a named label is about 1, as scikit-learn's own scorers are."""
    spam, ham, own = (reports.label_report(label) for label in ("spam", "ham", None))
    with pytest.raises(InputError, match=r"different positive labels \('a': 'spam'; 'b': 'ham'\).* same pos_label"):
        ens_plugin.compare({"a": spam, "b": ham})
    with pytest.raises(InputError, match=r"different positive labels .*'1'"):
        ens_plugin.compare([spam, own])
    assert ens_plugin.compare([own, reports.label_report("1.0")]).metric == "f1"
    ax = Figure().subplots()
    ens_plugin.compare([spam] * 2).plot(ax)
    assert ax.get_ylabel().startswith("f1 of label 'spam'\ngreater is better")
    with pytest.raises(InputError, match=r"of label 'spam'.* of label 'ham'.* axes of its own"):
        plot_error_curve(ham.error_curve, ax=ax)


def test_the_chart_has_a_colour_and_a_name_for_each_curve() -> None:
    ax = Figure(layout="constrained").subplots()
    names = ["forest", "digits", "_capped", "$x$"]
    compared = ens_plugin.compare(dict(zip(names, (FOREST, DIGITS, CAPPED, FOREST), strict=True)))
    assert compared.plot(ax=ax) is ax
    assert plt.get_fignums() == []
    legend = ax.get_legend()
    shown = [text.get_text() for text in legend.get_texts()]
    assert shown == ["forest", "digits", " _capped", r"\$x\$", "current size", "recommended size", "infinite ensemble"]
    curves = [line for line in ax.lines if line.get_label() in shown[:4]]
    colours = [to_hex(line.get_color()) for line in curves]
    assert colours == [to_hex(colour) for colour in plt.rcParams["axes.prop_cycle"].by_key()["color"][:4]]
    for line, report in zip(curves, (FOREST, DIGITS, CAPPED, FOREST), strict=True):
        sizes, values = (np.asarray(data) for data in line.get_data())
        np.testing.assert_allclose(values, [1.0 - report.error_curve.at(size) for size in sizes], rtol=1e-12)
        assert sizes[-1] == pytest.approx(ax.get_xlim()[1])


def test_a_comparison_is_short_as_text() -> None:
    compared = ens_plugin.compare([FOREST] * 8)
    assert len(repr(compared)) < 300
    assert "and 3 more" in repr(compared)
    assert max(map(len, str(compared).splitlines())) <= 80


X, Y = load_breast_cancer(return_X_y=True)
DEEP = RandomForestClassifier(60, random_state=0).fit(X, Y)
STUMPS = RandomForestClassifier(60, max_depth=1, max_features=1, random_state=1).fit(X, Y)


@pytest.fixture(scope="module")
def deep() -> EnsembleReport:
    return ens_plugin.analyze(DEEP, X, Y)


@pytest.fixture(scope="module")
def stumps() -> EnsembleReport:
    return ens_plugin.analyze(STUMPS, X, Y)


def test_reports_on_the_same_rows_are_compared_row_by_row(deep: EnsembleReport, stumps: EnsembleReport) -> None:
    compared = ens_plugin.compare({"deep": deep, "stumps": stumps})
    found = compared.differences["stumps"]
    assert found.n_rows == len(Y)
    assert found.estimate == pytest.approx(stumps.error - deep.error)
    apart = deep.error_interval[1] - deep.error_interval[0] + stumps.error_interval[1] - stumps.error_interval[0]
    # The intervals of both reports hold what their rows have in common, which the difference does not.
    assert found.upper - found.lower < 0.75 * apart
    assert found.is_clear
    sentence = compared.sentences[0]
    assert sentence.startswith(f"stumps is worse than deep by {100 * found.estimate:.2f} points (95 % interval ")
    assert sentence.endswith("compared on the same 569 rows).")
    reverse = ens_plugin.compare({"stumps": stumps, "deep": deep}).differences["deep"]
    assert (reverse.estimate, reverse.lower) == pytest.approx((-found.estimate, -found.upper))
    row = compared.to_frame().loc["stumps"]
    assert [row[name] for name in ("difference", "difference_lower", "difference_upper")] == [
        found.estimate, found.lower, found.upper,
    ]  # fmt: skip


def test_squared_errors_are_compared_row_by_row_too() -> None:
    rows, y = load_diabetes(return_X_y=True)
    found = {
        name: ens_plugin.analyze(RandomForestRegressor(50, max_depth=depth, random_state=0).fit(rows, y), rows, y)
        for name, depth in (("deep", None), ("stumps", 1))
    }
    difference = ens_plugin.compare(found).differences["stumps"]
    assert difference.n_rows == y.size
    assert difference.estimate == pytest.approx(found["stumps"].error - found["deep"].error)
    apart = sum(report.error_interval[1] - report.error_interval[0] for report in found.values())
    assert difference.upper - difference.lower < apart


def test_other_rows_weights_groups_and_files_leave_the_intervals_alone(deep: EnsembleReport) -> None:
    test = slice(400, None)
    forest = RandomForestClassifier(60, random_state=0).fit(X[:400], Y[:400])
    held_out = ens_plugin.analyze(forest, X[test], Y[test], data="holdout")
    weighted = ens_plugin.analyze(DEEP, X, Y, sample_weight=np.linspace(1.0, 2.0, Y.size))
    grouped = ens_plugin.analyze(DEEP, X, Y, groups=np.arange(Y.size))
    read = EnsembleReport.from_json(deep.to_json())
    cases = {"different rows": held_out, "with weights": weighted, "weights, groups": grouped, "from JSON": read}
    for reason, other in cases.items():
        found = ens_plugin.compare({"deep": deep, "other": other}).differences["other"]
        assert found.n_rows is None
        assert reason in found.reason
        assert found.lower == pytest.approx(other.error_interval[0] - deep.error_interval[1])
    score = {name: ens_plugin.analyze(model, X, Y, metric="roc_auc") for name, model in (("a", DEEP), ("b", STUMPS))}
    assert ens_plugin.compare(score).differences["b"].reason == "roc_auc is no mean over rows"


def test_a_copy_of_a_report_and_a_pickled_one_are_still_compared_row_by_row(
    deep: EnsembleReport, stumps: EnsembleReport
) -> None:
    for other in (replace(stumps, created=""), pickle.loads(pickle.dumps(stumps)), with_doubts(stumps, "Few.")):
        assert ens_plugin.compare({"a": deep, "b": other}).differences["b"].n_rows == Y.size


def test_the_rows_of_a_report_are_not_in_its_json(deep: EnsembleReport) -> None:
    assert "judged_rows" not in deep.to_dict()
    assert deep.judged_rows is not None
    assert deep.judged_rows.losses.nbytes == 2 * Y.size


@pytest.mark.slow
def test_the_interval_of_a_paired_difference_covers_that_on_fresh_rows() -> None:
    """Of forests with leaves of one and of twenty rows, on two labels with noise; 95 of 100 are expected."""
    held, widths = 0, []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        rows, fresh = rng.normal(size=(300, 6)), rng.normal(size=(4000, 6))
        labels, truth = (
            (table[:, 0] + table[:, 1] * table[:, 2] + rng.normal(size=len(table)) > 0) for table in (rows, fresh)
        )
        forests = [
            RandomForestClassifier(40, min_samples_leaf=least, random_state=seed).fit(rows, labels) for least in (1, 20)
        ]
        difference = np.subtract(*(np.mean(forest.predict(fresh) != truth) for forest in forests[::-1]))
        found = ens_plugin.compare(
            {name: ens_plugin.analyze(forest, rows, labels) for name, forest in zip("ab", forests, strict=True)}
        ).differences["b"]
        held += found.lower <= difference <= found.upper
        widths.append(found.upper - found.lower)
    assert held >= 54
    assert np.mean(widths) < 0.12
