from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import BaggingClassifier
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import Ridge
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import ens_plugin
from ens_plugin import CustomEnsemble
from ens_plugin.adapters.custom import CustomAdapter
from ens_plugin.errors import BagError, DataMismatchError, InputError
from tests.adapters.cases import FRAME, NAMES, SPARSE, X2, X3, XR, Y2, Y3, YR

VALUES = np.arange(6.0).reshape(2, 3)
EVEN = np.full((2, 3, 2), 0.5)
BAGS = [[0, 1], [2, 2]]
MASK = np.array([[True, True, False], [False, False, True]])


@pytest.mark.parametrize("in_bag", [MASK, MASK.tolist(), BAGS, [np.array(rows) for rows in BAGS], [[0, 1, 1], [2]]])
def test_mask_and_index_arrays_give_the_same_bags(in_bag: Any) -> None:
    adapter = CustomAdapter(CustomEnsemble(VALUES, in_bag, aggregation="mean"))
    bags = adapter.bags(None, adapter.prepare(None), None)
    np.testing.assert_array_equal(bags.in_bag(), MASK)
    assert adapter.info.bag_provenance == "given"


def test_later_changes_of_the_mask_do_not_matter() -> None:
    mask = MASK.copy()
    adapter = CustomAdapter(CustomEnsemble(VALUES, mask, aggregation="mean"))
    mask[:] = True
    np.testing.assert_array_equal(adapter.bags(None, adapter.prepare(None), None).in_bag(), MASK)


@pytest.mark.parametrize(
    ("outputs", "in_bag", "options", "message"),
    [
        (VALUES, BAGS, {"aggregation": "median"}, "aggregation must be one of"),
        (VALUES[0], BAGS, {"aggregation": "mean"}, r"outputs must have shape \(n_members, n_rows\)"),
        (VALUES, BAGS, {"aggregation": "mean_proba"}, r"\(n_members, n_rows, n_labels\)"),
        (np.zeros((0, 3)), None, {"aggregation": "mean"}, "outputs is empty"),
        (np.full((2, 3), "a"), BAGS, {"aggregation": "mean"}, "outputs must hold numbers"),
        (np.where(MASK, np.nan, VALUES), BAGS, {"aggregation": "mean"}, "outputs holds NaN"),
        (EVEN * 3, BAGS, {"aggregation": "mean_proba"}, r"probabilities in \[0, 1\]"),
        (EVEN * 0.9, BAGS, {"aggregation": "mean_proba"}, "outputs must sum to 1"),
        (EVEN, BAGS, {"aggregation": "mean_proba", "classes": [1, 2, 3]}, "classes holds 3 labels"),
        (EVEN, BAGS, {"aggregation": "mean_proba", "classes": [1, 1]}, "classes must be a non-empty list of distinct"),
        (VALUES, BAGS, {"aggregation": "mean_score", "classes": [1, 2, 3]}, "classes holds 3 labels"),
        (VALUES, BAGS, {"aggregation": "mean", "classes": [0, 1]}, "leave classes out"),
        (VALUES, BAGS, {"aggregation": "vote", "classes": [0, 1]}, "outputs holds labels that are not among"),
        (VALUES, [[0, 1]], {"aggregation": "mean"}, "1 index array for 2 members"),
        (VALUES, [[0, 3], [1]], {"aggregation": "mean"}, r"in_bag\[0\] must hold row positions"),
        (VALUES, [[0, -1], [1]], {"aggregation": "mean"}, r"in_bag\[0\] must hold row positions"),
        (VALUES, [[0], []], {"aggregation": "mean"}, r"in_bag\[1\] must be a non-empty list"),
        (VALUES, [[0.5], [1.0]], {"aggregation": "mean"}, r"in_bag\[0\] must be a non-empty list"),
        (VALUES, MASK.T, {"aggregation": "mean"}, "a mask of these members and rows"),
        (VALUES, MASK.astype(int), {"aggregation": "mean"}, "pass it as bool"),
        (VALUES, 3, {"aggregation": "mean"}, "one index array per member"),
        (VALUES, np.array(3), {"aggregation": "mean"}, "one index array per member"),
        (VALUES, np.array(True), {"aggregation": "mean"}, "one index array per member"),
    ],
)
def test_wrong_argument_is_named(outputs: Any, in_bag: Any, options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        CustomEnsemble(outputs, in_bag, **options)


def test_probabilities_may_be_off_by_their_rounding() -> None:
    thirds = np.full((2, 3, 3), 1 / 3, dtype=np.float32)
    adapter = CustomAdapter(CustomEnsemble(thirds, BAGS, aggregation="mean_proba"))
    assert adapter.outputs(adapter.prepare(None)).dtype == np.float64


def test_votes_are_codes_in_the_order_of_classes() -> None:
    votes = np.array([["b", "a", "b"], ["c", "a", "a"]])
    for classes, codes in [(None, [[1, 0, 1], [2, 0, 0]]), (["c", "b", "a", "d"], [[1, 2, 1], [0, 2, 2]])]:
        adapter = CustomAdapter(CustomEnsemble(votes, BAGS, aggregation="vote", classes=classes))
        np.testing.assert_array_equal(adapter.outputs(adapter.prepare(None)), codes)


def test_scores_of_two_labels_need_no_label_axis() -> None:
    adapter = CustomAdapter(CustomEnsemble(VALUES, BAGS, aggregation="mean_score"))
    assert adapter.classes is not None
    assert adapter.classes.tolist() == [0, 1]
    np.testing.assert_array_equal(adapter.outputs(adapter.prepare(None)), VALUES)


def test_without_bags_only_holdout_rows_can_be_analysed() -> None:
    adapter = CustomAdapter(CustomEnsemble(VALUES, None, aggregation="mean"))
    np.testing.assert_array_equal(adapter.outputs(adapter.prepare(None)), VALUES)
    with pytest.raises(BagError, match='data="holdout"'):
        adapter.bags(None, adapter.prepare(None), None)


def test_x_of_another_length_is_refused() -> None:
    with pytest.raises(DataMismatchError, match="X has 4 rows"):
        CustomAdapter(CustomEnsemble(VALUES, BAGS, aggregation="mean")).prepare(np.zeros((4, 1)))


def test_models_of_a_bagging_ensemble_predict_as_it_does() -> None:
    whole = BaggingClassifier(DecisionTreeClassifier(max_depth=2), 10, random_state=0).fit(X3, Y3)
    parts = CustomAdapter(CustomEnsemble.from_estimators(whole.estimators_, whole.estimators_samples_))
    features = parts.prepare(X3)
    assert parts.info.aggregation == "mean_proba"
    np.testing.assert_allclose(parts.outputs(features).mean(axis=0), whole.predict_proba(X3), atol=1e-12)
    bags = parts.bags(X3, features, Y3)
    assert all(set(np.flatnonzero(bags.member(i))) == set(rows) for i, rows in enumerate(whole.estimators_samples_))


def test_models_without_probabilities_vote() -> None:
    models = [LinearSVC(dual=False).fit(X3[start::2], NAMES[Y3][start::2]) for start in (0, 1)]
    adapter = CustomAdapter(CustomEnsemble.from_estimators(models, None))
    assert adapter.info.aggregation == "vote"
    assert adapter.classes is not None
    votes = adapter.classes[adapter.outputs(adapter.prepare(SPARSE.toarray()))]
    np.testing.assert_array_equal(votes, [model.predict(SPARSE.toarray()) for model in models])


def test_held_out_texts_are_rows_of_one_dimension() -> None:
    rng = np.random.default_rng(0)
    words = rng.choice(["aa", "bb", "cc", "dd"], (120, 5))
    texts, y = [" ".join(own) for own in words], ((words == "aa").any(axis=1) ^ (rng.random(120) < 0.2)).astype(int)
    models = [make_pipeline(CountVectorizer(), MultinomialNB()).fit(texts[s:80:2], y[s:80:2]) for s in (0, 1)]
    report = ens_plugin.analyze(CustomEnsemble.from_estimators(models, None), texts[80:], y[80:], data="holdout")
    errors = [np.mean(model.predict(texts[80:]) != y[80:]) for model in models]
    assert report.bias_variance.member_error == pytest.approx(np.mean(errors))


def test_models_trained_on_fewer_labels_are_scattered() -> None:
    others = [np.flatnonzero(label != Y3) for label in (0, 1)]
    models = [KNeighborsClassifier(1).fit(X3[rows], NAMES[Y3][rows]) for rows in others]
    adapter = CustomAdapter(CustomEnsemble.from_estimators(models, None))
    assert adapter.classes is not None
    assert adapter.classes.tolist() == sorted(NAMES)
    outputs = adapter.outputs(adapter.prepare(X3))
    for member, label in enumerate((0, 1)):
        assert not outputs[member][:, adapter.classes.tolist().index(NAMES[label])].any()


def test_regressors_are_averaged_and_frames_keep_their_names() -> None:
    frame = pd.DataFrame(XR, columns=list("abcdef"))
    models = [Ridge().fit(frame.iloc[start::2], YR[start::2]) for start in (0, 1)]
    adapter = CustomAdapter(CustomEnsemble.from_estimators(models, [np.arange(0, 160, 2), np.arange(1, 160, 2)]))
    assert (adapter.info.task, adapter.info.aggregation) == ("regression", "mean")
    features = adapter.prepare(frame)
    wanted = ~adapter.bags(frame, features, YR).in_bag()
    outputs = adapter.outputs(features, wanted=wanted)
    np.testing.assert_allclose(outputs[0, 1::2], models[0].predict(frame.iloc[1::2]))


class Half:
    def predict(self, X: Any) -> Any:
        return np.zeros((len(X), 2))


@pytest.mark.parametrize(
    ("models", "rows", "message"),
    [
        ([], [], "models is empty"),
        (np.array(3), None, "models must be a list of fitted models"),
        ([Ridge().fit(XR, YR)], np.array(True), "one index array per member"),
        ([object()], [[0]], r"models\[0\] is of type object, without predict"),
        ([Ridge().fit(XR, YR), DecisionTreeClassifier().fit(X2, Y2)], None, "Only 1 of 2 models has classes_"),
        ([Ridge().fit(XR, YR)], [[0], [1]], "row_indices has 2 index arrays for 1 member"),
        ([Ridge().fit(XR, YR)], np.ones((2, 160), dtype=bool), "row_indices has shape"),
    ],
)
def test_models_that_are_no_ensemble(models: Any, rows: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        CustomEnsemble.from_estimators(models, rows)


def test_models_need_rows_that_exist() -> None:
    adapter = CustomAdapter(CustomEnsemble.from_estimators([Ridge().fit(XR, YR)], [[0, 159]]))
    with pytest.raises(InputError, match="X is None"):
        adapter.prepare(None)
    with pytest.raises(DataMismatchError, match="up to row 159"):
        adapter.bags(XR[:10], adapter.prepare(XR[:10]), YR[:10])


def test_model_with_several_outputs_is_refused() -> None:
    adapter = CustomAdapter(CustomEnsemble.from_estimators([Half()], [[0]]))
    with pytest.raises(InputError, match="must have one output"):
        adapter.outputs(adapter.prepare(FRAME))


def test_what_is_not_an_array_is_named() -> None:
    with pytest.raises(InputError, match="outputs is not an array"):
        CustomEnsemble([[1.0, 2.0], [1.0]], None, aggregation="mean")
    with pytest.raises(InputError, match="outputs is a single value"):
        CustomEnsemble(5.0, None, aggregation="mean")
    adapter = CustomAdapter(CustomEnsemble(VALUES, None, aggregation="mean"))
    with pytest.raises(InputError, match="X is a single value"):
        adapter.prepare(5)


@pytest.mark.parametrize("model", [Ridge(), Ridge().fit(XR[:, :2], YR)])
def test_a_model_that_fails_is_named(model: Any) -> None:
    adapter = CustomAdapter(CustomEnsemble.from_estimators([model, model], None))
    with pytest.raises(InputError, match="model 0 failed on rows of X"):
        adapter.outputs(adapter.prepare(XR))


# ---- truncate


def test_truncated_keeps_the_rule_and_the_labels_of_all_members() -> None:
    votes = np.array([["a", "b"], ["a", "a"], ["c", "a"]])
    ensemble = CustomEnsemble(votes, None, aggregation="vote")
    small = ens_plugin.truncate(ensemble, 2)
    assert small.aggregation == "vote"
    assert small.classes.tolist() == ["a", "b", "c"]
    assert small.in_bag is None
    assert not np.shares_memory(small.outputs, ensemble.outputs)


def test_truncated_list_of_models_votes_if_the_whole_did() -> None:
    models = [DecisionTreeClassifier().fit(X2, Y2), DecisionTreeClassifier().fit(X2, Y2), LinearSVC().fit(X2, Y2)]
    ensemble = CustomEnsemble.from_estimators(models, None)
    small = ens_plugin.truncate(ensemble, 2)
    assert (ensemble.aggregation, small.aggregation) == ("vote", "vote")
    assert small.models == models[:2]
    assert small.models[0] is models[0]
    assert ensemble.models == models
