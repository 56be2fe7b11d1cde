"""Rows that are never out of bag: refused, or weighted and listed by label."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier

import ens_plugin
from ens_plugin import CustomEnsemble, EnsembleReport, analyze
from ens_plugin.adapters import find_adapter
from ens_plugin.analysis import tally_rows
from ens_plugin.analysis.weights import RowShares, row_shares
from ens_plugin.core.tally import Tally
from ens_plugin.core.weights import RowWeight
from ens_plugin.errors import InputError, TooFewMembersError
from tests.extras import draws_by_weight, lightgbm, xgboost
from tests.forests import Array
from tests.reports import with_doubts


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
        assert named is not None
        share, members = map(int, named.groups())
        assert 40 < members < 800
        # These are the numbers of the expected sum, which a forest meets or misses by chance.
        more = RandomForestClassifier(int(1.5 * members), class_weight="balanced", random_state=0).fit(X, y)
        assert analyze(more, X, y).basis.labels[1].n_usable > 10
        smaller = RandomForestClassifier(
            40, class_weight="balanced", max_samples=0.9 * share / 100.0, random_state=0
        ).fit(X, y)
        assert analyze(smaller, X, y).basis.labels[1].n_usable > 10

    def test_a_label_that_no_number_of_members_helps_is_refused_without_one(self) -> None:
        X, y = rows(400, 0.02)
        forest = RandomForestClassifier(30, class_weight="balanced", random_state=0).fit(X, y)
        with pytest.raises(TooFewMembersError, match=r"draw at most \d+ % as many") as refusal:
            analyze(forest, X, y)
        assert "in place of" not in str(refusal.value)

    @pytest.mark.slow
    def test_the_remedies_work(self) -> None:
        X, y = rows(600, 0.06)
        common: dict[str, Any] = {"n_estimators": 60, "random_state": 0}
        remedy = RandomForestClassifier(class_weight="balanced_subsample", **common).fit(X, y)
        assert analyze(remedy, X, y).basis.usable_weight == 1.0
        smaller = RandomForestClassifier(class_weight="balanced", max_samples=0.1, **common).fit(X, y)
        found = analyze(smaller, X, y)
        assert found.is_actionable
        assert found.basis.labels[1].n_usable == y.sum()
        forest = RandomForestClassifier(class_weight="balanced", **common).fit(X, y)
        assert analyze(forest, *rows(600, 0.2, 1), data="holdout").basis.labels[1].weight_factor == 1.0

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

    def test_string_labels_and_dictionaries_of_weights(self) -> None:
        X, y = rows(800, 0.1)
        names = np.array(["ham", "spam"])[y]
        forest = RandomForestClassifier(80, class_weight={"ham": 1, "spam": 3}, random_state=0).fit(X, names)
        report = analyze(forest, X, names)
        assert [basis.label for basis in report.basis.labels] == ["ham", "spam"]
        assert report.basis.labels[1].mean_members < 15

    @pytest.mark.slow
    def test_extra_trees_and_bagging(self) -> None:
        X, y = rows(500, 0.05)
        with pytest.raises(TooFewMembersError, match="label '1'"):
            analyze(ExtraTreesClassifier(40, bootstrap=True, class_weight="balanced", random_state=0).fit(X, y), X, y)
        bagging = BaggingClassifier(DecisionTreeClassifier(), 30, random_state=0)
        with pytest.raises(TooFewMembersError, match="label '1'"):
            analyze(bagging.fit(X, y, sample_weight=np.where(y == 1, 19.0, 1.0)), X, y)
        assert (
            analyze(bagging.fit(X, y, sample_weight=np.where(y == 1, 1.5, 1.0)), X, y).basis.labels[1].n_usable
            == y.sum()
        )

    def test_weights_at_fit_and_in_the_evaluation_lose_weight(self) -> None:
        X, y = rows(800, 0.3)
        weight = np.random.default_rng(0).lognormal(0.0, 1.5, 800)
        forest = RandomForestClassifier(60, random_state=0).fit(X, y, sample_weight=weight)
        with pytest.raises(TooFewMembersError, match="% of the weight lies on rows"):
            analyze(forest, X, y, sample_weight=weight)
        assert analyze(forest, X, y).basis.labels[0].n_usable > 0.9 * np.sum(y == 0)

    def test_some_lost_weight_is_a_doubt(self) -> None:
        X, y = rows(800, 0.3)
        weight = np.random.default_rng(0).lognormal(0.0, 0.9, 800)
        forest = RandomForestClassifier(100, random_state=0).fit(X, y, sample_weight=weight)
        report = analyze(forest, X, y, sample_weight=weight)
        assert report.basis.doubts
        assert not report.is_actionable
        assert "Do not use these figures." in report.summary()

    def test_weights_of_zero(self) -> None:
        X, y = rows(600, 0.3)
        weight = np.where(np.arange(600) % 3 == 0, 0.0, 1.0)
        report = analyze(RandomForestClassifier(60, random_state=0).fit(X, y, sample_weight=weight), X, y)
        assert report.n_rows == 600
        assert report.basis.usable_weight == 1.0

    def test_regression_refuses_lost_weight_and_answers_without(self) -> None:
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

    @pytest.mark.slow
    def test_a_metric_of_ones_own_takes_no_weights(self) -> None:
        X, y = rows(600, 0.2)
        large = RandomForestClassifier(120, class_weight="balanced", random_state=0).fit(X, y)
        found = analyze(large, X, y, metric=brier)
        assert np.isfinite(found.error_curve.asymptote)
        lost = RandomForestRegressor(8, random_state=0).fit(X, X[:, 0], sample_weight=np.exp(X[:, 1] * 0.4))
        with pytest.raises(InputError, match="takes no weights"):
            analyze(lost, X, X[:, 0], metric=absolute)

    def test_malignant_tumours_of_breast_cancer_at_4_percent(self) -> None:
        X, y = load_breast_cancer(return_X_y=True)
        kept = np.sort(np.append(np.flatnonzero(y == 1), np.flatnonzero(y == 0)[:15]))
        X, y = X[kept], y[kept]
        forest = RandomForestClassifier(50, class_weight="balanced", random_state=0).fit(X, y)
        with pytest.raises(TooFewMembersError, match="Of the 15 rows of label '0', "):
            analyze(forest, X, y)


def brier(y: Array, probability: Array) -> float:
    return float(np.mean((probability[:, 1] - y) ** 2))


def absolute(y: Array, mean: Array) -> float:
    return float(np.mean(np.abs(mean - y)))


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


def test_a_label_with_one_usable_row_is_refused() -> None:
    target = np.repeat([0, 1], [300, 20])
    wrong, in_bag = votes_of(np.full(320, 0.2), np.where(np.arange(320) < 301, 0.37, 0.0), 40)
    with pytest.raises(TooFewMembersError, match="Of the 20 rows of label '1', 1 has enough"):
        analyze(CustomEnsemble(np.where(wrong, 1 - target, target), in_bag, aggregation="vote"), None, target)


def test_a_handful_of_rows_never_out_of_bag_is_named() -> None:
    target = np.append(np.arange(1200) % 2, 2)
    wrong, in_bag = votes_of(np.full(1201, 0.2), np.where(target == 2, 0.0, 0.37), 40)
    ensemble = CustomEnsemble(np.where(wrong, 1 - np.minimum(target, 1), target), in_bag, aggregation="vote")
    report = analyze(ensemble, None, target)
    assert report.is_actionable
    assert any("Label '2' has 1 row, which has" in caution for caution in report.warnings)


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


def shares_on_a_cluster(forest: Any, X: Array, y: Array, *, are_training_rows: bool) -> RowShares:
    """The shares where entries are kinds of rows that have the same label and number of members."""
    adapter = find_adapter(forest)
    features = adapter.prepare(X)
    bags = adapter.bags(X, features, y) if are_training_rows else None
    evidence = tally_rows(adapter, features, bags, y, np.ones(y.size), rng=np.random.default_rng(0), progress=None)
    kinds, place, counts = np.unique(
        np.stack([evidence.tally.trials, y]), axis=1, return_inverse=True, return_counts=True
    )
    whole = counts.astype(np.float64)
    kept = replace(evidence.sample, rows=place.reshape(-1)[evidence.sample.rows])
    weight = RowWeight(whole, whole, whole)
    alike = replace(evidence, tally=Tally(kinds[0]), sample=kept, weight=weight, label=kinds[1].astype(np.int64))
    return row_shares(adapter, alike, kinds[0] >= 1, 1)


@draws_by_weight
def test_weights_too_small_to_show_in_numbers_of_members_are_refused_on_a_cluster() -> None:
    X, y = rows(400, 0.3)
    weight = np.where(np.arange(400) % 2, 1.0, 1.01)
    drawn, plain = (RandomForestClassifier(40, random_state=0).fit(X, y, sample_weight=own) for own in (weight, None))
    with pytest.raises(InputError, match="not possible on a cluster"):
        shares_on_a_cluster(drawn, X, y, are_training_rows=True)
    assert shares_on_a_cluster(plain, X, y, are_training_rows=True).is_even
    # Held-out rows are in no bag, whatever the weights, and some labels may have no row.
    fresh, labels = rows(400, 0.3, seed=1)
    for kept in (labels >= 0, labels == 0):
        assert shares_on_a_cluster(drawn, fresh[kept], labels[kept], are_training_rows=False).is_even


def test_labels_that_are_drawn_unevenly_are_weighted_on_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by samplers that balance the bags: nothing but the numbers of members tells how rows were drawn."""
    X, y = rows(800, 0.2)
    forest = RandomForestClassifier(60, class_weight="balanced", random_state=0).fit(X, y)
    monkeypatch.setattr(type(find_adapter(forest)), "left_out_chances", lambda adapter: None)
    found = shares_on_a_cluster(forest, X, y, are_training_rows=True)
    common, rare = analyze(forest, X, y).basis.labels
    assert found.labels == (common, rare)
    by_label = np.bincount(found.evidence.label, found.evidence.weight.total)
    unused = common.n_rows - common.n_usable, rare.n_rows - rare.n_usable
    used = [total - few * basis.weight_factor for total, few, basis in zip(by_label, unused, found.labels, strict=True)]
    np.testing.assert_allclose(used, [common.n_rows, rare.n_rows], rtol=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("n_members", [50, 400])
def test_hard_rows_of_few_members_keep_their_weight_in_the_error(n_members: int) -> None:
    """A rare label is hard and mostly in bag: one distribution for all rows was 0.9 points too low."""
    errors = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        target = (rng.random(1500) < 0.15).astype(int)
        chance = np.where(target == 1, rng.beta(2.0, 2.0, 1500), rng.beta(0.3, 6.0, 1500))
        wrong, in_bag = votes_of(chance, np.where(target == 1, 0.08, 0.5), n_members, seed)
        ensemble = CustomEnsemble(np.where(wrong, 1 - target, target), in_bag, aggregation="vote")
        curve = analyze(ensemble, None, target).error_curve
        errors.append([curve.asymptote - np.mean(chance > 0.5), curve.asymptote])
    bias, error = np.mean(errors, axis=0)
    assert abs(bias) < 3.0 * np.std(errors, axis=0)[0] / np.sqrt(8) + 0.002
    assert 0.07 < error < 0.1


@pytest.mark.slow
@pytest.mark.parametrize(("n_rare", "n_members"), [(100, 40), (300, 20), (60, 100)])
def test_intervals_from_few_members_in_sum_hold_the_error(n_rare: int, n_members: int) -> None:
    """A row of the label has less than two members on average; its errors are of three kinds."""
    held = []
    for seed in range(24):
        rng = np.random.default_rng(seed)
        a, b = ((2.0, 2.0), (4.0, 2.0), (0.5, 0.5))[seed % 3]
        target = np.repeat([0, 1], [7 * n_rare, n_rare])
        chance = np.where(target == 1, rng.beta(a, b, 8 * n_rare), rng.beta(0.3, 6.0, 8 * n_rare))
        wrong, in_bag = votes_of(chance, np.where(target == 1, 0.018, 0.5), n_members, seed)
        ensemble = CustomEnsemble(np.where(wrong, 1 - target, target), in_bag, aggregation="vote")
        curve = analyze(ensemble, None, target, max_size=501).error_curve
        low, high = curve.asymptote_interval
        # The share of the beta distribution's mass above one half.
        truth = 0.875 * beta.sf(0.5, 0.3, 6.0) + 0.125 * beta.sf(0.5, a, b)
        held.append(low <= truth <= high)
    assert np.mean(held) >= 0.9


@pytest.mark.slow
def test_difficulty_tied_to_weight_within_a_label() -> None:
    """The curve has almost no bias where hard rows of a label were drawn less often than its other rows."""
    biases = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        hard, target = rng.random(1500) < 0.2, rng.integers(0, 2, 1500)
        chance = np.where(hard, rng.beta(2.0, 2.0, 1500), rng.beta(0.3, 6.0, 1500))
        wrong, in_bag = votes_of(chance, np.where(hard, 0.08, 0.5), 100, seed)
        ensemble = CustomEnsemble(np.where(wrong, 1 - target, target), in_bag, aggregation="vote")
        biases.append(analyze(ensemble, None, target).error_curve.asymptote - np.mean(chance > 0.5))
    assert abs(np.mean(biases)) < 0.004


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


def test_grow_acts_on_no_doubtful_report(monkeypatch: pytest.MonkeyPatch) -> None:
    from ens_plugin.sizing import grow as growth

    X, y = rows(400, 0.3)
    report = analyze(RandomForestClassifier(50, random_state=0).fit(X, y), X, y)
    doubted = with_doubts(report, "Half of the rows are missing.")
    assert growth._weakness(report) == ""
    assert growth._weakness(doubted) == "Half of the rows are missing."


def test_public_names_are_not_more() -> None:
    assert "row_shares" not in ens_plugin.__all__


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


@pytest.mark.parametrize(("aggregation", "counts"), [("vote", (900, 30)), ("mean_score", (40, 40))])
def test_votes_and_even_labels_are_not_warned_of(aggregation: Any, counts: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], counts)
    scores = rng.normal(2.0 * y - 1.0, 1.5, size=(30, y.size))
    outputs = scores if aggregation == "mean_score" else (scores > 0).astype(int)
    ensemble = CustomEnsemble(outputs, rng.random(outputs.shape) < 0.63, aggregation=aggregation, classes=[0, 1])
    assert not any("rows have label" in text for text in analyze(ensemble, None, y).warnings)
