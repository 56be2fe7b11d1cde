"""A plain, quick logging of models, and names of their own."""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.registry.registry import stub_artifacts


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    stub_artifacts(monkeypatch)
    monkeypatch.setenv("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time little: the costs have tests of their own."""
    monkeypatch.setattr("ens_plugin.sizing.budget.REQUESTS", 2)
    monkeypatch.setattr("ens_plugin.sizing.budget.BATCHES", 2)


@pytest.fixture
def name() -> str:
    return f"churn {uuid4().hex[:8]}"
