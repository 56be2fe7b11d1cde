"""The parts of the 2007 benchmark on real problems, on figures with known answers."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.papers.error_curves_2007 import ROWS
from benchmarks.papers.real_problems_2007 import is_different, paper_table


def test_one_in_a_hundred_equal_means_is_found_different() -> None:
    rng = np.random.default_rng(0)
    common = rng.normal(size=(4000, 30))
    pairs = common[:, None] + rng.normal(size=(4000, 2, 30))
    assert np.mean([is_different(*pair) for pair in pairs]) == pytest.approx(0.01, abs=0.005)
    assert is_different(common[0] + 1.0 + 0.1 * pairs[0, 0], common[0])


def test_what_does_not_differ_from_the_test_error_is_bold() -> None:
    rng = np.random.default_rng(0)
    test = rng.normal(20.0, 3.0, 50)
    found = {row: test + rng.normal(0.0, 1.0, 50) + (2.0 if row == ("VAL", 18) else 0.0) for row in ROWS}
    found["test", 1000] = test
    first, second = (
        line
        for line in paper_table("pima", found, found).splitlines()
        if "VAL, M = 18 " in line or "OB, M = 50 " in line
    )
    assert "**" not in first
    assert second.count("**") == 4
