"""Hostile inputs of the API, of reports and policies as text, of the command line and of model files.

``python -m tests.attacks.inputs --trials 50000 --seed 0`` counts, by kind, what was answered, what was refused in
words of ours, and what got past: exceptions that are not ours, calls of more than 30 s, files left behind, processes
ended by a signal.
"""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from copy import copy
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import click
import joblib
import numpy as np
import pandas as pd

import ens_plugin
from ens_plugin.cli import main as command_line
from ens_plugin.errors import EnsPluginError, InputError
from ens_plugin.tracking.models import load_model
from tests.attacks.hostile.documents import POLICY, damaged, hostile_policy, hostile_report
from tests.attacks.hostile.values import any_value, array_like, cases, hostile_members

__all__ = ["KINDS", "attack"]

SLOW_S = 30
SHARES = {"api": 16, "custom": 700, "report": 110, "policy": 165, "command": 1, "file": 6}
ARGUMENTS = (
    "data", "sample_weight", "groups", "metric", "criterion", "tolerance", "max_size", "interval_level", "random_state",
    "n_jobs",
)  # fmt: skip


def _api(random: Random, _: Path) -> None:
    name = random.choice(sorted(cases()))
    model, X, y = cases()[name]
    options: dict[str, Any] = {"max_size": 11}
    for argument in random.sample(ARGUMENTS, random.randrange(1, 3)):
        options[argument] = random.choice((any_value(random), array_like(random, (len(y),))))
    if random.random() < 0.2:
        y = array_like(random, (len(y),))
    if random.random() < 0.2:
        X = array_like(random, X.shape)
    call = random.randrange(10)
    if call == 0:
        ens_plugin.in_bag(
            model, X, y if random.random() < 0.5 else array_like(random, (len(y) if hasattr(y, "shape") else 3,))
        )
    elif call == 1:
        ens_plugin.truncate(model, any_value(random))
    elif call == 2:
        broken = copy(model)
        attributes = sorted(vars(broken))
        setattr(broken, random.choice(attributes), any_value(random))
        ens_plugin.analyze(broken, X, y, **options)
    elif call == 3:
        ens_plugin.analyze(any_value(random), X, y, **options)
    else:
        ens_plugin.analyze(model, X, y, **options)


def _custom(random: Random, _: Path) -> None:
    n_members, n_rows, n_labels = random.randrange(1, 5), random.randrange(1, 12), random.randrange(1, 4)
    bags = random.choice(
        (
            lambda: None,
            lambda: np.random.default_rng(random.randrange(99)).random((n_members, n_rows)) < 0.6,
            lambda: [[random.randrange(n_rows) for _ in range(n_rows)] for _ in range(n_members)],
            lambda: array_like(random, (n_members, n_rows)),
        )
    )()
    classes = random.choice((None, None, list(range(n_labels)), array_like(random, (n_labels,))))
    if random.random() < 0.3:
        members = hostile_members(random, n_rows)
        if random.random() < 0.1:
            members = any_value(random)
        model = ens_plugin.CustomEnsemble.from_estimators(members, bags, classes=classes)
        rows: Any = np.zeros((n_rows, 2))
    else:
        aggregation = random.choice(("vote", "mean_proba", "mean_score", "mean", any_value(random)))
        shape = (n_members, n_rows) if aggregation in _flat(aggregation) else (n_members, n_rows, n_labels)
        outputs = array_like(random, shape)
        model = ens_plugin.CustomEnsemble(outputs, bags, aggregation=aggregation, classes=classes)
        rows = None
    y = array_like(random, (n_rows,))
    ens_plugin.analyze(model, rows, y, data=random.choice(("oob", "holdout")), max_size=11)


def _flat(aggregation: Any) -> tuple[str, ...]:
    return ("vote", "mean", "mean_score") if isinstance(aggregation, str) else ()


@cache
def _files() -> dict[str, bytes]:
    """Model files of every kind that is installed, and a table with their rows."""
    model, X, y = cases()["forest"]
    found: dict[str, bytes] = {}
    for name, compress in (("forest.joblib", 0), ("forest.joblib.gz", ("gzip", 3)), ("forest.z", ("zlib", 3))):
        content = io.BytesIO()
        joblib.dump(model, content, compress=compress)
        found[name] = content.getvalue()
    try:
        import skops.io

        found["forest.skops"] = skops.io.dumps(model)
    except ImportError:
        pass
    try:
        import lightgbm

        forest = lightgbm.LGBMClassifier(
            boosting_type="rf",
            n_estimators=3,
            subsample=0.6,
            subsample_freq=1,
            min_child_samples=2,
            n_jobs=1,
            verbose=-1,
        ).fit(X, y)
        found["lightgbm.txt"] = forest.booster_.model_to_string().encode()
    except ImportError:
        pass
    try:
        import xgboost

        forest = xgboost.XGBClassifier(n_estimators=1, num_parallel_tree=3, subsample=0.6, n_jobs=1).fit(X, y)
        for form in ("json", "ubj"):
            found[f"xgboost.{form}"] = bytes(forest.get_booster().save_raw(form))
    except ImportError:
        pass
    return found


def _file(random: Random, folder: Path) -> None:
    """Load a damaged file and analyse with it, in a fork: that it survives is what is counted."""
    name = random.choice(sorted(_files()))
    (folder / name).write_bytes(damaged(random, _files()[name]))
    _, X, y = cases()["forest"]

    def use() -> None:
        ens_plugin.analyze(load_model(folder / name), X, y, max_size=11)

    _in_fork(use)


class Signalled(Exception):
    """A process was ended by a signal."""


class Foreign(Exception):
    """An exception in a fork that is no error of ours."""


def _in_fork(work: Callable[[], None]) -> None:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        signal.alarm(10 * SLOW_S)
        message = "-"
        try:
            work()
        except EnsPluginError as error:
            message = f"+{error}"
        except BaseException:
            message = f"!{traceback.format_exc()}"
        os.write(writing, message.encode("utf-8", "replace")[-60_000:])
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        message = pipe.read().decode("utf-8", "replace")
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status != 0:
        raise Signalled(f"status {status}")
    if message.startswith("+"):
        raise InputError(message[1:])
    if message != "-":
        raise Foreign(message[-3000:])


OPTIONS = (
    "--holdout", "--criterion", "--tolerance", "--max-size", "--sample-weight", "--groups",
    "--random-state", "--n-jobs", "--format", "--json", "--html", "--log", "--experiment", "--run-id", "--picture",
    "--max-size-ratio", "--min-agreement", "--help", "--", "--nonsense",
)  # fmt: skip
WORDS = (
    "", "0", "-1", "1e308", "nan", "inf", "0.99", "3", "x", "a\x1b[31m", "/nowhere/x", ".", "..", "auto", "path",
    "json", "models:/", "models:/x/1", "runs:/x", "https://me:s3cr3t@nowhere.invalid/x", "s\ufffe", "--data",
    "10" * 200, "y", "a",
)  # fmt: skip


def _command(random: Random, folder: Path) -> None:
    _, X, y = cases()["forest"]
    (folder / "model.joblib").write_bytes(_files()["forest.joblib"])
    table = pd.DataFrame(X).assign(y=y).to_csv(index=False).encode()
    (folder / "rows.csv").write_bytes(damaged(random, table) if random.random() < 0.5 else table)
    (folder / "policy.toml").write_text(POLICY)
    verb = random.choice(("analyze", "recommend", "gate", "rightsize", random.choice(WORDS)))
    arguments = [verb, "model.joblib", "--data", "rows.csv", "--target", "y", "--max-size", "11"]
    if verb == "gate":
        arguments = [verb, random.choice(WORDS), "--policy", "policy.toml"]
    if random.random() < 0.3:
        arguments[random.randrange(len(arguments))] = random.choice(WORDS)
    for _ in range(random.randrange(3)):
        arguments += [random.choice(OPTIONS), *([random.choice(WORDS)] if random.random() < 0.7 else [])]
    _in_fork(lambda: _run_command(arguments, folder))


def _run_command(arguments: list[str], folder: Path) -> None:
    os.chdir(folder)
    out, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        try:
            command_line(arguments)
        except SystemExit as ended:
            code = ended.code
    if code not in (0, 1, 2) or "defect" in errors.getvalue() or "s3cr3t" in out.getvalue() + errors.getvalue():
        raise Foreign(f"{arguments}: {code}: {errors.getvalue()}")
    if code == 2 and "Error" not in errors.getvalue() and not out.getvalue():
        raise Foreign(f"{arguments}: exit 2 without a word: {errors.getvalue()}")
    if code == 2:
        raise InputError(errors.getvalue())


KINDS: dict[str, Callable[[Random, Path], None]] = {
    "api": _api,
    "custom": _custom,
    "report": hostile_report,
    "policy": hostile_policy,
    "command": _command,
    "file": _file,
}
LEFT_BY_US = ("model.joblib", "rows.csv", "policy.toml", "mlflow.db", "mlruns")


def attack(kind: str, seed: int, folder: Path) -> str:
    """Try one input and return the outcome.

    Returns
    -------
    str
        ``"answered"``, ``"refused"``, or what got past, which is anything else.
    """
    random, started, computed_before = Random(f"{kind} {seed}"), time.monotonic(), sum(os.times()[:4])
    before = set(os.listdir(tempfile.gettempdir())) if seed % 50 == 0 else None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            KINDS[kind](random, folder)
        outcome = "answered"
    except (EnsPluginError, click.ClickException) as error:
        outcome = "refused" if _is_in_words(str(error)) else f"control characters: {error!r:.200}"
    except Signalled as error:
        outcome = f"signal: {error}"
    except Exception:  # what is counted
        outcome = "foreign: " + traceback.format_exc()[-1500:]
    # Of computing, for the machine may be busy with other things; of waiting, much more.
    computed, waited = sum(os.times()[:4]) - computed_before, time.monotonic() - started
    if computed > SLOW_S or waited > 10 * SLOW_S:
        outcome = f"slow: {computed:.0f} s of computing, {waited:.0f} s"
    left = [name for name in os.listdir(folder) if name.startswith(".")]
    if before is not None:
        left += [name for name in set(os.listdir(tempfile.gettempdir())) - before if name.startswith("ens_plugin")]
    return f"left behind: {left}" if left else outcome


def _is_in_words(message: str) -> bool:
    return bool(message.strip()) and not set(message) & {"\x1b", "\x00", "\u202e"}


def main() -> None:
    """Attack, and print counts by kind and what got past."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", choices=sorted(KINDS), default=sorted(KINDS))
    arguments = parser.parse_args()
    total = sum(SHARES[kind] for kind in arguments.kinds)
    n_past = 0
    for kind in arguments.kinds:
        counts: Counter[str] = Counter()
        started = time.monotonic()
        for index in range(max(arguments.trials * SHARES[kind] // total, 1)):
            with tempfile.TemporaryDirectory(prefix="attack-") as folder:
                outcome = attack(kind, arguments.seed + index, Path(folder))
            counts[outcome.partition(":")[0]] += 1
            if outcome not in ("answered", "refused"):
                n_past += 1
                print(f"{kind} {arguments.seed + index}: {outcome}", file=sys.stderr, flush=True)
        print(f"{kind}: {sum(counts.values())} {dict(counts)} in {time.monotonic() - started:.0f} s", flush=True)
    print(f"got past: {n_past}")
    sys.exit(n_past > 0)


if __name__ == "__main__":
    main()
