"""The link of a report to a stored model: proved by letting the model predict, kept as a tag, read by the gate.

Whoever has both a report and the model makes the link. The stored model is loaded and has to predict what the analysed
one predicted, member by member, and the sum of all its files goes into the link. Whoever has the files alone compares
this sum, and needs to load nothing.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from ens_plugin.analysis.proof import find_difference
from ens_plugin.errors import GateError, InputError, TrackingError
from ens_plugin.report.ensemble_report import EnsembleReport
from ens_plugin.report.text import printable
from ens_plugin.tracking.connection import no_progress_bars
from ens_plugin.tracking.models import (
    ADDRESS,
    RegisteredVersion,
    find_version,
    open_model_folder,
    parse_address,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import LoggedModel

MODEL_PLACE = re.compile(r"/models/(?P<id>m-[0-9a-f]{32})/artifacts/?$")


@dataclass(frozen=True)
class ReportLink:
    """Where the report on a stored model is, and the sums of both."""

    prefix: str
    run_id: str
    path: str
    sha256: str  # of the report's JSON at `path` among the artifacts of the run
    rows_sha256: str | None  # of the losses of the rows beside it
    files: str  # sum of the model's files
    # One more than that of the link before: the clocks of the machines that log reports differ.
    number: int = 0


class StoredModel(NamedTuple):
    """A model in a store, and the tags beside it: a LoggedModel, or a version of a registered model."""

    name: str
    place: str
    tags: Mapping[str, str]
    model_id: str | None = None
    version: RegisteredVersion | None = None

    @property
    def target(self) -> str:
        """What :func:`find_stored` finds it by."""
        return self.name if self.version is None else self.version.uri

    def links(self) -> list[ReportLink]:
        """Return the newest link of each prefix, in the order in which they came."""
        found = [
            _link(match["prefix"], text)
            for key, text in self.tags.items()
            if (match := re.fullmatch(r"(?P<prefix>.+)\.report", key))
        ]
        return sorted(found, key=lambda link: link.number)


def find_stored(client: MlflowClient, target: str) -> StoredModel:
    """Return the stored model of a LoggedModel's id, or of the URI of a registered version."""
    if isinstance(target, str) and ADDRESS.fullmatch(target):
        version = find_version(client, parse_address(target))
        return next(stored_models(client, version))
    if not isinstance(target, str) or not target.startswith("m-"):
        raise InputError(
            f"model_id={printable(repr(target), 120)} is no model that a report can be linked to. Pass the id of a "
            "LoggedModel, 'm-...', as mlflow.sklearn.log_model(...).model_id returns it, or the URI of a registered "
            "version, such as 'models:/churn/7'."
        )
    return _of_logged_model(client.get_logged_model(target))


def stored_models(client: MlflowClient, version: RegisteredVersion) -> Iterator[StoredModel]:
    """Yield where links to the files of a version may be: its LoggedModel, itself, and the models of its run."""
    place = str(client.get_model_version_download_uri(version.name, version.version))
    copied = MODEL_PLACE.search(place)
    model_id = version.model_id or (None if copied is None else copied["id"])
    if model_id is not None:
        model = _found(client, model_id)
        if model is None and version.model_id is not None:
            raise GateError(
                f"The logged model {printable(model_id, 80)}, which version {version.version} of "
                f"{printable(version.name, 80)} was registered from, is deleted or in another store. Log the model and "
                "its report again, and register that one."
            )
        if model is not None:
            yield _of_logged_model(model)
    tags = client.get_model_version(version.name, version.version).tags
    yield StoredModel(f"version {version.version} of {printable(version.name, 80)}", place, tags, version=version)
    if version.run_id is not None:
        yield from models_of_run(client, version.run_id)


def models_of_run(client: MlflowClient, run_id: str) -> Iterator[StoredModel]:
    """Yield the newest models that a run logged, as far as they exist."""
    outputs = client.get_run(run_id).outputs
    ids = [] if outputs is None else [str(output.model_id) for output in outputs.model_outputs]
    # Of one run: each is loaded, or a request, and a search logs one model for each candidate.
    for model_id in reversed(ids[-10:]):
        model = _found(client, model_id)
        if model is not None:
            yield _of_logged_model(model)


def _found(client: MlflowClient, model_id: str) -> LoggedModel | None:
    from mlflow.exceptions import MlflowException

    try:
        return client.get_logged_model(model_id)
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        return None


def _of_logged_model(model: LoggedModel) -> StoredModel:
    return StoredModel(str(model.model_id), str(model.artifact_location), model.tags, model_id=str(model.model_id))


def prove_stored(client: MlflowClient, stored: StoredModel, report: EnsembleReport) -> str:
    """Return the sum of a stored model's files, after a proof that it is the one that a report is about."""
    proof = report.proof
    if proof is None or proof.rows is None:
        raise InputError(
            f"Whether {stored.name} is the model of this report cannot be told, because "
            + (
                "the report is of arrays of outputs, or of a model that does not predict its rows. Leave out model_id."
                if proof is None
                else "the report was read from JSON, without its rows. Pass rows=X, the X of its analysis."
            )
        )
    with local_files(client, stored.place) as folder:
        digest = files_digest(folder)
        difference = find_difference(proof, open_model_folder(folder, stored.name))
    if difference is not None:
        raise InputError(
            f"{stored.name} is not the model that this report is about: {difference}. Pass the id of the model that "
            "was analysed, whole, as it was analysed, or leave out model_id."
        )
    return digest


@contextmanager
def local_files(client: MlflowClient, place: str) -> Iterator[Path]:
    """Yield a folder with the files of a stored model: where they are, if on this machine, else a copy."""
    from mlflow.artifacts import download_artifacts

    # A Windows drive is no scheme.
    scheme = urlsplit(place).scheme
    is_here = scheme in ("", "file") or len(scheme) == 1
    with no_progress_bars(), TemporaryDirectory(prefix="ens_plugin-") as copy:
        target = None if is_here else copy
        yield Path(download_artifacts(place, dst_path=target, tracking_uri=client.tracking_uri))


def files_digest(folder: Path) -> str:
    """Return the sum of all files below a folder and of their paths; files are read in pieces."""
    digest = hashlib.sha256()
    # MLflow writes this file beside a model whenever it is loaded from a registry.
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != "registered_model_meta"]
    if not files:
        raise TrackingError("The stored model has no files. Log it again.")
    for path in files:
        own = hashlib.sha256()
        with path.open("rb") as file:
            while piece := file.read(2**20):
                own.update(piece)
        digest.update(f"{path.relative_to(folder).as_posix()}\0{own.hexdigest()}\0".encode())
    return f"sha256:{digest.hexdigest()}"


def version_files(client: MlflowClient, version: RegisteredVersion) -> str:
    """Return the sum of the files of a registered version."""
    with local_files(client, str(client.get_model_version_download_uri(version.name, version.version))) as folder:
        return files_digest(folder)


def write_link(client: MlflowClient, stored: StoredModel, link: ReportLink) -> None:
    """Make a report the newest one on a stored model; written last, when the report is complete."""
    # Read again: other reports may have been linked since.
    known = find_stored(client, stored.target).links()
    if any(replace(link, number=other.number) == other for other in known[-1:]):
        return
    numbered = replace(link, number=1 + max((other.number for other in known), default=0))
    content = {name: value for name, value in asdict(numbered).items() if name != "prefix"}
    key, text = f"{link.prefix}.report", json.dumps(content)
    if stored.model_id is not None:
        client.set_logged_model_tags(stored.model_id, {key: text})
    elif stored.version is not None:
        client.set_model_version_tag(stored.version.name, stored.version.version, key, text)


def _link(prefix: str, text: str) -> ReportLink:
    content: Any = json.loads(text)
    try:
        link = ReportLink(prefix=prefix, **content)
    except TypeError as error:
        raise ValueError(str(error)) from error
    texts = (link.run_id, link.path, link.sha256, link.files)
    if type(link.number) is not int or not all(isinstance(part, str) for part in texts):
        raise ValueError("a part is missing or of a wrong type")
    return link


def is_numbered(name: str, prefix: str) -> bool:
    """Return whether a prefix is `prefix` itself, or one that autologging makes of it for a run's further reports."""
    return re.fullmatch(rf"{re.escape(prefix)}(_[0-9]+)?", name) is not None
