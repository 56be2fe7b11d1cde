"""The figures on pages are those that the benchmarks wrote into benchmarks/RESULTS.md."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import sklearn

ROOT = Path(__file__).parents[2]
PROBABILITIES_AND_VALUES = (
    "roc_auc", "neg_log_loss", "neg_brier_score", "r2", "neg_mean_squared_error", "neg_mean_absolute_error",
    "neg_mean_pinball_loss",
)  # fmt: skip
OF_LABELS = ("accuracy", "balanced_accuracy", "f1", "matthews_corrcoef")
SIZE = "error of the size, in doublings (root mean square)"


def page(name: str) -> str:
    return " ".join((ROOT / "docs" / name).read_text(encoding="utf-8").split())


def section(script: str) -> str:
    text = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    return text.partition(f"<!-- benchmarks.{script}: begin -->")[2].partition(f"<!-- benchmarks.{script}: end -->")[0]


def rows(script: str) -> list[list[str]]:
    """Return the cells of all tables of a script."""
    lines = [line for line in section(script).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def cells(script: str, start: str) -> list[list[str]]:
    """Return the tables' rows whose first cell begins so, less that cell."""
    found = [cells[1:] for cells in rows(script) if cells[0].startswith(start)]
    assert found, start
    return found


def measured(start: str) -> str:
    ((value, *_),) = cells("metrics", start)
    return value


@pytest.fixture(scope="module")
def metrics() -> str:
    return page("explanations/metrics.md")


def test_the_metrics_repetitions_and_coverage(metrics: str) -> None:
    held = [row[0] for row in cells("metrics", "interval holds the metric at")]
    (repetitions,) = re.findall(r"(\d+) repetitions;", section("metrics"))
    assert f"In {repetitions} repetitions of 600 rows" in metrics
    assert f"the truth in {min(held, key=float)} to {max(held, key=float)} % of cases" in metrics
    assert measured("reports with a value that the metric cannot have") == "0"
    assert "no value was outside of its range" in metrics


def test_the_metrics_sizes(metrics: str) -> None:
    off = [measured(f"{name}: {SIZE}") for name in PROBABILITIES_AND_VALUES]
    assert f"off by {min(off, key=float)} to {max(off, key=float)} doublings" in metrics
    accuracy, balanced, f1, matthews = [measured(f"{name}: {SIZE}") for name in OF_LABELS]
    precision = measured(f"average_precision: {SIZE}")
    assert (
        f"off by {precision} for average precision, {accuracy} for accuracy, {balanced} for balanced accuracy, "
        f"{f1} for F1 and {matthews} for Matthews' correlation"
    ) in metrics
    known = [measured(f"{name}: the same of 600 fresh rows") for name in OF_LABELS]
    assert f"would be off by {', '.join(known[:-1])} and {known[-1]}" in metrics
    within = [
        measured(f"{name}: size with a metric within twice the tolerance")
        for name in (*PROBABILITIES_AND_VALUES, "average_precision", *OF_LABELS)
    ]
    assert f"At {min(within, key=float)} to {max(within, key=float)} % of the recommended sizes" in metrics


def test_the_refused_log_losses(metrics: str) -> None:
    refused = [int(row[3]) for row in rows("metrics") if len(row) > 3 and row[1] == "neg_log_loss"]
    (repetitions,) = re.findall(r"(\d+) repetitions;", section("metrics"))
    assert f"refused in {sum(refused)} of {len(refused) * int(repetitions)} reports" in metrics


def test_the_metrics_cost(metrics: str) -> None:
    cost = [row[1] for row in rows("metrics") if "processor time at" in row[0]]
    assert f"takes {min(cost, key=float)} to {max(cost, key=float)} times the processor time" in metrics


def test_the_averaged_models() -> None:
    guide, explained = page("how-to/model_averaging.md"), page("explanations/model_averaging.md")
    # The first of two tables, of a tenth of the rows for training, is the one that stays.
    tenth = {
        row[0]: [cell.split()[0] for cell in row[1:]] for row in reversed(rows("model_averaging")) if len(row) == 10
    }
    single, joint, conditional = ({name: row[column] for name, row in tenth.items()} for column in (0, 1, 3))
    assert (
        f"on a tenth of the digits {joint['digits, multinomial']} instead of {single['digits, multinomial']} %" in guide
    )
    assert f"normal naive Bayes {joint['digits']} instead of {single['digits']} %" in guide
    assert f"30 rows: {joint['Boolean attributes']} instead of {single['Boolean attributes']} %" in guide
    assert f"ringnorm: {joint['ringnorm']} instead of {single['ringnorm']} %" in guide
    assert f"ringnorm with 30 rows: {conditional['ringnorm']} instead of {joint['ringnorm']} %" in explained
    gains = [float(single[name]) - float(joint[name]) for name in ("iris", "wine", "breast cancer")]
    assert "a few tenths of a point on iris, wine and breast cancer" in guide
    assert min(gains) > 0.0
    assert max(gains) <= 0.5


def test_the_settled_labels() -> None:
    differing = [
        row[0]
        for data in ("Boolean attributes", "breast cancer")
        for row in cells("paper_2004", f"{data}, T = ")
        if row[-2] == "at most 0.05"
    ]
    assert len(differing) == 6
    assert {*differing} == {"0.0000 ± 0.0000"}
    for name in ("explanations/model_averaging.md", "methods.md"):
        assert "no settled label differed from that of 4000 models" in page(name)


@pytest.mark.slow
@pytest.mark.skipif(
    tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 9),
    reason="the guide shows figures of scikit-learn 1.9; other releases grow other forests",
)
def test_the_guide_to_metrics_shows_what_its_example_prints(tmp_path: Path) -> None:
    script = ROOT / "examples" / "metrics.py"
    printed = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    guide = (ROOT / "docs" / "how-to" / "metrics.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"```\n(RandomForestClassifier:.*?)```", guide, flags=re.DOTALL)
    assert printed.startswith(shown)
    infinite = re.findall(r"infinitely many members +([\d.]+)", printed)[0]
    assert f"asymptote  # {float(infinite):.3f}:" in guide
    size, low, high = re.findall(r"Recommended size: (\d+) members \(95 % interval (\d+) to (\d+)\)", printed)[0]
    assert f"# ({size}, 'metric')" in guide
    assert f"interval  # ({low}, {high})" in guide
