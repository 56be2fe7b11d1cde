from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import ArrayLike, NDArray
from sklearn import model_selection
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import make_regression
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_selection import SelectFromModel
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import ClassifierChain, RegressorChain
from sklearn.semi_supervised import SelfTrainingClassifier

import ens_plugin
from ens_plugin import CustomEnsemble, analyze, oob_predictions, register_adapter
from ens_plugin.adapters import EnsembleAdapter, EnsembleInfo, Library, find_adapter, outputs_by_member
from ens_plugin.core.bags import Bags
from ens_plugin.errors import InputError, UnsupportedModelError
from tests.adapters.cases import X2, Y2
from tests.extras import lightgbm


class Foreign:
    values = np.arange(6.0).reshape(2, 3)


class ForeignAdapter(EnsembleAdapter):
    @classmethod
    def accepts(cls, model: object) -> bool:
        return isinstance(model, Foreign)

    def describe(self) -> EnsembleInfo:
        return EnsembleInfo("regression", None, 2, aggregation="mean", output_kind="values", bag_provenance="given")

    def prepare(self, X: Any) -> Any:
        return np.arange(3)[:, None]

    def outputs(self, features: Any, members: range | None = None, wanted: NDArray[Any] | None = None) -> NDArray[Any]:
        return outputs_by_member(
            lambda member, rows: np.asarray(self.model.values[member, rows[:, 0]]),
            members or range(2),
            features,
            wanted,
        )

    def bags(self, X: Any, features: Any, y: ArrayLike | None) -> Bags:
        return Bags.from_mask(np.eye(2, 3, dtype=bool))


@pytest.mark.usefixtures("registered_adapters")
def test_registered_adapter_is_found_and_used_for_its_model() -> None:
    with pytest.raises(UnsupportedModelError, match="Foreign"):
        find_adapter(Foreign())
    assert register_adapter(ForeignAdapter) is ForeignAdapter
    adapter = find_adapter(Foreign())
    wanted = np.array([[True, False, True], [False, True, False]])
    np.testing.assert_array_equal(adapter.outputs(adapter.prepare(None), wanted=wanted), [[0, 0, 2], [0, 4, 0]])
    np.testing.assert_array_equal(adapter.outputs(adapter.prepare(None)), Foreign.values)


def test_registering_twice_keeps_one(registered_adapters: list[type[EnsembleAdapter]]) -> None:
    register_adapter(ForeignAdapter)
    register_adapter(ForeignAdapter)
    assert registered_adapters == [ForeignAdapter]


@pytest.mark.usefixtures("registered_adapters")
def test_unfinished_adapter_is_refused() -> None:
    class Unfinished(ForeignAdapter):
        bags = EnsembleAdapter.bags
        __abstractmethods__ = frozenset({"bags"})

    with pytest.raises(InputError, match="does not implement bags"):
        register_adapter(Unfinished)
    with pytest.raises(InputError, match="neither a subclass"):
        register_adapter(Foreign)  # type: ignore[type-var]


def test_adapter_without_the_name_of_its_library_is_refused(registered_adapters: list[type[EnsembleAdapter]]) -> None:
    class Nameless(ForeignAdapter, Library):
        @classmethod
        def reads(cls, start: bytes) -> bool:
            return False

        @classmethod
        def read(cls, content: bytes) -> Any:
            return None

    with pytest.raises(InputError, match="does not implement library, title, requirement;"):
        register_adapter(Nameless)
    assert registered_adapters == []


@pytest.mark.parametrize(
    ("own", "missing"),
    [
        ({"loss": lambda self, target, prediction: 0.0}, "loss_name"),
        ({"loss_name": "1 - C"}, "loss"),
        ({"combined": lambda self, outputs: outputs[0]}, "loss, loss_name"),
    ],
    ids=lambda part: next(iter(part)) if isinstance(part, dict) else "",
)
@pytest.mark.usefixtures("registered_adapters")
def test_a_loss_of_its_own_needs_a_name_and_members_without_a_mean_need_both(own: dict[str, Any], missing: str) -> None:
    with pytest.raises(InputError, match=f"does not implement {missing};"):
        register_adapter(type("Partial", (ForeignAdapter,), own))


@pytest.mark.usefixtures("registered_adapters")
def test_a_failure_of_an_adapter_of_others_is_no_defect_of_this_package() -> None:
    def broken(self: Any, X: Any, features: Any, y: Any) -> Any:
        raise RuntimeError("lost")

    register_adapter(type("Partial", (ForeignAdapter,), {"bags": broken, "accepts": classmethod(lambda cls, m: True)}))
    with pytest.raises(
        UnsupportedModelError, match=r"Partial, the adapter of this Foreign, failed \(RuntimeError: lost"
    ):
        ens_plugin.in_bag(Foreign(), np.zeros((4, 2)))


@pytest.mark.parametrize("place", ["models:/churn/7", Path("model.joblib")], ids=["URI", "path"])
def test_of_a_place_the_model_has_to_be_loaded(place: str | Path) -> None:
    with pytest.raises(UnsupportedModelError, match=f"'{place}' is of type .*Load the model.*ens-plugin analyze MODEL"):
        find_adapter(place)


def test_of_a_class_a_model_has_to_be_fitted() -> None:
    with pytest.raises(UnsupportedModelError, match=r"RandomForestClassifier is a class.*Create one and fit it"):
        find_adapter(RandomForestClassifier)


@pytest.mark.parametrize(
    "booster",
    [
        AdaBoostClassifier(),
        AdaBoostRegressor(),
        GradientBoostingClassifier(),
        GradientBoostingRegressor(),
        HistGradientBoostingClassifier(),
        HistGradientBoostingRegressor(),
        type("Own", (GradientBoostingRegressor,), {})(),
    ],
    ids=lambda booster: type(booster).__name__,
)
def test_boosting_is_refused_with_its_reason(booster: object) -> None:
    with pytest.raises(
        UnsupportedModelError, match=rf"accepts {type(booster).__name__} of \w+\. Members of boosting correct one anot"
    ):
        find_adapter(booster)


FOREST, VALUES = RandomForestClassifier(5, random_state=0), RandomForestRegressor(5, random_state=0)
BOTH = np.stack([Y2, 1 - Y2], axis=1)


@pytest.mark.parametrize(
    ("model", "place", "advice"),
    [
        (CalibratedClassifierCV(FOREST, cv=2), r"calibrated_classifiers_\[0\]\.estimator", ""),
        (TransformedTargetRegressor(VALUES), "regressor_", r"Its target is model\.transformer_\.transform"),
        (VotingClassifier([("a", FOREST)]), r"estimators_\[0\]", "one by one.*one larger forest"),
        (VotingRegressor([("a", VALUES)]), r"estimators_\[0\]", r"from_estimators\(model\.estimators_, None\)"),
        (StackingClassifier([("a", FOREST)], cv=2), r"estimators_\[0\]", ""),
        (StackingRegressor([("a", VALUES)], cv=2), r"estimators_\[0\]", ""),
        (ClassifierChain(FOREST), r"estimators_\[0\]", "takes the outputs before its own.*or a MultiOutputClassifier"),
        (RegressorChain(VALUES), r"estimators_\[0\]", "takes the outputs before its own.*or a MultiOutputClassifier"),
        (OneVsRestClassifier(FOREST), r"estimators_\[0\]", "take all labels without it"),
        (OneVsOneClassifier(FOREST), r"estimators_\[0\]", "take all labels without it"),
        (OutputCodeClassifier(FOREST, random_state=0), r"estimators_\[\d\]", "take all labels without it"),
        (SelfTrainingClassifier(FOREST), "estimator_", r"rows that it was not trained on.*data=\"holdout\""),
        (SelectFromModel(FOREST), "estimator_", ""),
    ],
    ids=lambda part: type(part).__name__,
)
@pytest.mark.filterwarnings("ignore")
def test_a_wrapper_is_refused_with_the_ensemble_to_pass_instead(model: Any, place: str, advice: str) -> None:
    fitted = model.fit(X2, BOTH if "Chain" in type(model).__name__ else Y2)
    with pytest.raises(UnsupportedModelError, match=rf"keeps its RandomForest\w+ as model\.{place}, .*{advice}"):
        find_adapter(fitted)


def test_the_advice_on_wrappers_works() -> None:
    X, y = make_regression(200, 4, noise=10.0, random_state=0)
    forest = RandomForestRegressor(40, random_state=0)
    whole = TransformedTargetRegressor(forest, func=np.arcsinh, inverse_func=np.sinh).fit(X, y)
    target = whole.transformer_.transform(y.reshape(-1, 1)).ravel()
    assert analyze(whole.regressor_, X, target).bags == "recorded"
    labels = y > 0
    calibrated = CalibratedClassifierCV(RandomForestClassifier(40, random_state=0), ensemble=False, cv=3).fit(X, labels)
    assert analyze(calibrated.calibrated_classifiers_[0].estimator, X, labels).n_members == 40
    forests = [(str(seed), RandomForestRegressor(10, random_state=seed)) for seed in range(3)]
    voting = VotingRegressor(forests).fit(X[:150], y[:150])
    held_out = CustomEnsemble.from_estimators(voting.estimators_, None)
    assert analyze(held_out, X[150:], y[150:], data="holdout").n_members == 3


def test_the_advice_on_self_training_works() -> None:
    X, y = make_regression(400, 4, noise=10.0, random_state=0)
    known = np.where(np.arange(200) % 4, (y[:200] > 0).astype(int), -1)
    model = SelfTrainingClassifier(RandomForestClassifier(40, random_state=0)).fit(X[:200], known)
    assert analyze(model.estimator_, X[200:], (y[200:] > 0).astype(int), data="holdout").error < 0.3


needs_thresholds = pytest.mark.skipif(
    not hasattr(model_selection, "FixedThresholdClassifier"), reason="new in scikit-learn 1.5"
)


@needs_thresholds
@pytest.mark.parametrize("name", ["FixedThresholdClassifier", "TunedThresholdClassifierCV"])
def test_the_advice_on_thresholds_works(name: str) -> None:
    X, y = make_regression(300, 4, noise=10.0, random_state=0)
    labels, options = (y > 60).astype(int), {"threshold": 0.2} if name.startswith("Fixed") else {"cv": 2}
    forest = RandomForestClassifier(200, random_state=0)
    model = getattr(model_selection, name)(forest, **options).fit(X, labels)
    attribute = "threshold" if name.startswith("Fixed") else "best_threshold_"
    with pytest.raises(UnsupportedModelError, match=rf"as model\.estimator_, .*mean\[:, 1\] >= model\.{attribute}\)"):
        analyze(model, X, labels)
    cut = getattr(model, attribute)
    report = analyze(
        model.estimator_, X, labels, metric=lambda y, mean: ((mean[:, 1] >= cut) != (y == model.classes_[1])).mean()
    )
    votes = oob_predictions(model.estimator_, X, labels).values[:, 1]
    assert report.error_curve.error[report.error_curve.sizes == 200] == pytest.approx(
        np.mean((votes >= cut) != labels), abs=0.03
    )


@needs_thresholds
def test_a_threshold_of_one_half_is_that_of_the_ensemble() -> None:
    X, y = make_regression(200, 4, noise=10.0, random_state=0)
    forest = RandomForestClassifier(40, random_state=0).fit(X, y > 0)
    whole = model_selection.FixedThresholdClassifier(RandomForestClassifier(40, random_state=0)).fit(X, y > 0)
    assert analyze(whole, X, y > 0).error == analyze(forest, X, y > 0).error


class Holder:
    """A wrapper of some other library."""

    def __init__(self, **held: Any) -> None:
        vars(self).update(held)


@pytest.mark.parametrize(
    ("held", "place"),
    [
        ({"model": RandomForestClassifier()}, r"model\.model,"),
        (
            {"base": RandomForestClassifier(), "fitted_": RandomForestRegressor()},
            r"model\.fitted_,",
        ),
        ({"_models": [RandomForestClassifier(), RandomForestClassifier()]}, r"model\._models\[0\],"),
    ],
    ids=["attribute", "fitted before unfitted", "list"],
)
def test_an_ensemble_inside_an_unknown_class_is_named(held: dict[str, Any], place: str) -> None:
    with pytest.raises(UnsupportedModelError, match=rf"This Holder keeps its RandomForest\w+ as {place}"):
        find_adapter(Holder(**held))


def test_an_unknown_class_without_an_ensemble_has_no_advice_on_one() -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        find_adapter(Holder(columns=["a"], rate=0.5))
    assert "keeps" not in str(caught.value)


def test_forests_that_keep_no_bags_are_refused_with_what_to_pass() -> None:
    model = type("RandomForestClassifier", (), {"__module__": "cuml.ensemble"})()
    advice = r".*model\.as_sklearn\(\).*data=\"holdout\".*CustomEnsemble\(outputs, None"
    with pytest.raises(UnsupportedModelError, match=rf"of cuml\. {advice}"):
        find_adapter(model)


def test_any_ensemble_may_be_inside_a_pipeline() -> None:
    with pytest.raises(UnsupportedModelError, match="each also inside a pipeline or a search"):
        find_adapter(Foreign())


@pytest.mark.parametrize(
    ("home", "name", "advice"),
    [
        ("pyspark.ml.classification", "GBTClassificationModel", "Members of boosting correct one another"),
        ("pyspark.ml.classification", "LinearRegressionModel", r"Supported are .*Spark ML's RandomForest\*"),
        ("econml.grf.classes", "CausalForest", "Supported are .*EconML's RegressionForest"),
        ("imblearn.ensemble", "RUSBoostClassifier", "Members of boosting correct"),
    ],
)
def test_other_models_of_libraries_with_adapters_are_refused(home: str, name: str, advice: str) -> None:
    pytest.importorskip(home.partition(".")[0], reason=f"needs {home.partition('.')[0]}, of which there is an adapter")
    model = type(name, (), {"__module__": home, "predict": lambda self, X: X})()
    with pytest.raises(UnsupportedModelError, match=f"No adapter accepts {name} of .*{advice}"):
        find_adapter(model)


@pytest.mark.parametrize("thing", [None, 3, [1], {}, (1, 2), len, np.zeros(3), pd.DataFrame([1])])
def test_what_is_no_model_is_called_so(thing: Any) -> None:
    with pytest.raises(
        UnsupportedModelError, match=rf"The model is of type {type(thing).__name__}.* no predict of its own"
    ):
        ens_plugin.analyze(thing, np.zeros((4, 2)), np.zeros(4))


def test_boosters_of_folds_are_named_as_what_they_are() -> None:
    """LightGBM's CVBooster returns a function for every name, also for that of a search's best model."""
    found = lightgbm.cv(
        {"objective": "binary", "verbose": -1},
        lightgbm.Dataset(X2, Y2),
        2,
        return_cvbooster=True,
    )["cvbooster"]
    with pytest.raises(UnsupportedModelError, match=r"CVBooster of lightgbm.*its Booster as model\.boosters\[0\],"):
        ens_plugin.analyze(found, X2, Y2)


def test_an_unknown_model_is_refused_with_what_works_in_this_process_and_at_the_prompt() -> None:
    class Unknown:
        pass

    with pytest.raises(UnsupportedModelError, match=r"register_adapter.*package with an entry point.*command line"):
        find_adapter(Unknown())
