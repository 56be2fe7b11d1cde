"""Each promise of the contract is broken by some adapter, and the check names it and what was found."""

from __future__ import annotations

from collections.abc import Callable
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


def broken(base: type[EnsembleAdapter] = Honest, **methods: Any) -> type[EnsembleAdapter]:
    """An adapter with other methods; `self` of each is the first argument."""
    return type("Broken", (base,), methods)


def with_outputs(change: Callable[..., Any]) -> type[EnsembleAdapter]:
    """An adapter whose outputs are a function of itself, the features, the members and what is wanted."""

    def outputs(self: Any, features: Any, members: Any = None, wanted: Any = None) -> Any:
        return change(self, features, members, wanted)

    return broken(outputs=outputs)


def other_info(**fields: Any) -> type[EnsembleAdapter]:
    return broken(describe=lambda own: replace(Honest.describe(own), **fields))


def last_members_first(own: Any, size: int) -> Any:
    part = Honest.truncated(own, size)
    part.members_ = own.model.members_[-size:]
    return part


def counting_calls(own: Any, *arguments: Any) -> Any:
    own.model.n_calls_ = getattr(own.model, "n_calls_", 0) + 1
    return Honest.outputs(own, *arguments)


def of_next_member(own: Any, X: Any, features: Any, y: Any) -> Bags:
    Honest.bags(own, X, features, y)
    return Bags.from_indices([bag for bag, _ in [*own.model.members_[1:], own.model.members_[0]]], len(features))


def of_every_row(own: Any, X: Any, features: Any, y: Any) -> Bags:
    Honest.bags(own, X, features, y)
    return Bags.from_mask(np.ones((12, len(features)), dtype=bool))


def of_any_number(own: Any, X: Any, features: Any, y: Any) -> Bags:
    return Bags.from_indices(drawn(own.model), len(ROWS)).take(np.arange(len(features)) % 60)


TOTAL = Honest.outputs
OTHER_MEAN = with_outputs(lambda own, *arguments: TOTAL(own, *arguments) * 1.001)
OTHER_BLOCKS = with_outputs(lambda own, features, *more: TOTAL(own, features, *more) + 1e-9 * (features.shape[0] == 7))
TRUSTS_ROWS = broken(ToyAdapter)
MODIFIES = "The model and the rows are not modified"
BROKEN: dict[str, tuple[type[EnsembleAdapter], str]] = {
    "takes all": (broken(accepts=staticmethod(lambda model: True)), "accepts() takes models of its library only"),
    "one label axis": (with_outputs(lambda own, *rest: TOTAL(own, *rest)[..., None]), "outputs() have the shape"),
    "single precision": (
        with_outputs(lambda own, *rest: TOTAL(own, *rest).astype(np.float32)), "outputs() have the shape"
    ),
    "forgets members": (
        with_outputs(lambda own, features, members, wanted: TOTAL(
            own, features, None if members is None else range(len(members)), wanted
        )),
        "outputs(members=...) has the outputs of these members",
    ),
    "looks at other rows": (OTHER_BLOCKS, "outputs() of a block of rows"),
    "wanted elsewhere": (
        with_outputs(lambda own, features, members, wanted: TOTAL(
            own, features, members, None if wanted is None else ~wanted
        )),
        "outputs(wanted=...) has the outputs of all",
    ),
    "other mean": (OTHER_MEAN, "The mean output of all members"),
    "shifted bags": (broken(bags=of_next_member), "bags() returns the rows that each member drew"),
    "full bags": (broken(bags=of_every_row), "Some rows are out of bag"),
    "counts nothing": (broken(bags=of_any_number), "bags() refuses a row more or less"),
    "takes one more": (
        broken(bags=lambda own, X, features, y: Honest.bags(own, X, features[:60], None if y is None else y[:60])),
        "bags() refuses a row more or less",
    ),
    "trusts rows": (TRUSTS_ROWS, "bags() refuses rows in another order"),
    "trusts columns": (
        broken(prepare=lambda own, X: np.pad(np.asarray(X), ((0, 0), (0, 3 - X.shape[1])))),
        "prepare() refuses rows with a column less",
    ),
    "modifies": (with_outputs(counting_calls), MODIFIES),
    "unportable": (broken(portable=lambda own: lambda: own.model), "portable() can be pickled"),
    "last members first": (broken(truncated=last_members_first), "truncated(size) has the first members"),
    "misdescribed": (other_info(classes=np.arange(2)), "describe() agrees with itself"),
    "stores others": (
        broken(stored_oob_outputs=lambda own: np.zeros(60)), "The mean output of the members out of bag"
    ),
    "fresh without labels": (
        broken(verify_rows=lambda own, features, y: "unknown" if y is not None else "fresh"),
        "verify_rows() never calls training rows fresh",
    ),
    "silently without bags": (other_info(bag_provenance="unknown"), "bags() of unknown provenance are refused"),
}  # fmt: skip


@pytest.mark.usefixtures("registered_adapters")
@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_promise_is_named(case: str) -> None:
    adapter, promise = BROKEN[case]
    ens_plugin.register_adapter(adapter)
    with pytest.raises(AdapterCheckError) as raised:
        check_adapter(ToyForest(12).fit(X, Y), X, Y, samples=drawn)
    assert "Broken breaks" in str(raised.value)
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
    broken = {promise for promise in promises for _, start in BROKEN.values() if promise.startswith(start)}
    assert set(promises) - broken == {"bags() refuses a target in another order."}


@pytest.mark.usefixtures("registered_adapters")
def test_a_target_that_is_trusted_is_named() -> None:
    ens_plugin.register_adapter(broken(bags=lambda own, X, features, y: Honest.bags(own, X, features, None)))
    with pytest.raises(AdapterCheckError, match="refuses a target in another order"):
        check_adapter(FOREST, X, Y, samples=drawn)
    assert check_adapter(FOREST, X, Y, samples=drawn, proves_target=False)


@pytest.mark.usefixtures("registered_adapters")
def test_without_an_adapter_there_is_nothing_to_check() -> None:
    with pytest.raises(UnsupportedModelError, match="ToyForest"):
        check_adapter(FOREST, X, Y)


@pytest.mark.usefixtures("registered_adapters")
def test_the_first_difference_is_shown() -> None:
    ens_plugin.register_adapter(OTHER_MEAN)
    with pytest.raises(AdapterCheckError, match=r"60 of 60 mean outputs differ .* the first, at \(0,\), is [\d.]+ in"):
        check_adapter(FOREST, X, Y, samples=drawn)


@pytest.mark.usefixtures("registered_adapters")
def test_a_check_that_may_ask_too_much_names_its_setting() -> None:
    ens_plugin.register_adapter(TRUSTS_ROWS)
    with pytest.raises(AdapterCheckError) as raised:
        check_adapter(FOREST, X, Y, samples=drawn)
    for setting in ("needs_target=True", "proves_rows=False", "proves_target=False"):
        assert setting in str(raised.value)
    assert "tolerance" not in str(raised.value)
    check_adapter(FOREST, X, Y, samples=drawn, proves_rows=False)


@pytest.mark.usefixtures("registered_adapters")
def test_a_word_that_is_not_known_is_named_with_those_that_are() -> None:
    ens_plugin.register_adapter(other_info(task="regressor"))
    with pytest.raises(AdapterCheckError, match=r"task is 'regressor'.*'classification', 'regression'"):
        check_adapter(FOREST, X, Y, samples=drawn)


@pytest.mark.usefixtures("registered_adapters")
def test_labels_in_another_order_than_the_models_are_found() -> None:
    X, y = load_iris(return_X_y=True)
    forest = RandomForestClassifier(8, random_state=0).fit(X, y)

    def reversed_labels(own: Any) -> Any:
        found = SklearnForestAdapter.describe(own)
        return replace(found, classes=found.classes[::-1])

    ens_plugin.register_adapter(broken(SklearnForestAdapter, describe=reversed_labels))
    with pytest.raises(AdapterCheckError, match=r"but the model's classes_ is array\(\[0, 1, 2\]\)"):
        check_adapter(forest, X, y, samples=lambda model: model.estimators_samples_)


@pytest.mark.usefixtures("registered_adapters")
def test_rounding_is_told_from_other_outputs() -> None:
    ens_plugin.register_adapter(OTHER_BLOCKS)
    with pytest.raises(AdapterCheckError, match=r"If that is rounding, .* pass tolerance=1e-9"):
        check_adapter(FOREST, X, Y, samples=drawn)
    ens_plugin.register_adapter(OTHER_MEAN)
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
    next(check for check in ADAPTER_CHECKS if check.promise.startswith(MODIFIES)).run(case)
    assert Restless.n_pickles > 3
