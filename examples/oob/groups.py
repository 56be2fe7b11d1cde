"""A forest whose members are trained on whole groups of rows, so that groups can be judged out of bag.

The example of docs/how-to/groups.md: five measurements of each of 120 subjects. The members of a usual forest draw
single rows, so that nearly every bag has a row of every subject.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier

import ens_plugin

Table = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


def measurements(n_subjects: int, rng: np.random.Generator) -> Table:
    """Return rows, labels and subjects: five rows of each, which differ little."""
    subjects = np.repeat(np.arange(n_subjects), 5)
    traits = rng.normal(size=(n_subjects, 6))
    y = (traits[:, 0] + rng.normal(size=n_subjects) > 0).astype(int)
    return traits[subjects] + 0.2 * rng.normal(size=(subjects.size, 6)), y[subjects], subjects


def forest_of_groups(
    X: NDArray[Any], y: NDArray[Any], groups: NDArray[Any], n_trees: int, seed: int
) -> ens_plugin.CustomEnsemble:
    """Return trees as of a random forest, each trained on all rows of groups that were drawn with replacement."""
    rng = np.random.default_rng(seed)
    rows_of = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    drawn = [
        np.concatenate([rows_of[g] for g in rng.integers(len(rows_of), size=len(rows_of))]) for _ in range(n_trees)
    ]
    trees = [DecisionTreeClassifier(max_features="sqrt", random_state=seed + t) for t in range(n_trees)]
    trees = [tree.fit(X[rows], y[rows]) for tree, rows in zip(trees, drawn, strict=True)]
    return ens_plugin.CustomEnsemble.from_estimators(trees, drawn)


def error_on(model: Any, rows: Table) -> float:
    """Return the error of a model on rows of other groups."""
    X, y, groups = rows
    return ens_plugin.analyze(model, X, y, data="holdout", groups=groups).error


def main() -> dict[str, float]:
    """Return the errors out of bag and on other subjects."""
    rng = np.random.default_rng(0)
    X, y, subjects = measurements(120, rng)
    others = measurements(2000, rng)
    usual = RandomForestClassifier(n_estimators=200, random_state=0).fit(X, y)
    by_group = forest_of_groups(X, y, subjects, n_trees=200, seed=0)
    return {
        "usual forest, single rows out of bag": ens_plugin.analyze(usual, X, y).error,
        "usual forest, other subjects": error_on(usual, others),
        "forest of groups, groups out of bag": ens_plugin.analyze(by_group, X, y, groups=subjects).error,
        "forest of groups, other subjects": error_on(by_group, others),
    }


if __name__ == "__main__":
    for name, error in main().items():
        print(f"{name}: {100 * error:.1f} %")
