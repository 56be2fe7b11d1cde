"""The figures on pages are those that the benchmarks wrote into benchmarks/RESULTS.md."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from tests.docs.results import ROOT, cells, measured, page, rows, section, whole

PROBABILITIES_AND_VALUES = (
    "roc_auc", "average_precision", "neg_log_loss", "neg_brier_score", "r2", "neg_mean_squared_error",
    "neg_mean_absolute_error",
)  # fmt: skip
NEVER_STATED = ("balanced_accuracy", "f1", "matthews_corrcoef", "neg_mean_pinball_loss")
SIZE = "error of the size, in doublings (root mean square)"


def by_name(start: str) -> str:
    ((value, *_),) = cells("metrics.by_name", start)
    return value


@pytest.fixture(scope="module")
def metrics() -> str:
    return page("explanations/metrics.md")


def test_the_metrics_repetitions_and_coverage(metrics: str) -> None:
    held = [row[0] for row in cells("metrics.by_name", "interval holds the metric at")]
    (repetitions,) = re.findall(r"(\d+) repetitions;", section("metrics.by_name"))
    assert f"In {repetitions} repetitions of 600 rows" in metrics
    assert f"the truth in {min(held, key=float)} to {max(held, key=float)} % of cases" in metrics
    assert by_name("reports with a value that the metric cannot have") == "0"
    assert "no value was outside of its range" in metrics


def test_the_metrics_sizes(metrics: str) -> None:
    (off_by, target, _) = cells("metrics.by_name", SIZE)[0]
    assert f"off by {off_by} doublings (root mean square), where {target.split()[-1]} was aimed for" in page(
        "how-to/metrics.md"
    )
    area, precision = [by_name(f"{name}: {SIZE}") for name in ("roc_auc", "average_precision")]
    assert f"by `roc_auc` was off by {area} doublings, by average precision by {precision};" in page(
        "how-to/metrics.md"
    )
    off = [by_name(f"{name}: {SIZE}") for name in PROBABILITIES_AND_VALUES]
    assert f"off by {min(off, key=float)} to {max(off, key=float)} doublings" in metrics
    assert f"off by {by_name(f'accuracy: {SIZE}')} for accuracy" in metrics
    known = by_name("accuracy: the same of 600 fresh rows")
    assert f"would be off by {known} for it" in metrics
    assert f"miss the size by {known} doublings for accuracy" in page("methods/metrics.md")
    *stated, absolute = [by_name(f"{name}: a size is stated (%)") for name in PROBABILITIES_AND_VALUES]
    assert (
        "in {} % of reports by `roc_auc`, {} % by average precision, {} % by the log loss, {} % by the Brier score, "
        "{} % by R² and {} % by the squared error".format(*stated)
    ) in metrics
    assert (
        f"but in {absolute} % by the absolute error, in {by_name('accuracy: a size is stated (%)')} % by accuracy, and "
        "never by balanced accuracy, F1"
    ) in metrics
    assert [row[0] for row in rows("metrics.by_name") if row[0].startswith(NEVER_STATED)] == []
    within = [
        by_name(f"{name}: size with a metric within twice the tolerance")
        for name in (*PROBABILITIES_AND_VALUES, "accuracy")
    ]
    assert f"At {min(within, key=float)} to {max(within, key=float)} % of the recommended sizes" in metrics


def test_the_refused_log_losses(metrics: str) -> None:
    refused = [int(row[3]) for row in rows("metrics.by_name") if len(row) > 3 and row[1] == "neg_log_loss"]
    (repetitions,) = re.findall(r"(\d+) repetitions;", section("metrics.by_name"))
    assert f"refused in {sum(refused)} of {len(refused) * int(repetitions)} reports" in metrics


def test_the_log_losses_near_0(metrics: str) -> None:
    answered, held = (
        whole(measured("metrics.log_loss", measure)) for measure in ("default forests with an answer (%)", "both (%)")
    )
    assert f"{answered} % of the default forests have an answer" in metrics
    assert f"{answered} % of the forests have an answer, and {held} % of the intervals hold both" in page(
        "methods/log-loss.md"
    )


def test_the_metrics_cost(metrics: str) -> None:
    cost = [row[1] for row in rows("metrics.cost") if "processor time at" in row[0]]
    assert f"takes {min(cost, key=float)} to {max(cost, key=float)} times the processor time" in metrics


def test_the_averaged_models() -> None:
    text = page("explanations/papers.md")
    # The first of two tables, of a tenth of the rows for training, is the one that stays.
    tenth = {
        row[0]: [cell.split()[0] for cell in row[1:]]
        for row in reversed(rows("learners.model_averaging"))
        if len(row) == 10
    }
    single, joint = ({name: row[column] for name, row in tenth.items()} for column in (0, 1))
    digits = "digits, multinomial"
    assert f"on a tenth of the digits errs for {joint[digits]} instead of {single[digits]} %" in text
    assert f"30 rows: {joint['Boolean attributes']} instead of {single['Boolean attributes']} %" in text
    assert f"ringnorm: {joint['ringnorm']} instead of {single['ringnorm']} %" in text


def test_the_standard_deviation_over_seeds() -> None:
    twonorm, ringnorm, logistic, circle, mixture = (
        cells("accuracy.intervals", f"{problem}: algorithmic sd on out-of-bag rows")[0][0].split()[0]
        for problem in ("twonorm", "ringnorm", "noisy logistic", "circle", "hard/easy mixture")
    )
    assert (
        f"{twonorm} on twonorm, {ringnorm} on ringnorm, {logistic} on the noisy logistic problem, {circle} on circle "
        f"and {mixture} on the hard/easy mixture"
    ) in page("methods/uncertainty.md")


def test_the_variance_over_training_sets() -> None:
    methods = (ROOT / "docs" / "methods" / "training-variance.md").read_text(encoding="utf-8")
    shown = re.findall(r"^\| ([25]00) \| (all|a third).*? \| (\d) \| ([\d.]+) \| ([\d.]+) \|$", methods, re.MULTILINE)
    found = [
        (row[0], row[-2], row[-1])
        for row in rows("hard_data.training_variance")
        if ", bootstrap," in row[0] and len(row) == 5
    ]
    assert len(shown) == 5
    for (n_rows, tried, leaf, corrected, jackknife), measured_row in zip(shown, found, strict=True):
        share = "max_features 1," if tried == "all" else "max_features 0.333333,"
        assert measured_row == (f"{n_rows} rows, bootstrap, {share} leaves of {leaf}", corrected, jackknife)
    few, many = (
        row[-2] for row in rows("hard_data.training_variance") if "without replacement" in row[0] and len(row) == 5
    )
    assert f"{few} times the truth with bags of 30 % of the rows and {many} times with 63 %" in page(
        "methods/training-variance.md"
    )


def test_the_intervals_of_groups() -> None:
    held = {row[0]: float(row[1].split()[0]) for row in rows("hard_data.repeats") if row[0].endswith("coverage (%)")}
    assert len(held) == 9
    fewest = held.pop("20 groups of 10 rows, scikit-learn forest: coverage (%)")
    squared = held.pop("60 groups of 10 rows, regression: coverage (%)")
    assert (
        f"in {fewest:.0f} % of cases for 20 groups of ten rows, in {squared:.0f} % for squared loss, and in "
        f"{min(held.values()):.0f} to {max(held.values()):.0f} % for"
    ) in page("methods/groups.md")


def test_the_posterior_and_the_belief_network() -> None:
    explained = page("explanations/papers.md")
    ((divergence, *_),) = cells("papers.model_averaging_2004", "Table 10, 100 models: KL")
    assert f"Their divergence is {divergence} in the median" in explained
    (few, *_), (many, *_) = (
        [[whole(value) for value in row[:2]] for row in cells("papers.model_averaging_2004", f"{rows} training rows")]
        for rows in (50, 1000)
    )
    assert f"for {few[0]} % of the queries with 50 training rows and for {many[0]} % with 1000" in explained
    assert f"so did the single model, for {few[1]} and {many[1]} %" in explained


def test_the_settled_labels() -> None:
    differing = [
        row[0]
        for data in ("Boolean attributes", "breast cancer")
        for row in cells("papers.model_averaging_2004", f"{data}, T = ")
        if row[-2] == "at most 0.05"
    ]
    assert len(differing) == 6
    assert {*differing} == {"0.0000 ± 0.0000"}
    assert "no settled label differed from that of 4000 models" in page("explanations/papers.md")


@pytest.mark.slow
@pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9),
    reason="the guide shows figures of scikit-learn 1.9; other releases grow other forests",
)
def test_the_guide_to_metrics_shows_what_its_example_prints(tmp_path: Path) -> None:
    script = ROOT / "examples" / "reports" / "metrics.py"
    printed = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    guide = (ROOT / "docs" / "how-to" / "metrics.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```\n(RandomForestClassifier,.*?)```", guide, flags=re.DOTALL)
    assert printed.startswith(shown)
    infinite = re.findall(r"infinitely many trees +([\d.]+)", printed)[0]
    assert f"asymptote  # {infinite}," in guide
    size = re.findall(r"truncate\(model, (\d+)\)", printed)[0]
    assert f"# ({size}, 'metric')" in guide
    namespace: dict[str, Any] = {}
    by_area, by_precision = re.findall(r"```python\n(.*?)```", guide, flags=re.DOTALL)[:2]
    exec(by_area, namespace)
    assert f"recommended_size  # {namespace['report'].recommended_size}" in by_area
    exec(by_precision, namespace)
    assert str(namespace["report"]) == printed.partition("The first ")[0].rstrip("\n")


@pytest.mark.slow
def test_a_metric_that_is_not_recognised_is_evaluated_up_to_about_900_times() -> None:
    X, y = make_classification(3000, random_state=0)
    forest = RandomForestClassifier(100, max_samples=1 / 3, random_state=0).fit(X, y)
    n_calls = 0

    def cost(y: Any, p: Any) -> float:
        nonlocal n_calls
        n_calls += 1
        return float(np.where(y == 1, 3 * p[:, 0] ** 2, p[:, 1] ** 2).mean())

    ens_plugin.analyze(forest, X, y, metric=cost)
    assert 800 <= n_calls <= 950
    for name in ("explanations/metrics.md", "how-to/metrics-elsewhere.md", "faq.md"):
        assert "evaluated up to about 900 times" in page(name)


def test_the_error_of_infinitely_many_trees_beside_that_of_another_tool() -> None:
    found: dict[tuple[str, str], list[list[str]]] = {}
    for row in rows("rivals.squared_loss"):
        if row[1] in ("25", "100"):
            found.setdefault((row[2], row[1]), []).append(row)

    def ends(tool: str, trees: str, column: int) -> str:
        values = [row[column] for row in found[tool, trees]]
        return f"{min(values, key=float)} to {max(values, key=float)}"

    text = " ".join(page("explanations/other-tools.md").split())
    theirs, ours = "sklearn-ensemble-cv", "ens_plugin"
    assert f"off by {ends(theirs, '25', 3)} % from 25 trees and by {ends(theirs, '100', 3)} % from 100" in text
    assert f"on the same trees by {ends(ours, '25', 3)} % and by {ends(ours, '100', 3)} %" in text
    assert f"it took {ends(theirs, '100', 6)} s, `analyze` {ends(ours, '100', 6)} s" in text


def test_the_other_tools() -> None:
    of_rivals = [row for row in rows("rivals.comparison") if not row[0].startswith("-")]
    curves, sizes = ([row for row in of_rivals if len(row) == width and row[0] != "tool"] for width in (7, 9))
    expected = [
        [curve[0], *(cell.split()[0] for cell in (curve[1], curve[3], *size[3:]))]
        for curve, size in zip(curves, sizes, strict=True)
    ]
    text = (ROOT / "docs" / "explanations" / "other-tools.md").read_text(encoding="utf-8")
    table = text.partition("| tool |")[1] + text.partition("| tool |")[2]
    shown = [
        line.replace("\N{EN DASH}", "-").strip("| ").split(" | ") for line in table.splitlines() if line[:1] == "|"
    ]
    assert shown[2:] == expected


@pytest.mark.slow
@pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9),
    reason="the guide shows figures of scikit-learn 1.9; other releases grow other forests",
)
def test_the_guide_to_uncertainty_states_what_its_example_prints(tmp_path: Path) -> None:
    script = ROOT / "examples" / "oob" / "prediction_intervals.py"
    printed = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    ((inside, total),) = re.findall(r"(\d+) of (\d+) new targets lie in their 95 % intervals", printed)
    assert f"{inside} of the {total} new targets lie in their 95 % intervals" in page("how-to/uncertainty.md")
