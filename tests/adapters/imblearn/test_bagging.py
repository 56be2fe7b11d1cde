"""Balanced bagging: bags are what the bootstrap and then the sampler drew; easy ensembles have none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

import ens_plugin
import ens_plugin.adapters
from ens_plugin.errors import BagError, DataMismatchError, UnsupportedModelError
from ens_plugin.testing import check_adapter
from tests.adapters.brute_force import oob_means
from tests.adapters.imblearn.test_forest import CODES, X, Y
from tests.extras import imported

imported("imblearn")
from imblearn.ensemble import BalancedBaggingClassifier, EasyEnsembleClassifier  # noqa: E402
from imblearn.over_sampling import SMOTE, RandomOverSampler  # noqa: E402

# Slow, so that they are run where .ci/run has installed the library.
pytestmark = pytest.mark.slow

KNN = KNeighborsClassifier(3, algorithm="brute")


def fitted(**options: Any) -> Any:
    return BalancedBaggingClassifier(**{"n_estimators": 30, "random_state": 0, **options}).fit(X, Y)


def kept_rows(model: Any) -> list[Any]:
    samples = zip(model.estimators_samples_, model.estimators_, strict=True)
    return [drawn[member[0].sample_indices_] for drawn, member in samples]


FORMS: dict[str, dict[str, Any]] = {
    "default": {},
    "replacement": {"replacement": True},
    "columns": {"max_features": 0.5, "max_samples": 0.5},
    "shallow": {"estimator": DecisionTreeClassifier(max_depth=2)},
}


@pytest.mark.parametrize("options", FORMS.values(), ids=FORMS)
def test_the_contract(options: dict[str, Any]) -> None:
    assert len(check_adapter(fitted(**options), X, Y, samples=kept_rows)) == 17


def test_members_that_are_no_trees_prove_the_target_alone() -> None:
    model = fitted(estimator=KNN)
    assert check_adapter(model, X, Y, samples=kept_rows, proves_rows=False, proves_target=True)


@pytest.mark.parametrize("sampler", [SMOTE(), RandomOverSampler()], ids=lambda sampler: type(sampler).__name__)
def test_all_drawn_rows_are_in_bag_for_a_sampler_that_may_have_used_them(sampler: Any) -> None:
    model = fitted(sampler=sampler)
    assert check_adapter(model, X, Y, samples=lambda model: model.estimators_samples_, proves_rows=False)


def test_the_bags_are_those_that_the_members_were_trained_on() -> None:
    model = fitted(n_estimators=10)
    for bag, rows, member, columns in zip(
        ens_plugin.in_bag(model, X, Y), kept_rows(model), model.estimators_, model.estimators_features_, strict=True
    ):
        again = clone(member[-1]).fit(X[rows][:, columns], CODES[rows])
        np.testing.assert_array_equal(again.predict_proba(X[:, columns]), member.predict_proba(X[:, columns]))
        np.testing.assert_array_equal(np.flatnonzero(bag), np.unique(rows))


@pytest.mark.parametrize("estimator", [None, KNN], ids=["trees", "neighbours"])
def test_out_of_bag_predictions_are_those_of_brute_force(estimator: Any) -> None:
    model = fitted(n_estimators=60, estimator=estimator)
    mean, count = oob_means(kept_rows(model), lambda member, X: model.estimators_[member].predict_proba(X), X)
    found = ens_plugin.oob_predictions(model, X, Y)
    np.testing.assert_array_equal(found.n_members, count)
    np.testing.assert_allclose(found.values, mean, rtol=0, atol=1e-12)


def test_another_target_is_refused_by_the_samplers() -> None:
    model = fitted(estimator=KNN)
    swapped = np.array(Y)
    some = np.flatnonzero(CODES == 0)[:20], np.flatnonzero(CODES == 1)[:20]
    swapped[some[0]], swapped[some[1]] = "yes", "no"
    with pytest.raises(DataMismatchError, match="the sampler of member 0 draws other rows"):
        ens_plugin.analyze(model, X, swapped)


def test_members_added_by_a_warm_start_are_refused() -> None:
    model = fitted(warm_start=True).set_params(n_estimators=40).fit(X, Y)
    with pytest.raises(BagError, match="kept the seeds of the last 10 only"):
        ens_plugin.analyze(model, X, Y)


def test_an_easy_ensemble_is_read_as_the_fitted_models_that_it_holds() -> None:
    model = EasyEnsembleClassifier(n_estimators=10, random_state=0).fit(X[:300], Y[:300])
    with pytest.raises(UnsupportedModelError, match=r"from_estimators\(model\.estimators_, None\)"):
        ens_plugin.analyze(model, X[300:], Y[300:], data="holdout")
    ensemble = ens_plugin.CustomEnsemble.from_estimators(model.estimators_, None, classes=model.classes_)
    report = ens_plugin.analyze(ensemble, X[300:], Y[300:], data="holdout")
    assert report.confusion_matrix().to_numpy().trace() == np.count_nonzero(model.predict(X[300:]) == Y[300:])


class Smoothed(DecisionTreeClassifier):  # type: ignore[misc]
    def predict_proba(self, X: Any, check_input: bool = True) -> Any:
        return 0.7 * super().predict_proba(X, check_input) + 0.1


def test_trees_of_a_subclass_are_read_by_its_methods_and_prove_their_rows() -> None:
    """They were refused, with a message about the type of X that asked for a report of a defect."""
    model = fitted(estimator=Smoothed())
    adapter = ens_plugin.adapters.find_adapter(model)
    mean = adapter.outputs(adapter.prepare(X)).mean(axis=0)
    np.testing.assert_allclose(mean, model.predict_proba(X), atol=1e-12)
    assert ens_plugin.in_bag(model, X, Y).shape == (len(model.estimators_), len(Y))
    with pytest.raises(DataMismatchError, match="not the rows the model was trained on"):
        ens_plugin.in_bag(model, X[::-1])


def test_with_rows_that_samplers_dropped_the_error_is_that_of_fresh_rows() -> None:
    # imbalanced-learn's own out-of-bag score leaves out the members that dropped a row.
    rows, labels = make_classification(12_000, 10, n_informative=6, weights=[0.9], flip_y=0.02, random_state=1)
    apart = []
    for seed in range(12):
        chosen = np.random.default_rng(seed).permutation(len(rows))
        training, fresh = chosen[:800], chosen[800:]
        # Of an even number votes tie, which the report counts as half an error, and the model as the first label.
        model = BalancedBaggingClassifier(n_estimators=11, random_state=seed).fit(rows[training], labels[training])
        report = ens_plugin.analyze(model, rows[training], labels[training])
        apart.append(report.error - (1.0 - model.score(rows[fresh], labels[fresh])))
    standard_error = np.std(apart, ddof=1) / np.sqrt(len(apart))
    assert standard_error < 0.01
    assert abs(np.mean(apart)) < 3.0 * standard_error
