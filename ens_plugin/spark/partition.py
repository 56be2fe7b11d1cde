"""One partition of the rows in a worker, and the parts of all of them put together."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from joblib import parallel_config
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ens_plugin.adapters.contract import EnsembleAdapter
from ens_plugin.adapters.members import label_codes
from ens_plugin.adapters.unwrap import inner_ensemble, unwrap
from ens_plugin.analysis.evidence import BlockReader, Evidence, TalliedBlock, block_rows, label_count
from ens_plugin.core.losses import LossMoments, loss_moments
from ens_plugin.core.sample import Sample, content_order, sample_keys, smallest_keys
from ens_plugin.core.tally import LabelTally, RowBlock, Tally, ValueTally, select_rows
from ens_plugin.core.validation import FloatArray, IntArray, counted
from ens_plugin.core.weights import RowWeight
from ens_plugin.errors import EnsPluginError, InputError

MERGED_AT_ONCE = 16
TARGET, WEIGHT, ROW = "__target", "__weight", "__row"
BY_MEMBER = "outputs"  # the column of sampled rows that has an entry for each member


@dataclass(frozen=True, eq=False)
class KeptRows:
    """Sampled rows with the outputs of every member."""

    outputs: NDArray[np.generic]  # shape (n_members, n_rows) or (n_members, n_rows, n_labels)
    target: NDArray[np.generic]
    weight: FloatArray
    key: NDArray[np.uint64]  # the rows with the smallest keys are the sample
    row: IntArray  # position in training order, or a hash of the row where its position is not known
    code: IntArray  # kind of each row

    def take(self, rows: NDArray[np.intp]) -> KeptRows:
        """Return the rows at the given positions."""
        columns = vars(self).items()
        return KeptRows(*(values[:, rows] if name == BY_MEMBER else values[rows] for name, values in columns))


@dataclass(frozen=True)
class Problems:
    """Reasons why rows cannot be analysed."""

    # Rows with missing or infinite values that the model refuses, by feature column.
    bad_values: dict[str, int] = field(default_factory=dict)
    refusals: tuple[tuple[str, str], ...] = ()  # class and message of other errors, sorted, each once

    def __bool__(self) -> bool:
        return bool(self.bad_values or self.refusals)

    def merge(self, other: Problems) -> Problems:
        """Return the problems of two disjoint sets of rows together."""
        counts = dict(self.bad_values)
        for column, count in other.bad_values.items():
            counts[column] = counts.get(column, 0) + count
        return Problems(counts, tuple(sorted({*self.refusals, *other.refusals})))


@dataclass(frozen=True, eq=False)
class Kinds:
    """Rows that are alike in all that their record holds; a code, of which the record can be read, names each kind."""

    code: IntArray  # ascending
    rows: FloatArray  # how many are of each kind
    weight: FloatArray  # sum of their weights
    squares: FloatArray  # sum of the squared weights

    def find(self, code: IntArray) -> NDArray[np.intp]:
        """Return the position of the kind of each code, shape as `code`; there is one of every code."""
        return np.searchsorted(self.code, code)


def added_up(code: IntArray, rows: FloatArray, weight: FloatArray, squares: FloatArray) -> Kinds:
    """Return the kinds of entries, some of which may have the same code."""
    distinct, index = np.unique(code, return_inverse=True)
    sums = (np.bincount(index, each, distinct.size).astype(np.float64) for each in (rows, weight, squares))
    return Kinds(distinct, *sums)


def merge_kinds(parts: Sequence[Kinds]) -> Kinds:
    """Return the kinds of the rows of all parts, which must be disjoint."""
    columns = zip(*(vars(part).values() for part in parts), strict=True)
    return added_up(*map(np.concatenate, columns))


@dataclass(frozen=True, eq=False)
class Part:
    """The record of a part of the rows, with a sample of them; None where there is none of it."""

    kinds: Kinds | None = None
    moments: LossMoments | None = None  # of the squared error of values
    kept: KeptRows | None = None
    problems: Problems = field(default_factory=Problems)


def merge_parts(parts: Sequence[Part], sample_limit: int) -> Part:
    """Return the record of several disjoint parts of the data, with at most `sample_limit` sampled rows."""
    kinds = [part.kinds for part in parts if part.kinds is not None]
    merged = Part(
        kinds=merge_kinds(kinds) if kinds else None,
        kept=_kept([part.kept for part in parts if part.kept is not None], sample_limit),
    )
    moments, problems = None, Problems()
    for part in parts:
        problems = problems.merge(part.problems)
        if part.moments is not None:
            moments = part.moments if moments is None else moments.merge(part.moments)
    return replace(merged, moments=moments, problems=problems)


def _kept(parts: list[KeptRows], limit: int) -> KeptRows | None:
    if not parts:
        return None
    rows = KeptRows(
        *(np.concatenate([vars(part)[name] for part in parts], axis=int(name == BY_MEMBER)) for name in vars(parts[0]))
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


def _code_shape(adapter: EnsembleAdapter) -> tuple[int, ...]:
    """Return how many values each number in a code can have, of which :func:`codes_of` makes it."""
    counts = adapter.n_members + 1
    return (2, counts) if adapter.classes is None else (2, counts, counts, 3, 2, adapter.classes.size)


def codes_of(adapter: EnsembleAdapter, tally: Tally, target: NDArray[Any], weight: FloatArray) -> IntArray:
    """Return the code of the kind of each row, which :func:`tallied_rows` reads."""
    numbers = [weight > 0, tally.trials]
    if isinstance(tally, LabelTally):
        numbers += [tally.wrong_members, 2.0 * tally.error, tally.is_wrong, target]
    whole = tuple(np.asarray(each, dtype=np.int64) for each in numbers)
    return np.asarray(np.ravel_multi_index(whole, _code_shape(adapter)), dtype=np.int64)


@dataclass(frozen=True)
class Plan:
    """The settings of an analysis that every executor gets."""

    features: tuple[str, ...]  # names of the columns, in the model's order
    as_frame: bool  # whether the model takes its rows as a DataFrame, with names
    sample_limit: int
    sampling_seed: int
    highest_key: int  # of a sampled row, also where few rows are below it


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


def read_partition(batches: Iterable[pa.RecordBatch], content: bytes, plan: Plan) -> Part:
    """Return the sums over the rows of one partition, predicted by every member."""
    filled = (batch for batch in batches if batch.num_rows)
    first = next(filled, None)
    if first is None:
        return Part()
    model, adapter = load_model(content)
    part = Part()
    waiting: list[Part] = []
    checked = False
    with parallel_config(backend="threading", n_jobs=1), threadpool_limits(limits=1, user_api="blas"):
        for table in _blocks(chain([first], filled), block_rows(adapter, 2**16)):
            try:
                rows = rows_of(table, plan)
                waiting.append(_read_block(model, adapter, rows, plan, check=not checked))
                checked = True
            except EnsPluginError as error:
                bad_values = _bad_values(table, plan.features)
                # Missing and infinite values explain the error.
                refusals = () if bad_values else ((type(error).__name__, str(error)),)
                waiting.append(Part(problems=Problems(bad_values, refusals)))
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


def _read_block(model: Any, adapter: EnsembleAdapter, rows: Rows, plan: Plan, *, check: bool) -> Part:
    features = adapter.prepare(unwrap(model, rows.features, are_fresh=True)[1])
    if check:
        adapter.check_members(features)
    target = codes_or_values(rows, adapter)
    keys = sample_keys(rows.row, plan.sampling_seed)
    sampled = np.flatnonzero((keys <= np.uint64(plan.highest_key)) & (rows.weight > 0))
    reader = BlockReader(adapter, features, None, target, rows.weight, sampled)
    return _part(reader.read(slice(0, target.size)), adapter, rows, target, keys[sampled])


def codes_or_values(rows: Rows, adapter: EnsembleAdapter) -> NDArray[Any]:
    """Return the label codes or values of the rows."""
    return rows.target.astype(np.float64) if adapter.classes is None else label_codes(rows.target, adapter.classes)


def _part(
    block: TalliedBlock, adapter: EnsembleAdapter, rows: Rows, target: NDArray[Any], keys: NDArray[np.uint64]
) -> Part:
    tally, weight, sample = block.tally, rows.weight, block.sample
    code = codes_of(adapter, tally, target, weight)
    usable, moments = (tally.trials >= 2) & (weight > 0), None
    if isinstance(tally, ValueTally) and usable.any():
        own = select_rows(tally, usable)
        moments = loss_moments(own.mean, own.variance, own.trials, own.target, weight[usable])
    return Part(
        kinds=added_up(code, np.ones(code.size), weight, weight**2),
        moments=moments,
        kept=KeptRows(
            sample.block.outputs,
            sample.block.target,
            sample.weight,
            keys,
            rows.row[sample.rows],
            code[sample.rows],
        ),
    )


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


def tallied_rows(adapter: EnsembleAdapter, part: Part) -> Evidence:
    """Return the record of the whole DataFrame, an entry for each kind of rows, with the sampled outputs."""
    kinds, kept = part.kinds, part.kept
    assert kinds is not None
    assert kept is not None
    _, trials, *of_labels = np.unravel_index(kinds.code, _code_shape(adapter))
    tally, label = Tally(trials), None
    if of_labels:
        wrong, halves, is_wrong, label = of_labels
        tally = LabelTally(trials, wrong, halves / 2.0, is_wrong)
    return Evidence(
        tally=tally,
        sample=Sample(_kept_block(adapter, kept), kinds.find(kept.code), kept.weight),
        weight=RowWeight(kinds.weight, kinds.rows, kinds.squares),
        label=label,
        moments=part.moments,
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
    if n_rows and n_rows**2 / float((copies.astype(np.float64) ** 2).sum()) >= 0.25 * n_rows:
        return
    numbered = "Without row_id_col, rows of equal content" if name is None else f"Rows of equal numbers in {name!r}"
    raise InputError(
        f"{numbered} are sampled together, so a sample of {counted(n_rows, 'row')} has only {copies.size} different "
        "ones. Give every row a number of its own, for example with df.withColumn('row', "
        "pyspark.sql.functions.monotonically_increasing_id()), and pass row_id_col='row'."
    )


def _kept_block(adapter: EnsembleAdapter, kept: KeptRows) -> RowBlock:
    everyone = np.ones((adapter.n_members, kept.target.size), dtype=np.bool_)
    return RowBlock(kept.outputs, everyone, kept.target, label_count(adapter))
