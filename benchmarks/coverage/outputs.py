"""Several outputs: how often the interval of the mean error over outputs holds the error on fresh rows.

4 outputs whose noise is mostly common to all and long-tailed; the truth is the forest's error on 5000 fresh rows.
Every repetition draws training rows. The intervals are those of 95 %; of the single outputs, the smallest and the
largest share are shown. Standard errors are binomial.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import ens_plugin
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.results import Claim, conclude

Array = NDArray[Any]

N_OUTPUTS, N_FRESH = 4, 5000


class Cell(NamedTuple):
    """Rows, trees, and whether the outputs are labels."""

    n_rows: int
    n_trees: int
    has_labels: bool


CELLS = {
    "values, 200 rows, 60 trees": Cell(200, 60, has_labels=False),
    "labels, 200 rows, 60 trees": Cell(200, 60, has_labels=True),
    "values, 150 rows, 30 trees": Cell(150, 30, has_labels=False),
}


def draw(rng: np.random.Generator, n_rows: int) -> tuple[Array, Array]:
    """Draw rows and values whose noise is mostly common."""
    coefficients = np.random.default_rng(99).normal(size=(5, N_OUTPUTS))
    X = rng.normal(size=(n_rows, 5))
    common, own = rng.gamma(2.0, size=(n_rows, 1)) - 2.0, rng.normal(size=(n_rows, N_OUTPUTS))
    return X, X @ coefficients + np.abs(X[:, :1]) + common + 0.5 * own


def holds(cell: Cell, seed: int) -> list[bool]:
    """Return whether the interval of the mean holds, and those of the outputs."""
    rng = np.random.default_rng([seed, *cell])
    (X, values), (fresh, truth) = draw(rng, cell.n_rows), draw(rng, N_FRESH)
    if cell.has_labels:
        y = (values > 0).astype(np.int64)
        model: Any = RandomForestClassifier(cell.n_trees, min_samples_leaf=3, random_state=seed).fit(X, y)
        losses = np.asarray(model.predict(fresh) != (truth > 0), dtype=np.float64)
    else:
        y = values
        model = RandomForestRegressor(cell.n_trees, min_samples_leaf=3, random_state=seed).fit(X, y)
        losses = (model.predict(fresh) - truth) ** 2
    report = ens_plugin.analyze(model, X, y, max_size=cell.n_trees)
    intervals = [report.error_interval, *(part.error_interval for part in report.outputs.values())]
    errors = [losses.mean(), *losses.mean(axis=0)]
    return [bool(low <= error <= high) for (low, high), error in zip(intervals, errors, strict=True)]


def outcomes(options: Options, name: str) -> tuple[Claim, list[str]]:
    jobs = (delayed(holds)(CELLS[name], options.seed + index) for index in range(options.repetitions))
    held = np.array(Parallel(n_jobs=options.n_jobs)(jobs))
    shares = 100.0 * held.mean(axis=0)
    spread = math.sqrt(max(shares[0] * (100.0 - shares[0]), 1.0) / len(held))
    claim = Claim(f"{name}: interval of the mean holds (%)", float(shares[0]), spread, 90.0, digits=0)
    return claim, [name, f"{shares[0]:.0f}", f"{shares[1:].min():.0f} to {shares[1:].max():.0f}"]


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options("benchmarks.coverage.outputs", __doc__, 100, arguments)
    found = [outcomes(options, name) for name in CELLS]
    text = table(["held (%)", "mean", "single outputs"], [row for _, row in found])
    return conclude("benchmarks.coverage.outputs", options, [claim for claim, _ in found], [text])


if __name__ == "__main__":
    print(main())
