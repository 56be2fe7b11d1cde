"""Gates at once, killed, cut off from their registry, and misled; counts what contradicts the registry afterwards.

Run by hand: ``python -m tests.attacks.gates --trials 1000 --seed 0``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import multiprocessing.util
import os
import random
import signal
import sqlite3
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import mlflow
import pytest

from ens_plugin import GateDecision
from ens_plugin.errors import EnsPluginError
from ens_plugin.registry.gating import gate_request, run_gate
from tests.attacks.registries.fated_client import BASES, NAME, OWN, PLAIN, Crash, Fate, FatedClient
from tests.attacks.registries.memory_registry import MemoryClient
from tests.registry.registry import Version, register, report_with_error, stub_artifacts, verdict_of
from tests.tracking.stores import tracking_to

__all__ = ["KINDS", "attack"]

UPPER = report_with_error(1.0).error_interval[1]
POLICY: dict[str, Any] = {"report": {"error_upper": {"max": 2 * UPPER}}, "baseline": {"error_increase": {"max": 0.9}}}
# By the scale of their error; those above 2 fail.
SCALES = (1.9, 1.5, 1.0, 0.9, 0.8, 0.7, 9.0, 8.0)
KINDS = {"concurrent": 25, "crashed": 28, "cut off": 28, "misled": 22, "killed by a signal": 4, "overtaken": 4}


@dataclass
class Outcome:
    """How one gate ended."""

    version: Version
    fate: Fate
    decision: GateDecision | None
    error: BaseException | None
    audit: list[dict[str, Any]]


def ask(version: Version, fate: Fate, policy: Mapping[str, Any] = POLICY) -> Outcome:
    """Run one gate under its fate."""
    audit: list[dict[str, Any]] = []
    # Candidates are used again and again, older ones after newer ones.
    request = replace(
        gate_request(version.uri, policy, baseline="champion", rows=None, promote="champion", prefix="ens"),
        allow_older=True,
    )
    OWN.fate = fate
    try:
        decision = run_gate(request, lambda line: None if fate.dead else audit.append(json.loads(line)))
    except (Exception, Crash) as error:
        return Outcome(version, fate, None, error, audit)
    finally:
        OWN.fate = None
    return Outcome(version, fate, decision, None, audit)


class Registry:
    """A registry of versions that are used again and again."""

    def __init__(self, directory: Path, in_memory: bool) -> None:
        self.client: mlflow.MlflowClient = PLAIN()
        self.versions = [register(self.client, NAME, report_with_error(scale)) for scale in (2.0, *SCALES)]
        self.champion, self.candidates = self.versions[0], self.versions[1:]
        self.client.set_registered_model_alias(NAME, "champion", self.champion.version)
        if in_memory:
            MemoryClient.remember(NAME)
            self.client = MemoryClient()
        self.directory, self.database = directory, directory.parent / "mlflow.db"

    def reset(self) -> None:
        """Restore the state before the first gate, in the database: through MLflow it takes longer than a gate."""
        if BASES[-1] is MemoryClient:
            return MemoryClient.reset(NAME, self.champion.version)
        with contextlib.closing(sqlite3.connect(self.database, timeout=60)) as connection, connection:
            connection.execute("DELETE FROM model_version_tags")
            connection.execute("DELETE FROM registered_model_tags")
            connection.execute(
                "UPDATE registered_model_aliases SET version = ? WHERE name = ?", (self.champion.version, NAME)
            )

    def tags(self, version: Version) -> dict[str, str]:
        return dict(self.client.get_model_version(version.name, version.version).tags)

    def holder(self) -> str | None:
        held = self.client.get_registered_model(NAME).aliases.get("champion")
        return None if held is None else str(held)

    def earned(self, version: str) -> bool:
        """Whether a version may be promoted at all."""
        found = next((index for index, item in enumerate(self.versions) if item.version == version), None)
        return found is not None and (2.0, *SCALES)[found] <= 2.0


def concurrent(registry: Registry, rng: random.Random, report: Counter[str]) -> None:
    """Four gates with the same baseline, one of which may die or lose an answer."""
    versions = rng.sample(registry.candidates, 4) if rng.random() < 0.8 else rng.choices(registry.candidates, k=4)
    fates = [Fate() for _ in versions]
    if rng.random() < 0.3:
        fates[0].plan = at(rng.randrange(30), rng.choice(("crash", "drop", "lost")))
    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(lambda pair: ask(*pair), zip(versions, fates, strict=True)))
    check(registry, outcomes, report)


def at(number: int, fault: str, last: int | None = None) -> Callable[[int, str], str | None]:
    """A fault at one call, or at all from there to `last`."""
    return lambda call, method: fault if number <= call <= (number if last is None else last) else None


def crashed(registry: Registry, rng: random.Random, report: Counter[str]) -> None:
    """A gate that dies before or after any call, over a verdict of an earlier one or none."""
    version = rng.choice(registry.candidates)
    if rng.random() < 0.5:
        verdict = rng.choice(("pass", "fail"))
        reasons = "FAILED: earlier" if verdict == "fail" else "ok: earlier"
        registry.client.set_model_version_tag(NAME, version.version, "ens.gate.reasons", reasons)
        registry.client.set_model_version_tag(NAME, version.version, "ens.gate", verdict)
    check(registry, [ask(version, Fate(at(rng.randrange(32), "crash")))], report)


def cut_off(registry: Registry, rng: random.Random, report: Counter[str]) -> None:
    """Run a gate on a registry that does not answer one call, some, or any more, and may still have obeyed them."""
    version, first = rng.choice(registry.candidates[:6]), rng.randrange(32)
    fault = rng.choice(("drop", "lost"))
    if rng.random() < 0.4:
        # The one that matters most.
        plan = lambda call, method: fault if method == "set_registered_model_alias" else None  # noqa: E731
    else:
        plan = at(first, fault, rng.choice((first, first + 1, first + 3, 10**6)))
    check(registry, [ask(version, Fate(plan))], report)


def overtaken(registry: Registry, rng: random.Random, report: Counter[str]) -> None:
    """Somebody without a lease moves the alias right after the gate did."""
    version, other = rng.sample(registry.candidates[:6], 2)
    fate = Fate()
    fate.others = lambda: BASES[-1].set_registered_model_alias(registry.client, NAME, "champion", other.version)
    found = ask(version, fate)
    if not fate.moves or found.decision is not None or "right after that it points at" not in str(found.error):
        report["exit that contradicts the registry"] += 1


def killed_by_signal(registry: Registry, rng: random.Random, report: Counter[str]) -> None:
    """A process that is killed at any time, and one after it."""
    version = rng.choice(registry.candidates)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.attacks.gates", "mlflow.models.evaluation.validation", "matplotlib.pyplot"])
    fate = rng.randrange(30), rng.uniform(0, 0.05)
    process = context.Process(
        target=_gate_process, args=(mlflow.get_tracking_uri(), version.uri, str(registry.directory), *fate)
    )
    process.start()
    process.join(120)
    report["(processes killed)"] += process.exitcode == -signal.SIGKILL
    report["(killed while a lease was held)"] += bool(registry.client.get_registered_model(NAME).tags)
    report["(killed before a verdict)"] += "ens.gate" not in registry.tags(version)
    check(registry, [], report)
    for key in registry.client.get_registered_model(NAME).tags:
        registry.client.delete_registered_model_tag(NAME, key)
    held = registry.holder()
    after = ask(registry.candidates[5], Fate())
    if after.decision is None or after.decision.promoted_from != held:
        report["exit that contradicts the registry"] += 1
    report["leftover"] += sum(1 for _ in Path(tempfile.gettempdir()).glob("ens_plugin-gate-*"))


def _gate_process(uri: str, model: str, directory: str, number: int, seconds: float) -> None:
    """A gate whose process is killed so many seconds after its call of this number."""

    def plan(call: int, method: str) -> None:
        if call == number:
            threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()

    tempfile.tempdir = directory
    mlflow.set_tracking_uri(uri)
    mlflow.MlflowClient = FatedClient
    request = replace(
        gate_request(model, POLICY, baseline="champion", rows=None, promote="champion", prefix="ens"), allow_older=True
    )
    OWN.fate = Fate(plan)
    run_gate(request, lambda line: None)
    time.sleep(seconds)


def misled(registry: Registry, rng: random.Random, report: Counter[str]) -> None:
    """A version whose report, source or run is not what a pass could rest on."""
    from tests.attacks.registries.misleading import mislead

    version = register(
        registry.client, f"misled-{rng.getrandbits(64)}", report_with_error(0.5), linked=rng.random() < 0.5
    )
    mislead(registry.client, version, rng)
    found = ask(version, Fate(remembers=False), {**POLICY, "baseline": {"no_worse": True, "required": False}})
    if not isinstance(found.error, EnsPluginError):
        report["wrong promotion" if found.decision else "foreign exception"] += 1
    if [line["event"] for line in found.audit] != ["error"]:
        report["error without an audit line"] += 1
    if found.fate.moves or registry.tags(version) or registry.client.get_registered_model(version.name).aliases:
        report["wrong promotion"] += 1


def check(registry: Registry, outcomes: list[Outcome], report: Counter[str]) -> None:
    """Count violations of the guarantees of a gate."""
    moves = [move for outcome in outcomes for move in outcome.fate.moves]
    for outcome in outcomes:
        _check_outcome(registry, outcome, outcomes, report)
    held = registry.holder()
    expected = {after for _, after in moves} or {registry.champion.version}
    if outcomes and held not in expected:
        report["exit that contradicts the registry"] += 1
    if held != registry.champion.version and not (held and registry.earned(held)):
        report["wrong promotion"] += 1
    for version in registry.versions:
        tags = registry.tags(version)
        verdict, reasons = verdict_of(tags), tags.get("ens.gate.reasons")
        if verdict is not None and (reasons is None or (verdict == "fail") != ("FAILED" in reasons)):
            report["verdict without its reasons"] += 1
        if version.version == held != registry.champion.version and verdict != "pass" and len(outcomes) < 2:
            report["wrong promotion"] += 1


def _check_outcome(registry: Registry, outcome: Outcome, all_outcomes: list[Outcome], report: Counter[str]) -> None:
    error, decision, moves = outcome.error, outcome.decision, outcome.fate.moves
    report["(promotions)"] += len(moves)
    if error is not None and not isinstance(error, (EnsPluginError, Crash)):
        report["foreign exception"] += 1
    if "unexpected content" in str(error):
        report["error that is a defect"] += 1
    baselines = {line["baseline"] for line in outcome.audit if line["event"] == "decision"}
    for before, after in moves:
        if before not in baselines:
            report["promotion against a stale baseline"] += 1
        if after != outcome.version.version or not registry.earned(after):
            report["wrong promotion"] += 1
    promoted = decision is not None and decision.promoted is not None
    if promoted and (decision.promoted_from, outcome.version.version) not in moves:
        # Unless it was the champion before, which no move is needed for.
        report["exit that contradicts the registry"] += int(decision.promoted_from != outcome.version.version)
    if moves and not promoted and not isinstance(error, Crash) and "is not known" not in str(error):
        report["exit that contradicts the registry"] += 1
    if promoted and [line["promoted_from"] for line in outcome.audit if line["event"] == "promotion"] != [
        decision.promoted_from
    ]:
        report["audit that contradicts the registry"] += 1
    if isinstance(error, EnsPluginError) and not any(line["event"] == "error" for line in outcome.audit):
        report["error without an audit line"] += 1
    alone = [other for other in all_outcomes if other.version == outcome.version] == [outcome]
    if decision is not None and alone and registry.tags(outcome.version).get("ens.gate") != decision.tag:
        report["exit that contradicts the registry"] += 1


ROUNDS = {"concurrent": concurrent, "crashed": crashed, "cut off": cut_off, "misled": misled,
          "killed by a signal": killed_by_signal, "overtaken": overtaken}  # fmt: skip


@contextmanager
def embedded_registry(in_memory: bool = False) -> Iterator[Registry]:
    """A database and files in a folder of their own, with temporary files beside them."""
    multiprocessing.util.get_temp_dir()  # of its own, before temporary files are counted
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patches:
        files = Path(folder, "temporary")
        files.mkdir()
        patches.setattr(tempfile, "tempdir", str(files))
        patches.setenv("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
        patches.setattr("ens_plugin.registry.gating.READ_BACK_PAUSE_S", 0.01)
        patches.setattr(PLAIN, "_raise_if_prompt", lambda *arguments: None)  # reads the whole model before each tag
        stub_artifacts(patches)
        uri = f"sqlite:///{folder}/mlflow.db"
        mlflow.MlflowClient(tracking_uri=uri).create_experiment("tests", (Path(folder) / "artifacts").as_uri())
        with tracking_to(uri):
            registry = Registry(files, in_memory)
            patches.setattr("mlflow.MlflowClient", FatedClient)
            BASES.append(MemoryClient if in_memory else PLAIN)
            try:
                yield registry
            finally:
                BASES.pop()


def attack(
    trials: int, seed: int, kinds: Mapping[str, int] = KINDS, *, in_memory: bool = False
) -> dict[str, Counter[str]]:
    """Run so many rounds and return the counts by kind of round."""
    rng = random.Random(seed)
    found: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
    with embedded_registry(in_memory) as registry:
        for trial in range(trials):
            if trial % 50 == 0:
                print(trial, {kind: dict(counts) for kind, counts in found.items()}, file=sys.stderr, flush=True)
            (kind,) = rng.choices(list(kinds), list(kinds.values()))
            registry.reset()
            found[kind]["(rounds)"] += 1
            ROUNDS[kind](registry, rng, found[kind])
    return found


def past(found: Mapping[str, Counter[str]]) -> dict[str, dict[str, int]]:
    """Return the violations alone."""
    bad = {
        kind: {what: count for what, count in counts.items() if count and not what.startswith("(")}
        for kind, counts in found.items()
    }
    return {kind: counts for kind, counts in bad.items() if counts}


def main() -> None:
    """Print the counts; exit with 1 if anything got past."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("--memory", action="store_true", help="a registry in memory, which is much quicker")
    options = parser.parse_args()
    # A process that is killed, and a report that is registered anew, need a store.
    usual = ("concurrent", "crashed", "cut off", "overtaken") if options.memory else KINDS
    kinds = {kind: KINDS[kind] for kind in options.kind or usual}
    started = time.monotonic()
    found = attack(options.trials, options.seed, kinds, in_memory=options.memory)
    for kind, counts in found.items():
        print(f"{kind}: {dict(sorted(counts.items()))}")
    print(f"{options.trials} rounds in {time.monotonic() - started:.0f} s; got past: {past(found) or 'nothing'}")
    sys.exit(1 if past(found) else 0)


if __name__ == "__main__":
    main()
