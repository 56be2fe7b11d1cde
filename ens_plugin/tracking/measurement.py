"""The analysis of a registered model on the user's rows, after a check of their digest."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from numpy.typing import ArrayLike

from ens_plugin.analysis.options import Metric
from ens_plugin.errors import DataMismatchError
from ens_plugin.report.result import EnsembleReport
from ens_plugin.tracking.digest import DIGEST_TAG, data_digest
from ens_plugin.tracking.models import RegisteredVersion, load_model

if TYPE_CHECKING:
    from mlflow import MlflowClient

    from ens_plugin.analysis.judged import JudgedMetric
    from ens_plugin.core.judged_rows import JudgedRows

__all__ = ["Measurement", "Rows", "check_digest", "measure", "recorded_digest"]

RowSource = Callable[[Any], tuple[Any, ArrayLike]]


class Rows(NamedTuple):
    """The user's rows to judge models by, in the form that each model takes.

    `source` takes a native model and returns X and y in the form that this model takes.  `other_source` does so for the
    same rows read from their file in another way, in which they may have been read for training; None where there is
    none.
    """

    source: RowSource
    data: Literal["oob", "holdout"]
    other_source: RowSource | None = None


class Measurement(NamedTuple):
    """The report of an analysis, the loss of each row or what a metric is computed on, and the digest of the rows."""

    report: EnsembleReport
    judged: JudgedRows | JudgedMetric
    digest: str


def measure(
    client: MlflowClient, version: RegisteredVersion, rows: Rows, metric: Metric | None, *, costs: bool = False
) -> Measurement:
    """Analyse a registered version on `rows`, by a metric if one is named; loading it runs code stored with it.

    Where they are wanted, its bytes and latency are measured too.
    """
    from ens_plugin.analysis.analyze import analyze_rows
    from ens_plugin.sizing.budget import measure_costs

    model = load_model(version.uri)
    recorded = recorded_digest(client, version.model_id, version.run_id)
    X, y, digest = _rows_as_trained(rows, model, recorded)
    check_digest(digest, recorded, rows.data, version.uri)
    report, judged = analyze_rows(model, X, y, data=rows.data, metric=metric)
    if costs:
        report = report.with_costs(measure_costs(model, X))
    return Measurement(report, judged, digest)


def _rows_as_trained(rows: Rows, model: Any, recorded: str | None) -> tuple[Any, ArrayLike, str]:
    """Return X, y and their digest: of the other source where that digest is the recorded one, else of the first."""
    X, y = rows.source(model)
    digest = data_digest(X, y)
    if rows.other_source is not None and recorded not in (None, digest):
        other_X, other_y = rows.other_source(model)
        if data_digest(other_X, other_y) == recorded:
            return other_X, other_y, recorded
    return X, y, digest


def check_digest(digest: str, recorded: str | None, data: str, model: str) -> None:
    """Raise DataMismatchError unless training rows have the recorded digest, and held-out rows another one."""
    if recorded is None or (recorded == digest) == (data == "oob"):
        return
    if data == "oob":
        raise DataMismatchError(
            f"These are not the rows that {model} was trained on, or not in that order: their digest is {digest}, "
            f"and {recorded[:100]} was recorded at training. Pass the training rows in their order, or pass "
            "{data='holdout'} for rows that were not used for training."
        )
    raise DataMismatchError(
        f"These are the rows that {model} was trained on (digest {digest}). As held-out rows they would make the error "
        'far too low. Leave out {data="holdout"}, or pass rows that were not used for training.'
    )


def recorded_digest(client: MlflowClient, model_id: str | None, run_id: str | None) -> str | None:
    """Return the digest of training rows that autolog recorded for a model, or for its run; None if for neither."""
    found = None if model_id is None else client.get_logged_model(model_id).tags.get(DIGEST_TAG)
    if found is None and run_id is not None:
        found = client.get_run(run_id).data.tags.get(DIGEST_TAG)
    return None if found is None else str(found)
