"""Scorers of scikit-learn, by name or as objects, evaluated on the mean outputs of an ensemble."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from inspect import signature
from math import inf
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import get_scorer, get_scorer_names

from ens_plugin.analysis.metrics.resolved import ResolvedMetric, accepts_weights
from ens_plugin.analysis.metrics.stored_outputs import LabelOutputs, ProbabilityOutputs, ScoreOutputs, ValueOutputs
from ens_plugin.core.validation import one_line, shown
from ens_plugin.errors import EnsPluginError, InputError
from ens_plugin.records import record

__all__ = [
    "RANKED",
    "RANKINGS",
    "NoPositiveLabelError",
    "has_greatest",
    "is_of_scikit_learn",
    "is_scorer",
    "resolve_scorer",
    "scorer_called",
]

N_NEAR = 5
# Ranges of functions in sklearn.metrics with greater values for better predictions; infinite where there is no bound.
SHARES = (
    "accuracy_score", "average_precision_score", "f1_score", "fbeta_score", "jaccard_score", "precision_score",
    "recall_score", "roc_auc_score", "top_k_accuracy_score", "completeness_score", "homogeneity_score",
    "fowlkes_mallows_score", "normalized_mutual_info_score", "rand_score", "v_measure_score",
)  # fmt: skip
RANKINGS = ("average_precision_score", "roc_auc_score")
# The argument of make_scorer that they need.
RANKED = ", response_method='predict_proba'"
CORRELATIONS = (
    "matthews_corrcoef", "cohen_kappa_score", "balanced_accuracy_score", "adjusted_mutual_info_score",
    "adjusted_rand_score",
)  # fmt: skip
OF_VALUES = (
    "d2_absolute_error_score", "d2_pinball_score", "d2_tweedie_score", "explained_variance_score", "max_error",
    "mean_absolute_error", "mean_absolute_percentage_error", "mean_gamma_deviance", "mean_pinball_loss",
    "mean_poisson_deviance", "mean_squared_error", "mean_squared_log_error", "mean_tweedie_deviance",
    "median_absolute_error", "r2_score", "root_mean_squared_error", "root_mean_squared_log_error",
)  # fmt: skip
OF_LABELS = (
    *SHARES, *CORRELATIONS, "brier_score_loss", "log_loss", "hamming_loss", "hinge_loss", "zero_one_loss",
    "d2_brier_score", "d2_log_loss_score", "negative_likelihood_ratio", "positive_likelihood_ratio",
)  # fmt: skip
AT_MOST_ONE = (
    "d2_absolute_error_score", "d2_brier_score", "d2_log_loss_score", "d2_pinball_score", "d2_tweedie_score",
    "explained_variance_score", "r2_score",
)  # fmt: skip
# Scores that constant predictions have by their definition; of others, chance is computed.
NO_CHANCE = (
    *AT_MOST_ONE, "matthews_corrcoef", "cohen_kappa_score", "adjusted_mutual_info_score", "adjusted_rand_score",
)  # fmt: skip
# Of these, a constant prediction has 0 or the highest value.  Their chance is that of labels drawn by their shares.
OF_DRAWN_LABELS = ("f1_score", "fbeta_score", "jaccard_score", "precision_score", "recall_score")


class NoPositiveLabelError(InputError):
    """Raised where a scorer is about one of two labels, and neither is that of scikit-learn."""


class _Parts(NamedTuple):
    """The function of a scorer, and how the scorer calls it.

    Attributes
    ----------
    name : str
        Of its function.
    function : str
        The same for a function of scikit-learn whose range is that of the tables above; else empty.
    is_negated, takes_weights : bool
    """

    name: str
    function: str
    is_negated: bool
    takes_weights: bool


@record
class _Scorer:
    """A scorer, called with mean outputs in place of an estimator and its rows."""

    name: str
    scorer: Callable[..., float]
    estimator: Any

    def __call__(self, target: NDArray[Any], mean: NDArray[Any], weight: NDArray[Any] | None) -> float:
        weights = {} if weight is None else {"sample_weight": weight}
        try:
            return float(self.scorer(self.estimator, mean, target, **weights))
        except EnsPluginError as error:
            raise InputError(f"metric {self.name!r}: {error}") from error
        except Exception as error:  # scorers may call functions of a user's own
            _refuse_failed(self.name, error, getattr(self.estimator, "classes", None))


@record
class _Chance:
    """What predictions score that know of the rows only how often each label occurs, or the mean of the values."""

    function: str
    scorer: _Scorer
    classes: NDArray[Any] | None

    def __call__(self, target: NDArray[Any], weight: NDArray[Any] | None) -> float:
        if self.classes is None or self.function in NO_CHANCE:
            return 0.0
        codes, n_labels = np.searchsorted(self.classes, target), self.classes.size
        shares = np.bincount(codes, weight, n_labels) / (codes.size if weight is None else weight.sum())
        if self.function in OF_DRAWN_LABELS:
            pairs = np.outer(shares, shares).reshape(-1)
            return self.scorer(np.repeat(self.classes, n_labels), np.tile(np.eye(n_labels), (n_labels, 1)), pairs)
        return self.scorer(target, np.tile(shares, (codes.size, 1)), weight)


def is_scorer(metric: object) -> bool:
    """Return whether a metric is an object that ``sklearn.metrics.make_scorer`` made.

    Examples
    --------
    >>> from sklearn.metrics import f1_score, make_scorer
    >>> is_scorer(make_scorer(f1_score)), is_scorer(f1_score)
    (True, False)
    """
    return isinstance(metric, type(get_scorer("accuracy")))


def scorer_called(name: str) -> Callable[..., float]:
    """Return scikit-learn's scorer of a name.

    Raises
    ------
    InputError
        If there is none; the message has the names that are near.

    Examples
    --------
    >>> scorer_called("roc_auk")
    Traceback (most recent call last):
        ...
    ens_plugin.errors.InputError: metric='roc_auk' is no name of a scorer of scikit-learn; near are 'roc_auc', ...
    """
    known = get_scorer_names()
    if name in known:
        found: Callable[..., float] = get_scorer(name)
        return found
    near = get_close_matches(name[:80].lower(), known, n=N_NEAR, cutoff=0.5)
    hint = f"near are {', '.join(map(repr, near))}. " if near else ""
    raise InputError(
        f"metric={shown(name)} is no name of a scorer of scikit-learn; {hint}sklearn.metrics.get_scorer_names() "
        "returns all; sklearn.metrics.make_scorer makes one of any function."
    )


def is_of_scikit_learn(function: object) -> bool:
    """Return whether a function is one of ``sklearn.metrics``.

    Examples
    --------
    >>> from sklearn.metrics import f1_score
    >>> is_of_scikit_learn(f1_score), is_of_scikit_learn(len)
    (True, False)
    """
    return str(getattr(function, "__module__", "")).startswith("sklearn.metrics.")


def has_greatest(function: object) -> bool:
    """Return whether a function is one of scikit-learn's of which greater values are better."""
    name = getattr(function, "__name__", "")
    return is_of_scikit_learn(function) and name in (*SHARES, *CORRELATIONS, *AT_MOST_ONE)


def resolve_scorer(
    name: str | None, scorer: Callable[..., float], classes: NDArray[Any] | None, output_kind: str
) -> ResolvedMetric:
    """Return a scorer of scikit-learn as a metric of y and mean outputs.

    Parameters
    ----------
    name : str or None
        Name of the scorer; None for an object. An object has the name of scikit-learn's scorer that it differs from in
        the positive label at most, or that of its function.
    scorer : callable
    classes : ndarray, shape (n_labels,), or None
        Labels in the order of the outputs; None for regression.
    output_kind : str
        ``"labels"``, ``"probabilities"``, ``"values"``, or ``"scores"`` where no inverse link makes them probabilities.

    Raises
    ------
    InputError
        If the scorer is for the other task, or needs another name for more than two labels.
    """
    parts = _parts(scorer)
    known = name or _name_of(scorer)
    called = known or one_line(("neg_" if parts.is_negated else "") + parts.name)
    _refuse_other_task(called, parts.function, is_classifier=classes is not None)
    if called == "roc_auc" and classes is not None and classes.size > 2:
        raise InputError(
            f"metric 'roc_auc' is for two labels, and this ensemble has {classes.size}. Use 'roc_auc_ovr' (each label "
            "against the others) or 'roc_auc_ovo' (pairs of labels)."
        )
    lowest, highest = _range(parts, is_named=known is not None)
    evaluate = _Scorer(called, scorer, _estimator(classes, output_kind))
    is_absolute = bool(np.isfinite(highest)) and not parts.is_negated
    return ResolvedMetric(
        name=called,
        evaluate=evaluate,
        greater_is_better=True,
        lowest=lowest,
        highest=highest,
        is_absolute=is_absolute,
        takes_weights=parts.takes_weights,
        compares_rows=parts.function in RANKINGS,
        is_share=parts.function in AT_MOST_ONE,
        positive_label=_named_label(scorer),
        chance=_Chance(parts.function, evaluate, classes) if is_absolute else None,
    )


def _parts(scorer: Callable[..., float]) -> _Parts:
    # scikit-learn has no public way to what a scorer was made of; these names are in all versions since 0.14.
    function = getattr(scorer, "_score_func", scorer)
    negated = getattr(scorer, "_sign", 1) < 0
    counts_rows = getattr(scorer, "_kwargs", {}).get("normalize", True) is False
    own_name = getattr(function, "__name__", None)
    name = own_name if isinstance(own_name, str) else type(function).__name__
    known = name if is_of_scikit_learn(function) and not counts_rows else ""
    return _Parts(name, known, negated, accepts_weights(function))


def _named_label(scorer: Callable[..., float]) -> str | None:
    label = getattr(scorer, "_kwargs", {}).get("pos_label")
    return None if label is None else str(label)


def _name_of(scorer: Callable[..., float]) -> str | None:
    """Return the name of scikit-learn's scorer that a scorer differs from in the positive label at most, or None."""
    if not is_of_scikit_learn(getattr(scorer, "_score_func", scorer)):
        return None
    own = _content(scorer)
    return next((name for name in get_scorer_names() if _content(get_scorer(name)) == own), None)


def _content(scorer: Callable[..., float]) -> tuple[object, ...]:
    """Return what the values of a scorer depend on, without its positive label."""
    # As in _parts, no public name leads to it.
    function, given = getattr(scorer, "_score_func", scorer), getattr(scorer, "_kwargs", {})
    options = {key: each.default for key, each in signature(function).parameters.items()} | given | {"pos_label": None}
    takes_labels = getattr(scorer, "_response_method", "predict") == "predict"
    # As text, because arrays, such as labels=np.array([0, 1]), have no single truth value when compared.
    return function, getattr(scorer, "_sign", 1), takes_labels, {key: repr(value) for key, value in options.items()}


def _range(parts: _Parts, *, is_named: bool) -> tuple[float, float]:
    if parts.is_negated:
        return (-inf, 0.0) if parts.function in (*OF_VALUES, *OF_LABELS) else (-inf, inf)
    if parts.function in SHARES or (is_named and parts.function == "balanced_accuracy_score"):
        return 0.0, 1.0
    if parts.function in CORRELATIONS:
        return -1.0, 1.0
    if parts.function in AT_MOST_ONE:
        return -inf, 1.0
    return (0.0, inf) if parts.function in (*OF_VALUES, *OF_LABELS) else (-inf, inf)


def _estimator(classes: NDArray[Any] | None, output_kind: str) -> Any:
    if classes is None:
        return ValueOutputs()
    kinds = {"labels": LabelOutputs, "scores": ScoreOutputs}
    return kinds.get(output_kind, ProbabilityOutputs)(np.asarray(classes))


def _refuse_other_task(name: str, function: str, *, is_classifier: bool) -> None:
    if is_classifier and function in OF_VALUES:
        raise InputError(
            f"metric={name!r} scores values, and this ensemble predicts labels. Use one of labels or probabilities, "
            "'roc_auc', 'neg_log_loss' or 'balanced_accuracy' for example."
        )
    if not is_classifier and function in OF_LABELS:
        raise InputError(
            f"metric {name!r} is for labels, and this ensemble predicts values. Use a metric of values, 'r2' or "
            "'neg_mean_absolute_error' for example."
        )


def _refuse_failed(name: str, error: Exception, classes: Sequence[Any] | None) -> NoReturn:
    """Raise InputError for a scorer that failed, with the remedy for the usual causes."""
    text = str(error)
    remedy = ""
    if "pos_label" in text:
        labels = "" if classes is None else f" The labels are {shown(np.asarray(classes).tolist()[:10])}."
        raise NoPositiveLabelError(
            f"metric {name!r} cannot be computed: {shown(error, 300)}.{labels} Name the positive one: positive_label, "
            "at the prompt --positive-label."
        ) from error
    if "multi_class" in text:
        remedy = " Use 'roc_auc_ovr' or 'roc_auc_ovo', which are of more than two labels."
    elif "average='binary'" in text:
        stem = name.removesuffix("_score")
        averages = [own for own in (f"{stem}_macro", f"{stem}_weighted") if own in get_scorer_names()]
        remedy = f" Use {' or '.join(map(repr, averages)) or 'make_scorer(function, average=...)'} for all labels."
    elif name in RANKINGS:
        remedy = (
            " It ranks rows: let it take probabilities, with make_scorer(function, response_method='predict_proba')."
        )
    raise InputError(f"metric {name!r} cannot be computed: {shown(error, 300)}.{remedy}") from error
