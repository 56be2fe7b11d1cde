"""Rows and targets that are not those of the training: refused with the cause, or doubted at the top of the report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import BaggingClassifier, BaggingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

import ens_plugin
from ens_plugin.adapters import find_adapter
from ens_plugin.errors import DataMismatchError
from tests.extras import lightgbm, xgboost

Array = NDArray[Any]
N_ROWS = 240
RNG = np.random.default_rng(0)
X = RNG.normal(size=(2 * N_ROWS, 5))
SCORE = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * RNG.normal(size=2 * N_ROWS)
LABELS, VALUES = (SCORE > 0).astype(int), SCORE + 3.0
TRAIN, FRESH = slice(0, N_ROWS), slice(N_ROWS, None)
ORDER = RNG.permutation(N_ROWS)
WEIGHT = RNG.integers(1, 5, N_ROWS).astype(float)
WRONG_LABELS = {"inverted": 1 - LABELS[TRAIN], "permuted": LABELS[TRAIN][ORDER]}
WRONG_VALUES = {
    "scaled": 1.5 * VALUES[TRAIN], "shifted": VALUES[TRAIN] + 0.3, "negated": -VALUES[TRAIN],
    "squeezed": VALUES.mean() + 0.5 * (VALUES[TRAIN] - VALUES.mean()), "permuted": VALUES[TRAIN][ORDER],
}  # fmt: skip
BAGS = {"subsample": 0.6, "subsample_freq": 1, "num_leaves": 8, "min_child_samples": 5}
LIGHTGBM: dict[str, Any] = {"boosting_type": "rf", "n_estimators": 20, "n_jobs": 1, "verbose": -1, **BAGS}
PARALLEL = {"num_parallel_tree": 20, "subsample": 0.6, "learning_rate": 1}
XGBOOST: dict[str, Any] = {"n_estimators": 1, "n_jobs": 1, **PARALLEL}


def forest_model(y: Array, **options: Any) -> Any:
    cls = RandomForestClassifier if y is LABELS else RandomForestRegressor
    return cls(20, random_state=0, **options).fit(X[TRAIN], y[TRAIN])


def lightgbm_model(y: Array, weight: Array | None = None, **options: Any) -> Any:
    cls = lightgbm.LGBMClassifier if y is LABELS else lightgbm.LGBMRegressor
    return cls(**{**LIGHTGBM, **options}).fit(X[TRAIN], y[TRAIN], sample_weight=weight)


def xgboost_model(y: Array, **options: Any) -> Any:
    cls = xgboost.XGBClassifier if y is LABELS else xgboost.XGBRegressor
    return cls(**{**XGBOOST, **options}).fit(X[TRAIN], y[TRAIN])


def bagged(member: Any, **options: Any) -> Any:
    return BaggingClassifier(member, random_state=0, **options).fit(X[TRAIN], LABELS[TRAIN])


def given_trees() -> Any:
    drawn = [np.random.default_rng(seed).integers(0, N_ROWS, N_ROWS) for seed in range(10)]
    trees = [DecisionTreeClassifier(max_depth=5, random_state=0).fit(X[rows], LABELS[rows]) for rows in drawn]
    return ens_plugin.CustomEnsemble.from_estimators(trees, None)


def proof_of(model: Any, y: Array) -> bool:
    adapter = find_adapter(model)
    return adapter.bags(X[TRAIN], adapter.prepare(X[TRAIN]), y).proof.target


def first_lines(report: ens_plugin.EnsembleReport) -> str:
    return " ".join(report.summary().partition("\n\n")[0].split())


# ---- training rows passed as held out


HELD_OUT: dict[str, Callable[[], Any]] = {
    "lightgbm": lambda: lightgbm_model(LABELS), "lightgbm values": lambda: lightgbm_model(VALUES),
    "lightgbm weights": lambda: lightgbm_model(VALUES, WEIGHT), "xgboost": lambda: xgboost_model(LABELS),
    "xgboost values": lambda: xgboost_model(VALUES, max_depth=3),
    "xgboost exact": lambda: xgboost_model(VALUES, tree_method="exact"),
    "small forest": lambda: forest_model(LABELS, max_leaf_nodes=8),
    "given trees": given_trees,
}  # fmt: skip


@pytest.mark.parametrize("name", HELD_OUT)
def test_training_rows_are_not_held_out_in_any_order(name: str) -> None:
    model = HELD_OUT[name]()
    y = VALUES if find_adapter(model).classes is None else LABELS
    mixed = RNG.permutation(N_ROWS + 40)
    for rows in (np.arange(N_ROWS), ORDER, np.arange(N_ROWS)[::-1], mixed):
        with pytest.raises(DataMismatchError, match="rows the model was trained on"):
            ens_plugin.analyze(model, X[rows], y[rows], data="holdout")
    adapter: Any = find_adapter(model)
    assert adapter.verify_rows(adapter.prepare(X[FRESH]), y[FRESH]) != "training"


@pytest.mark.parametrize("member", [KNeighborsClassifier(5), SVC()])
def test_rows_of_members_that_show_no_training_rows_are_warned_of(member: Any) -> None:
    model = BaggingClassifier(member, 10, random_state=0).fit(X[TRAIN], LABELS[TRAIN])
    for rows in (ORDER, FRESH):
        found = ens_plugin.analyze(model, X[rows], LABELS[rows], data="holdout").warnings
        assert any(
            "Nothing in this model shows whether its members were trained on these rows" in text for text in found
        )


def test_training_rows_of_few_values_are_doubted_in_another_order() -> None:
    rounded = np.round(X)
    model = lightgbm.LGBMClassifier(**LIGHTGBM).fit(rounded[TRAIN], LABELS[TRAIN])
    report = ens_plugin.analyze(model, rounded[ORDER], LABELS[ORDER], data="holdout")
    assert "Do not use these figures. The rows may be the training rows" in first_lines(report)
    assert "may be the ones the model was trained on" in report.basis.doubts[0]
    fresh = ens_plugin.analyze(model, rounded[FRESH], LABELS[FRESH], data="holdout")
    assert fresh.warnings == fresh.basis.doubts == ()


def test_a_whole_table_of_which_half_the_rows_were_trained_on_is_doubted() -> None:
    table, labels = load_breast_cancer(return_X_y=True)
    forest = RandomForestClassifier(20, random_state=0).fit(table[::2], labels[::2])
    report = ens_plugin.analyze(forest, table, labels, data="holdout")
    assert "Do not use these figures. The rows may be the training rows" in first_lines(report)
    assert "the model was trained on, in another order or with others among them" in report.basis.doubts[0]


def test_held_out_rows_that_nothing_can_check_come_with_a_warning() -> None:
    model = BaggingRegressor(LinearRegression(), 10, random_state=0).fit(X[TRAIN], VALUES[TRAIN])
    report = ens_plugin.analyze(model, X[TRAIN], VALUES[TRAIN], data="holdout")
    assert "was trained on these rows" in first_lines(report)
    assert any("Nothing in this model shows whether its members were trained" in text for text in report.warnings)


# ---- another target


Fit = Callable[..., Any]
PROVED: list[tuple[Fit, Array, list[dict[str, Any]]]] = [
    (forest_model, LABELS, [
        {}, {"max_leaf_nodes": 8}, {"max_depth": 1}, {"max_depth": 3, "class_weight": "balanced"},
        {"max_depth": 3, "class_weight": "balanced_subsample"},
    ]),
    (forest_model, VALUES, [{}, {"max_depth": 3}, {"max_depth": 3, "criterion": "absolute_error"}]),
    (lightgbm_model, LABELS, [
        {}, {"num_leaves": 2}, {"reg_lambda": 2.0}, {"is_unbalance": True}, {"class_weight": "balanced"},
    ]),
    (lightgbm_model, VALUES, [
        {}, {"reg_lambda": 2.0}, {"reg_alpha": 1.0}, {"max_delta_step": 0.4}, {"objective": "l1"},
    ]),
    (xgboost_model, LABELS, [{}, {"base_score": 0.5}, {"max_depth": 1, "base_score": 0.5}]),
    (xgboost_model, VALUES, [
        {"max_depth": 3, **own} for own in (
            {}, {"base_score": 0.0}, {"reg_alpha": 0.5}, {"max_delta_step": 0.5}, {"objective": "reg:absoluteerror"},
        )
    ]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("fit", "y", "options"),
    [
        pytest.param(fit, y, own, id=f"{fit.__name__} {'labels' if y is LABELS else 'values'} {own}")
        for fit, y, several in PROVED
        for own in several
    ],
)
def test_a_target_is_proved_and_another_refused(fit: Fit, y: Array, options: dict[str, Any]) -> None:
    model = fit(y, **options)
    assert proof_of(model, y[TRAIN])
    wrong = dict(WRONG_LABELS if y is LABELS else WRONG_VALUES)
    if fit is lightgbm_model and y is LABELS:
        del wrong["permuted"]
    for target in wrong.values():
        with pytest.raises(DataMismatchError, match="not the target"):
            proof_of(model, target)


def test_bags_are_not_called_proved_where_weights_hide_the_target() -> None:
    model = lightgbm_model(LABELS, WEIGHT)
    for y in (LABELS[TRAIN], WRONG_LABELS["inverted"]):
        report = ens_plugin.analyze(model, X[TRAIN], y)
        assert report.bags == "recorded"
        assert "y is the training target in its order" in first_lines(report)
        assert any("y is not proved" in text for text in report.warnings)


def test_stored_score_exposes_another_target_of_bagged_members() -> None:
    model = bagged(KNeighborsClassifier(1), n_estimators=30, oob_score=True)
    assert proof_of(model, LABELS[TRAIN])
    with pytest.raises(DataMismatchError, match="stored out-of-bag outputs have a score"):
        proof_of(model, WRONG_LABELS["inverted"])


CHANGED, MOVED = "with values changed since", "in another order"


@pytest.fixture(scope="module")
def forest() -> Any:
    return forest_model(LABELS)


def refusal(model: Any, rows: Any, y: Any) -> str:
    with pytest.raises(DataMismatchError) as caught:
        ens_plugin.analyze(model, rows, y)
    return str(caught.value)


def test_rows_in_another_order(forest: Any) -> None:
    for y in (LABELS[TRAIN][ORDER], LABELS[TRAIN]):
        message = refusal(forest, X[TRAIN][ORDER], y)
        assert message.startswith("These are training rows in another order, or not all of them.")
        assert MOVED in message
        assert CHANGED not in message


def test_rounded_rows(forest: Any) -> None:
    message = refusal(forest, X[TRAIN].round(1), LABELS[TRAIN])
    assert CHANGED in message
    assert MOVED not in message


@pytest.mark.parametrize(
    ("rows", "y"),
    [(X[FRESH], LABELS[FRESH]), (X[TRAIN], LABELS[TRAIN][ORDER]), (X[TRAIN][:-1], LABELS[TRAIN][:-1])],
    ids=["as many fresh rows", "another target", "another number of rows"],
)
def test_no_cause_is_named_for_other_rows_another_target_or_number(forest: Any, rows: Any, y: Any) -> None:
    assert "Found:" not in refusal(forest, rows, y)
