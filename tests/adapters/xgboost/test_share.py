"""The values of `subsample` that are tried for a booster."""

from __future__ import annotations

import pytest

pytest.importorskip("xgboost", reason="xgboost is not installed: pip install xgboost-cpu")

from ens_plugin.adapters.xgboost.bags import Share


@pytest.mark.parametrize("subsample", [0.632, 1 / 3, 2 / 3, 0.333, 0.667])
def test_usual_values_of_many_digits_are_tried(subsample: float) -> None:
    """Rounded to four digits, a third would draw other rows."""
    found = Share(mean=subsample + 0.002, sd=0.001, is_whole=False).candidates(1.0)
    assert subsample in found
    assert 1.0 not in found
