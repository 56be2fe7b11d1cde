"""Workflows run actions whose code cannot change under them, and leave no credentials beside the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def steps_of(path: Path) -> list[dict[str, Any]]:
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    jobs = content["jobs"].values() if "jobs" in content else [content["runs"]]
    return [step for job in jobs for step in job.get("steps", [])]


@pytest.mark.parametrize("path", [*WORKFLOWS, ROOT / "action.yml"], ids=lambda path: path.name)
def test_actions_are_named_by_their_commit(path: Path) -> None:
    used = [step["uses"] for step in steps_of(path) if "uses" in step]
    assert used
    assert [name for name in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", name)] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_checkout_keeps_no_credentials(path: Path) -> None:
    checkouts = [step for step in steps_of(path) if step.get("uses", "").startswith("actions/checkout@")]
    assert [step for step in checkouts if step.get("with", {}).get("persist-credentials") is not False] == []
