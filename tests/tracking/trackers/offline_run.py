"""The records of an offline run of Weights & Biases, read with the library's own schema."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

__all__ = ["OfflineRun"]

BLOCK = 32_768
HEADER = 7
PATIENCE_S = 30.0


class OfflineRun:
    """What ``wandb sync`` would upload from a directory of the kind ``wandb/offline-run-...``."""

    def __init__(self, folder: Path) -> None:
        (file,) = folder.glob("*.wandb")
        self.files = folder / "files"
        self.history: list[dict[str, Any]] = []
        self.summary: dict[str, Any] = {}
        self.config: dict[str, Any] = {}
        self.metrics: dict[str, Any] = {}
        self.saved: set[str] = set()
        self.exit_code: int | None = None
        for record in _complete(file):
            self._read(record)

    def _read(self, record: Any) -> None:
        kind = record.WhichOneof("record_type")
        if kind == "history":
            self.history.append(dict(_items(record.history.item)))
        elif kind == "summary":
            self.summary |= dict(_items(record.summary.update))
            for removed in record.summary.remove:
                self.summary.pop(removed.key or "/".join(removed.nested_key), None)
        elif kind == "config":
            self.config |= dict(_items(record.config.update))
        elif kind == "metric":
            self.metrics[record.metric.name] = record.metric
        elif kind == "files":
            self.saved |= {file.path for file in record.files.files}
        elif kind == "exit":
            self.exit_code = record.exit.exit_code


def _items(items: Any) -> Iterator[tuple[str, Any]]:
    for item in items:
        yield item.key or "/".join(item.nested_key), json.loads(item.value_json)


def _complete(file: Path) -> list[Any]:
    """All records of a finished run, which wandb's own process may still be writing when ``finish`` returns."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        found = list(_records(file))
        if any(record.WhichOneof("record_type") == "exit" for record in found):
            return found
        time.sleep(0.05)
    pytest.fail(f"no end of the run in {file} after {PATIENCE_S:g} s")


def _records(file: Path) -> Iterator[Any]:
    """Protocol buffers in LevelDB's log format: blocks of fragments, each with checksum, length and kind."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, position, whole = file.read_bytes(), HEADER, b""
    while position + HEADER <= len(data):
        left = BLOCK - position % BLOCK
        if left < HEADER:
            position += left
            continue
        _, length, kind = struct.unpack("<IHB", data[position : position + HEADER])
        whole += data[position + HEADER : position + HEADER + length]
        position += HEADER + length
        if kind in (1, 4):  # a whole record, or its last fragment
            record = Record()
            record.ParseFromString(whole)
            whole = b""
            yield record
