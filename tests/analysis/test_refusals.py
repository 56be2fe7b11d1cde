"""What an analysis refuses, in errors that state what to do."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_friedman1
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from ens_plugin import analyze
from ens_plugin.errors import (
    BagError,
    DataMismatchError,
    EnsPluginError,
    InputError,
    NotFittedError,
    TooFewMembersError,
    UnsupportedModelError,
)
from tests.forests import CANCER, DIABETES, fitted


class TestStoredOutputs:
    @pytest.mark.slow
    def test_those_of_an_earlier_fit_are_not_believed(self) -> None:
        X, y = CANCER
        forest = RandomForestClassifier(40, oob_score=True, random_state=0).fit(X, y)
        forest.set_params(oob_score=False, random_state=1).fit(X, y)
        assert analyze(forest, X, y).error == analyze(fitted(n_estimators=40, random_state=1), X, y).error


class TestBadInput:
    """Each is an error of ours, with a word on what to do."""

    @pytest.mark.parametrize("model", [RandomForestClassifier(), RandomForestRegressor(), BaggingClassifier()])
    def test_model_that_is_not_fitted(self, model: Any) -> None:
        with pytest.raises(NotFittedError):
            analyze(model, *CANCER)

    @pytest.mark.fast_cases("model0")
    @pytest.mark.parametrize("model", [fitted(bootstrap=False), ExtraTreesClassifier(20, random_state=0).fit(*CANCER)])
    def test_no_bootstrap_needs_holdout_rows(self, model: Any) -> None:
        with pytest.raises(BagError, match="holdout"):
            analyze(model, *CANCER)
        X, y = CANCER
        assert analyze(model, X[::2], y[::2], data="holdout").data == "holdout"

    @pytest.mark.parametrize(
        "model",
        [
            fitted(),
            fitted(bootstrap=False),
            BaggingClassifier(n_estimators=10, max_features=0.5, random_state=0).fit(*CANCER),
            make_pipeline(StandardScaler(), RandomForestClassifier(20, random_state=0)).fit(*CANCER),
        ],
    )
    def test_training_rows_are_not_held_out(self, model: Any) -> None:
        with pytest.raises(DataMismatchError, match="rows the model was trained on"):
            analyze(model, *CANCER, data="holdout")

    @pytest.mark.fast_cases("bagged neighbours", "regression")
    @pytest.mark.parametrize(
        ("model", "problem"),
        [
            (RandomForestClassifier(100, random_state=0), CANCER),
            (ExtraTreesClassifier(100, bootstrap=True, random_state=0), CANCER),
            (RandomForestRegressor(60, random_state=0), DIABETES),
            (BaggingClassifier(n_estimators=100, max_features=0.5, random_state=0), CANCER),
            (BaggingRegressor(KNeighborsRegressor(1), 60, random_state=0), DIABETES),
            (make_pipeline(StandardScaler(), RandomForestClassifier(100, random_state=0)), CANCER),
        ],
        ids=["forest", "extra trees", "regression", "bagged trees", "bagged neighbours", "pipeline"],
    )
    def test_training_rows_in_another_order_are_not_held_out(self, model: Any, problem: Any) -> None:
        X, y = problem
        order = np.random.default_rng(0).permutation(len(y))
        trained, fresh = order[:300], order[300:]
        model = clone(model).fit(X[trained], y[trained])
        for rows in (trained[::-1], np.sort(trained)[:200]):
            with pytest.raises(DataMismatchError, match="rows the model was trained on"):
                analyze(model, X[rows], y[rows], data="holdout")
        assert analyze(model, X[fresh], y[fresh], data="holdout").data == "holdout"

    def test_too_few_trees_recognise_nothing(self) -> None:
        X, y = CANCER
        stumps = RandomForestClassifier(2, max_depth=1, random_state=0).fit(X, y)
        assert analyze(stumps, X, y, data="holdout").data == "holdout"

    def test_rows_that_nothing_can_check_come_with_a_warning(self) -> None:
        X, y = CANCER
        neighbours = BaggingClassifier(KNeighborsClassifier(1), 20, random_state=0)
        (warning,) = analyze(neighbours.fit(X, y), X, y).warnings
        assert "training rows in training order" in warning
        checked = BaggingClassifier(KNeighborsClassifier(1), 20, oob_score=True, random_state=0).fit(X, y)
        assert analyze(checked, X, y).warnings == ()
        held_out = analyze(neighbours, X[::2], y[::2], data="holdout").warnings
        assert any("whether its members were trained on these rows" in text for text in held_out)

    @pytest.mark.parametrize("data", ["oob", "holdout"])
    def test_columns_do_not_match(self, data: Any) -> None:
        X, y = CANCER
        with pytest.raises(DataMismatchError):
            analyze(fitted(), X[:, :-1], y, data=data)

    def test_other_number_of_rows(self) -> None:
        X, y = CANCER
        for rows in (slice(0, 500), slice(0, 20)):
            with pytest.raises(DataMismatchError, match="training"):
                analyze(fitted(), X[rows], y[rows])
        with pytest.raises(DataMismatchError, match="training"):
            analyze(fitted(), np.concatenate([X, X]), np.concatenate([y, y]))

    def test_target_of_another_length(self) -> None:
        X, y = CANCER
        with pytest.raises(InputError):
            analyze(fitted(), X, y[:-1])
        with pytest.raises(InputError, match=r"568.*569|569.*568"):
            analyze(fitted(), X[:-1], y, data="holdout")

    @pytest.mark.parametrize("oob_score", [False, True])
    def test_shuffled_rows(self, oob_score: bool) -> None:
        X, y = CANCER
        order = np.random.default_rng(0).permutation(y.size)
        with pytest.raises(DataMismatchError, match="order"):
            analyze(fitted(oob_score=oob_score), X[order], y[order])

    def test_shuffled_rows_where_only_the_stored_outputs_can_tell(self) -> None:
        """Bagging of a learner whose fit leaves no trace of its rows."""
        X, y = CANCER
        model = BaggingClassifier(SVC(), 40, oob_score=True, random_state=0).fit(X[:200], y[:200])
        order = np.random.default_rng(0).permutation(200)
        with pytest.raises(DataMismatchError, match="stored"):
            analyze(model, X[order], y[order])
        analyze(model, X[:200], y[:200])

    def test_unknown_labels(self) -> None:
        X, y = CANCER
        with pytest.raises(InputError, match="does not have"):
            analyze(fitted(), X, np.where(y == 1, 2, y))

    @pytest.mark.parametrize("target", ["classification", "regression"])
    def test_nan_in_y(self, target: str) -> None:
        X, y = CANCER
        model = fitted() if target == "classification" else RandomForestRegressor(20, random_state=0).fit(X, y)
        with pytest.raises(InputError, match="y holds 1 missing"):
            analyze(model, X, np.concatenate([[np.nan], y[1:].astype(float)]))

    def test_one_class_only(self) -> None:
        X, y = CANCER
        ones = y == 1
        with pytest.raises(InputError, match="single label"):
            analyze(fitted(), X[ones], y[ones], data="holdout")
        alone = RandomForestClassifier(10, random_state=0).fit(X[ones], y[ones])
        with pytest.raises(InputError, match="single label"):
            analyze(alone, X[ones], y[ones])

    def test_one_member(self) -> None:
        with pytest.raises(TooFewMembersError, match="one member"):
            analyze(fitted(n_estimators=1), *CANCER)

    @pytest.mark.parametrize("n_members", [2, 3])
    def test_too_few_members_for_most_rows(self, n_members: int) -> None:
        with pytest.raises(TooFewMembersError, match=r"of 569 rows have fewer than 2.*holdout"):
            analyze(fitted(n_estimators=n_members), *CANCER)

    def test_empty_data(self) -> None:
        X, y = CANCER
        for data in ("oob", "holdout"):
            with pytest.raises(EnsPluginError):
                analyze(fitted(), X[:0], y[:0], data=data)

    @pytest.mark.parametrize(
        "model", [SVC().fit(*CANCER), GradientBoostingClassifier(n_estimators=2).fit(*CANCER), "model", None, object()]
    )
    def test_unsupported_model(self, model: Any) -> None:
        with pytest.raises(
            UnsupportedModelError, match=r"CustomEnsemble|Supported|Load the model first|is no trained ensemble"
        ):
            analyze(model, *CANCER)

    def test_multi_output(self) -> None:
        X, y = make_friedman1(60, random_state=0)
        model = RandomForestRegressor(10, random_state=0).fit(X, np.stack([y, y], axis=1))
        with pytest.raises(InputError, match=r"predicts 2 outputs; pass y of shape \(n_rows, 2\)"):
            analyze(model, X, y)

    @pytest.mark.parametrize("tolerance", [0.5, 1.0, 99, 0.0, np.nan])
    def test_share_of_other_labels_outside_its_range(self, tolerance: float) -> None:
        with pytest.raises(InputError, match="tolerance"):
            analyze(fitted(), *CANCER, criterion="agreement", tolerance=tolerance)

    def test_weight_of_another_length(self) -> None:
        with pytest.raises(InputError, match="sample_weight"):
            analyze(fitted(), *CANCER, sample_weight=np.ones(3))

    def test_weights_of_one_row_alone(self) -> None:
        """The size came out as 1400 with an interval of 1399 to 1401."""
        weight = np.where(np.arange(len(CANCER[1])) == 7, 1e9, 1.0)
        with pytest.raises(InputError, match="One row has 100 % of sample_weight"):
            analyze(fitted(), *CANCER, sample_weight=weight)

    def test_messages_say_what_to_do(self) -> None:
        """A message that ends where the fault is named leaves the reader alone."""
        X, y = CANCER
        cases: list[tuple[Any, Any, Any, dict[str, Any]]] = [
            (fitted(bootstrap=False), X, y, {}),
            (fitted(n_estimators=1), X, y, {}),
            (fitted(n_estimators=2), X, y, {}),
            (fitted(), X[::-1], y[::-1], {}),
            (SVC(), X, y, {}),
        ]
        for model, rows, target, options in cases:
            with pytest.raises(EnsPluginError) as caught:
                analyze(model, rows, target, **options)
            assert re.search(r"\b(pass|train|refit|fit|supported|must be)\b", str(caught.value), re.IGNORECASE)
