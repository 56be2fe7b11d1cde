"""The balanced random forest: bags from its samplers and bootstraps, against trees that are trained again."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import make_classification

import ens_plugin
from ens_plugin.errors import BagError, DataMismatchError, UnsupportedModelError
from ens_plugin.testing import check_adapter
from tests.adapters.brute_force import oob_means
from tests.extras import imported

imported("imblearn")
from imblearn.ensemble import BalancedRandomForestClassifier, RUSBoostClassifier  # noqa: E402

RELEASE = tuple(int(part) for part in sklearn.__version__.split(".")[:2])
# Slow, so that they are run where .ci/run has installed the library.
pytestmark = pytest.mark.slow

X, CODES = make_classification(400, 6, n_informative=4, weights=[0.85], flip_y=0.1, random_state=0)
Y = np.array(["no", "yes"])[CODES]
X3, Y3 = make_classification(300, 6, n_informative=4, n_classes=3, weights=[0.7, 0.2], flip_y=0.1, random_state=1)

FORMS: dict[str, dict[str, Any]] = {
    "default": {},
    "bootstrap": {"bootstrap": True},
    "not the rarest, without replacement": {"bootstrap": True, "replacement": False, "sampling_strategy": "auto"},
    "some rows": {"bootstrap": True, "max_samples": 0.1},
    "number of rows": {"bootstrap": True, "max_samples": 50},
    "shallow": {"max_depth": 3},
    "class weights": {"class_weight": "balanced"},
    "class weights of a bootstrap": {"class_weight": "balanced_subsample", "bootstrap": True},
}


def fitted(X: Any = X, y: Any = Y, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return BalancedRandomForestClassifier(**{"n_estimators": 30, "random_state": 0, **options}).fit(X, y)


def drawn_again(forest: Any, n_rows: int, y: Any) -> list[Any]:
    """The rows of each bag, drawn from the seeds of samplers and trees by NumPy's own functions."""
    bags = []
    for sampler, tree in zip(forest.samplers_, forest.estimators_, strict=True):
        again = clone(sampler)
        kept = np.arange(n_rows)[again.fit_resample(np.arange(n_rows)[:, None], y)[0].ravel()]
        if forest.bootstrap:
            wanted = forest.max_samples
            n_draws = n_rows if wanted is None else int(wanted * n_rows) if isinstance(wanted, float) else wanted
            kept = kept[np.random.RandomState(tree.random_state).randint(0, kept.size, min(n_draws, kept.size))]
        bags.append(kept)
    return bags


@pytest.mark.parametrize("options", FORMS.values(), ids=FORMS)
def test_the_contract(options: dict[str, Any]) -> None:
    forest = fitted(**options)
    promises = check_adapter(forest, X, Y, samples=lambda forest: drawn_again(forest, len(X), CODES))
    assert len(promises) == 17


def test_three_labels() -> None:
    assert check_adapter(fitted(X3, Y3), X3, Y3, samples=lambda forest: drawn_again(forest, len(X3), Y3))


@pytest.mark.parametrize("name", ["default", "bootstrap", "number of rows"])
def test_the_bags_are_those_that_the_trees_were_trained_on(name: str) -> None:
    forest = fitted(**FORMS[name])
    rows = X.astype(np.float32)
    for bag, sampler, tree in zip(ens_plugin.in_bag(forest, X, Y), forest.samplers_, forest.estimators_, strict=True):
        kept = sampler.sample_indices_
        # Copies that share a row are separate rows of the tree's own training, as in the library.
        copies = drawn_copies(forest, tree, kept.size)
        again = clone(tree).fit(rows[kept], CODES[kept], sample_weight=np.bincount(copies, minlength=kept.size))
        np.testing.assert_array_equal(again.predict_proba(X), tree.predict_proba(rows))
        np.testing.assert_array_equal(np.flatnonzero(bag), np.unique(kept[copies]))


def drawn_copies(forest: Any, tree: Any, n_kept: int) -> Any:
    if not forest.bootstrap:
        return np.arange(n_kept)
    n_draws = min(forest.max_samples or len(X), n_kept)
    return np.random.RandomState(tree.random_state).randint(0, n_kept, n_draws)


@pytest.mark.parametrize("name", ["default", "bootstrap", "shallow"])
def test_out_of_bag_predictions_are_those_of_brute_force(name: str) -> None:
    forest = fitted(**FORMS[name], n_estimators=60)
    bags = drawn_again(forest, len(X), CODES)
    rows = X.astype(np.float32)
    mean, count = oob_means(bags, lambda member, _: forest.estimators_[member].predict_proba(rows), X)
    found = ens_plugin.oob_predictions(forest, X, Y)
    np.testing.assert_array_equal(found.n_members, count)
    np.testing.assert_allclose(found.values, mean, rtol=0, atol=1e-12)


def test_the_error_on_pure_noise_is_a_half_where_the_library_s_own_is_0() -> None:
    rng = np.random.default_rng(0)
    noise, labels = rng.normal(size=(600, 5)), rng.integers(0, 2, 600)
    forest = fitted(noise, labels, n_estimators=200, bootstrap=True, replacement=True, oob_score=True)
    assert forest.oob_score_ > 0.99
    report = ens_plugin.analyze(forest, noise, labels)
    assert abs(report.error - 0.5) < 3 * np.sqrt(0.25 / 600)


def test_other_rows_and_targets_are_refused() -> None:
    forest = fitted(bootstrap=True)
    swapped = np.array(Y)
    first, second = np.flatnonzero(CODES == 0)[0], np.flatnonzero(CODES == 1)[0]
    swapped[[first, second]] = swapped[[second, first]]
    with pytest.raises(DataMismatchError, match="not the target the model was trained on"):
        ens_plugin.in_bag(forest, X, swapped)
    with pytest.raises(DataMismatchError, match="rows the model was trained on"):
        ens_plugin.analyze(forest, X, Y, data="holdout")
    shuffled = np.random.default_rng(0).permutation(len(X))
    with pytest.raises(DataMismatchError, match="rows the model was trained on"):
        ens_plugin.analyze(forest, X[shuffled], Y[shuffled], data="holdout")


def test_rows_of_a_label_that_stand_in_every_bag_are_refused() -> None:
    forest = fitted(sampling_strategy="auto", replacement=False, bootstrap=False)
    with pytest.raises(ens_plugin.errors.EnsPluginError, match=r"'yes'"):
        ens_plugin.analyze(forest, X, Y)


@pytest.mark.skipif(RELEASE < (1, 9), reason="scikit-learn draws by weights from 1.9 on")
def test_draws_by_weight_are_refused() -> None:
    forest = fitted(bootstrap=True, class_weight="balanced")
    with pytest.raises(BagError, match=r"class_weight and bootstrap=True.*Pass data=\"holdout\""):
        ens_plugin.analyze(forest, X, Y)


def test_a_subclass_that_trains_otherwise_is_refused() -> None:
    class Own(BalancedRandomForestClassifier):
        def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
            return super().fit(X, y)

    with pytest.raises(UnsupportedModelError, match="Own replaces fit"):
        ens_plugin.analyze(Own(n_estimators=5).fit(X, Y), X, Y)


def test_boosting_is_refused_with_its_reason() -> None:
    with pytest.raises(
        UnsupportedModelError, match=r"RUSBoostClassifier of imblearn\. Members of boosting correct one another"
    ):
        ens_plugin.analyze(RUSBoostClassifier(n_estimators=5, random_state=0).fit(X, Y), X, Y)


def test_grow() -> None:
    growth = ens_plugin.grow(BalancedRandomForestClassifier(random_state=0), X, Y, probe_size=20, tolerance=0.01)
    assert growth.model.n_estimators == growth.n_members > 20
    assert type(growth.model) is BalancedRandomForestClassifier
