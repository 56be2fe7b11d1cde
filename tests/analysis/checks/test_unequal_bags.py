"""Members of bags of unequal size are doubted where they err unequally, because a row's out-of-bag members differ."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

import ens_plugin
from ens_plugin import EnsembleReport

FOUND = "The members were trained on unequal numbers of rows"


def report_of(kind: type, sizes: tuple[int, ...], n_members: int = 30) -> EnsembleReport:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    y = X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=300)
    y = (y > 0).astype(int) if kind is DecisionTreeClassifier else y
    bags = [rng.integers(0, 300, size) for size in rng.choice(sizes, n_members)]
    members = ens_plugin.CustomEnsemble.from_estimators([kind().fit(X[bag], y[bag]) for bag in bags], bags)
    return ens_plugin.analyze(members, X, y)


@pytest.mark.parametrize(
    ("kind", "n_members"), [(DecisionTreeRegressor, 9), (DecisionTreeRegressor, 30), (DecisionTreeClassifier, 30)]
)
def test_unequal_bags_are_doubted(kind: type, n_members: int) -> None:
    report = report_of(kind, (8, 300), n_members)
    assert any(doubt.startswith(FOUND) for doubt in report.basis.doubts)


@pytest.mark.parametrize("kind", [DecisionTreeRegressor, DecisionTreeClassifier])
def test_equal_bags_are_let_pass(kind: type) -> None:
    assert not any(doubt.startswith(FOUND) for doubt in report_of(kind, (150,)).basis.doubts)


def test_members_that_err_unequally_for_another_reason_are_let_pass() -> None:
    """Of eight members, the shallow ones have more of the small bags by chance: their errors differ by 3 % and more."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(300, 4))
        y = X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=300)
        bags = [rng.integers(0, 300, size) for size in rng.choice((60, 300), 8)]
        trees = [DecisionTreeRegressor(max_depth=depth, random_state=0) for depth in rng.choice((1, 8), 8)]
        fitted = [tree.fit(X[bag], y[bag]) for tree, bag in zip(trees, bags, strict=True)]
        report = ens_plugin.analyze(ens_plugin.CustomEnsemble.from_estimators(fitted, bags), X, y)
        assert not any(doubt.startswith(FOUND) for doubt in report.basis.doubts)
