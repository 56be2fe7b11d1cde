"""Metrics by name, scorers and functions of the user: what they are, and what is known of them in closed form."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from inspect import signature
from math import inf
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, xlogy
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import get_scorer, get_scorer_names

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.analysis.label_metrics import MatrixMetric
from ens_plugin.analysis.options import Metric, ScorerOfLabel
from ens_plugin.core.tally import RowBlock
from ens_plugin.core.validation import ROUNDING, FloatArray, counted, label_text, one_line, shown
from ens_plugin.errors import EnsPluginError, InputError
from ens_plugin.findings import Finding, finding

# Distances between two normal distributions at which the average precision is integrated.
FARTHEST, N_POINTS = 8.0, 801
STEP = 0.05

# The metric of the rows, as a function of their weights.
OfWeights = Callable[[FloatArray], float]
# Returns, for the scores of the rows, the expected metric as a function of the rows' chances to have the label that is
# ranked first, and of their weights.
Expected = Callable[[FloatArray], Callable[[FloatArray, FloatArray], float]]
# Returns the metric of two normal distributions with variance 1, from their distance and the share of the first label.
OfNormal = Callable[[float, float], float]


class RankingKind(NamedTuple):
    """A way to judge a ranking: ``of_label(label, target, output)`` returns the metric as a function of the weights."""

    of_label: Callable[[int, NDArray[Any], FloatArray], OfWeights]
    expected: Expected
    of_normal: OfNormal


@dataclass(frozen=True, eq=False)
class Ranking:
    """A metric that is a multiple (`scale`) of a ranking of two labels, up to a constant; `label` is ranked first."""

    label: int
    kind: RankingKind
    scale: float = 1.0

    def scaled(self, factor: float) -> Ranking:
        """Return a multiple of the metric."""
        return replace(self, scale=factor * self.scale)

    def expected(self, output: FloatArray) -> Callable[[FloatArray, FloatArray], float]:
        """Return the expected metric, up to the constant, as a function of the rows' chances and weights."""
        value = self.kind.expected(output[:, self.label])
        return lambda chance, weight: self.scale * value(chance, weight)

    def offset_factor(self, distance: float, share: float) -> float:
        r"""Return how many k are added to the size so that the metric is a line in its inverse, for normal scores.

        With k the variance of a member in that of the limits, the metric m(d) is a line in :math:`1/(B + ck)` up to
        :math:`B^{-3}`, :math:`c = \tfrac34 + \tfrac14 d\,m''/m'`, for the area :math:`\tfrac34 - \tfrac18 d^2`
        (``docs/methods/metrics.md``).
        """
        below, here, above = (self.kind.of_normal(distance + step, share) for step in (-STEP, 0.0, STEP))
        slope, curvature = (above - below) / (2.0 * STEP), (above - 2.0 * here + below) / STEP**2
        return 0.75 + distance * curvature / (4.0 * slope) if slope > 0.0 else 0.0


def _area(label: int, target: NDArray[Any], output: FloatArray) -> OfWeights:
    """Return the area under the ROC curve of a label against the others; equal outputs count half."""
    order, starts = _ranked(output[:, label])
    positive = (target == label)[order]

    def area(weight: FloatArray) -> float:
        ranked = weight[order]
        own = np.add.reduceat(ranked * positive, starts)
        other = np.add.reduceat(ranked * ~positive, starts)
        above = np.cumsum(own) - own / 2.0
        return float(other @ above / (own.sum() * other.sum()))

    return area


def _average_precision(label: int, target: NDArray[Any], output: FloatArray) -> OfWeights:
    order, starts = _ranked(output[:, label])
    positive = (target == label)[order]

    def precision(weight: FloatArray) -> float:
        ranked = weight[order]
        own = np.add.reduceat(ranked * positive, starts)
        found, total = np.cumsum(own), np.cumsum(np.add.reduceat(ranked, starts))
        return float(own @ (found / np.where(total > 0, total, 1.0)) / found[-1])

    return precision


def _expected_area(score: FloatArray) -> Callable[[FloatArray, FloatArray], float]:
    """Return the expected area for chances of the rows to have a label, without the pair of each row with itself."""
    order, starts = _ranked(score)

    def area(chance: FloatArray, weight: FloatArray) -> float:
        ranked, own_chance = weight[order], chance[order]
        own, other = ranked * own_chance, ranked * (1.0 - own_chance)
        own_tied, other_tied = np.add.reduceat(own, starts), np.add.reduceat(other, starts)
        above = np.cumsum(own_tied) - own_tied / 2.0
        itself = own @ other
        return float((other_tied @ above - itself / 2.0) / (own.sum() * other.sum() - itself))

    return area


def _expected_precision(score: FloatArray) -> Callable[[FloatArray, FloatArray], float]:
    """Return the expected average precision for chances of the rows to have a label.

    Where a row has the label, it counts in full among the rows found, not by its chance.
    """
    order, starts = _ranked(score)
    group = np.cumsum(np.bincount(starts, minlength=order.size)) - 1

    def precision(chance: FloatArray, weight: FloatArray) -> float:
        ranked, own_chance = weight[order], chance[order]
        own = ranked * own_chance
        found, total = (np.cumsum(np.add.reduceat(each, starts))[group] for each in (own, ranked))
        sure = (found + ranked * (1.0 - own_chance)) / np.where(total > 0, total, 1.0)
        return float(own @ sure / own.sum())

    return precision


def _ranked(score: FloatArray) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the order of descending scores, and where each group of equal ones starts."""
    order = np.argsort(-score, kind="stable")
    return order, np.flatnonzero(np.diff(score[order], prepend=np.inf))


def _normal_area(distance: float, share: float) -> float:
    return float(ndtr(distance / np.sqrt(2.0)))


def _normal_precision(distance: float, share: float) -> float:
    threshold = np.linspace(-FARTHEST, FARTHEST + max(distance, 0.0), N_POINTS)
    apart = threshold - distance
    found, other = share * ndtr(-apart), (1.0 - share) * ndtr(-threshold)
    density = np.exp(-0.5 * apart**2) / np.sqrt(2.0 * np.pi)
    return float(density @ (found / (found + other))) * float(threshold[1] - threshold[0])


AREA = RankingKind(_area, _expected_area, _normal_area)
PRECISION = RankingKind(_average_precision, _expected_precision, _normal_precision)


# With 120 rows of a rare label the area and the average precision out of bag were those on fresh rows; with 40 the
# average precision was 0.07 too low.
FEWEST_RANKED = 100

LIBRARY = r"sklearn\."

Evaluate = Callable[[NDArray[Any], NDArray[Any], "NDArray[Any] | None"], float]
Chance = Callable[[NDArray[Any], "NDArray[Any] | None"], float]


@dataclass(frozen=True, eq=False)
class ResolvedMetric:
    """A metric of y and mean outputs, with its direction, its range and what its tolerance is relative to.

    Attributes
    ----------
    name : str
        That of scikit-learn's scorer, or of the user's function.
    evaluate : callable
        ``evaluate(y, mean_output, sample_weight)``; y has the labels as the user gave them, and `sample_weight` is
        None where all rows count the same.
    greater_is_better : bool
        True for scores of scikit-learn, negated losses included; False for a user's own function.
    lowest, highest : float
        Range of the values that the metric can have; infinite where it is not known.
    is_absolute : bool
        Whether a given `tolerance` is a distance in the unit of the metric; else it is relative to the value of the
        infinite ensemble.
    compares_rows : bool
        Whether it ranks rows of one label against rows of another.
    is_joint : bool
        Whether it is the mean over several outputs, which takes positions of rows in place of y.
    is_share : bool
        Whether it is the share of the target's spread that is explained, which a constant target has none of.
    positive_label : str or None
        The label that was named as the positive one, as text.
    chance : callable or None
        ``chance(y, sample_weight)`` returns what predictions score that know of the rows only how often each label
        occurs, or the mean; None where the default tolerance is relative to the metric itself.
    findings : tuple of Finding
        What a report must say of how the metric was chosen; mostly empty.
    """

    name: str
    evaluate: Evaluate
    greater_is_better: bool
    lowest: float
    highest: float
    is_absolute: bool
    takes_weights: bool
    compares_rows: bool = False
    is_joint: bool = False
    is_share: bool = False
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


def accepts_weights(function: Callable[..., Any]) -> bool:
    """Return whether a function has a parameter ``sample_weight``."""
    try:
        return "sample_weight" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # functions written in C may have no signature
        return False


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


# Returns the metric for label codes or values, shape (n_rows,), and probabilities or values of the rows.
Formula = Callable[["NDArray[Any]", FloatArray], OfWeights]


LEAST_PROBABILITY = float(np.finfo(np.float64).eps)


class KnownFormula(NamedTuple):
    """A formula with the same values as a metric, or as a ranking of two labels.

    `losses` is ``"squared"`` or ``"log"`` where the expected loss of a row is known by size, else ``""``.
    """

    formula: Formula
    losses: str = ""
    ranking: Ranking | None = None


def find_formula(
    metric: ResolvedMetric,
    target: NDArray[Any],
    codes: NDArray[Any],
    output: FloatArray,
    weight: FloatArray | None,
) -> KnownFormula | None:
    """Return a formula with the same values as the metric; None if no formula is known.

    A formula counts as that of the metric if both agree on the rows, and on a bootstrap sample of the rows with random
    outputs, where it would be a coincidence.
    """
    rng = np.random.default_rng(0)
    drawn = rng.integers(0, codes.size, codes.size)
    if output.ndim == 2:
        # Rankings have no value without one of the labels.
        drawn = np.append(drawn, np.unique(codes, return_index=True)[1])
    counts = np.bincount(drawn, minlength=codes.size).astype(np.float64)
    random = _random_outputs(output, rng)
    own = np.ones(codes.size) if weight is None else weight
    checks = [(output, np.arange(codes.size), own), (random, drawn, own * counts)]
    try:
        values = [
            metric.value(target[rows], out[rows], None if weight is None else weight[rows]) for out, rows, _ in checks
        ]
    except InputError:
        return None
    for candidate in _of_probabilities() if output.ndim == 2 else _of_values(metric):
        scale = _scale(candidate, codes, [(out, rows) for out, _, rows in checks], values)
        if scale is not None:
            return _known(candidate, scale, output.shape[-1])
    return None


def of_matrix(value: MatrixMetric, target: NDArray[Any], output: FloatArray) -> OfWeights:
    """Return a metric of labels by its value on the confusion matrix, as a :data:`Formula` once `value` is bound."""
    n_labels = output.shape[1]
    cells = target * n_labels + np.argmax(output, axis=1)

    def of_weights(weight: FloatArray) -> float:
        counts = np.bincount(cells, weights=weight, minlength=n_labels**2).astype(np.float64, copy=False)
        return value(counts.reshape(n_labels, n_labels))

    return of_weights


def squared_error(target: NDArray[Any], output: FloatArray) -> FloatArray:
    """Return the squared error of each row, over all of its labels, shape (n_rows,)."""
    if output.ndim == 1:
        return np.asarray((output - target) ** 2)
    own = np.take_along_axis(output, target[:, None].astype(np.intp), axis=1)[:, 0]
    return np.asarray(np.einsum("ij,ij->i", output, output) - 2.0 * own + 1.0)


def _scale(
    candidate: Formula, codes: NDArray[Any], checks: list[tuple[FloatArray, FloatArray]], values: list[float]
) -> float | None:
    """Return the metric's value as a multiple of the formula's; None if they are not proportional."""
    try:
        with np.errstate(all="ignore"):
            found = np.array([candidate(codes, output)(weight) for output, weight in checks])
    except InputError:  # the formula has no value for these outputs
        return None
    if not np.isfinite(found).all() or found[-1] == 0.0:
        return None
    scale = values[-1] / found[-1]
    is_same = np.abs(found * scale - values) <= ROUNDING * np.maximum(np.abs(values), 1.0)
    return float(scale) if scale != 0.0 and is_same.all() else None


def _known(candidate: Formula, scale: float, n_labels: int) -> KnownFormula:
    formula = partial(_scaled, candidate, scale)
    if candidate in _RANKINGS and n_labels == 2:
        return KnownFormula(formula, "", _RANKINGS[candidate].scaled(scale))
    return KnownFormula(formula, _LOSSES.get(candidate, ""))


def _scaled(candidate: Formula, scale: float, target: NDArray[Any], output: FloatArray) -> OfWeights:
    value = candidate(target, output)
    return lambda weight: scale * value(weight)


def _random_outputs(output: FloatArray, rng: np.random.Generator) -> FloatArray:
    if output.ndim == 2:
        return np.asarray(rng.dirichlet(np.ones(output.shape[1]), size=output.shape[0]))
    # Positive where all outputs are: some metrics take only such values.
    return np.asarray(rng.permutation(output) * rng.uniform(0.5, 1.5, output.size))


def _mean(losses: Callable[[NDArray[Any], FloatArray], FloatArray]) -> Formula:
    def formula(target: NDArray[Any], output: FloatArray) -> OfWeights:
        loss = losses(target, output)
        return lambda weight: float(loss @ weight / weight.sum())

    return formula


def _log_loss(target: NDArray[Any], output: FloatArray) -> FloatArray:
    own = np.take_along_axis(output, target[:, None].astype(np.intp), axis=1)[:, 0]
    return np.asarray(-np.log(np.clip(own, LEAST_PROBABILITY, 1.0)))


def _poisson_deviance(target: NDArray[Any], output: FloatArray) -> FloatArray:
    if not (output > 0.0).all():
        raise InputError(
            "The Poisson deviance has no value where 0 is predicted, as some subsets of the members do for rows that "
            "the whole ensemble predicts more for. Use metric='neg_mean_squared_error', or larger leaves "
            "(min_samples_leaf)."
        )
    return np.asarray(2.0 * (xlogy(target, target / output) - target + output))


def _squared_log_error(target: NDArray[Any], output: FloatArray) -> FloatArray:
    return np.asarray((np.log1p(output) - np.log1p(target)) ** 2)


_squared = _mean(squared_error)


def _root_squared(target: NDArray[Any], output: FloatArray) -> OfWeights:
    value = _squared(target, output)
    return lambda weight: float(np.sqrt(value(weight)))


def _explained(target: NDArray[Any], output: FloatArray) -> OfWeights:
    """Return the share of the variance that is explained, scikit-learn's r2."""
    value, y = _squared(target, output), target.astype(np.float64)

    def explained(weight: FloatArray) -> float:
        mean = y @ weight / weight.sum()
        return float(1.0 - value(weight) / ((y - mean) ** 2 @ weight / weight.sum()))

    return explained


def _explained_of_labels(
    losses: Formula, spread: Callable[[FloatArray], np.float64], target: NDArray[Any], output: FloatArray
) -> OfWeights:
    """Return 1 minus a loss over the loss of predicting the labels' shares, as scikit-learn's d2 scores do."""
    value, codes = losses(target, output), target.astype(np.intp)

    def explained(weight: FloatArray) -> float:
        shares = np.bincount(codes, weights=weight) / weight.sum()
        # Of one label alone the spread is 0, and the share infinite.
        return float(1.0 - value(weight) / spread(shares))

    return explained


def _entropy(shares: FloatArray) -> np.float64:
    return np.float64(-np.sum(xlogy(shares, shares)))


def _brier_of_shares(shares: FloatArray) -> np.float64:
    return np.float64(1.0 - shares @ shares)


def _slopes(above: float, below: float) -> Formula:
    """Return a loss with one slope above the prediction and one below, such as the pinball loss."""

    def losses(target: NDArray[Any], output: FloatArray) -> FloatArray:
        apart = target - output
        return np.asarray(np.where(apart > 0, above * apart, -below * apart))

    return _mean(losses)


def _macro(
    of_label: Callable[[int, NDArray[Any], FloatArray], OfWeights],
    target: NDArray[Any],
    output: FloatArray,
) -> OfWeights:
    """Return the mean of a metric of each label against the others."""
    values = [of_label(label, target, output) for label in range(output.shape[1])]
    return lambda weight: float(np.mean([value(weight) for value in values]))


_logarithmic = _mean(_log_loss)
_explained_log = partial(_explained_of_labels, _logarithmic, _entropy)
_explained_brier = partial(_explained_of_labels, _squared, _brier_of_shares)
_LOSSES: dict[Formula, str] = {
    _squared: "squared", _explained: "squared", _explained_brier: "squared", _logarithmic: "log", _explained_log: "log",
}  # fmt: skip


def _lost(ranking: Formula, target: NDArray[Any], output: FloatArray) -> OfWeights:
    """Return 1 minus a ranking, as functions of a user's own are of which lower is better."""
    value = ranking(target, output)
    return lambda weight: 1.0 - value(weight)


_RANKINGS: dict[Formula, Ranking] = {
    partial(kind.of_label, label): Ranking(label, kind) for kind in (AREA, PRECISION) for label in (1, 0)
}
_RANKINGS |= {partial(_lost, formula): ranking.scaled(-1.0) for formula, ranking in _RANKINGS.items()}


def _of_probabilities() -> Iterator[Formula]:
    yield _squared
    yield _logarithmic
    yield _explained_log
    yield _explained_brier
    yield from _RANKINGS
    yield from (partial(_macro, kind.of_label) for kind in (AREA, PRECISION))


def _of_values(metric: ResolvedMetric) -> Iterator[Formula]:
    yield _squared
    yield _explained
    yield _root_squared
    yield _mean(_poisson_deviance)
    yield _mean(_squared_log_error)
    zero, one = np.zeros(2), np.ones(2)
    try:
        yield _slopes(metric.value(one, zero), metric.value(zero, one))
    except InputError:
        return


@dataclass(frozen=True, eq=False)
class OutputMetric:
    """The metric of one output, and the rows of this output, with the target as the metric takes it.

    `n_labels` is 0 for values.
    """

    metric: ResolvedMetric
    labels: NDArray[Any]
    n_labels: int


def mean_over_outputs(outputs: Sequence[OutputMetric]) -> ResolvedMetric:
    """Return the mean of the outputs' metrics, as a metric of rows that are those of all outputs, one after the other.

    In place of y it takes the positions of these rows, shape (n_rows, 1).
    """
    starts = np.cumsum([0, *(output.labels.shape[0] for output in outputs)])

    def evaluate(positions: NDArray[Any], mean: NDArray[Any], weight: NDArray[Any] | None) -> float:
        place = positions[:, 0]
        values = []
        for output, start, stop in zip(outputs, starts[:-1], starts[1:], strict=True):
            here = np.flatnonzero((place >= start) & (place < stop))
            own = mean[here, : output.n_labels] if mean.ndim == 2 and output.n_labels else mean[here]
            values.append(
                output.metric.value(output.labels[place[here] - start], own, None if weight is None else weight[here])
            )
        return float(np.mean(values))

    def chance(positions: NDArray[Any], weight: NDArray[Any] | None) -> float:
        place, levels = positions[:, 0], []
        for output, start, stop in zip(outputs, starts[:-1], starts[1:], strict=True):
            here = np.flatnonzero((place >= start) & (place < stop))
            own = None if weight is None else weight[here]
            levels.append(output.metric.chance_level(output.labels[place[here] - start], own))
        return float(np.mean(levels))

    first = outputs[0].metric
    labels = {output.metric.positive_label for output in outputs}
    return ResolvedMetric(
        name=first.name,
        evaluate=evaluate,
        greater_is_better=first.greater_is_better,
        lowest=min(output.metric.lowest for output in outputs),
        highest=max(output.metric.highest for output in outputs),
        is_absolute=first.is_absolute,
        takes_weights=first.takes_weights,
        is_joint=True,
        chance=None if first.chance is None else chance,
        positive_label=labels.pop() if len(labels) == 1 else None,
    )


class ValueOutputs(RegressorMixin, BaseEstimator):
    """Regressor that predicts the values it gets."""

    def fit(self, X: Any, y: Any = None) -> ValueOutputs:
        """Return the estimator as it is."""
        return self

    def predict(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return X, shape (n_rows,)."""
        return X

    def __sklearn_is_fitted__(self) -> bool:
        return True


class LabelOutputs(ClassifierMixin, BaseEstimator):
    """Classifier that gets mean outputs of shape (n_rows, n_labels), and predicts the label with the largest."""

    def __init__(self, classes: Any = None) -> None:
        self.classes = classes

    @property
    def classes_(self) -> Any:
        """Return the labels in the order of the columns."""
        return self.classes

    def fit(self, X: Any, y: Any = None) -> LabelOutputs:
        """Return the estimator as it is."""
        return self

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

    def __sklearn_is_fitted__(self) -> bool:
        return True


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

    `function` is its `name` if it is one of scikit-learn whose range is that of the tables above; else empty.
    """

    name: str
    function: str
    is_negated: bool
    takes_weights: bool


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


@dataclass(frozen=True, eq=False)
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
    """Return whether a metric is an object that ``sklearn.metrics.make_scorer`` made."""
    return isinstance(metric, type(get_scorer("accuracy")))


def scorer_called(name: str) -> Callable[..., float]:
    """Return scikit-learn's scorer of a name."""
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
    """Return whether a function is one of ``sklearn.metrics``."""
    return str(getattr(function, "__module__", "")).startswith("sklearn.metrics.")


def has_greatest(function: object) -> bool:
    """Return whether a function is one of scikit-learn's of which greater values are better."""
    name = getattr(function, "__name__", "")
    return is_of_scikit_learn(function) and name in (*SHARES, *CORRELATIONS, *AT_MOST_ONE)


def resolve_scorer(
    name: str | None, scorer: Callable[..., float], classes: NDArray[Any] | None, output_kind: str
) -> ResolvedMetric:
    """Return a scorer of scikit-learn as a metric of y and mean outputs."""
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


def resolve_scorer_of_label(metric: ScorerOfLabel, classes: NDArray[Any] | None, output_kind: str) -> ResolvedMetric:
    """Return a scorer that counts one of two labels as positive, as a metric of y and mean outputs.

    The scorer gets the positive label as 1. The other label is 0 or 2, so that the order of the labels stays, which
    decides ties.
    """
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
    """Return the name of a scorer that was given by it, and the scorer."""
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
    """Return the metric that a user named or passed, ready to be computed from y and mean outputs.

    For None, the loss of an ensemble that is judged by a loss of its own; None for any other ensemble.
    """
    check_metric(metric)
    if metric is None:
        return None if adapter.loss_name is None else _own(adapter.loss, adapter.loss_name)
    kind = _outputs_of(adapter)
    if isinstance(metric, ScorerOfLabel):
        return resolve_scorer_of_label(metric, adapter.classes, kind)
    if isinstance(metric, str) or is_scorer(metric):
        name, scorer = (metric, scorer_called(metric)) if isinstance(metric, str) else (None, metric)
        found = resolve_scorer(name, scorer, adapter.classes, kind)
        if adapter.classes is None or len(adapter.classes) != 2:
            return found
        return with_positive_label(found, metric, adapter.classes, kind, y)
    name = getattr(metric, "__name__", None)
    if has_greatest(metric):
        raise InputError(
            f"metric={name} is a function, and lower values of a function are taken as better, but greater values of "
            f"this one are better. Pass its name as in sklearn.metrics.get_scorer_names(), or make_scorer({name}"
            f"{RANKED if name in RANKINGS else ''})."
        )
    return _own(metric, one_line(name if isinstance(name, str) else type(metric).__name__))


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


def _own(function: Callable[..., float], name: str) -> ResolvedMetric:
    """Return a function that is no scorer as a metric; lower is better."""

    def evaluate(target: NDArray[Any], mean: NDArray[Any], weight: NDArray[Any] | None) -> float:
        return function(target, mean) if weight is None else function(target, mean, sample_weight=weight)

    return ResolvedMetric(
        name=name,
        evaluate=evaluate,
        greater_is_better=False,
        lowest=-inf,
        highest=inf,
        is_absolute=False,
        takes_weights=accepts_weights(function),
    )
