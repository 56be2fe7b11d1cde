"""One partition of the rows in a worker, and the parts of all of them put together."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from joblib import parallel_config
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ens_plugin.adapters.contract import DistributedBags, EnsembleAdapter, ProofStatistics, merge_sums
from ens_plugin.adapters.members import label_codes
from ens_plugin.adapters.unwrap import inner_ensemble, unwrap
from ens_plugin.analysis.copies import RepeatedRows, hash_rows, record_hashes, row_hashes
from ens_plugin.analysis.evidence import SAMPLE_ROWS, BlockReader, Evidence, TalliedBlock, block_rows, label_count
from ens_plugin.core.alike_rows import FEWEST_COPIED, column_halves
from ens_plugin.core.grouped_tally import (
    GroupedValues,
    Groups,
    group_rows,
    margin_codes,
    merge_groups,
    support_codes,
    vote_codes,
)
from ens_plugin.core.losses import LossMoments, loss_moments
from ens_plugin.core.sample import Sample, content_order, sample_keys, smallest_keys
from ens_plugin.core.tally import (
    AnyTally,
    MarginTally,
    RowBlock,
    SupportTally,
    ValueTally,
    concatenate,
    select_rows,
)
from ens_plugin.core.validation import ROUNDING, FloatArray, IntArray, counted
from ens_plugin.core.weights import RowWeight
from ens_plugin.errors import EnsPluginError, InputError
from ens_plugin.findings import Finding, finding

__all__ = [
    "MERGED_AT_ONCE",
    "ROW",
    "Grouping",
    "KeptRows",
    "Part",
    "Plan",
    "Problems",
    "Rows",
    "block_groups",
    "choose_grouping",
    "codes_of",
    "codes_or_values",
    "copies_finding",
    "from_bytes",
    "in_content_order",
    "in_row_order",
    "merge_marks",
    "merge_parts",
    "read_partition",
    "refuse_alike_rows",
    "row_marks",
    "rows_of",
    "tallied_rows",
    "tally_of",
    "to_bytes",
]

Marks = NDArray[np.uint64]

N_SPLITS = 4
MARKED_ROWS = 20_000
DOUBTED_SHARE = 0.01
WHOLE = 0

REMEDIES = (
    "A row with a copy in a member's bag is not really out of bag, so the out-of-bag error may be far too low. Train "
    "without the copies, or analyse the rows on one machine with ens_plugin.analyze and its groups=."
)


def row_marks(features: Any, rows: Any, target: NDArray[Any], n_rows: int) -> Marks:
    """Return hashes of rows of a block, by which equal and nearly equal rows are found, also in other blocks.

    A row is kept, for its whole record and for each half of its columns, if the hash is small: rows that share it
    are then kept, too.
    """
    hashed = hash_rows(features, rows)
    if hashed is None:
        return np.zeros((3, 0), dtype=np.uint64)
    records = record_hashes(hashed.hashes, target)
    halves = row_hashes(hashed.table, column_halves(hashed.table.shape[1])[: 2 * N_SPLITS])
    bound = np.uint64(min(MARKED_ROWS / n_rows, 1.0) * (2.0**64 - 2.0**12))
    marks = []
    for half, hashes in enumerate([records, *halves]):
        kept = hashes <= bound if n_rows > MARKED_ROWS else np.ones(hashes.size, dtype=bool)
        found = np.full(np.count_nonzero(kept), half, dtype=np.uint64)
        marks.append(np.stack([found, hashes[kept], records[kept]]))
    return merge_marks(marks)


def merge_marks(marks: list[Marks]) -> Marks:
    """Return the hashes of several disjoint blocks together, in an order that does not depend on that of the blocks."""
    merged = np.concatenate(marks, axis=1)
    return merged[:, np.lexsort(merged[::-1])]


def repeated_shares(marks: Marks) -> tuple[float, float]:
    """Return the share of rows whose record occurs more than once, and of rows that look like copies.

    The first is exact for the sampled records; the second counts, for each split of the columns, repeated rows whose
    values in the worse of its halves no other record has.  Fewer than five records may be blank forms.
    """
    whole = marks[1:, marks[0] == WHOLE]
    n_rows, repeated = max(whole.shape[1], 1), _repeated(whole)
    if np.unique(whole[1, repeated]).size < FEWEST_COPIED:
        return repeated.sum() / n_rows, 0.0
    lone = [_lone_share(marks[1:, marks[0] == half]) for half in range(1, 2 * N_SPLITS + 1)]
    worse = np.maximum(lone[::2], lone[1::2])
    return repeated.sum() / n_rows, repeated.sum() / n_rows * float(np.mean(worse))


def _repeated(marks: Marks) -> NDArray[np.bool_]:
    """Return which rows are of a record that occurs more than once."""
    _, record, copies = np.unique(marks[1], return_inverse=True, return_counts=True)
    return np.asarray(copies[record] > 1)


def _lone_share(marks: Marks) -> float:
    """Return the share of repeated rows with values in half of the columns that no other record has."""
    _, half, alike = np.unique(marks[0], return_inverse=True, return_counts=True)
    _, record, copies = np.unique(marks[1], return_inverse=True, return_counts=True)
    repeated = copies[record] > 1
    return float(np.mean((alike[half] == copies[record])[repeated])) if repeated.any() else 0.0


def copies_finding(
    marks: Marks | None, n_rows: int, look_again: Callable[[], RepeatedRows | None] = lambda: None
) -> tuple[int, tuple[Finding, ...]]:
    """Return the number of repeated rows, and a doubt where more than one row in a hundred looks like a copy."""
    if marks is None:
        return 0, ()
    repeated, copied = repeated_shares(marks)
    whole = look_again() if repeated else None
    if whole is not None:
        copied = float(np.mean(whole.copied))
    found = f"About {100 * copied:.2g} % of {n_rows} rows look like copies of another row: same features, same target."
    n_repeated = round(repeated * n_rows)
    if copied <= DOUBTED_SHARE:
        return n_repeated, ()
    return n_repeated, (finding("copies", f"{found} {REMEDIES}", n_copied=copied * n_rows),)


BY_MEMBER = ("outputs", "counted")


@dataclass(frozen=True, eq=False)
class KeptRows:
    """Sampled rows with the outputs of every member.

    Attributes
    ----------
    outputs : ndarray, shape (n_members, n_rows) or (n_members, n_rows, n_labels)
    counted : ndarray of uint8, shape (ceil(n_members / 8), n_rows)
        Whether each output counts, as bits, eight members to the byte.
    target, weight : ndarray, shape (n_rows,)
    key : ndarray of uint64, shape (n_rows,)
        The rows with the smallest keys are the sample.
    row : ndarray of int64, shape (n_rows,)
        Position in training order, or a hash of the row where its position is not known.
    code : ndarray of int64, shape (n_rows,)
        Group of each row.
    """

    outputs: NDArray[np.generic]
    counted: NDArray[np.uint8]
    target: NDArray[np.generic]
    weight: FloatArray
    key: NDArray[np.uint64]
    row: IntArray
    code: IntArray

    def take(self, rows: NDArray[np.intp]) -> KeptRows:
        """Return the rows at the given positions."""
        columns = vars(self).items()
        return KeptRows(*(values[:, rows] if name in BY_MEMBER else values[rows] for name, values in columns))


@dataclass(frozen=True)
class Problems:
    """Reasons why rows cannot be analysed.

    `bad_values` are the rows with missing or infinite values that the model refuses, by feature column; `refusals`,
    class and message of other errors, are sorted, each once.
    """

    bad_values: dict[str, int] = field(default_factory=dict)
    refusals: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.bad_values or self.refusals)

    def merge(self, other: Problems) -> Problems:
        """Return the problems of two disjoint sets of rows together."""
        counts = dict(self.bad_values)
        for column, count in other.bad_values.items():
            counts[column] = counts.get(column, 0) + count
        return Problems(counts, tuple(sorted({*self.refusals, *other.refusals})))


@dataclass(frozen=True, eq=False)
class Part:
    """Sums over the rows of a part of the data; None where the kind of ensemble has no such sum.

    Attributes
    ----------
    groups : Groups or None
        Rows with weight, by the codes of their tally.
    idle : ndarray, shape (n_members + 1,)
        Rows without weight, by the number of members that predict them.
    by_label : ndarray, shape (2, n_labels, n_members + 1)
        Rows with weight, and their weight, by label and number of members; a single label for regression.
    marks : ndarray of uint64, shape (3, n_marks), or None
        Hashes of training rows, to find copies by.
    """

    groups: Groups | None = None
    idle: FloatArray | None = None
    by_label: FloatArray | None = None
    moments: LossMoments | None = None
    kept: KeptRows | None = None
    marks: Marks | None = None
    proof: ProofStatistics = field(default_factory=ProofStatistics)
    problems: Problems = field(default_factory=Problems)


def merge_parts(parts: Sequence[Part], sample_limit: int) -> Part:
    """Return the sums over several disjoint parts of the data, with at most `sample_limit` sampled rows."""
    groups = [part.groups for part in parts if part.groups is not None]
    marks = [part.marks for part in parts if part.marks is not None]
    merged = Part(
        groups=merge_groups(groups) if groups else None,
        idle=_added([part.idle for part in parts]),
        by_label=_added([part.by_label for part in parts]),
        kept=_kept([part.kept for part in parts if part.kept is not None], sample_limit),
        marks=merge_marks(marks) if marks else None,
        proof=merge_sums([part.proof for part in parts]),
    )
    moments, problems = None, Problems()
    for part in parts:
        problems = problems.merge(part.problems)
        if part.moments is not None:
            moments = part.moments if moments is None else moments.merge(part.moments)
    return replace(merged, moments=moments, problems=problems)


def _added(arrays: Sequence[FloatArray | None]) -> FloatArray | None:
    present = [array for array in arrays if array is not None]
    return np.sum(present, axis=0) if present else None


def _kept(parts: list[KeptRows], limit: int) -> KeptRows | None:
    if not parts:
        return None
    rows = KeptRows(
        *(np.concatenate([vars(part)[name] for part in parts], axis=int(name in BY_MEMBER)) for name in vars(parts[0]))
    )
    return rows.take(smallest_keys(rows.key, limit))


def to_bytes(part: Part) -> bytes:
    """Return a part as bytes, for transport between executors of one job."""
    return pickle.dumps(part, protocol=5)


def from_bytes(content: bytes) -> Part:
    """Return the part that :func:`to_bytes` wrote."""
    part = pickle.loads(content)
    assert isinstance(part, Part)
    return part


Grouping = Literal["values", "votes", "rows", "shares", "margins"]


def choose_grouping(adapter: EnsembleAdapter, n_rows: int) -> Grouping:
    """Return the property by which the tallied rows of an ensemble are grouped.

    ``"votes"`` and ``"shares"`` lose nothing, ``"rows"`` keeps each row, ``"values"`` groups by the number of members
    and keeps moments, and ``"margins"`` merges rows with nearly equal margins.
    """
    if adapter.info.task == "regression":
        return "values"
    two_labels = adapter.classes is not None and adapter.classes.size == 2 and adapter.output_kind != "scores"
    if two_labels and adapter.output_kind == "labels":
        return "votes"
    # The sample has so many rows, so that every row may be a group of its own at no further cost.
    if n_rows <= SAMPLE_ROWS:
        return "rows"
    return "shares" if two_labels else "margins"


def codes_of(grouping: Grouping, tally: AnyTally, row: IntArray, n_members: int) -> IntArray:
    """Return the code of the group of each row."""
    if grouping == "values":
        return tally.trials.astype(np.int64)
    if grouping == "rows":
        return row
    if isinstance(tally, SupportTally):
        return vote_codes(tally, n_members) if grouping == "votes" else support_codes(tally)
    assert isinstance(tally, MarginTally)
    return margin_codes(tally.trials, tally.mean, tally.sd)


def block_groups(grouping: Grouping, tally: AnyTally, code: IntArray, weight: FloatArray) -> Groups:
    """Return the groups of the rows of a block that have positive weight."""
    own = weight > 0
    return group_rows(code[own], [column[own] for column in _columns(grouping, tally)], weight[own])


def _columns(grouping: Grouping, tally: AnyTally) -> tuple[FloatArray, ...]:
    if isinstance(tally, SupportTally):
        return tally.trials, tally.wrong, tally.squares, tally.wrong_labels
    if isinstance(tally, ValueTally):
        return ()
    if grouping == "margins":
        return tally.trials, tally.mean, tally.sd**2, tally.wrong_labels
    return tally.trials, tally.mean, tally.sd, tally.wrong_labels


def kind_of_tally(adapter: EnsembleAdapter) -> type[SupportTally | MarginTally]:
    """Return the kind of tally that the rows of a classifier have."""
    two_labels = adapter.classes is not None and adapter.classes.size == 2
    return SupportTally if two_labels and adapter.output_kind != "scores" else MarginTally


def tally_of(
    grouping: Grouping, groups: Groups, n_members: int, kind: type[SupportTally | MarginTally]
) -> SupportTally | MarginTally:
    """Return a tally in which each group of rows is one entry."""
    means = groups.means()
    if grouping == "votes":
        trials, wrong = (part.astype(np.float64) for part in np.divmod(groups.code, n_members + 1))
        return SupportTally(trials, wrong, wrong, wrong)
    if kind is SupportTally:
        return _support_tally(groups, means, cells=grouping == "shares")
    if grouping == "margins":
        trials, mean, variance, wrong_labels = means
        return MarginTally(_unrounded(trials), mean, np.sqrt(variance), wrong_labels)
    return MarginTally(np.rint(means[0]), *means[1:])


def _support_tally(groups: Groups, means: FloatArray, *, cells: bool) -> SupportTally:
    trials = np.rint(means[0])
    wrong, squares = np.minimum(means[1], trials), np.minimum(means[2], trials)
    if cells:
        # Rounding must not decide a tie.
        wrong = np.where(groups.code % 2 == 1, trials / 2.0, wrong)
    return SupportTally(trials, wrong, squares, means[3])


def _unrounded(trials: FloatArray) -> FloatArray:
    """Return mean numbers of members, whole ones without their rounding error, so that 2 is not a little less."""
    whole = np.rint(trials)
    return np.where(np.abs(trials - whole) <= ROUNDING * whole, whole, trials)


MERGED_AT_ONCE = 16
TARGET, WEIGHT, ROW = "__target", "__weight", "__row"


@dataclass(frozen=True)
class Plan:
    """The settings of an analysis that every executor gets.

    Attributes
    ----------
    features : tuple of str
        Names of the feature columns, in the model's order.
    as_frame : bool
        Whether the model takes its rows as a DataFrame, with names.
    highest_key : int
        Largest key of a sampled row, also where few rows are below it.
    n_trained : int or None
        Number of training rows, if the DataFrame holds them; None for held-out rows.
    candidate : int
        Index of the possible draw of the bags that is tried.
    """

    features: tuple[str, ...]
    as_frame: bool
    grouping: Grouping
    sample_limit: int
    sampling_seed: int
    highest_key: int
    n_trained: int | None
    candidate: int


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of one block of the DataFrame."""

    features: Any
    target: NDArray[Any]
    weight: FloatArray
    row: NDArray[np.int64]


@lru_cache(maxsize=1)
def load_model(content: bytes) -> tuple[Any, EnsembleAdapter]:
    """Return a model and its adapter, cached in each worker process."""
    model, adapter_class = pickle.loads(content)
    return model, adapter_class(inner_ensemble(model))


@lru_cache(maxsize=1)
def load_bags(content: bytes, n_trained: int, candidate: int) -> DistributedBags:
    """Return the bags of a model's training rows by row position, cached in each worker process."""
    return load_model(content)[1].distributed_bags(n_trained, candidate)


def read_partition(batches: Iterable[pa.RecordBatch], content: bytes, plan: Plan) -> Part:
    """Return the sums over the rows of one partition, predicted by every member."""
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    if first is None:
        return Part()
    model, adapter = load_model(content)
    row_bags = None if plan.n_trained is None else load_bags(content, plan.n_trained, plan.candidate)
    part = Part()
    waiting: list[Part] = []
    checked = False
    with parallel_config(backend="threading", n_jobs=1), threadpool_limits(limits=1, user_api="blas"):
        for table in _blocks(chain([first], filled), block_rows(adapter, 2**16)):
            try:
                rows = rows_of(table, plan)
                waiting.append(_read_block(model, adapter, row_bags, rows, plan, check=not checked))
                checked = True
            except EnsPluginError as error:
                waiting.append(Part(problems=_problems(table, plan, error)))
            if len(waiting) == MERGED_AT_ONCE:
                part, waiting = merge_parts([part, *waiting], plan.sample_limit), []
    return merge_parts([part, *waiting], plan.sample_limit)


def _blocks(batches: Iterable[pa.RecordBatch], height: int) -> Iterator[pa.Table]:
    """Yield the rows of all batches in tables of `height` rows; the last may have fewer."""
    waiting: list[pa.RecordBatch] = []
    n_rows = 0
    for batch in batches:
        waiting.append(batch)
        n_rows += batch.num_rows
        if n_rows < height:
            continue
        table = pa.Table.from_batches(waiting)
        whole = n_rows // height * height
        yield from (table.slice(start, height) for start in range(0, whole, height))
        waiting, n_rows = table.slice(whole).to_batches(), n_rows - whole
    if n_rows:
        yield pa.Table.from_batches(waiting)


def rows_of(table: pa.Table, plan: Plan) -> Rows:
    """Return the rows of a table with the columns of :func:`ens_plugin.spark.columns.selected`."""
    n_rows = table.num_rows
    return Rows(
        features=_features(table.select(list(range(len(plan.features)))), plan),
        target=table[TARGET].to_pandas().to_numpy(),
        weight=_numbers(table[WEIGHT]) if WEIGHT in table.column_names else np.ones(n_rows),
        row=table[ROW].to_numpy().astype(np.int64),
    )


def _features(table: pa.Table, plan: Plan) -> Any:
    if plan.as_frame:
        return pd.DataFrame(
            {name: column.to_pandas() for name, column in zip(plan.features, table.columns, strict=True)}
        )
    columns = table.columns
    if len(columns) == 1 and pa.types.is_list(columns[0].type):
        return _matrix(columns[0])
    return np.column_stack([_numbers(column) for column in columns])


def _matrix(column: pa.ChunkedArray) -> FloatArray:
    """Return a column of lists, all of one length, as a matrix."""
    rows = column.combine_chunks()
    lengths = pc.unique(pc.list_value_length(rows))
    if len(lengths) != 1 or lengths[0].as_py() is None:
        raise InputError(
            "The arrays in feature_cols differ in length, or some are null. Give all rows arrays of one length."
        )
    return _numbers(rows.flatten()).reshape(len(rows), -1)


def _numbers(column: pa.Array | pa.ChunkedArray) -> FloatArray:
    """Return a column as float64, NaN where it is null."""
    return np.asarray(column.to_pandas().to_numpy(dtype=np.float64, na_value=np.nan))


def _read_block(
    model: Any, adapter: EnsembleAdapter, row_bags: DistributedBags | None, rows: Rows, plan: Plan, *, check: bool
) -> Part:
    features = adapter.prepare(unwrap(model, rows.features, are_fresh=row_bags is None)[1])
    if check:
        adapter.check_members(features)
    target = codes_or_values(rows, adapter)
    bags = None if row_bags is None else row_bags.at(rows.row, target)
    marks = None if plan.n_trained is None else row_marks(features, rows.features, target, plan.n_trained)
    proof = ProofStatistics() if bags is None or row_bags is None else row_bags.sums(rows.row, features, target, bags)
    keys = sample_keys(rows.row, plan.sampling_seed)
    sampled = np.flatnonzero((keys <= np.uint64(plan.highest_key)) & (rows.weight > 0))
    reader = BlockReader(adapter, features, bags, target, rows.weight, sampled)
    part = _part(reader.read(slice(0, target.size)), adapter, rows, target, keys[sampled], plan)
    return replace(part, proof=proof, marks=marks)


def codes_or_values(rows: Rows, adapter: EnsembleAdapter) -> NDArray[Any]:
    """Return the label codes or values of the rows."""
    return rows.target.astype(np.float64) if adapter.classes is None else label_codes(rows.target, adapter.classes)


def _part(
    block: TalliedBlock,
    adapter: EnsembleAdapter,
    rows: Rows,
    target: NDArray[Any],
    keys: NDArray[np.uint64],
    plan: Plan,
) -> Part:
    tally, weight, n_members = block.tally, rows.weight, adapter.n_members
    code = codes_of(plan.grouping, tally, rows.row, n_members)
    usable = (tally.trials >= 2) & (weight > 0)
    sample = block.sample
    return Part(
        groups=block_groups(plan.grouping, tally, code, weight),
        idle=np.bincount(tally.trials[weight <= 0].astype(np.int64), minlength=n_members + 1).astype(np.float64),
        by_label=_by_label(target, tally.trials, weight, adapter),
        moments=_moments(tally, usable, weight) if isinstance(tally, ValueTally) and usable.any() else None,
        kept=KeptRows(
            sample.block.outputs,
            np.packbits(sample.block.counted, axis=0),
            sample.block.target,
            sample.weight,
            keys,
            rows.row[sample.rows],
            code[sample.rows],
        ),
    )


def _by_label(target: NDArray[Any], trials: FloatArray, weight: FloatArray, adapter: EnsembleAdapter) -> FloatArray:
    """Return the rows with weight, and their weight, by label and number of members."""
    n_labels = max(label_count(adapter), 1)
    label = np.zeros(trials.size, dtype=np.int64) if adapter.classes is None else target.astype(np.int64)
    shape = (n_labels, adapter.n_members + 1)
    code = label * shape[1] + trials.astype(np.int64)
    size = n_labels * shape[1]
    return np.stack([np.bincount(code, values, size).reshape(shape) for values in (weight > 0, weight)])


def _moments(tally: ValueTally, usable: NDArray[np.bool_], weight: FloatArray) -> Any:
    own = select_rows(tally, usable)
    assert isinstance(own, ValueTally)
    return loss_moments(own.mean, own.variance, own.trials, own.target, weight[usable])


def _problems(table: pa.Table, plan: Plan, error: EnsPluginError) -> Problems:
    """Return the numbers of missing and infinite values that explain an error; without any, the error itself."""
    counts = _bad_values(table, plan.features)
    if counts:
        return Problems(bad_values=counts)
    return Problems(refusals=((type(error).__name__, error.template),))


def _bad_values(table: pa.Table, names: tuple[str, ...]) -> dict[str, int]:
    """Return the number of rows with missing or infinite values, in lists too, by feature column that has any."""
    counts = {}
    for name, column in zip(names, table.columns, strict=False):
        values = column.to_pandas()
        if pa.types.is_list(column.type):
            bad = ~np.array([row is not None and bool(np.isfinite(row).all()) for row in values])
        else:
            bad = values.isna().to_numpy()
            if pa.types.is_floating(column.type):
                bad = bad | np.isinf(values.to_numpy())
        counts[name] = int(bad.sum())
    return {name: count for name, count in counts.items() if count}


LEAST_VARIETY = 0.25


def tallied_rows(adapter: EnsembleAdapter, part: Part, grouping: Grouping) -> Evidence:
    """Return the tallied rows of the whole DataFrame from the sums over them."""
    groups, kept = part.groups, part.kept
    assert groups is not None
    assert kept is not None
    assert part.idle is not None
    weight = _with_idle(groups.row_weight(), part.idle)
    tally: AnyTally | GroupedValues
    if grouping == "values":
        tally = GroupedValues(np.append(groups.code.astype(np.float64), np.flatnonzero(part.idle)), part.moments)
    else:
        kind = kind_of_tally(adapter)
        tally = concatenate([tally_of(grouping, groups, adapter.n_members, kind), _idle_tally(kind, part.idle)])
    return Evidence(
        tally=tally,
        sample=_sample(adapter, kept, groups.find(kept.code)),
        weight=weight,
        by_label=part.by_label,
    )


def in_row_order(kept: KeptRows) -> KeptRows:
    """Return the kept rows in an order that does not depend on how the rows were partitioned."""
    return kept.take(np.argsort(kept.row, kind="stable"))


def in_content_order(adapter: EnsembleAdapter, kept: KeptRows) -> KeptRows:
    """Return the kept rows in an order that depends on the members' outputs alone, which estimates of labels need."""
    return kept.take(content_order(_kept_block(adapter, kept)))


def refuse_alike_rows(kept: KeptRows, name: str | None) -> None:
    """Raise InputError where a sample has too few different rows, because equal rows are sampled together."""
    _, copies = np.unique(kept.row, return_counts=True)
    n_rows = int(copies.sum())
    # Kish's effective number of different rows.
    if n_rows and n_rows**2 / float((copies.astype(np.float64) ** 2).sum()) >= LEAST_VARIETY * n_rows:
        return
    numbered = "Without row_id_col, rows of equal content" if name is None else f"Rows of equal numbers in {name!r}"
    raise InputError(
        f"{numbered} are sampled together, so a sample of {counted(n_rows, 'row')} has only {copies.size} different "
        "ones. Give every row a number of its own, for example with df.withColumn('row', "
        "pyspark.sql.functions.monotonically_increasing_id()), and pass row_id_col='row'."
    )


def _with_idle(weight: RowWeight, idle: FloatArray) -> RowWeight:
    """Return weights with entries added for the rows of weight 0."""
    counts = idle[idle > 0]
    assert weight.rows is not None
    assert weight.squares is not None
    nothing = np.zeros(counts.size)
    return RowWeight(
        np.append(weight.total, nothing), np.append(weight.rows, counts), np.append(weight.squares, nothing)
    )


def _idle_tally(kind: type[SupportTally | MarginTally], idle: FloatArray) -> AnyTally:
    trials = np.flatnonzero(idle).astype(np.float64)
    nothing = np.zeros(trials.size)
    return kind(trials, nothing, nothing, nothing)


def _sample(adapter: EnsembleAdapter, kept: KeptRows, entries: NDArray[np.intp]) -> Sample:
    return Sample(_kept_block(adapter, kept), entries, kept.weight)


def _kept_block(adapter: EnsembleAdapter, kept: KeptRows) -> RowBlock:
    counted = np.unpackbits(kept.counted, axis=0, count=adapter.n_members).view(np.bool_)
    return RowBlock(kept.outputs, counted, kept.target, label_count(adapter))
