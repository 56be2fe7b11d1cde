"""The recommended size by every criterion, and which one is chosen."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, make_classification
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import brier_score_loss

import ens_plugin
from ens_plugin.errors import InputError
from tests.forests import CANCER, cancer, digits

CRITERIA = ("agreement", "excess_error", "probability")


def by_name(report: ens_plugin.EnsembleReport) -> dict[str, ens_plugin.SizeRecommendation]:
    return {found.criterion: found for found in report.criteria}


@pytest.mark.fast_cases("cancer")
@pytest.mark.parametrize("problem", [cancer, digits])
def test_a_classifier_has_a_size_by_each_criterion_and_needs_good_probabilities(problem: Any) -> None:
    report = ens_plugin.analyze(*problem())
    assert tuple(found.criterion for found in report.criteria) == CRITERIA
    assert report.recommendation is by_name(report)["probability"]
    assert len({found.agreement for found in report.criteria}) == 1


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"confidence": 0.95}, "agreement"),
        ({"criterion": "agreement"}, "agreement"),
        ({"criterion": "error"}, "excess_error"),
        ({"criterion": "probability", "confidence": 0.95}, "probability"),
        ({"tolerance": 0.05}, "probability"),
    ],
)
def test_the_criterion_that_was_wanted(options: dict[str, Any], expected: str) -> None:
    report = ens_plugin.analyze(*cancer(), **options)
    assert report.recommendation.criterion == expected
    assert by_name(report)["agreement"].confidence == options.get("confidence", 0.99)
    assert by_name(report)["probability"].tolerance == options.get("tolerance", 0.005)
    assert by_name(report)["excess_error"].tolerance == options.get("tolerance", 0.01)


def test_values_have_the_excess_error_alone() -> None:
    X, y = load_diabetes(return_X_y=True)
    report = ens_plugin.analyze(RandomForestRegressor(50, random_state=0).fit(X, y), X, y)
    assert [found.criterion for found in report.criteria] == ["excess_error"]
    assert report.recommendation is report.criteria[0]


@pytest.mark.parametrize("criterion", ["agreement", "probability"])
def test_a_criterion_about_labels_is_refused_for_values(criterion: str) -> None:
    X, y = load_diabetes(return_X_y=True)
    forest = RandomForestRegressor(20, random_state=0).fit(X, y)
    with pytest.raises(InputError, match="predicts values"):
        ens_plugin.analyze(forest, X, y, criterion=criterion)


@pytest.mark.parametrize("criterion", ["accuracy", None, 3, ["agreement"]])
def test_an_unknown_criterion_is_refused_with_the_known_ones(criterion: Any) -> None:
    with pytest.raises(InputError, match="'auto', 'agreement', 'error', 'probability'"):
        ens_plugin.analyze(*cancer(), criterion=criterion)


@pytest.mark.slow
def test_the_brier_score_within_the_tolerance_is_that_of_many_more_trees() -> None:
    """The size from 100 trees, against out-of-bag probabilities of 1500 others."""
    X, y = CANCER
    large = RandomForestClassifier(1600, random_state=1).fit(X, y)
    in_bag = ens_plugin.in_bag(large, X, y)
    outputs = np.stack([tree.predict_proba(X)[:, 1] for tree in large.estimators_])

    def mean_brier(members: slice) -> float:
        counted = ~in_bag[members]
        mean = (outputs[members] * counted).sum(axis=0) / counted.sum(axis=0)
        return float(brier_score_loss(y, mean))

    first = ens_plugin.truncate(large, 100)
    found = by_name(ens_plugin.analyze(first, X, y, tolerance=0.02))["probability"]
    assert found.size is not None
    members = round(found.size / 0.368)  # so many out-of-bag members of a row make an ensemble of that size
    limit = mean_brier(slice(100, 1600))
    # An ensemble of 1500 has an excess of its own, of a row's 552 out-of-bag members.
    limit /= 1.0 + 0.02 * found.size / 552.0
    excess = [mean_brier(slice(start, start + members)) / limit - 1.0 for start in range(100, 1600 - members, members)]
    assert np.mean(excess) == pytest.approx(0.02, abs=3.0 * float(np.std(excess)) / math.sqrt(len(excess)) + 0.004)


def test_equal_rows_and_groups_widen_the_interval_of_the_size() -> None:
    X, y = CANCER
    forest = RandomForestClassifier(60, random_state=0).fit(X, y)
    alone = by_name(ens_plugin.analyze(forest, X, y))["probability"]
    grouped = by_name(ens_plugin.analyze(forest, X, y, data="oob", groups=np.arange(y.size) // 2))["probability"]

    def width(found: ens_plugin.SizeRecommendation) -> float:
        assert found.interval[1] is not None
        return math.log(found.interval[1] / found.interval[0])

    assert width(grouped) > 0.8 * width(alone)
    assert grouped.size is not None


def test_copies_of_rows_that_are_grouped_leave_the_interval_of_the_size_as_it_is() -> None:
    """Without groups, four copies of each row would halve it."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 300)
    second = np.clip(0.3 + 0.4 * y + rng.normal(0.0, 0.15, 300) + rng.normal(0.0, 0.25, (40, 300)), 0.0, 1.0)

    def width(n_copies: int, groups: Any) -> float:
        own, target = np.repeat(second, n_copies, axis=1), np.repeat(y, n_copies)
        ensemble = ens_plugin.CustomEnsemble(np.stack([1.0 - own, own], axis=2), None, aggregation="mean_proba")
        found = by_name(ens_plugin.analyze(ensemble, None, target, data="holdout", groups=groups))["probability"]
        assert found.interval[1] is not None
        return math.log(found.interval[1] / found.interval[0])

    assert width(4, np.repeat(np.arange(300), 4)) == pytest.approx(width(1, None), rel=0.2)
    assert width(4, None) < 0.7 * width(1, None)


@pytest.mark.parametrize(("chances", "is_known"), [((0.35,), False), ((0.5, 0.35), True)])
def test_the_brier_score_of_one_undecided_row_is_the_least_that_a_size_is_relative_to(
    chances: tuple[float, ...], is_known: bool
) -> None:
    """A quarter for two labels; rows with these chances of a wrong vote, of 300, have 0.12, and 0.12 and 0.25."""
    rng = np.random.default_rng(0)
    y, wrong = np.tile([0, 1], 150), np.append(chances, np.zeros(300 - len(chances)))
    votes = np.where(rng.random((400, 300)) < wrong, 1 - y, y)
    ensemble = ens_plugin.CustomEnsemble(votes, None, aggregation="vote", classes=[0, 1])
    assert by_name(ens_plugin.analyze(ensemble, None, y, data="holdout"))["probability"].has_interval == is_known


def test_scores_that_are_no_probabilities_leave_the_other_criteria() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    scores = 3.0 * (y - 0.5) + 4.0 * rng.standard_normal((40, 200))
    outputs = np.stack([-scores, scores], axis=2)
    ensemble = ens_plugin.CustomEnsemble(
        outputs, rng.random((40, 200)) < 0.6, aggregation="mean_score", classes=np.array([0, 1])
    )
    report = ens_plugin.analyze(ensemble, None, y)
    assert "probability" not in by_name(report)
    assert report.recommendation.has_interval


def test_probabilities_without_error_leave_the_choice_to_another_criterion() -> None:
    y = np.tile([0, 1], 60)
    votes = np.tile(y.astype(np.int8), (20, 1))
    in_bag = np.random.default_rng(0).random((20, 120)) < 0.6
    report = ens_plugin.analyze(ens_plugin.CustomEnsemble(votes, in_bag, aggregation="vote", classes=[0, 1]), None, y)
    assert not by_name(report)["probability"].is_known
    assert report.recommendation.criterion == "agreement"
    wanted = ens_plugin.analyze(
        ens_plugin.CustomEnsemble(votes, in_bag, aggregation="vote", classes=[0, 1]), None, y, criterion="probability"
    )
    assert not wanted.recommendation.is_known


def test_an_agreement_warns_of_a_rare_label() -> None:
    X, y = make_classification(600, weights=[0.96], flip_y=0.0, random_state=0)
    forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    warning = "hardly depends on it"
    assert any(warning in text for text in ens_plugin.analyze(forest, X, y, criterion="agreement").warnings)
    assert not any(warning in text for text in ens_plugin.analyze(forest, X, y).warnings)
    assert not any(warning in text for text in ens_plugin.analyze(*cancer(), criterion="agreement").warnings)
    # A label of 13 % of the rows is more than ten times as frequent as the disagreement of 1 %.
    X, y = make_classification(600, weights=[0.87], flip_y=0.0, random_state=0)
    forest = RandomForestClassifier(100, random_state=0).fit(X, y)
    assert not any(warning in text for text in ens_plugin.analyze(forest, X, y, criterion="agreement").warnings)


@pytest.mark.slow
def test_votes_of_a_bagging_ensemble_have_shares_of_votes_as_probabilities() -> None:
    X, y = load_iris(return_X_y=True)
    model = BaggingClassifier(n_estimators=60, random_state=0).fit(X, y)
    assert by_name(ens_plugin.analyze(model, X, y))["probability"].has_interval


@pytest.mark.slow
def test_the_headline_tells_what_fewer_members_cost() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    report = ens_plugin.analyze(RandomForestClassifier(500, random_state=0).fit(X, y), X, y)
    size = report.recommended_size
    here, there = (f"{100 * (1 - report.error_curve.at(n)):.1f} %" for n in (500, size or 0))
    headline = " ".join(report.summary().split()[:22])
    assert (
        f"500 trees are enough for probabilities, and so are {size}. Accuracy on new rows: {here} with 500" in headline
    )
    assert there in headline


def test_the_summary_lists_every_criterion_within_80_columns() -> None:
    text = ens_plugin.analyze(*digits()).summary()
    for name in ("99 % of labels as at limit", "error 1 % above limit", "probabilities 0.5 % above limit"):
        assert name in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_report_of_an_earlier_version_has_no_criteria() -> None:
    report = ens_plugin.analyze(*cancer())
    content = report.to_dict()
    del content["criteria"]
    read = ens_plugin.EnsembleReport.from_json(json.dumps(content))
    assert read.criteria == ()
    assert "99 % of labels as at limit" not in read.summary()


def test_criteria_survive_the_round_trip() -> None:
    report = ens_plugin.analyze(*cancer())
    read = ens_plugin.EnsembleReport.from_json(report.to_json())
    assert [found.interval for found in read.criteria] == [found.interval for found in report.criteria]
    forged = replace(report, criteria=(replace(report.criteria[0], interval=(9, 3)),))
    with pytest.raises(InputError, match="criteria"):
        ens_plugin.EnsembleReport.from_json(forged.to_json())


@pytest.mark.parametrize(("gap", "n_members"), [(2.0, 100), (4.0, 50), (20.0, 50)])
def test_separated_labels_are_sized_by_the_labels_and_not_relative_to_a_loss_of_rounding(
    gap: float, n_members: int
) -> None:
    """The infinite ensemble's error and Brier score are below those of one undecided row among these."""
    rng = np.random.default_rng(3)
    y = np.repeat([0, 1], 150)
    X = 0.3 * rng.standard_normal((300, 5)) + gap * y[:, None]
    forest = ExtraTreesClassifier(n_members, bootstrap=True, random_state=1).fit(X, y)
    report = ens_plugin.analyze(forest, X, y)
    assert report.error_curve.asymptote < 0.5 / 300
    assert report.recommendation.criterion == "agreement"
    low, high = report.recommendation.interval
    assert low <= 5
    if high is not None and high <= n_members:
        assert "far more than needed" in report.summary()
    for criterion in ("excess_error", "probability"):
        assert not by_name(report)[criterion].is_known
        assert "cannot be distinguished from 0" in by_name(report)[criterion].reason


def test_labels_without_error_take_no_thousands_of_members() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 5))
    y = (X[:, 0] > 0).astype(int)
    X[:, 0] += np.where(y, 0.5, -0.5)
    for n_members in (40, 150):
        report = ens_plugin.analyze(RandomForestClassifier(n_members, random_state=0).fit(X, y), X, y)
        assert report.error < 1e-4
        sizes = by_name(report)
        assert not sizes["probability"].is_known
        assert not sizes["excess_error"].is_known
        assert report.recommendation is sizes["agreement"]
        assert "far more than needed" in report.summary()


def test_a_size_is_stated_where_its_interval_ends_below_four_times_its_beginning() -> None:
    """Of 200 rows, 1 % of an error of about .2 is less than one row, so that the size depends on single rows."""
    X, y = make_classification(200, 8, flip_y=0.3, random_state=0)
    forest = RandomForestClassifier(100, min_samples_leaf=3, random_state=0).fit(X, y)
    found = ens_plugin.analyze(forest, X, y, criterion="error")
    low, high = found.recommendation.interval
    assert high is None or high > 4 * low
    assert found.recommended_size is None
    assert not found.is_actionable
    assert "recommended_size" not in found.metrics()
    assert "cannot be told from these rows" in found.recommendation.reason
    for report in (found, ens_plugin.EnsembleReport.from_json(found.to_json())):
        assert "Recommended size: cannot be told from these rows" in report.details()
        for each in report.criteria:
            begin, end = each.interval
            assert (each.size is not None) == (end is not None and end <= 4 * begin)


def test_the_criterion_that_is_chosen_has_a_size_unless_one_was_named() -> None:
    X, y = CANCER
    forest = RandomForestClassifier(50, random_state=0).fit(X, y)
    report = ens_plugin.analyze(forest, X, y)
    assert by_name(report)["agreement"].size is None
    assert (report.recommendation.criterion, report.is_actionable) == ("probability", True)
    for named in ({"criterion": "agreement"}, {"confidence": 0.99}):
        asked = ens_plugin.analyze(forest, X, y, **named)
        assert asked.recommendation.criterion == "agreement"
        assert asked.recommended_size is None


@pytest.mark.parametrize(("n_members", "verdict"), [(10, "are too few"), (60, "cannot be told"), (900, "are enough")])
def test_members_outside_of_the_interval_are_judged_though_no_size_is_told(n_members: int, verdict: str) -> None:
    report = ens_plugin.analyze(*cancer())
    untold = replace(report.recommendation, size=None, interval=(40, 800), agreement=0.97)
    assert verdict in replace(report, recommendation=untold, n_members=n_members).summary()


@pytest.mark.slow
def test_sizes_of_many_labels_hold_those_of_other_seeds() -> None:
    """By the error, intervals held a quarter of the other seeds' sizes, because the shift for rivals is noisy."""
    rng = np.random.default_rng(5)
    centres, y = 1.4 * rng.standard_normal((12, 6)), rng.integers(0, 12, 1500)
    X = centres[y] + rng.standard_normal((1500, 6))
    reports = [ens_plugin.analyze(RandomForestClassifier(100, random_state=seed).fit(X, y), X, y) for seed in range(8)]
    for criterion in ("agreement", "excess_error", "probability"):
        found = [by_name(report)[criterion] for report in reports]
        pairs = [(one, other) for one in found for other in found if one is not other and one.size and other.size]
        held = [one.interval[0] <= other.size <= (one.interval[1] or math.inf) for one, other in pairs]
        assert len(held) <= 6 or np.mean(held) >= 0.9
