"""Reports, policies and registered versions that the tests of the gate share."""

from __future__ import annotations

import mlflow

from tests.registry.registry import report_with_error

REPORT = report_with_error(1.0)
UPPER = REPORT.error_interval[1]
LOOSE = {"report": {"error_upper": {"max": UPPER}, "agreement": {"min": 0.99}}}
STRICT = {"report": {"error_upper": {"max": UPPER / 2}, "agreement": {"min": 0.99}}}
NO_WORSE = {"baseline": {"no_worse": True}}

Client = mlflow.MlflowClient


def holder(client: Client, name: str, alias: str = "champion") -> str | None:
    held = client.get_registered_model(name).aliases.get(alias)
    return None if held is None else str(held)
