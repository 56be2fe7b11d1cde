"""A registered model cut to the size that it needs, and registered again."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from numpy.typing import ArrayLike

from ens_plugin.adapters.library import Flavor
from ens_plugin.adapters.registry import libraries
from ens_plugin.analysis.options import AnalysisOptions, Metric
from ens_plugin.errors import InputError, ModelLoadError, TrackingError, UnsupportedModelError, ends_at_caller
from ens_plugin.report.budget import Budget
from ens_plugin.report.ensemble_report import EnsembleReport
from ens_plugin.report.result import Costs
from ens_plugin.report.text import escaped_markdown, members_text, printable, wrapped
from ens_plugin.sizing.budget import measure_costs
from ens_plugin.sizing.truncate import (
    AnalysedModel,
    Check,
    sufficient_cut,
)
from ens_plugin.tracking.connection import (
    check_server,
    no_progress_bars,
    require_mlflow,
    tracking_errors,
    without_secrets,
)
from ens_plugin.tracking.digest import DIGEST_TAG, recorded_digest
from ens_plugin.tracking.log import log_report
from ens_plugin.tracking.models import VersionAddress, find_version, load_model, model_document, parse_address

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.models import Model

    from ens_plugin.analysis.evidence import Progress

Outcome = Literal["logged", "not_needed", "no_size", "refused"]
WITHOUT_VERSION = re.compile(r"models:/m-[^/@]+|runs:/[^/]+/.+")


@dataclass(frozen=True)
class ModelSource:
    """A model that was logged to MLflow, as the tracking store and the registry describe it."""

    uri: str
    name: str | None
    version: str | None
    model_id: str | None
    model_name: str
    experiment_id: str
    flavor: Flavor
    data_digest: str | None


def find_source(uri: str) -> ModelSource:
    """Return the entries of the tracking store and the registry on the model of a URI, without loading it."""
    if not isinstance(uri, str):
        raise InputError(
            f"{printable(repr(uri), 120)} is not the URI of a model in MLflow. Pass a URI such as "
            "'models:/<name>/<version>' or 'runs:/<run id>/<path>'. ens_plugin.truncate cuts a model in memory."
        )
    address = None if WITHOUT_VERSION.fullmatch(uri) else _address(uri)
    require_mlflow()
    import mlflow

    store = mlflow.get_tracking_uri()
    check_server(store)
    with tracking_errors(store):
        client = mlflow.MlflowClient()
        if address is None:
            return _described(client, uri, None, None)
        version = find_version(client, address)
        return _described(client, version.uri, version.name, version.version)


def _address(uri: str) -> VersionAddress:
    if uri.startswith("models:/"):
        return parse_address(uri)
    raise InputError(
        f"{printable(repr(without_secrets(uri)), 120)} is not a model in MLflow, so there is no experiment to log "
        "the smaller one to. Pass 'models:/<name>/<version>', 'models:/<name>@<alias>', 'models:/m-...' or "
        "'runs:/<run id>/<path>'. Cut a model from a file with ens_plugin.truncate."
    )


def _described(client: MlflowClient, uri: str, name: str | None, version: str | None) -> ModelSource:
    document = model_document(uri)
    model_id, run_id = document.model_id, document.run_id
    if model_id is None and run_id is None:
        raise InputError(
            f"{printable(uri, 120)} was registered without a run, so there is no experiment to log the smaller model "
            "to. Log the model to a run first, with mlflow.sklearn.log_model for example."
        )
    if model_id is None:
        model_name, experiment_id = "model", str(client.get_run(run_id).info.experiment_id)
        digest = recorded_digest(client, None, run_id)
    else:
        logged = client.get_logged_model(model_id)
        model_name, experiment_id = str(logged.name), str(logged.experiment_id)
        # The run of the model may have been deleted.
        digest = recorded_digest(client, model_id, None)
    return ModelSource(uri, name, version, model_id, model_name, experiment_id, _flavor(document, uri), digest)


def _flavor(document: Model, uri: str) -> Flavor:
    # Of two flavours with one name, the built-in one is used, which is the last.
    known = {library.flavor.name: library.flavor for library in libraries() if library.flavor is not None}
    for name in known:
        if name in document.flavors:
            return known[name]
    *names, last = known
    raise UnsupportedModelError(
        f"{printable(uri, 120)} was logged as {printable(', '.join(document.flavors), 120)}, but a smaller model "
        f"can be logged only as {', '.join(names)} or {last}. Cut it with ens_plugin.truncate."
    )


class LoggedCut(NamedTuple):
    """Run, LoggedModel and registered version, if any, of a model that was cut to fewer members."""

    run_id: str
    model_id: str
    name: str | None = None
    version: str | None = None

    @property
    def uri(self) -> str:
        """URI of the LoggedModel."""
        return f"models:/{self.model_id}"

    @property
    def sentences(self) -> list[str]:
        """Where the model is logged and which version it is, or how `register` makes it one."""
        logged = f"Logged as {self.uri}, by run {self.run_id}."
        if self.version is None:
            return [logged, "Not registered; name a registered model by `register` to make it a version."]
        name = printable(str(self.name), 300)
        return [logged, f"Registered as version {self.version} of {name}; no alias was moved."]


def log_cut_model(
    source: ModelSource,
    cut: Any,
    report: EnsembleReport,
    metrics: Mapping[str, float],
    tags: Mapping[str, str],
) -> LoggedCut:
    """Log a model cut from `source` to a new run in the same experiment, with its report, and load it back."""
    import mlflow
    from mlflow.entities import Metric

    store = mlflow.get_tracking_uri()
    check_server(store)
    with tracking_errors(store), no_progress_bars(), TemporaryDirectory(prefix="ens_plugin-") as directory:
        client = mlflow.MlflowClient()
        options = _options_of_source(source, directory)
        with _new_run(client, source, tags) as run_id:
            model_id = _log(client, source, cut, run_id, tags, options)
            now = time.time_ns() // 1_000_000
            client.log_batch(run_id, [Metric(key, value, now, 0, model_id=model_id) for key, value in metrics.items()])
            try:
                # It is loaded back, and has to predict what the smaller model predicts here.
                log_report(report, run_id=run_id, model_id=model_id)
            except (InputError, ModelLoadError) as error:
                client.finalize_logged_model(model_id, "FAILED")
                raise ModelLoadError(
                    f"The smaller model was logged as models:/{model_id}, but it is another one after loading it back, "
                    f"so no version was registered. {error} Check that the libraries installed here are those in the "
                    "model's requirements."
                ) from error
    return LoggedCut(run_id, model_id)


def register_cut_model(logged: LoggedCut, name: str, tags: Mapping[str, str]) -> LoggedCut:
    """Register a logged model as a new version of `name`; no alias moves."""
    import mlflow

    try:
        with tracking_errors(mlflow.get_registry_uri()):
            version = str(mlflow.register_model(logged.uri, name, tags=dict(tags)).version)
    except TrackingError as error:
        raise TrackingError(
            f"{error} The smaller model itself is logged and checked, as {logged.uri}. Register it with "
            "mlflow.register_model."
        ) from error
    return logged._replace(name=name, version=version)


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


@dataclass(frozen=True, eq=False)
class Rightsizing:
    """The outcome of cutting a model to its recommended size.

    Attributes
    ----------
    source : str
        URI of the model, an alias replaced by the version that it pointed at.
    outcome : {"logged", "not_needed", "no_size", "refused"}
        A smaller model was logged; the model has no more members than it needs; no size is large
        enough; the smaller model failed a check. Nothing is logged in the last three.
    report : EnsembleReport
        Report on the model.
    cut_report : EnsembleReport or None
        Report on the smaller model, on the same rows; None where the model was not cut.
    checks : tuple of Check
        Checks of the smaller model against the report.
    costs : Costs or None
        Measured bytes and times of the model, for every size; None where nothing is logged.
    logged : LoggedCut or None
        Run, LoggedModel and registered version of the smaller model.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import ens_plugin
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(50, random_state=0).fit(X, y)
    >>> report = ens_plugin.analyze(forest, X, y)
    >>> found = ens_plugin.rightsize("models:/churn/7", X, y)  # doctest: +SKIP
    >>> found = ens_plugin.Rightsizing("models:/churn/7", "not_needed", report)
    >>> found.outcome, found.logged
    ('not_needed', None)
    """

    source: str
    outcome: Outcome
    report: EnsembleReport
    cut_report: EnsembleReport | None = None
    checks: tuple[Check, ...] = ()
    costs: Costs | None = None
    logged: LoggedCut | None = None

    def __str__(self) -> str:
        return self.summary()

    @property
    def passed(self) -> bool:
        """Whether a smaller model was logged, or none is needed."""
        return self.outcome in ("logged", "not_needed")

    @property
    def budget(self) -> Budget | None:
        """What each size costs and how good it is; None where nothing is logged."""
        return None if self.costs is None else Budget(self.report, self.costs)

    @property
    def sentence(self) -> str:
        """The outcome as a sentence, without control characters."""
        found, members = self.report.recommendation, members_text(self.report.n_members)
        source = printable(self.source, 300)
        kept = found.size if self.cut_report is None else self.cut_report.n_members
        if self.outcome == "no_size":
            return f"{source}: {members}, and not even {found.max_size} are sure to be enough. Not cut, nothing logged."
        if self.outcome == "not_needed" and found.size is not None and found.size < self.report.n_members:
            return (
                f"{source}: {members}, of which {found.size} were recommended, but no smaller model is enough "
                "by its own report. Not cut, nothing logged."
            )
        if self.outcome == "not_needed":
            return f"{source}: {members}, no more than the {found.size} recommended. Nothing to cut, nothing logged."
        if self.outcome == "refused":
            return f"{source}: the model of its first {kept} of {members} failed a check. Nothing logged."
        if kept == found.size:
            return f"{source}: {members} cut to the {found.size} recommended."
        return (
            f"{source}: {members} cut to {kept}, where {found.size} were recommended: smaller models were not "
            "enough by their own reports."
        )

    def summary(self) -> str:
        """Return the outcome, the reason, the checks, what sizes cost and the logged model, 80 columns wide."""
        lines = [*wrapped(self.sentence), *wrapped(printable(self.report.recommendation.reason))]
        lines += ["", *(line for check in self.checks for line in wrapped(check.text, later="  "))] * bool(self.checks)
        lines += [] if self.budget is None else ["", *self.budget.lines()]
        if self.logged is not None:
            lines += ["", *(line for sentence in self.logged.sentences for line in wrapped(sentence, later="  "))]
        return "\n".join(lines)

    def to_json(self) -> str:
        """Return the outcome as JSON; its fields are described in ``docs/reference/json.md``."""
        recommendation, logged = self.report.recommendation, self.logged
        content = {
            "schema_version": 1,
            "source": self.source,
            "outcome": self.outcome,
            "passed": self.passed,
            "n_members": self.report.n_members,
            "size": recommendation.size,
            "interval": recommendation.interval,
            "reason": recommendation.reason,
            "checks": [asdict(check) for check in self.checks],
            "costs": None if self.costs is None else asdict(self.costs),
            "model": None if logged is None else {**logged._asdict(), "uri": logged.uri},
        }
        return json.dumps(content, indent=1, allow_nan=False)

    def to_markdown(self) -> str:
        """Return the outcome in Markdown, with all text of the model and the registry escaped."""
        reason = escaped_markdown(self.report.recommendation.reason, 400)
        lines = [f"**{escaped_markdown(self.sentence, 300)}**", "", reason]
        lines += [] if self.budget is None else ["", *self.budget.markdown()]
        details = [*(check.text for check in self.checks), *(() if self.logged is None else self.logged.sentences)]
        return "\n".join([*lines, *[""] * bool(details), *(f"- {escaped_markdown(each, 400)}" for each in details)])


@ends_at_caller
def rightsize(
    source: str,
    X: Any,
    y: ArrayLike,
    *,
    register: str | None = None,
    data: Literal["oob", "holdout"] = AnalysisOptions.data,
    sample_weight: ArrayLike | None = AnalysisOptions.sample_weight,
    metric: Metric | None = AnalysisOptions.metric,
    positive_label: object = None,
    criterion: str = AnalysisOptions.criterion,
    tolerance: float | None = AnalysisOptions.tolerance,
    max_size: int = AnalysisOptions.max_size,
    random_state: int | None = AnalysisOptions.random_state,
    n_jobs: int | None = AnalysisOptions.n_jobs,
) -> Rightsizing:
    """Cut a logged ensemble to its recommended size and log the smaller one as a new version.

    Loading a model runs code stored in it: rightsize only what you trust.  The smaller model is analysed
    on the same rows, compared with the whole one, logged, loaded back and compared again before a version
    is registered, which is the last step.  No alias moves, and the model itself stays as it is.

    Parameters
    ----------
    source : str
        ``models:/name/7``, ``models:/name@champion``, ``models:/m-...`` or ``runs:/<run>/model``, logged as
        sklearn, xgboost or lightgbm.
    X, y : array-like
        Rows to analyse the model on, as for :func:`ens_plugin.analyze`.
    register : str, optional
        Registered model that gets the new version; that of the source by default, and none where the
        source is not a registered version.
    data, sample_weight, metric, positive_label, criterion, tolerance, max_size
        As for :func:`ens_plugin.analyze`.
    random_state, n_jobs
        As for :func:`ens_plugin.analyze`.

    Returns
    -------
    Rightsizing

    Raises
    ------
    InputError
        If `source` is not the URI of a model in MLflow, or the recommended size is not available.
    ModelLoadError
        If the model, or what was logged, does not load.
    TooFewMembersError
        If the recommended members are too few to be checked on these rows.
    TrackingError
        If MLflow cannot be reached or refuses.
    EnsPluginError
        If the model cannot be analysed or cut for another reason.

    Notes
    -----
    The new run, in the source's experiment, has the source as input, the report of the smaller model, and
    metrics ``ens.rightsize.*``.  Run, LoggedModel and version have the tag ``ens.parent``; the version also
    ``ens.parent_version``.

    Examples
    --------
    >>> import ens_plugin
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> ens_plugin.rightsize("models:/churn/7", X, y).logged.version  # doctest: +SKIP
    '8'
    >>> ens_plugin.rightsize("forest.joblib", X, y)
    Traceback (most recent call last):
    ens_plugin.errors.InputError: ...
    """
    from ens_plugin.analysis.analyze import run_analysis
    from ens_plugin.analysis.arguments import metric_of_label

    check_name(register)
    found = find_source(source)
    model = load_model(found.uri)
    options = AnalysisOptions(
        data=data,
        sample_weight=sample_weight,
        metric=metric_of_label(metric, positive_label),
        criterion=criterion,
        tolerance=tolerance,
        max_size=max_size,
        random_state=random_state,
        n_jobs=n_jobs,
    )
    whole = AnalysedModel(model, run_analysis(model, X, y, options), X, y, options)
    return rightsize_analysed(found, whole, register)


def check_name(register: str | None) -> None:
    """Raise InputError for what cannot be the name of a registered model, before anything is analysed."""
    if register is None:
        return
    if not isinstance(register, str) or not register.strip() or set(register) & set("/:"):
        raise InputError(
            f"register={printable(repr(register), 120)} cannot be the name of a registered model. Use one without "
            "'/' and ':', 'churn' for example."
        )


def rightsize_analysed(
    source: ModelSource, whole: AnalysedModel, register: str | None, progress: Progress | None = None
) -> Rightsizing:
    """Return what :func:`rightsize` returns, for a model that is loaded and analysed already."""
    report = whole.report
    size = _size_to_cut_to(report)
    if size is None:
        return Rightsizing(source.uri, "no_size" if report.recommended_size is None else "not_needed", report)
    cut, cut_report, checks = sufficient_cut(whole, size, progress)
    if not all(check.passed for check in checks):
        return Rightsizing(source.uri, "refused", report, cut_report, checks)
    if cut_report.n_members == report.n_members:
        return Rightsizing(source.uri, "not_needed", report)
    costs = measure_costs(whole.model, whole.X)
    tags = {"ens.parent": source.uri, "ens.rightsize": f"{report.n_members} to {members_text(cut_report.n_members)}"}
    logged = log_cut_model(source, cut, cut_report, _metrics(costs, cut_report.n_members, checks), tags)
    name = register or source.name
    if name is not None:
        parent = {} if source.version is None else {"ens.parent_version": source.version}
        logged = register_cut_model(logged, name, {**tags, **parent})
    return Rightsizing(source.uri, "logged", report, cut_report, checks, costs, logged)


def _size_to_cut_to(report: EnsembleReport) -> int | None:
    found = report.recommendation
    problem = f"No size was cut to: {report.undecided}" if report.undecided else ""
    if not problem and math.isnan(found.loss):
        problem = f"The recommended size is not available: {found.reason} Nothing was cut."
    if problem:
        raise InputError(f"{problem} Pass other rows, or choose a size yourself and cut with ens_plugin.truncate.")
    return None if found.size is None or found.size >= report.n_members else found.size


def _metrics(costs: Costs, size: int, checks: tuple[Check, ...]) -> dict[str, float]:
    values = {
        "n_members_before": costs.n_members,
        "n_members_after": size,
        "bytes_before": costs.bytes.at(costs.n_members),
        "bytes_after": costs.bytes.at(size),
        "latency_before": costs.latency.at(costs.n_members),
        "latency_after": costs.latency.at(size),
        **{check.name: check.value for check in checks if check.name == "agreement"},
    }
    return {f"ens.rightsize.{name}": float(value) for name, value in values.items() if value is not None}
