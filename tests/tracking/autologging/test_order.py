"""One report for each fit, in the run that MLflow's autologging uses, whichever was enabled first."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import mlflow
import pytest
from mlflow.entities import Run

from ens_plugin import autolog
from tests.extras import INSTALL
from tests.tracking.fits import FITS, new_experiment, repeated, top_runs
from tests.tracking.stores import MLFLOW_WARNINGS

pytestmark = [MLFLOW_WARNINGS, pytest.mark.usefixtures("autologging", "canned_report")]

Step = Callable[[], object]
Way = Callable[[str, mlflow.MlflowClient], Run]


def ours() -> None:
    autolog(log_artifacts=False, max_overhead=1e3)


def ours_off() -> None:
    autolog(disable=True)


def everything() -> None:
    mlflow.autolog(log_models=False)


def sklearns() -> None:
    mlflow.sklearn.autolog(log_models=False)


def sklearns_off() -> None:
    mlflow.sklearn.autolog(disable=True)


def xgboosts() -> None:
    pytest.importorskip("xgboost", reason=f"needs xgboost: {INSTALL['xgboost']}")
    mlflow.xgboost.autolog(log_models=False)


def lightgbms() -> None:
    pytest.importorskip("lightgbm", reason=f"needs lightgbm: {INSTALL['lightgbm']}")
    mlflow.lightgbm.autolog(log_models=False)


ORDERS: dict[str, tuple[Step, ...]] = {
    "ours twice": (ours, ours),
    "ours, sklearn": (ours, sklearns),
    "sklearn, ours": (sklearns, ours),
    "sklearn, ours, sklearn": (sklearns, ours, sklearns),
    "ours, sklearn, ours": (ours, sklearns, ours),
    "ours, everything": (ours, everything),
    "everything, ours": (everything, ours),
    "ours, sklearn, sklearn off": (ours, sklearns, sklearns_off),
    "sklearn, ours, sklearn off": (sklearns, ours, sklearns_off),
    "ours, xgboost, lightgbm": (ours, xgboosts, lightgbms),
    "xgboost, lightgbm, ours": (xgboosts, lightgbms, ours),
}
# Processes take seconds to start, and know nothing of orders.
QUICK_FITS = [name for name in FITS if name != "search in processes"]


@pytest.fixture(autouse=True)
def quick_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """MLflow's autologging draws importances of features."""
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda figure, path, **options: Path(path).touch())


def fit_alone(name: str, client: mlflow.MlflowClient) -> Run:
    """Fit outside any run; return the one run that there is then."""
    with new_experiment(client) as experiment:
        FITS[name]()
        (run,) = top_runs(client, experiment)
        return run


def fit_in_a_run(name: str, client: mlflow.MlflowClient) -> Run:
    """Fit inside a run of the user's, which stays open; return the one run that there is then."""
    with new_experiment(client) as experiment:
        with mlflow.start_run() as mine:
            FITS[name]()
            active = mlflow.active_run()
            assert active is not None
            assert active.info.run_id == mine.info.run_id
        (run,) = top_runs(client, experiment)
        assert run.info.run_id == mine.info.run_id
        return run


def mlflow_logs_forests(order: str) -> bool:
    return not {"sklearn", "everything"}.isdisjoint(order.split(", ")) and "sklearn off" not in order


def check_one_report(client: mlflow.MlflowClient, run: Run) -> None:
    names = {name.partition("/")[0].partition(".")[0] for name in run.data.metrics if name.startswith("ens")}
    assert names == {"ens"}
    assert not repeated(client, run)


@pytest.mark.parametrize(
    ("order", "fits"),
    [("sklearn, ours", QUICK_FITS[::2]), ("ours, sklearn", ["forest", *QUICK_FITS[1::2]])],
    ids=["sklearn, ours", "ours, sklearn"],
)
def test_each_fit_has_one_report_in_its_own_run_or_the_users(
    order: str, fits: list[str], embedded: mlflow.MlflowClient, canned_report: list[Any]
) -> None:
    check_each_fit(order, fits, [fit_alone, fit_in_a_run], embedded, canned_report)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(("turn", "order"), list(enumerate(ORDERS)), ids=list(ORDERS))
def test_each_fit_in_each_order(turn: int, order: str, embedded: mlflow.MlflowClient, canned_report: list[Any]) -> None:
    """Each fit is made alone in every other order, and in a run of the user's in the rest."""
    ways = [fit_alone, fit_in_a_run][:: (-1) ** turn]
    check_each_fit(order, list(FITS), ways, embedded, canned_report)


def check_each_fit(
    order: str, fits: list[str], ways: list[Way], client: mlflow.MlflowClient, reports: list[Any]
) -> None:
    """Make the fits in turn in each of the ways, and compare what is logged."""
    for step in ORDERS[order]:
        step()
    for number, (name, way) in enumerate(zip(fits, cycle(ways), strict=False), start=1):
        run = way(name, client)
        check_one_report(client, run)
        assert len(reports) == number, name
        if name == "forest":
            assert ("max_depth" in run.data.params) == mlflow_logs_forests(order)


@pytest.mark.slow
def test_worker_processes_report_nothing(embedded: mlflow.MlflowClient, canned_report: list[Any]) -> None:
    ours()
    check_one_report(embedded, fit_alone("search in processes", embedded))
    assert len(canned_report) == 1


@pytest.mark.slow
@pytest.mark.parametrize("order", ["ours, sklearn", "sklearn, ours"])
def test_where_mlflow_lets_a_fit_pass_ours_does_not(order: str, embedded: mlflow.MlflowClient) -> None:
    for step in ORDERS[order]:
        step()
    mlflow.sklearn.autolog(log_models=False, exclusive=True)
    if order.endswith("ours"):
        ours()
    run = fit_in_a_run("forest", embedded)
    check_one_report(embedded, run)
    assert not run.data.params, "MLflow logged its own things"


@pytest.mark.fast_cases("ours, everything, off")
@pytest.mark.parametrize("order", ["ours, everything, off", "everything, ours, off"])
def test_once_disabled_mlflow_goes_on_alone(order: str, embedded: mlflow.MlflowClient) -> None:
    for name in order.split(", "):
        {"ours": ours, "everything": everything, "off": ours_off}[name]()
    for way in (fit_alone, fit_in_a_run):
        run = way("pipeline", embedded)
        assert run.data.params
        assert "ens.accuracy" not in run.data.metrics
