"""A registry in memory: each call is one step, as in a database, and the next one may be anybody's."""

from __future__ import annotations

import copy
import random
import threading
import time
from types import SimpleNamespace
from typing import Any

import mlflow

__all__ = ["MemoryClient"]

LOCK = threading.Lock()
MODELS: dict[str, SimpleNamespace] = {}
VERSIONS: dict[tuple[str, str], SimpleNamespace] = {}
LONGEST_PAUSE_S = 0.002


def _pause() -> None:
    time.sleep(random.uniform(0, LONGEST_PAUSE_S))


class MemoryClient(mlflow.MlflowClient):
    """MLflow's client, with the registry's part answered from memory once :meth:`remember` has read it."""

    @classmethod
    def remember(cls, name: str) -> None:
        """Read a registered model and its versions from the store."""
        plain = mlflow.MlflowClient()
        found = plain.get_registered_model(name)
        MODELS[name] = SimpleNamespace(name=name, tags=dict(found.tags), aliases=dict(found.aliases))
        for version in plain.search_model_versions(f"name = '{name}'"):
            one = plain.get_model_version(name, version.version)
            VERSIONS[name, str(one.version)] = SimpleNamespace(
                name=name, version=str(one.version), status=one.status, run_id=one.run_id, source=one.source,
                creation_timestamp=one.creation_timestamp, description=one.description, tags=dict(one.tags),
            )  # fmt: skip

    @classmethod
    def reset(cls, name: str, champion: str) -> None:
        """Leave no tag, and the alias where it was."""
        with LOCK:
            MODELS[name].tags.clear()
            MODELS[name].aliases["champion"] = champion
            for (model, _), version in VERSIONS.items():
                if model == name:
                    version.tags.clear()
                    version.description = None

    def get_registered_model(self, name: str) -> Any:
        _pause()
        with LOCK:
            return copy.deepcopy(MODELS[name])

    def get_model_version(self, name: str, version: str) -> Any:
        _pause()
        with LOCK:
            return copy.deepcopy(VERSIONS[name, str(version)])

    def get_model_version_download_uri(self, name: str, version: str) -> str:
        return str(VERSIONS[name, str(version)].source)

    def update_model_version(self, name: str, version: str, description: str | None = None) -> None:
        _pause()
        with LOCK:
            VERSIONS[name, str(version)].description = description

    def set_registered_model_tag(self, name: str, key: str, value: Any) -> None:
        _pause()
        with LOCK:
            MODELS[name].tags[key] = value

    def delete_registered_model_tag(self, name: str, key: str) -> None:
        _pause()
        with LOCK:
            MODELS[name].tags.pop(key, None)

    def set_registered_model_alias(self, name: str, alias: str, version: str) -> None:
        _pause()
        with LOCK:
            MODELS[name].aliases[alias] = str(version)

    def set_model_version_tag(self, name: str, version: Any = None, key: Any = None, value: Any = None,
                              stage: Any = None) -> None:  # fmt: skip
        _pause()
        with LOCK:
            VERSIONS[name, str(version)].tags[key] = value

    def delete_model_version_tag(self, name: str, version: Any = None, key: Any = None, stage: Any = None) -> None:
        _pause()
        with LOCK:
            VERSIONS[name, str(version)].tags.pop(key, None)
