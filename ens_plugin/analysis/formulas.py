"""scikit-learn's own metrics as functions of the rows' weights, by which a bootstrap sample is no new evaluation.

A scorer checks, sorts and counts its rows for milliseconds each time, and an analysis takes a thousand of its values.
A formula belongs to a function of scikit-learn and the options that its scorer was made with, and is compared with the
scorer once, on the rows of the analysis.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, xlogy

from ens_plugin.core.validation import FloatArray
from ens_plugin.errors import InputError

# The metric of the rows, as a function of their weights.
OfWeights = Callable[[FloatArray], float]
# Returns the metric for label codes or values, shape (n_rows,), and probabilities or values of the rows.
Formula = Callable[["NDArray[Any]", FloatArray], OfWeights]
# Returns the loss of each row.
Losses = Callable[["NDArray[Any]", FloatArray], FloatArray]
# Returns a metric for a confusion matrix: weighted numbers of rows by label and by predicted label.
MatrixMetric = Callable[[FloatArray], float]
# Returns, for the scores of the rows, the expected metric as a function of the rows' chances to have the label that is
# ranked first, and of their weights.
Expected = Callable[[FloatArray], Callable[[FloatArray, FloatArray], float]]

# What scikit-learn's log loss takes a probability of 0 for.
LEAST_PROBABILITY = float(np.finfo(np.float64).eps)
# Distances between two normal distributions at which the average precision is integrated, and their derivatives taken.
FARTHEST, N_POINTS, STEP = 8.0, 801, 0.05
# Numbers that are kept of matrices whose metric is known: 8 MB.
MOST_CELLS = 1_000_000
# With more pairs of labels, reading a function of each would cost more than averages over subsets.
MOST_GAINS = 1000


class Ranking(NamedTuple):
    """How the rows of one label are ranked against all others; `of_normal` is of two normal distributions."""

    label: int
    expected: Expected
    of_normal: Callable[[float, float], float]

    def offset_factor(self, distance: float, share: float) -> float:
        r"""Return how many k are added to the size so that the metric is a line in its inverse, for normal scores.

        With k the variance of a member in that of the limits, the metric m(d) is a line in :math:`1/(B + ck)` up to
        :math:`B^{-3}`, :math:`c = \tfrac34 + \tfrac14 d\,m''/m'`, for the area :math:`\tfrac34 - \tfrac18 d^2`
        (``docs/methods/metrics.md``).
        """
        below, here, above = (self.of_normal(distance + step, share) for step in (-STEP, 0.0, STEP))
        slope, curvature = (above - below) / (2.0 * STEP), (above - 2.0 * here + below) / STEP**2
        return 0.75 + distance * curvature / (4.0 * slope) if slope > 0.0 else 0.0


class KnownFormula(NamedTuple):
    """A metric as a function of weights; `losses` is ``"squared"`` or ``"log"`` if it depends on these alone."""

    formula: Formula
    losses: str = ""
    ranking: Ranking | None = None
    matrix: MatrixMetric | None = None

    def negated(self) -> KnownFormula:
        """Return the formula of a loss as a score."""
        if (matrix := self.matrix) is not None:
            return of_matrix(lambda counts: -matrix(counts))
        return KnownFormula(partial(_scaled, -1.0, self.formula), self.losses)


def known_formula(
    function: str, options: Mapping[str, Any], n_labels: int, positive: int, *, is_of_labels: bool
) -> KnownFormula | None:
    """Return the formula of a function of scikit-learn with some options other than its own, or None."""
    # `n_labels` is 0 for values; `positive` is the code of the positive one of two labels.
    if is_of_labels:
        matrix = _matrix_formula(function, dict(options), n_labels, positive)
        return None if matrix is None else of_matrix(matrix)
    if n_labels == 0:
        if function == "mean_pinball_loss" and set(options) <= {"alpha"}:
            return KnownFormula(_mean(partial(_pinball, options.get("alpha", 0.5))))
        return None if options else _OF_VALUES.get(function)
    return _of_probabilities(function, dict(options), n_labels, positive)


def _of_probabilities(function: str, options: dict[str, Any], n_labels: int, positive: int) -> KnownFormula | None:
    average, several = options.pop("average", "macro"), options.pop("multi_class", "raise")
    options.pop("pos_label", None)
    if options or function not in (*_OF_SHARES, *_EXPECTED):
        return None
    if function in _OF_SHARES:
        known = _OF_SHARES[function]
        # Of two labels the Brier score is that of one.
        is_halved = function == "brier_score_loss" and n_labels == 2
        return known._replace(formula=partial(_scaled, 0.5, known.formula)) if is_halved else known
    expected, of_normal = _EXPECTED[function]
    if n_labels == 2:
        label = positive if function == "average_precision_score" else 1
        return KnownFormula(partial(_ranked_first, expected, label), ranking=Ranking(label, expected, of_normal))
    is_mean = average == "macro" and (function == "average_precision_score" or several == "ovr")
    return KnownFormula(partial(_mean_over_labels, expected)) if is_mean else None


def _scaled(scale: float, formula: Formula, target: NDArray[Any], output: FloatArray) -> OfWeights:
    value = formula(target, output)
    return lambda weight: scale * value(weight)


def _mean(losses: Losses) -> Formula:
    def formula(target: NDArray[Any], output: FloatArray) -> OfWeights:
        loss = losses(target, output)
        return lambda weight: float(loss @ weight / weight.sum())

    return formula


def squared_error(target: NDArray[Any], output: FloatArray) -> FloatArray:
    """Return the squared error of each row, over all of its labels, shape (n_rows,)."""
    if output.ndim == 1:
        return np.asarray((output - target) ** 2)
    return np.asarray(np.einsum("ij,ij->i", output, output) - 2.0 * _own(target, output) + 1.0)


def _own(target: NDArray[Any], output: FloatArray) -> FloatArray:
    """Return the output of each row for its own label."""
    return np.take_along_axis(output, target[:, None].astype(np.intp), axis=1)[:, 0]


def _log_loss(target: NDArray[Any], output: FloatArray) -> FloatArray:
    return np.asarray(-np.log(np.clip(_own(target, output), LEAST_PROBABILITY, 1.0)))


def _poisson_deviance(target: NDArray[Any], output: FloatArray) -> FloatArray:
    if not (output > 0.0).all():
        raise InputError(
            "The Poisson deviance has no value where 0 is predicted, as some subsets of the members do for rows that "
            "the whole ensemble predicts more for. Use metric='neg_mean_squared_error', or larger leaves "
            "(min_samples_leaf)."
        )
    return np.asarray(2.0 * (xlogy(target, target / output) - target + output))


def _pinball(alpha: float, target: NDArray[Any], output: FloatArray) -> FloatArray:
    apart = target - output
    return np.asarray(np.where(apart > 0, alpha * apart, (alpha - 1.0) * apart))


_squared, _logarithmic = _mean(squared_error), _mean(_log_loss)


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
    losses: Formula, spread: Callable[[FloatArray], float], target: NDArray[Any], output: FloatArray
) -> OfWeights:
    """Return 1 minus a loss over the loss of predicting the labels' shares, as scikit-learn's d2 scores do."""
    value, codes = losses(target, output), target.astype(np.intp)
    return lambda weight: float(1.0 - value(weight) / spread(np.bincount(codes, weights=weight) / weight.sum()))


_OF_VALUES = {
    "mean_squared_error": KnownFormula(_squared, "squared"),
    "r2_score": KnownFormula(_explained, "squared"),
    "root_mean_squared_error": KnownFormula(_root_squared),
    "mean_absolute_error": KnownFormula(_mean(lambda target, output: np.abs(target - output))),
    "mean_poisson_deviance": KnownFormula(_mean(_poisson_deviance)),
    "mean_squared_log_error": KnownFormula(
        _mean(lambda target, output: np.square(np.log1p(output) - np.log1p(target)))
    ),
}
_OF_SHARES = {
    "brier_score_loss": KnownFormula(_squared, "squared"),
    "log_loss": KnownFormula(_logarithmic, "log"),
    "d2_brier_score": KnownFormula(
        partial(_explained_of_labels, _squared, lambda shares: float(1.0 - shares @ shares)), "squared"
    ),
    "d2_log_loss_score": KnownFormula(
        partial(_explained_of_labels, _logarithmic, lambda shares: -float(xlogy(shares, shares).sum())), "log"
    ),
}


def expected_area(score: FloatArray) -> Callable[[FloatArray, FloatArray], float]:
    """Return the expected area under the ROC curve, without the pair of each row with itself; ties count half."""
    order, starts = _ranked(score)

    def area(chance: FloatArray, weight: FloatArray) -> float:
        ranked, own_chance = weight[order], chance[order]
        own, other = ranked * own_chance, ranked * (1.0 - own_chance)
        own_tied, other_tied = np.add.reduceat(own, starts), np.add.reduceat(other, starts)
        above = np.cumsum(own_tied) - own_tied / 2.0
        itself = own @ other
        return float((other_tied @ above - itself / 2.0) / (own.sum() * other.sum() - itself))

    return area


def expected_precision(score: FloatArray) -> Callable[[FloatArray, FloatArray], float]:
    """Return the expected average precision: a row that has the label counts in full among the rows found."""
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


_EXPECTED: dict[str, tuple[Expected, Callable[[float, float], float]]] = {
    "roc_auc_score": (expected_area, _normal_area),
    "average_precision_score": (expected_precision, _normal_precision),
}


def _ranked_first(expected: Expected, label: int, target: NDArray[Any], output: FloatArray) -> OfWeights:
    """Return a ranking of one label against the others: the expected one where each row has its label for sure."""
    value, chance = expected(output[:, label]), np.asarray(target == label, dtype=np.float64)
    return lambda weight: value(chance, weight)


def _mean_over_labels(expected: Expected, target: NDArray[Any], output: FloatArray) -> OfWeights:
    values = [_ranked_first(expected, label, target, output) for label in range(output.shape[1])]
    return lambda weight: float(np.mean([value(weight) for value in values]))


def of_matrix(value: MatrixMetric) -> KnownFormula:
    """Return the formula of a metric of labels, by its value on the confusion matrix."""

    def formula(target: NDArray[Any], output: FloatArray) -> OfWeights:
        n_labels = output.shape[1]
        cells = target * n_labels + np.argmax(output, axis=1)

        def of_weights(weight: FloatArray) -> float:
            counts = np.bincount(cells, weights=weight, minlength=n_labels**2).astype(np.float64, copy=False)
            return value(counts.reshape(n_labels, n_labels))

        return of_weights

    return KnownFormula(formula, matrix=value)


def mean_gain(value: Callable[[NDArray[Any], FloatArray], float], classes: NDArray[Any]) -> MatrixMetric | None:
    """Return the mean over rows of what each label gains for each that is predicted, read from single rows."""
    # So is every function of a user's own that scores each row apart, as a profit does, but takes no weights.
    codes = range(classes.size)
    if classes.size**2 > MOST_GAINS:
        return None
    rows = np.eye(classes.size)
    try:
        with warnings.catch_warnings():
            # They are about functions that are no mean over rows, of a single one.
            warnings.simplefilter("ignore")
            gains = np.array([[value(classes[[code]], rows[[other]]) for other in codes] for code in codes])
    except InputError:  # of one row it has no value
        return None
    return lambda matrix: float((gains * matrix).sum() / matrix.sum())


def scored_matrix(
    score: Callable[[NDArray[Any], FloatArray, FloatArray], float], classes: NDArray[Any]
) -> MatrixMetric:
    """Return a metric as its scorer computes it on one row for each cell; values are kept, as samples repeat them."""
    n_labels = classes.size

    @lru_cache(maxsize=MOST_CELLS // n_labels**2)
    def by_cells(cells: bytes) -> float:
        matrix = np.frombuffer(cells).reshape(n_labels, n_labels)
        truth, predicted = np.nonzero(matrix)
        return score(classes[truth], np.eye(n_labels)[predicted], matrix[truth, predicted])

    return lambda matrix: by_cells(matrix.tobytes())


def _matrix_formula(function: str, options: dict[str, Any], n_labels: int, positive: int) -> MatrixMetric | None:
    """Return a function of labels as one of the confusion matrix; None where it has options that are not known."""
    if function in _BY_LABEL:
        average, beta = options.pop("average", "binary"), options.pop("beta", 1.0)
        options.pop("pos_label", None)
        nothing = options.pop("zero_division", 0)
        is_known = average in ("macro", "weighted", "micro") or (average == "binary" and n_labels == 2)
        if options or nothing not in (0, "warn") or not is_known:
            return None
        share = beta**2 / (1.0 + beta**2) if function == "fbeta_score" else _BY_LABEL[function]
        return partial(_by_label, share, function == "jaccard_score", average, positive)
    if function == "balanced_accuracy_score" and set(options) <= {"adjusted"}:
        return partial(_balanced_accuracy, bool(options.get("adjusted", False)))
    if function == "cohen_kappa_score" and options.get("weights") in _KAPPA_POWERS and set(options) <= {"weights"}:
        return partial(_kappa, _KAPPA_POWERS[options.get("weights")])
    return None if options else _OF_LABELS.get(function)


# Share of the rows of a label, not of the rows that are predicted to have it, among what its right ones are divided by.
_BY_LABEL = {"precision_score": 0.0, "recall_score": 1.0, "f1_score": 0.5, "fbeta_score": 0.5, "jaccard_score": 0.5}
_KAPPA_POWERS = {None: 0, "linear": 1, "quadratic": 2}


def _by_label(share: float, is_jaccard: bool, average: str, positive: int, matrix: FloatArray) -> float:
    """Return F, precision, recall or Jaccard's index, over labels; 0 where there is nothing to divide by."""
    rows, columns = matrix.sum(axis=1), matrix.sum(axis=0)
    below = share * rows + (1.0 - share) * columns
    score = np.divide(np.diag(matrix), below, out=np.zeros(len(matrix)), where=below > 0.0)
    if average == "micro":
        score = np.trace(matrix) / matrix.sum()
    if is_jaccard:
        score = score / (2.0 - score)
    if average == "binary":
        return float(score[positive])
    if average == "macro":
        return float(score[rows + columns > 0.0].mean())
    return float(score @ rows / matrix.sum()) if average == "weighted" else float(score)


def _accuracy(matrix: FloatArray) -> float:
    return float(np.trace(matrix) / matrix.sum())


def _share_wrong(matrix: FloatArray) -> float:
    return 1.0 - _accuracy(matrix)


def _balanced_accuracy(is_adjusted: bool, matrix: FloatArray) -> float:
    rows = matrix.sum(axis=1)
    found = float((np.diag(matrix)[rows > 0.0] / rows[rows > 0.0]).mean())
    chance = 1.0 / np.count_nonzero(rows)
    return (found - chance) / (1.0 - chance) if is_adjusted else found


def _correlation(matrix: FloatArray) -> float:
    """Return Matthews' correlation of labels and predicted labels; 0 where one of the two does not vary."""
    rows, columns, n_rows = matrix.sum(axis=1), matrix.sum(axis=0), matrix.sum()
    spread = (n_rows**2 - rows @ rows) * (n_rows**2 - columns @ columns)
    return float((np.trace(matrix) * n_rows - rows @ columns) / np.sqrt(spread)) if spread > 0.0 else 0.0


def _kappa(power: int, matrix: FloatArray) -> float:
    """Return Cohen's kappa; errors weigh their distance among the labels that occur to a power, and 0 has none."""
    occurs = (matrix.sum(axis=0) + matrix.sum(axis=1)) > 0.0
    own = matrix[np.ix_(occurs, occurs)]
    distance = np.abs(np.subtract.outer(np.arange(len(own)), np.arange(len(own)))).astype(np.float64)
    weight = distance**power if power else (distance > 0.0).astype(np.float64)
    expected = np.outer(own.sum(axis=1), own.sum(axis=0)) / own.sum()
    return float(1.0 - (weight * own).sum() / (weight * expected).sum())


_OF_LABELS: dict[str, MatrixMetric] = {
    "accuracy_score": _accuracy, "zero_one_loss": _share_wrong, "hamming_loss": _share_wrong,
    "matthews_corrcoef": _correlation,
}  # fmt: skip
