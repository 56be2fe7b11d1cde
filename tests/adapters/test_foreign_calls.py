"""Whatever is passed, what comes back is an answer or an error of ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.datasets import load_iris
from sklearn.ensemble import BaggingClassifier, BaggingRegressor, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

import ens_plugin
from ens_plugin.errors import DataMismatchError, InputError, UnsupportedModelError, WeakEstimateWarning

X, Y = load_iris(return_X_y=True)
FOREST = RandomForestClassifier(9, random_state=0).fit(X, Y)


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("sample_weight", [1e308] * 150),
        ("sample_weight", [1e-320] * 150),
        ("sample_weight", [1 + 2j] * 150),
        ("n_jobs", float("inf")),
        ("n_jobs", 0),
        ("n_jobs", True),
        ("n_jobs", 1.5),
        ("criterion", np.array(["auto", "error"])),
        ("criterion", ["auto"]),
        ("criterion", None),
        ("data", np.array(["oob", "oob"])),
        ("metric", np.zeros(3)),
        ("groups", [[1], [1, 2]]),
    ],
)
def test_an_option_that_cannot_be_used(argument: str, value: Any) -> None:
    with pytest.raises(InputError, match=argument):
        ens_plugin.analyze(FOREST, X, Y, **{argument: value})


def test_an_aggregation_that_is_an_array() -> None:
    with pytest.raises(InputError, match="aggregation"):
        ens_plugin.CustomEnsemble(np.eye(3), None, aggregation=np.array(["vote", "mean"]))  # type: ignore[arg-type]


@pytest.mark.parametrize("y", [[[1], [1, 2]], {"a": 1}, "text"])
def test_a_target_of_in_bag_that_is_no_column(y: Any) -> None:
    with pytest.raises((InputError, UnsupportedModelError)):
        ens_plugin.in_bag(FOREST, X, y)


class Escape:
    """Prints what a terminal would obey."""

    def __repr__(self) -> str:
        return "\x1b[2J\u202e\n"


@pytest.mark.parametrize("argument", ["data", "criterion", "tolerance", "max_size", "random_state", "n_jobs"])
def test_a_value_is_shown_without_control_characters(argument: str) -> None:
    with pytest.raises(InputError) as refused:
        ens_plugin.analyze(FOREST, X, Y, **{argument: Escape()})
    assert not set(str(refused.value)) & {"\x1b", "\u202e", "\n"}


@pytest.mark.slow
def test_a_name_of_a_metric_that_no_document_may_hold(tmp_path: Any) -> None:
    def error(y: Any, proba: Any) -> float:
        return float(np.mean((1 - proba[np.arange(len(y)), y]) ** 2))

    error.__name__ = "a\ufffe\x1b"
    forest = RandomForestClassifier(60, random_state=0, min_samples_leaf=5).fit(X, Y)
    report = ens_plugin.analyze(forest, X, Y, metric=error)
    assert not set(report.error_curve.metric) & {"\ufffe", "\x1b"}
    report.to_html(tmp_path / "report.html")


class Odd(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Predicts what the function in its class attribute returns."""

    answer: Callable[[int], Any] = staticmethod(lambda n: np.zeros(n))

    def fit(self, X: Any, y: Any) -> Odd:
        self.classes_ = np.unique(y)
        return self

    def predict(self, X: Any) -> Any:
        return type(self).answer(len(X))


class OddRegressor(RegressorMixin, Odd):  # type: ignore[misc]
    """The same for values."""


ANSWERS: dict[str, Callable[[int], Any]] = {
    "None": lambda n: None,
    "a scalar": lambda n: 1.0,
    "too few": lambda n: np.zeros(n - 1),
    "texts": lambda n: ["a"] * n,
    "NaN": lambda n: np.full(n, np.nan),
    "ragged": lambda n: [[1], [1, 2]],
    "an unknown label": lambda n: np.full(n, 99),
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_members_that_predict_something_else(answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bagged = BaggingClassifier(Odd(), 5, random_state=0).fit(X, Y)
    values = BaggingRegressor(OddRegressor(), 5, random_state=0).fit(X, Y)
    given = ens_plugin.CustomEnsemble.from_estimators(bagged.estimators_, bagged.estimators_samples_)
    monkeypatch.setattr(Odd, "answer", staticmethod(ANSWERS[answer]))
    for model in (bagged, given, *([values] if answer != "an unknown label" else [])):
        with pytest.raises(InputError):
            ens_plugin.analyze(model, X, Y)


def test_a_category_that_a_member_does_not_know() -> None:
    letters = pd.DataFrame({"a": list("abc") * 20})
    y = np.arange(60) % 2
    members = make_pipeline(OneHotEncoder(), LogisticRegression())
    models = [members.fit(letters.iloc[:30], y[:30])] * 3
    ensemble = ens_plugin.CustomEnsemble.from_estimators(models, None)
    with pytest.raises(InputError, match="failed on rows of X"):
        ens_plugin.analyze(ensemble, letters.assign(a="z"), y, data="holdout")
    coded = np.arange(60)[:, None] % 30.0
    bagged = BaggingClassifier(members, 5, random_state=0, max_samples=20).fit(coded, y)
    with pytest.raises(InputError, match="failed on rows of X"):
        ens_plugin.analyze(bagged, coded, y, groups=np.arange(60))


def test_a_step_that_wants_a_frame() -> None:
    frame = pd.DataFrame(X, columns=list("abcd"))
    step = FunctionTransformer(lambda table: table.loc[:, ["a", "b"]])
    model = make_pipeline(step, RandomForestClassifier(9, random_state=0)).fit(frame, Y)
    with pytest.raises(DataMismatchError, match="refuse X"):
        ens_plugin.analyze(model, X, Y)


def test_a_model_that_lost_a_part() -> None:
    broken = RandomForestClassifier(5, random_state=0).fit(X, Y)
    broken.estimators_[2] = None
    with pytest.raises(UnsupportedModelError, match="could not be used on these rows"):
        ens_plugin.analyze(broken, X, Y)


@pytest.mark.filterwarnings("error")
def test_a_warning_of_ours_that_is_turned_into_an_error_stays_itself() -> None:
    rng = np.random.default_rng(0)
    rows, labels = rng.normal(size=(212, 3)), rng.integers(0, 2, 212)
    forest = RandomForestClassifier(15, random_state=0).fit(rows[:200], labels[:200])
    with pytest.raises(WeakEstimateWarning):
        ens_plugin.analyze(forest, rows[200:], labels[200:], data="holdout")
