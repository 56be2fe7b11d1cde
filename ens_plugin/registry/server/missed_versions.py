"""The versions that were registered while no gate server listened."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ens_plugin.registry.gating.verdict import VERDICT_TAG
from ens_plugin.tracking.store.model_version import VersionAddress

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

__all__ = ["missed_versions"]

PAGE = 1000


def missed_versions(client: MlflowClient, on_alias: str | None) -> list[VersionAddress]:
    """Return the versions that a server would have judged while it was down, in the order of their registration.

    A version counts as missed if it was registered after the newest version of its model that has a verdict.  An older
    one is left alone, because its promotion would move an alias back.  Of a model without any verdict, the versions
    count that were registered after the newest version of the whole registry that has one; before the first verdict,
    nothing was missed.

    Parameters
    ----------
    client : MlflowClient
    on_alias : str or None
        The versions that have this alias and no verdict count too.

    Returns
    -------
    list of VersionAddress

    Raises
    ------
    MlflowException
        If the registry refuses.
    """
    versions = sorted(_all(client.search_model_versions), key=_age)
    holders = set() if on_alias is None else _holders(client, on_alias)
    judged: dict[str, tuple[int, int]] = {}
    for version in versions:
        if VERDICT_TAG in version.tags:
            judged[version.name] = _age(version)
    newest = max(judged.values(), default=(math.inf, 0))
    return [
        VersionAddress(version.name, str(version.version), None)
        for version in versions
        if VERDICT_TAG not in version.tags
        and (_age(version) > judged.get(version.name, newest) or (version.name, str(version.version)) in holders)
    ]


def _age(version: ModelVersion) -> tuple[int, int]:
    """Return what orders versions by their registration; the number decides between those of one millisecond."""
    return int(version.creation_timestamp), int(version.version)


def _holders(client: MlflowClient, alias: str) -> set[tuple[str, str]]:
    """Return name and number of each version that has an alias, which a search for versions does not return."""
    return {
        (model.name, str(model.aliases[alias]))
        for model in _all(client.search_registered_models)
        if alias in model.aliases
    }


def _all(search: Callable[..., Any]) -> Iterator[Any]:
    """Yield what a search of the registry finds, from all of its pages."""
    token = None
    while True:
        page = search(max_results=PAGE, page_token=token)
        yield from page
        token = page.token
        if not token:
            return
