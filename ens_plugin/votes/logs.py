"""Answers in the logs of evaluation tools, as a table with a row for each sample."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pandas as pd

from ens_plugin.core.validation import one_line, shown
from ens_plugin.errors import InputError

Row = tuple[Any, Any, Any]
KNOWN = (
    "Logs of inspect-ai (.eval and .json), samples of lm-evaluation-harness (.jsonl, by --log_samples) and details of "
    "lighteval (.parquet) are known. Of a table, name the columns: ens-plugin votes FILE --question Q --answer A, "
    "or analyze_votes(table) where they are question and answer."
)
# A sign follows no letter and no number, as in 3-5 or in a date; commas are those of thousands.
NUMBER = re.compile(
    r"(?:(?<![\w.)])-)?(?:\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d+)?|(?<!\d)\.\d+)(?:[eE][+-]?\d{1,2}\b)?"
)


def last_number(text: Any) -> str | None:
    """Return the last number in a text in one form, such as 7 for 007, 7.0 and 7e0; None without a number.

    For ``analyze_votes(..., normalize=last_number)``, where answers are whole texts that end with a number.

    Examples
    --------
    >>> from ens_plugin.votes import last_number
    >>> last_number("So she pays $1,250.50."), last_number("I do not know.")
    ('1250.5', None)
    """
    found: list[str] = NUMBER.findall(str(text))
    if not found:
        return None
    number = Decimal(found[-1].replace(",", "")).normalize()
    return format(number, "f") if number else "0"


def read_log(path: str | Path) -> pd.DataFrame:
    """Return the answers in the log of an evaluation that sampled each question several times.

    Parameters
    ----------
    path : str or Path
        A log of inspect-ai (``.eval`` or ``.json``; epochs are samples), a file of samples of lm-evaluation-harness
        (``.jsonl``, written with ``--log_samples``; repeats are samples), or details of lighteval (``.parquet``).

    Returns
    -------
    DataFrame
        Columns `question`, `answer` and `truth`, as :func:`ens_plugin.analyze_votes` takes them.  Of inspect-ai, the
        answer is the one that the first scorer read, else the whole completion; of the others it is what a filter has
        left of each sample, else the whole text.

    Raises
    ------
    InputError
        If the file cannot be read, or is none of these.

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
    reader = _READERS.get(path.suffix)
    if reader is None:
        raise InputError(f"{shown(path.name, 80)} has an unknown form. {KNOWN}")
    try:
        rows = list(reader(path))
    except NotImplementedError as error:  # of zipfile, for a compression that it does not know
        raise InputError(
            f"{shown(path.name, 80)} is compressed in a way that this Python cannot read. Install inspect-ai here, or "
            "convert the log: inspect log convert --to json --output-dir FOLDER FILE."
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError, OSError, zipfile.BadZipFile) as error:
        reason = f"{type(error).__name__}: {one_line(str(error), 120)}"
        raise InputError(f"{shown(path.name, 80)} cannot be read as such a log ({reason}). {KNOWN}") from error
    if not rows:
        raise InputError(f"{shown(path.name, 80)} holds no samples. {KNOWN}")
    return pd.DataFrame(rows, columns=["question", "answer", "truth"])


def _of_inspect(samples: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    for sample in samples:
        if sample.get("error"):
            continue
        scores = sample.get("scores") or {}
        read = [score["answer"] for score in scores.values() if score.get("answer") is not None]
        # A scorer that read no answer leaves it out, and the sample then has none.
        answer = read[0] if read else (None if scores else sample["output"]["completion"])
        yield sample["id"], answer, _first(sample["target"])


def _inspect_archive(path: Path) -> Iterator[Row]:
    if find_spec("inspect_ai") is not None:
        # Its newer archives are compressed in a way that Python reads from 3.14 on.
        log = import_module("inspect_ai.log").read_eval_log(str(path))
        yield from _of_inspect(sample.model_dump() for sample in log.samples or ())
        return
    with zipfile.ZipFile(path) as archive:
        names = sorted(name for name in archive.namelist() if re.fullmatch(r"samples/.*\.json", name))
        yield from _of_inspect(json.loads(archive.read(name)) for name in names)


def _inspect_document(path: Path) -> Iterator[Row]:
    yield from _of_inspect(json.loads(path.read_text(encoding="utf-8"))["samples"])


def _harness_samples(path: Path) -> Iterator[Row]:
    """Yield the samples of lm-evaluation-harness; of a document that several filters were applied to, those of one."""
    seen: dict[Any, Any] = {}
    with path.open(encoding="utf-8") as lines:
        for line in filter(str.strip, lines):
            document = json.loads(line)
            name = document.get("filter")
            if seen.setdefault(document["doc_id"], name) != name:
                continue
            (responses,), filtered = document["resps"], document["filtered_resps"][0]
            answers = filtered if isinstance(filtered, list) and len(filtered) == len(responses) else responses
            for answer in answers:
                yield document["doc_id"], answer, _first(document["target"])


def _lighteval_details(path: Path) -> Iterator[Row]:
    """Yield the samples of lighteval's details, of releases up to 0.10 and since."""
    table = pd.read_parquet(path)
    for place, row in enumerate(table.to_dict("records")):
        if "model_response" in row:
            response, document = row["model_response"], row["doc"]
            processed = response.get("text_post_processed")
            answers = response["text"] if processed is None or not len(processed) else processed
            gold = document["choices"][int(_first(document["gold_index"]))]
        else:
            answers, gold = row["predictions"], _first(row["gold"])
        for answer in answers:
            yield place, answer, gold


def _first(value: Any) -> Any:
    """Return the first of several true answers."""
    return value if isinstance(value, (str, int, float)) else value[0]


_READERS: dict[str, Callable[[Path], Iterator[Row]]] = {
    ".eval": _inspect_archive,
    ".json": _inspect_document,
    ".jsonl": _harness_samples,
    ".parquet": _lighteval_details,
}
