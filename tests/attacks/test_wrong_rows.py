"""A few of the attacks with wrong rows, on every slow run."""

from __future__ import annotations

import pytest

pytest.importorskip("lightgbm")
pytest.importorskip("xgboost")

from tests.attacks.wrong_rows import run


@pytest.mark.slow
def test_no_wrong_rows_get_past() -> None:
    trials = run(60, 5)
    assert [trial for trial in trials if trial.outcome in ("past", "foreign")] == []
