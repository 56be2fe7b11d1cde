"""The evidence of an analysis: the members' outputs, read, tallied and sampled in blocks of rows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.adapters.members import in_threads
from ens_plugin.core.bags import BagProof, Bags
from ens_plugin.core.sample import Sample, sample_keys, smallest_keys
from ens_plugin.core.tally import (
    CHUNK,
    LabelTally,
    RowBlock,
    Tally,
    both_scores,
    copy_rows,
    empty_tally,
    select_rows,
    take_rows,
    tally_labels,
    tally_values,
)
from ens_plugin.core.weights import RowWeight

if TYPE_CHECKING:
    from ens_plugin.core.losses import LossMoments
    from ens_plugin.core.validation import AnyIntArray, FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Evidence:
    """What remains of the members' outputs by row, and sampled outputs, from which all estimates are computed.

    Attributes
    ----------
    tally : Tally
        One entry per row, or, of a cluster, per kind of rows that are alike in all that it holds.
    sample : Sample
        The members' outputs for a random subset of the rows; its rows are entries of the tally.
    weight : RowWeight
        Weights of the entries.
    label : ndarray of int, shape (n_entries,), or None
        Label code of each entry, of any type of integer, to be compared and to select entries of arrays; None for
        regression.
    moments : LossMoments or None
        Of the squared error, where the entries of the tally are rows alike and do not tell it.
    chance : ndarray, shape (n_entries,), or None
        Chance of each row to be left out of one bag, where they differ and the library keeps them.
    cell : ndarray of int, shape (n_entries,), or None
        A number for each row, equal for rows with equal features; None where it is not known, and where all differ.
    metric_sample : Sample or None
        Like `sample`, but of the rows that a metric is computed on; None if they are the same, or without a metric.
    """

    tally: Tally
    sample: Sample
    weight: RowWeight
    label: IntArray | None = field(default=None, kw_only=True)
    moments: LossMoments | None = field(default=None, kw_only=True)
    chance: FloatArray | None = field(default=None, kw_only=True)
    cell: AnyIntArray | None = field(default=None, kw_only=True)
    proof: BagProof = field(default_factory=BagProof, kw_only=True)
    metric_sample: Sample | None = field(default=None, kw_only=True)

    @property
    def rows_of_metric(self) -> Sample:
        """Return the members' outputs for the rows that a metric is computed on."""
        return self.sample if self.metric_sample is None else self.metric_sample

    def with_few_rows_of_metric(self) -> Evidence:
        """Return the evidence with no more rows for a metric than are evaluated in little time."""
        rows = self.rows_of_metric
        few = rows.rows.size <= METRIC_ROWS_IN_TIME
        return self if few else replace(self, metric_sample=rows.some_rows(METRIC_ROWS_IN_TIME))

    def part(self, mask: NDArray[np.bool_]) -> Evidence:
        """Return some of the entries; `metric_sample` remains that of all."""
        if mask.all():
            return self
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
        if self.metric_sample is None:
            sample = self.sample.sort_by_content()
            if isinstance(self.tally, LabelTally) and sample.block.is_vote and sample.block.n_labels == 2:
                _keep_counts(sample.block, self.tally, sample.rows)
            return replace(self, sample=sample)
        more = self.metric_sample.sort_by_content()
        # The rows of the smaller sample are some of these, and their order is the same among others.
        smaller = more.select(np.flatnonzero(np.isin(more.rows, self.sample.rows)))
        return replace(self, sample=smaller, metric_sample=more)


def _keep_counts(block: RowBlock, tally: LabelTally, rows: IntArray) -> None:
    """Keep with some rows their numbers of members and of votes on two labels, which the tally of all has counted."""
    wrong, trials = tally.wrong_members[rows], tally.trials[rows]
    second = np.where(block.target == 0, wrong, trials - wrong)
    for name, counts in (("trials", trials), ("support", np.column_stack([trials - second, second]))):
        counts.flags.writeable = False
        vars(block)[name] = counts


Progress = Callable[[Iterable[Any], int], Iterable[Any]]
Item = TypeVar("Item")

# A reader of a terminal waits so long in peace.
DELAY_S = 2.0

BLOCK_BYTES = 16_000_000
FIXED_ROWS = 4096
SAMPLE_ROWS = 20_000
SAMPLE_BYTES = 48_000_000
# What the sample corrects has a tenth of the noise with two labels that it has with many.
SAMPLE_BYTES_OF_TWO = 32_000_000
# A metric is of all rows, unless they are more than this; where time is limited, 900 evaluations take about a second.
METRIC_ROWS, METRIC_ROWS_IN_TIME = 100_000, 5000
METRIC_BYTES = 512_000_000


def tally_rows(
    adapter: EnsembleAdapter,
    features: Any,
    bags: Bags | None,
    target: NDArray[Any],
    weight: FloatArray,
    *,
    with_metric: bool = False,
    tally: Callable[[RowBlock], Tally] | None = None,
    rng: np.random.Generator,
    progress: Progress | None,
) -> Evidence:
    """Return what remains of the out-of-bag members' outputs for each row, and sampled outputs."""
    # `tally` makes a tally of a block, by default that of the task. Blocks are read in as many threads as joblib's
    # context allows; the result does not depend on it.
    n_rows = target.size
    kept, sampled = _sampled_rows(adapter, weight, sampling_seed(rng), METRIC_ROWS if with_metric else 0)
    reader = BlockReader(adapter, features, bags, target, weight, kept, tally)
    blocks = row_blocks(adapter, n_rows)
    finished = in_threads(reader.read, blocks)
    parts = finished if progress is None else progress(finished, len(blocks))
    return _evidence(adapter, _joined(parts, n_rows, kept.size), sampled, target, weight)


class TimeLimit(Protocol):
    """What ends an analysis in time."""

    def goes_on(self, n_read: int, n_rows: int) -> bool:
        """Return whether as many rows may be read as have been read of all, or the first ones; always the same.

        So all outputs of a model are judged by the same rows.
        """

    def check(self) -> None:
        """Raise InputError where there is no time for another evaluation of a metric."""


FIRST_ROWS = 8  # even the slowest members soon have predicted them


def tally_in_time(
    adapter: EnsembleAdapter,
    features: Any,
    bags: Bags,
    target: NDArray[Any],
    weight: FloatArray,
    *,
    with_metric: bool,
    rng: np.random.Generator,
    limit: TimeLimit,
) -> tuple[IntArray, Evidence]:
    """Return the places of the rows that were read until time was over, ascending, and the tallies of these rows."""
    # Each block has as many rows as all before it, so that it takes about as long as they did. Rows are read by the
    # keys by which they are sampled, so that those read are a random part of all, with the first rows of the sample in
    # it. Where they are all rows, the tallies are those of tally_rows.
    n_rows, seed = target.size, sampling_seed(rng)
    kept, sampled = _sampled_rows(adapter, weight, seed, METRIC_ROWS_IN_TIME if with_metric else 0)
    is_kept = np.zeros(n_rows, dtype=np.bool_)
    is_kept[kept] = True
    order = np.argsort(sample_keys(np.arange(n_rows), seed))

    def read_some(rows: IntArray) -> TalliedBlock:
        own = Bags.from_mask(bags.at(rows))
        places = np.flatnonzero(is_kept[rows])
        reader = BlockReader(adapter, features[rows], own, target[rows], weight[rows], places)
        found = reader.read(slice(0, rows.size))
        return replace(found, sample=replace(found.sample, rows=rows[found.sample.rows]))

    blocks: list[IntArray] = []
    parts, n_read = list[TalliedBlock](), 0
    while n_read < n_rows and limit.goes_on(n_read, n_rows):
        rows = np.sort(order[n_read : max(2 * n_read, FIRST_ROWS)])
        added = [rows[block] for block in row_blocks(adapter, rows.size)]
        parts += in_threads(read_some, added)
        blocks, n_read = blocks + added, n_read + rows.size
    read = np.sort(order[:n_read])
    whole = _in_order(_joined(parts, n_read, int(is_kept[read].sum())), np.concatenate(blocks), read)
    sampled = np.searchsorted(read, sampled[np.isin(sampled, read)])
    if n_read < n_rows:
        # A copy of equal weights has another layout, and sums another rounding.
        target, weight = target[read], weight[read]
    return read, _evidence(adapter, whole, sampled, target, weight)


def _in_order(found: TalliedBlock, places: IntArray, ascending: IntArray) -> TalliedBlock:
    """Return the tallies of rows at some places in their order, with the sampled rows numbered among them."""
    sample = found.sample.select(np.argsort(found.sample.rows))
    sample = replace(sample, rows=np.searchsorted(ascending, sample.rows))
    return TalliedBlock(take_rows(found.tally, np.argsort(places)), sample)


def _evidence(
    adapter: EnsembleAdapter, rows: TalliedBlock, sampled: IntArray, target: NDArray[Any], weight: FloatArray
) -> Evidence:
    """Return the tallies of rows with the sample for the estimates, whose places are `sampled`, out of that kept."""
    is_all = sampled.size == rows.sample.rows.size
    return Evidence(
        tally=rows.tally,
        sample=rows.sample if is_all else rows.sample.select(np.searchsorted(rows.sample.rows, sampled)),
        metric_sample=None if is_all else rows.sample,
        weight=RowWeight(weight),
        label=None if adapter.classes is None else target,
    )


@dataclass(frozen=True, eq=False)
class TalliedBlock:
    """The tally of one block of rows, with the attributes of :class:`Evidence`."""

    tally: Tally
    sample: Sample


def _joined(parts: Iterable[TalliedBlock], n_rows: int, n_sampled: int) -> TalliedBlock:
    """Return consecutive blocks joined into one, each released as soon as it is copied."""
    tally: Tally | None = None
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

    The outputs of the `sampled` rows, ascending, are kept.
    """

    adapter: EnsembleAdapter
    features: Any
    bags: Bags | None
    target: NDArray[Any]
    weight: FloatArray
    sampled: IntArray
    tally: Callable[[RowBlock], Tally] | None = None

    def read(self, rows: slice) -> TalliedBlock:
        """Return the tally of one block of rows, with the sampled outputs."""
        block, tally = self._block(rows), self.tally or tally_of(self.adapter)
        return TalliedBlock(tally(self._both(block)), self._sample(block, rows))

    def _block(self, rows: slice) -> RowBlock:
        outputs, counted = self.adapter.block(self.features[rows], self.bags, rows)
        target = self.target[rows] if self.adapter.classes is None else self.target[rows].astype(np.int64)
        return RowBlock(outputs, counted, target, label_count(self.adapter))

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
        is_one_score = self.adapter.output_kind == "scores" and block.outputs.ndim == 2
        return replace(block, outputs=both_scores(block.outputs)) if is_one_score else block


def tally_of(adapter: EnsembleAdapter) -> Callable[[RowBlock], Tally]:
    """Return the function that makes the tally of a block of the rows of an ensemble."""
    return tally_values if adapter.info.task == "regression" else tally_labels


def label_count(adapter: EnsembleAdapter) -> int:
    """Return the number of labels; 0 for regression."""
    return 0 if adapter.classes is None else int(adapter.classes.size)


def _output_bytes(adapter: EnsembleAdapter, n_labels: int) -> int:
    """Return the bytes of one member's output for one row: a label code, or one float64 for each label."""
    if adapter.output_kind == "labels":
        return 1
    return 8 * max(n_labels, 1)


def row_blocks(adapter: EnsembleAdapter, n_rows: int) -> list[slice]:
    """Return slices of rows, aligned to chunks, small enough for memory and enough for all threads."""
    rows = block_rows(adapter, -(-n_rows // effective_n_jobs(None)))
    return [slice(start, min(start + rows, n_rows)) for start in range(0, n_rows, rows)]


def block_rows(adapter: EnsembleAdapter, wanted: int) -> int:
    """Return how many rows to read at once: about `wanted` where memory allows, in whole chunks."""
    # Where rounding depends on the height of a block, the height must not depend on the threads.
    wanted = wanted if adapter.info.is_row_independent else FIXED_ROWS
    n_labels = label_count(adapter)
    # Raw scores of two labels are mostly one number.
    n_outputs = 1 if adapter.output_kind == "scores" and n_labels == 2 else n_labels
    rows = min(BLOCK_BYTES // (adapter.n_members * _output_bytes(adapter, n_outputs)), wanted)
    return max(-(-rows // CHUNK), 1) * CHUNK


def _sampled_rows(
    adapter: EnsembleAdapter, weight: FloatArray, seed: int, metric_rows: int
) -> tuple[IntArray, IntArray]:
    """Return the rows whose members' outputs are kept, and those of them for all estimates except that of a metric."""
    # `metric_rows` is the largest number of rows that a metric is computed on; 0 without a metric.
    weighted = np.flatnonzero(weight > 0)
    limit = sample_limit(adapter, label_count(adapter))
    if weighted.size <= limit:
        return weighted, weighted
    keys = sample_keys(weighted, seed)
    sampled = weighted[smallest_keys(keys, limit)]
    most = min(metric_rows, METRIC_BYTES // (adapter.n_members * _output_bytes(adapter, label_count(adapter))))
    return (sampled if most <= limit else weighted[smallest_keys(keys, most)]), sampled


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
