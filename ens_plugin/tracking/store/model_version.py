"""Registered versions of models: their URIs and aliases, and their entries in the registry."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ens_plugin.errors import GateError, InputError
from ens_plugin.report.text import printable
from ens_plugin.tracking.store.connection import without_secrets

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

__all__ = [
    "ADDRESS",
    "RegisteredVersion",
    "VersionAddress",
    "alias_holder",
    "baseline_address",
    "check_alias",
    "find_version",
    "is_unchanged",
    "parse_address",
]

ADDRESS = re.compile(r"models:/(?P<name>[^/]+)(/(?P<version>[1-9][0-9]*)|@(?P<alias>[\w-]+))")
ALIAS = re.compile(r"(?!(latest|v\d+)$)[\w-]{1,255}", re.IGNORECASE)
LOGGED_MODEL = re.compile(r"models:/(?P<id>m-[^/@]+)/?")
READY = "READY"


@dataclass(frozen=True)
class VersionAddress:
    """The parts of a ``models:/`` URI: a registered model, and a version or an alias of it."""

    name: str
    version: str | None
    alias: str | None

    def __str__(self) -> str:
        return f"models:/{self.name}@{self.alias}" if self.version is None else f"models:/{self.name}/{self.version}"


@dataclass(frozen=True)
class RegisteredVersion:
    """One version of a registered model.

    Attributes
    ----------
    name : str
    version : str
    run_id : str or None
        Run that the model was registered from.
    model_id : str or None
        LoggedModel behind the version; None for models logged before MLflow 3.
    source : str or None
        Location of its files, as given by whoever registered the version; MLflow does not check it.
    created : int or None
        Time of its registration, in ms since 1970, by the registry's clock.
    """

    name: str
    version: str
    run_id: str | None
    model_id: str | None
    source: str | None = None
    created: int | None = None

    @property
    def uri(self) -> str:
        """URI of this version by its number, independent of aliases."""
        return f"models:/{self.name}/{self.version}"


def parse_address(uri: str) -> VersionAddress:
    """Return the parts of the URI of a registered version.

    Raises
    ------
    InputError
        If `uri` is neither ``models:/<name>/<version>`` nor ``models:/<name>@<alias>``.

    Examples
    --------
    >>> parse_address("models:/churn@champion")
    VersionAddress(name='churn', version=None, alias='champion')
    """
    found = ADDRESS.fullmatch(uri) if isinstance(uri, str) else None
    if found is None:
        shown = without_secrets(uri) if isinstance(uri, str) else uri
        raise InputError(
            f"{printable(repr(shown), 120)} is not the URI of a registered version. Pass "
            "'models:/<name>/<version>' or 'models:/<name>@<alias>'. "
            "Register a model that has no version yet with mlflow.register_model."
        )
    return VersionAddress(found["name"], found["version"], found["alias"])


def baseline_address(baseline: str, name: str) -> VersionAddress:
    """Return the address of the baseline of the model `name`, from a version's URI or an alias of the same model.

    Raises
    ------
    InputError
        If `baseline` is neither a version's URI nor an alias.

    Examples
    --------
    >>> str(baseline_address("champion", "churn")), str(baseline_address("models:/old/3", "churn"))
    ('models:/churn@champion', 'models:/old/3')
    """
    if isinstance(baseline, str) and ALIAS.fullmatch(baseline):
        return VersionAddress(name, None, baseline)
    return parse_address(baseline)


def check_alias(alias: str, argument: str) -> None:
    """Raise InputError for a name that MLflow does not accept as an alias, before anything is decided.

    Parameters
    ----------
    alias : str
    argument : str
        Name of the argument in the message.

    Raises
    ------
    InputError

    Examples
    --------
    >>> check_alias("champion", "promote")
    """
    if not isinstance(alias, str) or not ALIAS.fullmatch(alias):
        raise InputError(
            f"{argument}={printable(repr(alias), 120)} cannot be an alias. Use letters, digits, '_' and '-', "
            "but neither 'latest' nor 'v' with a number: 'champion' for example."
        )


def find_version(client: MlflowClient, address: VersionAddress) -> RegisteredVersion:
    """Return a version from the registry; an alias is resolved once, to the version that it points at now.

    Raises
    ------
    GateError
        If the alias has no version, or the version's registration has not succeeded.
    MlflowException
        If there is no such model or version, or the registry refuses.
    """
    version = address.version
    if version is None:
        version = alias_holder(client, address)
        if version is None:
            raise GateError(
                f"No version of {printable(address.name, 80)} has the alias {address.alias!r}. Set it first."
            )
    found = client.get_model_version(address.name, version)
    if str(found.status) != READY:
        raise GateError(
            f"Version {version} of {printable(address.name, 80)} is not ready (its status is {found.status}). "
            "Wait until it is registered, or register it again."
        )
    return _registered(address.name, str(version), found)


def is_unchanged(client: MlflowClient, version: RegisteredVersion) -> bool:
    """Return whether a version is still the one that was found: its number is used again for a model made anew.

    Raises
    ------
    MlflowException
        If there is no such version any more, or the registry refuses.
    """
    return (
        _registered(version.name, version.version, client.get_model_version(version.name, version.version)) == version
    )


def _registered(name: str, version: str, found: ModelVersion) -> RegisteredVersion:
    created = found.creation_timestamp
    return RegisteredVersion(
        name,
        version,
        found.run_id or None,
        _model_id(found.source),
        found.source,
        None if created is None else int(created),
    )


def alias_holder(client: MlflowClient, address: VersionAddress) -> str | None:
    """Return the version that the alias of `address` points at now; None if the alias does not exist.

    Raises
    ------
    MlflowException
        If there is no such model, or the registry refuses.
    """
    aliases = client.get_registered_model(address.name).aliases
    held = aliases.get(address.alias)
    return None if held is None else str(held)


def _model_id(source: str | None) -> str | None:
    # The version's own model_id is empty in MLflow's open-source registry.
    found = LOGGED_MODEL.fullmatch(source or "")
    return None if found is None else found["id"]
