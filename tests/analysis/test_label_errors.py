"""Errors by label and the confusion matrix: against known vote distributions, counts by hand, and fresh rows."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import expit
from scipy.stats import binom
from sklearn.datasets import load_wine
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.tree import DecisionTreeClassifier

import ens_plugin
from ens_plugin import CustomEnsemble, EnsembleReport
from ens_plugin.errors import InputError
from tests.extras import draws_by_weight


def votes_and_bags(
    n_rows: tuple[int, int], n_members: int, seed: int
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Hard votes, bags, labels, and the chance with which the members are wrong about each row; label 1 is harder."""
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, 1], n_rows)
    wrong = np.where(labels == 0, rng.beta(1.0, 8.0, labels.size), rng.beta(2.0, 3.0, labels.size))
    votes = np.where(rng.random((n_members, labels.size)) < wrong, 1 - labels, labels)
    return votes.astype(np.int8), rng.random(votes.shape) < 0.632, labels, wrong


def voters(n_rows: tuple[int, int], n_members: int, seed: int) -> tuple[CustomEnsemble, NDArray[Any], NDArray[Any]]:
    votes, bags, labels, wrong = votes_and_bags(n_rows, n_members, seed)
    return CustomEnsemble(votes, bags, aggregation="vote", classes=[0, 1]), labels, wrong


def test_hardly_any_error_has_an_interval_as_of_a_share() -> None:
    """The errors are multiplied to have the report's mean; their standard deviations have to follow."""
    rng = np.random.default_rng(1)
    y = (rng.random(800) < 0.3).astype(int)
    X = rng.standard_normal((800, 2)) + np.outer(y, [7.0, 1.0])
    report = ens_plugin.analyze(RandomForestClassifier(100, random_state=1).fit(X, y), X, y)
    for found in report.label_errors:
        # A share of 0 among n rows has Wilson's limit z^2 / (n + z^2).
        assert found.error < 1e-3
        assert found.interval[1] < 2.0 * 3.84 / (found.n_rows + 3.84)


def test_confusion_matrix_is_that_of_scikit_learns_out_of_bag_probabilities() -> None:
    X, y = load_wine(return_X_y=True)
    forest = RandomForestClassifier(100, oob_score=True, random_state=0).fit(X, y)
    predicted = forest.oob_decision_function_.argmax(axis=1)
    expected = np.zeros((3, 3), dtype=int)
    np.add.at(expected, (y, predicted), 1)
    found = ens_plugin.analyze(forest, X, y).confusion_matrix()
    np.testing.assert_array_equal(found, expected)
    assert found.index.tolist() == found.columns.tolist() == ["0", "1", "2"]
    of_values = ens_plugin.analyze(RandomForestRegressor(30, random_state=0).fit(X, X[:, 0]), X, X[:, 0])
    assert of_values.label_errors == ()
    assert of_values.confusion_matrix().empty


def test_few_rows_have_the_share_of_wrong_labels_and_no_other_size() -> None:
    ensemble, labels, _ = voters((300, 12), 75, 1)
    _, rare = ens_plugin.analyze(ensemble, None, labels).label_errors
    assert rare.n_rows == 12
    assert np.isnan(rare.recommended_error)
    assert np.isnan(rare.asymptote)
    assert rare.error == pytest.approx(rare.predicted[0] / 12, rel=0.2)
    assert rare.interval[1] - rare.interval[0] > 0.3


def test_a_label_without_rows_is_listed() -> None:
    votes, bags, labels, _ = votes_and_bags((300, 300), 75, 1)
    ensemble = CustomEnsemble(votes, bags, aggregation="vote", classes=[0, 1, 2])
    _, _, absent = ens_plugin.analyze(ensemble, None, labels).label_errors
    assert absent.predicted == (0, 0, 0)
    assert np.isnan(absent.error)


@draws_by_weight
@pytest.mark.filterwarnings("ignore::ens_plugin.errors.WeakEstimateWarning")
def test_no_label_has_an_error_where_no_row_has_two_members() -> None:
    rng = np.random.default_rng(11)
    X, y = rng.normal(size=(10, 10)), np.arange(10) % 2
    weight = (rng.random(10) < 0.4).astype(float)
    forest = RandomForestClassifier(2, random_state=11).fit(X, y, sample_weight=weight)
    found = ens_plugin.analyze(forest, X, y, sample_weight=weight).label_errors
    assert all(np.isnan(errors.error) for errors in found)


def test_rows_of_one_group_count_once() -> None:
    votes, bags, labels, _ = votes_and_bags((400, 400), 61, 2)
    copies = [np.repeat(each, 4, axis=-1) for each in (votes, bags, labels, np.arange(800))]
    alone = CustomEnsemble(votes, bags, aggregation="vote", classes=[0, 1])
    ensemble = CustomEnsemble(copies[0], copies[1], aggregation="vote", classes=[0, 1])
    once = ens_plugin.analyze(alone, None, labels).label_errors[0]
    grouped = ens_plugin.analyze(ensemble, None, copies[2], groups=copies[3]).label_errors[0]
    width, expected = (high - low for low, high in (grouped.interval, once.interval))
    assert width == pytest.approx(expected, rel=0.25)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({"error": 1.5}, r"label_errors\[0\]\.error"),
        ({"predicted": [1]}, r"label_errors\[0\].*as many numbers in 'predicted'"),
        ({"predicted": [-1, 3]}, r"label_errors\[0\]\.predicted\[0\]"),
        ({"interval": [0.5, 0.1]}, r"label_errors\[0\]\.interval"),
    ],
)
def test_damaged_errors_are_refused(change: dict[str, Any], found: str) -> None:
    ensemble, labels, _ = voters((300, 300), 25, 1)
    content = ens_plugin.analyze(ensemble, None, labels).to_dict()
    content["label_errors"][0].update(change)
    with pytest.raises(InputError, match=found):
        EnsembleReport.from_json(json.dumps(content))


def gaussians(seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(5).standard_normal((6, 5)) * 1.3
    labels = rng.choice(6, size=21_000, p=[0.4, 0.25, 0.15, 0.1, 0.06, 0.04])
    return centres[labels] + rng.standard_normal((labels.size, 5)), labels


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        RandomForestClassifier(60),
        RandomForestClassifier(60, max_depth=4),
        BaggingClassifier(DecisionTreeClassifier(max_depth=5), n_estimators=61),
    ],
    ids=["full depth", "depth 4", "bagging"],
)
def test_intervals_of_labels_hold_the_error_on_fresh_rows(model: Any) -> None:
    held, differences = [], []
    for seed in range(15):
        features, labels = gaussians(seed)
        fitted = model.set_params(random_state=seed).fit(features[:1000], labels[:1000])
        wrong = fitted.predict(features[1000:]) != labels[1000:]
        truth = np.bincount(labels[1000:], wrong) / np.bincount(labels[1000:])
        found = ens_plugin.analyze(fitted, features[:1000], labels[:1000]).label_errors
        held += [
            low <= true <= high for (low, high), true in zip([each.interval for each in found], truth, strict=True)
        ]
        differences.append([each.error for each in found] - truth)
    assert np.mean(held) >= 0.9
    standard_error = np.std(differences, axis=0) / np.sqrt(15)
    assert np.all(np.abs(np.mean(differences, axis=0)) < 3.5 * standard_error + 0.005)


@pytest.mark.parametrize("n_members", [4, 5, 20])
def test_tied_votes_are_right_for_rows_of_the_first_label_alone(n_members: int) -> None:
    """With four members, the error of the first label came out 14 points too high, and that of the second too low."""
    rng = np.random.default_rng(67)
    target, p = rng.integers(0, 2, 4000), rng.beta(3.0, 4.0, 4000)
    wrong = rng.random((n_members, 4000)) < p
    ensemble = ens_plugin.CustomEnsemble(np.where(wrong, 1 - target, target), None, aggregation="vote")
    found = ens_plugin.analyze(ensemble, None, target, data="holdout").label_errors
    for code, label in enumerate(found):
        # A tie of an even number is half of the members.
        few = (n_members - 1) // 2 if code else n_members // 2
        truth = float(binom.sf(few, n_members, p[target == code]).mean())
        assert label.error == pytest.approx(truth, abs=0.03)


@pytest.mark.parametrize(("n_members", "tolerance"), [(5, 0.03), (301, 0.1)], ids=["more", "fewer"])
def test_errors_at_the_recommended_size_have_the_error_of_the_curve_there_as_mean(
    n_members: int, tolerance: float
) -> None:
    """Where more members are wanted the report's error falls towards its limit, and for fewer it is higher."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], [4800, 1600])
    wrong = np.where(labels == 0, rng.beta(1.0, 3.0, labels.size), rng.beta(2.0, 3.0, labels.size))
    votes = np.where(rng.random((n_members, labels.size)) < wrong, 1 - labels, labels)
    ensemble = CustomEnsemble(votes, None, aggregation="vote", classes=[0, 1])
    report = ens_plugin.analyze(ensemble, None, labels, data="holdout", criterion="agreement", tolerance=tolerance)
    size = report.recommended_size
    assert (size > n_members) == (n_members == 5)
    found = [label.recommended_error for label in report.label_errors]
    assert abs(report.error - report.error_curve.at(size)) > 0.015
    assert np.average(found, weights=[3, 1]) == pytest.approx(report.error_curve.at(size), abs=0.003)
    exact = [float(binom.sf((size - 1) / 2, size, wrong[labels == label]).mean()) for label in (0, 1)]
    assert found == pytest.approx(exact, abs=0.02)


def test_the_interval_of_a_label_allows_for_other_members() -> None:
    """Members are good or bad about all rows alike; by the rows alone, hardly one ensemble in ten would be within."""
    rng = np.random.default_rng(1)

    def wrong_votes(rng: np.random.Generator) -> NDArray[np.bool_]:
        return rng.random((7, 3000)) < expit(rng.normal(-1.5, 1.0, 7))[:, None]

    labels, wrong = np.repeat([0, 1], 1500), wrong_votes(rng)
    ensemble = CustomEnsemble(np.where(wrong, 1 - labels, labels), None, aggregation="vote", classes=[0, 1])
    low, high = ens_plugin.analyze(ensemble, None, labels, data="holdout").label_errors[1].interval
    others = np.array([(wrong_votes(rng).sum(axis=0) > 3)[labels == 1].mean() for _ in range(200)])
    assert np.mean((low <= others) & (others <= high)) > 0.7


@pytest.mark.parametrize(("n_labels", "level"), [(2, 0.8), (2, 0.95), (3, 0.95)])
def test_the_interval_of_certain_votes_is_that_of_a_share_of_fewer_rows(n_labels: int, level: float) -> None:
    """Wilson's, with the standard deviation of a share of as many rows."""
    rng = np.random.default_rng(0)
    labels, wrong = np.repeat(np.arange(n_labels), 1200), np.where(rng.random(1200 * n_labels) < 0.2, 0.97, 0.03)
    votes = np.where(rng.random((25, labels.size)) < wrong, (labels + 1) % n_labels, labels)
    ensemble = CustomEnsemble(votes, None, aggregation="vote", classes=np.arange(n_labels))
    report = ens_plugin.analyze(ensemble, None, labels, data="holdout", interval_level=level)
    n, z = 1200, {0.8: 1.281552, 0.95: 1.959964}[level]
    for found in report.label_errors:
        centre = (found.error + z**2 / (2 * n)) / (1 + z**2 / n)
        half = z / (1 + z**2 / n) * np.sqrt(found.error * (1 - found.error) / n + z**2 / (4 * n**2))
        assert found.interval == pytest.approx((centre - half, centre + half), abs=1e-3)


def test_weights_count_within_a_label_and_between_labels() -> None:
    """A rare label has the weighted share of wrong labels, and the mean over labels is by their weights."""
    votes, _, labels, _ = votes_and_bags((400, 20), 25, 4)
    weight = np.where(labels == 0, 0.5, 1.0)
    rare = np.flatnonzero(labels == 1)
    is_wrong = votes[:, rare].mean(axis=0) < 0.5
    weight[rare] = np.where(is_wrong, 8.0, 1.0)
    ensemble = CustomEnsemble(votes, None, aggregation="vote", classes=[0, 1])
    report = ens_plugin.analyze(ensemble, None, labels, data="holdout", sample_weight=weight)
    share = np.average(is_wrong, weights=weight[rare])
    assert share > 1.5 * is_wrong.mean() > 0.0
    assert report.label_errors[1].error == pytest.approx(share, rel=0.15)
    mean = np.average([found.error for found in report.label_errors], weights=np.bincount(labels, weight))
    assert mean == pytest.approx(report.error, abs=1e-12)


@pytest.mark.fast_cases("1-True")
@pytest.mark.parametrize(("depth", "is_wide"), [(1, True), (5, False)])
def test_the_luck_of_many_members_widens_intervals_where_it_counts(depth: int, is_wide: bool) -> None:
    """Stumps on four columns of the same weight lean to a label; deep trees do not."""
    xgboost = pytest.importorskip("xgboost")
    rng = np.random.default_rng(2)
    X = rng.standard_normal((8000, 8)).astype(np.float32)
    y = (rng.random(8000) < expit(X[:, :4].sum(axis=1))).astype(np.int64)
    model = xgboost.XGBRFClassifier(n_estimators=120, max_depth=depth, n_jobs=1, random_state=0)
    widths = []
    for found in ens_plugin.analyze(model.fit(X, y), X, y).label_errors:
        by_rows = 2.0 * 1.96 * np.sqrt(found.error * (1.0 - found.error) / found.n_rows)
        widths.append((found.interval[1] - found.interval[0]) / by_rows)
    assert min(widths) > 0.99
    assert (max(widths) > 1.5) == is_wide
