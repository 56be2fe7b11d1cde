"""Out-of-bag errors where the number of rows of each label is fixed: too high by an amount that falls with the rows."""

from __future__ import annotations

import math
from importlib.util import find_spec
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.problems import ringnorm
from benchmarks.shared.results import Claim, conclude

Array = NDArray[Any]

ROWS = (60, 300)
N_TREES, N_FRESH = 51, 2000
NOTES = f"""\
Ringnorm, {N_TREES} trees. The out-of-bag error that the report gives for the ensemble's own size, less the error of
its predictions on {N_FRESH} fresh rows. Labels in equal numbers, or tossed like coins. A repetition is a training
set of {ROWS[1]} rows; there are three times as many of {ROWS[0]}."""


def tossed(n_rows: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Draw rows whose labels are tossed like coins."""
    X, y = ringnorm(4 * n_rows, rng)
    labels = rng.integers(0, 2, n_rows)
    order = np.empty(n_rows, dtype=np.intp)
    for label in (0, 1):
        wanted = labels == label
        order[wanted] = np.flatnonzero(y == label)[: np.count_nonzero(wanted)]
    return X[order], labels


def grown(library: str, X: Array, y: Array, seed: int) -> Any:
    if library == "scikit-learn":
        return RandomForestClassifier(N_TREES, random_state=seed).fit(X, y)
    import xgboost

    return xgboost.XGBRFClassifier(n_estimators=N_TREES, random_state=seed, n_jobs=1).fit(X, y)


def difference(library: str, n_rows: int, seed: int, *, equal: bool) -> float:
    """Return the reported error less that on fresh rows, in points."""
    rng = np.random.default_rng([seed, n_rows, equal])
    X, y = ringnorm(n_rows, rng) if equal else tossed(n_rows, rng)
    model = grown(library, X, y, seed)
    fresh, labels = ringnorm(N_FRESH, rng)
    error = ens_plugin.analyze(model, X, y, max_size=N_TREES).error
    return 100.0 * (error - float(np.mean(model.predict(fresh) != labels)))


def claims_of(options: Options, library: str) -> list[Claim]:
    claims = []
    for n_rows, times in zip(ROWS, (3, 1), strict=True):
        for equal in (True, False):
            seeds = range(options.seed, options.seed + times * options.repetitions)
            jobs = (delayed(difference)(library, n_rows, seed, equal=equal) for seed in seeds)
            found = np.array(Parallel(n_jobs=options.n_jobs)(jobs))
            spread = float(found.std(ddof=1)) / math.sqrt(found.size)
            labels = "in equal numbers" if equal else "tossed"
            claims.append(Claim(f"{library}, {n_rows} rows, labels {labels}: bias (points)", found.mean(), spread))
    return claims


def main(arguments: list[str] | None = None) -> str:
    """Run, write the section unless this is a smoke run, and return it."""
    options = read_options("benchmarks.hard_data.label_shares", __doc__, 60, arguments)
    libraries = ["scikit-learn", *(["xgboost"] if find_spec("xgboost") else [])]
    claims = [claim for library in libraries for claim in claims_of(options, library)]
    about = ["## Labels in fixed numbers", __doc__ or "", NOTES]
    return conclude("benchmarks.hard_data.label_shares", options, about, claims)


if __name__ == "__main__":
    print(main())
