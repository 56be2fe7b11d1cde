"""The commands `ens-plugin gate` and `gate-server`: the gate of a registry, with limits on the waiting time."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from numpy.typing import ArrayLike

from ens_plugin.cli.console import notice, only_results_on_stdout, paragraph, quiet_libraries
from ens_plugin.cli.store import use_store
from ens_plugin.cli.table import left_out_note, rows_for_model
from ens_plugin.cli.table_files import is_read_in_two_ways, read_table
from ens_plugin.core.validation import counted
from ens_plugin.errors import EnsPluginError, InputError
from ens_plugin.registry.gating.audit import Audit, audit_to_file, audit_to_log
from ens_plugin.registry.gating.decision import GateDecision
from ens_plugin.registry.gating.gate import audited_errors, gate_request, run_gate
from ens_plugin.registry.server.server import GateWorker, gate_app
from ens_plugin.tracking.measurement import Rows
from ens_plugin.tracking.store.connection import check_server, tracking_errors
from ens_plugin.tracking.store.model_version import VersionAddress, check_alias
from ens_plugin.tracking.store.scratch import scratch_folder

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RowFile", "decide", "rows_from_file", "serve"]

BACKLOG = 1024

# MLflow itself retries each call for minutes, in which a job prints nothing.
PATIENCE = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    # A server that is overloaded may ask for any time.
    "MLFLOW_HTTP_RESPECT_RETRY_AFTER_HEADER": "false",
}


class RowFile(NamedTuple):
    """The options of a gate that describe a file with rows.

    Attributes
    ----------
    target : str or None
        Column with the true labels or values.
    holdout : bool
    drop, features : tuple of str
        As of :class:`ens_plugin.cli.request.AnalysisRequest`.
    """

    target: str | None
    holdout: bool
    drop: tuple[str, ...]
    features: tuple[str, ...]


def rows_from_file(path: str | None, file: RowFile) -> Rows | None:
    """Read a file and return its rows, which are split into features and target for each model; None without a file.

    Raises
    ------
    click.UsageError
        If there are options for rows without a file, or no target with it.
    InputError
        If the file cannot be read.
    """
    if path is None:
        if any(file):
            raise click.UsageError("--target, --holdout, --drop and --features are for the rows of --data. Add --data.")
        return None
    target = file.target
    if target is None:
        raise click.UsageError("--data needs --target, the column with the true labels or values.")
    noted: set[tuple[str, ...]] = set()

    def split(frame: pd.DataFrame, model: Any) -> tuple[Any, ArrayLike]:
        rows = rows_for_model(frame, model, target=target, drop=file.drop, features=file.features, path=path)
        # The baseline mostly lacks the same columns as the candidate.
        if rows.left_out and rows.left_out not in noted:
            noted.add(rows.left_out)
            paragraph(left_out_note(rows.left_out))
        return rows.X, rows.y

    other = (lambda model: split(read_table(path, exact=False), model)) if is_read_in_two_ways(path) else None
    return Rows(partial(split, read_table(path)), "holdout" if file.holdout else "oob", other)


def decide(
    model_uri: str, policy: Path, *, baseline: str | None, rows: Rows | None, promote: str | None, prefix: str,
    audit_log: Path | None, tracking_uri: str | None,
) -> GateDecision:  # fmt: skip
    """Return the decision of the gate on a version; audit lines are appended to a file, or "-" for stderr.

    Raises
    ------
    EnsPluginError
        As :func:`ens_plugin.gate`.
    """
    audit = audit_to_log if audit_log is None else _audit(audit_log)
    request = gate_request(model_uri, policy, baseline=baseline, rows=rows, promote=promote, prefix=prefix)
    with only_results_on_stdout(), quiet_libraries(), _files_in_one_folder():
        uri = use_store(tracking_uri)
        with audited_errors(request, audit):
            # Called before the retries are limited, which would switch this check off.
            check_server(uri)
        with _patience():
            return run_gate(request, audit)


def serve(
    policy: Path, *, baseline: str | None, promote: str | None, on_alias: str | None, prefix: str, secret: str,
    host: str, port: int, audit_log: Path | None, tracking_uri: str | None,
) -> None:  # fmt: skip
    """Wait for registry webhooks until interrupted, and run the gate on every version they name.

    Before that, the versions are judged that were registered while no server listened.

    Raises
    ------
    EnsPluginError
        If an argument is wrong, or the tracking server cannot be reached at the start.
    """
    uvicorn = _server_library()
    audit = notice if audit_log is None else _audit(audit_log)
    if baseline is not None:
        check_alias(baseline, "baseline")
    if on_alias is not None and on_alias == promote:
        raise InputError(
            f"The gate would judge its own promotions to {promote!r} again. Use another alias for --on-alias."
        )
    results = sys.stdout
    read = gate_request("models:/any/1", policy, baseline=None, rows=None, promote=promote, prefix=prefix)

    def judge(version: VersionAddress) -> None:
        beside = None if baseline is None else VersionAddress(version.name, None, baseline)
        try:
            click.echo(run_gate(replace(read, candidate=version, baseline=beside), audit).summary(), file=results)
        except EnsPluginError as error:
            paragraph(f"No verdict on {version}: {error}")

    worker = GateWorker(judge)
    app = gate_app(worker, secret, on_alias)
    with only_results_on_stdout(), quiet_libraries():
        check_server(use_store(tracking_uri))
        with _patience():
            notice(f"Listening on {host}:{port}.")
            _catch_up(worker, on_alias)
            uvicorn.run(app, host=host, port=port, log_level="warning", http=_protocol(), backlog=BACKLOG)


def _catch_up(worker: GateWorker, on_alias: str | None) -> None:
    """Have a worker judge the versions that were registered while no server listened."""
    import mlflow

    from ens_plugin.registry.server.missed_versions import missed_versions

    with tracking_errors(mlflow.get_registry_uri()):
        missed = missed_versions(mlflow.MlflowClient(), on_alias)
    if missed:
        were = counted(len(missed), "version was", "versions were")
        notice(f"{were} registered while no gate server listened, and will be judged now.")
    for version in missed:
        if not worker.submit(version):
            notice(f"Too many versions wait: judge {version} with `ens-plugin gate`.")


def _audit(audit_log: Path) -> Audit:
    return notice if str(audit_log) == "-" else audit_to_file(audit_log)


def _server_library() -> Any:
    """Import and return uvicorn, an optional dependency that the server runs on.

    Raises
    ------
    InputError
        If uvicorn or starlette is not installed.
    """
    try:
        import starlette  # noqa: F401
        import uvicorn
    except ImportError as error:
        raise InputError(
            f"gate-server needs uvicorn and starlette, and {error.name or 'one of them'} is not installed: "
            "pip install 'ens-plugin[server]'."
        ) from error
    return uvicorn


def _protocol() -> Any:
    from ens_plugin.registry.server.connections import PatientProtocol

    return PatientProtocol


@contextmanager
def _files_in_one_folder() -> Iterator[None]:
    """Set MLflow's temporary folder inside the block to one that the next gate removes if this process is killed."""
    before = tempfile.tempdir
    with scratch_folder() as folder:
        tempfile.tempdir = str(folder)
        try:
            yield
        finally:
            tempfile.tempdir = before


@contextmanager
def _patience() -> Iterator[None]:
    """Limit MLflow's retries to about a minute inside the block, unless the user has set them."""
    ours = {name: value for name, value in PATIENCE.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            del os.environ[name]
