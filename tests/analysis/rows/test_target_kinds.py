"""A report does not depend on how the labels of the target are stored, in any adapter."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import BaggingClassifier, ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import ens_plugin
from ens_plugin import oob_permutation_importance, oob_predictions
from ens_plugin.errors import EnsPluginError, InputError
from tests.extras import lightgbm, xgboost

X, CODES = make_classification(90, 5, n_informative=4, n_redundant=0, flip_y=0.2, random_state=0)
N_MEMBERS = 20
BAGS = [np.random.default_rng(member).integers(0, 90, 90) for member in range(N_MEMBERS)]
WORDS = np.array(["no", "yes"])

Fit = Callable[[Any, Any], Any]
has_arrow = find_spec("pyarrow") is not None


def arrow_text(codes: Any) -> Any:
    import pyarrow

    return pyarrow.array(WORDS[codes].tolist())


def polars(codes: Any) -> Any:
    import polars as library

    return library.Series(WORDS[codes].tolist())


Kind = Callable[[Any], Any]
NUMBERS: dict[str, Kind] = {
    "list": lambda codes: codes.tolist(), "column": lambda codes: codes[:, None],
    "float": lambda codes: codes.astype(float), "uint8": lambda codes: codes.astype(np.uint8),
    "bool": lambda codes: codes == 1, "boolean": lambda codes: pd.Series(codes == 1, dtype="boolean"),
    "Int64": lambda codes: pd.Series(codes, dtype="Int64", index=np.arange(90)[::-1]),
    "Float64": lambda codes: pd.Series(codes, dtype="Float64"),
    "category of numbers": lambda codes: pd.Series(pd.Categorical(codes, categories=[7, 1, 0])),
}  # fmt: skip
NULLABLE = ("boolean", "Int64", "Float64")
TEXTS: dict[str, Kind] = {
    "-1 and 1": lambda codes: 2 * codes - 1,
    "-1.0 and 1.0": lambda codes: 2.0 * codes - 1.0,
    "texts": lambda codes: WORDS[codes],
    "list of texts": lambda codes: WORDS[codes].tolist(),
    "objects": lambda codes: WORDS[codes].astype(object),
    "string": lambda codes: pd.Series(WORDS[codes], dtype="string"),
    "category": lambda codes: pd.Series(pd.Categorical(WORDS[codes], categories=["unused", "yes", "no"])),
    "dates": lambda codes: np.array(["2020-01-01", "2021-01-01"], dtype="M8[D]")[codes],
    "ordered category": lambda codes: pd.Series(pd.Categorical(WORDS[codes], ["yes", "no"], ordered=True)),
}
ARROW: dict[str, Kind] = {
    "arrow column": lambda codes: pd.Series(codes, dtype="int64[pyarrow]"),
    "arrow texts": arrow_text,
    "arrow dictionary": lambda codes: arrow_text(codes).dictionary_encode(),
}
EVERY = {**NUMBERS, **TEXTS, **(ARROW if has_arrow else {}), **({"polars": polars} if find_spec("polars") else {})}


class Voter:
    """A classifier without probabilities and without scikit-learn."""

    def fit(self, X: Any, y: Any) -> Voter:
        self.inner = GaussianNB().fit(X, y)
        self.classes_ = self.inner.classes_
        return self

    def predict(self, X: Any) -> Any:
        return self.inner.predict(X)


def members(base: Callable[[], Any]) -> Fit:
    def fit(X: Any, y: Any) -> Any:
        labels = np.asarray(y).reshape(-1)
        return ens_plugin.CustomEnsemble.from_estimators([base().fit(X[bag], labels[bag]) for bag in BAGS], BAGS)

    return fit


def arrays(X: Any, y: Any) -> Any:
    votes = [Voter().fit(X[bag], np.asarray(y).reshape(-1)[bag]).predict(X) for bag in BAGS]
    in_bag = [np.isin(np.arange(90), bag) for bag in BAGS]
    return ens_plugin.CustomEnsemble(np.array(votes), np.array(in_bag), aggregation="vote")


LIGHTGBM = {"bagging_fraction": 0.6, "bagging_freq": 1, "min_child_samples": 5, "verbose": -1, "n_jobs": 1}


def lightgbm_sklearn(X: Any, y: Any) -> Any:
    return lightgbm.LGBMClassifier(boosting_type="rf", n_estimators=N_MEMBERS, random_state=0, **LIGHTGBM).fit(X, y)


def lightgbm_native(X: Any, y: Any) -> Any:
    data = lightgbm.Dataset(X, np.asarray(y, dtype=float).reshape(-1))
    return lightgbm.train({"boosting": "rf", "objective": "binary", "seed": 0, **LIGHTGBM}, data, N_MEMBERS)


def xgboost_sklearn(X: Any, y: Any) -> Any:
    return xgboost.XGBRFClassifier(n_estimators=N_MEMBERS, random_state=0, n_jobs=1).fit(X, y)


def xgboost_native(X: Any, y: Any) -> Any:
    options = {"num_parallel_tree": N_MEMBERS, "subsample": 0.6, "eta": 1, "objective": "binary:logistic", "nthread": 1}
    return xgboost.train(options, xgboost.DMatrix(X, np.asarray(y, dtype=float).reshape(-1)), 1)


def fit_of(model: Any) -> Fit:
    return lambda X, y: model.fit(X, y)


FOREST: dict[str, Any] = {"n_estimators": N_MEMBERS, "random_state": 0}
SKLEARN: dict[str, Fit] = {
    "forest": fit_of(RandomForestClassifier(oob_score=True, **FOREST)),
    "forest of probabilities": fit_of(RandomForestClassifier(max_depth=3, **FOREST)),
    "extra trees": fit_of(ExtraTreesClassifier(bootstrap=True, **FOREST)),
    "bagging": fit_of(BaggingClassifier(oob_score=True, **FOREST)),
    "bagging of votes": fit_of(BaggingClassifier(LinearSVC(dual=False), **FOREST)),
    "pipeline": fit_of(make_pipeline(StandardScaler(), RandomForestClassifier(**FOREST))),
    "search": fit_of(GridSearchCV(RandomForestClassifier(**FOREST), {"max_depth": [3]}, cv=2)),
    "members of probabilities": members(lambda: DecisionTreeClassifier(max_depth=3, random_state=0)),
    "members of votes": members(Voter),
    "arrays": arrays,
}
LIBRARIES: dict[str, Fit] = {
    "LightGBM": lightgbm_sklearn,
    "LightGBM native": lightgbm_native,
    "XGBoost": xgboost_sklearn,
    "XGBoost native": xgboost_native,
}


def figures(model: Any, y: Any) -> dict[str, Any]:
    """Return a report as a dictionary, without the names of the labels, the time and what whole models predict."""
    content = ens_plugin.analyze(model, X, y, max_size=501).to_dict()
    for label in (*content["basis"]["labels"], *content["label_errors"]):
        del label["label"]
    del content["created"]
    content.pop("proof", None)
    return content


EXPECTED: dict[str, dict[str, Any]] = {}


FITS = {**SKLEARN, **LIBRARIES}
FAST = {
    *(("members of votes", kind) for kind in EVERY),
    ("bagging of votes", "-1 and 1"), ("forest", "category"), ("pipeline", "category"), ("extra trees", "boolean"),
    ("arrays", "-1 and 1"), ("LightGBM", "boolean"), ("LightGBM", "category"), ("LightGBM native", "Int64"),
    ("XGBoost", "Int64"),
}  # fmt: skip
OF_CODES = ("LightGBM native", "XGBoost", "XGBoost native")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        pytest.param(name, kind, id=f"{name}, {kind}", marks=[] if (name, kind) in FAST else [pytest.mark.slow])
        for name in FITS
        for kind in (NUMBERS if name in OF_CODES else EVERY)
        if name != "LightGBM" or kind not in ("list", "column", "polars", *ARROW)
    ],
)
def test_a_report_does_not_depend_on_the_kind_of_labels(name: str, kind: str) -> None:
    labels = EVERY[kind](CODES)
    if name == "members of votes" and kind in NULLABLE and np.asarray(labels).dtype == object:
        pytest.skip("this release of pandas makes objects of nullable columns, which scikit-learn's members refuse")
    if name not in EXPECTED:
        EXPECTED[name] = figures(FITS[name](X, CODES), CODES)
    assert figures(FITS[name](X, labels), labels) == EXPECTED[name]


@pytest.mark.parametrize("name", OF_CODES)
def test_texts_for_a_booster_of_codes_are_refused_with_a_remedy(name: str) -> None:
    model = LIBRARIES[name](X, CODES)
    with pytest.raises(InputError, match="Pass the labels as the ensemble was trained on them"):
        ens_plugin.analyze(model, X, WORDS[CODES])


def test_numbers_in_place_of_the_texts_of_training_are_refused_with_the_conversion() -> None:
    forest = RandomForestClassifier(5, random_state=0).fit(X, CODES.astype(str))
    with pytest.raises(InputError, match=r"labels are texts and those of y are not, .* y\.astype\(str\)"):
        ens_plugin.analyze(forest, X, CODES)


@pytest.mark.parametrize(
    "y",
    [
        pd.Series(CODES, dtype="Int64").mask(np.arange(90) == 7),
        pd.Series(WORDS[CODES], dtype="string").mask(np.arange(90) == 7),
        pd.Series(pd.Categorical(WORDS[CODES])).mask(np.arange(90) == 7),
        [None if row == 7 else str(code) for row, code in enumerate(CODES)],
    ],
)
def test_missing_labels_are_named_by_row_everywhere(y: Any) -> None:
    forest = SKLEARN["forest"](X, CODES)
    calls: list[Callable[[], Any]] = [
        lambda: ens_plugin.analyze(forest, X, y),
        lambda: ens_plugin.in_bag(forest, X, y),
        lambda: oob_predictions(forest, X, y),
        lambda: oob_permutation_importance(forest, X, y),
        lambda: ens_plugin.training_variance(forest, X, X[:2], y_train=y),
    ]
    for call in calls:
        with pytest.raises(InputError, match=r"holds 1 missing value .* in row 7;"):
            call()


VALUES = X[:, 0] * 10 + X[:, 1]


@pytest.mark.parametrize(
    "y",
    [
        pd.Series(VALUES, dtype="Float64"), VALUES.astype(object), VALUES.tolist(), VALUES[:, None],
        *([pd.Series(VALUES, dtype="double[pyarrow]")] if has_arrow else []),
    ],
)  # fmt: skip
def test_values_in_any_container(y: Any) -> None:
    forest = RandomForestRegressor(**FOREST)
    expected = figures(forest.fit(X, VALUES), VALUES)
    assert figures(forest.fit(X, np.asarray(y, dtype=float).reshape(-1)), y) == expected


@pytest.mark.slow
def test_members_trained_on_codes_take_their_labels_in_words() -> None:
    class Net:
        """A model that predicts probabilities of codes, and has no labels."""

        def __init__(self, bag: Any) -> None:
            self.inner = GaussianNB().fit(X[bag], CODES[bag])

        def predict(self, X: Any) -> Any:
            return self.inner.predict(X)

    class SoftNet(Net):
        def predict_proba(self, X: Any) -> Any:
            return self.inner.predict_proba(X)

    def ensemble(kind: type[Net], classes: Any) -> Any:
        return ens_plugin.CustomEnsemble.from_estimators([kind(bag) for bag in BAGS], BAGS, classes=classes)

    def labelled(classes: Any) -> Any:
        models = [GaussianNB().fit(X[bag], CODES[bag]) for bag in BAGS]
        return ens_plugin.CustomEnsemble.from_estimators(models, BAGS, classes=classes)

    for made in (lambda classes: ensemble(Net, classes), lambda classes: ensemble(SoftNet, classes), labelled):
        assert figures(made(WORDS), WORDS[CODES]) == figures(made([0, 1]), CODES)
    with pytest.raises(EnsPluginError, match="not among the model's"):
        ens_plugin.analyze(ensemble(Net, [1, 2]), X, CODES + 1)
    with pytest.raises(InputError, match="holds labels that the ensemble does not have"):
        ens_plugin.analyze(ensemble(Net, ["a", "b"]), X, WORDS[CODES])
