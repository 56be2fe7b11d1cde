"""Metrics by name, scorers and functions of the user: what they are, and what is known of scikit-learn's own."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from math import inf
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import get_scorer, get_scorer_names

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.analysis.formulas import KnownFormula, known_formula
from ens_plugin.analysis.options import Metric, ScorerOfLabel
from ens_plugin.core.tally import RowBlock
from ens_plugin.core.validation import counted, label_text, one_line, shown
from ens_plugin.errors import EnsPluginError, InputError
from ens_plugin.findings import Finding, finding

# With 120 rows of a rare label the area and the average precision out of bag were those on fresh rows; with 40 the
# average precision was 0.07 too low.
FEWEST_RANKED = 100
LIBRARY = r"sklearn\."


class Facts(NamedTuple):
    """What is known of a function in ``sklearn.metrics``: whose it is, its range, and what predictions by chance score.

    `chance` is that of ``"constant"`` predictions of the labels' shares, of labels ``"drawn"`` by them, or 0.
    """

    is_of_labels: bool
    lowest: float
    highest: float
    chance: str = ""


def _facts(facts: Facts, *names: str) -> dict[str, Facts]:
    return dict.fromkeys(names, facts)


KNOWN: Mapping[str, Facts] = {
    **_facts(
        Facts(True, 0.0, 1.0, "constant"), "accuracy_score", "average_precision_score", "roc_auc_score",
        "top_k_accuracy_score", "balanced_accuracy_score", "completeness_score", "homogeneity_score",
        "fowlkes_mallows_score", "normalized_mutual_info_score", "rand_score", "v_measure_score",
    ),
    # Of these, a constant prediction has 0 or the highest value.
    **_facts(
        Facts(True, 0.0, 1.0, "drawn"), "f1_score", "fbeta_score", "jaccard_score", "precision_score", "recall_score"
    ),
    **_facts(
        Facts(True, -1.0, 1.0), "matthews_corrcoef", "cohen_kappa_score", "adjusted_mutual_info_score",
        "adjusted_rand_score",
    ),
    **_facts(Facts(True, -inf, 1.0), "d2_brier_score", "d2_log_loss_score"),
    **_facts(
        Facts(False, -inf, 1.0), "d2_absolute_error_score", "d2_pinball_score", "d2_tweedie_score",
        "explained_variance_score", "r2_score",
    ),
    **_facts(
        Facts(True, 0.0, inf), "brier_score_loss", "log_loss", "hamming_loss", "hinge_loss", "zero_one_loss",
        "negative_likelihood_ratio", "positive_likelihood_ratio",
    ),
    **_facts(
        Facts(False, 0.0, inf), "max_error", "mean_absolute_error", "mean_absolute_percentage_error",
        "mean_gamma_deviance", "mean_pinball_loss", "mean_poisson_deviance", "mean_squared_error",
        "mean_squared_log_error", "mean_tweedie_deviance", "median_absolute_error", "root_mean_squared_error",
        "root_mean_squared_log_error",
    ),
}  # fmt: skip
RANKINGS = ("average_precision_score", "roc_auc_score")
# The argument of make_scorer that they need.
RANKED = ", response_method='predict_proba'"

Evaluate = Callable[[NDArray[Any], NDArray[Any], "NDArray[Any] | None"], float]
Chance = Callable[[NDArray[Any], "NDArray[Any] | None"], float]


@dataclass(frozen=True, eq=False)
class ResolvedMetric:
    """A metric of y and mean outputs, with its direction, its range and what its tolerance is relative to.

    Attributes
    ----------
    evaluate : callable
        ``evaluate(y, mean_output, sample_weight)``; y has the labels as the user gave them.
    is_absolute : bool
        Whether a given `tolerance` is a distance in the unit of the metric, not relative to the infinite ensemble's.
    compares_rows, is_share : bool
        Whether it ranks rows of one label against others; whether it is a share of the target's spread.
    is_of_labels : bool
        Whether it is a scorer of the labels with the largest outputs.
    chance : callable or None
        ``chance(y, sample_weight)`` returns what predictions score that know how often each label occurs alone.
    """

    name: str
    evaluate: Evaluate
    greater_is_better: bool
    lowest: float
    highest: float
    is_absolute: bool
    takes_weights: bool
    compares_rows: bool = False
    is_share: bool = False
    is_of_labels: bool = False
    formula: KnownFormula | None = None
    positive_label: str | None = None
    chance: Chance | None = None
    findings: tuple[Finding, ...] = ()

    def after(self, check: Callable[[], None]) -> ResolvedMetric:
        """Return a metric that calls `check`, which may raise an error, before each evaluation."""

        def evaluate(y: NDArray[Any], mean_output: NDArray[Any], sample_weight: NDArray[Any] | None) -> float:
            check()
            return self.evaluate(y, mean_output, sample_weight)

        return replace(self, evaluate=evaluate)

    def chance_level(self, target: NDArray[Any], weight: NDArray[Any] | None = None) -> float:
        """Return the score of chance on the weighted rows, which a default tolerance is relative to; 0 of losses."""
        if self.chance is None:
            return 0.0
        with warnings.catch_warnings():
            # They are about labels that nothing is predicted to be, which is so by chance.
            warnings.filterwarnings("ignore", category=UserWarning, module=LIBRARY)
            return self.chance(target, weight)

    def value(self, target: NDArray[Any], mean: NDArray[Any], weight: NDArray[Any] | None = None) -> float:
        """Return the metric of the target and the mean outputs, on the weighted rows where weights are given."""
        try:
            with warnings.catch_warnings():
                # A scorer is evaluated on hundreds of samples of the rows; warnings_on has its warnings on all rows.
                warnings.filterwarnings("ignore", category=UserWarning, module=LIBRARY)
                found = float(self.evaluate(target, mean, weight))
        except EnsPluginError:
            raise
        except Exception as error:  # a user's function may raise anything
            raise InputError(
                f"metric {self.name!r} failed on y of shape {target.shape} and mean output of shape {mean.shape}: "
                f"{shown(error)}"
            ) from error
        if not np.isfinite(found):
            better = "greater" if self.greater_is_better else "lower"
            raise InputError(
                f"metric {self.name!r} returned {found}; it must return a finite number, {better} is better."
            )
        return found

    def warnings_on(
        self, target: NDArray[Any], mean: NDArray[Any], weight: NDArray[Any] | None = None
    ) -> tuple[Finding, ...]:
        """Return the warnings that scikit-learn issues where the metric is computed on these rows, each once."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.filterwarnings("always", category=UserWarning, module=LIBRARY)
            self.evaluate(target, mean, weight)
        texts = dict.fromkeys(one_line(str(each.message)) for each in caught if "sklearn" in each.filename)
        return tuple(
            finding("warning-of-scikit-learn", f"scikit-learn warns of the {self.name}: {text}") for text in texts
        )


def ranking_notes(metric: ResolvedMetric, block: RowBlock) -> tuple[Finding, ...]:
    """Return a note where few out-of-bag rows of a label are ranked, each by members of its own."""
    if not metric.compares_rows or block.counted.all():
        return ()
    n_rows = np.bincount(block.target, minlength=block.n_labels)
    fewest = int(n_rows[n_rows > 0].min())
    if fewest >= FEWEST_RANKED:
        return ()
    sentence = (
        f"Only {counted(fewest, 'row has', 'rows have')} the rarest label, and {metric.name} ranks rows that "
        "different out-of-bag members predict: its level may be far from that on fresh rows. Compare it with that on "
        "held-out rows."
    )
    return (finding("few-ranked-rows", sentence, n_rows=fewest),)


class ValueOutputs(RegressorMixin, BaseEstimator):
    """Regressor that predicts the values it gets."""

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return X, shape (n_rows,)."""
        return X


class LabelOutputs(ClassifierMixin, BaseEstimator):
    """Classifier that gets mean outputs of shape (n_rows, n_labels), and predicts the label with the largest."""

    def __init__(self, classes: Any = None) -> None:
        self.classes = classes

    @property
    def classes_(self) -> Any:
        """Return the labels in the order of the columns."""
        return self.classes

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the label of the largest output of each row, the first one of equal ones."""
        return np.asarray(self.classes[np.argmax(X, axis=1)])

    def predict_proba(self, X: NDArray[Any]) -> NDArray[Any]:
        """Raise InputError: the outputs are shares of votes."""
        raise InputError(
            "the metric needs probabilities, and the members of this ensemble predict labels only, whose shares are no "
            "probabilities. Use a metric of labels, 'balanced_accuracy' or 'matthews_corrcoef' for example, or members "
            "with probabilities. To score the shares of votes on purpose, pass a function (y, mean_output) -> float."
        )


class ProbabilityOutputs(LabelOutputs):
    """Classifier whose rows are mean probabilities, which it predicts as they are, for scorers."""

    def predict_proba(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return X, shape (n_rows, n_labels)."""
        return X


class ScoreOutputs(LabelOutputs):
    """Classifier that gets mean raw scores, which no inverse link turns into probabilities."""

    def decision_function(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the scores; of two labels, by how much the second's is larger, shape (n_rows,)."""
        return np.asarray(X[:, 1] - X[:, 0]) if X.shape[1] == 2 else X

    def predict_proba(self, X: NDArray[Any]) -> NDArray[Any]:
        """Raise InputError: the outputs are scores."""
        raise InputError(
            "the metric needs probabilities, and this ensemble averages raw scores, which are none. Use a metric of "
            "rankings or labels, such as 'roc_auc' or 'balanced_accuracy'."
        )


ESTIMATORS: Mapping[str, type[LabelOutputs]] = {
    "labels": LabelOutputs, "scores": ScoreOutputs, "probabilities": ProbabilityOutputs
}  # fmt: skip


class NoPositiveLabelError(InputError):
    """Raised where a scorer is about one of two labels, and neither is that of scikit-learn."""


@dataclass(frozen=True, eq=False)
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


def _chance(scorer: _Scorer, kind: str, classes: NDArray[Any] | None) -> Chance:
    """Return what predictions score that know of the rows only how often each label occurs, or the mean of values."""

    def chance(target: NDArray[Any], weight: NDArray[Any] | None) -> float:
        if classes is None or not kind:
            return 0.0
        codes, n_labels = np.searchsorted(classes, target), classes.size
        shares = np.bincount(codes, weight, n_labels) / (codes.size if weight is None else weight.sum())
        if kind == "drawn":
            pairs = np.outer(shares, shares).reshape(-1)
            return scorer(np.repeat(classes, n_labels), np.tile(np.eye(n_labels), (n_labels, 1)), pairs)
        return scorer(target, np.tile(shares, (codes.size, 1)), weight)

    return chance


def is_scorer(metric: object) -> bool:
    """Return whether a metric is an object that ``sklearn.metrics.make_scorer`` made."""
    return isinstance(metric, type(get_scorer("accuracy")))


def scorer_called(name: str) -> Callable[..., float]:
    """Return scikit-learn's scorer of a name."""
    known = get_scorer_names()
    if name in known:
        found: Callable[..., float] = get_scorer(name)
        return found
    near = get_close_matches(name[:80].lower(), known, n=5, cutoff=0.5)
    hint = f"near are {', '.join(map(repr, near))}. " if near else ""
    raise InputError(
        f"metric={shown(name)} is no name of a scorer of scikit-learn; {hint}sklearn.metrics.get_scorer_names() "
        "returns all; sklearn.metrics.make_scorer makes one of any function."
    )


@dataclass(frozen=True, eq=False)
class _Parts:
    """What a scorer, or a function that is none, was made of; `options` differ from the function's own.

    scikit-learn has no public way to them; the names are those of all versions since 1.4.
    """

    function: Callable[..., Any]
    sign: int
    response: object
    options: Mapping[str, Any]

    @classmethod
    def of(cls, scorer: Callable[..., float]) -> _Parts:
        """Return the parts of a scorer or a function."""
        function, given = getattr(scorer, "_score_func", scorer), getattr(scorer, "_kwargs", {})
        own = {key: each.default for key, each in _parameters(function).items()}
        # As text, because arrays, such as labels=np.array([0, 1]), have no single truth value when compared.
        options = {
            key: value for key, value in given.items() if repr(value) != repr(own.get(key, inspect.Parameter.empty))
        }
        return cls(function, getattr(scorer, "_sign", 1), getattr(scorer, "_response_method", ""), options)

    @property
    def name(self) -> str:
        """Return the name of the function."""
        name = getattr(self.function, "__name__", None)
        return name if isinstance(name, str) else type(self.function).__name__

    @property
    def known(self) -> str:
        """Return the name where the function is one of scikit-learn whose values are those of the table, else ''."""
        is_own = str(getattr(self.function, "__module__", "")).startswith("sklearn.metrics.")
        return self.name if is_own and self.options.get("normalize", True) else ""

    @property
    def content(self) -> tuple[object, ...]:
        """Return what the values of a scorer depend on, without its positive label."""
        options = {key: repr(value) for key, value in self.options.items() if key != "pos_label"}
        return self.function, self.sign, self.response == "predict", options


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # functions written in C may have no signature
        return {}


def resolve_scorer(
    name: str | None, scorer: Callable[..., float], classes: NDArray[Any] | None, output_kind: str
) -> ResolvedMetric:
    """Return a scorer of scikit-learn as a metric of y and mean outputs."""
    parts = _Parts.of(scorer)
    called = name or _name_of(parts) or one_line(("neg_" if parts.sign < 0 else "") + parts.name)
    facts = KNOWN.get(parts.known)
    _refuse_other_task(called, facts, is_classifier=classes is not None)
    if called == "roc_auc" and classes is not None and classes.size > 2:
        raise InputError(
            f"metric 'roc_auc' is for two labels, and this ensemble has {classes.size}. Use 'roc_auc_ovr' (each label "
            "against the others) or 'roc_auc_ovo' (pairs of labels)."
        )
    lowest, highest = _range(parts, facts)
    estimator = ValueOutputs() if classes is None else ESTIMATORS[output_kind](np.asarray(classes))
    evaluate = _Scorer(called, scorer, estimator)
    is_absolute = bool(np.isfinite(highest)) and parts.sign > 0
    label = getattr(scorer, "_kwargs", {}).get("pos_label")
    return ResolvedMetric(
        name=called,
        evaluate=evaluate,
        greater_is_better=True,
        lowest=lowest,
        highest=highest,
        is_absolute=is_absolute,
        takes_weights="sample_weight" in _parameters(parts.function),
        compares_rows=parts.known in RANKINGS,
        is_share=facts is not None and (facts.lowest, facts.highest) == (-inf, 1.0),
        is_of_labels=classes is not None and parts.response == "predict",
        formula=None if output_kind == "scores" and parts.response != "predict" else _formula(parts, classes),
        positive_label=None if label is None else str(label),
        chance=_chance(evaluate, facts.chance if facts is not None else "", classes) if is_absolute else None,
    )


def _formula(parts: _Parts, classes: NDArray[Any] | None) -> KnownFormula | None:
    """Return the formula of a function of scikit-learn; the label 1, or the one that was named, is the positive one."""
    positive = parts.options.get("pos_label", 1)
    labels = [] if classes is None else np.asarray(classes).tolist()
    place = labels.index(positive) if positive in labels else len(labels) - 1
    is_of_labels = classes is not None and parts.response == "predict"
    found = known_formula(parts.known, parts.options, len(labels), place, is_of_labels=is_of_labels)
    return found if found is None or parts.sign > 0 else found.negated()


def _name_of(parts: _Parts) -> str | None:
    """Return the name of scikit-learn's scorer that a scorer differs from in the positive label at most, or None."""
    if not parts.known:
        return None
    return next((name for name in get_scorer_names() if _Parts.of(get_scorer(name)).content == parts.content), None)


def _range(parts: _Parts, facts: Facts | None) -> tuple[float, float]:
    """Return the least and the largest value of a scorer, infinite where they are not known."""
    if facts is None:
        return -inf, inf
    if parts.sign < 0:
        return -inf, 0.0
    return -1.0 if parts.options.get("adjusted") else facts.lowest, facts.highest


def _refuse_other_task(name: str, facts: Facts | None, *, is_classifier: bool) -> None:
    if facts is None or facts.is_of_labels == is_classifier:
        return
    if is_classifier:
        raise InputError(
            f"metric={name!r} scores values, and this ensemble predicts labels. Use one of labels or probabilities, "
            "'roc_auc', 'neg_log_loss' or 'balanced_accuracy' for example."
        )
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


def resolve_scorer_of_label(metric: ScorerOfLabel, classes: NDArray[Any] | None, output_kind: str) -> ResolvedMetric:
    """Return a scorer that counts one of two labels as positive, as a metric of y and mean outputs."""
    # The scorer gets the positive label as 1. The other label is 0 or 2, so that the order of the labels stays, which
    # decides ties.
    name, scorer = _named(metric.scorer)
    place = _place_of(metric.positive_label, classes)
    assert classes is not None
    codes = np.array([1, 2] if place == 0 else [0, 1])
    coded = resolve_scorer(name, scorer, codes, output_kind)
    if coded.positive_label is not None:
        raise InputError(
            f"The metric {coded.name!r} was made for the label {coded.positive_label!r}, and the positive label "
            f"{shown(metric.positive_label)} was given. Leave one of them out."
        )

    def evaluate(target: NDArray[Any], mean: NDArray[Any], weight: NDArray[Any] | None) -> float:
        return coded.evaluate(codes[(target == classes[1]).astype(np.intp)], mean, weight)

    def chance(target: NDArray[Any], weight: NDArray[Any] | None) -> float:
        return coded.chance_level(codes[(target == classes[1]).astype(np.intp)], weight)

    label = str(classes.tolist()[place])
    return replace(coded, evaluate=evaluate, positive_label=label, chance=coded.chance and chance)


def with_positive_label(
    metric: ResolvedMetric, scorer: str | Callable[..., float], classes: NDArray[Any], output_kind: str, y: Any
) -> ResolvedMetric:
    """Return a scorer of two labels as it is, or with the rarer one as positive where scikit-learn's own is neither."""
    try:
        metric.value(classes, np.eye(2))
    except NoPositiveLabelError:
        if y is None or metric.positive_label is not None:
            raise
    except InputError:  # two rows need not be enough for a metric
        return metric
    else:
        return metric
    labels = classes.tolist()
    counts = [int(np.count_nonzero(np.asarray(y).reshape(-1) == label)) for label in labels]
    place = 0 if counts[0] < counts[1] else 1
    found = resolve_scorer_of_label(ScorerOfLabel(scorer, str(labels[place])), classes, output_kind)
    sentence = (
        f"The {metric.name} is that of the label {labels[place]!r}, the rarer one: it is about one of two labels, and "
        f"neither is 1. For the other, pass positive_label={labels[1 - place]!r}, at the prompt --positive-label."
    )
    return replace(found, findings=(finding("assumed-positive-label", sentence),))


def _named(scorer: str | Callable[..., float]) -> tuple[str | None, Callable[..., float]]:
    if isinstance(scorer, str):
        return scorer, scorer_called(scorer)
    if not is_scorer(scorer):
        raise InputError(
            "A positive label was given, and the metric is a function, which gets the labels as they are. Leave the "
            "label out, or pass a scorer of scikit-learn."
        )
    return None, scorer


def _place_of(label: str, classes: NDArray[Any] | None) -> int:
    """Return the position of a label, given as text, among two labels."""
    if classes is None:
        raise InputError(
            f"The positive label {shown(label)} was given, and this ensemble predicts values. Leave it out, and take a "
            "metric of values, 'r2' or 'neg_mean_absolute_error' for example."
        )
    labels = classes.tolist()
    if len(labels) != 2:
        raise InputError(
            f"The positive label {shown(label)} was given, and this ensemble has {counted(len(labels), 'label')}; only "
            "one of two labels can be the positive one. Leave it out, and take a metric of several labels, such as "
            "'f1_macro'."
        )
    texts = [label_text(own) for own in labels]
    if texts.count(label_text(label)) != 1:
        raise InputError(
            f"The positive label {shown(label)} is not one of the two labels of this ensemble, {shown(labels)}. Give "
            "one of them."
        )
    return texts.index(label_text(label))


def resolve_metric(
    metric: Metric | None, adapter: EnsembleAdapter, y: ArrayLike | None = None
) -> ResolvedMetric | None:
    """Return the metric that a user named or passed, ready to be computed from y and mean outputs."""
    # For None, the loss of an ensemble that is judged by a loss of its own; None for any other ensemble.
    check_metric(metric)
    if metric is None:
        return None if adapter.loss_name is None else _own(adapter.loss, adapter.loss_name)
    kind = _outputs_of(adapter)
    if isinstance(metric, ScorerOfLabel):
        return resolve_scorer_of_label(metric, adapter.classes, kind)
    if isinstance(metric, str) or is_scorer(metric):
        found = resolve_scorer(*_named(metric), adapter.classes, kind)
        if adapter.classes is None or len(adapter.classes) != 2:
            return found
        return with_positive_label(found, metric, adapter.classes, kind, y)
    parts = _Parts.of(metric)
    if parts.known in KNOWN and np.isfinite(KNOWN[parts.known].highest):
        ranked = RANKED if parts.known in RANKINGS else ""
        raise InputError(
            f"metric={parts.name} is a function, and lower values of a function are taken as better, but greater "
            f"values of this one are better. Pass its name as in sklearn.metrics.get_scorer_names(), or make_scorer("
            f"{parts.name}{ranked})."
        )
    return _own(metric, one_line(parts.name), None if kind == "scores" else _formula(parts, adapter.classes))


def check_metric(metric: object) -> None:
    """Raise InputError for what is neither the name of a scorer of scikit-learn, nor a callable, nor None."""
    if isinstance(metric, str | ScorerOfLabel):
        name = metric if isinstance(metric, str) else metric.scorer
        if isinstance(name, str):
            scorer_called(name)
    elif metric is not None and not callable(metric):
        raise InputError(
            "metric must be the name of a scorer of scikit-learn, a scorer, a callable (y, mean_output) -> float, or "
            f"None, got {shown(metric)}."
        )


def _outputs_of(adapter: EnsembleAdapter) -> str:
    if adapter.info.aggregation == "vote":
        return "labels"
    has_no_link = type(adapter).inverse_link is EnsembleAdapter.inverse_link
    return "scores" if adapter.output_kind == "scores" and has_no_link else "probabilities"


def _own(function: Callable[..., float], name: str, formula: KnownFormula | None = None) -> ResolvedMetric:
    """Return a function that is no scorer as a metric; lower is better."""

    def evaluate(target: NDArray[Any], mean: NDArray[Any], weight: NDArray[Any] | None) -> float:
        # A copy, because a user's function may write into what it gets.
        own = mean.copy()
        return function(target, own) if weight is None else function(target, own, sample_weight=weight)

    return ResolvedMetric(
        name=name,
        evaluate=evaluate,
        greater_is_better=False,
        lowest=-inf,
        highest=inf,
        is_absolute=False,
        takes_weights="sample_weight" in _parameters(function),
        formula=formula,
    )
