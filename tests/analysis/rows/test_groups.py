"""Groups of rows: a row is in a bag with any row of its group, and each group counts as one draw."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import ens_plugin
from ens_plugin.analysis.weights import encode_groups, group_chances, largest_group, reach_of_groups
from ens_plugin.core.bags import Bags
from ens_plugin.errors import DataMismatchError, InputError, TooFewMembersError


def grouped(n_groups: int = 60, size: int = 10, spread: float = 0.01, seed: int = 0) -> tuple[NDArray[Any], ...]:
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(n_groups, 5))
    groups = np.repeat(np.arange(n_groups), size)
    y = (rng.random(n_groups) < 1 / (1 + np.exp(-2 * centres[:, 0]))).astype(int)[groups]
    return centres[groups] + spread * rng.normal(size=(groups.size, 5)), y, groups


def forest(X: Any, y: Any, share: float | int = 0.1, **options: Any) -> RandomForestClassifier:
    return RandomForestClassifier(80, max_samples=share, random_state=0, **options).fit(X, y)


def test_values_of_groups_have_intervals_by_group() -> None:
    X, _, groups = grouped(40)
    y = np.repeat(np.random.default_rng(0).normal(size=40), 10)
    model = RandomForestRegressor(60, max_samples=0.1, random_state=0).fit(X, y)
    report = ens_plugin.analyze(model, X, y, groups=groups)
    plain = ens_plugin.analyze(model, X, y, groups=np.arange(y.size))
    width = np.subtract(*report.error_interval[::-1])
    assert width > 1.5 * np.subtract(*plain.error_interval[::-1])
    assert report.basis.n_effective <= 40
    assert "Groups: 40, whose rows are taken to depend on each other." in report.details()
    assert "Groups: every row is a group of its own, so that groups change no figure." in plain.details()
    assert "every row is a group of its own" in plain.to_html()
    ungrouped = " ".join(ens_plugin.analyze(model, X, y, data="oob").details().split())
    assert "Groups:" not in ungrouped
    assert "taken as independent" in ungrouped


def test_groups_equal_an_ensemble_with_their_bags() -> None:
    X, y, groups = grouped(40, 4)
    model = forest(X, y, 0.2)
    drawn = ens_plugin.in_bag(model, X)
    whole = np.stack([np.isin(groups, groups[member]) for member in drawn])
    outputs = np.stack([tree.predict_proba(X) for tree in model.estimators_])
    given = ens_plugin.CustomEnsemble(outputs, whole, aggregation="mean_proba")
    report = ens_plugin.analyze(model, X, y, groups=groups)
    expected = ens_plugin.analyze(given, None, y, groups=groups)
    assert report.error == pytest.approx(expected.error)
    assert report.mean_oob_members == expected.mean_oob_members


def test_names_of_groups_and_the_number_of_threads_do_not_matter() -> None:
    X, y, groups = grouped(40, 4)
    model = forest(X, y, 0.2)
    names = pd.Series([f"patient {group}" for group in groups], index=np.arange(groups.size)[::-1])
    reports = [
        replace(ens_plugin.analyze(model, X, y, groups=found, n_jobs=n_jobs), created="").to_dict()
        for found, n_jobs in ((groups, 1), (names, 2), (pd.Categorical(names), None), (groups[:, None] + 0.5, 1))
    ]
    assert all(report == reports[0] for report in reports)


def test_groups_of_held_out_rows_widen_the_interval_alone() -> None:
    X, y, _ = grouped(40, 5)
    rows, labels, others = grouped(40, 5, seed=3)
    model = RandomForestClassifier(40, random_state=0).fit(X, y)
    report = ens_plugin.analyze(model, rows, labels, data="holdout", groups=others)
    plain = ens_plugin.analyze(model, rows, labels, data="holdout")
    assert report.bias_variance.member_error == plain.bias_variance.member_error
    assert np.subtract(*report.error_interval) < 1.5 * np.subtract(*plain.error_interval)
    assert report.basis.n_groups == 40


@pytest.mark.parametrize(("size", "n_trees"), [(3, 50), (4, 100)])
def test_groups_that_some_members_left_out_are_judged(size: int, n_trees: int) -> None:
    """A fifth of the weight and more has too few members, but as by lot: all groups are equally large."""
    X, y, groups = grouped(200, size, spread=0.3)
    fresh, labels, _ = grouped(3000, 1, spread=0.3, seed=1)
    model = RandomForestClassifier(n_trees, random_state=0).fit(X, y)
    report = ens_plugin.analyze(model, X, y, groups=groups)
    assert report.error_interval[0] <= 1 - model.score(fresh, labels) <= report.error_interval[1]
    assert not any("weight" in doubt for doubt in report.basis.doubts)


@pytest.mark.parametrize("rate", [0.5, 1.0, 1.7])
def test_chances_of_groups_are_those_by_which_they_were_left_out(rate: float) -> None:
    rng = np.random.default_rng(0)
    size = rng.integers(1, 7, 400)
    groups = np.repeat(np.arange(400), size)
    chance = np.exp(-rate * size)
    found = group_chances(groups, rng.binomial(200, chance)[groups].astype(float), 200)
    np.testing.assert_allclose(found, chance[groups], rtol=0.15)
    # Groups drawn by weight are left out more and less often than their size tells.
    assert group_chances(groups, rng.binomial(200, rng.random(400))[groups].astype(float), 200) is None


def test_doubts_that_advise_to_name_groups_tell_which_groups_the_model_allows() -> None:
    X, y, _ = grouped(60, 8)
    report = ens_plugin.analyze(RandomForestClassifier(100, random_state=0).fit(X, y), X, y)
    assert "groups= works for groups of up to 4 rows" in " ".join(report.basis.doubts)
    assert "groups of rows cannot be judged out of bag" in reach_of_groups(Bags.from_mask(np.eye(3, 12) < 1))
    bags = Bags.from_mask(np.random.default_rng(0).random((500, 300)) < 0.2)
    assert 24 <= largest_group(bags) <= 32


def test_large_groups_left_out_are_refused_or_doubted() -> None:
    X, y, groups = grouped(30, 20)
    with pytest.raises(TooFewMembersError, match=r"groups of 20 rows, about 0\.05 of the rows for each member"):
        ens_plugin.analyze(RandomForestClassifier(40, random_state=0).fit(X, y), X, y, groups=groups)
    rng = np.random.default_rng(0)
    small = np.arange(400)
    for n_large, refused in ((3, True), (1, False)):
        groups = np.append(small, 1000 + np.repeat(np.arange(n_large), 60))
        X = rng.normal(size=(groups.size, 4))
        y = (X[:, 0] + rng.normal(size=groups.size) > 0).astype(int)
        model = RandomForestClassifier(60, random_state=0).fit(X, y)
        if refused:
            with pytest.raises(TooFewMembersError, match="Only 4"):
                ens_plugin.analyze(model, X, y, groups=groups)
            continue
        report = ens_plugin.analyze(model, X, y, groups=groups)
        assert any("The figures are of the smaller groups" in doubt for doubt in report.basis.doubts)
        assert report.basis.n_groups == 400


@pytest.mark.fast_cases("3")
@pytest.mark.filterwarnings("ignore::ens_plugin.errors.WeakEstimateWarning")
@pytest.mark.parametrize("n_groups", [2, 3, 8])
def test_few_groups_are_doubted(n_groups: int) -> None:
    X, y, groups = grouped(n_groups, 30, spread=1.0)
    y = np.random.default_rng(0).permutation(y) if len(set(y)) > 1 else np.arange(y.size) % 2
    model = forest(X, y, 2)
    report = ens_plugin.analyze(model, X, y, groups=groups)
    assert f"Only {n_groups} groups of rows" in report.basis.doubts[0]
    assert not report.is_actionable
    assert np.isfinite(report.error_interval).all()


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([1] * 20, "single group"), ([1, 2] * 9, "18 entries and there are 20 rows"),
        ([1.0, np.nan] * 10, "10 missing values"), (["a", None] * 10, "10 missing values"),
        (["a", np.nan] * 10, "10 missing values"), (np.zeros((20, 2)), r"shape \(20, 2\)"),
        ("patient", "one group for each row, or be 'identical'"), (7, "one group for each row"),
        ([[1], [1, 2]] * 10, "cannot be read as one group for each row"),
        ([{"a": 1}] * 20, "cannot be read as one group for each row"),
    ],
)  # fmt: skip
def test_groups_that_cannot_be_used(groups: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        encode_groups(groups, 20)


@pytest.mark.fast_cases("xgboost")
@pytest.mark.parametrize("kind", ["lightgbm", "xgboost"])
def test_bags_of_boosters_are_proved_by_row_and_used_by_group(kind: str) -> None:
    library: Any = pytest.importorskip(kind, reason=f"{kind} is not installed")
    X, y, groups = grouped(60, 4, spread=0.3)
    if kind == "lightgbm":
        model = library.LGBMClassifier(
            boosting_type="rf", n_estimators=60, bagging_freq=1, bagging_fraction=0.3, num_leaves=7,
            min_child_samples=3, n_jobs=1, verbose=-1,
        )  # fmt: skip
    else:
        model = library.XGBRFClassifier(n_estimators=60, subsample=0.3, max_depth=4, n_jobs=1)
    report = ens_plugin.analyze(model.fit(X, y), X, y, groups=groups)
    plain = ens_plugin.analyze(model, X, y)
    assert report.bags == plain.bags == "proved"
    assert report.mean_oob_members < 0.5 * plain.mean_oob_members
    assert np.subtract(*report.error_interval) < np.subtract(*plain.error_interval)
    copies, labels = np.repeat(X, 5, axis=0), np.repeat(y, 5)
    copied = ens_plugin.analyze(model.fit(copies, labels), copies, labels)
    assert any("look like copies" in doubt for doubt in copied.basis.doubts)


def test_stored_outputs_are_compared_as_the_rows_were_drawn() -> None:
    X, y, groups = grouped(60, 4, spread=0.5)
    model = forest(X, y, 0.2, oob_score=True)
    report = ens_plugin.analyze(model, X, y, groups=groups)
    assert not any("Nothing in this model shows" in warning for warning in report.warnings)
    order = np.random.default_rng(0).permutation(y.size)
    with pytest.raises(DataMismatchError):
        ens_plugin.analyze(model, X[order], y[order], groups=groups[order])
