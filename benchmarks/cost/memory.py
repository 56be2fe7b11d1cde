"""Peak memory of an analysis above model and data, in a process of its own.

Extremely randomised trees of depth 6 on bootstrap samples, 10 features unless stated, in float32 (what the trees
read; other types are converted once, which adds that copy), one thread. Peak of all allocations of Python and NumPy
during the analysis. Resident memory rises less: it reuses what fitting left.
"""

from __future__ import annotations

import gc
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier

import ens_plugin
from benchmarks.shared.options import read_options
from benchmarks.shared.results import Claim, conclude

Array = NDArray[Any]

N_ROWS, N_FEATURES, MAX_DEPTH = 1_000_000, 10, 6
TREES = (100, 200)
MANY_ROWS, MANY_FEATURES, MOST_OF_MANY = 10_000_000, 20, 400
MEGABYTE = 1e6
STATUS, REFERENCES = Path("/proc/self/status"), Path("/proc/self/clear_refs")
RESET_PEAK = "5"


def resident_megabytes(field: str) -> float:
    """Read VmRSS or VmHWM of this process (MB of 10^6 bytes)."""
    found = re.search(rf"{field}:\s+(\d+) kB", STATUS.read_text())
    assert found is not None
    return int(found[1]) * 1024 / 1e6


def measure(n_rows: int, n_features: int, n_trees: int, dtype: str, seed: int) -> tuple[float, float]:
    """Fit, analyse twice; return the peak of what was allocated, then of what became resident (MB)."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((n_rows, n_features), dtype=np.float32).astype(dtype, copy=False)
    y = (features[:, 0] + features[:, 1] + rng.standard_normal(n_rows) > 0).astype(np.int64)
    _analyse(_fit(features[:1000], y[:1000], 10, seed), features[:1000], y[:1000])
    forest = _fit(features, y, n_trees, seed)
    gc.collect()
    before = resident_megabytes("VmRSS")
    REFERENCES.write_text(RESET_PEAK)
    _analyse(forest, features, y)
    resident = resident_megabytes("VmHWM") - before
    tracemalloc.start()
    _analyse(forest, features, y)
    return tracemalloc.get_traced_memory()[1] / MEGABYTE, resident


def _fit(features: Array, y: Array, n_trees: int, seed: int) -> ExtraTreesClassifier:
    """Grow shallow trees on random splits, which is quick; their analysis needs as much memory as that of others."""
    forest = ExtraTreesClassifier(
        n_trees, max_depth=MAX_DEPTH, max_features=1, bootstrap=True, random_state=seed, n_jobs=1
    )
    return forest.fit(features, y)


def _analyse(forest: ExtraTreesClassifier, features: Array, y: Array) -> None:
    ens_plugin.analyze(forest, features, y, n_jobs=1)


def measure_apart(n_rows: int, n_features: int, n_trees: int, dtype: str, seed: int) -> tuple[float, float]:
    """Call :func:`measure` in a new process, whose memory nothing else has touched."""
    arguments = (n_rows, n_features, n_trees, dtype, seed)
    call = f"from benchmarks.cost.memory import measure; print(*measure(*{arguments!r}))"
    done = subprocess.run([sys.executable, "-c", call], check=True, capture_output=True, text=True)
    allocated, resident = done.stdout.split()
    return float(allocated), float(resident)


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 1, arguments)
    n_rows, trees = (4_000, (10, 20)) if options.smoke else (N_ROWS, TREES)
    few, many = (measure_apart(n_rows, N_FEATURES, n_trees, "float32", options.seed) for n_trees in trees)
    doubles = measure_apart(n_rows, N_FEATURES, trees[-1], "float64", options.seed)
    most_rows = n_rows if options.smoke else MANY_ROWS
    longest = measure_apart(most_rows, MANY_FEATURES, trees[0], "float32", options.seed)
    bags = n_rows * (trees[1] - trees[0]) / 8 / MEGABYTE
    what = f"{n_rows} rows, {trees[1]} trees"
    claims = [
        Claim(f"{what}: peak above model and data (MB)", many[0], high=150, digits=0),
        Claim(
            f"{n_rows} rows: growth from {trees[0]} to {trees[1]} trees (MB; packed bags: {bags:g})",
            many[0] - few[0],
            high=bags,
            digits=1,
        ),
        Claim(f"{what}: X in float64, converted by the analysis (MB)", doubles[0], digits=0),
        Claim(f"{what}: rise of the resident memory after fitting (MB)", many[1], digits=0),
        Claim(
            f"{most_rows} rows, {MANY_FEATURES} features, {trees[0]} trees: peak above model and data (MB)",
            longest[0],
            high=MOST_OF_MANY,
            digits=0,
        ),
    ]
    return conclude(__name__, options, claims)
