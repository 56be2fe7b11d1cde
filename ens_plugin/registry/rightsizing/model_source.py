"""The logged model that is to be cut, found by its URI."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ens_plugin.adapters.library import Flavor, Storable
from ens_plugin.adapters.registry import libraries
from ens_plugin.errors import InputError, ModelLoadError, UnsupportedModelError
from ens_plugin.report.text import printable
from ens_plugin.tracking.measurement import recorded_digest
from ens_plugin.tracking.store.connection import check_server, tracking_errors, without_secrets
from ens_plugin.tracking.store.model_version import VersionAddress, find_version, parse_address

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.models import Model

__all__ = ["ModelSource", "find_source"]

WITHOUT_VERSION = re.compile(r"models:/m-[^/@]+|runs:/[^/]+/.+")


@dataclass(frozen=True)
class ModelSource:
    """A model that was logged to MLflow, as the tracking store and the registry describe it.

    Attributes
    ----------
    uri : str
        URI of the model; an alias is replaced by the version that it pointed at.
    name, version : str or None
        Name and version in the registry; None where the URI names no registered version.
    model_id : str or None
        LoggedModel; None for models logged before MLflow 3.
    model_name : str
        Name of the LoggedModel.
    experiment_id : str
        Experiment that it was logged to.
    flavor : Flavor
    data_digest : str or None
        Digest of the training rows that autolog recorded.
    """

    uri: str
    name: str | None
    version: str | None
    model_id: str | None
    model_name: str
    experiment_id: str
    flavor: Flavor
    data_digest: str | None


def find_source(uri: str) -> ModelSource:
    """Return the entries of the tracking store and the registry on the model of a URI, without loading it.

    Parameters
    ----------
    uri : str
        ``models:/<name>/<version>``, ``models:/<name>@<alias>``, ``models:/m-...`` or ``runs:/<run>/<path>``.

    Returns
    -------
    ModelSource

    Raises
    ------
    InputError
        If `uri` is not the URI of a model in MLflow.
    GateError
        If the alias has no version, or the version is not ready.
    ModelLoadError
        If MLflow finds no model there.
    UnsupportedModelError
        If the model was logged with a flavour that is not known.
    TrackingError
        If the store or the registry cannot be reached or refuses.

    Examples
    --------
    >>> find_source("forest.joblib")
    Traceback (most recent call last):
        ...
    ens_plugin.errors.InputError: 'forest.joblib' is not a model in MLflow, ...
    """
    if not isinstance(uri, str):
        raise InputError(
            f"{printable(repr(uri), 120)} is not the URI of a model in MLflow. Pass a URI such as "
            "'models:/<name>/<version>' or 'runs:/<run id>/<path>'. ens_plugin.truncate cuts a model in memory."
        )
    address = None if WITHOUT_VERSION.fullmatch(uri) else _address(uri)
    import mlflow

    store = mlflow.get_tracking_uri()
    check_server(store)
    with tracking_errors(store):
        client = mlflow.MlflowClient()
        if address is None:
            return _described(client, uri, None, None)
        version = find_version(client, address)
        return _described(client, version.uri, version.name, version.version)


def _address(uri: str) -> VersionAddress:
    if uri.startswith("models:/"):
        return parse_address(uri)
    raise InputError(
        f"{printable(repr(without_secrets(uri)), 120)} is not a model in MLflow, so there is no experiment to log "
        "the smaller one to. Pass 'models:/<name>/<version>', 'models:/<name>@<alias>', 'models:/m-...' or "
        "'runs:/<run id>/<path>'. Cut a model from a file with ens_plugin.truncate."
    )


def _described(client: MlflowClient, uri: str, name: str | None, version: str | None) -> ModelSource:
    document = _document(uri)
    model_id = document.model_id
    if model_id is None:
        model_name, experiment_id = "model", _experiment_of_run(client, document.run_id, uri)
        digest = recorded_digest(client, None, document.run_id)
    else:
        logged = client.get_logged_model(model_id)
        model_name, experiment_id = str(logged.name), str(logged.experiment_id)
        # The run of the model may have been deleted.
        digest = recorded_digest(client, model_id, None)
    return ModelSource(uri, name, version, model_id, model_name, experiment_id, _flavor(document, uri), digest)


def _document(uri: str) -> Model:
    import mlflow
    from mlflow.exceptions import MlflowException

    try:
        return mlflow.models.Model.load(uri)
    except (MlflowException, OSError) as error:
        raise ModelLoadError(
            f"MLflow found no model at {printable(uri, 120)}: {printable(without_secrets(str(error)), 300)}. "
            "Check the name, version or run id, and that the tracking URI is the one the model was logged to."
        ) from error


def _experiment_of_run(client: MlflowClient, run_id: str | None, uri: str) -> str:
    if run_id is None:
        raise InputError(
            f"{printable(uri, 120)} was registered without a run, so there is no experiment to log the smaller model "
            "to. Log the model to a run first, with mlflow.sklearn.log_model for example."
        )
    return str(client.get_run(run_id).info.experiment_id)


def _flavor(document: Model, uri: str) -> Flavor:
    # Of two flavours with one name, the built-in one is used, which is the last.
    known = {library.flavor.name: library.flavor for library in libraries(Storable) if library.flavor is not None}
    for name in known:
        if name in document.flavors:
            return known[name]
    *names, last = known
    raise UnsupportedModelError(
        f"{printable(uri, 120)} was logged as {printable(', '.join(document.flavors), 120)}, but a smaller model "
        f"can be logged only as {', '.join(names)} or {last}. Cut it with ens_plugin.truncate."
    )
