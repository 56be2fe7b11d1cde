"""Reports of other models than the stored one lead to no verdict, honest ones to a verdict."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("lightgbm")
pytest.importorskip("xgboost")
pytest.importorskip("sklearn.frozen", reason="FrozenEstimator is new in scikit-learn 1.6")

from tests.attacks.links import ARRANGED, HONEST, STORED, attack, named, store
from tests.tracking.conftest import autologging
from tests.tracking.stores import MLFLOW_WARNINGS

__all__ = ["autologging"]

pytestmark = [MLFLOW_WARNINGS, pytest.mark.slow, pytest.mark.long, pytest.mark.usefixtures("database", "autologging")]


@pytest.fixture(scope="module")
def database() -> Iterator[None]:
    with store("SQLite"):
        yield


# Each of these is tried in one of its ways, in turn; `benchmarks/checks/links.py` tries all of them.
STORED_IN_TURN = [f"{name}, {named(ways[place % len(ways)])}" for place, (name, (_, ways)) in enumerate(STORED.items())]


@pytest.mark.parametrize("kind", [*STORED_IN_TURN, *map(named, ARRANGED)])
def test_there_is_no_verdict_on_what_was_not_analysed(kind: str) -> None:
    assert attack(kind).outcome in ("no verdict", "refused")


@pytest.mark.parametrize("kind", list(HONEST)[::4])
def test_there_is_one_on_what_was_analysed(kind: str) -> None:
    trial = attack(kind)
    assert trial.outcome == "verdict", trial.words
