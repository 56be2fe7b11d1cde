"""Loading a trained ensemble from an MLflow URI or a file."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from ens_plugin.adapters.library import FileReadable
from ens_plugin.adapters.registry import libraries
from ens_plugin.errors import ModelLoadError
from ens_plugin.tracking.store.connection import check_server, without_credentials, without_secrets
from ens_plugin.tracking.store.mlflow_chatter import no_progress_bars
from ens_plugin.tracking.store.model_damage import (
    damaged,
    library_of_file,
    refuse_damaged_file,
    refuse_damaged_model,
)
from ens_plugin.tracking.store.model_version import ADDRESS, find_version, parse_address

__all__ = ["is_uri", "load_model", "logged_model_id", "source_run_id"]

PICKLE_SWITCH = "MLFLOW_ALLOW_PICKLE_DESERIALIZATION"
URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # two letters and more: C:/ is a Windows drive
# Endings of the files in which MLflow stores models, except those in a library's own format.
PICKLE_SUFFIXES = frozenset({".pkl", ".cloudpickle", ".joblib", ".skops"})
TRUSTED_SKOPS_TYPES = frozenset({"sklearn.tree._tree.Tree"})


def is_uri(source: str) -> bool:
    """Return whether `source` is a URI, for MLflow to resolve, rather than a path.

    Examples
    --------
    >>> is_uri("models:/churn/3"), is_uri("forest.joblib")
    (True, False)
    """
    return URI.match(source) is not None


def load_model(source: str | Path) -> Any:
    """Load the native model behind an MLflow URI, an MLflow model directory or a model file.

    Loading a model runs code that is stored in it: load only what you trust.  Where MLflow's
    switch ``MLFLOW_ALLOW_PICKLE_DESERIALIZATION`` is ``false``, nothing that could run code is
    loaded, not from files either.

    Parameters
    ----------
    source : str or Path
        ``models:/name/3``, ``models:/name@champion``, ``models:/m-...``, ``runs:/<run>/model``, any
        other URI of MLflow, an MLflow model directory, or a file written by joblib, pickle,
        cloudpickle or skops, or by ``save_model`` of LightGBM or XGBoost (text; JSON or UBJSON).
        Files of those two hold a ``Booster``, which has label codes only, not the labels.

    Returns
    -------
    object
        The library's own model object, wrappers such as Pipeline included.

    Raises
    ------
    ModelLoadError
        If there is nothing at `source`, what is there is not a model, or loading it is forbidden.
    TrackingError
        If the tracking server cannot be reached.

    Examples
    --------
    >>> import joblib, tempfile
    >>> from pathlib import Path
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     _ = joblib.dump(RandomForestClassifier(), Path(directory) / "forest.joblib")
    ...     load_model(Path(directory) / "forest.joblib")
    RandomForestClassifier()
    """
    if is_uri(str(source)):
        return _load_with_mlflow(str(source))
    path = Path(source)
    try:
        is_folder, is_file = path.is_dir(), path.is_file()
    except OSError as error:  # a name too long, or a folder that may not be entered
        raise ModelLoadError(f"{str(path)[:300]!r} cannot be read: {error.strerror or error}. Pass another.") from error
    if is_folder:
        return _load_directory(path)
    if not is_file:
        raise ModelLoadError(
            f"There is no file {str(path)!r}. Pass a model file, an MLflow model directory, or a URI such as "
            "models:/name/1 or runs:/<run id>/model."
        )
    read = _reader_of(path)
    if read is not _load_pickle or not _pickles_forbidden():
        refuse_damaged_file(path)
    model = _checked(read(path), str(path))
    refuse_damaged_model(model, repr(str(path)))
    return model


def logged_model_id(source: str) -> str | None:
    """Return the id of the LoggedModel behind a ``models:/`` or ``runs:/`` URI, if there is one.

    Parameters
    ----------
    source : str
        As for :func:`load_model`.

    Returns
    -------
    str or None
        None for files, for other URIs, and for models that predate LoggedModels.

    Raises
    ------
    ModelLoadError
        If MLflow finds no model there.

    Examples
    --------
    >>> logged_model_id("forest.joblib") is None
    True
    """
    if not source.startswith(("models:/", "runs:/")):
        return None
    import mlflow
    from mlflow.exceptions import MlflowException

    try:
        found = mlflow.models.Model.load(source).model_id
    except (MlflowException, OSError) as error:
        raise ModelLoadError(_not_loaded(source, error)) from error
    return None if found is None else str(found)


def source_run_id(source: str) -> str | None:
    """Return the id of the run that logged the model of a ``models:/`` or ``runs:/`` URI, if it is known.

    Reports on a model without a LoggedModel, as of MLflow's Spark flavour, are logged to this run.

    Parameters
    ----------
    source : str
        As for :func:`load_model`.

    Returns
    -------
    str or None
        None for files, for other URIs, and for versions registered from no run.

    Examples
    --------
    >>> source_run_id("runs:/0a1b/model"), source_run_id("forest.joblib")
    ('0a1b', None)
    """
    if source.startswith("runs:/"):
        return source.removeprefix("runs:/").partition("/")[0]
    if ADDRESS.fullmatch(source) is None:
        return None
    import mlflow

    return find_version(mlflow.MlflowClient(), parse_address(source)).run_id


def _load_directory(path: Path) -> Any:
    if not (path / "MLmodel").is_file():
        raise ModelLoadError(
            f"{str(path)!r} is a directory without an MLmodel file, so it is not an MLflow model. "
            "Pass the directory that mlflow.<library>.save_model wrote, or a model file."
        )
    return _load_with_mlflow(str(path))


def _pickles_forbidden() -> bool:
    return os.environ.get(PICKLE_SWITCH, "true").strip().lower() not in ("true", "1")


def _load_with_mlflow(uri: str) -> Any:
    import mlflow

    if _pickles_forbidden() and not hasattr(mlflow.environment_variables, PICKLE_SWITCH):
        raise ModelLoadError(
            f"{PICKLE_SWITCH} is not true, but MLflow {mlflow.__version__} ignores this switch and would run the "
            f"code stored in {without_credentials(uri)}. Upgrade MLflow, or set {PICKLE_SWITCH}=true if you "
            "trust the model."
        )
    if uri.startswith(("models:/", "runs:/", "mlflow-artifacts:/")):
        check_server(mlflow.get_tracking_uri())
    try:
        with no_progress_bars():
            folder = Path(mlflow.artifacts.download_artifacts(uri))
        _refuse_damaged_folder(folder)
        wrapped = mlflow.pyfunc.load_model(str(folder))
    except ModelLoadError:
        raise
    except Exception as error:
        # Loading runs code stored with the model, which can raise anything.
        raise ModelLoadError(_not_loaded(uri, error)) from error
    try:
        model = wrapped.get_raw_model()
    except (AttributeError, NotImplementedError) as error:
        raise ModelLoadError(
            f"The model at {without_credentials(uri)} is a Python function without a native model behind it, "
            "so there is no access to its members. Log the ensemble itself, with mlflow.sklearn.log_model for example."
        ) from error
    refuse_damaged_model(model, without_credentials(uri))
    return model


def _refuse_damaged_folder(folder: Path) -> None:
    modules = [str(folder / "code")] if (folder / "code").is_dir() else []
    suffixes = PICKLE_SUFFIXES.union(*(library.suffixes for library in libraries(FileReadable)))
    for path in sorted(folder.iterdir()):
        is_read = path.is_file() and path.suffix in suffixes
        if is_read and not (_pickles_forbidden() and _reader_of(path) is _load_pickle):
            refuse_damaged_file(path, modules)


def _reader_of(path: Path) -> Callable[[Path], Any]:
    """Return the function that reads a model file, chosen by its content; by default that for pickles."""
    with path.open("rb") as file:
        start = file.read(64)
    library = library_of_file(start)
    if library is not None:
        return partial(_load_with_library, library)
    return _load_skops if _is_skops(path) else _load_pickle


def _load_with_library(library: type[FileReadable], path: Path) -> Any:
    content = path.read_bytes()
    try:
        return library.read(content)
    except ImportError as error:
        raise ModelLoadError(
            f"{str(path)!r} is a model file of {library.title}, which is not installed: pip install "
            f"{library.requirement!r}."
        ) from error
    except Exception as error:
        # A damaged or foreign file can make the reader raise anything.
        raise ModelLoadError(damaged(path, library.title, _reason(error))) from error


def _is_skops(path: Path) -> bool:
    if not zipfile.is_zipfile(path):
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return "schema.json" in archive.namelist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:  # as zipfile refuses a directory
        raise ModelLoadError(
            f"{str(path)!r} is a damaged archive ({_reason(error)}). Check that the file is complete, or save the "
            "model again."
        ) from error


def _load_skops(path: Path) -> Any:
    try:
        skops = import_module("skops.io")
    except ImportError as error:
        raise ModelLoadError(f"{str(path)!r} is a skops file and skops is not installed: pip install skops.") from error
    try:
        unknown = sorted(set(skops.get_untrusted_types(file=path)) - TRUSTED_SKOPS_TYPES)
        if unknown:
            raise ModelLoadError(
                f"{str(path)!r} contains types that skops does not trust: {', '.join(unknown[:5])}. If you trust "
                "them, load it with skops.io.load(..., trusted=...) and pass the model to ens_plugin.analyze."
            )
        return skops.load(path, trusted=sorted(TRUSTED_SKOPS_TYPES))
    except ModelLoadError:
        raise
    except Exception as error:
        # A damaged or foreign file can make the reader raise anything.
        raise ModelLoadError(_not_a_model(path, error)) from error


def _load_pickle(path: Path) -> Any:
    if _pickles_forbidden():
        raise ModelLoadError(
            f"{PICKLE_SWITCH} is not true, and loading {str(path)!r} could run code stored in it. Save the model with "
            f"skops.io.dump instead, or set {PICKLE_SWITCH}=true if you trust the file."
        )
    import joblib

    try:
        return joblib.load(path)
    except Exception as error:
        # Unpickling runs code stored in the file, and a file that is no pickle can raise anything.
        raise ModelLoadError(_not_a_model(path, error)) from error


def _checked(model: Any, source: str) -> Any:
    if not hasattr(model, "predict") and not hasattr(model, "aggregation"):
        raise ModelLoadError(
            f"{source!r} was read, but it holds a {type(model).__module__}.{type(model).__name__}, which is not a "
            "model. Save the fitted ensemble itself, with joblib.dump(model, path) for example."
        )
    return model


def _not_a_model(path: Path, error: Exception) -> str:
    return (
        f"{str(path)!r} could not be read as a model ({_reason(error)}). Pass a file written by joblib, pickle, "
        "cloudpickle or skops, or by save_model of LightGBM or XGBoost, with the library versions that wrote it "
        "installed."
    )


def _not_loaded(uri: str, error: Exception) -> str:
    return (
        f"MLflow could not load a model from {without_credentials(uri)}: {_reason(error)}. Check the "
        "name, version or run id, and that the tracking URI is the one the model was logged to."
    )


def _reason(error: Exception) -> str:
    line = without_secrets((str(error).strip() or "no message").splitlines()[0].rstrip("."))
    return f"{type(error).__name__}: {line[:300]}"
