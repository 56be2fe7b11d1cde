"""What a metric is computed from: the rows' outputs, losses and chances of the labels; and doubts about its level."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import UndefinedMetricWarning

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.analysis.estimates import ResolvedOptions
from ens_plugin.analysis.formulas import (
    Formula,
    KnownFormula,
    MatrixMetric,
    OfWeights,
    Ranking,
    mean_gain,
    of_matrix,
    scored_matrix,
    squared_error,
)
from ens_plugin.analysis.metrics import ResolvedMetric
from ens_plugin.core.label_chances import LabelChances, chances_by_output
from ens_plugin.core.sample import Combine, PackedOutputs, Sample, combined_outputs, pack_outputs
from ens_plugin.core.tally import CHUNK, RowBlock, count_members
from ens_plugin.core.validation import ROUNDING, FloatArray, IntArray, shown
from ens_plugin.errors import InputError
from ens_plugin.findings import Finding, finding
from ens_plugin.report.result import ErrorCurve


def ranking_offset(
    ranking: Ranking,
    mean: FloatArray,
    variance: FloatArray,
    trials: FloatArray,
    is_first: FloatArray,
    weight: FloatArray,
) -> float:
    """Return what is added to the size so that a ranking is a line in its inverse, as for normal scores."""
    means, of_limits, of_member = [], 0.0, 0.0
    for own in (weight * (1.0 - is_first), weight * is_first):
        share = own / own.sum()
        means.append(float(share @ mean))
        of_limits += float(share @ (mean - means[-1]) ** 2 - share @ (variance / trials)) / 2.0
        of_member += float(share @ variance) / 2.0
    if of_limits <= 0.0:
        return 0.0
    distance = (means[1] - means[0]) / np.sqrt(of_limits)
    factor = ranking.offset_factor(float(distance), float(weight @ is_first / weight.sum()))
    return float(np.clip(factor * of_member / of_limits, 0.0, np.median(trials)))


# With more rows, their labels alone determine how a ranking changes with the size, at less cost.
SMOOTHED_ROWS = 10_000


@dataclass(frozen=True, eq=False)
class MetricRows:
    """The rows that a metric is computed on, with the target as the user gave it.

    `inverse_link` turns mean outputs into probabilities or values; `combine` is what members predict together where
    that is not their mean; `known_formula` is of the metric, where one is known.
    """

    metric: ResolvedMetric
    sample: Sample
    target: NDArray[Any]
    inverse_link: Callable[[FloatArray], FloatArray]
    weight: FloatArray | None
    combine: Combine | None = field(default=None, kw_only=True)
    known_formula: KnownFormula | None = field(default=None, kw_only=True)

    @property
    def is_of_labels(self) -> bool:
        """Return whether the metric depends on the labels with the largest mean outputs only."""
        return self.metric.is_of_labels

    @property
    def formula(self) -> Formula | None:
        """Return the formula of the metric, where one is known."""
        return None if self.known_formula is None else self.known_formula.formula

    @property
    def matrix(self) -> MatrixMetric | None:
        """Return the metric as a function of the confusion matrix; None of other metrics, and without weights."""
        return None if self.known_formula is None else self.known_formula.matrix

    @cached_property
    def losses(self) -> str:
        """Return ``"squared"`` or ``"log"`` where the metric depends on these losses of the mean outputs only, or "".

        Without probabilities of 0, averages over subsets tell the log loss, whatever the form of the spread.
        """
        known = self.known
        if self.known_formula is None or self.combine is not None:
            return ""
        found = self.known_formula.losses
        if not found or not np.array_equal(self.linked[known], self.mean[known]):
            return ""
        is_told = found == "log" and bool(np.all(self.positive_members[known] == self.trials[known]))
        return "" if is_told else found

    @cached_property
    def mean(self) -> FloatArray:
        """Return the mean output of each row over its members, or what else they predict together."""
        if self.combine is not None:
            return combined_outputs(self.sample.block, self.combine)
        return self.sample.mean_outputs()

    @cached_property
    def linked(self) -> FloatArray:
        """Return the probabilities or values for the mean outputs."""
        return self.inverse_link(self.mean)

    @cached_property
    def known(self) -> NDArray[np.intp]:
        """Return the positions of the rows with members."""
        return np.flatnonzero(self.sample.block.counted.any(axis=0))

    @cached_property
    def trials(self) -> FloatArray:
        """Return the number of members of each row, shape (n_sampled,)."""
        return count_members(self.sample.block.counted)

    @cached_property
    def packed(self) -> PackedOutputs:
        """Return the outputs of each row's own members."""
        return pack_outputs(self.sample.block)

    @cached_property
    def squares(self) -> FloatArray:
        """Return the summed squared distance of each row's members from their mean, over all labels."""
        return _squares(self.sample.block, self.mean)

    @cached_property
    def chance_level(self) -> float:
        """Return the score of predictions that know only how often each label occurs; 0 of losses."""
        weight = None if self.weight is None else self.weight[self.known]
        return self.metric.chance_level(self.target[self.known], weight)

    @cached_property
    def positive_members(self) -> FloatArray:
        """Return by how many of its members each row's label has a probability above 0."""
        block = self.sample.block
        codes = block.target.astype(np.intp)
        places, found = np.arange(codes.size) * block.n_labels + codes, np.zeros(codes.size)
        for output, counts in zip(block.outputs, block.counted, strict=True):
            own = output == codes if output.ndim == 1 else output.reshape(-1).take(places) > 0.0
            found += own & counts
        return found

    @property
    def own_moments(self) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of the members' probabilities of their own label, of the rows with members."""
        codes = self.sample.block.target.astype(np.intp)
        mean = np.minimum(np.take_along_axis(self.mean, codes[:, None], axis=1)[:, 0], 1.0)
        squares = _label_squares(self.sample.block, codes, mean)[self.known]
        return mean[self.known], squares / np.maximum(self.trials[self.known] - 1.0, 1.0)

    @property
    def ranking(self) -> Ranking | None:
        """Return the metric as a ranking of two labels; None for any other metric."""
        return None if self.known_formula is None or self.combine is not None else self.known_formula.ranking

    @cached_property
    def chances(self) -> LabelChances | None:
        """Return the chances of the rows to have the label that is ranked first; None for other metrics."""
        if self.ranking is None or self.known.size > SMOOTHED_ROWS:
            return None
        weight = np.where(self.trials > 0, 1.0 if self.weight is None else self.weight, 0.0)
        return chances_by_output(self.linked[:, self.ranking.label], self.trials, self._is_first(self.ranking), weight)

    @cached_property
    def size_offset(self) -> float:
        """Return c, where beyond the largest subset the metric is a line in 1/(size + c): 0 but for rankings."""
        ranking, several = self.ranking, np.flatnonzero(self.trials > 1)
        if ranking is None or several.size == 0:
            return 0.0
        mean, trials = self.mean[:, ranking.label], self.trials[several]
        squares = _label_squares(self.sample.block, np.full(self.trials.size, ranking.label), mean)
        weight = np.ones(several.size) if self.weight is None else self.weight[several]
        is_first = self._is_first(ranking)[several]
        return ranking_offset(ranking, mean[several], squares[several] / (trials - 1.0), trials, is_first, weight)

    def _is_first(self, ranking: Ranking) -> FloatArray:
        return np.asarray(self.sample.block.target == ranking.label, dtype=np.float64)

    def linked_value(self, output: FloatArray, rows: NDArray[np.intp]) -> float:
        """Return the metric of some rows by their probabilities or values."""
        if self.formula is not None:
            return self.of_counts(output, rows)(np.ones(rows.size))
        return self.metric.value(self.target[rows], output, None if self.weight is None else self.weight[rows])

    def library_warnings(self) -> tuple[Finding, ...]:
        """Return the warnings that scikit-learn issues where the metric is computed on the rows with members."""
        rows = self.known
        weight = None if self.weight is None else self.weight[rows]
        return self.metric.warnings_on(self.target[rows].copy(), self.linked[rows].copy(), weight)

    def of_counts(self, output: FloatArray, rows: NDArray[np.intp]) -> OfWeights:
        """Return a function of how often each of some rows counts, whose value is the metric of their outputs."""
        if self.formula is None:
            return lambda counts: self._of_repeated(output, rows, counts)
        of_weights = self.formula(self.sample.block.target[rows], output)
        own = 1.0 if self.weight is None else self.weight[rows]
        return lambda counts: of_weights(counts * own)

    def expected_value(self, output: FloatArray, rows: NDArray[np.intp]) -> float:
        """Return what changes with the size as the metric of some rows does: of a ranking, the expected metric."""
        if self.ranking is None or self.chances is None:
            return self.linked_value(output, rows)
        return self._expected(self.ranking, output, rows)(self.chances.second, np.ones(rows.size))

    def change_of_counts(
        self, small: FloatArray, large: FloatArray, rows: NDArray[np.intp]
    ) -> Callable[[FloatArray, FloatArray], float]:
        """Return the change of :meth:`expected_value` between sizes by the counts of all rows, and of `rows`."""
        ranking, chances = self.ranking, self.chances
        if ranking is None or chances is None:
            before, after = self.of_counts(small, rows), self.of_counts(large, rows)
            return lambda counts, inside: after(inside) - before(inside)
        lower, upper = (self._expected(ranking, output, rows) for output in (small, large))

        def change(counts: FloatArray, inside: FloatArray) -> float:
            chance = chances.refitted(counts)
            return upper(chance, inside) - lower(chance, inside)

        return change

    def _expected(
        self, ranking: Ranking, output: FloatArray, rows: NDArray[np.intp]
    ) -> Callable[[FloatArray, FloatArray], float]:
        """Return the expected ranking of some rows as a function of the chances of all rows, and of their counts."""
        value = ranking.expected(output[:, ranking.label])
        own = 1.0 if self.weight is None else self.weight[rows]
        return lambda chance, counts: value(chance[rows], counts * own)

    def _of_repeated(self, output: FloatArray, rows: NDArray[np.intp], counts: FloatArray) -> float:
        places = np.repeat(np.arange(rows.size), counts.astype(np.intp))
        return self.linked_value(output[places], rows[places])


def metric_rows(metric: ResolvedMetric, adapter: EnsembleAdapter, sample: Sample, y: NDArray[Any]) -> MetricRows:
    """Return the rows of a sample as a metric of an ensemble takes them, with its formula if one is known."""
    if metric.greater_is_better and adapter.classes is not None:
        # In the type of the labels, whatever the container of y.
        y = adapter.classes[sample.block.target]
    is_weighted = metric.takes_weights and bool(np.ptp(sample.weight) > 0)
    weight = sample.weight if is_weighted else None
    combine = adapter.combined if adapter.offers("combined") else None
    rows = MetricRows(metric, sample, y, adapter.inverse_link, weight, combine=combine)
    # Formulas are of one output.
    return _with_formula(rows, adapter.classes)


def _with_formula(rows: MetricRows, classes: NDArray[np.generic] | None) -> MetricRows:
    """Return the rows with a formula that has the metric's value on them, or for labels one by the confusion matrix."""
    metric, found, otherwise = rows.metric, rows.metric.formula, None
    if rows.is_of_labels and classes is not None:
        if metric.takes_weights:
            by_scorer = scored_matrix(metric.value, classes)
            otherwise = of_matrix(by_scorer)
            if found is not None and found.matrix is not None:
                found = of_matrix(partial(_checked, found.matrix, by_scorer))
        else:
            gain = mean_gain(metric.value, classes)
            found = None if gain is None else of_matrix(gain)
    # Other releases of scikit-learn may compute something else.
    return replace(rows, known_formula=found if found is not None and _agree(rows, found) else otherwise)


def _agree(rows: MetricRows, found: KnownFormula) -> bool:
    """Return whether a formula has the metric's value on the rows, and on their outputs in another order."""
    known, with_it = rows.known, replace(rows, known_formula=found)
    linked = rows.linked[known]
    for output in (linked, linked[np.random.default_rng(0).permutation(known.size)]):
        wanted = rows.linked_value(output, known)
        if not abs(with_it.linked_value(output, known) - wanted) <= ROUNDING * max(abs(wanted), 1.0):
            return False
    return True


def _checked(formula: MatrixMetric, by_scorer: MatrixMetric, matrix: FloatArray) -> float:
    """Return the value of a formula; where it has none, the scorer states what is missing."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = formula(matrix)
    return found if np.isfinite(found) else by_scorer(matrix)


def _label_squares(block: RowBlock, codes: NDArray[np.intp], mean: FloatArray) -> FloatArray:
    """Return the summed squared distance of the outputs that count from the mean of each row, for one label of it."""
    places, found = np.arange(codes.size) * block.n_labels + codes, np.zeros(codes.size)
    for output, counts in zip(block.outputs, block.counted, strict=True):
        own = output == codes if output.ndim == 1 else output.reshape(-1).take(places)
        found += (own - mean) ** 2 * counts
    return found


def _squares(block: RowBlock, mean: FloatArray) -> FloatArray:
    """Return the summed squared distance of the outputs that count from the mean of each row, over all labels."""
    found = np.zeros(block.target.size)
    if block.n_labels and block.outputs.ndim == 2:
        for output, counts in zip(block.outputs, block.counted, strict=True):
            found += squared_error(output, mean) * counts
        return found
    for start in range(0, found.size, CHUNK):
        rows = slice(start, start + CHUNK)
        apart = block.outputs[:, rows] - mean[rows]
        squares = apart**2 if apart.ndim == 2 else np.einsum("mij,mij->mi", apart, apart)
        found[rows] = np.add.reduce(squares * block.counted[:, rows], axis=0)
    return found


def expected_outputs(rows: MetricRows, chosen: NDArray[np.intp], sizes: IntArray) -> Iterator[FloatArray]:
    """Yield, for each size, outputs of some rows whose squared error is its mean over all subsets of that size."""
    # Of n members with mean m and variance s² (with divisor n - 1), that is (m - y)² + s² (1/size - 1/n).
    n_labels, target = rows.sample.block.n_labels, rows.sample.block.target[chosen]
    trials = rows.trials[chosen]
    at_all = squared_error(target, rows.mean[chosen])
    variance = rows.squares[chosen] / np.maximum(trials - 1.0, 1.0)
    for size in sizes:
        expected = at_all + variance * np.maximum(1.0 / size - 1.0 / trials, 0.0)
        yield _outputs_with_error(target, np.maximum(expected, 0.0), n_labels)


def _outputs_with_error(target: NDArray[np.generic], error: FloatArray, n_labels: int) -> FloatArray:
    """Return outputs with the given squared errors, over all labels where there are some."""
    if not n_labels:
        return np.asarray(target + np.sqrt(error))
    apart = np.sqrt(error / 2.0)
    codes = target.astype(np.intp)
    outputs = np.zeros((target.size, n_labels))
    places = np.arange(target.size)
    outputs[places, codes] = 1.0 - apart
    outputs[places, (codes + 1) % n_labels] += apart
    return outputs


# Weights of equal probabilities mixed into the mean outputs, to check whether the metric has a value at 0.
PULLS = (1e-9, 1e-6)
NO_VALUE = 1e-4


def refuse_no_value(rows: MetricRows) -> None:
    """Raise InputError if some mean probabilities are 0, where the metric has no value, as a user's own log loss."""
    # To find out, a small and a smaller share of the uniform distribution are mixed into the probabilities. Of a metric
    # with a value at 0, both mixtures have nearly the same value; a logarithm differs between them.
    if rows.losses == "log":
        return
    known = rows.known
    mean = rows.linked[known]
    if not rows.sample.block.n_labels or mean.ndim != 2 or mean.min() > 0 or mean.min() < 0:
        return
    little, more = (rows.linked_value((1.0 - pull) * mean + pull / mean.shape[1], known) for pull in PULLS)
    if abs(little - more) <= NO_VALUE * max(abs(more), 1e-12):
        return
    found = rows.linked_value(mean, known)
    remedy = (
        "Pass a function of your own that clips the probabilities (for example lambda y, p: log_loss(y, np.clip(p, "
        "0.01, 1)))"
        if rows.metric.greater_is_better
        else "Clip the probabilities in your metric (for example np.clip(p, 0.01, 1))"
    )
    raise InputError(
        f"metric {rows.metric.name!r} has no value of its own on these rows: some out-of-bag mean probabilities are 0, "
        f"and the metric is {found:.4g}, {little:.4g} or {more:.4g} if they are replaced by 0, "
        f"{PULLS[0] / mean.shape[1]:.0e} or {PULLS[1] / mean.shape[1]:.0e}. {remedy}, train members whose leaves are "
        "not pure (min_samples_leaf), or train more members."
    )


FEWEST_OF_LABEL = 10


def rare_label_doubts(rows: MetricRows, interval: tuple[float, float]) -> tuple[Finding, ...]:
    """Return a doubt for each label whose few rows move the metric, all right or all wrong, by more than its interval.

    Bootstrap samples of three rows that are all predicted wrong have no spread.
    """
    if not (rows.is_of_labels or rows.metric.compares_rows) or rows.linked.ndim != 2:
        return ()
    known = rows.known
    target, output = rows.sample.block.target[known], rows.linked[known]
    counts = np.bincount(target, minlength=output.shape[1])
    return tuple(
        doubt
        for code in np.flatnonzero((counts > 0) & (counts < FEWEST_OF_LABEL))
        for doubt in _doubt(rows, target, output, int(code), interval)
    )


def _doubt(
    rows: MetricRows, target: IntArray, output: FloatArray, code: int, interval: tuple[float, float]
) -> tuple[Finding, ...]:
    of_label = target == code
    others = np.bincount(target[~of_label], minlength=output.shape[1])
    right, wrong = output.copy(), output.copy()
    right[of_label] = np.eye(output.shape[1])[code]
    wrong[of_label] = np.eye(output.shape[1])[int(np.argmax(others))]
    with warnings.catch_warnings():
        # Without a row that is predicted to have a label, scikit-learn's precision is 0, with a warning.
        warnings.simplefilter("ignore", UndefinedMetricWarning)
        worst, best = (rows.linked_value(changed, rows.known) for changed in (wrong, right))
    if abs(best - worst) <= interval[1] - interval[0]:
        return ()
    label = shown(rows.target[rows.known][of_label].tolist()[0])
    n_rows = int(np.count_nonzero(of_label))
    have = "row has" if n_rows == 1 else "rows have"
    sentence = (
        f"Only {n_rows} out-of-bag {have} the label {label}, and the {rows.metric.name} depends on them: it is "
        f"{worst:.3g} if all of them are predicted wrong, and {best:.3g} if right. Add rows of that label."
    )
    return (finding("few-rows-of-label", sentence, n_rows=n_rows, worst=worst, best=best),)


# Share of what a score has above chance that a tolerance may be without a warning.
LARGE_SHARE = 0.05


def with_chance(settings: ResolvedOptions, chance: float) -> ResolvedOptions:
    """Return the settings with chance as what a relative tolerance of a score is measured from; else unchanged."""
    if settings.metric is None or not settings.metric.is_absolute or settings.metric_reference is None:
        return settings
    return replace(settings, metric_reference=chance)


def low_score_doubts(curve: ErrorCurve, settings: ResolvedOptions, level: float) -> tuple[Finding, ...]:
    """Return a doubt where the score is within the tolerance of its lowest value, as every size is then."""
    # Where it is so low on the rows themselves, samples of them show no variance, and no interval holds.
    metric = settings.metric
    if metric is None or not metric.is_absolute:
        return ()
    tolerance = float(settings.metric_distances(curve.asymptote))
    if curve.asymptote - metric.lowest <= tolerance:
        found = (
            f"The {curve.metric} of the infinite ensemble is {curve.asymptote:.3g}, hardly above its lowest value, and "
            f"every size is within {tolerance:.2g} of it, so the recommended size is a guess."
        )
    elif level - metric.lowest <= tolerance:
        found = (
            f"The {curve.metric} of all members is {level:.3g} on these rows, hardly above its lowest value, so its "
            "curve, its interval and the recommended size are a guess."
        )
    else:
        return ()
    advice = "Train a model that does better by this metric, or choose a metric of rankings or probabilities"
    numbers = {"limit": curve.asymptote, "on_these_rows": level}
    return (finding("lowest-score", f"{found} {advice}, such as 'roc_auc'.", **numbers),)


def large_tolerance_notes(curve: ErrorCurve, settings: ResolvedOptions, chance: float) -> tuple[Finding, ...]:
    """Return a note where a given tolerance is a large share of what the limit of a score has above chance."""
    if settings.metric is None or not settings.metric.is_absolute:
        return ()
    tolerance, height = float(settings.metric_distances(curve.asymptote)), curve.asymptote - chance
    is_doubted = curve.asymptote - settings.metric.lowest <= tolerance
    if is_doubted or height <= 0.0 or tolerance <= LARGE_SHARE * height:
        return ()
    sentence = (
        f"The tolerance of {tolerance:g} is {100 * tolerance / height:.0f} % of what the {curve.metric} of the "
        f"infinite ensemble, {curve.asymptote:.3g}, has above that of chance, {chance:.3g}. Pass a smaller one, "
        f"tolerance={0.01 * height:.1g} for example, for a size that keeps more of it."
    )
    return (finding("large-tolerance", sentence, tolerance=tolerance, above_chance=height),)
