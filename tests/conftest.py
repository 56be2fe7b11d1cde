"""Settings every test relies on: no display, no outside MLflow, reproducible examples."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

# A developer's own tracking server or run must never receive what the tests log.
for name in [name for name in os.environ if name.startswith("MLFLOW_")]:
    del os.environ[name]
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ["MPLBACKEND"] = "Agg"

# Shared machines make deadlines a matter of luck; a fixed sequence makes a failure one that can be repeated.
settings.register_profile("ens_plugin", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ens_plugin")


@pytest.fixture(autouse=True)
def _experiment_of_one_test() -> Iterator[None]:
    """`mlflow.set_experiment` sets a variable for child processes, which must not meet another test's experiment."""
    yield
    os.environ.pop("MLFLOW_EXPERIMENT_ID", None)
