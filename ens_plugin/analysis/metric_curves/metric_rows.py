"""The rows that a metric is computed on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.adapters.capabilities import CombinesMembers
from ens_plugin.analysis.metric_curves.ranked_chances import RankedChances, rank_chances, ranking_offset
from ens_plugin.analysis.metrics.formulas import (
    Formula,
    KnownFormula,
    OfWeights,
    find_formula,
    of_labels,
    squared_error,
)
from ens_plugin.analysis.metrics.rankings import Ranking
from ens_plugin.analysis.metrics.resolved import ResolvedMetric
from ens_plugin.core.estimates.low_chances import LowChances, fit_low_chances, is_low
from ens_plugin.core.tallies.subsets import Combine, PackedOutputs, Sample, combined_outputs, pack_outputs
from ens_plugin.core.tallies.tally import RowBlock, count_members
from ens_plugin.core.validation import BoolArray, FloatArray
from ens_plugin.records import record

__all__ = ["MetricRows", "metric_rows"]

# With more rows, their labels alone determine how a ranking changes with the size, at less cost.
SMOOTHED_ROWS = 10_000
ROWS_AT_ONCE = 256


@record
class MetricRows:
    """The rows that a metric is computed on.

    Attributes
    ----------
    metric : ResolvedMetric
    sample : Sample
    target : ndarray, shape (n_sampled,)
        As the user gave it.
    inverse_link : callable
        Returns probabilities or values for mean outputs.
    weight : ndarray, shape (n_sampled,), or None
        None where all rows count the same, or the metric takes no weights.
    combine : callable or None
        What members predict together, where that is not their mean.
    found : KnownFormula or None
        Of the metric, where one is known.
    is_of_labels : bool
        Whether it is a scorer that depends on the labels with the largest output only.
    """

    metric: ResolvedMetric
    sample: Sample
    target: NDArray[Any]
    inverse_link: Callable[[FloatArray], FloatArray]
    weight: FloatArray | None
    combine: Combine | None = field(default=None, kw_only=True)
    found: KnownFormula | None = field(default=None, kw_only=True)
    is_of_labels: bool = field(default=False, kw_only=True)

    def recognised(self, classes: NDArray[np.generic] | None) -> MetricRows:
        """Return the same rows with the formula of the metric, if one is known."""
        known = self.known
        mean, linked = self.mean[known], self.linked[known]
        weight = None if self.weight is None else self.weight[known]
        found = None
        if self.sample.block.n_labels == 0 or linked.ndim == 2:
            found = find_formula(self.metric, self.target[known], self.sample.block.target[known], linked, weight)
        if found is not None:
            of_means = self.combine is None and np.array_equal(linked, mean)
            return replace(self, found=found if of_means else found._replace(losses=""))
        if not self._is_of_labels(linked, known):
            return self
        is_weighted = self.metric.takes_weights and classes is not None
        formula = of_labels(self.metric, classes) if is_weighted and classes is not None else None
        return replace(self, found=None if formula is None else KnownFormula(formula), is_of_labels=True)

    @property
    def formula(self) -> Formula | None:
        """Return the formula of the metric, where one is known."""
        return None if self.found is None else self.found.formula

    @property
    def losses(self) -> str:
        """Return ``"squared"`` or ``"log"`` where the metric depends on the outputs through these losses only.

        They are those of the rows, before any inverse link; empty for any other metric.
        """
        return "" if self.found is None else self.found.losses

    def without_members(self, left_out: NDArray[np.bool_]) -> MetricRows:
        """Return the same rows with the other members only; `left_out` has shape (n_members,)."""
        block = self.sample.block
        others = replace(block, outputs=block.outputs[~left_out], counted=block.counted[~left_out])
        return replace(self, sample=replace(self.sample, block=others))

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
    def own_probability(self) -> FloatArray:
        """Return the probability of each row's label."""
        codes = self.sample.block.target.astype(np.intp)
        return np.asarray(np.take_along_axis(self.linked, codes[:, None], axis=1)[:, 0])

    @cached_property
    def own_squares(self) -> FloatArray:
        """Return the summed squared distance of each row's members from their mean, for the row's label."""
        codes = self.sample.block.target.astype(np.intp)
        return _label_squares(self.sample.block, codes, np.minimum(self.own_probability, 1.0))

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

    @cached_property
    def low(self) -> BoolArray:
        """Return which rows with members have a label that few of these give a probability above 0; of a log loss."""
        if self.losses != "log":
            return np.zeros(self.trials.size, dtype=np.bool_)
        return (self.trials > 0) & is_low(self.positive_members, self.trials)

    @cached_property
    def low_chances(self) -> LowChances:
        """Return the chances of the low rows."""
        return fit_low_chances(self.positive_members[self.low], self.trials[self.low])

    @cached_property
    def low_values(self) -> FloatArray:
        """Return, for each low row, the mean probability of its label by members that give it more than 0.

        Where no member does, the geometric mean of other low rows, or of all rows, takes its place.
        """
        positive = self.positive_members
        values = self.own_probability * self.trials / np.maximum(positive, 1.0)
        own, is_known = values[self.low], positive[self.low] > 0.0
        others = own[is_known] if is_known.any() else values[positive > 0.0]
        return np.where(is_known, own, float(np.exp(np.mean(np.log(others)))) if others.size else 1.0)

    @cached_property
    def finite(self) -> FloatArray:
        """Return the linked outputs, with probabilities of the expected log loss in place of 0."""
        is_zero = self.own_probability[self.low] <= 0.0 if self.low.any() else np.zeros(0, dtype=np.bool_)
        if not is_zero.any():
            return self.linked
        places, outputs = np.flatnonzero(self.low)[is_zero], self.linked.copy()
        losses = self.low_chances.log_losses([np.inf])[:, 0, is_zero]
        codes = self.sample.block.target[places].astype(np.intp)
        outputs[places, codes] = self.low_values[is_zero] * np.exp(-losses.mean(axis=0))
        return outputs

    @property
    def ranking(self) -> Ranking | None:
        """Return the metric as a ranking of two labels; None for any other metric."""
        return None if self.found is None or self.combine is not None else self.found.ranking

    @cached_property
    def chances(self) -> RankedChances | None:
        """Return the chances of the rows to have the label that is ranked first; None for other metrics."""
        if self.ranking is None or self.known.size > SMOOTHED_ROWS:
            return None
        weight = np.where(self.trials > 0, 1.0 if self.weight is None else self.weight, 0.0)
        return rank_chances(self.linked[:, self.ranking.label], self.trials, self._is_first(self.ranking), weight)

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

    def value(self, mean: FloatArray, rows: NDArray[np.intp]) -> float:
        """Return the metric of some rows by their mean outputs, before the inverse link."""
        return self.linked_value(self.inverse_link(mean), rows)

    def linked_value(self, output: FloatArray, rows: NDArray[np.intp]) -> float:
        """Return the metric of some rows by their probabilities or values."""
        if self.formula is not None:
            return self.of_counts(output, rows)(np.ones(rows.size))
        return self.metric.value(self.target[rows], output, None if self.weight is None else self.weight[rows])

    def library_warnings(self) -> tuple[str, ...]:
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
        return self._expected(self.ranking, output, rows)(self.chances.chance, np.ones(rows.size))

    def change_of_counts(
        self, small: FloatArray, large: FloatArray, rows: NDArray[np.intp]
    ) -> Callable[[FloatArray, FloatArray], float]:
        """Return the change of :meth:`expected_value` between two sizes as a function of how often rows count.

        Its arguments are how often each sampled row counts, and how often each of `rows`.
        """
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
        value = ranking.expected(output)
        own = 1.0 if self.weight is None else self.weight[rows]
        return lambda chance, counts: value(chance[rows], counts * own)

    def _of_repeated(self, output: FloatArray, rows: NDArray[np.intp], counts: FloatArray) -> float:
        places = np.repeat(np.arange(rows.size), counts.astype(np.intp))
        return self.linked_value(output[places], rows[places])

    def _is_of_labels(self, linked: FloatArray, known: NDArray[np.intp]) -> bool:
        """Return whether the metric is a scorer that depends on the labels with the largest mean output only.

        It is compared on the outputs and on their labels, both in the order of the rows and in a random one: where all
        labels are right, other metrics may be equal too.
        """
        if linked.ndim != 2 or not self.metric.greater_is_better:
            return False
        orders = (np.arange(known.size), np.random.default_rng(0).permutation(known.size))
        labels = np.eye(linked.shape[1])[np.argmax(linked, axis=1)]
        return all(
            self.linked_value(labels[order], known) == self.linked_value(linked[order], known) for order in orders
        )


def metric_rows(metric: ResolvedMetric, adapter: EnsembleAdapter, sample: Sample, y: NDArray[Any]) -> MetricRows:
    """Return the rows of a sample as a metric of an ensemble takes them, with its formula if one is known.

    Parameters
    ----------
    metric : ResolvedMetric
    adapter : EnsembleAdapter
    sample : Sample
    y : ndarray, shape (n_sampled,)
        Target of the sampled rows as the user gave it.
    """
    if metric.greater_is_better and adapter.classes is not None and not metric.is_joint:
        # In the type of the labels, whatever the container of y.
        y = adapter.classes[sample.block.target]
    is_weighted = metric.takes_weights and bool(np.ptp(sample.weight) > 0)
    weight = sample.weight if is_weighted else None
    combine = adapter.combined if isinstance(adapter, CombinesMembers) else None
    rows = MetricRows(metric, sample, y, adapter.inverse_link, weight, combine=combine)
    # Formulas are of one output.
    return rows if metric.is_joint else rows.recognised(adapter.classes)


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
    for start in range(0, found.size, ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        apart = block.outputs[:, rows] - mean[rows]
        squares = apart**2 if apart.ndim == 2 else np.einsum("mij,mij->mi", apart, apart)
        found[rows] = np.add.reduce(squares * block.counted[:, rows], axis=0)
    return found
