"""Hostile logs of evaluations: real ones that are damaged, changed, packed in other ways, or grown.

An attack ends as a table, as a refusal in words of ours, or gets past as any other exception.  Of grown logs, whose
text is a megabyte and more, the largest memory in use while they are read is a multiple of that text.
"""

from __future__ import annotations

import io
import json
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow
import pyarrow.parquet

from ens_plugin.errors import InputError
from ens_plugin.votes import read_log
from ens_plugin.votes.logs import UNPACKED
from tests.attacks.hostile.documents import change, damaged

__all__ = ["KINDS", "attack"]

LOGS = Path(__file__).parents[1] / "votes" / "logs"
GROWN_TO = 10**6  # bytes of text
LITERALS = (
    b"NaN", b"-Infinity", b"1e999", b"9" * 5000, b'"\\ud800"', b"[" * 50_000, b'{"a":' * 50_000, b"\x00", b"\xff\xfe",
    b'"id": 1, "id": 2,', b"null", b'"' + b"\xf0\x9f\x98\x80" * 100 + b'"', b",", b"]", b"}", b'"', b"\\",
)  # fmt: skip
SAMPLE = "samples/{}_epoch_{}.json"


class Attack(NamedTuple):
    """How a log ended, and the largest memory in use as a multiple of its text where that was measured."""

    outcome: str
    memory: float | None


@cache
def _records() -> dict[str, list[dict[str, Any]]]:
    """Return the records of real logs, by what they are written to."""
    lines = {name: (LOGS / name).read_text().splitlines() for name in ("harness.jsonl", "harness_accepted.jsonl")}
    details = [
        {"doc": {"choices": ["4", "5"], "gold_index": [0]}, "model_response": {"text": texts}}
        for texts in (["It is 4.", "5"], ["4", ""], ["5"])
    ]
    with zipfile.ZipFile(LOGS / "inspect.eval") as archive:
        samples = [json.loads(archive.read(name)) for name in archive.namelist()]
    results = json.loads((LOGS / "promptfoo.json").read_text())["results"]["results"]
    return {
        "log.json": json.loads((LOGS / "inspect.json").read_text())["samples"],
        "log.eval": samples,
        "results.json": results,
        "results.jsonl": results,
        "details.parquet": details,
        **{name: list(map(json.loads, text)) for name, text in lines.items()},
    }


def _written(name: str, records: list[dict[str, Any]], random: Random) -> tuple[bytes, int]:
    """Return a log as its tool writes it, and the size of its text."""
    if name.endswith(".eval"):
        texts = [json.dumps(record).encode() for record in records]
        kind = random.choice((zipfile.ZIP_DEFLATED, zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_BZIP2))
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", kind) as archive:
            for place, text in enumerate(texts):
                # Now and then a member has the name of another.
                archive.writestr(SAMPLE.format(place if random.random() < 0.99 else 0, 1), text)
        return file.getvalue(), sum(map(len, texts))
    if name.endswith(".parquet"):
        table = pyarrow.Table.from_pylist(records)
        sink = pyarrow.BufferOutputStream()
        pyarrow.parquet.write_table(table, sink, compression=random.choice(("snappy", "zstd", "none")))
        return sink.getvalue().to_pybytes(), table.nbytes
    if name.endswith(".jsonl"):
        text = "\n".join(map(json.dumps, records))
    else:
        document = {"samples": records} if name.startswith("log") else {"results": {"results": records}}
        text = json.dumps(document, ensure_ascii=random.random() < 0.5)
    content = text.encode("utf-8", "replace")
    return content, len(content)


def _changed(name: str, random: Random) -> tuple[bytes, int]:
    """Return a log in which values are changed, removed or of another kind."""
    records = deepcopy(_records()[name])
    for _ in range(random.randrange(1, 4)):
        change(random, records)
    try:
        return _written(name, records, random)
    except Exception:  # PyArrow has no column of such values, and says so in many ways
        return _damaged(name, random)


def _damaged(name: str, random: Random) -> tuple[bytes, int]:
    """Return a log with damaged bytes."""
    content, size = _written(name, _records()[name], random)
    return damaged(random, content), size


def _inserted(name: str, random: Random) -> tuple[bytes, int]:
    """Return a log with what is no such text, or hardly, somewhere in it."""
    if name.endswith(".parquet"):
        return _damaged(name, random)
    content, size = _written("log.json" if name.endswith(".eval") else name, _records()[name], random)
    at, literal = random.randrange(len(content)), random.choice(LITERALS)
    # In place of a value that follows a colon in half of them.
    at = content.find(b": ", at) + 2 if random.random() < 0.5 else at
    content = content[:at] + literal + content[at:]
    if name.endswith(".eval"):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr(SAMPLE.format(1, 1), content)
        content = file.getvalue()
    return content, size


def _encoded(name: str, random: Random) -> tuple[bytes, int]:
    """Return a log in another encoding."""
    if name.endswith((".eval", ".parquet")):
        return _damaged(name, random)
    content, size = _written(name, _records()[name], random)
    return content.decode().encode(random.choice(("utf-16", "utf-32", "cp037", "utf-8-sig", "utf-7"))), size


def _grown(name: str, random: Random) -> tuple[bytes, int]:
    """Return a log that is long, and often damaged near its end."""
    records = deepcopy(_records()[name])
    texts = (" four", " \U0001f600", "\n" * 5, "é")
    filling = random.choice(texts) * random.randrange(1, 400)
    grown, size = list[dict[str, Any]](), 0
    while size < GROWN_TO:
        for record in deepcopy(records):
            place = len(grown)
            record.update({key: place for key in ("id", "doc_id", "testIdx") if key in record}, input=filling)
            record.get("testCase", {}).get("vars", {}).update(country=f"{filling} {place // 3}")
            grown.append(record)
            size += len(json.dumps(record))
    content, size = _written(name, grown, random)
    if random.random() < 0.5:
        content = content[: -random.randrange(1, 2000)]
    return content, size


def _bomb(name: str, random: Random) -> tuple[bytes, int]:
    """Return a small file of much text."""
    n_bytes = random.randrange(UNPACKED, 2 * UNPACKED)
    if name.endswith(".parquet"):
        table = pyarrow.table({"predictions": [["4" * (n_bytes // 10)]] * 10, "gold": [["4"]] * 10})
        sink = pyarrow.BufferOutputStream()
        pyarrow.parquet.write_table(table, sink, compression="zstd")
        return sink.getvalue().to_pybytes(), n_bytes
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(SAMPLE.format(1, 1), json.dumps({"id": 1, "epoch": 1, "target": " " * n_bytes}))
    return file.getvalue(), n_bytes


# What pandas keeps of PyArrow must not lose the pool that it is in.
_pools: list[Any] = []
MEASURED = ("grown", "bombs")
KINDS: dict[str, Callable[[str, Random], tuple[bytes, int]]] = {
    "values changed": _changed,
    "bytes damaged": _damaged,
    "literals inserted": _inserted,
    "another encoding": _encoded,
    "grown": _grown,
    "bombs": _bomb,
}


def attack(kind: str, seed: int, folder: Path) -> Attack:
    """Read one hostile log."""
    random = Random(f"{kind} {seed}")
    name = random.choice(sorted(_records()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of zipfile, for two members of one name
        content, size = KINDS[kind](name, random)
    path = folder / (f"{name}.eval" if kind == "bombs" and not name.endswith(".parquet") else name)
    path.write_bytes(content)
    del content
    if kind not in MEASURED:
        return Attack(_outcome(path), None)
    pool = pyarrow.proxy_memory_pool(pyarrow.default_memory_pool())
    _pools.append(pool)
    pyarrow.set_memory_pool(pool)
    tracemalloc.start()
    try:
        outcome = _outcome(path)
        return Attack(outcome, (tracemalloc.get_traced_memory()[1] + pool.max_memory()) / size)
    finally:
        tracemalloc.stop()
        pyarrow.set_memory_pool(pyarrow.default_memory_pool())


def _outcome(path: Path) -> str:
    try:
        read_log(path)
    except InputError:
        return "refused"
    except Exception as error:  # what is counted
        return f"past: {type(error).__name__}: {error}"
    return "read"
