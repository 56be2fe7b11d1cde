"""A small number of the attacks of `inputs`; many are run by hand."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.attacks.inputs import KINDS, attack

TRIALS = {"api": 40, "custom": 800, "report": 200, "policy": 300, "command": 6, "file": 30}


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_gets_past(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Other processes leave temporary files beside those of the attacks for a while.
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    for seed in range(TRIALS[kind]):
        (tmp_path / str(seed)).mkdir()
        assert attack(kind, seed, tmp_path / str(seed)) in ("answered", "refused"), (kind, seed)
