"""DataFrames in partitions, and the parts that executors make of them, without PySpark."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from ens_plugin.adapters import EnsembleAdapter, find_adapter
from ens_plugin.analysis import sample_limit, sampling_seed
from ens_plugin.spark.partition import (
    ROW,
    TARGET,
    WEIGHT,
    Part,
    Plan,
    from_bytes,
    in_row_order,
    merge_parts,
    read_partition,
    to_bytes,
)
from tests.spark.cases import COLUMNS, fitted, held_out

ROUNDING = 1e-12
N_ROWS = 300
LARGEST_KEY = 2**64 - 1
SEED = sampling_seed(np.random.default_rng(0))
KINDS = {"votes": "votes", "shares": "shares", "margins": "three", "scores": "lightgbm", "values": "values"}


def plan_of(kind: str, **changes: Any) -> Plan:
    adapter = find_adapter(fitted(KINDS[kind]))
    options: dict[str, Any] = {
        "features": tuple(COLUMNS),
        "as_frame": False,
        "sample_limit": sample_limit(adapter, 0 if adapter.classes is None else int(adapter.classes.size)),
        "sampling_seed": SEED,
        "highest_key": LARGEST_KEY,
    }
    return Plan(**{**options, **changes})


def as_sent(model: Any, adapter: EnsembleAdapter) -> bytes:
    """What executors get, pickled without PySpark's own way with functions of a notebook: these models hold none."""
    return pickle.dumps((model, type(adapter)))


@cache
def content_of(name: str) -> bytes:
    return as_sent(fitted(name), find_adapter(fitted(name)))


@cache
def rows_of(name: str) -> pd.DataFrame:
    frame = held_out(name, N_ROWS)
    frame["w"] = frame["w"] * 0.7
    return frame


def batch(frame: pd.DataFrame) -> pa.RecordBatch:
    """Rows as Spark hands them over."""
    columns = {name: frame[name].to_numpy() for name in COLUMNS}
    own = {TARGET: frame["y"].to_numpy(), WEIGHT: frame["w"].to_numpy(), ROW: frame["row"].to_numpy()}
    return pa.RecordBatch.from_pandas(pd.DataFrame({**columns, **own}), preserve_index=False)


def read(kind: str, plan: Plan, partitions: list[list[pd.DataFrame]]) -> list[Part]:
    content = content_of(KINDS[kind])
    return [read_partition([batch(rows) for rows in batches], content, plan) for batches in partitions]


def merged(parts: list[Part], limit: int, arity: int) -> Part:
    """Merge level by level, as executors do, every part as it travels."""
    while len(parts) > 1:
        parts = [
            from_bytes(to_bytes(merge_parts(parts[start : start + arity], limit)))
            for start in range(0, len(parts), arity)
        ]
    part = merge_parts(parts, limit)
    assert part.kept is not None
    return replace(part, kept=in_row_order(part.kept))
