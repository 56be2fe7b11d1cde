"""Checks of the arguments of an analysis, the target and the weights among them, and values for their defaults."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from numbers import Integral, Real
from typing import Any

import numpy as np
from joblib import effective_n_jobs, parallel_config
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import ThreadpoolController

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.adapters.members import find_labels, several_targets
from ens_plugin.analysis.curves import N_SIZES
from ens_plugin.analysis.estimates import ResolvedOptions
from ens_plugin.analysis.metrics import ResolvedMetric, check_metric, resolve_metric
from ens_plugin.analysis.options import CRITERIA, AnalysisOptions, Metric, ScorerOfLabel
from ens_plugin.core.validation import (
    LARGEST_VALUE,
    MAX_SIZE,
    NEGLIGIBLE,
    ROUNDING,
    BoolArray,
    IntArray,
    as_array,
    as_values,
    as_weight,
    counted,
    one_line,
    shown,
    with_missing,
)
from ens_plugin.errors import InputError, TooFewMembersError, UnsupportedModelError

NO_METRIC = "criterion='metric' needs a metric: pass metric='roc_auc' for example."
# Kish's number of rows, below which one row decides nearly alone.
FEWEST_EFFECTIVE = 1.5
# Rounding reaches chances nearer to 1, whose quantiles are then infinite.
MAX_INTERVAL_LEVEL = 1.0 - NEGLIGIBLE
DEFAULT_TOLERANCE = 0.01  # of labels, and of metrics


def resolve_options(adapter: EnsembleAdapter, options: AnalysisOptions, y: ArrayLike | None = None) -> ResolvedOptions:
    """Return the checked options of an analysis, with ``"auto"`` and None replaced by values."""
    # The target `y` is that of the rows, for a metric about the rarer label; None where it is not at hand.
    if adapter.n_members < 2:
        raise TooFewMembersError(
            "The ensemble has one member, from which no curve over sizes can be estimated. Train at least 2, better 50."
        )
    data, max_size = options.data, options.max_size
    if not isinstance(data, str) or data not in ("oob", "holdout"):
        raise InputError(
            f"data must be 'oob' (the training rows) or 'holdout' (rows no member was trained on), got {shown(data)}."
        )
    check_options(options)
    if not isinstance(max_size, Real) or not 1 <= max_size <= MAX_SIZE or int(max_size) != max_size:
        raise InputError(f"max_size must be a whole number from 1 to {MAX_SIZE}, got {shown(max_size, 40)}.")
    if adapter.info.task == "classification" and options.metric == "accuracy":
        # The accuracy has a curve of its own, which is the default.
        criterion = "error" if options.criterion in ("auto", "metric") else options.criterion
        options = replace(options, metric=None, criterion=criterion)
    metric = _resolved_metric(options, adapter, y)
    return ResolvedOptions(
        data=data,
        respects=_respects(options, adapter, metric),
        tolerance=None if options.tolerance is None else float(options.tolerance),
        agreement_tolerance=_agreement_tolerance(options),
        metric_tolerance=DEFAULT_TOLERANCE if options.tolerance is None else float(options.tolerance),
        metric_reference=_metric_reference(options.tolerance, metric),
        interval_level=float(options.interval_level),
        max_size=int(max_size),
        sizes=_tabulated_sizes(adapter.n_members, int(max_size)),
        random_state=as_seed(options.random_state),
        metric=metric,
    )


def check_options(options: AnalysisOptions) -> None:
    """Raise InputError for a metric, criterion, tolerance or interval_level that is wrong for any model."""
    if options.metric is not None:
        check_metric(options.metric)
    if not isinstance(options.criterion, str) or options.criterion not in CRITERIA:
        raise InputError(f"criterion must be one of {', '.join(map(repr, CRITERIA))}, got {shown(options.criterion)}.")
    for name in ("tolerance", "interval_level"):
        given, may_be_none = getattr(options, name), getattr(AnalysisOptions, name) is None
        if not isinstance(given, Real) and not (given is None and may_be_none):
            raise InputError(f"{name} must be a number, got {shown(given)}.")
    if not 0.0 < options.interval_level <= MAX_INTERVAL_LEVEL:
        raise InputError(
            f"interval_level must lie between 0 and 1, and below 1 by at least {NEGLIGIBLE:g}, so that its limits are "
            f"finite numbers; got {shown(options.interval_level)}."
        )
    if options.tolerance is not None and not ROUNDING <= options.tolerance < np.inf:
        raise InputError(f"tolerance must be finite and at least {ROUNDING:g}, got {shown(options.tolerance)}.")
    if options.criterion == "agreement" and options.tolerance is not None and options.tolerance >= 0.5:
        raise InputError(
            "tolerance is the share of labels that may differ from those of the infinite ensemble, and must be below "
            f"0.5 for criterion='agreement', got {shown(options.tolerance)}."
        )


def metric_of_label(metric: Metric | None, positive_label: object) -> Metric | None:
    """Return the metric, with the label that it is about where the user named one."""
    if positive_label is None:
        return metric
    if metric is None:
        raise InputError("positive_label is the label that a metric is about. Pass metric too.")
    if isinstance(metric, ScorerOfLabel):
        raise InputError(f"The metric is about the label {shown(metric.positive_label)}; leave positive_label out.")
    return ScorerOfLabel(metric, str(positive_label))


def _resolved_metric(options: AnalysisOptions, adapter: EnsembleAdapter, y: ArrayLike | None) -> ResolvedMetric | None:
    """Return the metric of an analysis; most have none, and load nothing of the metrics."""
    if options.metric is None and adapter.loss_name is None:
        return None
    return resolve_metric(options.metric, adapter, y)


def _respects(options: AnalysisOptions, adapter: EnsembleAdapter, metric: ResolvedMetric | None) -> tuple[str, ...]:
    """Return the respects in which the recommended size has to be enough."""
    criterion, task = options.criterion, adapter.info.task
    if criterion == "metric" and metric is None:
        raise InputError(NO_METRIC)
    if criterion == "metric" or (criterion == "auto" and metric is not None):
        return ("metric",)
    if adapter.loss_name is not None:
        raise InputError(
            f"criterion={criterion!r} is about errors that this {type(adapter.model).__name__} does not have: it is "
            f"judged by {adapter.loss_name}, or by a metric. Leave criterion='auto'."
        )
    if task == "regression" and criterion in ("agreement", "probability"):
        raise InputError(
            f"criterion={criterion!r} is about labels, and this model predicts values. Use criterion='error', with "
            "tolerance for how far the mean squared error may lie above that of the infinite ensemble."
        )
    if criterion == "auto":
        return ("error", "probability") if task == "classification" else ("error",)
    return (criterion,)


def _agreement_tolerance(options: AnalysisOptions) -> float:
    """Return the share of labels that may differ: the user's where it is about labels alone."""
    is_named = options.criterion == "agreement" and options.tolerance is not None
    return float(options.tolerance) if is_named and options.tolerance is not None else DEFAULT_TOLERANCE


def _metric_reference(tolerance: float | None, metric: ResolvedMetric | None) -> float | None:
    """Return 0 where the tolerance is relative, until the score of chance is known; None where it is a difference."""
    return None if tolerance is not None and metric is not None and metric.is_absolute else 0.0


def as_seed(random_state: int | None) -> int:
    """Return a random_state, checked; a new seed for None."""
    if random_state is None:
        return int(np.random.SeedSequence().generate_state(1)[0])
    if (
        isinstance(random_state, (bool, np.bool_))
        or not isinstance(random_state, (int, np.integer))
        or random_state < 0
    ):
        raise InputError(f"random_state must be a non-negative integer or None, got {shown(random_state)}.")
    return int(random_state)


def _tabulated_sizes(n_members: int, max_size: int) -> IntArray:
    largest = max(max_size, 2 * n_members)
    odd = np.minimum(np.geomspace(1, largest, N_SIZES).astype(np.int64) // 2 * 2 + 1, MAX_SIZE)
    return np.asarray(np.unique(np.append(odd, n_members)))


def _n_threads(n_jobs: int | None) -> int:
    """Return the number of threads that `n_jobs` stands for, in joblib's convention."""
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs == 0):
        raise InputError(f"n_jobs must be a whole number other than 0, or None, got {shown(n_jobs)}.")
    return int(effective_n_jobs(n_jobs))


@contextmanager
def granted_threads(n_jobs: int | None) -> Iterator[None]:
    """Grant the block as many threads as `n_jobs` stands for, and one to BLAS."""
    # With more threads, sums of BLAS depend on the number of cores, and BLAS competes with joblib's threads.
    with (
        parallel_config(backend="threading", n_jobs=_n_threads(n_jobs)),
        _thread_pools(len(sys.modules)).limit(limits=1, user_api="blas"),
    ):
        yield


@lru_cache(maxsize=1)
def _thread_pools(n_modules: int) -> ThreadpoolController:
    """Return the thread pools of the loaded libraries, searched for anew only if modules were imported since."""
    return ThreadpoolController()


def row_weights(sample_weight: ArrayLike | None, n_rows: int, metric: ResolvedMetric | None) -> NDArray[np.float64]:
    """Return the evaluation weight of each row, ones if none are given."""
    if sample_weight is not None:
        refuse_weighted_metric(metric, "sample_weight")
    weight = as_weight(sample_weight, n_rows, "sample_weight")
    n_effective = float(weight.sum()) ** 2 / float(weight @ weight)
    if sample_weight is not None and np.count_nonzero(weight) > 1 and n_effective < FEWEST_EFFECTIVE:
        raise InputError(
            f"One row has {100 * weight.max() / weight.sum():.3g} % of sample_weight, so these weights are worth "
            f"{n_effective:.3g} rows, whose spread is not known. Pass weights of less unequal size."
        )
    return weight


def refuse_weighted_metric(metric: ResolvedMetric | None, weights: str) -> None:
    """Raise InputError for a metric that takes no weights; `weights` is the name of the argument that holds some."""
    if metric is not None and not metric.takes_weights:
        raise InputError(
            f"The metric {metric.name!r} takes no weights: its function has no parameter sample_weight. Leave out "
            f"{weights}, or pass metric=f for a function f(y, mean_output, sample_weight=None)."
        )


NAMED_ROWS = 5


def target_array(y: Any, name: str = "y") -> NDArray[Any]:
    """Return a target as an array of its labels or values, without missing ones."""
    array = as_array(y, name)
    if array.dtype.kind == "T":
        array = array.astype(object)
    is_missing = _are_missing(with_missing(array, y), name)
    if array.ndim and is_missing.any():
        raise InputError(_missing_text(is_missing, name))
    return array


def encode_target(adapter: EnsembleAdapter, y: ArrayLike) -> NDArray[Any]:
    """Return y as label codes (int64) or finite values (float64), shape (n_rows,)."""
    target = target_array(y)
    if adapter.info.n_outputs > 1:
        raise UnsupportedModelError(several_targets(type(adapter.model).__name__, adapter.info.n_outputs))
    if target.ndim == 2 and target.shape[1] == 1:
        target = target[:, 0]
    if target.size == 0:
        raise InputError("y is empty; pass the true labels or values of the rows.")
    # First, because a target of the library's own form is not a column of labels or values.
    own = adapter.encode_target(target) if target.ndim else None
    if target.ndim != 1:
        raise InputError(
            f"y must have one dimension, got shape {target.shape}. Pass one column; if the ensemble was trained on "
            "several, the k-th of ens_plugin.split_outputs(model) with y[:, k]."
        )
    if own is not None:
        return np.asarray(own, dtype=np.float64 if adapter.classes is None else np.int64)
    if adapter.classes is None:
        return _real_values(target, adapter)
    return _label_codes(target, adapter.classes)


def evaluation_weights(
    adapter: EnsembleAdapter, target: NDArray[Any], sample_weight: ArrayLike | None
) -> ArrayLike | None:
    """Return the user's weights, times those that the adapter gives rows because of their target."""
    own = adapter.target_weights(target)
    if own is None or sample_weight is None:
        return sample_weight if own is None else own
    given = as_values(sample_weight, "sample_weight", target.shape[0])
    return np.asarray(given * own)


def refuse_own_weights(adapter: EnsembleAdapter, what: str) -> None:
    """Raise UnsupportedModelError if an adapter weights rows by their target, in a function that takes no weights."""
    if adapter.offers("target_weights"):
        raise UnsupportedModelError(
            f"{what} counts all rows alike, and rows of this {type(adapter.model).__name__} are weighted by "
            "their target, because some are censored. Pass the model and its target to ens_plugin.analyze, on one "
            "machine."
        )


def refuse_own_loss(adapter: EnsembleAdapter, what: str) -> None:
    """Raise UnsupportedModelError for an ensemble that is judged by its own loss, in a function with another loss."""
    if adapter.loss_name is not None:
        raise UnsupportedModelError(
            f"{what} is about labels or squared errors, and this {type(adapter.model).__name__} is judged by "
            f"{adapter.loss_name}. Pass the model and its target to ens_plugin.analyze, on one machine."
        )


def _are_missing(array: NDArray[Any], name: str) -> BoolArray:
    kind = array.dtype.kind
    if kind in "fc":
        return np.asarray(~np.isfinite(array))
    if kind in "mM":
        return np.asarray(np.isnat(array))
    if kind != "O":
        return np.zeros(array.shape, dtype=bool)
    try:
        return np.array([_is_missing(value) for value in array.flat], dtype=bool).reshape(array.shape)
    except Exception as error:  # a user's class may raise anything where it is compared
        raise InputError(
            f"{name} holds values that cannot be compared ({type(error).__name__}); use numbers."
        ) from error


def _is_missing(value: Any) -> bool:
    """Return whether a value is None, or not equal to itself: NaN, NaT, and pandas.NA, whose comparison is no bool."""
    itself = value == value
    return value is None or not (isinstance(itself, (bool, np.bool_)) and bool(itself))


def _missing_text(is_missing: BoolArray, name: str) -> str:
    n_missing, rows = int(np.count_nonzero(is_missing)), np.unique(np.nonzero(is_missing)[0])
    named = ", ".join(map(str, rows[:NAMED_ROWS].tolist())) + (", ..." if rows.size > NAMED_ROWS else "")
    return (
        f"{name} holds {counted(n_missing, 'missing value')} (None, NaN, pandas.NA or infinite), in "
        f"row{'s' * (rows.size > 1)} {named}; leave these rows out or fill them in."
    )


def _real_values(target: NDArray[Any], adapter: EnsembleAdapter) -> NDArray[np.float64]:
    try:
        if target.dtype.kind in "cmM":
            raise TypeError(f"dtype {target.dtype}")
        values = target.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"y must hold numbers for a regression ensemble ({one_line(str(error))}).{_remedy(adapter)}"
        ) from error
    largest = float(np.abs(values).max())
    if not largest <= LARGEST_VALUE:
        raise InputError(
            f"y holds values beyond {LARGEST_VALUE:g}, and powers of their errors overflow; divide y by a number and "
            "train the model on these values."
        )
    if 0 < largest < 1 / LARGEST_VALUE:
        raise InputError(
            f"No value of y is beyond {largest:g}, and powers of so small errors vanish; multiply y by a number and "
            "train the model on these values."
        )
    return values


def _label_codes(target: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.int64]:
    labels, codes, which = find_labels(target, classes, "y")
    unknown = [label for label, code in zip(labels, codes, strict=True) if code is None]
    if unknown:
        raise InputError(
            f"y holds labels that the ensemble does not have: {shown(unknown[:5])}; its labels are "
            f"{shown(classes.tolist()[:10])}. Pass the labels as the ensemble was trained on them"
            f"{_label_hint(unknown, classes)}."
        )
    if len(labels) < 2:
        raise InputError(
            # Estimator checks of scikit-learn look for the word "class".
            f"y holds a single label, {shown(labels[0])}: the error of one class does not describe the "
            "others. Pass rows of at least two classes."
        )
    return np.array(codes, dtype=np.int64)[which]


def _label_hint(unknown: list[Any], classes: NDArray[Any]) -> str:
    """Return how labels of another type become those of the ensemble; empty where the type is not the reason."""
    are_known_as_text = {str(label) for label in unknown} <= {str(label) for label in classes.tolist()}
    if are_known_as_text and all(isinstance(label, str) for label in classes.tolist()):
        return ": the ensemble's labels are texts and those of y are not, so convert y, with y.astype(str) for example"
    if classes.dtype.kind not in "biu" or not any(isinstance(label, str) for label in unknown):
        return ""
    if are_known_as_text:
        return (
            ": the labels of y are texts and the ensemble's are numbers, so convert y, with "
            f"y.astype({classes.dtype.name!r}) for example"
        )
    return ": the labels of y are texts and the ensemble's are numbers, as a booster's always are, so pass their codes"


def _remedy(adapter: EnsembleAdapter) -> str:
    """Return what to do where models that predict labels were taken for regressors."""
    if adapter.info.bag_provenance != "given":
        return ""
    return " If its members predict labels, pass all labels as classes, because their models have no classes_."
