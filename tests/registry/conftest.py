"""The stores that the tests of tracking use."""

from __future__ import annotations

from tests.tracking.conftest import embedded, embedded_uri, experiment, log, served, server_uri

__all__ = ["embedded", "embedded_uri", "experiment", "log", "served", "server_uri"]
