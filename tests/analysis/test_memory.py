from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier

from ens_plugin import analyze

# A row of 20 columns takes 80 bytes itself.
MOST_BYTES_PER_ROW = 60


def peak_bytes(n_rows: int) -> int:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, 20), dtype=np.float32)
    y = (X[:, 0] + rng.standard_normal(n_rows) > 0).astype(int)
    forest = ExtraTreesClassifier(10, max_depth=3, max_features=1, bootstrap=True, random_state=0).fit(X, y)
    tracemalloc.start()
    try:
        analyze(forest, X, y, n_jobs=1)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_the_peak_of_the_memory_grows_by_less_than_a_copy_of_a_row() -> None:
    # Below so many rows, blocks and samples of a fixed size hide what grows.
    peak_bytes(1000)
    grown = peak_bytes(800_000) - peak_bytes(200_000)
    assert grown < MOST_BYTES_PER_ROW * 600_000
