"""Registered models and versions for the tests of the gate."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

import pytest

from tests.registry.gating.gates import Client
from tests.registry.registry import Version, register, report_with_error, stub_artifacts


@pytest.fixture
def swift(monkeypatch: pytest.MonkeyPatch) -> None:
    stub_artifacts(monkeypatch)


@pytest.fixture
def name() -> str:
    """A registered model of the test's own, in the database that all tests share."""
    return f"churn-{uuid4().hex[:8]}"


@pytest.fixture(scope="session")
def registered() -> dict[float, Version]:
    return {}


@pytest.fixture
def shared(embedded: Client, registered: dict[float, Version], swift: None) -> Callable[[float], Version]:
    """Versions by the scale of their error, each registered once for all tests; the first is a model's version 1."""

    def version(scale: float) -> Version:
        if scale not in registered:
            registered[scale] = register(embedded, f"shared-{scale}", report_with_error(scale))
        return registered[scale]

    return version
