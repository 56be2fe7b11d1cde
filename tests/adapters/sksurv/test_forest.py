"""scikit-survival's forests at one time, against the library's own Brier score."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ens_plugin
from ens_plugin.adapters.sksurv import survival_at
from ens_plugin.errors import BagError, DataMismatchError, InputError, UnsupportedModelError
from ens_plugin.testing import check_adapter
from tests.adapters.brute_force import oob_means
from tests.extras import imported

imported("sksurv")
from sksurv.ensemble import ExtraSurvivalTrees, RandomSurvivalForest  # noqa: E402
from sksurv.metrics import brier_score, cumulative_dynamic_auc  # noqa: E402
from sksurv.util import Surv  # noqa: E402

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
    assert len(promises) == 16


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
    with pytest.raises(UnsupportedModelError, match=r"survival_at\(forest, time\)"):
        ens_plugin.analyze(forest, X, Y)
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
