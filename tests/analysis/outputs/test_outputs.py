"""Models of several outputs: each output as alone, and the report of the worst."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor

import ens_plugin
from ens_plugin import EnsembleReport
from ens_plugin.errors import DataMismatchError, InputError, NotFittedError, UnsupportedModelError
from ens_plugin.report.answers import markdown_summary
from tests.analysis.outputs.cases import (
    CLASSES,
    FOREST,
    LABELS,
    MODELS,
    VALUES,
    WEIGHT,
    XR,
    X,
    label_forest,
    label_report,
    value_forest,
    value_report,
)


def figures(report: EnsembleReport) -> dict[str, Any]:
    content = report.to_dict()
    return {key: content[key] for key in ("error_curve", "recommendation", "criteria", "bias_variance")}


@pytest.mark.parametrize("report", [label_report, value_report])
def test_the_report_is_that_of_the_worst_output(report: Callable[[], EnsembleReport]) -> None:
    whole, parts = report(), report().outputs
    assert list(parts) == ["0", "1", "2"]
    shares = {
        name: part.error / part.basis.baseline_error if whole.is_squared else part.error for name, part in parts.items()
    }
    worst = max(shares, key=lambda name: shares[name])
    assert figures(whole) == figures(parts[worst])
    assert f"the worst of 3 outputs, '{worst}'" in whole.summary()
    assert (whole.n_rows, whole.rows_without_oob, whole.n_members) == (150, 0, 60)


def test_the_unit_of_an_output_does_not_make_it_the_worst() -> None:
    noise = np.random.default_rng(0).normal(size=150)
    y = np.stack([noise, 1000.0 * XR[:, 0]], axis=1)
    report = ens_plugin.analyze(RandomForestRegressor(**FOREST).fit(XR, y), XR, y)
    assert figures(report) == figures(report.outputs["0"])


def test_of_a_score_the_lowest_is_the_worst_and_of_a_loss_the_largest() -> None:
    by_score = ens_plugin.analyze(value_forest(), XR, VALUES, metric="r2")
    assert by_score.error == min(part.error for part in by_score.outputs.values())

    def loss(y: Any, mean: Any) -> float:
        return float(np.mean(np.abs(y - mean)))

    by_loss = ens_plugin.analyze(value_forest(), XR, VALUES, metric=loss)
    assert by_loss.error == max(part.error for part in by_loss.outputs.values())


FAST_MODELS = {"pipeline", "own forests", "unequal labels", "bagging"}


@pytest.mark.parametrize(
    "name", [name if name in FAST_MODELS else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]
)
def test_every_output_is_its_own_ensemble(name: str) -> None:
    model, is_value = MODELS[name](), name in ("bagging", "own forests of values")
    rows, y = (XR, VALUES) if is_value else (X, CLASSES if "unequal" in name else LABELS)
    report = ens_plugin.analyze(model, rows, y)
    parts = ens_plugin.split_outputs(model)
    assert len(report.outputs) == len(parts) == y.shape[1]
    last = len(parts) - 1
    np.testing.assert_array_equal(parts[last].predict(rows), model.predict(rows)[:, last])
    alone = ens_plugin.analyze(parts[last], rows, y[:, last])
    assert figures(alone) == figures(report.outputs[str(last)])
    assert report.model == type(model[-1] if name == "pipeline" else model).__name__


@pytest.mark.slow
def test_weights_groups_and_held_out_rows() -> None:
    forest = RandomForestRegressor(max_samples=0.3, min_samples_leaf=3, **FOREST).fit(XR, VALUES)
    weighted = ens_plugin.analyze(forest, XR, VALUES, sample_weight=WEIGHT)
    assert weighted.error != ens_plugin.analyze(forest, XR, VALUES).error
    pairs = np.repeat(np.arange(75), 2)
    grouped = ens_plugin.analyze(forest, XR, VALUES, groups=pairs)
    assert (grouped.basis.n_groups, grouped.outputs["0"].basis.n_groups) == (75, 75)
    doubled, target = np.repeat(XR, 2, axis=0), np.repeat(VALUES, 2, axis=0)
    copies = RandomForestRegressor(max_samples=0.2, **FOREST).fit(doubled, target)
    assert ens_plugin.analyze(copies, doubled, target, groups="identical").basis.n_groups == 150
    half = RandomForestClassifier(**FOREST).fit(X[:75], LABELS[:75])
    held_out = ens_plugin.analyze(half, X[75:], LABELS[75:], data="holdout")
    assert (held_out.bags, held_out.n_rows, held_out.mean_oob_members) == ("holdout", 75, 60.0)
    with pytest.raises(DataMismatchError, match="Output '0': These rows, or many of them, are rows the model was"):
        ens_plugin.analyze(half, X[:75], LABELS[:75], data="holdout")


@pytest.mark.slow
def test_outputs_have_the_names_and_the_labels_of_their_columns() -> None:
    y = pd.DataFrame(
        {"colour": np.array(["red", "blue", "green"])[CLASSES[:, 0]], "old": np.array(["no", "yes"])[CLASSES[:, 1]]}
    )
    model = MultiOutputClassifier(RandomForestClassifier(**FOREST)).fit(X, y)
    named = ens_plugin.analyze(model, X, y)
    assert list(named.outputs) == ["colour", "old"]
    assert [label.label for label in named.outputs["colour"].basis.labels] == ["blue", "green", "red"]
    old = RandomForestClassifier(**FOREST).fit(X, y["old"])
    assert figures(named.outputs["old"]) == figures(ens_plugin.analyze(old, X, y["old"]))
    twins = pd.DataFrame(VALUES, columns=["a", "a", "b"])
    assert list(ens_plugin.analyze(value_forest(), XR, twins).outputs) == ["0", "1", "2"]


def test_a_document_has_the_outputs() -> None:
    report = label_report()
    again = EnsembleReport.from_json(report.to_json())
    assert again.to_json() == report.to_json()
    assert again.outputs["2"].metrics() == report.outputs["2"].metrics()
    content = report.outputs["0"].to_dict()
    assert content["outputs"] == {}
    assert EnsembleReport.from_json(json.dumps(content)).outputs == {}
    nested = report.to_dict()
    nested["outputs"]["0"]["outputs"] = {"0": nested["outputs"]["1"]}
    with pytest.raises(InputError, match="outputs"):
        EnsembleReport.from_json(json.dumps(nested))
    damaged = report.to_dict()
    damaged["outputs"]["0"]["n_rows"] = 0
    with pytest.raises(InputError, match="n_rows"):
        EnsembleReport.from_json(json.dumps(damaged))


@pytest.mark.slow
def test_summaries_have_a_table_of_the_outputs(tmp_path: Any) -> None:
    y = pd.DataFrame(LABELS, columns=["news", "a|b <i>`", "x" * 100])
    report = ens_plugin.analyze(label_forest(), X, y)
    text = report.summary()
    assert "Figures are of the worst of 3 outputs" in text
    assert "By output" in text
    assert max(map(len, text.splitlines())) <= 80
    error = f"{100 * report.outputs['news'].accuracy:.1f} %"
    news = re.split(" {2,}", next(line for line in text.splitlines() if line.startswith("  news")).strip())
    assert (news[1], news[3].isdigit()) == (error, True)
    markdown = markdown_summary(report)
    assert f"| news | {error} |" in markdown
    assert "| a&#124;b &#60;i&#62;&#96; |" in markdown
    page = report.to_html(tmp_path / "page.html").read_text()
    assert "<bdi>a|b &lt;i&gt;`</bdi>" in page
    assert "worst of 3 outputs" in page
    assert "worst of" not in report.outputs["news"].summary()


def test_an_output_that_needs_many_more_members_is_warned_of() -> None:
    # A small output that follows from the columns needs more members than one that is noise, which is the worst.
    both = np.stack([np.random.default_rng(0).normal(size=150), 0.1 * (XR[:, 0] + XR[:, 1])], axis=1)
    own = MultiOutputRegressor(RandomForestRegressor(min_samples_leaf=1, **FOREST)).fit(XR, both)
    report = ens_plugin.analyze(own, XR, both)
    size, easy = report.recommended_size, report.outputs["1"].recommended_size
    assert easy > 2 * size
    assert any(f"1 of 2 outputs needs more than twice as many: '1' about {easy}" in text for text in report.warnings)


@pytest.mark.parametrize(
    ("model", "error", "words"),
    [
        (RandomForestRegressor, UnsupportedModelError, "RandomForestRegressor is a class, not a fitted ensemble"),
        ("models:/churn/7", UnsupportedModelError, "is of type str, not a fitted ensemble"),
        ([1, 2], UnsupportedModelError, "The model is of type list, which has no predict"),
        (RandomForestRegressor(), NotFittedError, r"has not been fitted; call its fit\(X, y\) first"),
    ],
)
def test_split_refuses_what_is_no_fitted_model(model: object, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        ens_plugin.split_outputs(model)


def test_split_refuses_one_output_and_copies_of_its_members_are_whole() -> None:
    with pytest.raises(InputError, match="predicts one output"):
        ens_plugin.split_outputs(RandomForestClassifier(5).fit(X, LABELS[:, 0]))
    before = [tree.tree_.value.copy() for tree in label_forest().estimators_]
    parts = ens_plugin.split_outputs(label_forest())
    for output, part in enumerate(parts):
        np.testing.assert_array_equal(part.predict_proba(X), label_forest().predict_proba(X)[output])
        assert len(ens_plugin.truncate(part, 10).estimators_) == 10
    for old, tree in zip(before, label_forest().estimators_, strict=True):
        np.testing.assert_array_equal(old, tree.tree_.value)


@pytest.mark.slow
def test_class_weights_that_are_products_are_not_taken_for_another_target() -> None:
    forest = RandomForestClassifier(class_weight="balanced_subsample", max_depth=3, **FOREST).fit(X, LABELS)
    assert any(text.startswith("y is not proved") for text in ens_plugin.analyze(forest, X, LABELS).warnings)


@pytest.mark.slow
def test_truncated_and_grown_models_keep_all_outputs() -> None:
    small = ens_plugin.truncate(label_forest(), 20)
    trained = RandomForestClassifier(20, max_depth=5, random_state=0).fit(X, LABELS)
    np.testing.assert_array_equal(small.predict(X), trained.predict(X))
    assert not hasattr(small, "oob_score_")
    assert len(label_forest().estimators_) == 60
    assert figures(ens_plugin.analyze(small, X, LABELS)) == figures(ens_plugin.analyze(trained, X, LABELS))
    own = MultiOutputClassifier(RandomForestClassifier(**FOREST)).fit(X, LABELS)
    assert [len(forest.estimators_) for forest in ens_plugin.truncate(own, 20).estimators_] == [20] * 3
    grown = ens_plugin.grow(RandomForestRegressor(random_state=0), XR, VALUES, tolerance=0.05)
    assert grown.report is not None
    assert len(grown.report.outputs) == 3
    assert grown.model.predict(XR).shape == (150, 3)
