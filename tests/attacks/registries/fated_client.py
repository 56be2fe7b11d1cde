"""A client whose gate may die at any call, and whose registry may not answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import mlflow

__all__ = ["BASES", "NAME", "OWN", "PLAIN", "Crash", "Fate", "FatedClient"]

NAME = "churn"
WRITES = ("set_model_version_tag", "delete_model_version_tag", "set_registered_model_tag",
          "delete_registered_model_tag", "set_registered_model_alias", "update_model_version", "log_text")  # fmt: skip
READS = ("get_model_version", "get_registered_model", "get_run", "get_logged_model", "list_artifacts",
         "download_artifacts", "get_model_version_download_uri")  # fmt: skip


# What no round changes but those that mislead; half of the time goes into asking for it.
UNCHANGING = ("get_run", "get_logged_model", "list_artifacts")
REMEMBERED: dict[tuple[str, str], Any] = {}


class Crash(BaseException):
    """Stands for the death of a process: nothing after it is carried out."""


@dataclass
class Fate:
    """What happens to the calls of one gate, and what it moved."""

    plan: Callable[[int, str], str | None] = lambda number, method: None
    calls: int = 0
    dead: bool = False
    moves: list[tuple[str | None, str]] = field(default_factory=list)
    others: Callable[[], None] | None = None
    remembers: bool = True


PLAIN = mlflow.MlflowClient
# Bases of a fated client: MLflow's own client, or one in memory.
BASES: list[type[mlflow.MlflowClient]] = [PLAIN]
OWN = threading.local()
MOVING = threading.Lock()


class FatedClient(PLAIN):
    """A client whose gate may die, and whose registry may not answer."""


def _fated(method: str) -> Callable[..., Any]:
    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        original = getattr(BASES[-1], method)
        fate: Fate | None = getattr(OWN, "fate", None)
        if fate is None:
            return original(self, *arguments, **named)
        key = (method, repr(arguments))
        fault = "crash" if fate.dead else fate.plan(fate.calls, method)
        fate.calls += 1
        if fault == "crash":
            fate.dead = True
            raise Crash
        if fault == "drop":
            raise mlflow.exceptions.MlflowException("the connection was reset")
        if method == "set_registered_model_alias":
            found = _moved(self, fate, original, arguments)
        elif fate.remembers and key in REMEMBERED:
            found = REMEMBERED[key]
        else:
            found = original(self, *arguments, **named)
        if method in UNCHANGING and fate.remembers:
            REMEMBERED[key] = found
        if fault == "lost":
            raise mlflow.exceptions.MlflowException("the answer never came")
        return found

    return call


def _moved(client: Any, fate: Fate, original: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """Move the alias and take note of where it was, in one step."""
    with MOVING:
        before = BASES[-1].get_registered_model(client, NAME).aliases.get("champion")
        found = original(client, *arguments)
        fate.moves.append((None if before is None else str(before), str(arguments[2])))
    if fate.others is not None:
        fate.others()
    return found


for _method in WRITES + READS:
    setattr(FatedClient, _method, _fated(_method))
