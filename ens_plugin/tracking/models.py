"""Models and versions that MLflow stores: their addresses, the loading of models, and damage in them."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ens_plugin.adapters.library import Library
from ens_plugin.adapters.members import held_objects
from ens_plugin.adapters.registry import libraries, load_offered_adapters
from ens_plugin.errors import GateError, InputError, ModelLoadError
from ens_plugin.report.text import printable
from ens_plugin.tracking.connection import (
    check_server,
    first_line,
    no_progress_bars,
    require_mlflow,
    without_credentials,
    without_secrets,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion
    from mlflow.models import Model


ADDRESS = re.compile(r"models:/(?P<name>[^/]+)(/(?P<version>[1-9][0-9]*)|@(?P<alias>[\w-]+))")
ALIAS = re.compile(r"(?!(latest|v\d+)$)[\w-]{1,255}", re.IGNORECASE)
READY = "READY"
PICKLE_SWITCH = "MLFLOW_ALLOW_PICKLE_DESERIALIZATION"
URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # two letters and more: C:/ is a Windows drive
TRUSTED_SKOPS_TYPES = frozenset({"sklearn.tree._tree.Tree"})
# How the archives begin in which joblib and skops write, beside pickles of the protocols 2 to 5.
ARCHIVES = (b"PK\x03\x04", b"\x78", b"\x04\x22\x4d\x18", b"\x1f\x8b", b"BZ", b"\xfd7zXZ", b"\x5d\x00")
PICKLES = (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


def library_of_file(start: bytes) -> type[Library] | None:
    """Return the library whose model files begin with `start`; None for pickles, archives and unknown files."""
    library = _reader_among_loaded(start)
    if library is None and not start.startswith((*PICKLES, *ARCHIVES)):
        load_offered_adapters()
        library = _reader_among_loaded(start)
    return library


def _reader_among_loaded(start: bytes) -> type[Library] | None:
    return next((library for library in libraries() if library.reads(start)), None)


def refuse_damaged_file(path: Path) -> None:
    """Raise ModelLoadError for a library's own file that would end the process, or keep it busy, when it is read."""
    # Model libraries follow the indices in a file unchecked: a damaged one makes them read beyond their memory. Texts
    # and documents are checked before their library reads them, and the trees of pickles right after.
    with path.open("rb") as file:
        library = library_of_file(file.read(64))
    if library is not None:
        reason = library.find_file_damage(path.read_bytes())
        if reason is not None:
            raise ModelLoadError(damaged(path, library.title, reason))


def refuse_damaged_model(model: object, source: str) -> None:
    """Raise ModelLoadError for a model that was read, but has damaged trees."""
    kinds = tuple(libraries())
    reasons = (kind.find_damage(held) for held in held_objects(model) for kind in kinds)
    reason = next((found for found in reasons if found is not None), None)
    if reason is not None:
        raise ModelLoadError(
            f"The model of {source} is damaged: {reason}. Predicting with it could end the process or never finish. "
            "Save or log the model again."
        )


def damaged(path: Path, library: str, reason: str) -> str:
    """Return the error message for a file that begins like a model file of a library, but cannot be read as one."""
    return (
        f"{str(path)!r} begins like a model file of {library}, but cannot be read as one ({reason}). Check that it is "
        f"complete and was not written by a newer {library} than the one installed."
    )


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
    """One version of a registered model."""

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
    """Return the parts of the URI of a registered version."""
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
    """Return the address of the baseline of the model `name`, from a version's URI or an alias of the same model."""
    if isinstance(baseline, str) and ALIAS.fullmatch(baseline):
        return VersionAddress(name, None, baseline)
    return parse_address(baseline)


def check_alias(alias: str, argument: str) -> None:
    """Raise InputError for a name that MLflow does not accept as an alias, before anything is decided."""
    if not isinstance(alias, str) or not ALIAS.fullmatch(alias):
        raise InputError(
            f"{argument}={printable(repr(alias), 120)} cannot be an alias. Use letters, digits, '_' and '-', "
            "but neither 'latest' nor 'v' with a number: 'champion' for example."
        )


def find_version(client: MlflowClient, address: VersionAddress) -> RegisteredVersion:
    """Return a version from the registry; an alias is resolved once, to the version that it points at now."""
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
    """Return whether a version is still the one that was found: its number is used again for a model made anew."""
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
    """Return the version that the alias of `address` points at now; None if the alias does not exist."""
    aliases = client.get_registered_model(address.name).aliases
    held = aliases.get(address.alias)
    return None if held is None else str(held)


def _model_id(source: str | None) -> str | None:
    # The version's own model_id is empty in MLflow's open-source registry.
    found = re.fullmatch(r"models:/(?P<id>m-[^/@]+)/?", source or "")
    return None if found is None else found["id"]


def is_uri(source: str) -> bool:
    """Return whether `source` is a URI, for MLflow to resolve, rather than a path."""
    return URI.match(source) is not None


def load_model(source: str | Path) -> Any:
    """Load the native model, wrappers included, behind an MLflow URI, an MLflow model directory or a model file."""
    # Loading a model runs code that is stored in it: load only what you trust. Where MLflow's switch
    # `MLFLOW_ALLOW_PICKLE_DESERIALIZATION` is `false`, nothing that could run code is loaded, not from files either.
    # Files may be written by joblib, pickle, cloudpickle or skops, or by `save_model` of LightGBM or XGBoost (text;
    # JSON or UBJSON), which hold a `Booster` that has label codes only, not the labels.
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
    refuse_damaged_file(path)
    model = _checked(_reader_of(path)(path), str(path))
    refuse_damaged_model(model, repr(str(path)))
    return model


def logged_model_id(source: str) -> str | None:
    """Return the id of the LoggedModel behind a ``models:/`` or ``runs:/`` URI, if there is one."""
    found = model_document(source).model_id if source.startswith(("models:/", "runs:/")) else None
    return None if found is None else str(found)


def model_document(uri: str) -> Model:
    """Return what MLflow has written beside the model of a URI."""
    import mlflow
    from mlflow.exceptions import MlflowException

    try:
        return mlflow.models.Model.load(uri)
    except (MlflowException, OSError) as error:
        raise ModelLoadError(_not_loaded(uri, error)) from error


def source_run_id(source: str) -> str | None:
    """Return the id of the run that logged the model of a ``models:/`` or ``runs:/`` URI, if it is known."""
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
    require_mlflow()
    import mlflow

    if uri.startswith(("models:/", "runs:/", "mlflow-artifacts:/")):
        check_server(mlflow.get_tracking_uri())
    try:
        with no_progress_bars():
            folder = Path(mlflow.artifacts.download_artifacts(uri))
        _refuse_damaged_folder(folder)
    except ModelLoadError:
        raise
    except Exception as error:
        # The store can raise anything, and so can the files in it.
        raise ModelLoadError(_not_loaded(uri, error)) from error
    return open_model_folder(folder, uri)


def open_model_folder(folder: Path, source: str) -> Any:
    """Load the native model in a folder that MLflow wrote, by its flavour; `source` is its name in messages."""
    import mlflow

    if _pickles_forbidden() and not hasattr(mlflow.environment_variables, PICKLE_SWITCH):
        raise ModelLoadError(
            f"{PICKLE_SWITCH} is not true, but MLflow {mlflow.__version__} ignores this switch and would run the "
            f"code stored in {without_credentials(source)}. Upgrade MLflow, or set {PICKLE_SWITCH}=true if you "
            "trust the model."
        )
    try:
        wrapped = mlflow.pyfunc.load_model(str(folder))
    except Exception as error:
        # Loading runs code stored with the model, which can raise anything.
        raise ModelLoadError(_not_loaded(source, error)) from error
    try:
        model = wrapped.get_raw_model()
    except (AttributeError, NotImplementedError) as error:
        raise ModelLoadError(
            f"The model at {without_credentials(source)} is a Python function without a native model behind it, "
            "so there is no access to its members. Log the ensemble itself, with mlflow.sklearn.log_model for example."
        ) from error
    refuse_damaged_model(model, without_credentials(source))
    return model


def _refuse_damaged_folder(folder: Path) -> None:
    suffixes = set[str]().union(*(library.suffixes for library in libraries()))
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.suffix in suffixes:
            refuse_damaged_file(path)


def _reader_of(path: Path) -> Callable[[Path], Any]:
    """Return the function that reads a model file, chosen by its content; by default that for pickles."""
    with path.open("rb") as file:
        start = file.read(64)
    library = library_of_file(start)
    if library is not None:
        return partial(_load_with_library, library)
    return _load_skops if _is_skops(path) else _load_pickle


def _load_with_library(library: type[Library], path: Path) -> Any:
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
    return f"{type(error).__name__}: {first_line(error) if str(error).strip() else 'no message'}"
