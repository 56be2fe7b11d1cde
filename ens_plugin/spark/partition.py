"""The work of an executor: predictions of every member for its rows, their tally, and the sums that it returns."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
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

from ens_plugin.adapters.base import EnsembleAdapter
from ens_plugin.adapters.capabilities import distributed_bags
from ens_plugin.adapters.shared.distributed_bags import DistributedBags, ProofStatistics
from ens_plugin.adapters.shared.labels import label_codes
from ens_plugin.adapters.unwrap.wrappers import inner_ensemble, unwrap
from ens_plugin.analysis.curves.label_models import soft_spreads
from ens_plugin.analysis.row_blocks import BlockReader, TalliedBlock, block_rows, label_count
from ens_plugin.core.estimates.squared_loss import loss_moments
from ens_plugin.core.tallies.row_sampling import sample_keys
from ens_plugin.core.tallies.tally import SupportTally, ValueTally, select_rows
from ens_plugin.core.validation import FloatArray
from ens_plugin.errors import EnsPluginError, InputError
from ens_plugin.spark.groupings import Grouping, block_groups, codes_of
from ens_plugin.spark.parts import KeptRows, Part, Problems, merge_parts
from ens_plugin.spark.repeats import row_marks

__all__ = ["ROW", "Plan", "Rows", "codes_or_values", "load_model", "read_partition", "rows_of"]

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
    grouping : {"values", "votes", "rows", "shares", "margins"}
    with_path : bool
    sample_limit : int
    sampling_seed : int
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
    with_path: bool
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
    return distributed_bags(load_model(content)[1], n_trained, candidate)


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
    reader = BlockReader(adapter, features, bags, target, rows.weight, sampled, plan.with_path)
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
    code, crossed_code = codes_of(plan.grouping, tally, rows.row, n_members)
    groups, crossed = block_groups(plan.grouping, tally, code, crossed_code, weight)
    usable = (tally.trials >= 2) & (weight > 0)
    sample = block.sample
    return Part(
        groups=groups,
        crossed=crossed,
        idle=np.bincount(tally.trials[weight <= 0].astype(np.int64), minlength=n_members + 1).astype(np.float64),
        by_label=_by_label(target, tally.trials, weight, adapter),
        spreads=_spreads(select_rows(tally, usable)) if isinstance(tally, SupportTally) else None,
        moments=_moments(tally, usable, weight) if isinstance(tally, ValueTally) and usable.any() else None,
        path=None if block.path is None else np.stack([block.path.loss.sum(axis=1), block.path.weight.sum(axis=1)]),
        kept=KeptRows(
            sample.block.outputs,
            np.packbits(sample.block.counted, axis=0),
            sample.block.target,
            sample.weight,
            keys,
            rows.row[sample.rows],
            code[sample.rows],
            crossed_code[sample.rows],
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


def _spreads(tally: Any) -> FloatArray:
    return soft_spreads(tally) if tally.n_rows else np.zeros((2, 2))


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
