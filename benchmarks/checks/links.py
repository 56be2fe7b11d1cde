"""Reports of one model linked to another one, and honest ones: how many verdicts rest on what was not analysed.

`tests/attacks/links.py` arranges that the report is not of what is stored: other labels, leaves or seeds, trees that
were replaced, added or left out, models around the one that was analysed, files, tags and versions that were changed,
copied or exchanged; each linked by autologging, by the run, or by `log_report(report, model_id=...)`, and judged by
the gate. Honest models are logged before their report, after an autologged fit, or by MLflow's autologging. On a
database, and one in four of them on files and on a server of MLflow on the same machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.results import Claim, conclude

# Of all arrangements, one in so many is tried on each store.
SHARES = {"SQLite": 1, "files": 4, "server": 4}


def trials_on(store: str, options: Options) -> tuple[list[Any], list[Any]]:
    """Return the trials of what was not analysed, and of honest models, on one kind of store."""
    attacks = import_module("tests.attacks.links")
    step = SHARES[store] * (20 if options.smoke else 1)
    with attacks.store(store):
        wrong, honest = (
            [attacks.attack(kind) for kind in list(kinds)[::step] for _ in range(options.repetitions)]
            for kinds in (attacks.KINDS, attacks.HONEST)
        )
    return wrong, honest


def claims_of(store: str, wrong: Sequence[Any], honest: Sequence[Any]) -> list[Claim]:
    """Return what was promised, as counted on one kind of store."""
    past, refused = (len(kinds) for kinds in missed(wrong, honest))
    return [
        Claim(f"{len(wrong)} models that were not analysed, {store}: verdicts", past, None, high=0.0, digits=0),
        Claim(f"{len(honest)} models that were analysed, {store}: no verdict", refused, None, high=0.0, digits=0),
    ]


def missed(wrong: Sequence[Any], honest: Sequence[Any]) -> tuple[list[str], list[str]]:
    """Return the kinds that got a verdict though they must not, and those that got none though they must."""
    past = [trial.kind for trial in wrong if trial.outcome == "verdict"]
    return past, [trial.kind for trial in honest if trial.outcome != "verdict"]


def names_table(found: dict[str, tuple[list[Any], list[Any]]]) -> str:
    """Return the names of the arrangements that ended as they must not; empty without any."""
    lines = [
        [kind, title, store]
        for store, trials in found.items()
        for title, kinds in zip(("not analysed: a verdict", "analysed: none"), missed(*trials), strict=True)
        for kind in dict.fromkeys(kinds)
    ]
    return table(["ended as it must not", "how", "store"], lines) if lines else ""


def counts_table(found: dict[str, tuple[list[Any], list[Any]]]) -> str:
    """Return how the arrangements ended on each kind of store."""
    lines = []
    for store, (wrong, honest) in found.items():
        for title, trials in (("not analysed", wrong), ("analysed", honest)):
            counts = Counter(trial.outcome for trial in trials)
            numbers = (len(trials), counts["refused"], counts["no verdict"], counts["verdict"])
            lines.append([f"{title}, {store}", *map(str, numbers)])
    return table(["models", "tried", "link refused", "no verdict", "verdict"], lines)


def seconds_table(found: dict[str, tuple[list[Any], list[Any]]]) -> str:
    """Return how long honest ones took on each kind of store."""
    lines = []
    for store, (_, honest) in found.items():
        steps = {
            "log_report(model_id=)": [trial.linking for trial in honest if trial.kind.endswith("by id")],
            "log_model alone": [trial.logging for trial in honest if trial.kind.endswith("by id")],
            "log_model after an autologged fit": [
                trial.logging for trial in honest if trial.kind.endswith("autologged")
            ],
            "gate": [trial.judging for trial in honest],
        }
        lines += [
            [f"{step}, {store}", f"{np.median(seconds):.2f}", f"{max(seconds):.2f}"]
            for step, seconds in steps.items()
            if seconds
        ]
    return table(["seconds", "median", "largest"], lines)


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 1, arguments)
    found = {store: trials_on(store, options) for store in (["SQLite"] if options.smoke else SHARES)}
    claims = [claim for store, trials in found.items() for claim in claims_of(store, *trials)]
    tables = [text for text in (counts_table(found), names_table(found), seconds_table(found)) if text]
    return conclude(__name__, options, claims, tables)
