"""EconML's regression forest, whose members are groups of trees that share half of the rows."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import ens_plugin
from ens_plugin.errors import DataMismatchError, InputError, UnsupportedModelError
from ens_plugin.testing import check_adapter
from tests.adapters.brute_force import oob_means
from tests.extras import imported

imported("econml")
from econml.grf import RegressionForest  # noqa: E402

# Slow, so that they are run where .ci/run has installed the library.
pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)
X = RNG.normal(size=(250, 5))
Y = X[:, 0] + RNG.normal(size=250)
WEIGHTS = RNG.integers(1, 4, 250).astype(float)
FORMS: dict[str, dict[str, Any]] = {
    "default": {},
    "larger groups": {"subforest_size": 8, "max_samples": 0.3},
    "single trees": {"inference": False},
    "not honest": {"inference": False, "honest": False, "max_samples": 0.8},
}


def fitted(weight: Any = None, **options: Any) -> Any:
    return RegressionForest(**{"n_estimators": 80, "random_state": 0, **options}).fit(X, Y, sample_weight=weight)


def groups(forest: Any) -> list[list[int]]:
    return [list(group) for group in forest.slices_] or [[tree] for tree in range(len(forest.estimators_))]


def bags(forest: Any) -> list[Any]:
    drawn = forest.get_subsample_inds()
    return [np.concatenate([drawn[tree] for tree in group]) for group in groups(forest)]


def values(forest: Any, X: Any) -> Any:
    return forest.predict(X)[:, 0]


@pytest.mark.parametrize("options", FORMS.values(), ids=FORMS)
def test_the_contract(options: dict[str, Any]) -> None:
    assert len(check_adapter(fitted(**options), X, Y, samples=bags, predict=values, tolerance=1e-12)) == 17


def test_weights_keep_the_rows_proved_and_the_target_not() -> None:
    forest = fitted(WEIGHTS)
    assert check_adapter(forest, X, Y, samples=bags, predict=values, tolerance=1e-12, proves_target=False)
    assert any("y is not proved" in warning for warning in ens_plugin.analyze(forest, X, Y).warnings)


@pytest.mark.parametrize("name", FORMS)
def test_out_of_bag_predictions_are_those_of_brute_force(name: str) -> None:
    forest = fitted(**FORMS[name])
    trees = groups(forest)

    def by_group(member: int, X: Any) -> Any:
        return np.mean([forest.estimators_[tree].predict(X)[:, 0] for tree in trees[member]], axis=0)

    mean, count = oob_means(bags(forest), by_group, X)
    found = ens_plugin.oob_predictions(forest, X, Y)
    np.testing.assert_array_equal(found.n_members, count)
    np.testing.assert_allclose(found.values, mean, rtol=0, atol=1e-12, equal_nan=True)


def test_single_trees_agree_with_the_library_s_own_out_of_bag_predictions() -> None:
    forest = fitted(inference=False)
    own = forest.oob_predict(X)[:, 0]
    np.testing.assert_allclose(ens_plugin.oob_predictions(forest, X, Y).values, own, rtol=0, atol=1e-12)


def test_a_member_is_a_group_of_trees_and_the_report_states_it() -> None:
    report = ens_plugin.analyze(fitted(n_estimators=200), X, Y)
    assert report.n_members == 50
    assert any("50 members are 200 trees" in warning for warning in report.warnings)
    small = ens_plugin.truncate(fitted(n_estimators=200), 5)
    assert small.n_estimators == len(small.estimators_) == 20
    np.testing.assert_allclose(values(small, X), values(fitted(n_estimators=20), X), rtol=0, atol=1e-12)


@pytest.mark.parametrize("wanted", [{"top": 25}, {"within": "20 %"}])
def test_lists_and_values_count_groups(wanted: dict[str, Any]) -> None:
    """A list counted groups as trees, so that whoever set n_estimators to its size had a fourth of what is needed."""
    found = ens_plugin.agreement(fitted(n_estimators=100), X, **wanted)
    caution, text = [" ".join(part.split()) for part in str(found).split("[grouped-trees]")]
    assert "25 members are 100 trees" in caution
    assert "25 groups of 4 trees" in text
    assert "groups of 4 trees are needed" in text
    assert "tree" not in re.sub("groups of 4 trees", "", text)
    assert found.plot().get_xlabel() == "Ensemble size (groups of 4 trees)"
    assert "an ensemble of 25 groups of 4 trees" in found.to_html()
    assert "grouped-trees" not in str(ens_plugin.agreement(fitted(inference=False), X, **wanted))


def test_trees_of_a_group_resemble_each_other_more_than_those_of_two() -> None:
    """Why a member is a group: by trees, the variance at every size would come out too small."""
    forest = fitted(n_estimators=400)
    outputs = np.array([tree.predict(X)[:, 0] for tree in forest.estimators_]).reshape(100, 4, -1)
    centred = outputs - outputs.mean(axis=(0, 1))
    within = np.mean([centred[:, a] * centred[:, b] for a in range(4) for b in range(a)])
    assert within > 0.1 * np.mean(centred**2)


def test_other_rows_columns_and_values_are_refused() -> None:
    forest = fitted()
    with pytest.raises(DataMismatchError, match="not the rows the model was trained on"):
        ens_plugin.analyze(forest, X[::-1], Y[::-1])
    with pytest.raises(DataMismatchError, match="rows the model was trained on"):
        ens_plugin.analyze(forest, X, Y, data="holdout")
    with pytest.raises(InputError, match="NaN"):
        ens_plugin.analyze(forest, np.where(X > 2, np.nan, X), Y)


def test_it_cannot_be_grown() -> None:
    with pytest.raises(UnsupportedModelError, match="cannot be grown: its members are groups of trees"):
        ens_plugin.grow(RegressionForest(random_state=0), X, Y)


def test_an_odd_part_between_checked_members_is_found() -> None:
    """Trees of three groups were compared, and a warm start on other rows in between passed."""
    forest = RegressionForest(28, random_state=0, warm_start=True).fit(X, Y)
    forest.n_estimators = 36
    forest.fit(np.random.default_rng(0).permutation(X), Y)
    forest.n_estimators = 80
    forest.fit(X, Y)
    with pytest.raises(DataMismatchError, match="not the rows of all its trees"):
        ens_plugin.in_bag(forest, X)
