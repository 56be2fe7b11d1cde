"""Time of an analysis of LightGBM's and XGBoost's forests against their own predictions, and its peak memory.

20 features in float32. Ratios inside one run: alternating, medians. Drawing the bags is without proof; `analyze`
proves them. Memory: all allocations of Python and NumPy. LightGBM 4.7.0, XGBoost 3.2.0.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import lightgbm
import numpy as np
import xgboost
from numpy.typing import NDArray

import ens_plugin
from benchmarks.cost.speed import alternate, ratio
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.results import Claim, conclude
from ens_plugin.adapters.lightgbm.bags import draw_rounds
from ens_plugin.adapters.xgboost.bags import RowSampler, generator_outputs

Array = NDArray[Any]

N_FEATURES = 20
TIMED_ROWS, TIMED_TREES = 100_000, 500
MEASURED_ROWS, MEASURED_TREES = 1_000_000, 200
LABELS = (2, 5)
SHARE = 0.6
MEGABYTE = 1e6
LIMITS = {"lightgbm": 1.5, "xgboost": 3.5}
NAMES = {"lightgbm": "LightGBM", "xgboost": "XGBoost"}
ANALYSIS, PREDICTION, LEAVES, MASKS = "analyze", "predict", "pred_leaf", "masks"
# Label codes of the numbers drawn below; half of all draws of 15 bits would be 16384.
BAG_LIMIT = int(SHARE * 32768)


def sample(n_rows: int, n_labels: int, seed: int) -> tuple[Array, Array]:
    """Normal features in float32, and a label by the noisy sum of three of them."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((n_rows, N_FEATURES), dtype=np.float32)
    score = features[:, :3].sum(axis=1) + rng.standard_normal(n_rows)
    return features, np.searchsorted(np.quantile(score, np.arange(1, n_labels) / n_labels), score)


def grown(library: str, features: Array, y: Array, n_trees: int) -> Any:
    """Train a forest of one library, `n_trees` members."""
    n_labels = int(y.max()) + 1
    if library == "lightgbm":
        return lightgbm.LGBMClassifier(
            boosting_type="rf", n_estimators=n_trees, subsample=SHARE, subsample_freq=1, colsample_bytree=0.5,
            random_state=0, verbose=-1,
        ).fit(features, y)  # fmt: skip
    objective: dict[str, Any] = {"objective": "binary:logistic"}
    if n_labels > 2:
        objective = {"objective": "multi:softprob", "num_class": n_labels}
    options = {"num_parallel_tree": n_trees, "subsample": SHARE, "colsample_bynode": 0.5, "learning_rate": 1, "seed": 7}
    return xgboost.train({**options, **objective}, xgboost.DMatrix(features, y), num_boost_round=1)


def works(library: str, model: Any, features: Array, y: Array, n_trees: int) -> dict[str, Callable[[], object]]:
    """Return what is timed in turns, each on one thread."""
    analysis = {ANALYSIS: lambda: ens_plugin.analyze(model, features, y, n_jobs=1)}
    if library == "lightgbm":
        booster = model.booster_
        return {
            **analysis,
            PREDICTION: lambda: booster.predict(features, num_threads=1),
            LEAVES: lambda: booster.predict(features, pred_leaf=True, num_threads=1),
            MASKS: lambda: draw_rounds(3, BAG_LIMIT, n_trees, y.size),
        }
    model.set_param({"nthread": 1})
    sampler, words = RowSampler(y.size, SHARE), generator_outputs(7, 0, n_trees)

    def masks() -> None:
        for word in words:
            sampler.from_words(word[None])

    return {
        **analysis,
        PREDICTION: lambda: model.predict(xgboost.DMatrix(features, nthread=1)),
        LEAVES: lambda: model.predict(xgboost.DMatrix(features, nthread=1), pred_leaf=True),
        MASKS: masks,
    }


def speed_claims(library: str, n_labels: int, options: Options) -> list[Claim]:
    """Compare an analysis with the library's own prediction, and drawing the bags with a walk to the leaves."""
    n_rows, n_trees = (300, 10) if options.smoke else (TIMED_ROWS, TIMED_TREES)
    features, y = sample(n_rows, n_labels, options.seed)
    model = grown(library, features, y, n_trees)
    times = alternate(works(library, model, features, y, n_trees), options.repetitions)
    what = f"{NAMES[library]}, {n_rows} rows, {n_trees} trees{f', {n_labels} labels' if n_labels > 2 else ''}"
    fresh = " on a fresh DMatrix" if library == "xgboost" else ""
    claims = [
        ratio(
            f"{what}: analyze / its own predict{fresh}, one thread", times[ANALYSIS], times[PREDICTION], LIMITS[library]
        )
    ]
    if n_labels == 2:
        claims.append(ratio(f"{what}: drawing all bags / one pass of pred_leaf", times[MASKS], times[LEAVES], 0.1))
    return [Claim(**{**vars(claim), "tried": TRIED_SPEED}) for claim in claims]


def measure(library: str, n_rows: int, n_trees: int, seed: int) -> float:
    """Train, analyse; return the peak of what Python and NumPy allocated meanwhile (MB)."""
    features, y = sample(n_rows, 2, seed)
    ens_plugin.analyze(grown(library, features[:1000], y[:1000], 40), features[:1000], y[:1000], n_jobs=1)
    model = grown(library, features, y, n_trees)
    gc.collect()
    tracemalloc.start()
    ens_plugin.analyze(model, features, y, n_jobs=1)
    return tracemalloc.get_traced_memory()[1] / MEGABYTE


def memory_claim(library: str, options: Options) -> Claim:
    """Measure the peak of one analysis in a process of its own."""
    n_rows, n_trees = (500, 10) if options.smoke else (MEASURED_ROWS, MEASURED_TREES)
    arguments = f"{library!r}, {n_rows}, {n_trees}, {options.seed}"
    call = f"from benchmarks.cost.boosters import measure; print(measure({arguments}))"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", call], check=True, capture_output=True, text=True)
    what = f"{NAMES[library]}, {n_rows} rows, {n_trees} trees: peak above model and data (MB)"
    return Claim(what, float(done.stdout), high=200, digits=0, tried=TRIED_MEMORY)


TRIED_SPEED = (
    "leaves read once for the proof and the outputs, several trees to a walk; labels tallied one by one by products, "
    "then several members at a time; trees of a row moved together by masks of transposed arrays, which took longer. "
    "Several labels cost as many tallies, each of all members, and a prediction by the library does not grow so."
)
TRIED_MEMORY = "posteriors of the sampled rows only, blocks budgeted in bytes, margins grouped by cells."


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options("benchmarks.cost.boosters", __doc__, 5, arguments)
    claims = [claim for library in NAMES for n_labels in LABELS for claim in speed_claims(library, n_labels, options)]
    claims += [memory_claim(library, options) for library in NAMES]
    return conclude(
        "benchmarks.cost.boosters",
        options,
        claims,
    )


if __name__ == "__main__":
    print(main())
