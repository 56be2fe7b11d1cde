"""The function autolog, which logs a report after every fit, to MLflow or other trackers."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from types import ModuleType

from ens_plugin.adapters.entry_points import offered_adapters, offered_libraries
from ens_plugin.adapters.library import Trainable
from ens_plugin.adapters.registry import libraries, on_registration
from ens_plugin.analysis.arguments import NO_METRIC, check_options
from ens_plugin.analysis.options import AnalysisOptions, Metric, metric_of_label
from ens_plugin.errors import InputError
from ens_plugin.report.text import printable
from ens_plugin.tracking.autolog.delivery import forget_unreachable
from ens_plugin.tracking.autolog.fit_patches import patch, right_sized_sites, unpatch
from ens_plugin.tracking.autolog.fit_watch import (
    forget_start,
    note_start,
    report_pending,
    start_watching,
    stop_watching,
)
from ens_plugin.tracking.autolog.logged_models import start_linking, stop_linking
from ens_plugin.tracking.autolog.settings import AutologOptions, warn_once
from ens_plugin.tracking.logging.artifacts import DEFAULT_PREFIX
from ens_plugin.tracking.logging.report_log import check_prefix
from ens_plugin.tracking.store.mlflow_events import FitEvents
from ens_plugin.tracking.trackers import MLFLOW, check_trackers

__all__ = ["autolog"]

_lock = threading.RLock()
_settings: AutologOptions | None = None
_events: FitEvents | None = None


def _renew_lock() -> None:
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    # A thread that switches autologging while the process is forked does not exist in the child.
    os.register_at_fork(after_in_child=_renew_lock)


def autolog(
    disable: bool = False,
    silent: bool = False,
    exclusive: bool = False,
    *,
    max_overhead: float = 0.1,
    prefix: str = DEFAULT_PREFIX,
    log_artifacts: bool = True,
    metric: Metric | None = AnalysisOptions.metric,
    positive_label: object = None,
    criterion: str = AnalysisOptions.criterion,
    confidence: float | None = AnalysisOptions.confidence,
    tolerance: float | None = AnalysisOptions.tolerance,
    trackers: Sequence[object] = (MLFLOW,),
) -> None:
    """Log a report to MLflow, or to other trackers, after every fit of a bagged ensemble.

    From now on, the report of every successful ``fit`` that :func:`ens_plugin.analyze` can judge by its
    out-of-bag rows is logged to the MLflow run of that fit: the one that MLflow's own autologging uses,
    whichever of the two was enabled first, else the active run, else a new one.  Covered are
    scikit-learn's ``RandomForest*``, ``ExtraTrees*`` and ``Bagging*``, XGBoost's parallel trees and
    LightGBM in ``rf`` mode (``train`` and the scikit-learn classes), alone or at the end of a
    ``Pipeline``, a ``RightSized*`` or a search, which reports its best estimator.  Other models get
    no report, nor do fits that belong to something larger (a search's candidates,
    cross-validation, the members of a bagging ensemble) or run in worker processes.  An ensemble that
    grows by ``warm_start`` is reported when it begins and when it has grown.

    It never raises an exception in your code, never changes what ``fit`` returns and never waits long for a
    server.  Each kind of problem is logged once as a warning by the logger ``ens_plugin.autolog``.

    Parameters
    ----------
    disable : bool, default=False
        Restore the libraries' own functions: no fit is reported any more.
    silent : bool, default=False
        Log nothing to the logger ``ens_plugin.autolog``: neither warnings nor which run got a report.
    exclusive : bool, default=False
        Do not log to runs that you have opened yourself.
    max_overhead : float, default=0.1
        Share of a fit's time that its report may take; 2 seconds are always allowed.  Where that is not
        enough for all rows, the ensemble is judged by fewer, drawn at random, and the report warns of it.
        ``math.inf`` removes the limit.  Page and figures do not count: a process of their own draws them after
        the fit.
    prefix : str, default="ens"
        Start of the names of metrics and artifacts.  A run's second report is called ``<prefix>_2``, and so on.
    log_artifacts : bool, default=True
        Whether the report's files are logged too.
    metric : str, scorer or callable, optional
        As for :func:`ens_plugin.analyze`; curve and recommended size are of it.  Fits of the other task get no report,
        and the first one a warning.  `max_overhead` counts up to about 900 evaluations of it, by the time of one on
        up to 2048 rows.
    positive_label : label, optional
        The label of two that a scorer is about, as for :func:`ens_plugin.analyze`.
    criterion, confidence, tolerance : optional
        What the recommended size has to meet, as for :func:`ens_plugin.analyze`.  A criterion of labels is for
        classifiers; other fits get no report, and the first one a warning.
    trackers : sequence of str or object, default=("mlflow",)
        What each report is logged to, and nothing else: names and objects as for the `tracker` of
        :func:`ens_plugin.log_report`.  ``["mlflow", "wandb"]`` logs to both, ``["wandb"]`` not to MLflow.  The run of
        Weights & Biases is the one that is open when the fit ends, else one of the report's own, which is finished
        before the fit returns.

    Raises
    ------
    InputError
        If a switch is neither True nor False, no scorer of scikit-learn has the name `metric`, `criterion`,
        `confidence` or `tolerance` is out of range, `max_overhead` is not a share, no name can start with `prefix`, or
        one of `trackers` is no tracker, is there twice, or needs a library that is not installed.

    Notes
    -----
    A run also gets the tag ``ens.data_digest``, a digest of X and y as they were passed to ``fit``, by which the
    training data can be recognised later.  If MLflow's autologging logs the model, the scalars and
    the tag are linked to it.  ``docs/how-to/autolog.md`` has the details.

    Examples
    --------
    >>> import ens_plugin
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> ens_plugin.autolog()
    >>> RandomForestClassifier(200).fit(X, y)  # doctest: +SKIP
    >>> ens_plugin.autolog(disable=True)
    """
    _check_switches(disable=disable, silent=silent, exclusive=exclusive, log_artifacts=log_artifacts)
    if not (isinstance(max_overhead, (int, float)) and max_overhead >= 0):
        raise InputError(
            f"max_overhead={max_overhead!r} is not a share of the fit's time. Pass 0.1 for a tenth of it, or math.inf "
            "for no limit."
        )
    check_prefix(prefix)
    analysis = AnalysisOptions(
        metric=metric_of_label(metric, positive_label), criterion=criterion, confidence=confidence, tolerance=tolerance
    )
    check_options(analysis)
    if criterion == "metric" and metric is None:
        raise InputError(NO_METRIC)
    checked = check_trackers(trackers)
    with _lock:
        _disable()
        if not disable:
            _enable(AutologOptions(silent, exclusive, float(max_overhead), prefix, log_artifacts, analysis, checked))


def _check_switches(**switches: object) -> None:
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise InputError(f"{name}={printable(repr(value), 80)} is neither True nor False. Pass one of them.")


def _enable(settings: AutologOptions) -> None:
    global _settings, _events
    forget_unreachable()
    _settings, _events = settings, FitEvents(note_start, report_pending, forget_start)
    start_watching(settings, _events)
    start_linking(settings)
    patch(right_sized_sites())
    on_registration(_watch_when_imported)
    for library in libraries(Trainable):
        _watch_when_imported(library)
    for name in offered_libraries():
        _register_hook(name)


def _disable() -> None:
    global _settings, _events
    stop_watching()
    stop_linking()
    unpatch()
    if _events is not None:
        _events.stop()
    _settings = _events = None


def _watch_when_imported(library: type[object]) -> None:
    if _settings is not None and issubclass(library, Trainable):
        _register_hook(library.library)


def _register_hook(library: str) -> None:
    from mlflow.utils.import_hooks import register_post_import_hook

    # At once if it is imported already; a hook of the same name is replaced.
    register_post_import_hook(_watch_imported, library, overwrite=True)


def _watch_imported(module: ModuleType) -> None:
    with _lock:
        if _settings is None:
            return
        try:
            for library in libraries(Trainable):
                if library.library == module.__name__:
                    patch(library.fit_sites())
            # Raises the error of adapters that cannot be loaded, which are not among the libraries.
            offered_adapters(module.__name__)
        except Exception as error:
            # The user's import must not fail because of this.
            warn_once(_settings, "patch", f"Fits of {module.__name__} get no reports: {error}")
