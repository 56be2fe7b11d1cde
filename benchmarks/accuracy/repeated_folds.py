"""The error of models of repeated cross-validation, from two to four repeats, where the truth is known.

Unpruned trees of RepeatedKFold with 5 folds of 300 rows, and as many rows held out. The truth is the ensemble of 2000
models of 400 other repeats: on the rows of the estimate, by the models that left each out, and on 2000 fresh rows.
Differences and widths are in percent of the error on fresh rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.model_selection import RepeatedKFold
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import ens_plugin
from benchmarks.shared.markdown import table
from benchmarks.shared.options import Options, read_options
from benchmarks.shared.problems import FORMULAS, friedman1
from benchmarks.shared.results import Claim, conclude, mean_and_se, root_mean_square

Array = NDArray[Any]

PROBLEMS = ("twonorm", "ringnorm", "noisy logistic", "friedman1")
FOLDS, REPEATS = 5, (2, 3, 4)
TRAINING_ROWS, FRESH_ROWS, TRUE_REPEATS = 300, 2000, 400
OUT_OF_FOLD, HELD_OUT = "out of fold", "held out"


class Outcome(NamedTuple):
    """One report beside the truth; errors are shares of rows, or mean squared errors.

    Attributes
    ----------
    limit, low, high : float
        Estimated error of infinitely many models, and its interval.
    same_rows, fresh_rows : float
        The true error of infinitely many models on the rows of the estimate and on fresh ones.
    whole, apart : float
        The error on fresh rows of as many models: those of whole repeats, and models that were drawn at random.
    """

    limit: float
    low: float
    high: float
    same_rows: float
    fresh_rows: float
    whole: float
    apart: float


class FoldModels(NamedTuple):
    """The models of some repeats, and the rows that each was trained on."""

    models: list[Any]
    rows: list[Array]


def draw(problem: str, n_rows: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return rows and their target."""
    return friedman1(n_rows, rng) if problem == "friedman1" else FORMULAS[problem].sample(n_rows, rng)


def train(problem: str, X: Array, y: Array, repeats: int, seed: int) -> FoldModels:
    """Train a tree on all folds but one, for each fold of each repeat."""
    learner = DecisionTreeRegressor if problem == "friedman1" else DecisionTreeClassifier
    folds = RepeatedKFold(n_splits=FOLDS, n_repeats=repeats, random_state=seed)
    rows = [trained_on for trained_on, _ in folds.split(X)]
    return FoldModels([learner(random_state=seed).fit(X[own], y[own]) for own in rows], rows)


def losses(predictions: Array, y: Array) -> Array:
    """Return the loss of each row; of a tied vote on labels, which are integers, one half."""
    if y.dtype.kind == "i":
        return np.asarray(0.5 * (1.0 + np.sign(np.abs(predictions - y) - 0.5)))
    return np.asarray((predictions - y) ** 2)


def error_of_groups(predictions: Array, y: Array, size: int) -> float:
    """Return the mean error of ensembles of `size` models, each of models that follow each other."""
    n_groups = len(predictions) // size
    means = predictions[: n_groups * size].reshape(n_groups, size, -1).mean(axis=1)
    return float(losses(means, y).mean())


def outcomes(problem: str, seed: int, sizes: tuple[int, int, int]) -> dict[tuple[str, int], Outcome]:
    """Return what one training set leads to, by kind of rows and number of repeats."""
    n_rows, n_fresh, true_repeats = sizes
    rng = np.random.default_rng([seed, PROBLEMS.index(problem)])
    (X, y), (X_new, y_new) = draw(problem, n_rows, rng), draw(problem, n_fresh, rng)
    many = train(problem, X, y, true_repeats, seed + 10_000)
    fresh = np.array([model.predict(X_new) for model in many.models], dtype=float)
    limit = float(losses(fresh.mean(axis=0), y_new).mean())
    is_out = np.ones((len(many.rows), n_rows), dtype=bool)
    for out, rows in zip(is_out, many.rows, strict=True):
        out[rows] = False
    own = np.array([model.predict(X) for model in many.models], dtype=float)
    true = {
        OUT_OF_FOLD: float(losses(np.mean(own, axis=0, where=is_out), y).mean()),
        HELD_OUT: float(losses(fresh[:, :n_rows].mean(axis=0), y_new[:n_rows]).mean()),
    }
    shuffled = fresh[rng.permutation(len(fresh))]
    found = {}
    for repeats in REPEATS:
        size = FOLDS * repeats
        ensemble = ens_plugin.CustomEnsemble.from_estimators(*train(problem, X, y, repeats, seed))
        reports = {
            OUT_OF_FOLD: ens_plugin.analyze(ensemble, X, y, data="oob", n_jobs=1),
            HELD_OUT: ens_plugin.analyze(ensemble, X_new[:n_rows], y_new[:n_rows], data="holdout", n_jobs=1),
        }
        for kind, report in reports.items():
            curve = report.error_curve
            found[kind, repeats] = Outcome(
                curve.asymptote,
                *curve.asymptote_interval,
                true[kind],
                limit,
                error_of_groups(fresh, y_new, size),
                error_of_groups(shuffled, y_new, size),
            )
    return found


def holds(found: list[Outcome]) -> Array:
    """Return whether each interval holds the error on fresh rows."""
    return np.array([each.low <= each.fresh_rows <= each.high for each in found])


def relative(found: list[Outcome]) -> Array:
    """Return how far estimates are from the truth on the same rows, in percent of the error on fresh rows."""
    return np.array([100.0 * (each.limit - each.same_rows) / each.fresh_rows for each in found])


def claims(cells: dict[tuple[str, str, int], list[Outcome]]) -> list[Claim]:
    """List coverage by kind of rows and repeats, and what the dependence of folds changes."""
    found = []
    for kind in (OUT_OF_FOLD, HELD_OUT):
        for repeats in REPEATS:
            held = 100.0 * np.concatenate(
                [holds(each) for (_, *cell), each in cells.items() if cell == [kind, repeats]]
            )
            measure = f"{kind}, {repeats} repeats: 95 % interval holds the error at infinity (%)"
            found.append(Claim(measure, *mean_and_se(held), low=90.0, digits=1))
    for repeats in REPEATS:
        gaps = np.concatenate([
            [100.0 * (one.whole / one.apart - 1.0) for one in each]
            for (_, *cell), each in cells.items()
            if cell == [OUT_OF_FOLD, repeats]
        ])  # fmt: skip
        measure = f"{repeats} whole repeats: error on fresh rows above that of as many other models (%)"
        found.append(Claim(measure, *mean_and_se(gaps)))
    return found


def row_of(cell: tuple[str, str, int], found: list[Outcome]) -> list[str]:
    """Return one cell as text."""
    problem, kind, repeats = cell
    off = relative(found)
    (mean, se), width = mean_and_se(off), [100.0 * (each.high - each.low) / each.fresh_rows for each in found]
    return [
        problem, kind, str(repeats), f"{mean:+.1f} ± {se:.1f}", f"{root_mean_square(off):.1f}",
        f"{100 * holds(found).mean():.0f}", f"{np.median(width):.0f}",
    ]  # fmt: skip


def measure(options: Options) -> dict[tuple[str, str, int], list[Outcome]]:
    """Return the outcomes of all training sets by problem, kind of rows and number of repeats."""
    sizes = (60, 100, 20) if options.smoke else (TRAINING_ROWS, FRESH_ROWS, TRUE_REPEATS)
    plans = [(name, options.seed + index) for name in PROBLEMS for index in range(options.repetitions)]
    done = Parallel(n_jobs=options.n_jobs)(delayed(outcomes)(*plan, sizes) for plan in plans)
    cells: dict[tuple[str, str, int], list[Outcome]] = {}
    for (problem, _), found in zip(plans, done, strict=True):
        for (kind, repeats), outcome in found.items():
            cells.setdefault((problem, kind, repeats), []).append(outcome)
    return cells


def main(arguments: list[str] | None = None) -> str:
    """Measure, keep the figures unless this is a smoke run, and return them as text."""
    options = read_options("benchmarks.accuracy.repeated_folds", __doc__, 16, arguments)
    cells = measure(options)
    return conclude(
        "benchmarks.accuracy.repeated_folds",
        options,
        claims(cells),
        [
            table(
                ["problem", "rows", "repeats", "same rows: mean", "rms", "fresh: covered (%)", "width of interval"],
                [row_of(cell, found) for cell, found in cells.items()],
            )
        ],
    )


if __name__ == "__main__":
    print(main())
