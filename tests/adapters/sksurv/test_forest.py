"""scikit-survival's forests, at one time and by their risk score, against the library's own scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ens_plugin
from ens_plugin.errors import BagError, DataMismatchError, InputError, UnsupportedModelError
from ens_plugin.testing import check_adapter
from tests.adapters.brute_force import oob_means
from tests.extras import imported

imported("sksurv")
from sksurv.ensemble import ExtraSurvivalTrees, RandomSurvivalForest  # noqa: E402
from sksurv.metrics import (  # noqa: E402
    brier_score,
    concordance_index_censored,
    concordance_index_ipcw,
    cumulative_dynamic_auc,
)
from sksurv.util import Surv  # noqa: E402

from ens_plugin.adapters.sksurv import survival_at  # noqa: E402

# Slow, so that they are run where .ci/run has installed the library.
pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)
X = RNG.normal(size=(350, 5))
TIMES, CENSORED = RNG.exponential(np.exp(X[:, 0])), RNG.exponential(2.0, 350)
Y = Surv.from_arrays(TIMES <= CENSORED, np.minimum(TIMES, CENSORED))
TIME = 0.7
FORMS = {
    "default": RandomSurvivalForest(n_estimators=40, random_state=0),
    "half of the rows": RandomSurvivalForest(n_estimators=40, random_state=0, max_samples=0.5, oob_score=True),
    "extra trees": ExtraSurvivalTrees(n_estimators=40, random_state=0, bootstrap=True),
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("time", [TIME, 1e-9], ids=["later", "before the first event"])
def test_the_contract(name: str, time: float) -> None:
    forest = FORMS[name].fit(X, Y)
    promises = check_adapter(
        survival_at(forest, time), X, Y, samples=lambda model: model.forest.estimators_samples_, tolerance=1e-13
    )
    assert len(promises) == 17


def test_out_of_bag_predictions_are_those_of_brute_force() -> None:
    forest = FORMS["default"].fit(X, Y)
    rows = X.astype(np.float32)

    def survival(member: int, _: Any) -> Any:
        return [step(TIME) for step in forest.estimators_[member].predict_survival_function(rows)]

    mean, count = oob_means(forest.estimators_samples_, survival, X)
    found = ens_plugin.oob_predictions(survival_at(forest, TIME), X, Y)
    np.testing.assert_array_equal(found.n_members, count)
    np.testing.assert_allclose(found.values[:, 0], mean, rtol=0, atol=1e-12)


def brier(y: Any, mean_output: Any, sample_weight: Any = None) -> float:
    had_event = np.asarray(y["event"] & (y["time"] <= TIME))
    return float(np.average((mean_output[:, 1] - had_event) ** 2, weights=sample_weight))


def test_the_brier_score_and_the_area_are_the_library_s_own() -> None:
    model = survival_at(RandomSurvivalForest(n_estimators=200, random_state=0).fit(X, Y), TIME)
    beyond = ens_plugin.oob_predictions(model, X, Y).values[:, 0]
    report = ens_plugin.analyze(model, X, Y, metric=brier)
    _, (expected,) = brier_score(Y, Y, beyond[:, None], [TIME])
    # The library divides by the number of rows, this package by the sum of the weights, which has that expectation.
    assert report.error == pytest.approx(expected, rel=0.03)
    (area,), _ = cumulative_dynamic_auc(Y, Y, 1.0 - beyond, [TIME])
    assert ens_plugin.analyze(model, X, Y, metric="roc_auc").error == pytest.approx(area, abs=0.01)


def test_rows_that_were_censored_before_the_time_have_no_weight() -> None:
    model = survival_at(RandomSurvivalForest(n_estimators=100, random_state=0).fit(X, Y), TIME)
    report = ens_plugin.analyze(model, X, Y)
    known = (Y["time"] > TIME) | Y["event"]
    assert report.n_rows == np.count_nonzero(known) < len(Y)
    with pytest.raises(InputError, match="sample_weight"):
        ens_plugin.analyze(model, X, Y, sample_weight=np.ones(3))
    doubled = ens_plugin.analyze(model, X, Y, sample_weight=np.full(len(Y), 2.0))
    assert doubled.error == pytest.approx(report.error, rel=1e-12)


def test_without_censoring_all_rows_count_the_same() -> None:
    y = Surv.from_arrays(np.ones(len(X), dtype=bool), TIMES)
    forest = RandomSurvivalForest(n_estimators=100, random_state=0).fit(X, y)
    report = ens_plugin.analyze(survival_at(forest, TIME), X, y)
    assert report.n_rows == report.basis.n_effective == len(X)


def test_what_is_refused() -> None:
    forest = FORMS["default"].fit(X, Y)
    with pytest.raises(InputError, match=r"0 rows have an event up to time 1e-09.*choose one between"):
        ens_plugin.analyze(survival_at(forest, 1e-9), X, Y)
    with pytest.raises(InputError, match="y is no target of scikit-survival"):
        ens_plugin.analyze(survival_at(forest, TIME), X, TIMES)
    with pytest.raises(InputError, match="not a positive number"):
        survival_at(forest, -1.0)
    with pytest.raises(UnsupportedModelError, match="low_memory=False"):
        ens_plugin.analyze(survival_at(RandomSurvivalForest(5, low_memory=True).fit(X, Y), TIME), X, Y)
    with pytest.raises(BagError, match="without bootstrap"):
        ens_plugin.analyze(survival_at(ExtraSurvivalTrees(5, bootstrap=False).fit(X, Y), TIME), X, Y)
    with pytest.raises(DataMismatchError, match="rows the model was trained on"):
        ens_plugin.analyze(survival_at(forest, TIME), X, Y, data="holdout")


@pytest.mark.parametrize("name", FORMS)
def test_the_contract_of_the_risk_score(name: str) -> None:
    forest = FORMS[name].fit(X, Y)
    promises = check_adapter(forest, X, Y, samples=lambda model: model.estimators_samples_, tolerance=1e-12)
    assert len(promises) == 17 + forest.oob_score


def test_the_loss_of_the_out_of_bag_risk_scores_is_the_library_s_own() -> None:
    forest = RandomSurvivalForest(n_estimators=100, random_state=0, oob_score=True).fit(X, Y)
    found = ens_plugin.oob_predictions(forest, X, Y)
    np.testing.assert_array_equal(found.values, forest.oob_prediction_)
    assert concordance_index_censored(Y["event"], Y["time"], found.values)[0] == forest.oob_score_
    report = ens_plugin.analyze(forest, X, Y)
    assert report.error_curve.metric == report.bias_variance.loss == report.recommendation.of_metric == "1 - C"
    # Of 37 out-of-bag members, the loss is that of an ensemble of about this size.
    assert report.error_curve.at(37) == pytest.approx(1.0 - forest.oob_score_, abs=2e-3)
    assert {found.criterion for found in report.criteria} == {"metric"}


def test_on_held_out_rows_the_loss_is_that_of_the_library_s_score() -> None:
    rows, y = X[250:], Y[250:]
    forest = RandomSurvivalForest(n_estimators=60, random_state=0).fit(X[:250], Y[:250])
    report = ens_plugin.analyze(forest, rows, y, data="holdout")
    assert report.error == pytest.approx(1.0 - forest.score(rows, y), abs=1e-12)
    by_tree = [concordance_index_censored(y["event"], y["time"], tree.predict(rows))[0] for tree in forest.estimators_]
    # The value at one member is a mean over 30 of the 60 trees.
    noise = np.std(by_tree, ddof=1) * np.sqrt(1 / 30 - 1 / 60)
    assert report.error_curve.at(1) == pytest.approx(1.0 - np.mean(by_tree), abs=3.0 * noise)


def test_a_loss_of_the_user_s_takes_the_place_of_the_concordance_index() -> None:
    forest = FORMS["default"].fit(X, Y)

    def ipcw(y: Any, risk: Any) -> float:
        return 1.0 - float(concordance_index_ipcw(Y, y, risk, tau=2.0)[0])

    report = ens_plugin.analyze(forest, X, Y, metric=ipcw)
    expected = ipcw(Y, ens_plugin.oob_predictions(forest, X, Y).values)
    assert report.error_curve.at(15) == pytest.approx(expected, abs=0.01)
    assert report.bias_variance.loss == "ipcw"


def test_low_memory_keeps_the_risk_score() -> None:
    forest, lean = (RandomSurvivalForest(40, random_state=0, low_memory=low).fit(X, Y) for low in (False, True))
    reports = [ens_plugin.analyze(model, X, Y, random_state=0) for model in (forest, lean)]
    assert reports[0].error == pytest.approx(reports[1].error, rel=1e-9)
    assert not any("not proved" in warning for warning in reports[0].warnings)
    assert any("y is not proved" in warning for warning in reports[1].warnings)


def test_forests_of_releases_before_0_24_are_judged_on_held_out_rows() -> None:
    forest = RandomSurvivalForest(40, random_state=0).fit(X[:250], Y[:250])
    del forest._n_samples
    with pytest.raises(BagError, match=r"before 0\.24, so its bags.*data=\"holdout\""):
        ens_plugin.analyze(forest, X[:250], Y[:250])
    report = ens_plugin.analyze(forest, X[250:], Y[250:], data="holdout")
    assert report.error == pytest.approx(1.0 - forest.score(X[250:], Y[250:]), abs=1e-12)


def test_training_rows_of_a_forest_without_bags_are_not_held_out() -> None:
    forest = ExtraSurvivalTrees(20, bootstrap=False, random_state=0).fit(X[:250], Y[:250])
    for model in (forest, survival_at(forest, TIME)):
        with pytest.raises(DataMismatchError, match="rows the model was trained on"):
            ens_plugin.analyze(model, X[:250], Y[:250], data="holdout")
        assert ens_plugin.analyze(model, X[100:], Y[100:], data="holdout").n_members == 20


def test_copies_of_rows_are_doubted() -> None:
    rows, y = np.concatenate([X[:200], X[:40]]), np.concatenate([Y[:200], Y[:40]])
    report = ens_plugin.analyze(RandomSurvivalForest(40, random_state=0).fit(rows, y), rows, y)
    assert any("80 of 240 rows look like copies" in doubt for doubt in report.basis.doubts)


def test_what_else_the_risk_score_refuses() -> None:
    forest = FORMS["default"].fit(X, Y)
    with pytest.raises(InputError, match=r"judged by 1 - C.*criterion='auto'"):
        ens_plugin.analyze(forest, X, Y, criterion="error")
    with pytest.raises(InputError, match="takes no weights"):
        ens_plugin.analyze(forest, X, Y, sample_weight=np.ones(len(Y)))
    with pytest.raises(UnsupportedModelError, match=r"The interval of a prediction.*judged by 1 - C"):
        ens_plugin.predict_with_uncertainty(forest, X, Y, X)
    with pytest.raises(InputError, match="y is no target of scikit-survival"):
        ens_plugin.analyze(forest, X, TIMES)
