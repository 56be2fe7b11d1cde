"""Hostile logs of evaluations: how many raise an exception of another's, and how much memory reading them takes.

`tests/attacks/logs.py` makes them of logs that inspect-ai, lm-evaluation-harness and promptfoo wrote, and of details as
lighteval specifies them: values, bytes and literals are changed or inserted, encodings are others, and small archives
unpack to much. The memory is the largest in use while a log of a megabyte and more is read, and the table with it,
relative to the text of the log.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from importlib import import_module
from pathlib import Path

from benchmarks.shared.markdown import table
from benchmarks.shared.options import read_options
from benchmarks.shared.results import Claim, conclude

# Of each kind, for one repetition.
SHARES = {
    "values changed": 34,
    "bytes damaged": 30,
    "literals inserted": 20,
    "another encoding": 10,
    "grown": 5,
    "bombs": 1,
}


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 20, arguments, smoke=1)
    attacks = import_module("tests.attacks.logs")
    lines, n_logs, n_past, memory = [], 0, 0, []
    for kind, share in SHARES.items():
        outcomes: Counter[str] = Counter()
        for place in range(share * options.repetitions):
            with tempfile.TemporaryDirectory(prefix="logs-") as folder:
                found = attacks.attack(kind, options.seed + place, Path(folder))
            outcomes[found.outcome.partition(":")[0]] += 1
            memory += [] if found.memory is None else [found.memory]
        n_logs, n_past = n_logs + outcomes.total(), n_past + outcomes["past"]
        counts = (outcomes.total(), outcomes["read"], outcomes["refused"], outcomes["past"])
        lines.append([kind, *map(str, counts)])
    claims = [
        Claim(f"{n_logs} hostile logs: exceptions that are not of ours", n_past, None, high=0.0, digits=0),
        Claim(f"{len(memory)} logs of 1 MB and more: largest memory, as a multiple of the text", max(memory), high=3.0),
    ]
    return conclude(__name__, options, claims, [table(["logs", "tried", "read", "refused", "got past"], lines)])
