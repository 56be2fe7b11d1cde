"""A small number of the attacks of `logs`; many are counted by ``python -m benchmarks checks.hostile_logs``."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="PyArrow is not installed")

from tests.attacks.logs import KINDS, attack


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_gets_past(kind: str, tmp_path: Path) -> None:
    for seed in range({"bombs": 2, "grown": 8}.get(kind, 60)):
        found = attack(kind, seed, tmp_path)
        assert found.outcome in ("read", "refused"), (kind, seed)
        assert found.memory is None or found.memory < 3, (kind, seed)
