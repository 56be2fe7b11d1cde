from __future__ import annotations

import math

import numpy as np
import pytest

from ens_plugin.core.scalars import as_chance, as_confidence, as_count, as_positive
from ens_plugin.errors import InputError


def test_good_numbers_pass_unchanged() -> None:
    assert as_positive(np.float64(2.5), "x") == 2.5
    assert as_chance(0.01, "x") == 0.01
    assert as_confidence(0.99) == 0.99
    assert as_count(np.int64(7), "x") == 7
    assert as_count(3.0, "x", smallest=3) == 3


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, "2", None])
def test_positive_refuses(value: float) -> None:
    with pytest.raises(InputError, match="width must be a positive finite number"):
        as_positive(value, "width")


@pytest.mark.parametrize("value", [0, 1, -0.5, math.nan, "0.5", None])
def test_chance_refuses(value: float) -> None:
    with pytest.raises(InputError, match="delta must lie strictly between 0 and 1"):
        as_chance(value, "delta")


@pytest.mark.parametrize("value", [0.5, 1.0, math.nan, "0.9"])
def test_confidence_refuses(value: float) -> None:
    with pytest.raises(InputError, match="confidence must lie strictly between"):
        as_confidence(value)


@pytest.mark.parametrize("value", [0, -3, 2.5, math.nan, math.inf, "4", None])
def test_count_refuses(value: float) -> None:
    with pytest.raises(InputError, match="n_models must be a whole number of at least 1"):
        as_count(value, "n_models")
