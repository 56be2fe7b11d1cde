"""Growth that ends before the recommended size, and what cannot be grown."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import ens_plugin
from ens_plugin import grow
from ens_plugin.errors import BagError, EnsPluginError, InputError, NotConvergedWarning, UnsupportedModelError
from tests.sizing.grow.cases import TIGHT, X, Y, forest

# Where it stops short.


def test_max_size_says_what_there_is_and_what_it_would_take() -> None:
    with pytest.warns(NotConvergedWarning, match=r"max_size=30, below the size .* which takes \d+ members"):
        growth = grow(forest(), X, Y, max_size=30, **TIGHT)
    probe = ens_plugin.analyze(forest(n_estimators=20).fit(X, Y), X, Y, tolerance=TIGHT["tolerance"])
    assert growth.n_members == len(growth.model.estimators_) == growth.trained_members == 30
    assert not growth.converged
    assert growth.suffices is False
    assert growth.wanted_size == probe.recommended_size > 30
    assert str(probe.recommended_size) in growth.reason


def test_a_size_beyond_all_looked_at_is_not_given_a_number() -> None:
    noise = np.random.default_rng(0).integers(0, 2, 200)
    with pytest.warns(NotConvergedWarning, match="takes more than 20001 members"):
        growth = grow(forest(max_depth=1), X[:200], noise, criterion="agreement", tolerance=0.0001, max_size=60)
    assert growth.wanted_size is None
    assert growth.n_members == 60


@pytest.mark.filterwarnings("ignore:There are only 24 rows:ens_plugin.errors.WeakEstimateWarning")
def test_few_rows_keep_the_probe() -> None:
    rows = np.r_[:12, 19:31]
    with pytest.warns(NotConvergedWarning, match="24 rows are too few"):
        growth = grow(forest(), X[rows], Y[rows])
    assert growth.n_members == 50
    assert not growth.converged
    assert growth.suffices is None
    assert growth.history[0].recommended_size is None


def test_too_few_out_of_bag_members_keep_the_probe() -> None:
    bagging = BaggingClassifier(random_state=0, bootstrap=False, max_samples=0.99)
    with pytest.warns(NotConvergedWarning, match="fewer than 2 out-of-bag members"):
        growth = grow(bagging, X, Y)
    assert growth.report is None
    assert growth.n_members == 50
    assert growth.history[0].error is None


def test_a_metric_that_cannot_be_told_from_chance_keeps_the_probe() -> None:
    rng = np.random.default_rng(0)
    rows, noise = rng.normal(size=(200, 3)), rng.integers(0, 2, 200)
    with pytest.warns(NotConvergedWarning, match="cannot be distinguished from that of chance"):
        growth = grow(forest(), rows, noise, metric="roc_auc")
    assert (growth.n_members, growth.converged, growth.suffices) == (50, False, None)


def test_members_that_all_agree_are_not_needed_twice() -> None:
    rows = np.repeat(np.arange(4.0), 30)[:, None]
    growth = grow(RandomForestRegressor(random_state=0), rows, rows[:, 0])
    assert (growth.n_members, growth.converged) == (1, True)


# Wrong input.


@pytest.mark.parametrize(
    ("estimator", "error", "match"),
    [
        (GradientBoostingClassifier(), UnsupportedModelError, "GradientBoostingClassifier cannot be grown"),
        (LogisticRegression(), UnsupportedModelError, "LogisticRegression cannot be grown"),
        (RandomForestClassifier, UnsupportedModelError, "is the class RandomForestClassifier; pass an ensemble of it"),
        (GridSearchCV(forest(), {}), UnsupportedModelError, "best_estimator_"),
        (make_pipeline(StandardScaler(), LogisticRegression()), UnsupportedModelError, "LogisticRegression"),
        (make_pipeline(LogisticRegression(), forest()), Exception, "transform"),
        (ens_plugin.CustomEnsemble, UnsupportedModelError, "cannot be grown"),
        (None, UnsupportedModelError, "NoneType cannot be grown"),
        (forest(bootstrap=False), BagError, "bootstrap=True"),
        (ExtraTreesClassifier(), BagError, "bootstrap=True"),
        (BaggingClassifier(bootstrap=False), BagError, "bootstrap=False"),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)[:40]),
)
def test_what_cannot_be_grown_is_refused(estimator: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match) as caught:
        grow(estimator, X, Y)
    assert isinstance(caught.value, (EnsPluginError, TypeError))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"criterion": "agreement", "tolerance": 0.5}, "must be below 0.5"),
        ({"tolerance": 0.0}, "tolerance must be"),
        ({"probe_size": 9}, "probe_size must be a whole number of at least 10"),
        ({"max_size": 49}, "max_size=49 is below the 50 members of the probe"),
        ({"max_size": 60.5}, "max_size must be"),
        ({"max_size": 10**10}, "max_size must be a whole number of at most 1000000000"),
        ({"probe_size": 10**30, "max_size": 10**9}, "probe_size must be a whole number of at most 1000000"),
    ],
    ids=str,
)
def test_wrong_options_are_refused_before_anything_is_trained(options: dict[str, Any], match: str) -> None:
    class Untrained(RandomForestClassifier):  # type: ignore[misc]
        def fit(self, *_: Any, **__: Any) -> Any:
            raise AssertionError("trained")

    with pytest.raises(InputError, match=match):
        grow(Untrained(), X, Y, **options)


def test_what_the_other_task_is_asked_by_is_refused() -> None:
    with pytest.raises(InputError, match="predicts values"):
        grow(RandomForestRegressor(), X, Y, criterion="agreement")
    with pytest.raises(InputError, match="criterion must be one of"):
        grow(make_pipeline(StandardScaler(), BaggingClassifier()), X, Y, criterion="accuracy")


def test_what_the_base_refuses_is_refused_in_its_words() -> None:
    broken = X.copy()
    broken[3, 4] = np.inf
    for estimator in (forest(), make_pipeline(StandardScaler(), forest())):
        with pytest.raises(InputError, match="infinity"):
            grow(estimator, broken, Y)


def selection_on_noise() -> tuple[Pipeline, NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(100, 1000)), rng.integers(0, 2, 100)
    return make_pipeline(SelectKBest(k=20), RandomForestClassifier(random_state=0)), X, y


def test_a_size_from_a_report_with_doubts_about_a_step_is_not_used() -> None:
    """The same road as for near-copies: the doubt is the reason, and growth has not converged."""
    pipeline, X, y = selection_on_noise()
    with pytest.warns(NotConvergedWarning, match="no size can be estimated from that: Step 'selectkbest'"):
        growth = ens_plugin.grow(pipeline, X, y)
    assert not growth.converged
    assert growth.history[-1].problem == growth.report.basis.doubts[0]
    with pytest.warns(NotConvergedWarning, match="Step 'selectkbest'"):
        assert not ens_plugin.RightSizedClassifier(pipeline).fit(X, y).growth_.converged


@pytest.mark.slow
def test_few_out_of_bag_members_per_row_keep_the_probe() -> None:
    # The share left out is 0.368: of 13 members 4.8, of 14 5.2.
    with pytest.warns(NotConvergedWarning, match=r"4\.\d out-of-bag members on average, and 5 are needed"):
        growth = grow(forest(), X, Y, probe_size=13)
    assert (growth.n_members, growth.converged) == (13, False)
    assert grow(forest(), X, Y, probe_size=14).converged
