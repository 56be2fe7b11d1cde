"""Metrics as sums over rows or one sort of them, found by evaluation, so that few calls of the metric are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from ens_plugin.analysis.metrics.rankings import AREA, PRECISION, Ranking
from ens_plugin.analysis.metrics.resolved import ResolvedMetric
from ens_plugin.core.validation import FloatArray
from ens_plugin.errors import InputError

__all__ = ["Formula", "KnownFormula", "OfWeights", "find_formula", "of_labels", "squared_error"]

# The metric of the rows, as a function of their weights.
OfWeights = Callable[[FloatArray], float]
# Returns it for label codes or values, shape (n_rows,), and probabilities or values of the rows.
Formula = Callable[["NDArray[Any]", FloatArray], OfWeights]


AGREEMENT = 1e-9
# Numbers of rows that are kept of confusion matrices whose metric is known: 8 MB.
MOST_CELLS = 1_000_000
LEAST_PROBABILITY = float(np.finfo(np.float64).eps)


class KnownFormula(NamedTuple):
    """A formula with the same values as a metric.

    Attributes
    ----------
    formula : Formula
    losses : str
        ``"squared"`` or ``"log"`` where the expected loss of a row is known by size, else ``""``.
    ranking : Ranking or None
        Of a ranking of two labels; else None.
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

    Parameters
    ----------
    metric : ResolvedMetric
    target : ndarray, shape (n_rows,)
        As the metric takes it.
    codes : ndarray, shape (n_rows,)
        The same as positions among the columns of the output, or as values.
    output : ndarray, shape (n_rows, n_labels) or (n_rows,)
    weight : ndarray, shape (n_rows,), or None

    Examples
    --------
    >>> from sklearn.metrics import mean_squared_error
    >>> from ens_plugin import CustomEnsemble
    >>> from ens_plugin.adapters import find_adapter
    >>> from ens_plugin.analysis.metrics import resolve_metric
    >>> y = np.arange(20.0)
    >>> adapter = find_adapter(CustomEnsemble(np.ones((3, 20)), None, aggregation="mean"))
    >>> found = find_formula(resolve_metric(mean_squared_error, adapter), y, y, np.ones(20), None)
    >>> round(found.formula(y, y + 2.0)(np.ones(20)), 9), found.losses
    (4.0, 'squared')
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


def of_labels(metric: ResolvedMetric, classes: NDArray[Any]) -> Formula:
    """Return the formula of a metric of labels that takes weights: its value on the cells of the confusion matrix.

    Resampled rows often have a matrix that others had, most of all where a label is rare: it is evaluated once.
    """
    return partial(_confusion, metric, classes, {})


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
    is_same = np.abs(found * scale - values) <= AGREEMENT * np.maximum(np.abs(values), 1.0)
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


def _confusion(
    metric: ResolvedMetric,
    classes: NDArray[Any],
    known: dict[bytes, float],
    target: NDArray[Any],
    output: FloatArray,
) -> OfWeights:
    n_labels = classes.size
    cells = target * n_labels + np.argmax(output, axis=1)
    columns = np.eye(n_labels)

    def value(weight: FloatArray) -> float:
        counts = np.bincount(cells, weights=weight, minlength=n_labels**2)
        matrix = counts.tobytes()
        if matrix in known:
            return known[matrix]
        held = np.flatnonzero(counts)
        found = metric.value(classes[held // n_labels], columns[held % n_labels], counts[held])
        if len(known) * counts.size < MOST_CELLS:
            known[matrix] = found
        return found

    return value


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
