"""What each paper's package offers for a fitted model agrees with the functions behind it, and refuses the rest."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import LinearSVC

import ens_plugin
from ens_plugin import errors
from ens_plugin.papers import (
    bagging_error_1996,
    ensemble_size_2013,
    error_curves_2007,
    model_averaging_2004,
    score_tables_2017,
)

PACKAGES = (bagging_error_1996, ensemble_size_2013, error_curves_2007, model_averaging_2004, score_tables_2017)


@pytest.fixture(scope="module")
def patients() -> tuple[Any, Any]:
    return load_breast_cancer(return_X_y=True)


@pytest.fixture(scope="module")
def forest(patients: tuple[Any, Any]) -> RandomForestClassifier:
    return RandomForestClassifier(60, random_state=0).fit(*patients)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_is_there(package: Any) -> None:
    assert all(callable(getattr(package, name)) for name in package.__all__)


def test_estimates_of_1996_agree_with_the_report_of_a_regressor() -> None:
    X, y = load_diabetes(return_X_y=True)
    forest = RandomForestRegressor(80, random_state=0).fit(X, y)
    found = bagging_error_1996.estimate(forest, X, y)
    report = ens_plugin.analyze(forest, X, y)
    assert found.per_set["E2-V2"] == pytest.approx(report.error_curve.asymptote, rel=1e-9)
    assert found.per_set["closed form"] == pytest.approx(report.error, rel=1e-9)
    assert found.per_point == {}


def test_estimates_of_1996_for_a_classifier_are_brier_scores(
    forest: RandomForestClassifier, patients: tuple[Any, Any]
) -> None:
    X, y = patients
    found = bagging_error_1996.estimate(forest, X, y, X[:7])
    oob = RandomForestClassifier(60, oob_score=True, random_state=0).fit(X, y).oob_decision_function_
    # The out-of-bag ensemble has some 22 of 60 members, so its Brier score is a little higher.
    brier = float(np.mean(np.sum((oob - np.eye(2)[y]) ** 2, axis=1)))
    assert found.per_set["closed form"] < brier < 1.3 * found.per_set["closed form"]
    assert {values.shape for values in found.per_point.values()} == {(7,)}
    assert set(found.to_frame()["estimate"]) == set(found.per_set)


def test_test_rows_need_no_target_and_change_what_is_estimated(
    forest: RandomForestClassifier, patients: tuple[Any, Any]
) -> None:
    X, y = patients
    sure = X[forest.predict_proba(X).max(axis=1) > 0.99]
    unsure = X[forest.predict_proba(X).max(axis=1) < 0.9]
    easy, hard = (bagging_error_1996.estimate(forest, X, y, rows).per_set["ratio"] for rows in (sure, unsure))
    assert easy < hard


def test_curves_of_2007_start_at_the_members_own_error(
    forest: RandomForestClassifier, patients: tuple[Any, Any]
) -> None:
    X, y = patients
    found = error_curves_2007.curves(forest, X, y, sizes=[1, 5, np.inf])
    wrong = np.stack([tree.predict(X) != y for tree in forest.estimators_])
    oob = ~ens_plugin.in_bag(forest, X, y)
    assert found.plug_in[0] == pytest.approx(np.mean((wrong & oob).sum(axis=0) / oob.sum(axis=0)))
    assert found.unbiased[0] == pytest.approx(found.plug_in[0])
    assert found.plug_in_bias[0] == pytest.approx(0.0, abs=1e-9)
    assert np.isnan(found.unbiased[2])


def test_estimates_of_1996_exist_for_a_constant_target() -> None:
    X = np.random.default_rng(0).normal(size=(60, 3))
    forest = RandomForestRegressor(30, random_state=0).fit(X, np.ones(60))
    found = bagging_error_1996.estimate(forest, X, np.ones(60), X[:5] + 1.0)
    assert set(found.per_point) == {"conservative", "weighted", "ratio"}
    assert all(value == 0.0 for value in found.per_set.values())


def test_sizes_of_2013_by_hand(forest: RandomForestClassifier, patients: tuple[Any, Any]) -> None:
    X, y = patients
    found = ensemble_size_2013.sizes(forest, X, y, confidence=0.98)
    assert found["error_reduction"] == 50
    assert "mcnemar" not in found.index
    wrong = np.stack([tree.predict(X) != y for tree in forest.estimators_])
    oob = ~ens_plugin.in_bag(forest, X, y)
    share = (wrong & oob).sum(axis=0) / oob.sum(axis=0)
    by_row = ensemble_size_2013.row_sizes(forest, X, y, confidence=0.98)
    np.testing.assert_allclose(by_row["probability"], share)
    assert (by_row["size"][share == 0] == 1).all()
    assert np.isinf(by_row["size"][share == 0.5]).all()


def test_sizes_by_row_name_the_training_rows(patients: tuple[Any, Any]) -> None:
    X, y = patients
    few = RandomForestClassifier(3, random_state=0).fit(X, y)
    oob = ~ens_plugin.in_bag(few, X, y)
    by_row = ensemble_size_2013.row_sizes(few, X, y)
    assert 0 < len(by_row) < len(y)
    assert np.array_equal(by_row.index, np.flatnonzero(oob.any(axis=0)))


@pytest.mark.parametrize("argument", ["X_validation", "y_validation"])
def test_half_of_the_rows_of_mcnemar_is_refused(
    argument: str, forest: RandomForestClassifier, patients: tuple[Any, Any]
) -> None:
    X, y = patients
    with pytest.raises(errors.InputError, match="belong together"):
        ensemble_size_2013.sizes(forest, X, y, **{argument: X if argument == "X_validation" else y})


def test_rows_of_mcnemar_are_not_trained_on(patients: tuple[Any, Any]) -> None:
    X, y = patients
    forest = RandomForestClassifier(51, random_state=0).fit(X[:400], y[:400])
    found = ensemble_size_2013.sizes(forest, X[:400], y[:400], X[400:], y[400:])
    assert found["mcnemar"] in range(1, 52, 2)


def test_bounds_of_probabilities_stand_label_by_label() -> None:
    X, y = load_iris(return_X_y=True)
    forest = RandomForestClassifier(20, max_depth=2, random_state=0).fit(X, y)
    found = model_averaging_2004.bounds(forest, X[:4])
    assert found.shape == (12, 6)
    np.testing.assert_allclose(found["mean"].to_numpy().reshape(4, 3), forest.predict_proba(X[:4]))


@pytest.fixture(scope="module")
def leafy(patients: tuple[Any, Any]) -> RandomForestClassifier:
    return RandomForestClassifier(60, min_samples_leaf=8, random_state=0).fit(*patients)


def out_of_bag_truth(forest: RandomForestClassifier, X: Any, y: Any) -> tuple[Any, Any]:
    """Each tree's probabilities of the true labels, and which rows are out of bag for it."""
    truth = np.stack([tree.predict_proba(X)[np.arange(y.size), y] for tree in forest.estimators_])
    return truth, ~ens_plugin.in_bag(forest, X, y)


@pytest.mark.parametrize("loss", ["zero_one", "squared"])
def test_tables_of_2017_meet_the_members_own_loss_at_size_one(
    loss: str, leafy: RandomForestClassifier, patients: tuple[Any, Any]
) -> None:
    found = score_tables_2017.score_errors(leafy, *patients, sizes=[1, 60], loss=loss)
    truth, oob = out_of_bag_truth(leafy, *patients)
    own = truth < 0.5 if loss == "zero_one" else 2.0 * (1.0 - truth) ** 2
    mean = float(np.mean((own * oob).sum(axis=0) / oob.sum(axis=0)))
    assert found.shrunken_beta[0] == pytest.approx(mean, rel=0.15)
    for name in ("normal", "plug_in", "shrunken", "shrunken_beta"):
        assert found[name][1] < found[name][0]


def test_a_log_loss_of_rows_beyond_the_tables_is_said(leafy: RandomForestClassifier, patients: tuple[Any, Any]) -> None:
    with pytest.warns(errors.EnsPluginWarning, match=r"1 of 569 rows got no probability.*Trust shrunken_beta") as said:
        found = score_tables_2017.score_errors(leafy, *patients, sizes=[1, 60], loss="log")
    assert len(said) == 1
    assert said[0].filename == __file__
    assert "fewer than about 11 members are too low" in str(said[0].message)
    assert (found.shrunken_beta < found.plug_in)[1]
    assert (found.iloc[1, 1:] < found.iloc[0, 1:]).all()


def test_a_log_loss_of_few_members_beyond_the_widest_spread_is_said(patients: tuple[Any, Any]) -> None:
    X, y = patients
    forest = RandomForestClassifier(25, min_samples_leaf=5, random_state=0).fit(X, y)
    with pytest.warns(errors.EnsPluginWarning, match=r"29 rows vary more.*spread of 8"):
        score_tables_2017.score_errors(forest, X, y, sizes=[1], loss="log")
    with pytest.warns(errors.EnsPluginWarning, match="2 of 569 rows") as said:
        score_tables_2017.score_errors(forest, X, y, sizes=[101], loss="log")
    assert "few" not in str(said[0].message)


def test_mean_scores_have_normal_fits_alone_and_say_that_certain_members_have_none(
    leafy: RandomForestClassifier, patients: tuple[Any, Any]
) -> None:
    with pytest.warns(errors.EnsPluginWarning, match=r"0 or 1.*none is to be trusted"):
        found = score_tables_2017.score_errors(leafy, *patients, sizes=[1, 60], aggregation="mean_score")
    assert list(found.columns) == ["size", "normal", "normal_pair", "shrunken"]


@pytest.mark.parametrize("size", [1, 11])
@pytest.mark.parametrize("loss", ["zero_one", "squared"])
def test_the_variance_of_a_rows_loss_is_that_of_the_members_means(
    loss: str, size: int, leafy: RandomForestClassifier, patients: tuple[Any, Any]
) -> None:
    truth, oob = out_of_bag_truth(leafy, *patients)
    rng = np.random.default_rng(size)
    variances = []
    for row in range(truth.shape[1]):
        mean = rng.choice(truth[oob[:, row], row], (400, size)).mean(axis=1)
        losses = (np.sign(0.5 - mean) + 1.0) / 2.0 if loss == "zero_one" else 2.0 * (1.0 - mean) ** 2
        variances.append(losses.var())
    found = score_tables_2017.score_variances(leafy, *patients, sizes=[size], loss=loss)
    for name in ("plug_in", "shrunken"):
        assert found[name][0] == pytest.approx(np.mean(variances), rel=0.15)


@pytest.mark.parametrize("aggregation", ["mean_proba", "mean_score"])
def test_bias_and_variance_of_2017_have_the_error_as_their_sum(
    aggregation: str, leafy: RandomForestClassifier, patients: tuple[Any, Any]
) -> None:
    options: dict[str, Any] = {"sizes": [1, 11, 101], "loss": "squared", "aggregation": aggregation}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.EnsPluginWarning)
        found = score_tables_2017.score_components(leafy, *patients, **options)
        total = score_tables_2017.score_errors(leafy, *patients, **options)
    for name, part in found[found.fit != "closed_form"].groupby("fit"):
        np.testing.assert_allclose(part.bias + part.variance, total[name], atol=1e-9)
    closed = found[found.fit == "closed_form"]
    np.testing.assert_allclose(closed.bias + closed.variance, total.normal, atol=0.06)
    with pytest.raises(errors.InputError, match="0-1 loss"):
        score_tables_2017.score_components(leafy, *patients, loss="zero_one")


def test_the_log_loss_of_2017_takes_many_labels() -> None:
    X, y = load_iris(return_X_y=True)
    forest = RandomForestClassifier(100, min_samples_leaf=15, random_state=0).fit(X, y)
    truth, oob = out_of_bag_truth(forest, X, y)
    limit = -np.log((truth * oob).sum(axis=0) / oob.sum(axis=0)).mean()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.EnsPluginWarning)
        found = score_tables_2017.score_errors(forest, X, y, sizes=[11, np.inf], loss="log")
        scores = score_tables_2017.score_errors(forest, X, y, sizes=[11], loss="log", aggregation="mean_score")
    assert found.plug_in[1] == pytest.approx(limit, rel=1e-3)
    assert found.normal[1] == pytest.approx(limit, rel=0.3)
    assert (found.shrunken_beta[0] > found.shrunken_beta)[1]
    assert np.isfinite(scores.to_numpy()).all()
    with pytest.raises(errors.UnsupportedModelError, match="3 labels"):
        score_tables_2017.score_components(forest, X, y)


def test_what_a_paper_is_not_about_is_refused(forest: RandomForestClassifier, patients: tuple[Any, Any]) -> None:
    X, y = patients
    flowers, kinds = load_iris(return_X_y=True)
    three = RandomForestClassifier(20, random_state=0).fit(flowers, kinds)
    regressor = RandomForestRegressor(20, random_state=0).fit(X, y)
    votes = BaggingClassifier(LinearSVC(), 10, random_state=0).fit(X, y)
    for call in (error_curves_2007.curves, ensemble_size_2013.sizes, score_tables_2017.score_errors):
        with pytest.raises(errors.UnsupportedModelError, match="3 labels"):
            call(three, flowers, kinds)
        with pytest.raises(errors.UnsupportedModelError, match=r"regressor|no labels"):
            call(regressor, X, y)
    with pytest.raises(errors.InputError, match="vote"):
        model_averaging_2004.bounds(votes, X)
    with pytest.raises(errors.DataMismatchError):
        bagging_error_1996.estimate(forest, X[:-1], y[:-1])


def test_what_is_returned_is_a_few_lines_of_text(forest: RandomForestClassifier, patients: tuple[Any, Any]) -> None:
    X, y = patients
    averaged = model_averaging_2004.BootstrapModelAveragingClassifier(n_estimators=10, random_state=0).fit(X, y)
    design = score_tables_2017.design_bites(GaussianNB(), X, y, [1, 11], [0.1, 0.3], random_state=0)
    for found in (
        bagging_error_1996.estimate(forest, X, y, X),
        averaged.score_regions(X),
        averaged.parameter_bounds("theta_"),
        score_tables_2017.tables(),
        design,
        design.best,
    ):
        text = repr(found)
        assert text.startswith(type(found).__name__)
        assert "array(" not in text
        assert len(text.splitlines()) <= 13


def test_a_design_is_a_table_of_its_options(patients: tuple[Any, Any]) -> None:
    design = score_tables_2017.design_bites(GaussianNB(), *patients, [1, 11], [0.1, 0.3], random_state=0)
    table = design.to_frame()
    assert table["bite_rows"].tolist() == [option.bite_rows for option in design.options]
    assert table["recommended_loss"].min() == design.best.recommended_loss


def test_one_estimate_of_1996_is_to_use_for_each_kind_of_row(
    forest: RandomForestClassifier, patients: tuple[Any, Any]
) -> None:
    X, y = patients
    for test_rows, best in ((None, ["closed form"]), (X, ["ratio", "closed form"])):
        table = bagging_error_1996.estimate(forest, X, y, test_rows).to_frame()
        assert table.estimate[table.remark.str.startswith("to use")].tolist() == best


@pytest.mark.slow
def test_bounds_of_2004_hold_for_a_larger_forest() -> None:
    X, y = load_diabetes(return_X_y=True)
    few = RandomForestRegressor(20, random_state=0).fit(X, y)
    many = RandomForestRegressor(600, random_state=1).fit(X, y)
    found = model_averaging_2004.bounds(few, X, delta=0.05)
    distance = np.abs(found["mean"] - many.predict(X))
    assert np.mean(distance > found["mean_bound"]) < 0.05
