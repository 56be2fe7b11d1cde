"""The bounds of 2004 through the estimator: a majority guesser is naive Bayes without features."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB

from ens_plugin.errors import InputError, TooFewMembersError, UnsupportedModelError
from ens_plugin.papers.model_averaging_2004 import (
    BootstrapModelAveragingClassifier,
    general_sd_bound,
    mean_bound,
    published_sd_bound,
    sd_bound,
)


def averaged(n_estimators: int = 40, seed: int = 0) -> BootstrapModelAveragingClassifier:
    return BootstrapModelAveragingClassifier(GaussianNB(), n_estimators=n_estimators, random_state=seed)


def test_bounds_are_those_of_the_core_number_by_number() -> None:
    X, y = load_iris(return_X_y=True)
    model = averaged().fit(X, y)
    found = model.parameter_bounds("theta_", 0.1)
    theta = np.array([one.theta_ for one in model.estimators_])
    sd = theta.std(axis=0, ddof=1)
    np.testing.assert_allclose(found.mean, theta.mean(axis=0))
    np.testing.assert_allclose(found.sd, sd)
    np.testing.assert_allclose(found.mean_bound, mean_bound(sd, 40, 0.1))
    np.testing.assert_allclose(found.sd_bound, sd_bound(sd, 40, 0.1))
    np.testing.assert_allclose(found.published_sd_bound, published_sd_bound(sd, 40, 150, 0.1))
    assert np.all(found.general_sd_bound >= general_sd_bound(sd, 40, 0.1) - 1e-15)
    assert np.any(found.general_sd_bound > general_sd_bound(sd, 40, 0.1) + 1e-6)
    assert found.n_models == 40


@pytest.mark.slow
def test_bounds_hold_for_the_majority_guesser_and_the_published_one_does_not() -> None:
    """A share bootstrapped from 50 rows: mean 0.5 and sd sqrt(0.25 / 50) are known."""
    y = np.repeat([0, 1], 25)
    X = np.zeros((50, 1))
    X[::2] = 1.0
    exceeded = np.zeros(3)
    for seed in range(60):
        found = averaged(30, seed).fit(X, y).parameter_bounds("class_prior_", 0.2)
        mean_off, sd_off = abs(found.mean[0] - 0.5), abs(found.sd[0] - np.sqrt(0.25 / 50))
        exceeded += [
            mean_off > found.mean_bound[0],
            sd_off > found.sd_bound[0],
            sd_off > found.published_sd_bound[0],
        ]
    assert np.all(exceeded[:2] / 60 <= 0.2)
    assert exceeded[2] / 60 > 0.5


def test_models_without_a_label_are_left_out() -> None:
    X, y = load_iris(return_X_y=True)
    X, y = X[:100], np.r_[7, y[1:100]]
    model = averaged().fit(X, y)
    whole = [one for one in model.estimators_ if len(one.classes_) == 3]
    found = model.parameter_bounds("theta_")
    assert found.n_models == len(whole) < 40
    np.testing.assert_allclose(found.mean, np.mean([one.theta_ for one in whole], axis=0))


def test_what_cannot_be_bounded_is_said() -> None:
    X, y = load_iris(return_X_y=True)
    model = averaged(6).fit(X, y)
    with pytest.raises(UnsupportedModelError, match="no fitted attribute 'coef_'"):
        model.parameter_bounds("coef_")
    with pytest.raises(InputError, match="'priors' is not"):
        BootstrapModelAveragingClassifier(GaussianNB(priors=None), n_estimators=6).fit(
            X, y.astype(str)
        ).parameter_bounds("priors")
    with pytest.raises(InputError, match="delta must lie strictly"):
        model.parameter_bounds("theta_", 0.0)
    with pytest.raises(TooFewMembersError, match="4 of 4 models"):
        averaged(4).fit(X, y).parameter_bounds("theta_")
