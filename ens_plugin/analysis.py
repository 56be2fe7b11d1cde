"""The whole road: a trained ensemble and its rows in, one report out."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from importlib.metadata import version
from typing import Any, Literal

import numpy as np
from joblib import parallel_config
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import threadpool_limits

from ens_plugin.adapters.base import EnsembleAdapter, find_adapter
from ens_plugin.adapters.wrappers import unwrap
from ens_plugin.arguments import encode_target, n_threads, resolve_settings, row_weights, within_reach
from ens_plugin.collection import Evidence, Progress, collect
from ens_plugin.core.bags import Bags
from ens_plugin.core.paired_losses import row_losses
from ens_plugin.core.tally import AnyTally, SupportTally, ValueTally, select_rows
from ens_plugin.errors import DataMismatchError, InputError, TooFewMembersError
from ens_plugin.estimation import Estimates, Settings, estimate_classification, estimate_regression
from ens_plugin.metric_curve import with_metric_curve
from ens_plugin.report import EnsembleReport

__all__ = ["analyze", "analyze_rows", "in_bag", "run_analysis"]

Metric = Callable[[NDArray[Any], NDArray[Any]], float]
RowChoice = Callable[[EnsembleAdapter, Any, Bags], NDArray[np.intp] | None]


def analyze(
    model: Any,
    X: Any,
    y: ArrayLike,
    *,
    data: Literal["oob", "holdout"] = "oob",
    sample_weight: ArrayLike | None = None,
    metric: Metric | None = None,
    confidence: float = 0.99,
    tolerance: float = 0.01,
    max_size: int = 20001,
    interval_level: float = 0.95,
    sizes: ArrayLike | None = None,
    estimator: str = "auto",
    random_state: int | None = 0,
    n_jobs: int | None = None,
) -> EnsembleReport:
    """Tell how a trained ensemble's error depends on its size, and how many members it needs.

    Nothing is trained.  On the training rows, each row is judged only by the members that never saw
    it (its out-of-bag members).

    Parameters
    ----------
    model : fitted ensemble
        A scikit-learn forest or bagging ensemble, a LightGBM forest in ``rf`` mode or an XGBoost booster of
        parallel trees, also inside a Pipeline or a search, or a :class:`ens_plugin.CustomEnsemble`, or
        anything a registered adapter accepts.
    X : array-like of shape (n_rows, n_features)
        With ``data="oob"``, exactly the training rows in training order; with ``data="holdout"``,
        rows that no member saw.  None for a CustomEnsemble of arrays.
    y : array-like of shape (n_rows,)
        True labels or values of these rows.
    data : {"oob", "holdout"}, default="oob"
    sample_weight : array-like of shape (n_rows,), optional
        Weights of the rows in the evaluation; intervals use Kish's effective number of rows.  How
        rows were drawn into bags comes from the model itself.
    metric : callable, optional
        ``metric(y, mean_output) -> float``, lower is better, smooth in the mean output (probabilities
        of shape (n_rows, n_labels), or values).  None means 0-1 error or mean squared error.
    confidence : float, default=0.99
        Classification: wanted mean agreement with the infinite ensemble, in (0.5, 1).
    tolerance : float, default=0.01
        Regression: wanted excess error relative to that of the infinite ensemble.
    max_size : int, default=20001
        Largest size to look at.
    interval_level : float, default=0.95
        Level of all intervals.
    sizes : array-like of int, optional
        Sizes to tabulate, besides the current one; about 200 log-spaced ones by default.
    estimator : {"auto", "deconvolved", "hypergeometric", "binomial", "path", "closed_form"}
        How the curve is estimated; see ``docs/methods.md``.  The recommendation always comes from
        the default estimator.
    random_state : int or None, default=0
        Seed of the subsets and draws behind intervals.  Same input, same seed: same report.
    n_jobs : int or None, default=None
        Threads, joblib's convention.  The result does not depend on it.

    Returns
    -------
    EnsembleReport

    Raises
    ------
    EnsPluginError
        One of its kinds in :mod:`ens_plugin.errors`: the model is not fitted or not supported, was
        trained without bootstrap, the rows are not the training rows, labels are unknown or missing,
        members or rows are too few, an option is out of range.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import ens_plugin
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> forest = RandomForestClassifier(200, random_state=0).fit(X, y)
    >>> report = ens_plugin.analyze(forest, X, y)
    >>> report.recommended_size < 200
    True
    """
    return run_analysis(
        model,
        X,
        y,
        data=data,
        sample_weight=sample_weight,
        metric=metric,
        confidence=confidence,
        tolerance=tolerance,
        max_size=max_size,
        interval_level=interval_level,
        sizes=sizes,
        estimator=estimator,
        random_state=random_state,
        n_jobs=n_jobs,
    )


def run_analysis(
    model: Any,
    X: Any,
    y: ArrayLike,
    *,
    data: str = "oob",
    sample_weight: ArrayLike | None = None,
    metric: Metric | None = None,
    random_state: int | None = 0,
    n_jobs: int | None = None,
    progress: Progress | None = None,
    choose_rows: RowChoice | None = None,
    **options: Any,
) -> EnsembleReport:
    """Do what :func:`analyze` does, reporting progress: ``progress(blocks, total)`` wraps an iterable.

    ``choose_rows(adapter, features, bags)`` may name training rows, in ascending order, to judge by in place of all.
    """
    return _analyzed(
        model, X, y, data, sample_weight, metric=metric, random_state=random_state, n_jobs=n_jobs, progress=progress,
        choose_rows=choose_rows, **options,
    )[0]  # fmt: skip


def analyze_rows(model: Any, X: Any, y: ArrayLike, *, data: str) -> tuple[EnsembleReport, NDArray[np.float64]]:
    """Do what :func:`analyze` does by default, and tell the loss of each row too.

    Returns
    -------
    report : EnsembleReport
    losses : ndarray, shape (n_rows,)
        0-1 loss or squared error of the members that never saw the row, put together; NaN without such members.

    Raises
    ------
    EnsPluginError
        As :func:`analyze`.
    """
    report, tally = _analyzed(
        model, X, y, data, None, metric=None, random_state=0, n_jobs=None, progress=None, choose_rows=None
    )
    return report, row_losses(tally)


def _analyzed(
    model: Any,
    X: Any,
    y: ArrayLike,
    data: str,
    sample_weight: ArrayLike | None,
    *,
    metric: Metric | None,
    random_state: int | None,
    n_jobs: int | None,
    progress: Progress | None,
    choose_rows: RowChoice | None,
    **options: Any,
) -> tuple[EnsembleReport, AnyTally]:
    ensemble, rows = unwrap(model, X)
    adapter = find_adapter(ensemble)
    settings = resolve_settings(adapter, data=data, metric=metric, random_state=random_state, **options)
    target = encode_target(adapter, y)
    labels, chosen = np.asarray(y), None
    weight = row_weights(sample_weight, target.size, metric)
    features = _prepared(adapter, rows, target.size)
    adapter.check_members(features)
    # One BLAS thread: its sums otherwise depend on the number of cores, and threads of ours would compete with it.
    with (
        parallel_config(backend="threading", n_jobs=n_threads(n_jobs)),
        threadpool_limits(limits=1, user_api="blas"),
    ):
        if data == "oob":
            bags = adapter.bags(rows, features, labels)
            chosen = None if choose_rows is None else choose_rows(adapter, features, bags)
            if chosen is not None:
                features, bags = features[chosen], bags.take(chosen)
                labels, target, weight = labels[chosen], target[chosen], weight[chosen]
        else:
            bags = None
            _refuse_training_rows(adapter, features, labels)
        evidence = collect(
            adapter,
            features,
            bags,
            target,
            weight,
            with_path=settings.estimator == "path",
            rng=np.random.default_rng(settings.random_state),
            progress=progress,
        )
        del bags, features
        _compare_with_stored(adapter, evidence, data, chosen)
        usable = _usable_rows(evidence, adapter.n_members)
        if options.get("sizes") is None:
            settings = within_reach(settings, evidence.tally.trials[usable])
        estimates = _estimate(adapter, evidence, usable, settings)
        if metric is not None:
            estimates = with_metric_curve(estimates, metric, adapter, evidence.sample, labels, settings)
    return _report(adapter, evidence, usable, estimates, settings), evidence.tally


def in_bag(model: Any, X: Any, y: ArrayLike | None = None) -> NDArray[np.bool_]:
    """Tell which training rows each member of an ensemble was trained on.

    Parameters
    ----------
    model : fitted ensemble
        As for :func:`analyze`.
    X : array-like of shape (n_rows, n_features)
        The training rows, in training order.
    y : array-like of shape (n_rows,), optional
        The training target, for a sharper check that these are the training rows.

    Returns
    -------
    ndarray of bool, shape (n_members, n_rows)
        For XGBoost, one row per tree in the booster's order, whatever the rounds and classes.

    Raises
    ------
    BagError
        If the bags cannot be known, or there are none (no bootstrap).
    DataMismatchError
        If these are not the training rows in training order, as far as can be told.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> import ens_plugin
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(10, random_state=0).fit(X, y)
    >>> ens_plugin.in_bag(forest, X).shape
    (10, 150)
    """
    ensemble, rows = unwrap(model, X)
    adapter = find_adapter(ensemble)
    features = adapter.prepare(rows)
    return adapter.bags(rows, features, None if y is None else np.asarray(y)).in_bag()


def _prepared(adapter: EnsembleAdapter, rows: Any, n_targets: int) -> Any:
    features = adapter.prepare(rows)
    if features.shape[0] == 0:
        raise InputError("X has no rows; pass the rows to judge the ensemble by.")
    if features.shape[0] != n_targets:
        raise InputError(f"X has {features.shape[0]} rows and y has {n_targets}; they must be the same rows.")
    return features


def _refuse_training_rows(adapter: EnsembleAdapter, features: Any, y: ArrayLike) -> None:
    if adapter.are_training_rows(features, np.asarray(y)):
        raise DataMismatchError(
            "These are the rows the model was trained on: its members know them, and the error would come out far too "
            'low. Leave out data="holdout" to judge every row by the members that never saw it, or pass rows that '
            "were not used for training."
        )


def _compare_with_stored(
    adapter: EnsembleAdapter, evidence: Evidence, data: str, chosen: NDArray[np.intp] | None
) -> None:
    """Refuse rows for which the library's own stored out-of-bag outputs differ from ours."""
    stored = adapter.stored_oob_outputs() if data == "oob" else None
    if stored is None:
        return
    sample = evidence.sample
    ours = sample.mean_outputs()
    rows = sample.rows if chosen is None else chosen[sample.rows]
    theirs = np.asarray(stored, dtype=np.float64)[rows]
    known = sample.block.seen.any(axis=0) & np.isfinite(theirs.reshape(theirs.shape[0], -1)).all(axis=1)
    scale = max(float(np.abs(theirs[known]).max(initial=0.0)), 1e-12)
    differing = np.abs(ours - theirs).reshape(known.size, -1).max(axis=1) > 1e-4 * scale
    if np.any(differing & known):
        raise DataMismatchError(
            f"{np.count_nonzero(differing & known)} of {np.count_nonzero(known)} rows get other out-of-bag outputs "
            "than the model stored when it was trained. X and y must be the training rows in training order; for other "
            "rows pass data='holdout'."
        )


def _usable_rows(evidence: Evidence, n_members: int) -> NDArray[np.bool_]:
    """Rows about which enough members speak: one hard vote, or two outputs for a variance."""
    tally = evidence.tally
    hard = isinstance(tally, SupportTally) and np.array_equal(tally.wrong, tally.squares)
    few = np.count_nonzero(tally.trials < 2)
    if few > tally.trials.size / 2:
        _refuse_one_bag(tally.trials, n_members)
        raise TooFewMembersError(
            f"{few} of {tally.trials.size} rows have fewer than 2 out-of-bag members (mean {tally.trials.mean():.2f}): "
            "too few to tell one member's luck from the ensemble's error. Train more members, leave more rows out of "
            "each bag (smaller max_samples), or pass held-out rows with data='holdout'."
        )
    usable = (tally.trials >= (1 if hard else 2)) & (evidence.weight > 0)
    if not usable.any():
        raise InputError("sample_weight is 0 for every row that has out-of-bag members; give some of them weight.")
    return np.asarray(usable)


def _refuse_one_bag(trials: NDArray[np.float64], n_members: int) -> None:
    n_shared = int(np.count_nonzero(trials == 0))
    if n_members < 2 or n_shared == trials.size or not np.isin(trials, (0, n_members)).all():
        return
    raise TooFewMembersError(
        f"All {n_members} members were trained on the same {n_shared} of {trials.size} rows, so the others are out of "
        "bag for all of them. Pass those alone with data='holdout' (ens_plugin.in_bag tells which they are), or train "
        "so that every member draws rows of its own: with tree_method='hist' for XGBoost, whose 'approx' draws once "
        "for all parallel trees, or with bagging_freq=1 for LightGBM."
    )


def _estimate(adapter: EnsembleAdapter, evidence: Evidence, usable: NDArray[np.bool_], settings: Settings) -> Estimates:
    sample = evidence.sample.keep(usable)
    weight = evidence.weight if usable.all() else evidence.weight[usable]
    tally = select_rows(evidence.tally, usable)
    if isinstance(tally, ValueTally):
        return estimate_regression(tally, sample, evidence.path, weight, adapter.n_members, settings)
    bounded = adapter.output_kind != "scores"
    return estimate_classification(tally, sample, evidence.path, weight, adapter.n_members, settings, bounded=bounded)


def _report(
    adapter: EnsembleAdapter,
    evidence: Evidence,
    usable: NDArray[np.bool_],
    estimates: Estimates,
    settings: Settings,
) -> EnsembleReport:
    dropped = int(np.count_nonzero(~usable & (evidence.weight > 0)))
    return EnsembleReport(
        task=adapter.task,
        model=type(adapter.model).__name__,
        n_members=adapter.n_members,
        n_rows=int(np.count_nonzero(usable)),
        rows_without_oob=dropped,
        mean_oob_members=float(evidence.tally.trials[usable].mean()),
        aggregation=adapter.aggregation,
        bags=adapter.bags_are if settings.data == "oob" else "holdout",
        data="oob" if settings.data == "oob" else "holdout",
        error_curve=estimates.error_curve,
        recommendation=estimates.recommendation,
        bias_variance=estimates.bias_variance,
        algorithmic_sd=estimates.algorithmic_sd,
        algorithmic_sd_is_bound=settings.data == "oob",
        warnings=_cautions(adapter, estimates, evidence.weight[usable], dropped, settings),
        created=datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
        versions={name: version(name) for name in ("ens-plugin", "numpy", "scipy", *adapter.distributions())},
    )


def _cautions(
    adapter: EnsembleAdapter, estimates: Estimates, weight: NDArray[np.float64], dropped: int, settings: Settings
) -> tuple[str, ...]:
    cautions = list(adapter.cautions(settings.data))
    if settings.data == "oob" and not adapter.checks_training_rows():
        cautions.append(
            "Nothing in this model tells whether these rows are its training rows in training order; were they not, "
            "the error would come out far too low. Fit with oob_score=True to have it checked."
        )
    relative = weight / weight.max()
    n_effective = float(relative.sum() ** 2 / (relative @ relative))
    if n_effective < 30:
        cautions.append(f"Only {n_effective:.3g} rows: every figure is rough.")
    if dropped:
        cautions.append(f"{dropped} rows had too few out-of-bag members and were left out.")
    raw = estimates.error_curve.asymptote_raw
    if raw < 0:
        cautions.append(f"The error of the infinite ensemble was estimated at {raw:.4g} and is reported as 0.")
    return tuple(cautions)
