"""Growing until labels are settled, on models that are mere numbers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from numpy.typing import NDArray

from ens_plugin.errors import WeakEstimateWarning
from ens_plugin.papers.model_averaging_2004 import grow_until_settled


def grown(needed: dict[int, float], max_size: int) -> list[tuple[int, str]]:
    """Models at hand at each warning, and its text; `needed` by size, the last one for all above."""
    models: list[int] = []
    warned: list[tuple[int, str]] = []

    def grow(start: int, stop: int) -> list[int]:
        models.extend(range(start, stop))
        return list(range(start, stop))

    def by_row(_: list[int]) -> NDArray[np.float64]:
        return np.full(10, needed[min(len(models), max(needed))])

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, category, *_: warned.append(
            (len(models), f"{category.__name__}: {message}")
        )
        grow_until_settled(grow, by_row, 0.95, max_size)
    return warned


@pytest.mark.parametrize(
    ("needed", "takes"),
    [(4000.0, "about 4000 models would settle"), (np.inf, "no number of models settles")],
)
def test_what_is_out_of_sight_is_warned_of_after_two_checks(needed: float, takes: str) -> None:
    early, late = grown({25: needed, 50: needed}, 1000)
    assert early[0] == 50
    assert early[1].startswith(WeakEstimateWarning.__name__)
    assert f"from 50 models, {takes} the labels of 95 %" in early[1]
    assert "max_n_estimators=1000" in early[1]
    assert late[0] == 1000
    assert "1000 models settle the labels of 0.0 %" in late[1]


def test_a_single_check_is_not_enough() -> None:
    assert grown({25: 5000.0, 50: 900.0}, 1000) == []


def test_there_is_no_warning_where_nearly_enough_are_allowed() -> None:
    (only,) = grown({25: 2900.0, 50: 2900.0}, 1000)
    assert only[0] == 1000


def test_there_is_no_warning_once_most_models_are_there() -> None:
    (only,) = grown({25: 9000.0, 50: 9000.0}, 199)
    assert only[0] == 199
    assert [size for size, _ in grown({25: 9000.0, 50: 9000.0}, 200)] == [50, 200]
