"""The golden table: what reports on known data say, with the tolerance of each figure and the truth where it is known.

``tests/golden.csv`` has a line for each figure.  ``python -m tests.golden`` writes it anew and prints what moved by
more than its tolerance, and whether towards the truth.  A figure may move by a tenth of what its interval leaves open:
so much is for another estimate of the same, and more is another answer.
"""

from __future__ import annotations

import csv
import math
import warnings
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn import datasets
from sklearn.base import clone
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)

import ens_plugin
from ens_plugin.errors import EnsPluginError
from tests.extras import lightgbm, xgboost

Array = NDArray[Any]
Rows = tuple[Array, Array]

TABLE = Path(__file__).with_name("golden.csv")
PART = 0.1  # of what an interval leaves open
FRESH_ROWS, TRUE_TREES, GROUPS_OF_TREES = 10_000, 1500, 15
FORESTS = (RandomForestClassifier, RandomForestRegressor, ExtraTreesClassifier, ExtraTreesRegressor)
COLUMNS = ("case", "figure", "value", "tolerance", "truth")


class Figure(NamedTuple):
    """One figure of a report; `value` is a text for codes, and `tolerance` NaN where it has to be the same."""

    value: float | str
    tolerance: float = math.nan


class Problem(NamedTuple):
    """A data set: its rows, and fresh ones of the same kind where it is drawn."""

    rows: Callable[[], Rows]
    fresh: Callable[[], Rows] | None = None


class Case(NamedTuple):
    """A model on a data set, and the options of its analysis."""

    problem: str
    model: Any
    options: dict[str, Any]

    @property
    def name(self) -> str:
        shown = ", ".join(
            f"{name}={value}" for name, value in self.options.items() if not isinstance(value, np.ndarray)
        )
        arrays = ", ".join(name for name, value in self.options.items() if isinstance(value, np.ndarray))
        parts = [self.problem, type(self.model).__name__, str(self.model.get_params()["n_estimators"]), shown, arrays]
        return " ".join(filter(None, parts))


def _drawn(draw: Callable[[np.random.Generator, int], Rows], n_rows: int) -> Problem:
    return Problem(partial(_rows_of, draw, 0, n_rows), partial(_rows_of, draw, 1, FRESH_ROWS))


def _rows_of(draw: Callable[[np.random.Generator, int], Rows], seed: int, n_rows: int) -> Rows:
    return draw(np.random.default_rng(seed), n_rows)


def _gaussians(n_labels: int, spread: float, shares: tuple[float, ...] | None = None) -> Any:
    def draw(rng: np.random.Generator, n_rows: int) -> Rows:
        centres = spread * np.random.default_rng(5).standard_normal((n_labels, 6))
        labels = rng.choice(n_labels, n_rows, p=shares)
        return centres[labels] + rng.standard_normal((n_rows, 6)), labels

    return draw


def _noise(rng: np.random.Generator, n_rows: int) -> Rows:
    return rng.standard_normal((n_rows, 5)), rng.integers(0, 2, n_rows)


def _friedman(rng: np.random.Generator, n_rows: int) -> Rows:
    rows = rng.random((n_rows, 8))
    signal = 10 * np.sin(np.pi * rows[:, 0] * rows[:, 1]) + 20 * (rows[:, 2] - 0.5) ** 2 + 10 * rows[:, 3]
    return rows, signal + 5 * rows[:, 4] + rng.standard_normal(n_rows)


def _heavy(rng: np.random.Generator, n_rows: int) -> Rows:
    rows = rng.standard_normal((n_rows, 5))
    return rows, rows[:, 0] + rng.standard_t(4, n_rows)


def _first_digits() -> Rows:
    rows, labels = datasets.load_digits(return_X_y=True)
    return rows[:900], labels[:900]


PROBLEMS = {
    "breast cancer": Problem(partial(datasets.load_breast_cancer, return_X_y=True)),
    "iris": Problem(partial(datasets.load_iris, return_X_y=True)),
    "wine": Problem(partial(datasets.load_wine, return_X_y=True)),
    "digits": Problem(_first_digits),
    "diabetes": Problem(partial(datasets.load_diabetes, return_X_y=True)),
    "rare label": _drawn(_gaussians(2, 0.8, (0.97, 0.03)), 1500),
    "five labels": _drawn(_gaussians(5, 0.8, (0.4, 0.3, 0.15, 0.1, 0.05)), 800),
    "26 labels": _drawn(_gaussians(26, 1.2), 1200),
    "separable": _drawn(_gaussians(2, 3.0), 300),
    "noise": _drawn(_noise, 400),
    "Friedman": _drawn(_friedman, 400),
    "heavy tails": _drawn(_heavy, 500),
}


@cache
def rows_of(problem: str) -> Rows:
    """The rows of a data set, made once."""
    return PROBLEMS[problem].rows()


def cases() -> Iterator[Case]:
    """Every case of the table."""
    for problem in PROBLEMS:
        is_label = rows_of(problem)[1].dtype.kind != "f"
        forest, extra = (
            (RandomForestClassifier, ExtraTreesClassifier) if is_label else (RandomForestRegressor, ExtraTreesRegressor)
        )
        yield Case(problem, forest(30, random_state=0), {})
        yield Case(problem, forest(120, random_state=0), {})
        leaves = extra(60, bootstrap=True, min_samples_leaf=5, random_state=0)
        yield Case(problem, leaves, {})
    forest = RandomForestClassifier(100, random_state=0)
    for problem in ("breast cancer", "rare label"):
        n_rows = rows_of(problem)[1].size
        for options in (
            {"criterion": "agreement"}, {"criterion": "probability"}, {"metric": "roc_auc"}, {"metric": "f1_macro"},
            {"sample_weight": np.linspace(0.5, 2.0, n_rows)}, {"groups": np.arange(n_rows) // 2},
        ):  # fmt: skip
            yield Case(problem, forest, options)
    yield Case("five labels", forest, {"metric": "balanced_accuracy"})
    yield Case("iris", BaggingClassifier(n_estimators=40, random_state=0), {})
    lightgbm_forest = {"boosting_type": "rf", "bagging_freq": 1, "bagging_fraction": 0.632, "verbose": -1, "n_jobs": 1}
    for problem in ("breast cancer", "five labels"):
        yield Case(problem, lightgbm.LGBMClassifier(n_estimators=50, **lightgbm_forest), {})
        yield Case(problem, xgboost.XGBRFClassifier(n_estimators=50, n_jobs=1), {})
    yield Case("Friedman", lightgbm.LGBMRegressor(n_estimators=50, **lightgbm_forest), {})
    yield Case("Friedman", xgboost.XGBRFRegressor(n_estimators=50, n_jobs=1), {})


def figures_of(case: Case) -> dict[str, Figure]:
    """What the report of a case says, or the class of its refusal."""
    rows, y = rows_of(case.problem)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = clone(case.model).fit(rows, y)
        try:
            report = ens_plugin.analyze(model, rows, y, **case.options)
        except EnsPluginError as error:
            return {"refusal": Figure(type(error).__name__)}
    found, curve = report.recommendation, report.error_curve
    here, limit = (
        _with_interval(report.error, report.error_interval),
        _with_interval(curve.asymptote, curve.asymptote_interval),
    )
    size = float(found.max_size + 1 if found.size is None else found.size)
    largest = found.interval[1] or found.max_size
    figures = {
        "error": here,
        "lower": Figure(report.error_interval[0], here.tolerance),
        "upper": Figure(report.error_interval[1], here.tolerance),
        "limit": limit,
        "size": Figure(size, max(1.0, PART * size, PART * (largest - found.interval[0]) / 2.0)),
        "enough": Figure(str(report.is_enough)),
        "findings": Figure(" ".join(sorted(each.code for each in report.findings))),
    }
    if found.agreement is not None:
        figures["agreement"] = Figure(found.agreement, 2.0 * PART * (1.0 - found.agreement) + 1e-4)
    return figures


def _with_interval(value: float, interval: tuple[float, float]) -> Figure:
    return Figure(value, PART * (interval[1] - interval[0]) / 2.0)


def truths_of(case: Case) -> dict[str, float]:
    """The error on fresh rows at the current size and of infinitely many members, where the rows are drawn."""
    fresh = PROBLEMS[case.problem].fresh
    if fresh is None or case.options or not isinstance(case.model, FORESTS):
        return {}
    rows, y = rows_of(case.problem)
    many = clone(case.model).set_params(n_estimators=TRUE_TREES, random_state=1).fit(rows, y)
    fresh_rows, target = fresh()
    size = case.model.n_estimators
    groups = [many.estimators_[start : start + size] for start in range(0, TRUE_TREES - size + 1, size)]
    here = [_loss(many, group, fresh_rows, target) for group in groups[:GROUPS_OF_TREES]]
    return {"error": float(np.mean(here)), "limit": _loss(many, many.estimators_, fresh_rows, target)}


def _loss(forest: Any, trees: list[Any], rows: Array, target: Array) -> float:
    part = clone(forest)
    part.__dict__.update({**vars(forest), "estimators_": trees, "n_estimators": len(trees)})
    predicted = part.predict(rows)
    return float(np.mean((predicted - target) ** 2 if target.dtype.kind == "f" else predicted != target))


def read_table() -> dict[str, dict[str, Figure]]:
    """The committed figures by case and name."""
    found: dict[str, dict[str, Figure]] = {}
    with TABLE.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            is_text = line["tolerance"] == ""
            value = line["value"] if is_text else float(line["value"])
            found.setdefault(line["case"], {})[line["figure"]] = Figure(
                value, math.nan if is_text else float(line["tolerance"])
            )
    return found


def differs(known: Figure, found: Figure) -> bool:
    """Whether a figure moved by more than its tolerance."""
    if isinstance(known.value, str) or isinstance(found.value, str):
        return known.value != found.value
    return not abs(known.value - found.value) <= known.tolerance and known.value != found.value


def results() -> Iterator[tuple[str, Callable[[], Any]]]:
    """The name of each case, and what computes its figures."""
    for case in cases():
        yield case.name, partial(figures_of, case)


def _moved(name: str, known: Figure | None, found: Figure, truth: float | None) -> str:
    if known is None:
        return f"{name}: {found.value} is new"
    moved = f"{name}: {known.value} -> {found.value}"
    if truth is None or isinstance(known.value, str) or isinstance(found.value, str):
        return moved
    is_nearer = abs(found.value - truth) < abs(known.value - truth)
    return f"{moved}, {'towards' if is_nearer else 'away from'} the truth {truth:.5g}"


def main() -> None:
    """Write the table, and print what moved."""
    known = read_table() if TABLE.exists() else {}
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        for case in cases():
            truths = truths_of(case)
            for name, found in figures_of(case).items():
                truth, before = truths.get(name), known.get(case.name, {}).get(name)
                if before is None or differs(before, found):
                    print(_moved(f"{case.name}: {name}", before, found, truth))
                is_text = isinstance(found.value, str)
                numbers = [found.value, ""] if is_text else [f"{found.value:.6g}", f"{found.tolerance:.3g}"]
                table.writerow([case.name, name, *numbers, "" if truth is None else f"{truth:.5g}"])


if __name__ == "__main__":
    main()
