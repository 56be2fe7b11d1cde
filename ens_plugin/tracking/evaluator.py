"""The evaluator ``ensemble`` of ``mlflow.models.evaluate``, which logs an ensemble report to the run."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mlflow
import pandas as pd
from mlflow.models.evaluation.artifacts import JsonEvaluationArtifact
from mlflow.models.evaluation.base import EvaluationResult, ModelEvaluator

from ens_plugin.errors import DataMismatchError, InputError, UnsupportedModelError
from ens_plugin.report.ensemble_report import EnsembleReport
from ens_plugin.report.text import printable
from ens_plugin.tracking.connection import tracking_errors
from ens_plugin.tracking.digest import check_digest, data_digest, recorded_digest
from ens_plugin.tracking.links import find_stored, prove_stored
from ens_plugin.tracking.log import (
    DEFAULT_PREFIX,
    artifact_path,
    check_prefix,
    link_report,
    render_artifacts,
    run_content,
    scalar_values,
    send,
)

ENABLED = "enabled"
OPTIONS = ("data", "metric", "positive_label", "criterion", "tolerance", "max_size", "prefix")


class EnsembleEvaluator(ModelEvaluator):
    """Analyse the ensemble that MLflow evaluates, and log its report to the run.

    Its name in MLflow is ``ensemble``, and ``ens_plugin`` too.  It runs where ``evaluators`` names it, and where its
    configuration has ``"enabled": True``, because MLflow otherwise runs every installed evaluator.  Other keys:
    ``"data"`` (``"holdout"``, the default, or ``"oob"`` for the exact training rows in their order, whose digest must
    be the one that ``ens_plugin.autolog`` recorded), ``"metric"``, ``"positive_label"``, ``"criterion"``,
    ``"tolerance"`` and ``"max_size"`` as for :func:`ens_plugin.analyze`, and ``"prefix"`` as for
    :func:`ens_plugin.log_report`.
    """

    @classmethod
    def can_evaluate(cls, *, model_type: str, evaluator_config: Mapping[str, Any] | None, **_: Any) -> bool:
        """Return whether this evaluator was named or its configuration enables it; the model is not known yet."""
        return bool((evaluator_config or {}).get(ENABLED, _is_chosen()))

    def evaluate(
        self, *, model_type: str, dataset: Any, run_id: str, evaluator_config: Mapping[str, Any], model: Any = None,
        model_id: str | None = None, **_: Any,
    ) -> EvaluationResult:  # fmt: skip
        """Analyse the model, log its report, and return the report's scalars; called by MLflow."""
        from ens_plugin.analysis.analyze import analyze

        options = _options(evaluator_config)
        prefix, data = options.pop("prefix"), options.pop("data")
        native = _native_model(model)
        X, y = _rows(dataset, native)
        linked_id = model_id or model.model_id
        _check_rows(X, y, data, linked_id, model.metadata.run_id)
        report = analyze(native, X, y, data=data, **options)
        metrics = scalar_values(report, prefix)
        # With a model id, MLflow logs the returned scalars itself, linked to the model and the dataset.
        _log(report, run_id, prefix, metrics if model_id is None else {}, linked_id)
        return EvaluationResult(metrics, _artifacts(report, run_id, prefix), run_id)  # type: ignore[no-untyped-call]


class NamedEvaluator(EnsembleEvaluator):
    """The same evaluator under the name of this package, which runs only where ``evaluators`` names it.

    A configuration without names is for all evaluators, and the analysis would run twice.
    """

    @classmethod
    def can_evaluate(cls, *, model_type: str, evaluator_config: Mapping[str, Any] | None, **_: Any) -> bool:
        """Return whether this evaluator was named and not switched off."""
        return _is_chosen() and bool((evaluator_config or {}).get(ENABLED, True))


def _is_chosen() -> bool:
    """Return whether MLflow has chosen the evaluator that it asks, and does not look for those that might be."""
    # Both calls have the same arguments, and no public state of MLflow differs: only the calling function tells.
    asking = sys._getframe(2)
    return asking.f_code.co_name == "_evaluate" and asking.f_globals.get("__name__", "").startswith("mlflow.")


def _options(config: Mapping[str, Any]) -> dict[str, Any]:
    given = {key: value for key, value in config.items() if key != ENABLED}
    options = {"data": "holdout", "prefix": DEFAULT_PREFIX, **given}
    for key in options:
        if key not in OPTIONS:
            close = get_close_matches(str(key)[:80], OPTIONS, n=1, cutoff=0.0)[0]
            raise InputError(
                f"evaluator_config has {printable(repr(key), 80)}, which is not an option of the evaluator "
                f"'ensemble'; did you mean {close!r}? Known: {', '.join((ENABLED, *OPTIONS))}."
            )
    if options["data"] not in ("holdout", "oob"):
        raise InputError(f"evaluator_config has data={printable(repr(options['data']), 80)}; use 'holdout' or 'oob'.")
    check_prefix(options["prefix"])
    return options


def _native_model(model: Any) -> Any:
    if model is None:
        raise InputError(
            "The evaluator 'ensemble' needs the members of a model, and model=None has none. Pass the model."
        )
    try:
        return model.get_raw_model()
    except (AttributeError, NotImplementedError) as error:
        raise UnsupportedModelError(
            f"The evaluator 'ensemble' needs the members of a model, and {type(model).__name__} gives no access to the "
            "model inside it. Pass a models:/ or runs:/ URI, or mlflow.pyfunc.load_model(uri), of the ensemble itself."
        ) from error


def _rows(dataset: Any, native: Any) -> tuple[Any, Any]:
    """Return the features in the order that the model was trained on, and the target."""
    if dataset.labels_data is None:
        raise InputError("The data have no targets. Pass targets='<column>' to mlflow.models.evaluate.")
    X = dataset.features_data
    known = list(getattr(native, "feature_names_in_", ()))
    if isinstance(X, pd.DataFrame) and known and {*known} <= {*X.columns}:
        X = X[known]
    return X, dataset.labels_data


def _check_rows(X: Any, y: Any, data: str, model_id: str | None, run_id: str | None) -> None:
    client = mlflow.MlflowClient()
    with tracking_errors(mlflow.get_tracking_uri()):
        recorded = recorded_digest(client, model_id, run_id)
    if data == "oob" and recorded is None:
        raise DataMismatchError(
            "evaluator_config has data='oob' for the training rows, but no digest was recorded at training to check "
            "them against. Train with ens_plugin.autolog() on, pass rows that were not used for training with "
            "data='holdout', or call ens_plugin.analyze, which checks the rows against the model itself."
        )
    check_digest(data_digest(X, y), recorded, data, "this model")


def _log(report: EnsembleReport, run_id: str, prefix: str, scalars: dict[str, float], model_id: str | None) -> None:
    uri = mlflow.get_tracking_uri()
    with TemporaryDirectory(prefix="ens_plugin-") as directory:
        render_artifacts(report, Path(directory))
        content = run_content(report, Path(directory), prefix)
        content = content._replace(parts=content.parts._replace(scalars=scalars))
        with tracking_errors(uri):
            client = mlflow.MlflowClient()
            logged = send(client, run_id, content)
            if model_id is not None:
                stored = find_stored(client, model_id)
                link_report(client, stored, content, logged, prove_stored(client, stored, report))


def _artifacts(report: EnsembleReport, run_id: str, prefix: str) -> dict[str, JsonEvaluationArtifact]:
    path = f"{artifact_path(prefix)}/report.json"
    root = mlflow.MlflowClient().get_run(run_id).info.artifact_uri
    return {path: JsonEvaluationArtifact(f"{root}/{path}", report.to_dict())}  # type: ignore[no-untyped-call]
