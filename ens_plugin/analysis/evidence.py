"""The evidence of an analysis: the members' outputs, read, tallied and sampled in blocks of rows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.adapters.members import in_threads
from ens_plugin.adapters.trees import CompiledSums, compiled_sums, label_order, moment_sums
from ens_plugin.core.bags import BagProof, Bags
from ens_plugin.core.sample import Sample, ScoreBlock, sample_keys, smallest_keys
from ens_plugin.core.tally import (
    CHUNK,
    AnyTally,
    RowBlock,
    SupportTally,
    both_scores,
    copy_rows,
    empty_tally,
    select_rows,
    tally_margins,
    tally_score_signs,
    tally_support,
    tally_values,
)
from ens_plugin.core.weights import RowWeight

if TYPE_CHECKING:
    from ens_plugin.core.grouped_tally import GroupedValues
    from ens_plugin.core.validation import AnyIntArray, FloatArray, IntArray

__all__ = [
    "BLOCK_BYTES",
    "DELAY_S",
    "SAMPLE_ROWS",
    "BlockReader",
    "Evidence",
    "Progress",
    "block_rows",
    "label_count",
    "progress_bar",
    "row_blocks",
    "sample_limit",
    "sampling_seed",
    "tally_block",
    "tally_rows",
]


@dataclass(frozen=True, eq=False)
class Evidence:
    """Sums over members by row (tallies), and sampled outputs, from which all estimates are computed.

    Attributes
    ----------
    tally : SupportTally, MarginTally, ValueTally or GroupedValues
        One entry per row, or per group of rows.
    sample : Sample
        The members' outputs for a random subset of the rows; its rows are entries of the tally.
    weight : RowWeight
        Weights of the entries.
    label : ndarray of int, shape (n_entries,), or None
        Label code of each row, of any type of integer, to be compared and to select entries of arrays; None for
        regression, and where entries are groups of rows.
    by_label : ndarray, shape (2, n_labels, n_members + 1), or None
        Where entries are groups of rows: rows with weight by label and number of members, and their weight.
    chance : ndarray, shape (n_entries,), or None
        Chance of each row to be left out of one bag, where they differ and the library keeps them.
    cell : ndarray of int, shape (n_entries,), or None
        A number for each row, equal for rows with equal features; None where it is not known, and where all differ.
    metric_sample : Sample or None
        Like `sample`, but of more rows, for a metric; None without a metric, or if `sample` has enough rows.
    """

    tally: AnyTally | GroupedValues
    sample: Sample
    weight: RowWeight
    label: IntArray | None = field(default=None, kw_only=True)
    by_label: FloatArray | None = field(default=None, kw_only=True)
    chance: FloatArray | None = field(default=None, kw_only=True)
    cell: AnyIntArray | None = field(default=None, kw_only=True)
    proof: BagProof = field(default_factory=BagProof, kw_only=True)
    metric_sample: Sample | None = field(default=None, kw_only=True)

    @property
    def rows_of_metric(self) -> Sample:
        """Return the members' outputs for the rows that a metric is computed on."""
        return self.sample if self.metric_sample is None else self.metric_sample

    def part(self, mask: NDArray[np.bool_]) -> Evidence:
        """Return some of the rows, each an entry of the tally; `metric_sample` remains that of all."""
        assert isinstance(self.tally, AnyTally)
        return replace(
            self,
            tally=select_rows(self.tally, mask),
            sample=self.sample.keep(mask),
            weight=self.weight.select(mask),
            label=None if self.label is None else self.label[mask],
            cell=None if self.cell is None else self.cell[mask],
        )

    @property
    def sampled_cell(self) -> AnyIntArray | None:
        """Return the cell of each sampled row."""
        return None if self.cell is None else self.cell[self.sample.rows]

    def sort_samples(self) -> Evidence:
        """Return the rows with their samples sorted by content; the outputs in the given samples are overwritten."""
        of_labels = label_order()
        if self.metric_sample is None:
            sample = self.sample.sort_by_content(of_labels)
            if isinstance(self.tally, SupportTally) and sample.block.is_vote:
                _keep_counts(sample.block, self.tally, sample.rows)
            return replace(self, sample=sample)
        more = self.metric_sample.sort_by_content(of_labels)
        # The rows of the smaller sample are some of these, and their order is the same among others.
        smaller = more.select(np.flatnonzero(np.isin(more.rows, self.sample.rows)))
        return replace(self, sample=smaller, metric_sample=more)


def _keep_counts(block: RowBlock, tally: SupportTally, rows: IntArray) -> None:
    """Keep with some rows their numbers of members and of votes on two labels, which the tally of all has counted."""
    wrong, trials = tally.wrong[rows], tally.trials[rows]
    second = np.where(block.target == 0, wrong, trials - wrong)
    for name, counts in (("trials", trials), ("support", np.column_stack([trials - second, second]))):
        counts.flags.writeable = False
        vars(block)[name] = counts


Progress = Callable[[Iterable[Any], int], Iterable[Any]]
Item = TypeVar("Item")

# A reader of a terminal waits so long in peace.
DELAY_S = 2.0

BLOCK_BYTES = 16_000_000
# Outputs of so many bytes, and what is computed from them, stay in a processor's cache.
CACHED_BYTES = 4_000_000
FIXED_ROWS = 4096
# Sampled rows whose outputs are computed apart from the sums of all are at most one in so many.
FEW_SAMPLED = 4
SAMPLE_ROWS = 20_000
SAMPLE_BYTES = 48_000_000
# What the sample corrects has a tenth of the noise with two labels that it has with many.
SAMPLE_BYTES_OF_TWO = 32_000_000
# A metric is of all rows, unless they are more than this.
METRIC_ROWS = 100_000
METRIC_BYTES = 512_000_000


def tally_rows(
    adapter: EnsembleAdapter,
    features: Any,
    bags: Bags | None,
    target: NDArray[Any],
    weight: FloatArray,
    *,
    with_metric: bool = False,
    rng: np.random.Generator,
    progress: Progress | None,
) -> Evidence:
    """Return sums over the out-of-bag members of each row (tallies), and sampled outputs.

    Blocks are read in as many threads as joblib's context allows; the result does not depend on it.
    """
    n_rows = target.size
    kept, sampled = _sampled_rows(adapter, weight, rng, with_metric=with_metric)
    reader = BlockReader(adapter, features, bags, target, weight, kept, with_metric)
    # Where blocks are added up without their outputs, higher ones read each member's bag and leaves fewer times.
    is_summed = adapter.reads_few_rows_fast and n_rows >= FEW_SAMPLED * kept.size
    blocks = row_blocks(adapter, n_rows, FEW_SAMPLED if is_summed else 1)
    finished = in_threads(partial(reader.read, most=block_rows(adapter, n_rows)), blocks)
    parts = finished if progress is None else progress(finished, len(blocks))
    rows = _joined(parts, n_rows, kept.size)
    is_all = sampled.size == kept.size
    return Evidence(
        tally=rows.tally,
        sample=rows.sample if is_all else rows.sample.select(np.searchsorted(kept, sampled)),
        metric_sample=None if is_all else rows.sample,
        weight=RowWeight(weight),
        label=None if adapter.classes is None else target,
    )


@dataclass(frozen=True, eq=False)
class TalliedBlock:
    """Tallies of one block of rows, with the attributes of :class:`Evidence`."""

    tally: AnyTally
    sample: Sample


def _joined(parts: Iterable[TalliedBlock], n_rows: int, n_sampled: int) -> TalliedBlock:
    """Return consecutive blocks joined into one, each released as soon as it is copied."""
    tally: AnyTally | None = None
    row, place = 0, 0
    for part in parts:
        if tally is None:
            tally, sample = empty_tally(part.tally, n_rows), part.sample.empty(n_sampled)
        copy_rows(part.tally, tally, row)
        part.sample.copy_into(sample, place)
        row, place = row + part.tally.n_rows, place + part.sample.rows.size
    assert tally is not None
    return TalliedBlock(tally, sample)


@dataclass(frozen=True, eq=False)
class BlockReader:
    """Reader of blocks of rows, with the parameters of :func:`tally_rows` as attributes.

    The outputs of the `sampled` rows, ascending, are kept; with a metric, which reads scores by label, by label, and
    for all else one score of two labels.
    """

    adapter: EnsembleAdapter
    features: Any
    bags: Bags | None
    target: NDArray[Any]
    weight: FloatArray
    sampled: IntArray
    with_metric: bool = False

    def read(self, rows: slice, most: int | None = None) -> TalliedBlock:
        """Return the tallies of one block of rows, with the outputs of at most `most` rows at a time."""
        summed = self._summed(rows)
        if summed is not None:
            return summed
        if most is None or rows.stop - rows.start <= most:
            return self._read(rows)
        parts = [slice(start, min(start + most, rows.stop)) for start in range(rows.start, rows.stop, most)]
        first, last = np.searchsorted(self.sampled, [rows.start, rows.stop])
        return _joined(map(self._read, parts), rows.stop - rows.start, int(last - first))

    def _read(self, rows: slice) -> TalliedBlock:
        block = self._block(rows)
        return TalliedBlock(
            tally=tally_block(block, self.adapter),
            sample=self._sample(block, rows),
        )

    def _summed(self, rows: slice) -> TalliedBlock | None:
        """Return the tallies of a block whose adapter adds up outputs without returning them; None where none does."""
        first, last = np.searchsorted(self.sampled, [rows.start, rows.stop])
        chosen = self.sampled[first:last]
        if chosen.size * FEW_SAMPLED > rows.stop - rows.start or rows.start % 8:
            return None
        if (sums := self._sums(rows)) is None:
            return None
        # Its tally needs no outputs.
        n_labels, shape = label_count(self.adapter), (self.adapter.n_members, 0)
        outputs = np.empty((*shape, n_labels) if sums.of_margins else shape)
        block = RowBlock(outputs, np.empty(shape, dtype=np.bool_), self._target_of(rows), n_labels)
        tally = tally_block(block, self.adapter, sums)
        return TalliedBlock(tally, Sample(self._both(self._apart(chosen, sums)), chosen, self.weight[chosen]))

    def _sums(self, rows: slice) -> CompiledSums | None:
        """Return what returns the sums of a block, which the adapter has computed; None where it does not."""
        bags = None if self.bags is None else self.bags.part(rows)
        values = self.adapter.value_sums(self.features[rows], bags)
        if values is not None:
            return CompiledSums(of_values=lambda _: values)
        margins = self.adapter.margin_sums(self.features[rows], bags, self._target_of(rows))
        return None if margins is None else CompiledSums(of_margins=lambda _: margins)

    def _apart(self, chosen: IntArray, sums: CompiledSums) -> RowBlock:
        """Return the members' outputs for some rows, by position, whose sums are known."""
        in_bag = None if self.bags is None else self.bags.at(chosen)
        if sums.of_values:
            outputs = self.adapter.outputs(self.features[chosen])
            counted = np.ones(outputs.shape, dtype=bool) if in_bag is None else ~in_bag
        else:
            bags = None if in_bag is None else Bags.from_mask(in_bag)
            outputs, counted = self.adapter.block(self.features[chosen], bags, slice(0, chosen.size))
        return RowBlock(outputs, counted, self._target_of(chosen), label_count(self.adapter))

    def _block(self, rows: slice) -> RowBlock:
        outputs, counted = self.adapter.block(self.features[rows], self.bags, rows)
        return RowBlock(outputs, counted, self._target_of(rows), label_count(self.adapter))

    def _target_of(self, rows: slice | IntArray) -> NDArray[Any]:
        """Return the target of some rows, label codes as int64."""
        target = self.target[rows]
        return target if self.adapter.classes is None else target.astype(np.int64)

    def _sample(self, block: RowBlock, rows: slice) -> Sample:
        first, last = np.searchsorted(self.sampled, [rows.start, rows.stop])
        chosen = self.sampled[first:last]
        if chosen.size == block.target.size:
            return Sample(self._both(block), chosen, self.weight[chosen])
        here = chosen - rows.start
        # A take is several times as fast as an index, but copies all rows of outputs that are stored by label.
        own = block.outputs.take(here, axis=1) if block.outputs.flags.c_contiguous else block.outputs[:, here]
        part = RowBlock(own, block.counted.take(here, axis=1), block.target[here], block.n_labels)
        return Sample(self._both(part), chosen, self.weight[chosen])

    def _both(self, block: RowBlock) -> RowBlock:
        """Return the block with a label axis, also where an adapter returns one score for two labels."""
        if not _has_one_score(self.adapter, block):
            return block
        if self.with_metric:
            return replace(block, outputs=both_scores(block.outputs))
        return ScoreBlock(block.counted, block.target, block.outputs, moment_sums)


def tally_block(block: RowBlock, adapter: EnsembleAdapter, known: CompiledSums | None = None) -> AnyTally:
    """Return the tally of a block of rows that suits the task and the outputs of its ensemble.

    `known` returns sums that are known already, where the block has no outputs.
    """
    sums = compiled_sums(block) if known is None else known
    if adapter.info.task == "regression":
        return tally_values(block, sums.of_values)
    if _has_one_score(adapter, block):
        return tally_score_signs(block, sums.of_values)
    if block.n_labels == 2 and adapter.output_kind != "scores":
        return tally_support(block)
    return tally_margins(block, sums.of_margins)


def _has_one_score(adapter: EnsembleAdapter, block: RowBlock) -> bool:
    return adapter.output_kind == "scores" and block.outputs.ndim == 2


def label_count(adapter: EnsembleAdapter) -> int:
    """Return the number of labels; 0 for regression."""
    return 0 if adapter.classes is None else int(adapter.classes.size)


def _output_bytes(adapter: EnsembleAdapter, n_labels: int) -> int:
    """Return the bytes of one member's output for one row: a label code, or one float64 for each label."""
    if adapter.output_kind == "labels":
        return 1
    return 8 * max(n_labels, 1)


def row_blocks(adapter: EnsembleAdapter, n_rows: int, times: int = 1) -> list[slice]:
    """Return slices of rows, aligned to chunks, small enough for memory and enough for all threads."""
    rows = block_rows(adapter, -(-n_rows // effective_n_jobs(None)), times)
    return [slice(start, min(start + rows, n_rows)) for start in range(0, n_rows, rows)]


def block_rows(adapter: EnsembleAdapter, wanted: int, times: int = 1) -> int:
    """Return how many rows to read at once: about `wanted` where memory allows, in whole chunks.

    Of rows whose values an adapter adds up without returning them, `times` as many.
    """
    # Where rounding depends on the height of a block, the height must not depend on the threads.
    wanted = wanted if adapter.info.is_row_independent else FIXED_ROWS
    n_labels = label_count(adapter)
    # Raw scores of two labels are mostly one number.
    n_outputs = 1 if adapter.output_kind == "scores" and n_labels == 2 else n_labels
    n_bytes = CACHED_BYTES if adapter.reads_few_rows_fast else BLOCK_BYTES
    # Sums without outputs take little memory; those of sampled rows do, of one row in four at most.
    if adapter.offers("value_sums") and n_outputs <= 1:
        n_bytes = times * BLOCK_BYTES
    elif adapter.offers("margin_sums") and adapter.reads_few_rows_fast:
        n_bytes = FEW_SAMPLED * BLOCK_BYTES
    rows = min(n_bytes // (adapter.n_members * _output_bytes(adapter, n_outputs)), wanted)
    return max(-(-rows // CHUNK), 1) * CHUNK


def _sampled_rows(
    adapter: EnsembleAdapter, weight: FloatArray, rng: np.random.Generator, *, with_metric: bool
) -> tuple[IntArray, IntArray]:
    """Return the rows whose members' outputs are kept, and those of them for all estimates except that of a metric."""
    weighted = np.flatnonzero(weight > 0)
    limit, seed = sample_limit(adapter, label_count(adapter)), sampling_seed(rng)
    if weighted.size <= limit:
        return weighted, weighted
    keys = sample_keys(weighted, seed)
    sampled = weighted[smallest_keys(keys, limit)]
    if not with_metric:
        return sampled, sampled
    return weighted[smallest_keys(keys, max(_metric_limit(adapter), limit))], sampled


def _metric_limit(adapter: EnsembleAdapter) -> int:
    """Return the largest number of rows whose members' outputs are kept for a metric."""
    bytes_per_row = adapter.n_members * _output_bytes(adapter, label_count(adapter))
    return min(METRIC_ROWS, METRIC_BYTES // bytes_per_row)


def sampling_seed(rng: np.random.Generator) -> int:
    """Return a random seed, from which keys are computed that decide which rows are sampled."""
    return int(rng.integers(2**63))


def sample_limit(adapter: EnsembleAdapter, n_labels: int) -> int:
    """Return the largest number of rows whose members' outputs are kept."""
    bytes_per_row = adapter.n_members * _output_bytes(adapter, n_labels)
    most_bytes = SAMPLE_BYTES_OF_TWO if n_labels == 2 else SAMPLE_BYTES
    return min(SAMPLE_ROWS, max(most_bytes // bytes_per_row, CHUNK))


def progress_bar(items: Iterable[Item], total: int, what: str | None = None) -> Iterable[Item]:
    """Return an iterable with a progress bar on stderr, which is shown after two seconds and on a terminal only."""
    # A program without a console has no stderr.
    if sys.stderr is None or not sys.stderr.isatty():
        return items
    from tqdm import tqdm

    return tqdm(items, desc=what, total=total, delay=DELAY_S, file=sys.stderr, leave=False)
