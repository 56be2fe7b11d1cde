"""Answers in the logs of evaluation tools, as a table with a row for each sample.

Files give their records one by one, so that few are in memory at a time.  The fields of the first record tell its tool,
whose reader takes what it knows of each, and refuses everything else.
"""

from __future__ import annotations

import ast
import json
import math
import re
import zipfile
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from itertools import chain
from pathlib import Path
from types import NoneType
from typing import Any

import pandas as pd

from ens_plugin.core.validation import one_line, shown
from ens_plugin.errors import InputError
from ens_plugin.votes.answers import UNREAD

Record = dict[str, Any]
Row = tuple[Any, list[Any], Any, str | None]  # case, answers, truth, and the system that was asked
KNOWN = (
    "Logs of inspect-ai (.eval and .json), samples of lm-evaluation-harness (.jsonl, by --log_samples), results of "
    "promptfoo (.json and .jsonl) and details of lighteval (.parquet) are known. Of a table, name the columns: "
    "ens-plugin votes FILE --question Q --answer A, or analyze_votes(table) where they are question and answer."
)
OTHER_COMPRESSION = (
    "it is compressed in a way that this Python cannot read. Install zipfile-zstd, or convert the log: inspect log "
    "convert --to json --output-dir FOLDER FILE"
)
FAILED = 2  # the reason of promptfoo for a result that is an error, and no verdict
ARRAYS = (("samples",), ("results", "results"))  # that hold the records of documents
# Text that a compressed file may unpack to: real logs take 5 to 30 times their size, and small ones any.
UNPACKED, UNPACKED_TIMES = 2**26, 100
WORDS_OF_OPTIONS = {
    "--question": ("question", "prompt", "query", "case", "problem", "input", "id"),
    "--answer": ("answer", "reply", "response", "output", "completion", "prediction", "verdict"),
}
NEAR = 0.75  # how alike a word of a name and a word that is looked for are, by difflib
PIECE, N_ROWS = 4096, 64  # that are unpacked at once


class _UnreadableError(Exception):
    """What is wrong with a log, as the part of a sentence."""


def read_log(path: str | Path) -> pd.DataFrame:
    """Return the answers in the log of an evaluation that sampled each question several times.

    Parameters
    ----------
    path : str or Path
        A log of inspect-ai (``.eval`` or ``.json``; epochs are samples), a file of samples of lm-evaluation-harness
        (``.jsonl``, written with ``--log_samples``; repeats are samples), results of promptfoo (``.json`` or
        ``.jsonl``, of ``--repeat``), or details of lighteval (``.parquet``).

    Returns
    -------
    DataFrame
        Columns `question`, `answer` and `truth`, as :func:`ens_plugin.analyze_votes` takes them.  The answer is, of
        inspect-ai, that of the first scorer that has read any, or the whole completion where nothing was scored; of
        promptfoo, whether the test passed; else what the first filter has left of the text, or all of it.  It is None
        where that is empty, no filter or scorer found it, or an error came between.  The truth is a frozenset where
        several answers are accepted.  Where promptfoo tested several prompts or providers, each question is of one of
        them, and the columns `system` and `case` name its parts.

    Raises
    ------
    InputError
        If the file cannot be read whole, or has a form that is not known.

    Examples
    --------
    >>> import json, tempfile
    >>> from pathlib import Path
    >>> from ens_plugin.votes import read_log
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "samples.jsonl")
    ...     line = {"doc_id": 0, "target": "4", "resps": [["4", "5", "4"]], "filtered_resps": ["4"]}
    ...     _ = path.write_text(json.dumps(line))
    ...     read_log(path).answer.tolist()
    ['4', '5', '4']
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"There is no file {shown(str(path), 200)}; pass the log of an evaluation.")
    opener = _OPENERS.get(path.suffix.lower())
    if opener is None:
        raise InputError(f"{shown(path.name, 80)} has an unknown form. {KNOWN}")
    try:
        table = as_table(_rows(_guarded(opener(path))))
    except (_UnreadableError, RecursionError) as error:
        raise InputError(f"{shown(path.name, 80)} cannot be read as such a log: {error}. {KNOWN}") from error
    if table.empty:
        raise InputError(f"{shown(path.name, 80)} holds no samples. {KNOWN}")
    return table


def as_table(rows: Iterable[Row]) -> pd.DataFrame:
    """Return a table of answers, in which a question is of one system."""
    same: dict[Any, Any] = {}  # of each long name of a case or system, the first text
    found = [
        (same.setdefault(case, case), answer, truth, same.setdefault(system, system))
        for case, said, truth, system in rows
        for answer in said
    ]
    table = pd.DataFrame(found, columns=["question", "answer", "truth", "system"], dtype=object)
    if table["system"].nunique(dropna=False) < 2:
        del table["system"]
    else:
        table["case"] = table["question"]
        texts = (f"{case} | {system}" for case, system in zip(table["case"], table["system"], strict=True))
        table["question"] = pd.Series([same.setdefault(text, text) for text in texts], dtype=object)
    return table


def _rows(records: Iterator[Record]) -> Iterator[Row]:
    """Yield the rows of records, which are of the tool that the fields of the first tell."""
    for first in records:
        if not isinstance(first, dict):
            raise _UnreadableError(f"its first record is {shown(first, 60)}, and no object")
        reader = next((reader for fields, reader in _READERS if fields <= first.keys()), None)
        if reader is None:
            names = f"{shown(sorted(first), 200)}, which are of no known tool; is it a table, with {proposed(first)}?"
            raise _UnreadableError(f"its first record has the fields {names}")
        yield from reader(chain([first], records))


def proposed(columns: Iterable[str]) -> str:
    """Return options of ``ens-plugin votes`` that name columns, those whose names are nearest to what it asks for."""
    left = {word: name for name in columns for word in (*re.findall(r"[^\W_]+", name.lower()), name.lower())}
    chosen = []
    for option, words in WORDS_OF_OPTIONS.items():
        near = [left[found] for word in words for found in get_close_matches(word, left, 1, NEAR)]
        left = {word: name for word, name in left.items() if name not in near[:1]}
        chosen.append(f"{option} {near[0] if near else 'COL'}")
    return " ".join(chosen)


# What a file holds.


def _guarded(records: Iterator[Record]) -> Iterator[Record]:
    """Yield records, and refuse a file at any error of the libraries that read it."""
    try:
        yield from records
    except _UnreadableError:
        raise
    except NotImplementedError as error:  # of zipfile
        raise _UnreadableError(OTHER_COMPRESSION) from error
    except ImportError as error:
        raise _UnreadableError("it needs PyArrow. Install it with: pip install pyarrow") from error
    except Exception as error:  # damaged files make zipfile, json and PyArrow raise anything
        raise _UnreadableError(f"{type(error).__name__}, {one_line(str(error), 120).rstrip('.')}") from error


def _object(pairs: list[tuple[str, Any]]) -> Record:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _UnreadableError("an object in it has two fields of one name")
    return found


DECODER = json.JSONDecoder(object_pairs_hook=_object)
BYTE_ORDER = "\ufeff".encode().decode("latin-1")
SIGN = re.compile(r"[ \t\n\r]*([,:\]}]?)[ \t\n\r]*")


def _lines(path: Path) -> Iterator[Record]:
    with path.open(encoding="utf-8-sig") as lines:
        yield from map(DECODER.decode, filter(str.strip, lines))


def _document(path: Path) -> Iterator[Record]:
    # With a byte for each character, where one beyond them would make Python take four for all.
    text = path.read_text(encoding="latin-1").removeprefix(BYTE_ORDER)
    place = yield from _values(text, _past(text, 0, "")[1], ())
    if _past(text, place, "")[1] < len(text):
        raise _UnreadableError("something follows the end of its document")


def _values(text: str, place: int, path: tuple[str, ...]) -> Generator[Record, None, int]:
    """Yield the items of :data:`ARRAYS` in the value at a place, and return where it ends."""
    is_array = text[place : place + 1] == "[" and path in ARRAYS
    if not is_array and not (text[place : place + 1] == "{" and any(one[: len(path)] == path for one in ARRAYS)):
        return DECODER.raw_decode(text, place)[1]
    end, names = "]" if is_array else "}", set[Any]()
    sign, place = _past(text, place + 1, "", end)
    while sign != end:
        value, past = DECODER.raw_decode(text, place)
        if is_array:
            piece = text[place:past]
            yield value if piece.isascii() else DECODER.decode(piece.encode("latin-1").decode("utf-8"))
        elif not isinstance(value, str) or value in names:
            raise _UnreadableError(f"a field of its document has no name, or that of another: {shown(value, 60)}")
        else:
            names.add(value)
            past = yield from _values(text, _past(text, past, ":")[1], (*path, value))
        sign, place = _past(text, past, ",", end)
    return place


def _past(text: str, place: int, *expected: str) -> tuple[str, int]:
    """Return the sign of JSON at a place, and where what follows it begins."""
    found = SIGN.match(text, place)
    assert found is not None
    if found[1] not in expected:
        raise _UnreadableError(f"character {place} of {len(text)} is none that JSON has there")
    return found[1], found.end()


def _archive(path: Path) -> Iterator[Record]:
    if not hasattr(zipfile, "ZIP_ZSTANDARD"):
        # Releases of inspect-ai since 2026 compress so, and bring what lets Python before 3.14 read it.
        with suppress(ImportError):
            import_module("zipfile_zstd")
    with zipfile.ZipFile(path) as archive:
        members = [member for member in archive.infolist() if re.fullmatch(r"samples/.*\.json", member.filename)]
        # No more of a member than it declares is unpacked.
        _bound(path, sum(member.file_size for member in members))
        for member in members:
            with archive.open(member) as stream:
                content = b"".join(iter(lambda stream=stream: stream.read1(PIECE), b""))  # type: ignore[misc]
            yield DECODER.decode(content.decode("utf-8"))


def _batches(path: Path) -> Iterator[Record]:
    file, size = import_module("pyarrow.parquet").ParquetFile(path), 0
    names = frozenset(file.schema_arrow.names)
    known = frozenset[str]().union(*(fields for fields, _ in _READERS if fields <= names))
    if not known:
        yield dict.fromkeys(names)
    for batch in file.iter_batches(N_ROWS, columns=sorted(known)):
        size += batch.nbytes
        _bound(path, size)
        yield from batch.to_pylist()


def _bound(path: Path, size: int) -> None:
    packed = path.stat().st_size
    if size > max(UNPACKED, UNPACKED_TIMES * packed):
        raise _UnreadableError(f"its {packed} bytes unpack to {size} and more, as those of no real log do")


# What a record says.


def _part(record: Record, name: str, *kinds: type) -> Any:
    """Return a field of a record; refuse one of another kind."""
    value = record.get(name) if isinstance(record, dict) else record
    if type(value) not in kinds or not isinstance(record, dict):
        wanted = " or ".join(kind.__name__ for kind in kinds)
        raise _UnreadableError(f"a field {name} in it is {shown(value, 60)}, and must be {wanted}")
    return value


def _said(value: Any) -> Any:
    """Return an answer, a text or a number; None where it is empty."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise _UnreadableError(f"the text {shown(value, 60)} in it has half of a character; replace it") from error
        return value if value.strip() else None
    if value is None or isinstance(value, (int, float)):
        return None if isinstance(value, float) and not math.isfinite(value) else value
    raise _UnreadableError(f"an answer in it is {shown(value, 60)}, and must be a text or a number")


def _accepted(values: list[Any]) -> Any:
    """Return the accepted answers: one, a set of several, or None."""
    found = frozenset(map(_said, values)) - {None}
    return found if len(found) > 1 else next(iter(found), None)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _of_inspect(samples: Iterator[Record]) -> Iterator[Row]:
    """Yield the samples of inspect-ai."""
    rows: dict[tuple[Any, int], tuple[Any, Any, dict[str, Any]]] = {}
    for sample in samples:
        own = _part(sample, "id", str, int), _part(sample, "epoch", int)
        if own in rows:
            raise _UnreadableError(f"it has the sample {shown(own[0])} of epoch {own[1]} twice")
        scores = _part(sample, "scores", dict, NoneType) or {}
        read = {scorer: _said(_part(scores, scorer, dict).get("answer")) for scorer in scores}
        targets = _as_list(_part(sample, "target", str, list))
        if "choice" in scores and len(targets) > 1:
            # All of them are to be chosen, and this scorer reads the choices so.
            targets = [", ".join(sorted(map(str, targets)))]
        whole = None
        if sample.get("error") is not None:
            read = dict.fromkeys(read)
        elif not scores:
            whole = _said(_part(_part(sample, "output", dict), "completion", str, NoneType))
        rows[own] = whole, _accepted(targets), read
    scorers = dict.fromkeys(scorer for *_, read in rows.values() for scorer in read)
    has_read = (scorer for scorer in scorers if any(read.get(scorer) is not None for *_, read in rows.values()))
    scorer = next(has_read, "")
    for (case, _), (whole, truth, read) in rows.items():
        yield case, [read.get(scorer) if scorers else whole], truth, None


def _of_harness(lines: Iterator[Record]) -> Iterator[Row]:
    """Yield the samples of lm-evaluation-harness, which has a line for each filter of a document."""
    read: dict[Any, int] = {}
    own = None
    for line in lines:
        document, requests, filtered = _part(line, "doc_id", int, str), _part(line, "resps", list), line.get("filter")
        name = f"document {shown(document)} in it has"
        if len(requests) != 1 or not isinstance(requests[0], list):
            raise _UnreadableError(f"{name} {len(requests)} requests, and not one for text")
        responses = [_said(response) for response in requests[0]]
        own = own if read else filtered
        if read.get(document, said := hash(tuple(responses))) != said:
            raise _UnreadableError(f"{name} other responses on another line; keep one log")
        if document not in read:
            if filtered != own:
                raise _UnreadableError(f"{name} no line of the filter {shown(own, 40)}")
            read[document], left = said, _left(_part(line, "filtered_resps", list), responses)
            answers = [None if answer == UNREAD else answer for answer in left]
            yield document, answers, _accepted(_listed(line.get("target"))), None


def _left(filtered: list[Any], responses: list[Any]) -> list[Any]:
    """Return what a filter has left of each response; the responses where it has left one of several."""
    kept = filtered[0] if len(filtered) == 1 else None
    if isinstance(kept, list) and len(kept) == len(responses):
        return [_said(one) for one in kept]
    return [_said(kept)] if len(responses) == 1 and isinstance(kept, str) else responses


def _listed(target: Any) -> list[Any]:
    """Return targets as a list; this tool writes one of texts as Python does."""
    if isinstance(target, str) and target.startswith("["):
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            found = ast.literal_eval(target)
            if isinstance(found, list) and all(isinstance(one, str) for one in found) and repr(found) == target:
                return found
    return _as_list(target)


def _of_promptfoo(results: Iterator[Record]) -> Iterator[Row]:
    """Yield whether the tests of promptfoo passed, by test case; a system is a provider with a prompt."""
    seen = set()
    for result in results:
        own = _part(result, "testIdx", int), _part(result, "promptIdx", int)
        if own in seen:
            raise _UnreadableError(f"it has the result of test {own[0]} and prompt {own[1]} twice")
        seen.add(own)
        provider, prompt, test = (_part(result, name, dict) for name in ("provider", "prompt", "testCase"))
        names = provider.get("label") or provider.get("id"), prompt.get("label") or prompt.get("raw")
        has_passed = _part(result, "success", bool)
        yield (
            _as_text([test[name] for name in ("description", "vars", "assert") if test.get(name)]),
            [None if result.get("failureReason") == FAILED else has_passed],
            None,
            _as_text([f"prompt {own[1]}", *names]),
        )


def _as_text(parts: list[Any]) -> str:
    """Return what names a case or a system, the same text for equal parts."""
    texts = (part if isinstance(part, str) else json.dumps(part, sort_keys=True, ensure_ascii=False) for part in parts)
    return str(_said(", ".join(texts)))


def _of_lighteval(rows: Iterator[Record]) -> Iterator[Row]:
    """Yield the samples of lighteval since 0.11."""
    for place, row in enumerate(rows):
        document, response = _part(row, "doc", dict), _part(row, "model_response", dict)
        choices, answers = _part(document, "choices", list), _part(response, "text", list)
        processed = _part(response, "text_post_processed", list, NoneType) or answers
        golds = _as_list(document.get("gold_index"))
        if not all(type(gold) is int and 0 <= gold < len(choices) for gold in golds):
            raise _UnreadableError(f"a field gold_index in it is no place among its {len(choices)} choices")
        if len(processed) != len(answers):
            raise _UnreadableError(f"row {place} in it has {len(answers)} texts, but {len(processed)} after processing")
        yield place, list(map(_said, processed)), _accepted([choices[gold] for gold in golds]), None


def _of_older_lighteval(rows: Iterator[Record]) -> Iterator[Row]:
    """Yield the samples of lighteval up to 0.10."""
    for place, row in enumerate(rows):
        answers = list(map(_said, _part(row, "predictions", list)))
        yield place, answers, _accepted(_part(row, "gold", list)), None


_OPENERS: dict[str, Callable[[Path], Iterator[Record]]] = {
    ".eval": _archive,
    ".json": _document,
    ".jsonl": _lines,
    ".parquet": _batches,
}
_READERS: tuple[tuple[frozenset[str], Callable[[Iterator[Record]], Iterator[Row]]], ...] = (
    (frozenset({"id", "epoch", "target"}), _of_inspect),
    (frozenset({"doc_id", "target", "resps", "filtered_resps"}), _of_harness),
    (frozenset({"testCase", "prompt", "provider", "success"}), _of_promptfoo),
    (frozenset({"doc", "model_response"}), _of_lighteval),
    (frozenset({"predictions", "gold"}), _of_older_lighteval),
)
