"""Ensembles of other libraries: the estimated error against the error on fresh rows.

400 training rows and 81 members each, an independent training set in every repetition. The estimate is the out-of-bag
error at the ensemble's own size (of the last three, whose bags leave out no row of the rarest label or are not kept,
the error on 400 held-out rows), the truth the error of the model's own `predict` on 4000 fresh rows. Labels: about
one in five is of the rarer one, and a tenth of all labels are wrong. Survival: 0-1 error of an event up to time 0.7,
estimated from censored rows, on fresh rows that are not censored. The differences are in standard errors of their
mean over the repetitions.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

import ens_plugin
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.results import Claim, conclude, mean_and_se

Array = NDArray[Any]

# An odd number: tied votes count as half an error in the estimate, and as the first label in a prediction.
N_ROWS, N_FRESH, N_MEMBERS, N_FEATURES = 400, 4000, 81, 5
TIME = 0.7
MOST_ERRORS = 3.0


@dataclass(frozen=True, eq=False)
class Reach:
    """One kind of ensemble.

    Attributes
    ----------
    name, library : str
    rows : callable
        ``rows(rng, n_rows)`` returns X, the target as it is trained on, and the target that fresh rows are judged by.
    fit : callable
        ``fit(X, y, seed)`` returns the model as :func:`ens_plugin.analyze` takes it.
    wrong : callable
        ``wrong(model, X, y)`` returns the loss of the model's own prediction of each row.
    data : {"oob", "holdout"}
    """

    name: str
    library: str
    rows: Callable[[np.random.Generator, int], tuple[Any, Any, Any]]
    fit: Callable[[Any, Any, int], Any]
    wrong: Callable[[Any, Any, Any], Array]
    data: Literal["oob", "holdout"] = "oob"


def rare_labels(rng: np.random.Generator, n_rows: int) -> tuple[Array, Array, Array]:
    X = rng.normal(size=(n_rows, N_FEATURES))
    labels = (X[:, 0] + X[:, 1] ** 2 + rng.normal(0, 0.5, n_rows) > 2.6) ^ (rng.random(n_rows) < 0.1)
    return X, labels.astype(int), labels.astype(int)


def values(rng: np.random.Generator, n_rows: int) -> tuple[Array, Array, Array]:
    X = rng.normal(size=(n_rows, N_FEATURES))
    y = X[:, 0] + np.abs(X[:, 1]) + rng.normal(size=n_rows)
    return X, y, y


def censored(rng: np.random.Generator, n_rows: int) -> tuple[Array, Array, Array]:
    X = rng.normal(size=(n_rows, N_FEATURES))
    times, limit = rng.exponential(np.exp(X[:, 0])), rng.exponential(1.5, n_rows)
    y = np.empty(n_rows, dtype=[("event", bool), ("time", float)])
    y["event"], y["time"] = times <= limit, np.minimum(times, limit)
    return X, y, times <= TIME


def outliers(rng: np.random.Generator, n_rows: int) -> tuple[Array, Array, Array]:
    is_outlier = rng.random(n_rows) < 0.1
    X = rng.normal(size=(n_rows, N_FEATURES)) * np.where(is_outlier, 2.5, 1.0)[:, None]
    y = np.where(is_outlier, -1, 1)
    return X, y, y


def other_label(model: Any, X: Any, y: Array) -> Array:
    return np.asarray(model.predict(X) != y)


def squared(model: Any, X: Any, y: Array) -> Array:
    return np.asarray((np.asarray(model.predict(X)).reshape(len(y)) - y) ** 2)


def squared_of_mean(model: Any, X: Any, y: Array) -> Array:
    return np.asarray((model.predict(X, quantiles="mean") - y) ** 2)


def balanced_forest(X: Any, y: Any, seed: int) -> Any:
    from imblearn.ensemble import BalancedRandomForestClassifier

    return BalancedRandomForestClassifier(n_estimators=N_MEMBERS, random_state=seed).fit(X, y)


def balanced_bootstraps(X: Any, y: Any, seed: int) -> Any:
    from imblearn.ensemble import BalancedRandomForestClassifier

    return BalancedRandomForestClassifier(
        n_estimators=N_MEMBERS, random_state=seed, bootstrap=True, replacement=True
    ).fit(X, y)


def balanced_bagging(X: Any, y: Any, seed: int) -> Any:
    from imblearn.ensemble import BalancedBaggingClassifier

    return BalancedBaggingClassifier(n_estimators=N_MEMBERS, random_state=seed).fit(X, y)


def easy_ensemble(X: Any, y: Any, seed: int) -> Any:
    from imblearn.ensemble import EasyEnsembleClassifier
    from sklearn.tree import DecisionTreeClassifier

    base = DecisionTreeClassifier(max_depth=4)
    return EasyEnsembleClassifier(n_estimators=N_MEMBERS, estimator=base, random_state=seed).fit(X, y)


def quantile_forest(X: Any, y: Any, seed: int) -> Any:
    from quantile_forest import RandomForestQuantileRegressor

    return RandomForestQuantileRegressor(n_estimators=N_MEMBERS, min_samples_leaf=3, random_state=seed).fit(X, y)


def honest_forest(X: Any, y: Any, seed: int) -> Any:
    from econml.grf import RegressionForest

    return RegressionForest(n_estimators=N_MEMBERS - 1, random_state=seed).fit(X, y)


def survival_forest(X: Any, y: Any, seed: int) -> Any:
    from sksurv.ensemble import RandomSurvivalForest

    from ens_plugin.adapters.sksurv import survival_at

    return survival_at(RandomSurvivalForest(n_estimators=N_MEMBERS, random_state=seed).fit(X, y), TIME)


def isolation_forest(X: Any, y: Any, seed: int) -> Any:
    from sklearn.ensemble import IsolationForest

    return IsolationForest(n_estimators=N_MEMBERS, max_samples=200, contamination=0.1, random_state=seed).fit(X)


def ydf_forest(X: Any, y: Any, seed: int) -> Any:
    import ydf

    ydf.verbose(0)
    columns = {f"x{column}": X[:, column] for column in range(X.shape[1])}
    return ydf.RandomForestLearner(label="y", num_trees=N_MEMBERS, random_seed=seed).train({**columns, "y": y})


def other_label_of_ydf(model: Any, X: Any, y: Array) -> Array:
    columns = {f"x{column}": X[:, column] for column in range(X.shape[1])}
    return np.asarray(model.predict_class(columns).astype(int) != y)


CASES = (
    Reach("balanced forest", "imblearn", rare_labels, balanced_forest, other_label),
    Reach("balanced forest, bootstrap", "imblearn", rare_labels, balanced_bootstraps, other_label),
    Reach("balanced bagging", "imblearn", rare_labels, balanced_bagging, other_label),
    Reach("quantile forest (mean)", "quantile_forest", values, quantile_forest, squared_of_mean),
    Reach("honest regression forest", "econml", values, honest_forest, squared),
    Reach("survival forest at a time", "sksurv", censored, survival_forest, other_label),
    Reach("isolation forest", "sklearn", outliers, isolation_forest, other_label),
    Reach("easy ensemble, held out", "imblearn", rare_labels, easy_ensemble, other_label, "holdout"),
    Reach("YDF's forest, held out", "ydf", rare_labels, ydf_forest, other_label_of_ydf, "holdout"),
)


def compare(case: Reach, seed: int) -> tuple[float, float]:
    """Return the estimated error of one ensemble, and its error on fresh rows."""
    rng = np.random.default_rng(seed)
    X, y, _ = case.rows(rng, N_ROWS)
    model = case.fit(X, y, seed)
    if case.data == "holdout":
        X, y, _ = case.rows(rng, N_ROWS)
    fresh, _, truth = case.rows(rng, N_FRESH)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimate = ens_plugin.analyze(model, X, y, data=case.data).error
    return estimate, float(case.wrong(model, fresh, truth).mean())


def run(options: Options) -> dict[str, Array]:
    """Return estimates and errors on fresh rows, shape (n_repetitions, 2), of every case whose library is here."""
    found = {}
    for case in CASES:
        if find_spec(case.library) is None:
            print(f"left out, {case.library} is not installed: {case.name}", file=sys.stderr)
            continue
        seeds = range(options.seed, options.seed + options.repetitions)
        found[case.name] = np.array([compare(case, seed) for seed in tqdm(seeds, case.name, file=sys.stderr)])
    return found


def differences(found: Array) -> tuple[float, float]:
    """Return the mean difference of estimates and errors on fresh rows, and its standard error."""
    return mean_and_se(found[:, 0] - found[:, 1])


def claims(results: dict[str, Array]) -> list[Claim]:
    made = []
    for name, found in results.items():
        mean, spread = differences(found)
        made.append(Claim(f"{name}: difference / standard error", mean / spread, low=-MOST_ERRORS, high=MOST_ERRORS))
    return made


def results_table(results: dict[str, Array]) -> str:
    rows = []
    for name, found in results.items():
        mean, spread = differences(found)
        estimate, truth = found.mean(axis=0)
        rows.append([name, f"{estimate:.4f}", f"{truth:.4f}", f"{mean:+.4f} ± {spread:.4f}"])
    return table(["ensemble", "estimated error", "on fresh rows", "difference"], rows)


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options("benchmarks.accuracy.reach", __doc__, 20, arguments, smoke=2)
    results = run(options)
    return conclude("benchmarks.accuracy.reach", options, claims(results), [results_table(results)])


if __name__ == "__main__":
    print(main())
