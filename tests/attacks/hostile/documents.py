"""Reports and policies as texts that are damaged, or hold what they should not."""

from __future__ import annotations

import json
from copy import deepcopy
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import ens_plugin
from ens_plugin import EnsembleReport
from ens_plugin.registry.policy import read_policy
from tests.attacks.hostile.values import any_value, cases

__all__ = ["JSON_VALUES", "POLICY", "change", "damaged", "hostile_policy", "hostile_report"]

POLICY = """
[report]
error.max = 0.1
error_upper.max = 0.2
agreement.min = 0.97
size_ratio.max = 2
[baseline]
no_worse = true
error_increase_upper.max = 0.002
required = false
[metrics]
val_auc.min = 0.9
"""


@cache
def _reports() -> list[str]:
    return [ens_plugin.analyze(*cases()[name], max_size=11).to_json() for name in ("forest", "regression")]


def hostile_report(random: Random, _: Path) -> None:
    """Read a report that is damaged, or something else."""
    text = random.choice(_reports())
    kind = random.randrange(4)
    if kind == 0:
        text = damaged(random, text.encode()).decode("utf-8", "replace")
    elif kind == 1:
        text = random.choice(("", "null", "[]", "{}", "1", '"a"', "NaN", "[" * 5000, '{"a":' * 3000, "\x00", text * 2))
    else:
        document = json.loads(text)
        for _ in range(random.randrange(1, 3)):
            change(random, document)
        text = json.dumps(document)
    report = EnsembleReport.from_json(text)
    report.summary()
    report.metrics()
    report.to_json()


JSON_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 0.5, 1e308, -1e308, 10**400, 2**63, float("nan"), float("inf"), "", "a",
    "\ufffe\x1b", "\ud800", [], {}, [[]], [None], [1], ["a"], [1, 2, 3], {"a": {}}, "NaN", "-Infinity",
)  # fmt: skip


def change(random: Random, document: Any) -> None:
    """Change, remove or repeat one value somewhere in a document."""
    while True:
        keys: list[Any] = list(document) if isinstance(document, dict) else list(range(len(document)))
        if not keys:
            return
        key = random.choice(keys)
        inner = document[key]
        if isinstance(inner, (dict, list)) and inner and random.random() < 0.8:
            document = inner
            continue
        if random.random() < 0.2:
            del document[key]
        else:
            # A later change may go into what this one put there.
            document[key] = deepcopy(random.choice(JSON_VALUES))
        return


def hostile_policy(random: Random, folder: Path) -> None:
    """Read a policy with wrong values or damaged text."""
    if random.random() < 0.3:
        table = {"report": {"error": {"max": 0.1}}, "baseline": {"no_worse": True}, "metrics": {"a": {"min": 1}}}
        change(random, table)
        read_policy(random.choice((table, table, any_value(random))))
        return
    path = folder / "policy.toml"
    content = damaged(random, POLICY.encode())
    if random.random() < 0.5:
        lines = POLICY.splitlines()
        value = random.choice(
            ("nan", "inf", "-1", "2", "'a'", "[]", "{}", "1979-05-27", "1e400", "0x1F", "[[1]]", "true")
        )
        at = random.randrange(len(lines))
        lines[at] = f"{lines[at].partition('=')[0]} = {value}"
        content = "\n".join(lines).encode()
    path.write_bytes(content)
    read_policy(path)


def damaged(random: Random, content: bytes) -> bytes:
    """Change, cut out, cut off, or repeat some bytes."""
    found, kind = bytearray(content), random.randrange(5)
    at = random.randrange(len(found))
    if kind == 0:
        for _ in range(random.choice((1, 1, 2, 5, 20))):
            found[random.randrange(len(found))] = random.randrange(256)
    elif kind == 1:
        del found[at:]
    elif kind == 2:
        del found[at : at + random.randrange(1, 64)]
    elif kind == 3:
        found[at] ^= 1 << random.randrange(8)
    else:
        found[at:at] = found[at : at + random.randrange(1, 64)]
    return bytes(found)
