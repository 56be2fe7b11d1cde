"""The stores that the tests of tracking use."""

from __future__ import annotations

from tests.tracking.conftest import autologging, embedded, embedded_uri, experiment, log, served, server_uri

__all__ = ["autologging", "embedded", "embedded_uri", "experiment", "log", "served", "server_uri"]
