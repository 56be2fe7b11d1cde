from __future__ import annotations

import pytest

from tests.attacks.gates import KINDS, attack, past
from tests.tracking.stores import MLFLOW_WARNINGS

pytestmark = [MLFLOW_WARNINGS, pytest.mark.slow]


def test_no_round_ends_with_what_contradicts_the_registry() -> None:
    kinds = {kind: share for kind, share in KINDS.items() if kind != "killed by a signal"}
    assert past(attack(20, 7, kinds)) == {}


@pytest.mark.parametrize("kind", ["killed by a signal", "overtaken"])
def test_rare_rounds(kind: str) -> None:
    assert past(attack(2, 7, {kind: 1})) == {}
