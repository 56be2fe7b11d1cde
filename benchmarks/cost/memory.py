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

TRIED = (
    "blocks and samples budgeted in bytes, posteriors of the sampled rows only, no copies of whole tallies (359 MB "
    "before), the sample sorted once in place, blocks copied into one tally and one sample (247 MB before), rows "
    "grouped by their counts in parts, equal weights that take no memory, at most 32 MB of outputs of two labels in "
    "the sample (174 MB before), counts of members and label codes in the smallest unsigned integers (132 MB before). "
    "What is left: the sample (34 MB), bags (25 MB), two float64 columns of the tally (16 MB), its counts (2 MB), "
    "label codes (1 MB), and for a moment one block of outputs (about 27 MB)."
)
TRIED_OF_MANY = (
    "rows that near copies are searched among read in blocks, copies found by one sort of the hashes, labels coded "
    "without the inverse of np.unique (4336 MB before), counts of members and label codes in the smallest unsigned "
    "integers, no numbers of distinct rows where all rows differ, tallies read in parts (815 MB before). What is left, "
    "in bytes for each row: sums of support and of their squares in float64 (16), bags (12.5), counts (2), label codes "
    "(1); and, whatever the rows, 62 MB: the sample and one block of outputs. Sums in float32 would be 8 bytes less "
    "and change reports, by up to 5e-7 of a value."
)


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
    options = read_options("benchmarks.cost.memory", __doc__, 1, arguments)
    n_rows, trees = (4_000, (10, 20)) if options.smoke else (N_ROWS, TREES)
    few, many = (measure_apart(n_rows, N_FEATURES, n_trees, "float32", options.seed) for n_trees in trees)
    doubles = measure_apart(n_rows, N_FEATURES, trees[-1], "float64", options.seed)
    most_rows = n_rows if options.smoke else MANY_ROWS
    longest = measure_apart(most_rows, MANY_FEATURES, trees[0], "float32", options.seed)
    bags = n_rows * (trees[1] - trees[0]) / 8 / MEGABYTE
    what = f"{n_rows} rows, {trees[1]} trees"
    claims = [
        Claim(f"{what}: peak above model and data (MB)", many[0], high=150, digits=0, tried=TRIED),
        Claim(
            f"{n_rows} rows: growth from {trees[0]} to {trees[1]} trees (MB; packed bags: {bags:g})",
            many[0] - few[0],
            high=bags,
            digits=1,
            tried=TRIED,
        ),
        Claim(f"{what}: X in float64, converted by the analysis (MB)", doubles[0], digits=0),
        Claim(f"{what}: rise of the resident memory after fitting (MB)", many[1], digits=0),
        Claim(
            f"{most_rows} rows, {MANY_FEATURES} features, {trees[0]} trees: peak above model and data (MB)",
            longest[0],
            high=MOST_OF_MANY,
            digits=0,
            tried=TRIED_OF_MANY,
        ),
    ]
    return conclude(
        "benchmarks.cost.memory",
        options,
        claims,
    )


if __name__ == "__main__":
    print(main())
