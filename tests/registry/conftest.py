"""The stores that the tests of tracking use."""

from __future__ import annotations

from tests.tracking.conftest import autologging, embedded, experiment, log, served

__all__ = ["autologging", "embedded", "experiment", "log", "served"]
