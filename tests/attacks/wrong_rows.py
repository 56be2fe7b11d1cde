"""Wrong rows and targets for trained ensembles: how many are accepted with a wrong error and no warning.

Run by hand: ``python -m tests.attacks.wrong_rows --trials 5000 --seed 0``.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import xgboost
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import ens_plugin
from ens_plugin.analysis import UNCHECKED_ROWS, UNPROVED_TARGET
from ens_plugin.analysis.rows import LIKE_TRAINING_ROWS, UNKNOWN_ROWS
from ens_plugin.errors import EnsPluginError

__all__ = ["Trial", "count", "run"]

Array = NDArray[Any]
FRESH_ROWS = 2000
HALF_WIDTHS = 2.0
VALID_SHARE = 0.25
# Of warnings, only those that are about the rows or y count.
OF_ROWS = (UNPROVED_TARGET, UNKNOWN_ROWS, UNCHECKED_ROWS, LIKE_TRAINING_ROWS)


@dataclass(frozen=True)
class Data:
    """Training rows, and fresh ones from the same source to measure the true error with."""

    name: str
    X: Array
    y: Array
    fresh_X: Array
    fresh_y: Array
    is_labels: bool


@dataclass(frozen=True)
class Trial:
    """One attack: what was passed, and the outcome.

    Attributes
    ----------
    library, model, data, attack : str
    outcome : {"refused", "warned", "harmless", "past", "foreign", "valid"}
        Harmless: accepted without a warning, with an error at most 2 half-widths from the truth.
    found : str
        The error, or the figures.
    """

    library: str
    model: str
    data: str
    attack: str
    outcome: str
    found: str = ""


def made_data(rng: np.random.Generator, *, is_labels: bool) -> Data:
    """Rows of a known source, continuous or of few values, or of a well-known data set."""
    if rng.random() < 0.25:
        return _known_data(rng, is_labels=is_labels)
    n_rows, n_features = int(rng.integers(120, 300)), int(rng.integers(3, 9))
    X = rng.normal(size=(n_rows + FRESH_ROWS, n_features))
    kind = rng.choice(["continuous", "continuous", "rounded", "mixed"])
    if kind == "rounded":
        X = np.round(X, 1)
    if kind == "mixed":
        X[:, ::2] = np.round(X[:, ::2])
    score = X[:, 0] + 0.7 * X[:, 1] * X[:, 2] + rng.uniform(0.2, 1.5) * rng.normal(size=len(X))
    if is_labels:
        n_labels = 2 if rng.random() < 0.8 else 3
        y: Array = np.digitize(score, np.quantile(score, np.linspace(0, 1, n_labels + 1)[1:-1]))
    else:
        y = rng.choice([1.0, 5.0, 100.0]) * score + rng.choice([0.0, 3.0, 40.0])
    return Data(str(kind), X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:], is_labels)


def _known_data(rng: np.random.Generator, *, is_labels: bool) -> Data:
    names = ["load_iris", "load_wine", "load_breast_cancer", "load_digits"] if is_labels else ["load_diabetes"]
    name = str(rng.choice(names))
    X, y = getattr(datasets, name)(return_X_y=True)
    if name == "load_digits":
        X, y = X[y < 3], y[y < 3]
    rows = rng.permutation(len(y))
    n_rows = min(len(y) * 3 // 5, 300)
    train, fresh = rows[:n_rows], rows[n_rows:]
    if is_labels and np.unique(y[train]).size < np.unique(y).size:
        return _known_data(rng, is_labels=is_labels)
    return Data(name, X[train], y[train], X[fresh], y[fresh], is_labels)


def fitted(rng: np.random.Generator, data: Data) -> tuple[str, str, Any, Array | None]:
    """Return a library, what was trained, the model, and the weights it was trained with."""
    library = str(rng.choice(["sklearn", "lightgbm", "xgboost"], p=[0.4, 0.3, 0.3]))
    weight = rng.integers(1, 5, data.y.size).astype(float) if rng.random() < 0.25 else None
    make = {"sklearn": _sklearn, "lightgbm": _lightgbm, "xgboost": _xgboost}[library]
    name, model = make(rng, data, weight)
    return library, name + (" weights" if weight is not None else ""), model, weight


def _sklearn(rng: np.random.Generator, data: Data, weight: Array | None) -> tuple[str, Any]:
    labels, seed, n = data.is_labels, int(rng.integers(1000)), int(rng.integers(10, 21))
    shapes: list[dict[str, Any]] = [
        {},
        {"max_leaf_nodes": 8},
        {"max_depth": 3},
        {"min_samples_leaf": 5},
        {"max_depth": 1},
    ]
    shape = shapes[int(rng.integers(len(shapes)))]
    kind = str(rng.choice(["forest", "forest", "extra", "bagging", "pasting", "neighbours"]))
    options: dict[str, Any] = {"n_estimators": n, "random_state": seed}
    if kind in ("forest", "extra"):
        if labels and rng.random() < 0.3:
            shape = {**shape, "class_weight": str(rng.choice(["balanced", "balanced_subsample"]))}
        elif not labels and rng.random() < 0.3:
            shape = {**shape, "criterion": "absolute_error"}
        forests = {
            "forest": (RandomForestClassifier, RandomForestRegressor),
            "extra": (ExtraTreesClassifier, ExtraTreesRegressor),
        }
        model = forests[kind][0 if labels else 1](bootstrap=True, **options, **shape)
    elif kind == "neighbours":
        shape = {"oob_score": bool(rng.random() < 0.5)}
        base = KNeighborsClassifier(1) if labels else KNeighborsRegressor(1)
        model = (BaggingClassifier if labels else BaggingRegressor)(base, **options, **shape)
        weight = None
    else:
        tree = (DecisionTreeClassifier if labels else DecisionTreeRegressor)(**shape)
        drawn = {"bootstrap": False, "max_samples": 0.6} if kind == "pasting" else {}
        # Without replacement, weights may require more rows than there are.
        weight = None if kind == "pasting" else weight
        model = (BaggingClassifier if labels else BaggingRegressor)(tree, **options, **drawn)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(data.X, data.y, **({} if weight is None else {"sample_weight": weight}))
    return f"{kind} {'labels' if labels else 'values'} {shape}", model


def _lightgbm(rng: np.random.Generator, data: Data, weight: Array | None) -> tuple[str, Any]:
    shape: dict[str, Any] = {"num_leaves": int(rng.choice([2, 8, 31])), "min_child_samples": int(rng.choice([5, 20]))}
    more: list[dict[str, Any]] = [{}, {}, {"reg_lambda": 2.0}, {"extra_trees": True}, {"colsample_bytree": 0.6}]
    if data.is_labels:
        more += [{"class_weight": "balanced"}, {"boost_from_average": False}]
        if np.unique(data.y).size > 2:
            more.append({"objective": "multiclassova"})
        else:
            more += [{"is_unbalance": True}, {"scale_pos_weight": 3.0}]
    else:
        more += [{"reg_alpha": 1.0}, {"objective": "l1"}, {"objective": "quantile", "alpha": 0.7}, {"path_smooth": 1.0}]
    shape.update(more[int(rng.integers(len(more)))])
    options = {
        "boosting_type": "rf",
        "n_estimators": int(rng.integers(10, 21)),
        "subsample": float(rng.choice([0.5, 0.632])),
        "subsample_freq": 1,
        "random_state": int(rng.integers(1000)),
        "n_jobs": 1,
        "verbose": -1,
    }
    made = (lightgbm.LGBMClassifier if data.is_labels else lightgbm.LGBMRegressor)(**options, **shape)
    return f"rf {'labels' if data.is_labels else 'values'} {shape}", made.fit(data.X, data.y, sample_weight=weight)


def _xgboost(rng: np.random.Generator, data: Data, weight: Array | None) -> tuple[str, Any]:
    shape: dict[str, Any] = {
        "max_depth": int(rng.choice([1, 3, 6])),
        "tree_method": str(rng.choice(["hist", "hist", "exact"])),
    }
    more: list[dict[str, Any]] = [{}, {}, {"reg_lambda": 1e-5}, {"reg_alpha": 0.5}, {"learning_rate": 0.3}]
    if data.is_labels and np.unique(data.y).size == 2:
        more += [{"base_score": 0.5}, {"scale_pos_weight": 3.0}]
    elif not data.is_labels:
        more += [{"base_score": 0.0}, {"objective": "reg:absoluteerror"}]
    shape.update(more[int(rng.integers(len(more)))])
    options = {
        "n_estimators": 1,
        "num_parallel_tree": int(rng.integers(10, 21)),
        "subsample": float(rng.choice([0.5, 0.632, 0.8])),
        "random_state": int(rng.integers(1000)),
        "n_jobs": 1,
    }
    shape = {"learning_rate": 1, **shape}
    made = (xgboost.XGBClassifier if data.is_labels else xgboost.XGBRegressor)(**options, **shape)
    made.fit(data.X, data.y, sample_weight=weight)
    if rng.random() < 0.1:
        made, shape = _reloaded(made), {**shape, "reloaded": True}
    return f"xgb {'labels' if data.is_labels else 'values'} {shape}", made


def _reloaded(model: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save_model(path)
        return xgboost.Booster(model_file=path)


def attacks(
    rng: np.random.Generator, data: Data, model: Any, weight: Array | None
) -> Iterator[tuple[str, str, Any, Array]]:
    """Yield the name, the kind of data, X and y of each attack, and of three valid analyses."""
    X, y, n_rows = data.X, data.y, len(data.y)
    shuffled = rng.permutation(n_rows)
    own = _with_weights(model, X, y, weight)
    yield "valid oob", "oob", own, y
    half = len(data.fresh_y) // 2 if len(data.fresh_y) < n_rows else n_rows
    yield "valid holdout", "holdout", data.fresh_X[:half], data.fresh_y[:half]
    yield "X permuted", "oob", X[shuffled], y
    yield "rows permuted", "oob", X[shuffled], y[shuffled]
    if len(data.fresh_y) >= n_rows:
        yield "rows replaced", "oob", data.fresh_X[:n_rows], data.fresh_y[:n_rows]
    some = X.copy()
    some[rng.permutation(n_rows)[: n_rows // 3]] = X[rng.permutation(n_rows)[: n_rows // 3]]
    yield "a third of X changed", "oob", some, y
    yield "X scaled", "oob", X * 1.3 + 0.1, y
    yield "y permuted", "oob", own, y[shuffled]
    yield "rows held out", "holdout", X, y
    yield "rows held out, permuted", "holdout", X[shuffled], y[shuffled]
    yield "rows held out, reversed", "holdout", X[::-1], y[::-1]
    if weight is not None:
        yield "weights forgotten", "oob", X, y
        yield "weights forgotten, y permuted", "oob", X, y[shuffled]
        yield "weights forgotten, y inverted", "oob", X, (y.max() + y.min()) - y
    yield "y inverted", "oob", own, (y.max() + y.min()) - y
    if data.is_labels:
        yield "labels renamed", "oob", own, (y + 1) % (y.max() + 1)
        flipped = y.copy()
        chosen = rng.permutation(n_rows)[: n_rows // 4]
        flipped[chosen] = (y[chosen] + 1) % (y.max() + 1)
        yield "a quarter of y flipped", "oob", own, flipped
    else:
        yield "y scaled", "oob", own, y * 1.5
        yield "y shifted", "oob", own, y + np.ptp(y) / 4
        yield "y negated", "oob", own, -y
        yield "y squeezed", "oob", own, y.mean() + 0.5 * (y - y.mean())


def _with_weights(model: Any, X: Array, y: Array, weight: Array | None) -> Any:
    """XGBoost wants the training weights along with X."""
    return (
        X
        if weight is None or not isinstance(model, (xgboost.Booster, xgboost.XGBModel))
        else xgboost.DMatrix(X, y, weight=weight)
    )


@dataclass(frozen=True)
class Truth:
    """Error of an ensemble on fresh rows, with its standard error."""

    error: float
    sd: float


def true_error(model: Any, data: Data) -> Truth:
    """Error of the ensemble on fresh rows: few of a known data set, and of squares a few carry much of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if isinstance(model, xgboost.Booster):
            predicted = np.asarray(model.predict(xgboost.DMatrix(data.fresh_X)))
            if data.is_labels:
                predicted = predicted.argmax(axis=1) if predicted.ndim == 2 else (predicted > 0.5).astype(int)
        else:
            predicted = np.asarray(model.predict(data.fresh_X))
    losses = predicted != data.fresh_y if data.is_labels else (predicted - data.fresh_y) ** 2
    return Truth(float(losses.mean()), float(losses.std() / np.sqrt(losses.size)))


def outcome_of(model: Any, X: Any, y: Array, kind: str, truth: Truth) -> tuple[str, str]:
    """Analyse the arguments and return the kind of outcome with its details."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # Kinds are read from tables of cases, where they are any text.
            report = ens_plugin.analyze(model, X, y, data=kind)  # type: ignore[arg-type]
    except EnsPluginError as error:
        return "refused", f"{type(error).__name__}: {error}"
    except Exception as error:  # what is counted
        return "foreign", repr(error)
    curve = report.error_curve
    place = int(np.flatnonzero(curve.sizes == report.n_members)[0])
    error, half = float(curve.error[place]), float(curve.upper[place] - curve.lower[place]) / 2
    figures = f"error {error:.4g} +- {half:.3g}, truth {truth.error:.4g}, {report.bags}"
    if {each.code for each in report.findings} & {each.code for each in OF_ROWS}:
        return "warned", figures
    is_far = abs(error - truth.error) > HALF_WIDTHS * (half + truth.sd)
    return ("past" if is_far else "harmless"), figures


def run(n_trials: int, seed: int, report: Callable[[Trial], None] | None = None) -> list[Trial]:
    """Run at least `n_trials` attacks; valid analyses are run beside them and do not count.

    Parameters
    ----------
    n_trials : int
    seed : int
    report : callable, optional
        Called with each trial that gets past.
    """
    rng, trials, n_attacks = np.random.default_rng(seed), list[Trial](), 0
    while n_attacks < n_trials:
        data = made_data(rng, is_labels=bool(rng.random() < 0.6))
        library, name, model, weight = fitted(rng, data)
        truth = true_error(model, data)
        for attack, kind, X, y in attacks(rng, data, model, weight):
            # Valid analyses are accepted, which takes longest.
            if attack.startswith("valid") and rng.random() > VALID_SHARE:
                continue
            outcome, found = outcome_of(model, X, y, kind, truth)
            trials.append(Trial(library, name, data.name, attack, outcome, found))
            n_attacks += not attack.startswith("valid")
            if report is not None and outcome in ("past", "foreign"):
                report(trials[-1])
    return trials


def count(trials: list[Trial]) -> dict[tuple[str, str], Counter[str]]:
    """Outcomes by attack and library."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for trial in trials:
        found.setdefault((trial.attack, trial.library), Counter())[trial.outcome] += 1
    return found


def main() -> None:
    """Run the trials and print the counts by kind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    trials = run(options.trials, options.seed, lambda trial: print(trial, flush=True))
    for (attack, library), outcomes in sorted(count(trials).items()):
        print(f"{attack:34} {library:10} " + ", ".join(f"{key} {n}" for key, n in sorted(outcomes.items())))
    tried = [trial for trial in trials if not trial.attack.startswith("valid")]
    print(f"{len(tried)} attacks: {dict(Counter(trial.outcome for trial in tried))}")
    valid = [trial for trial in trials if trial.attack.startswith("valid")]
    print(f"{len(valid)} valid analyses: {dict(Counter(trial.outcome for trial in valid))}")
    for trial in valid:
        if trial.outcome == "refused":
            print(trial)


if __name__ == "__main__":
    main()
