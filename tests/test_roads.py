"""Each road of ``roads.csv`` ends as the table says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import mlflow
import pytest

from ens_plugin.tracking.uploads import wait_until_sent
from tests.registry.registry import stub_artifacts
from tests.roads import DOORS, FITS, ROADS, STEPS, Road, walk
from tests.tracking.conftest import autologging
from tests.tracking.stores import MLFLOW_WARNINGS, embedded_store, tracking_to

__all__ = ["autologging"]

pytestmark = [MLFLOW_WARNINGS, pytest.mark.usefixtures("swift", "store", "autologging")]


@pytest.fixture
def swift(monkeypatch: pytest.MonkeyPatch) -> None:
    stub_artifacts(monkeypatch)
    stub_artifacts(monkeypatch, "uploads")
    # MLflow loads each model that its autologging logs in a process of its own to see what it needs.
    monkeypatch.setattr("mlflow.models.infer_pip_requirements", lambda *arguments, **options: [])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[None]:
    with tracking_to(embedded_store(tmp_path)):
        mlflow.set_experiment("tests")
        yield
        assert wait_until_sent(60), "reports are still being sent"


SLOW = {"slow": (pytest.mark.slow, pytest.mark.long), "fast": ()}


@pytest.mark.parametrize("road", [pytest.param(one, id=one.road, marks=SLOW[one.speed]) for one in ROADS])
def test_a_road_ends_as_the_table_says(road: Road, tmp_path: Path) -> None:
    found = walk(road, tmp_path)
    assert road.is_walked(found), f"{road.road}: {found}"


def test_the_table_names_what_there_is() -> None:
    assert len({road.road for road in ROADS}) == len(ROADS) >= 40
    assert {step for road in ROADS for step in road.steps.split("; ")} == set(STEPS)
    assert {road.door for road in ROADS} == set(DOORS)
    assert {road.library for road in ROADS} == set(FITS)
