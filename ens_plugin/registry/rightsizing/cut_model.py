"""Logging and registration of a model that was cut to fewer members."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

from ens_plugin.errors import ModelLoadError, TrackingError
from ens_plugin.registry.rightsizing.model_source import ModelSource
from ens_plugin.report.result import EnsembleReport
from ens_plugin.report.text import printable
from ens_plugin.sizing.predictions import first_rows, predict_alike
from ens_plugin.tracking.logging.report_log import log_report
from ens_plugin.tracking.store.connection import check_server, tracking_errors
from ens_plugin.tracking.store.data_digest import DIGEST_TAG
from ens_plugin.tracking.store.mlflow_chatter import no_progress_bars
from ens_plugin.tracking.store.models import load_model

if TYPE_CHECKING:
    from mlflow import MlflowClient

__all__ = ["LoggedCut", "log_cut_model", "register_cut_model"]

COMPARED_ROWS = 100
LOGGER = logging.getLogger("ens_plugin.rightsize")
NAME_LIMIT = 300


class LoggedCut(NamedTuple):
    """Run, LoggedModel and registered version of a model that was cut to fewer members.

    Attributes
    ----------
    run_id, model_id : str
    name, version : str or None
        Name and version in the registry; None where nothing was registered.
    """

    run_id: str
    model_id: str
    name: str | None = None
    version: str | None = None

    @property
    def uri(self) -> str:
        """URI of the LoggedModel."""
        return f"models:/{self.model_id}"

    def sentences(self, to_register: str) -> list[str]:
        """Return sentences on where the model is logged and which version it is, or how `to_register` makes it one."""
        logged = f"Logged as {self.uri}, by run {self.run_id}."
        if self.version is None:
            return [logged, f"Not registered; use {to_register} to make it a version of a registered model."]
        name = printable(str(self.name), NAME_LIMIT)
        return [logged, f"Registered as version {self.version} of {name}; no alias was moved."]


def log_cut_model(
    source: ModelSource,
    cut: Any,
    X: Any,
    report: EnsembleReport,
    metrics: Mapping[str, float],
    tags: Mapping[str, str],
) -> LoggedCut:
    """Log a model cut from `source` to a new run in the same experiment, with its report, and load it back.

    Flavour, signature, requirements, metadata, code and the digest of the training rows are those of the source.

    Parameters
    ----------
    source : ModelSource
    cut : fitted model
    X : array-like, shape (n_rows, n_features)
        Rows; on the first 100 the model that is loaded back must predict the same, up to rounding.
    report : EnsembleReport
        Report on `cut`.
    metrics, tags : mapping
        For the run and the LoggedModel.

    Returns
    -------
    LoggedCut

    Raises
    ------
    ModelLoadError
        If the logged model does not load, or its predictions differ; its LoggedModel and run are then FAILED.
    TrackingError
        If the store cannot be reached or refuses.
    """
    import mlflow

    store = mlflow.get_tracking_uri()
    check_server(store)
    with tracking_errors(store), no_progress_bars(), TemporaryDirectory(prefix="ens_plugin-") as directory:
        client = mlflow.MlflowClient()
        options = _options_of_source(source, directory)
        with _new_run(client, source, tags) as run_id:
            model_id = _log(client, source, cut, run_id, tags, options)
            client.log_batch(run_id, metrics=_linked(metrics, model_id))
            log_report(report, run_id=run_id, model_id=model_id)
            _check_loads(client, model_id, cut, first_rows(X, COMPARED_ROWS))
    return LoggedCut(run_id, model_id)


def register_cut_model(logged: LoggedCut, name: str, tags: Mapping[str, str], description: str) -> LoggedCut:
    """Register a logged model as a new version of `name` with a description; no alias moves.

    Raises
    ------
    TrackingError
        If the registry cannot be reached or refuses; the message has the URI of the logged model.
    """
    import mlflow

    try:
        with tracking_errors(mlflow.get_registry_uri()):
            version = mlflow.register_model(logged.uri, name, tags=dict(tags)).version
    except TrackingError as error:
        raise TrackingError(
            f"{error} The smaller model itself is logged and checked, as {logged.uri}. Register it with "
            "mlflow.register_model."
        ) from error
    _describe(name, str(version), description)
    return logged._replace(name=name, version=str(version))


def _describe(name: str, version: str, description: str) -> None:
    """Write the description of a version; the version is registered and stays so where that fails."""
    import mlflow

    try:
        with tracking_errors(mlflow.get_registry_uri()):
            mlflow.MlflowClient().update_model_version(name, version, description)
    except TrackingError as error:
        LOGGER.warning("Version %s of %s is registered, without a description: %s", version, printable(name, 80), error)


def _options_of_source(source: ModelSource, directory: str) -> dict[str, Any]:
    """Return the arguments of `log_model` by which a smaller model gets the properties of its source."""
    import mlflow

    folder = Path(mlflow.artifacts.download_artifacts(artifact_uri=source.uri, dst_path=directory))
    document = mlflow.models.Model.load(str(folder))
    flavor = document.flavors[source.flavor.name]
    requirements = folder / "requirements.txt"
    code = sorted(str(path) for path in (folder / flavor["code"]).iterdir()) if flavor.get("code") else None
    options = {
        "signature": document.signature,
        "metadata": document.metadata,
        "pip_requirements": str(requirements) if requirements.is_file() else None,
        "code_paths": code,
        **source.flavor.options(document.flavors),
    }
    stored = ("serialization_format", "skops_trusted_types", "model_format")
    return {**options, **{name: flavor[name] for name in stored if flavor.get(name)}}


@contextmanager
def _new_run(client: MlflowClient, source: ModelSource, tags: Mapping[str, str]) -> Iterator[str]:
    """Yield the id of a new run, without a change of the active run and experiment."""
    from mlflow.entities import LoggedModelInput
    from mlflow.exceptions import MlflowException

    run_id = str(client.create_run(source.experiment_id, tags=dict(tags), run_name="rightsize").info.run_id)
    try:
        if source.model_id is not None:
            client.log_inputs(run_id, models=[LoggedModelInput(source.model_id)])
        yield run_id
    except BaseException:
        # Where the server is down, marking the run fails too; the first error is the one to raise.
        with suppress(MlflowException, OSError):
            client.set_terminated(run_id, "FAILED")
        raise
    client.set_terminated(run_id, "FINISHED")


def _log(
    client: MlflowClient,
    source: ModelSource,
    cut: Any,
    run_id: str,
    tags: Mapping[str, str],
    options: Mapping[str, Any],
) -> str:
    import mlflow

    digest = {} if source.data_digest is None else {DIGEST_TAG: source.data_digest}
    created = client.create_logged_model(
        source.experiment_id, name=source.model_name, source_run_id=run_id, tags={**tags, **digest}
    )
    mlflow.models.Model.log(
        artifact_path=None,
        name=source.model_name,
        flavor=import_module(source.flavor.module),
        run_id=run_id,  # Model.log, because not every release's log_model has this argument
        model_id=created.model_id,
        **{source.flavor.model_argument: cut},
        **options,
    )
    return str(created.model_id)


def _linked(metrics: Mapping[str, float], model_id: str) -> list[Any]:
    from mlflow.entities import Metric

    now = time.time_ns() // 1_000_000
    return [Metric(key, value, now, 0, model_id=model_id) for key, value in metrics.items()]


def _check_loads(client: MlflowClient, model_id: str, cut: Any, rows: Any) -> None:
    uri = f"models:/{model_id}"
    try:
        same = predict_alike(cut, load_model(uri), rows)
    except ModelLoadError:
        client.finalize_logged_model(model_id, "FAILED")
        raise
    if not same:
        client.finalize_logged_model(model_id, "FAILED")
        raise ModelLoadError(
            f"The smaller model was logged as {uri}, but its predictions differ after loading it back, by more "
            "than rounding explains, so no version was registered. Check that the libraries installed here are "
            "those in the model's requirements."
        )
