"""Each promise of the contract is broken by some adapter, and the check names it and what was found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier

import ens_plugin
from ens_plugin.adapters import EnsembleAdapter
from ens_plugin.adapters.sklearn.forest import SklearnForestAdapter
from ens_plugin.core.bags import Bags
from ens_plugin.errors import AdapterCheckError, DataMismatchError, UnsupportedModelError
from ens_plugin.testing import ADAPTER_CHECKS, AdapterCase, check_adapter
from tests.adapters.toy_library import ToyAdapter, ToyForest

X = np.random.default_rng(0).random((60, 3))
Y = X[:, 0] + np.random.default_rng(1).normal(0, 0.1, 60)
ROWS, FOREST = X, ToyForest(12).fit(X, Y)


def drawn(model: Any) -> list[Any]:
    return [bag for bag, _ in model.members_]


class Honest(ToyAdapter):
    """Recognises its rows, so that every check can be made."""

    def bags(self, X: Any, features: Any, y: Any) -> Bags:
        found = super().bags(X, features, y)
        if not np.array_equal(features, ROWS):
            raise DataMismatchError("These are not the rows the model was trained on.")
        if y is not None and not np.array_equal(y, Y):
            raise DataMismatchError("y is not the target the model was trained on.")
        return found


class TakesAll(Honest):
    accepts = staticmethod(lambda model: True)


class OneLabelAxis(Honest):
    def outputs(self, features: Any, members: Any = None, wanted: Any = None) -> Any:
        return super().outputs(features, members, wanted)[..., None]


class SinglePrecision(Honest):
    def outputs(self, features: Any, members: Any = None, wanted: Any = None) -> Any:
        return super().outputs(features, members, wanted).astype(np.float32)


class ForgetsMembers(Honest):
    def outputs(self, features: Any, members: Any = None, wanted: Any = None) -> Any:
        return super().outputs(features, None if members is None else range(len(members)), wanted)


class LooksAtOtherRows(Honest):
    def outputs(self, features: Any, members: Any = None, wanted: Any = None) -> Any:
        return super().outputs(features, members, wanted) + 1e-9 * (features.shape[0] == 7)


class WantedElsewhere(Honest):
    def outputs(self, features: Any, members: Any = None, wanted: Any = None) -> Any:
        return super().outputs(features, members, None if wanted is None else ~wanted)


class OtherMean(Honest):
    def outputs(self, features: Any, members: Any = None, wanted: Any = None) -> Any:
        return super().outputs(features, members, wanted) * 1.001


class ShiftedBags(Honest):
    def bags(self, X: Any, features: Any, y: Any) -> Bags:
        super().bags(X, features, y)
        return Bags.from_indices([bag for bag, _ in [*self.model.members_[1:], self.model.members_[0]]], len(features))


class FullBags(Honest):
    def bags(self, X: Any, features: Any, y: Any) -> Bags:
        super().bags(X, features, y)
        return Bags.from_mask(np.ones((12, len(features)), dtype=bool))


class CountsNothing(Honest):
    def bags(self, X: Any, features: Any, y: Any) -> Bags:
        return Bags.from_indices(drawn(self.model), len(ROWS)).take(np.arange(len(features)) % 60)


class TakesOneMore(Honest):
    def bags(self, X: Any, features: Any, y: Any) -> Bags:
        return super().bags(X, features[:60], y[:60]) if len(features) > 60 else super().bags(X, features, y)


class TrustsRows(ToyAdapter):
    """Takes permuted rows and targets."""


class TrustsColumns(Honest):
    def prepare(self, X: Any) -> Any:
        return np.pad(np.asarray(X), ((0, 0), (0, 3 - X.shape[1])))


class Modifies(Honest):
    def outputs(self, features: Any, members: Any = None, wanted: Any = None) -> Any:
        self.model.n_calls_ = getattr(self.model, "n_calls_", 0) + 1
        return super().outputs(features, members, wanted)


class Unportable(Honest):
    def portable(self) -> Any:
        return lambda: self.model


class LastMembersFirst(Honest):
    def truncated(self, size: int) -> Any:
        part = super().truncated(size)
        part.members_ = self.model.members_[-size:]
        return part


class Misdescribed(Honest):
    def describe(self) -> Any:
        return replace(super().describe(), classes=np.arange(2))


class StoresOthers(Honest):
    def stored_oob_outputs(self) -> Any:
        return np.zeros(60)


class FreshWithoutLabels(Honest):
    def verify_rows(self, features: Any, y: Any) -> Any:
        return "unknown" if y is not None else "fresh"


class SilentlyWithoutBags(Honest):
    def describe(self) -> Any:
        return replace(super().describe(), bag_provenance="unknown")


BROKEN = {
    TakesAll: "accepts() takes models of its library only",
    OneLabelAxis: "outputs() have the shape",
    SinglePrecision: "outputs() have the shape",
    ForgetsMembers: "outputs(members=...) has the outputs of these members",
    LooksAtOtherRows: "outputs() of a block of rows",
    WantedElsewhere: "outputs(wanted=...) has the outputs of all",
    OtherMean: "The mean output of all members",
    ShiftedBags: "bags() returns the rows that each member drew",
    FullBags: "Some rows are out of bag",
    CountsNothing: "bags() refuses a row more or less",
    TakesOneMore: "bags() refuses a row more or less",
    TrustsRows: "bags() refuses rows in another order",
    TrustsColumns: "prepare() refuses rows with a column less",
    Modifies: "The model and the rows are not modified",
    Unportable: "portable() can be pickled",
    LastMembersFirst: "truncated(size) has the first members",
    Misdescribed: "describe() agrees with itself",
    StoresOthers: "The mean output of the members out of bag",
    FreshWithoutLabels: "verify_rows() never calls training rows fresh",
    SilentlyWithoutBags: "bags() of unknown provenance are refused",
}


@pytest.mark.usefixtures("registered_adapters")
@pytest.mark.parametrize(("adapter", "promise"), BROKEN.items(), ids=lambda part: getattr(part, "__name__", ""))
def test_a_broken_promise_is_named(adapter: type[EnsembleAdapter], promise: str) -> None:
    ens_plugin.register_adapter(adapter)
    with pytest.raises(AdapterCheckError) as raised:
        check_adapter(ToyForest(12).fit(X, Y), X, Y, samples=drawn)
    assert f"{adapter.__name__} breaks" in str(raised.value)
    assert f"- {promise}" in str(raised.value)


@pytest.mark.usefixtures("registered_adapters")
def test_an_adapter_that_keeps_them_all() -> None:
    ens_plugin.register_adapter(Honest)
    promises = check_adapter(FOREST, X, Y, samples=drawn)
    # A library without stored out-of-bag outputs, and with bags.
    left_out = {check.promise for check in ADAPTER_CHECKS} - set(promises)
    assert {promise[:30] for promise in left_out} == {
        "The mean output of the members",
        "bags() of unknown provenance a",
    }


def test_every_promise_is_broken_by_some_adapter() -> None:
    promises = [check.promise for check in ADAPTER_CHECKS]
    broken = {promise for promise in promises for start in BROKEN.values() if promise.startswith(start)}
    assert set(promises) - broken == {"bags() refuses a target in another order."}


@pytest.mark.usefixtures("registered_adapters")
def test_a_target_that_is_trusted_is_named() -> None:
    class TrustsTarget(Honest):
        def bags(self, X: Any, features: Any, y: Any) -> Bags:
            return super().bags(X, features, None)

    ens_plugin.register_adapter(TrustsTarget)
    with pytest.raises(AdapterCheckError, match="refuses a target in another order"):
        check_adapter(FOREST, X, Y, samples=drawn)
    assert check_adapter(FOREST, X, Y, samples=drawn, proves_target=False)


@pytest.mark.usefixtures("registered_adapters")
def test_without_an_adapter_there_is_nothing_to_check() -> None:
    with pytest.raises(UnsupportedModelError, match="ToyForest"):
        check_adapter(FOREST, X, Y)


@pytest.mark.usefixtures("registered_adapters")
def test_the_first_difference_is_shown() -> None:
    ens_plugin.register_adapter(OtherMean)
    with pytest.raises(AdapterCheckError, match=r"60 of 60 mean outputs differ .* the first, at \(0,\), is [\d.]+ in"):
        check_adapter(FOREST, X, Y, samples=drawn)


@pytest.mark.usefixtures("registered_adapters")
def test_a_check_that_may_ask_too_much_names_its_setting() -> None:
    ens_plugin.register_adapter(TrustsRows)
    with pytest.raises(AdapterCheckError) as raised:
        check_adapter(FOREST, X, Y, samples=drawn)
    for setting in ("needs_target=True", "proves_rows=False", "proves_target=False"):
        assert setting in str(raised.value)
    assert "tolerance" not in str(raised.value)
    check_adapter(FOREST, X, Y, samples=drawn, proves_rows=False)


@pytest.mark.usefixtures("registered_adapters")
def test_a_word_that_is_not_known_is_named_with_those_that_are() -> None:
    class Misspelt(Honest):
        def describe(self) -> Any:
            return replace(super().describe(), task="regressor")

    ens_plugin.register_adapter(Misspelt)
    with pytest.raises(AdapterCheckError, match=r"task is 'regressor'.*'classification', 'regression'"):
        check_adapter(FOREST, X, Y, samples=drawn)


@pytest.mark.usefixtures("registered_adapters")
def test_labels_in_another_order_than_the_models_are_found() -> None:
    X, y = load_iris(return_X_y=True)
    forest = RandomForestClassifier(8, random_state=0).fit(X, y)

    class Reversed(SklearnForestAdapter):
        def describe(self) -> Any:
            found = super().describe()
            return replace(found, classes=found.classes[::-1])

    ens_plugin.register_adapter(Reversed)
    with pytest.raises(AdapterCheckError, match=r"but the model's classes_ is array\(\[0, 1, 2\]\)"):
        check_adapter(forest, X, y, samples=lambda model: model.estimators_samples_)


@pytest.mark.usefixtures("registered_adapters")
def test_rounding_is_told_from_other_outputs() -> None:
    ens_plugin.register_adapter(LooksAtOtherRows)
    with pytest.raises(AdapterCheckError, match=r"If that is rounding, .* pass tolerance=1e-9"):
        check_adapter(FOREST, X, Y, samples=drawn)
    ens_plugin.register_adapter(OtherMean)
    with pytest.raises(AdapterCheckError) as raised:
        check_adapter(FOREST, X, Y, samples=drawn)
    assert "rounding" not in str(raised.value)


def test_labels_in_place_of_probabilities_are_told_what_to_pass() -> None:
    X, y = load_iris(return_X_y=True)
    model = RandomForestClassifier(10, random_state=0).fit(X, y)
    with pytest.raises(AdapterCheckError, match=r"column for each of 3 labels.*Pass predict="):
        check_adapter(model, X, y, predict=lambda model, X: model.predict(X))


class Restless(ToyForest):
    """Two pickles of it are the same by chance, and those after them differ, as where the time is in them."""

    n_pickles = 0

    def __getstate__(self) -> dict[str, Any]:
        type(self).n_pickles += 1
        return {**super().__getstate__(), "time_": max(type(self).n_pickles - 2, 0)}


@pytest.mark.usefixtures("registered_adapters")
def test_a_model_whose_pickles_differ_by_themselves_is_not_modified() -> None:
    ens_plugin.register_adapter(Honest)
    case = AdapterCase("restless", lambda: Restless(12).fit(X, Y), X, Y, samples=drawn)
    case.is_oob()
    Restless.n_pickles = 0
    next(check for check in ADAPTER_CHECKS if check.promise.startswith(BROKEN[Modifies])).run(case)
    assert Restless.n_pickles > 3
