"""What a person sees in MLflow's UI of two runs with reports, as docs/how-to/mlflow.md shows them.

``make screenshots`` runs these tests and keeps the pictures of the documentation.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlflow
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

import ens_plugin
from ens_plugin import EnsembleReport
from ens_plugin.tracking.log import charted_sizes
from tests.tracking.chromium import CHROMIUM, launch, open_tab
from tests.tracking.stores import MLFLOW_WARNINGS, tracking_to

pytestmark = [
    pytest.mark.long,
    MLFLOW_WARNINGS,
    pytest.mark.browser,
    pytest.mark.server,
    pytest.mark.slow,
    pytest.mark.xdist_group("mlflow_server"),
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine: apt-get install chromium"),
]

FORESTS = {
    "random forest": RandomForestClassifier(300, random_state=0),
    "extra trees": ExtraTreesClassifier(300, bootstrap=True, random_state=0),
}
CHARTS = "runs?compareRunsMode=CHART"
REPORT = "artifacts/ensemble/report.html"
LINE = "path.js-line"
VIEWER = "iframe.mlflow-html-iframe"
BOTH_RUNS = "plot => new Set(plot.data.map(({uuid}) => uuid)).size === 2"
# The metrics of the compare page, with their values in each run as texts: cells are placed, not nested in rows, and the
# nearest element that has another cell at the same height is the table.
COMPARED = """(() => {
    const level = (box, name) => [...box.querySelectorAll('div')]
        .filter(cell => cell !== name && cell.style.position === 'absolute' && cell.style.top === name.style.top)
    const values = name => {
        let table = name.parentElement
        while (level(table, name).length === 0) table = table.parentElement
        return level(table, name).map(cell => cell.innerText.trim())
    }
    const links = [...document.querySelectorAll('a[title="Plot chart"]')]
    return Object.fromEntries(links.map(link => [link.innerText.trim(), values(link.parentElement)]))
})()"""
FIRST_GLANCE_PX = 480  # height of the viewer on a small screen
# The pictures of a page that are shown, and their texts that stick out of them.
PICTURES = """[...document.querySelectorAll('svg')]
    .map(svg => [svg, svg.getBoundingClientRect()])
    .filter(([, box]) => box.width > 0)
    .map(([svg, box]) => ({
        width: box.width,
        bottom: box.bottom,
        clipped: [...svg.querySelectorAll('text')].filter(text => {
            const inner = text.getBoundingClientRect()
            return inner.left < box.left || inner.right > box.right || inner.top < box.top || inner.bottom > box.bottom
        }).map(text => text.textContent),
    }))"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with launch() as browser:
        yield browser


@pytest.fixture(scope="module")
def experiment(server_uri: str) -> Iterator[str]:
    """Address of an experiment with a run for each of the forests, which the documentation shows."""
    X, y = load_digits(return_X_y=True)
    with tracking_to(server_uri):
        mlflow.set_experiment("digits")
        for name, forest in FORESTS.items():
            with mlflow.start_run(run_name=name):
                ens_plugin.log_report(ens_plugin.analyze(forest.fit(X, y), X, y))
        logged = mlflow.get_experiment_by_name("digits")
        assert logged is not None
        yield f"{server_uri}/#/experiments/{logged.experiment_id}"


@pytest.fixture
def reports(experiment: str) -> dict[str, EnsembleReport]:
    """The report of each run, read back from its artifacts."""
    return {
        run.info.run_id: EnsembleReport.from_json(
            mlflow.artifacts.load_text(f"runs:/{run.info.run_id}/ensemble/report.json")
        )
        for run in mlflow.search_runs(experiment_names=["digits"], output_format="list")
    }


@pytest.fixture
def forest_run(reports: dict[str, EnsembleReport]) -> str:
    return next(run_id for run_id, report in reports.items() if "RandomForest" in report.model)


def test_the_compare_page_shows_the_same_value_for_a_curve_and_its_scalar(
    browser: Any, experiment: str, reports: dict[str, EnsembleReport]
) -> None:
    server, _, path = experiment.partition("/#/experiments/")
    runs = "%2C".join(f"%22{run_id}%22" for run_id in reports)
    address = f"{server}/#/compare-runs?runs=%5B{runs}%5D&experiments=%5B%22{path}%22%5D"
    with open_tab(browser, address, "text=ens.accuracy_upper") as (page, _):
        values = page.evaluate(COMPARED)
        for name in ("accuracy", "accuracy_lower", "accuracy_upper"):
            assert values[f"ens/{name}"] == values[f"ens.{name}"]
            assert len(values[f"ens/{name}"]) == len(reports)


def test_two_runs_share_a_chart_of_the_accuracy_against_the_size(
    browser: Any, experiment: str, reports: dict[str, EnsembleReport]
) -> None:
    with open_tab(browser, f"{experiment}/{CHARTS}", LINE) as (page, complaints):
        traces = chart(page, "ens/accuracy").evaluate("plot => plot.data.map(({uuid, x, y}) => [uuid, x, y])")
        lines = {run_id: dict(zip(sizes, errors, strict=True)) for run_id, sizes, errors in traces}
        assert set(lines) == set(reports)
        for run_id, report in reports.items():
            curve = report.error_curve
            assert lines[run_id] == {
                size: pytest.approx(1.0 - curve.at(size)) for size in charted_sizes(report).tolist()
            }
        assert complaints == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_report_opens_in_the_artifact_viewers_sandbox(
    browser: Any, experiment: str, forest_run: str, theme: str
) -> None:
    with open_tab(browser, f"{experiment}/runs/{forest_run}/{REPORT}", VIEWER, theme) as (page, complaints):
        frame = viewed(page)
        assert page.locator(VIEWER).get_attribute("sandbox") == "allow-scripts"
        assert "RandomForestClassifier" in frame.locator("h1").inner_text()
        assert len(frame.evaluate(PICTURES)) == 2
        assert frame.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert complaints == []


@pytest.mark.parametrize("width", [1000, 1280, 1920])
def test_verdict_and_curve_are_seen_at_first_glance(browser: Any, experiment: str, forest_run: str, width: int) -> None:
    with open_tab(browser, f"{experiment}/runs/{forest_run}/{REPORT}", VIEWER, width=width) as (page, _):
        frame = viewed(page)
        pictures = frame.evaluate(PICTURES)
        assert pictures[0]["bottom"] <= FIRST_GLANCE_PX
        assert min(picture["width"] for picture in pictures) > 250
        assert [picture["clipped"] for picture in pictures] == [[], []]
        assert frame.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_pictures_of_the_documentation_are_light(
    browser: Any, experiment: str, forest_run: str, tmp_path: Path
) -> None:
    directory = Path(os.environ.get("ENS_PLUGIN_SCREENSHOTS", tmp_path))
    with open_tab(browser, f"{experiment}/{CHARTS}", LINE) as (page, _):
        for name in ("ens/accuracy", "ens/accuracy_lower", "ens/accuracy_upper"):
            chart(page, name)
        page.screenshot(path=directory / "mlflow_curves.png")
    with open_tab(browser, f"{experiment}/runs/{forest_run}/{REPORT}", VIEWER) as (page, _):
        viewed(page)
        page.screenshot(path=directory / "mlflow_report.png")
    assert all(picture.stat().st_size < 200_000 for picture in directory.glob("mlflow_*.png"))


def chart(page: Any, metric: str) -> Any:
    """The plot of a metric among MLflow's charts, drawn."""
    cards = page.get_by_test_id("experiment-view-compare-runs-card")
    card = cards.filter(has=page.get_by_text(metric, exact=True))
    card.locator(LINE).first.wait_for()
    plot = card.locator(".js-plotly-plot")
    page.wait_for_function(BOTH_RUNS, arg=plot.element_handle())
    return plot


def viewed(page: Any) -> Any:
    """The report inside MLflow's artifact viewer, drawn."""
    frame = page.locator(VIEWER).element_handle().content_frame()
    frame.locator("svg:visible").last.wait_for()
    return frame
