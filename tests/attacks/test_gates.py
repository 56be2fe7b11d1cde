from __future__ import annotations

import pytest

from tests.attacks.gates import KINDS, attack, past
from tests.tracking.stores import MLFLOW_WARNINGS

pytestmark = [MLFLOW_WARNINGS, pytest.mark.slow]


def test_no_round_ends_with_what_contradicts_the_registry() -> None:
    kinds = {kind: share for kind, share in KINDS.items() if kind not in ("killed by a signal", "misled")}
    assert past(attack(40, 7, kinds, in_memory=True)) == {}


@pytest.mark.parametrize("kind", ["killed by a signal", "misled"])
def test_nor_in_a_store(kind: str) -> None:
    assert past(attack(4, 7, {kind: 1})) == {}
