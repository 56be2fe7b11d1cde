"""What an adapter may add to the contract: no bags, targets of its own, weights by target."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import ens_plugin
from ens_plugin.adapters import Bags, EnsembleInfo, find_adapter
from ens_plugin.analysis.arguments import refuse_own_weights
from ens_plugin.errors import BagError, InputError, UnsupportedModelError
from ens_plugin.testing import check_adapter
from tests.adapters.toy_library import ToyAdapter, ToyForest

pytestmark = pytest.mark.usefixtures("registered_adapters")

RNG = np.random.default_rng(0)
X = RNG.random((200, 3))
Y = X[:, 0] + RNG.normal(0, 0.1, 200)
LIMITS = RNG.choice([0.4, 0.7, np.inf], 200)
FOREST = ToyForest(40).fit(X, Y)


class WithoutBags(ToyAdapter):
    def describe(self) -> EnsembleInfo:
        return replace(super().describe(), bag_provenance="unknown")

    def bags(self, X: Any, features: Any, y: Any) -> Bags:
        raise BagError('The toy library forgets its bags. Pass data="holdout" with rows no member was trained on.')


class Censored(ToyAdapter):
    """Takes pairs of a value and a limit beyond which it was not observed."""

    def encode_target(self, y: Any) -> Any:
        if y.dtype.names is None:
            raise InputError("y must be pairs of a value and its limit.")
        return np.where(y["value"] < y["limit"], y["value"], 0.0)

    def target_weights(self, y: Any) -> Any:
        return np.where(y["value"] < y["limit"], 1.0 + (y["value"] > 0.4), 0.0)


def pairs() -> Any:
    y = np.empty(200, dtype=[("value", float), ("limit", float)])
    y["value"], y["limit"] = Y, LIMITS
    return y


def test_without_bags_held_out_rows_are_judged_and_training_rows_refused() -> None:
    ens_plugin.register_adapter(WithoutBags)
    assert len(check_adapter(FOREST, X, Y)) == 13
    with pytest.raises(BagError, match=r"forgets its bags\. Pass data=\"holdout\" with rows no member was trained on"):
        ens_plugin.analyze(FOREST, X, Y)
    fresh = RNG.random((100, 3))
    report = ens_plugin.analyze(FOREST, fresh, fresh[:, 0], data="holdout")
    assert report.error == pytest.approx(np.mean((FOREST.predict(fresh) - fresh[:, 0]) ** 2), rel=1e-9)


def test_a_target_of_its_own_and_its_weights_are_those_of_the_user_s_rows() -> None:
    ens_plugin.register_adapter(Censored)
    found = ens_plugin.analyze(FOREST, X, pairs())
    ens_plugin.register_adapter(type("Plain", (ToyAdapter,), {}))
    is_known = Y < LIMITS
    weight = np.where(is_known, 1.0 + (Y > 0.4), 0.0)
    expected = ens_plugin.analyze(FOREST, X, np.where(is_known, Y, 0.0), sample_weight=weight)
    assert found.to_dict()["error_curve"] == expected.to_dict()["error_curve"]
    assert found.n_rows == expected.n_rows == np.count_nonzero(is_known)


def test_weights_of_the_user_multiply_those_of_the_target() -> None:
    ens_plugin.register_adapter(Censored)
    own = RNG.integers(1, 4, 200).astype(float)
    found = ens_plugin.analyze(FOREST, X, pairs(), sample_weight=own)
    ens_plugin.register_adapter(type("Plain", (ToyAdapter,), {}))
    weight = np.where(Y < LIMITS, 1.0 + (Y > 0.4), 0.0) * own
    assert found.error == ens_plugin.analyze(FOREST, X, np.where(Y < LIMITS, Y, 0.0), sample_weight=weight).error


def test_another_kind_of_target_is_refused_by_the_adapter() -> None:
    ens_plugin.register_adapter(Censored)
    with pytest.raises(InputError, match="pairs of a value and its limit"):
        ens_plugin.analyze(FOREST, X, Y)


def test_functions_that_take_no_weights_refuse_such_targets() -> None:
    ens_plugin.register_adapter(Censored)
    with pytest.raises(UnsupportedModelError, match="weighted by their target, because some are censored"):
        refuse_own_weights(find_adapter(FOREST), "This function")
    importance = ens_plugin.oob_permutation_importance(FOREST, X, pairs(), n_repeats=2, random_state=0)
    ens_plugin.register_adapter(type("Plain", (ToyAdapter,), {}))
    weight = np.where(Y < LIMITS, 1.0 + (Y > 0.4), 0.0)
    expected = ens_plugin.oob_permutation_importance(
        FOREST, X, np.where(Y < LIMITS, Y, 0.0), sample_weight=weight, n_repeats=2, random_state=0
    )
    np.testing.assert_array_equal(importance.importances, expected.importances)
