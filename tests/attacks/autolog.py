"""Fits with and without autologging: whatever differs but the run of the report is a fault.

Run ``python -m tests.attacks.autolog --trials 800 --seed 0`` for the counts.
"""

from __future__ import annotations

import argparse
import logging
import math
import os
import pickle
import random
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import joblib
import matplotlib
import mlflow
import numpy as np
from scipy import sparse
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    VotingClassifier,
)
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ens_plugin import autolog
from ens_plugin.tracking.uploads import wait_until_sent
from tests.extras import lightgbm, xgboost

__all__ = ["Tally", "attack"]

DRAWN_EVERY = 25  # trials; a report with page and figures takes most of its time for them


@dataclass
class Tally:
    """Counts of trials and of faults, and the time that autologging took."""

    fits: Counter[str] = field(default_factory=Counter)
    runs: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    messages: Counter[str] = field(default_factory=Counter)
    overheads: list[float] = field(default_factory=list)
    slowest: tuple[float, str] = (0.0, "")

    def __str__(self) -> str:
        seconds = np.sort(self.overheads)
        late = sum(overhead > 2.0 for overhead in self.overheads)
        return "\n".join(
            [
                f"{self.fits.total()} fits: {dict(self.fits)}",
                f"runs: {dict(self.runs)}",
                f"messages of the logger: {dict(self.messages)}",
                f"overhead in seconds: median {np.median(seconds):.2f}, 95 % {np.quantile(seconds, 0.95):.2f}, "
                f"largest {seconds[-1]:.2f} ({self.slowest[1]}); {late} above 2",
                f"faults: {dict(self.faults) or 'none'}",
            ]
        )


class Listener(logging.Handler):
    """Counts the messages of autologging to the user."""

    def __init__(self, messages: Counter[str]) -> None:
        super().__init__(logging.WARNING)
        self.messages = messages

    def emit(self, record: logging.LogRecord) -> None:
        self.messages[record.getMessage()[:110]] += 1


def forest(rng: np.random.Generator) -> tuple[str, Callable[[Any, Any], Any], bool]:
    """Draw a kind of fit: its name, the fit, and whether it needs labels."""
    size, seed = int(rng.integers(1, 30)), draw_seed(rng)
    options: dict[str, Any] = {"n_estimators": size, "random_state": seed, "n_jobs": 1}
    if rng.random() < 0.5:
        options["max_depth"] = int(rng.integers(1, 8))
    if rng.random() < 0.3:
        options["min_samples_leaf"] = int(rng.integers(1, 30))
    if rng.random() < 0.2:
        options["criterion"] = "absolute_error"
    labels = {key: value for key, value in options.items() if key != "criterion"}
    bagged = {"n_estimators": size, "random_state": seed}
    boosted = {"n_estimators": size, "random_state": int(rng.integers(9)), "n_jobs": 1, "subsample": 0.6}
    # A tree of neighbours would count how often it predicts.
    neighbours = KNeighborsClassifier(3, algorithm="brute")
    parts = {"subsample": 0.5, "num_parallel_tree": size, "nthread": 1}
    bags = {"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6, "verbose": -1, "num_threads": 1}
    rf = {"boosting_type": "rf", "subsample_freq": 1, "verbose": -1, **boosted}

    def pipeline(X: Any, y: Any) -> Any:
        return make_pipeline(StandardScaler(with_mean=False), RandomForestRegressor(**options)).fit(X, y)

    def search(X: Any, y: Any) -> Any:
        return GridSearchCV(RandomForestRegressor(**options), {"max_depth": [1, 2]}, cv=2).fit(X, y)

    kinds: dict[str, tuple[Callable[[Any, Any], Any], bool]] = {
        "RandomForestClassifier": (lambda X, y: RandomForestClassifier(**labels).fit(X, y), True),
        "RandomForestRegressor": (lambda X, y: RandomForestRegressor(**options).fit(X, y), False),
        "ExtraTreesClassifier": (lambda X, y: ExtraTreesClassifier(bootstrap=True, **labels).fit(X, y), True),
        "ExtraTreesRegressor": (lambda X, y: ExtraTreesRegressor(bootstrap=True, **options).fit(X, y), False),
        "no bootstrap": (lambda X, y: RandomForestClassifier(bootstrap=False, **labels).fit(X, y), True),
        "out-of-bag score": (lambda X, y: RandomForestRegressor(oob_score=True, **options).fit(X, y), False),
        "BaggingClassifier": (lambda X, y: BaggingClassifier(**bagged).fit(X, y), True),
        "bagged neighbours": (lambda X, y: BaggingClassifier(neighbours, **bagged).fit(X, y), True),
        "bagged lines": (lambda X, y: BaggingRegressor(Ridge(), **bagged).fit(X, y), False),
        "pipeline": (pipeline, False),
        "search": (search, False),
        "voting": (lambda X, y: VotingClassifier([("a", RandomForestClassifier(**labels))]).fit(X, y), True),
        "boosting": (lambda X, y: GradientBoostingRegressor(n_estimators=3, random_state=0).fit(X, y), False),
        "several outputs": (lambda X, y: RandomForestRegressor(**options).fit(X, np.column_stack([y, y])), False),
        "weights": (lambda X, y: RandomForestRegressor(**options).fit(X, y, np.linspace(0.1, 1, y.size)), False),
        "lists": (lambda X, y: RandomForestRegressor(**options).fit(dense(X).tolist(), y.tolist()), False),
        "text labels": (lambda X, y: RandomForestClassifier(**labels).fit(X, np.where(y > 0, "yes", "no")), True),
        "continued": (lambda X, y: continued(options, X, y), False),
        "XGBRFRegressor": (lambda X, y: xgboost.XGBRFRegressor(**boosted).fit(X, y), False),
        "XGBClassifier": (lambda X, y: xgboost.XGBClassifier(**boosted).fit(X, y), True),
        "xgboost.train": (lambda X, y: xgboost.train(parts, xgboost.DMatrix(X, y), 1), False),
        "LGBMClassifier": (lambda X, y: lightgbm.LGBMClassifier(**rf).fit(X, y), True),
        "lightgbm.train": (lambda X, y: lightgbm.train(bags, lightgbm.Dataset(X, y), size), False),
    }  # fmt: skip
    name = str(rng.choice(list(kinds)))
    return name, *kinds[name]


def continued(options: dict[str, Any], X: Any, y: Any) -> Any:
    """Fit a forest that grows twice."""
    model = RandomForestRegressor(**options, warm_start=True).fit(X, y)
    for _ in range(2):
        model.set_params(n_estimators=model.n_estimators + 3).fit(X, y)
    return model


def draw_seed(rng: np.random.Generator) -> int | None:
    """Draw a model's seed; None means NumPy's global generator."""
    return None if rng.random() < 0.4 else int(rng.integers(1000))


def dense(X: Any) -> Any:
    """Return X as an array."""
    return X.toarray() if sparse.issparse(X) else X


def draw_rows(rng: np.random.Generator, has_labels: bool) -> tuple[Any, Any]:
    """Draw training rows, among them degenerate ones."""
    n_rows = int(rng.choice([2, 5, 20, 60, 150]))
    X: Any = rng.normal(size=(n_rows, int(rng.integers(1, 6))))
    noise = rng.choice([0.0, 1.0])
    y = X[:, 0] + noise * rng.normal(size=n_rows)
    if rng.random() < 0.15:
        X = sparse.csr_matrix(np.where(np.abs(X) < 1, 0.0, X))
    shape = rng.random()
    if has_labels:
        return X, (np.zeros(n_rows) if shape < 0.1 else np.arange(n_rows) % 3 if shape < 0.3 else (y > 0) * 1)
    return X, (np.ones(n_rows) if shape < 0.1 else np.where(y < 1, 0.0, y) if shape < 0.3 else y)


def bits(model: Any) -> Any:
    """Return what a model is made of."""
    if hasattr(model, "save_raw"):
        return bytes(model.save_raw("json"))
    if hasattr(model, "model_to_string"):
        return model.model_to_string()
    if hasattr(model, "get_booster"):
        return bytes(model.get_booster().save_raw("json"))
    if hasattr(model, "booster_"):
        return model.booster_.model_to_string()
    # Times of fits are no part of a model.
    return joblib.hash(getattr(model, "best_estimator_", model))


def surroundings() -> dict[str, Any]:
    """Return everything of the process that a fit may read or change."""
    state: Any = np.random.get_state()  # noqa: NPY002
    return {
        "random": random.getstate(),
        "numpy.random": (*state[:1], *map(bytes, (state[1],)), *state[2:]),
        "environment": dict(os.environ),
        "warning filters": list(warnings.filters),
        "rcParams": dict(matplotlib.rcParams),
        "working directory": os.getcwd(),
        "level of logging": logging.getLogger().level,
    }


def run(fit: Callable[[], Any], seed: int) -> tuple[Any, dict[str, Any], list[str], float]:
    """Fit; return the model's bits or the error, the state after it, the warnings and the seconds."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start = time.perf_counter()
        try:
            found = bits(fit())
        except Exception as error:  # a fit that fails has to fail alike with and without autologging
            found = repr(error)
        seconds = time.perf_counter() - start
        state = surroundings()
    return found, state, sorted(str(warning.message) for warning in caught), seconds


def pickling_faults() -> Iterator[str]:
    """Find patched functions that pickle does not find again."""
    functions = {
        "xgboost.train": xgboost.train,
        "lightgbm.train": lightgbm.train,
        "RandomForestClassifier.fit": RandomForestClassifier.fit,
        "XGBRFRegressor.fit": xgboost.XGBRFRegressor.fit,
    }
    for name, function in functions.items():
        try:
            if pickle.loads(pickle.dumps(function)) is not function:
                yield f"{name} is another one after pickling"
        except pickle.PicklingError:
            yield f"{name} cannot be pickled"


def trial(rng: np.random.Generator, number: int, tally: Tally) -> None:
    """Fit the same model without and with autologging, and count what differs."""
    name, fit, has_labels = forest(rng)
    X, y = draw_rows(rng, has_labels)
    tally.fits[name] += 1
    autolog(disable=True)
    without = run(lambda: fit(X, y), number)
    before = surroundings()
    is_drawn = number % DRAWN_EVERY == 0
    autolog(log_artifacts=is_drawn or bool(rng.random() < 0.5), max_overhead=math.inf if is_drawn else 0.1)
    tally.faults.update(pickling_faults())
    having = run(lambda: fit(X, y), number)
    if not wait_until_sent(60):
        tally.faults["not sent within a minute"] += 1
    autolog(disable=True)
    after = surroundings()
    if having[0] != without[0]:
        tally.faults[f"{name}: other bits"] += 1
    tally.faults.update(f"{key} changed by a fit" for key, value in having[1].items() if value != without[1][key])
    own = ("environment", "warning filters", "rcParams", "working directory", "level of logging")
    tally.faults.update(f"{key} changed by a report" for key in own if after[key] != before[key])
    # Sending goes on after the fit, so the generators are compared once more.
    tally.faults.update(f"{key} moved later" for key in ("random", "numpy.random") if after[key] != having[1][key])
    tally.faults.update(f"warning: {text[:60]}" for text in set(having[2]) - set(without[2]))
    if not is_drawn:
        tally.overheads.append(having[3] - without[3])
        tally.slowest = max(tally.slowest, (having[3] - without[3], f"{name}, trial {number}"))


@contextmanager
def store() -> Iterator[tuple[mlflow.MlflowClient, str]]:
    """Track to a database of its own, whose tables are made once."""
    before = mlflow.get_tracking_uri()
    with tempfile.TemporaryDirectory() as directory:
        mlflow.set_tracking_uri(f"sqlite:///{directory}/mlflow.db")
        client = mlflow.MlflowClient()
        experiment = client.create_experiment("attacks", artifact_location=(Path(directory) / "artifacts").as_uri())
        mlflow.set_experiment(experiment_id=experiment)
        try:
            yield client, experiment
        finally:
            mlflow.set_tracking_uri(before)


def attack(trials: int, seed: int) -> Tally:
    """Try so many fits and return the counts."""
    rng, tally = np.random.default_rng(seed), Tally()
    logger, listener = logging.getLogger("ens_plugin.autolog"), Listener(tally.messages)
    logger.addHandler(listener)
    try:
        with store() as (client, experiment):
            # Ctrl-C ends the trials; what was found until then is counted.
            with suppress(KeyboardInterrupt):
                for number in range(trials):
                    trial(rng, number, tally)
            token = None
            while token != "":
                page = client.search_runs([experiment], page_token=token)
                tally.runs.update(found.info.status for found in page)
                token = page.token or ""
    finally:
        logger.removeHandler(listener)
        autolog(disable=True)
    tally.faults.update({f"runs {status}": count for status, count in tally.runs.items() if status != "FINISHED"})
    return tally


def main() -> None:
    """Attack and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=800)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    logging.getLogger("ens_plugin.autolog").propagate = False
    print(attack(arguments.trials, arguments.seed))


if __name__ == "__main__":
    main()
