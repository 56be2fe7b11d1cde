"""Rows that are never out of bag: refused, or weighted and listed by label."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from ens_plugin import CustomEnsemble, EnsembleReport, analyze
from ens_plugin.errors import TooFewMembersError
from tests.extras import draws_by_weight, lightgbm, xgboost
from tests.forests import Array


def rows(n_rows: int, share: float, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    y = (rng.random(n_rows) < share).astype(int)
    X = rng.normal(size=(n_rows, 5))
    X[:, :2] += 1.2 * y[:, None]
    return X, y


def votes_of(chance: Array, left_out: Array, n_members: int, seed: int = 0) -> tuple[Array, Array]:
    """Votes wrong with a chance by row, and bags that leave rows out with another."""
    rng = np.random.default_rng(seed)
    return rng.random((n_members, chance.size)) < chance, rng.random((n_members, chance.size)) >= left_out


@draws_by_weight
class TestForests:
    @pytest.mark.fast_cases("None-0.03", "5-0.1")
    @pytest.mark.parametrize("share", [0.03, 0.06, 0.10])
    @pytest.mark.parametrize("depth", [None, 5])
    def test_balanced_weights_of_a_rare_label_are_refused(self, share: float, depth: int | None) -> None:
        X, y = rows(1000, share)
        forest = RandomForestClassifier(30, class_weight="balanced", max_depth=depth, random_state=0).fit(X, y)
        with pytest.raises(TooFewMembersError, match=rf"(?s)Of the {y.sum()} rows of label '1'.*balanced_subsample"):
            analyze(forest, X, y)

    def test_a_label_that_no_number_of_members_helps_is_refused_without_one(self) -> None:
        X, y = rows(400, 0.02)
        forest = RandomForestClassifier(30, class_weight="balanced", random_state=0).fit(X, y)
        with pytest.raises(TooFewMembersError, match=r"draw at most \d+ % as many") as refusal:
            analyze(forest, X, y)
        assert "in place of" not in str(refusal.value)

    @pytest.mark.fast_cases("600-None")
    @pytest.mark.parametrize(("n_rows", "depth"), [(600, None), (600, 5), (2000, None)])
    def test_a_rare_label_is_judged_by_its_members_in_sum(self, n_rows: int, depth: int | None) -> None:
        """A row of the label has about two members on average, and all of them together more than a hundred."""
        X, y = rows(n_rows, 0.13)
        forest = RandomForestClassifier(100, class_weight="balanced", max_depth=depth, random_state=0).fit(X, y)
        report = analyze(forest, X, y)
        rare = report.basis.labels[1]
        assert rare.n_usable < rare.n_rows
        assert rare.weight_factor == pytest.approx(rare.n_rows / rare.n_usable)
        fresh, labels = rows(20_000, 0.13, seed=1)
        low, high = report.error_interval
        assert low < np.mean(forest.predict(fresh) != labels) < high

    @pytest.mark.slow
    def test_the_number_of_members_and_of_rows_in_a_refusal_would_do(self) -> None:
        X, y = rows(300, 0.09)
        forest = RandomForestClassifier(40, class_weight="balanced", random_state=0)
        with pytest.raises(TooFewMembersError, match="label '1'") as refusal:
            analyze(forest.fit(X, y), X, y)
        named = re.search(r"at most (\d+) % as many .* about (\d+) members in place of 40;", str(refusal.value))
        share, members = map(int, named.groups())
        assert 40 < members < 800
        # These are the numbers of the expected sum, which a forest meets or misses by chance.
        more = RandomForestClassifier(int(1.5 * members), class_weight="balanced", random_state=0).fit(X, y)
        assert analyze(more, X, y).basis.labels[1].n_usable > 10
        smaller = RandomForestClassifier(
            40, class_weight="balanced", max_samples=0.9 * share / 100.0, random_state=0
        ).fit(X, y)
        assert analyze(smaller, X, y).basis.labels[1].n_usable > 10

    def test_enough_members_are_weighted_and_listed_by_label(self) -> None:
        X, y = rows(800, 0.2)
        report = analyze(RandomForestClassifier(60, class_weight="balanced", random_state=0).fit(X, y), X, y)
        common, rare = report.basis.labels
        assert (common.n_rows, rare.n_rows) == (np.sum(y == 0), np.sum(y == 1))
        assert rare.mean_members < common.mean_members / 3
        assert rare.weight_factor == pytest.approx(rare.n_rows / rare.n_usable, rel=0.02)
        assert "label '1'" in report.warnings[0]
        assert EnsembleReport.from_json(report.to_json()).basis == report.basis

    @pytest.mark.parametrize(("weight_of_rare", "n_warnings"), [(1.001, 0), (1.2, 1)])
    def test_a_factor_of_one_is_not_mentioned(self, weight_of_rare: float, n_warnings: int) -> None:
        X, y = rows(600, 0.3)
        weight = np.where(y == 1, weight_of_rare, 1.0)
        report = analyze(RandomForestClassifier(60, random_state=0).fit(X, y, sample_weight=weight), X, y)
        assert [basis.weight_factor for basis in report.basis.labels] == pytest.approx([1.0, 1.0])
        assert len(report.warnings) == n_warnings
        assert not any("weighted" in text or "1.000" in text for text in report.warnings)

    def test_lost_weight_is_doubted_and_much_of_it_refused(self) -> None:
        X, y = rows(800, 0.3)
        for spread, n_members in ((1.5, 60), (0.9, 100)):
            weight = np.random.default_rng(0).lognormal(0.0, spread, 800)
            forest = RandomForestClassifier(n_members, random_state=0).fit(X, y, sample_weight=weight)
            if spread == 1.5:
                with pytest.raises(TooFewMembersError, match="% of the weight lies on rows"):
                    analyze(forest, X, y, sample_weight=weight)
                assert analyze(forest, X, y).basis.labels[0].n_usable > 0.9 * np.sum(y == 0)
            else:
                report = analyze(forest, X, y, sample_weight=weight)
                assert report.basis.doubts
                assert not report.is_actionable


def test_one_of_three_labels_always_in_bag() -> None:
    target = np.repeat([0, 1, 2], [200, 200, 30])
    wrong, in_bag = votes_of(np.full(430, 0.2), np.where(target == 2, 0.0, 0.37), 50)
    names = np.array(["a", "b", "c"])
    outputs = names[np.where(wrong, (target + 1) % 3, target)]
    ensemble = CustomEnsemble(outputs, in_bag, aggregation="vote", classes=names)
    with pytest.raises(TooFewMembersError, match="Of the 30 rows of label 'c', 0 have enough") as refusal:
        analyze(ensemble, None, names[target])
    assert "average, and a row of the other labels 18" in str(refusal.value)
    assert "drawn by weight" in str(refusal.value)
    with pytest.raises(TooFewMembersError, match="because a member counts for a row only if"):
        analyze(ensemble, None, names[target], groups=np.arange(430))
    with pytest.raises(TooFewMembersError, match="label 'c'"):
        analyze(ensemble, None, names[target], metric=lambda y, mean: float(mean[:, 0].mean()))


@pytest.mark.parametrize(("n_others", "n_rare", "is_named"), [(199, 1, True), (198, 1, False), (2000, 5, False)])
def test_a_handful_is_up_to_four_rows_of_at_most_half_a_percent(n_others: int, n_rare: int, is_named: bool) -> None:
    target = np.append(np.arange(n_others) % 2, np.full(n_rare, 2))
    wrong, in_bag = votes_of(np.full(target.size, 0.2), np.where(target == 2, 0.0, 0.37), 60)
    ensemble = CustomEnsemble(np.where(wrong, 1 - np.minimum(target, 1), target), in_bag, aggregation="vote")
    if is_named:
        assert any(f"Label '2' has {n_rare} row" in caution for caution in analyze(ensemble, None, target).warnings)
    else:
        with pytest.raises(TooFewMembersError, match=f"Of the {n_rare} rows? of label '2'"):
            analyze(ensemble, None, target)


@pytest.mark.fast_cases("balanced_subsample")
@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "balanced_subsample"])
def test_weights_that_do_not_draw_change_nothing(library: str) -> None:
    X, y = rows(500, 0.2)
    weight = np.random.default_rng(0).lognormal(size=500)
    model: Any
    if library == "lightgbm":
        model = lightgbm.LGBMClassifier(
            boosting_type="rf", n_estimators=30, bagging_freq=1, bagging_fraction=0.6, num_leaves=15, verbose=-1
        )
    elif library == "xgboost":
        # Bags of XGBoost cannot be proved where weights were given at fit.
        model, weight = xgboost.XGBRFClassifier(n_estimators=30, subsample=0.6, tree_method="hist", max_depth=5), None
    else:
        model, weight = RandomForestClassifier(40, class_weight=library, random_state=0), None
    report = analyze(model.fit(X, y, sample_weight=weight), X, y)
    assert not any("equally often" in caution for caution in report.warnings)
    assert [basis.weight_factor for basis in report.basis.labels] == [1.0, 1.0]
    assert report.basis.labels[0].n_rows == np.sum(y == 0)


@pytest.mark.fast_cases("900-59-True", "170-30-True")
@pytest.mark.parametrize(
    ("n_common", "n_rare", "warned"),
    [(900, 30, True), (900, 59, True), (900, 60, False), (170, 30, True), (169, 30, False)],
)
def test_raw_scores_of_few_rows_of_a_rare_label_are_named(n_common: int, n_rare: int, warned: bool) -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [n_common, n_rare])
    scores = rng.normal(2.0 * y - 1.0, 1.5, size=(30, y.size))
    in_bag = rng.random((30, y.size)) < 0.63
    report = analyze(CustomEnsemble(scores, in_bag, aggregation="mean_score", classes=[0, 1]), None, y)
    named = [text for text in report.warnings if f"Only {n_rare} rows have label '1'" in text]
    assert len(named) == warned
    fresh = CustomEnsemble(scores, None, aggregation="mean_score", classes=[0, 1])
    of_fresh = analyze(fresh, None, y, data="holdout").warnings
    assert not any(f"Only {n_rare} rows have label" in text for text in of_fresh)
    # Raw scores have no size by probabilities that could be used instead.
    assert not any("criterion=" in text for text in of_fresh)


def test_regression_refuses_lost_weight_and_answers_without() -> None:
    X, _ = rows(600, 0.3)
    y = X[:, 0] + np.random.default_rng(0).normal(size=600)
    weight = np.random.default_rng(1).lognormal(0.0, 1.5, 600)
    forest = RandomForestRegressor(50, random_state=0).fit(X, y, sample_weight=weight)
    with pytest.raises(TooFewMembersError, match="% of the weight"):
        analyze(forest, X, y, sample_weight=weight)
    mild = RandomForestRegressor(50, random_state=0).fit(X, y, sample_weight=np.sqrt(weight))
    report = analyze(mild, X, y)
    assert report.basis.labels == ()
    assert "not leave out all rows equally often" in report.warnings[0]
    assert "drawn by the weights of the training" in report.warnings[0]
    weighted = analyze(mild, X, y, sample_weight=np.sqrt(weight))
    assert "not leave out all rows equally often" in weighted.warnings[0]
    assert "drawn by the weights" not in weighted.warnings[0]
