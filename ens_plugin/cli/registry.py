"""The commands for registered models: judge a version by a policy, and cut one to its recommended size."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from numpy.typing import ArrayLike

from ens_plugin.cli.console import notice, only_results_on_stdout, paragraph, quiet_libraries, use_store
from ens_plugin.cli.inputs import (
    AnalysisRequest,
    analysis_of,
    is_read_in_two_ways,
    left_out_note,
    read_table,
    rows_for_model,
)
from ens_plugin.registry.gating import (
    Audit,
    audit_to_file,
    audit_to_log,
    audited_errors,
    gate_request,
    run_gate,
)
from ens_plugin.registry.policy import GateDecision
from ens_plugin.registry.rightsizing import ModelSource, Rightsizing, check_name, find_source, rightsize_analysed
from ens_plugin.sizing.truncate import AnalysedModel
from ens_plugin.tracking.connection import check_server
from ens_plugin.tracking.digest import Rows
from ens_plugin.tracking.models import is_uri

if TYPE_CHECKING:
    import pandas as pd

# MLflow itself retries each call for minutes, in which a job prints nothing.
PATIENCE = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    # A server that is overloaded may ask for any time.
    "MLFLOW_HTTP_RESPECT_RETRY_AFTER_HEADER": "false",
}


class RowFile(NamedTuple):
    """The options of a gate that describe a file with rows."""

    target: str | None
    holdout: bool
    drop: tuple[str, ...]
    features: tuple[str, ...]


def rows_from_file(path: str | None, file: RowFile) -> Rows | None:
    """Read a file and return its rows, which are split into features and target for each model; None without a file."""
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


class GateSetup(NamedTuple):
    """What a gate judges by and where: the options of the command."""

    policy: Path
    baseline: str | None
    promote: str | None
    allow_older: bool
    prefix: str  # of the logged reports
    audit_log: Path | None  # "-" stands for stderr
    tracking_uri: str | None


def decide(model_uri: str, setup: GateSetup, rows: Rows | None) -> GateDecision:
    """Return the decision of the gate on a version."""
    audit: Audit = audit_to_log
    if setup.audit_log is not None:
        audit = notice if str(setup.audit_log) == "-" else audit_to_file(setup.audit_log)
    request = gate_request(
        model_uri, setup.policy, baseline=setup.baseline, rows=rows, promote=setup.promote, prefix=setup.prefix
    )
    request = replace(request, allow_older=setup.allow_older)

    with only_results_on_stdout(), quiet_libraries():
        uri = use_store(setup.tracking_uri)
        with audited_errors(request, audit):
            # Called before the retries are limited, which would switch this check off.
            check_server(uri)
        with _patience():
            return run_gate(request, audit)


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


def rightsized(request: AnalysisRequest, register: str | None) -> Rightsizing:
    """Load a model, cut it to its recommended size, log and register the smaller one."""
    from ens_plugin.analysis.evidence import progress_bar

    check_name(register)
    source = _source(request)
    found = analysis_of(replace(request, model=source.uri))
    with only_results_on_stdout(), quiet_libraries():
        whole = AnalysedModel(found.model, found.report, found.rows.X, found.rows.y, found.options)
        return rightsize_analysed(source, whole, register, progress_bar)


def _source(request: AnalysisRequest) -> ModelSource:
    if not is_uri(request.model):
        return find_source(request.model)
    with only_results_on_stdout(), quiet_libraries():
        use_store(request.tracking_uri)
        return find_source(request.model)
