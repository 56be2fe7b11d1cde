"""A small number of the attacks of `inputs`; many are run by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks.inputs import KINDS, attack

TRIALS = {"api": 40, "custom": 800, "report": 200, "policy": 300, "command": 6, "file": 30}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_gets_past(kind: str, tmp_path: Path) -> None:
    for seed in range(TRIALS[kind]):
        (tmp_path / str(seed)).mkdir()
        assert attack(kind, seed, tmp_path / str(seed)) in ("answered", "refused"), (kind, seed)
