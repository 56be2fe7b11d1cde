"""Training rows among rows without labels: sets of which a part was trained on, and sets of fresh rows.

Two thirds of each table are trained on, by 100 trees; a set has as many rows as the last third. A share: that share
of the set are training rows, the others fresh. A part: the set has that part of the training rows, and no other row.
Found: the result has a doubt, or the rows are refused. scikit-learn's forests are asked by agreement(model, X), which
has no training rows to compare with; LightGBM and XGBoost, whose bags are not drawn without the training rows, by
analyze(model, X, y, unlabelled=), which compares rows. Sets of wine and iris with a share of 10 % have 6 and 5
training rows, of which one or none is disputed among the trees, and 2 of 100 rows of iris are equal by nature. The
standard errors are binomial.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.problems import noisy_logistic, twonorm
from benchmarks.shared.results import Claim, conclude
from ens_plugin.errors import DataMismatchError, EnsPluginError

Array = NDArray[Any]
N_TREES = 100
SHARES = (0.1, 0.25, 0.5, 0.75)
PARTS = (0.1, 0.25, 0.5, 0.75)
# Of each table; where rows are compared, fresh sets are found only if a fresh row equals a training row.
FRESH_SETS = {"scikit-learn": 17, "LightGBM": 4, "XGBoost": 4}


def load(name: str, rng: np.random.Generator) -> tuple[Array, Array]:
    made: dict[str, Callable[[int, np.random.Generator], tuple[Array, Array]]] = {
        "noisy logistic": noisy_logistic,
        "twonorm": twonorm,
    }
    if name in made:
        return made[name](900, rng)
    X, y = TABLES[name](return_X_y=True)
    order = rng.permutation(y.size)
    return X[order], y[order]


TABLES: dict[str, Any] = {
    "breast cancer": load_breast_cancer,
    "digits": load_digits,
    "wine": load_wine,
    "iris": load_iris,
    "noisy logistic": None,
    "twonorm": None,
}


def grown(library: str, X: Array, y: Array, seed: int) -> Any:
    if library == "scikit-learn":
        return RandomForestClassifier(N_TREES, random_state=seed).fit(X, y)
    if library == "LightGBM":
        from lightgbm import LGBMClassifier

        rows: dict[str, Any] = {"subsample": 0.632, "subsample_freq": 1, "verbose": -1, "n_jobs": 1}
        return LGBMClassifier(boosting_type="rf", n_estimators=N_TREES, random_state=seed, **rows).fit(X, y)
    from xgboost import XGBRFClassifier

    return XGBRFClassifier(n_estimators=N_TREES, random_state=seed, n_jobs=1).fit(X, y)


LIBRARIES = ("scikit-learn", "LightGBM", "XGBoost")


def is_found(library: str, model: Any, X: Array, y: Array, others: Array) -> bool:
    """Return whether the result of rows without labels is doubted because of training rows, or refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            if library == "scikit-learn":
                findings = ens_plugin.agreement(model, others, max_size=1001).findings
            else:
                findings = ens_plugin.analyze(model, X, y, unlabelled=others, max_size=1001).findings
        except EnsPluginError as error:
            return isinstance(error, DataMismatchError) and "trained on" in str(error)
    return any("rows the model was trained on" in each.sentence for each in findings if each.kind == "doubt")


def found_sets(library: str, name: str, seed: int, is_only_fresh: bool) -> list[bool]:
    """Return which sets of a trained model are found: one of fresh rows, or one for each share and part."""
    rng = np.random.default_rng([seed, *name.encode()])
    X, y = load(name, rng)
    n_trained = 2 * y.size // 3
    model = grown(library, X[:n_trained], y[:n_trained], seed)
    check = partial(is_found, library, model, X[:n_trained], y[:n_trained])
    fresh = X[n_trained:]
    if is_only_fresh:
        return [check(fresh)]
    numbers = [round(share * len(fresh)) for share in SHARES]
    mixed = [np.concatenate([X[rng.permutation(n_trained)[:number]], fresh[number:]]) for number in numbers]
    parts = [X[rng.permutation(n_trained)[: round(part * n_trained)]] for part in PARTS]
    return [check(rng.permutation(others)) for others in (*mixed, *parts)]


def counts(options: Options, library: str, name: str) -> tuple[Array, int, int]:
    """Return how many sets of each kind are found, how many of fresh rows, and how many these are."""
    n_fresh = 2 if options.smoke else FRESH_SETS[library]
    run = Parallel(n_jobs=options.n_jobs)
    found = run(delayed(found_sets)(library, name, options.seed + index, False) for index in range(options.repetitions))
    fresh = run(delayed(found_sets)(library, name, options.seed + 1000 + index, True) for index in range(n_fresh))
    return np.sum(found, axis=0), int(np.sum(fresh)), n_fresh


def section(options: Options) -> tuple[list[Claim], str]:
    claims, lines = [], []
    for library in LIBRARIES[:1] if options.smoke else LIBRARIES:
        totals, n_false, n_fresh, n_tables = np.zeros(len(SHARES) + len(PARTS)), 0, 0, 0
        for name in list(TABLES)[3:4] if options.smoke else TABLES:
            found, false, of = counts(options, library, name)
            totals, n_false, n_fresh, n_tables = totals + found, n_false + false, n_fresh + of, n_tables + 1
            shown = [f"{count:.0f} of {options.repetitions}" for count in found]
            lines.append([library, name, *shown, f"{false} of {of}"])
        n_sets = options.repetitions * n_tables
        for what, own in (("share", totals[: len(SHARES)]), ("part", totals[len(SHARES) :])):
            n_all = n_sets * own.size
            found_share = float(own.sum()) / n_all
            spread = 100.0 * math.sqrt(found_share * (1.0 - found_share) / n_all)
            measure = f"{library}: sets with a {what} of training rows that are found (%)"
            tried = (
                "six training rows of which no tree's votes differ cannot be told from fresh ones by votes and leaves"
            )
            claims.append(Claim(measure, 100.0 * found_share, spread, low=90.0, digits=0, tried=tried))
        claims.append(Claim(f"{library}: {n_fresh} sets of fresh rows: found", n_false, None, high=0.0, digits=0))
    head = [
        "library",
        "table",
        *(f"share {100 * own:g} %" for own in SHARES),
        *(f"part {100 * own:g} %" for own in PARTS),
    ]
    return claims, table([*head, "fresh"], lines)


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options(__name__, __doc__, 5, arguments)
    claims, text = section(options)
    return conclude(__name__, options, claims, [text])
