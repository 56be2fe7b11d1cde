"""A few of the fits that the script tries by the hundred."""

from __future__ import annotations

import pytest

from tests.attacks.autolog import attack
from tests.tracking.stores import MLFLOW_WARNINGS


@pytest.mark.slow
@MLFLOW_WARNINGS
def test_autologging_changes_nothing_but_the_run_of_the_report() -> None:
    tally = attack(trials=30, seed=1)
    assert not tally.faults, tally
    assert tally.runs["FINISHED"] >= 10, tally
