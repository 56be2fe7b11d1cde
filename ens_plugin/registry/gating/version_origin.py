"""The LoggedModel behind a registered version, and whether the version is a model of the run that it names."""

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from ens_plugin.errors import GateError
from ens_plugin.report.text import printable
from ens_plugin.tracking.store.model_version import RegisteredVersion

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import LoggedModel, Run

__all__ = ["comes_from_run", "logged_model", "model_paths", "models_of_run"]

MODEL_HISTORY_TAG = "mlflow.log-model.history"
MODEL_PLACE = re.compile(r"/models/(?P<id>m-[0-9a-f]{32})/artifacts/?$")
RUN_PLACE = re.compile(r"runs:/(?P<run>[^/]+)/(?P<path>.+)")
MANY = 100


def logged_model(client: MlflowClient, version: RegisteredVersion) -> LoggedModel | None:
    """Return the LoggedModel whose files a version has, also where it is a copy or was registered by its place.

    Returns
    -------
    LoggedModel or None
        None for a model without one, as of MLflow's Spark flavour.

    Raises
    ------
    GateError
        If the LoggedModel is deleted.
    MlflowException
        If the server refuses.
    """
    if version.model_id is not None:
        return _existing(client, version.model_id, version)
    # The source of a copied version is the original version.
    for place in (client.get_model_version_download_uri(version.name, version.version), version.source or ""):
        found = MODEL_PLACE.search(place)
        if found is not None:
            model = _existing(client, found["id"], version)
            if _below(place, str(model.artifact_location)) == "":
                return model
        named = RUN_PLACE.fullmatch(place)
        if named is not None and named["run"] == version.run_id:
            models = [_found(client, model_id) for model_id in _outputs(client.get_run(named["run"]))]
            wanted = [model for model in models if model is not None and model.name == named["path"].rstrip("/")]
            if len(wanted) == 1:
                return wanted[0]
    return None


def _existing(client: MlflowClient, model_id: str, version: RegisteredVersion) -> LoggedModel:
    model = _found(client, model_id)
    if model is None:
        raise GateError(
            f"The logged model {printable(model_id, 80)}, which version {version.version} of "
            f"{printable(version.name, 80)} was registered from, is deleted or in another store. Log the model and its "
            "report again, and register that one."
        )
    return model


def _found(client: MlflowClient, model_id: str) -> LoggedModel | None:
    from mlflow.exceptions import MlflowException

    try:
        return client.get_logged_model(model_id)
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return None


def models_of_run(client: MlflowClient, run: Run) -> dict[str, int]:
    """Return the step of each model that a run ever logged, deleted ones too, by the id or the folder of the model.

    Raises
    ------
    GateError
        If the run's record of its models is damaged.
    MlflowException
        If the server refuses.
    """
    made = client.search_logged_models(
        [run.info.experiment_id], filter_string=f"source_run_id = '{run.info.run_id}'", max_results=MANY
    )
    return {
        **dict.fromkeys(model_paths(run), 0),
        **{str(model.model_id): 0 for model in made},
        **_outputs(run),
    }  # fmt: skip


def comes_from_run(client: MlflowClient, version: RegisteredVersion, run: Run, model: LoggedModel | None) -> bool:
    """Return whether the files of a version are a model of `run`, or lie in its artifact folder if it logged none.

    Whoever registers a version names a run and a source, and MLflow does not compare them.

    Parameters
    ----------
    client : MlflowClient
    version : RegisteredVersion
    run : Run
    model : LoggedModel or None
        That of the version.

    Raises
    ------
    GateError
        If the run's record of its models is damaged.
    MlflowException
        If the server refuses.
    """
    outputs = _outputs(run)
    if model is not None:
        return model.model_id in outputs or model.source_run_id == run.info.run_id
    models = [found for model_id in outputs if (found := _found(client, model_id)) is not None]
    own = {str(found.name) for found in models} | set(model_paths(run))
    places = [version.source or "", client.get_model_version_download_uri(version.name, version.version)]
    roots = (str(run.info.artifact_uri), f"runs:/{run.info.run_id}")
    inside = {path for place in places for root in roots if (path := _below(place, root)) is not None}
    return any(path in own if own or outputs else True for path in inside)


def model_paths(run: Run) -> tuple[str, ...]:
    """Return the folders of a run's models without a LoggedModel, such as those of MLflow's Spark flavour.

    Raises
    ------
    GateError
        If the tag that lists them does not have MLflow's format.
    """
    text = run.data.tags.get(MODEL_HISTORY_TAG)
    if text is None:
        return ()
    try:
        return tuple({_path(model): None for model in _list(json.loads(text))})
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise GateError(
            f"The tag {MODEL_HISTORY_TAG!r} of run {run.info.run_id} does not have MLflow's format "
            f"({printable(text, 80)}), so it is not known which models the run logged. Log the model again, in a run "
            "of its own."
        ) from error


def _list(content: object) -> list[dict[str, object]]:
    if not isinstance(content, list):
        raise TypeError("not a list")
    return content


def _path(model: dict[str, object]) -> str:
    path = model["artifact_path"]
    if not isinstance(path, str):
        raise TypeError("not a path")
    return path


def _outputs(run: Run) -> dict[str, int]:
    outputs = [] if run.outputs is None else run.outputs.model_outputs
    return {str(output.model_id): int(output.step) for output in outputs}


def _below(uri: str, root: str) -> str | None:
    """Return the path of `uri` relative to `root`, empty where they are the same; None if it is not below `root`."""
    (scheme, host, path), (root_scheme, root_host, root_path) = _parts(uri), _parts(root)
    if not path or not root_path or ".." in PurePosixPath(path).parts or (scheme, host) != (root_scheme, root_host):
        return None
    found, wanted = PurePosixPath(path), PurePosixPath(root_path)
    return _relative(found, wanted) if found.is_relative_to(wanted) else None


def _relative(path: PurePosixPath, root: PurePosixPath) -> str:
    return "" if path == root else str(path.relative_to(root))


def _parts(uri: str) -> tuple[str, str, str]:
    split = urlsplit(uri)
    # A Windows drive is no scheme.
    if len(split.scheme) < 2:
        return "file", "", uri.replace("\\", "/")
    if split.query or split.fragment:
        return "", "", ""
    return split.scheme, split.netloc, unquote(split.path)
