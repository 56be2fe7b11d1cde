"""Check whether a registered version is a model of the run that it names."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from ens_plugin.errors import GateError
from ens_plugin.report.text import printable
from ens_plugin.tracking.store.model_version import RegisteredVersion

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

__all__ = ["comes_from_run", "model_paths"]

MODEL_HISTORY_TAG = "mlflow.log-model.history"


def comes_from_run(client: MlflowClient, version: RegisteredVersion, run: Run) -> bool:
    """Return whether the files of a version are a model of `run`, or lie in its artifact folder if it logged none.

    Whoever registers a version names a run and a source, and MLflow does not compare them.

    Raises
    ------
    GateError
        If the run's record of its models is damaged.
    MlflowException
        If the server refuses.
    """
    outputs = _logged_models(run)
    if version.model_id is not None:
        return (
            version.model_id in outputs
            or client.get_logged_model(version.model_id).source_run_id == run.info.run_id
        )  # fmt: skip
    models = [client.get_logged_model(model_id) for model_id in outputs]
    own = {str(model.name) for model in models} | set(model_paths(run))
    # The source of a copied version is the original version.
    places = [version.source or "", client.get_model_version_download_uri(version.name, version.version)]
    if any(_below(place, str(model.artifact_location)) == "" for place in places for model in models):
        return True
    roots = (str(run.info.artifact_uri), f"runs:/{run.info.run_id}")
    inside = {path for place in places for root in roots if (path := _below(place, root)) is not None}
    return any(path in own if own else True for path in inside)


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


def _logged_models(run: Run) -> tuple[str, ...]:
    outputs = [] if run.outputs is None else run.outputs.model_outputs
    return tuple({str(output.model_id): None for output in outputs})


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
