"""Agreement on rows without labels: against larger forests, analyses of the same rows with labels, and by hand."""

from __future__ import annotations

import html
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri
from sklearn.datasets import load_breast_cancer, load_digits, make_classification
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ens_plugin
from ens_plugin import agreement, analyze
from ens_plugin.errors import DataMismatchError, InputError, TooFewMembersError, UnsupportedModelError
from tests.extras import lightgbm, xgboost

Array = np.ndarray[Any, np.dtype[Any]]
N_TRAINED = 1000


@cache
def problem(n_labels: int) -> tuple[Array, Array]:
    X, y = make_classification(
        6000, 12, n_informative=8, n_classes=n_labels, n_clusters_per_class=1, flip_y=0.1, random_state=n_labels
    )
    return X, y


@cache
def forest(n_labels: int, n_trees: int = 60, depth: int | None = None) -> RandomForestClassifier:
    X, y = problem(n_labels)
    # Not the seed of a part of the larger forest, whose trees would be the same.
    return RandomForestClassifier(n_trees, max_depth=depth, random_state=n_trees).fit(X[:N_TRAINED], y[:N_TRAINED])


def fresh_rows(n_labels: int) -> Array:
    return problem(n_labels)[0][N_TRAINED:]


CANCER, DIAGNOSIS = load_breast_cancer(return_X_y=True, as_frame=True)
OF_CANCER = RandomForestClassifier(40, random_state=0).fit(CANCER[:300], DIAGNOSIS[:300])
TODAY = CANCER[300:]


@pytest.mark.fast_cases("2-votes", "3-probabilities")
@pytest.mark.parametrize("depth", [None, 4], ids=["votes", "probabilities"])
@pytest.mark.parametrize("n_labels", [2, 3, 10])
def test_as_many_labels_are_those_of_a_forest_ten_times_as_large(n_labels: int, depth: int | None) -> None:
    small, large, rows = forest(n_labels, depth=depth), forest(n_labels, 600, depth), fresh_rows(n_labels)
    found = agreement(small, rows)
    same = float(np.mean(small.predict(rows) == large.predict(rows)))
    # The large one differs from the infinite one too, by about a third of the disagreement.
    assert 1.0 - found.agreement == pytest.approx(1.0 - same, rel=0.3, abs=0.004)


def test_the_size_is_within_its_interval_and_reaches_the_wanted_agreement() -> None:
    found = agreement(forest(2), fresh_rows(2))
    low, high = found.recommendation.interval
    assert low <= found.recommended_size <= high
    table = found.to_frame()["agreement"]
    assert table[table.index >= found.recommended_size].min() >= 0.99
    assert table.loc[found.n_members] == found.agreement
    assert (np.diff(table) >= 0).all()


def test_undecided_rows_are_those_of_equation_12() -> None:
    X = fresh_rows(2)
    votes = np.array([tree.predict(X) for tree in forest(2).estimators_])
    p = votes.mean(axis=0)
    with np.errstate(divide="ignore"):
        needed = np.ceil(np.round(ndtri(0.99) ** 2 * p * (1 - p) / (p - 0.5) ** 2, 9))
    found = agreement(forest(2), X).undecided
    assert set(found.index) == set(np.flatnonzero(needed > 60))
    np.testing.assert_array_equal(found["needed"], needed[found.index])
    np.testing.assert_allclose(found["margin"], np.abs(2 * p - 1)[found.index], atol=1e-12)
    np.testing.assert_array_equal(found["label"], forest(2).predict(X)[found.index])
    assert (np.diff(found["margin"]) >= 0).all()


def test_of_three_labels_the_margin_is_that_of_the_leading_one_over_the_runner_up() -> None:
    X = fresh_rows(3)
    shares = np.sort(forest(3).predict_proba(X), axis=1)
    found = agreement(forest(3), X).undecided
    np.testing.assert_allclose(found["margin"], (shares[:, -1] - shares[:, -2])[found.index], atol=1e-12)
    assert (found["label"] != found["runner_up"]).all()
    np.testing.assert_array_equal(found["label"], forest(3).predict(X)[found.index])


def test_the_probability_is_off_by_the_standard_error_of_the_shares_of_votes() -> None:
    X = fresh_rows(2)
    share = forest(2).predict_proba(X)[:, 0]
    found = agreement(forest(2), X).probability_sd
    assert found == pytest.approx(np.sqrt(np.mean(share * (1 - share) / 59)), rel=1e-9)


def test_the_order_of_rows_and_the_number_of_threads_change_nothing() -> None:
    X = fresh_rows(3)
    order = np.random.default_rng(0).permutation(len(X))
    first, other = agreement(forest(3), X), agreement(forest(3), X[order], n_jobs=2)
    assert (first.agreement, first.recommendation.interval) == (other.agreement, other.recommendation.interval)
    assert set(order[other.undecided.index]) == set(first.undecided.index)


def test_members_that_vote_tie_and_a_tie_needs_infinitely_many() -> None:
    X, y = problem(3)
    members = BaggingClassifier(SGDClassifier(random_state=0), 10, max_samples=0.1, random_state=0)
    found = agreement(members.fit(X[:N_TRAINED], y[:N_TRAINED]), fresh_rows(3))
    assert 0.5 < found.agreement < 1.0
    ties = found.undecided[found.undecided["margin"] == 0]
    assert len(ties) > 0
    assert np.isinf(ties["needed"]).all()


def test_members_that_never_differ_agree_at_every_size() -> None:
    model = RandomForestClassifier(20, max_features=None, bootstrap=False, random_state=0)
    X = np.linspace(0.0, 1.0, 100)[:, None]
    found = agreement(model.fit(X, X[:, 0] > 0.52), np.linspace(0.0, 0.5, 60)[:, None])
    assert (found.agreement, found.recommended_size, found.recommendation.interval) == (1.0, 1, (1, 1))
    assert found.undecided.empty
    assert "No row is undecided" in str(found)


def test_json_holds_the_numbers_and_no_infinity() -> None:
    found = agreement(OF_CANCER, TODAY)
    content = json.loads(found.to_json())
    assert content["agreement"] == found.agreement
    assert content["interval"] == list(found.recommendation.interval)
    assert [row["row"] for row in content["undecided"]] == found.undecided.index.tolist()
    assert [row["needed"] for row in content["undecided"]] == [
        None if np.isinf(needed) else needed for needed in found.undecided["needed"]
    ]


def test_the_page_shows_the_sentences_and_the_closest_rows(tmp_path: Path) -> None:
    found = agreement(OF_CANCER, TODAY.set_axis([f"<b>{place}" for place in TODAY.index]), tolerance=0.001)
    path = found.to_html(tmp_path / "today.html")
    page = path.read_text(encoding="utf-8")
    assert page == found.to_html()
    assert html.escape("On these 269 rows, 40 trees predict the label that infinitely many would for") in page
    assert page.count("<tr>") - 1 == min(len(found.undecided), 20)
    assert html.escape(found.undecided.index[0]) in page
    assert "<b>" not in page
    with pytest.raises(InputError, match="does not exist"):
        found.to_html(tmp_path / "nowhere" / "today.html")


def trained_on_cancer(model: Any, y: Any = DIAGNOSIS) -> Any:
    return model.fit(CANCER[:300], y[:300])


NEIGHBOURS = BaggingClassifier(KNeighborsClassifier(), random_state=0)
ARRAYS = ens_plugin.CustomEnsemble(np.zeros((3, 269), dtype=int), None, aggregation="vote", classes=[0, 1])
MISSING = TODAY.mask(pd.DataFrame(np.eye(*TODAY.shape) > 0, TODAY.index, TODAY.columns))
REFUSED: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "values": (
        lambda: agreement(trained_on_cancer(RandomForestRegressor(5)), TODAY), UnsupportedModelError, "predicts values"
    ),
    "boosting": (
        lambda: agreement(trained_on_cancer(GradientBoostingClassifier(n_estimators=5)), TODAY),
        UnsupportedModelError, "Members of boosting correct one another",
    ),
    "one member": (
        lambda: agreement(trained_on_cancer(RandomForestClassifier(1)), TODAY), TooFewMembersError, "one member"
    ),
    "two outputs": (
        lambda: agreement(trained_on_cancer(RandomForestClassifier(5), np.column_stack([DIAGNOSIS] * 2)), TODAY),
        UnsupportedModelError, "predicts 2 outputs",
    ),
    "arrays": (lambda: agreement(ARRAYS, None), InputError, "made of arrays"),
    "missing values": (lambda: agreement(trained_on_cancer(NEIGHBOURS), MISSING), InputError, "hold NaN"),
    "half of the labels": (lambda: agreement(OF_CANCER, TODAY, tolerance=0.6), InputError, "tolerance"),
    "tolerance of 0": (lambda: agreement(OF_CANCER, TODAY, tolerance=0.0), InputError, "tolerance"),
    "level": (lambda: agreement(OF_CANCER, TODAY, interval_level=2.0), InputError, "interval_level"),
    "largest size": (lambda: agreement(OF_CANCER, TODAY, max_size=0), InputError, "max_size"),
    "values beside rows without labels": (
        lambda: beside(RandomForestRegressor(20), problem(2)[1][:100]), UnsupportedModelError, "predicts values"
    ),
    "outputs beside rows without labels": (
        lambda: beside(RandomForestClassifier(20), np.column_stack([problem(2)[1]] * 2)[:100]),
        UnsupportedModelError, "agreement on rows without labels",
    ),
}  # fmt: skip


def beside(model: Any, y: Any) -> object:
    X = problem(2)[0]
    return analyze(model.fit(X[:100], y), X[:100], y, unlabelled=X[200:])


@pytest.mark.parametrize("case", REFUSED)
def test_what_has_no_agreement_is_refused(case: str) -> None:
    act, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        act()


ROWS: dict[str, tuple[Any, type[Exception], str]] = {
    "none": (TODAY[:0], InputError, "X has no rows"),
    "one": (TODAY[:1], InputError, "X has 1 row"),
    "renamed": (TODAY.rename(columns={"mean area": "area"}), DataMismatchError, "missing 'mean area'; unknown 'area'"),
    "one less": (TODAY.drop(columns="mean area"), DataMismatchError, "missing 'mean area'"),
    "with y": (TODAY.assign(diagnosis=DIAGNOSIS), DataMismatchError, "unknown 'diagnosis'"),
    "array with y": (np.column_stack([TODAY, DIAGNOSIS[300:]]), DataMismatchError, "31 columns.*trained on 30"),
    "training rows": (CANCER[:300], DataMismatchError, "rows the model was trained on"),
    "shuffled": (CANCER[:300].sample(frac=1.0, random_state=0), DataMismatchError, "rows the model was trained on"),
}


@pytest.mark.parametrize("case", ROWS)
def test_rows_that_tell_nothing_are_refused(case: str) -> None:
    """Alone, and beside rows with labels, where the message says which rows are meant."""
    rows, error, message = ROWS[case]
    with pytest.raises(error, match=message):
        agreement(OF_CANCER, rows)
    with pytest.raises(error, match=f"^Of the rows passed as unlabelled: .*{message}"):
        analyze(OF_CANCER, CANCER[:300], DIAGNOSIS[:300], unlabelled=rows)


def with_training_rows(share: float, trained: Any, fresh: Any) -> Any:
    """Return as many rows as there are fresh ones, of which a share are training rows, in random order."""
    rng, number = np.random.default_rng(0), round(share * len(fresh))
    return rng.permutation(np.concatenate([rng.permutation(trained)[:number], fresh[number:]]))


@pytest.mark.fast_cases("forest", "bagging")
@pytest.mark.parametrize(
    "ensemble",
    [
        RandomForestClassifier(100, random_state=0),
        RandomForestClassifier(100, max_depth=8, class_weight="balanced", random_state=0),
        ExtraTreesClassifier(100, bootstrap=True, max_samples=0.8, random_state=0),
        BaggingClassifier(n_estimators=100, max_features=0.7, random_state=0),
        make_pipeline(StandardScaler(), RandomForestClassifier(100, random_state=0)),
    ],
    ids=["forest", "limited and weighted", "extra trees", "bagging", "pipeline"],
)
def test_a_part_of_training_rows_is_doubted_and_a_half_refused(ensemble: Any) -> None:
    """Without the training rows, by the bags: what is said is what is so, and fresh rows have no doubt."""
    X, y = load_digits(return_X_y=True)
    model = ensemble.fit(X[:1200], y[:1200])
    assert not [each for each in agreement(model, X[1200:]).findings if each.code == "some-training-rows"]
    found = agreement(model, with_training_rows(0.2, X[:1200], X[1200:]))
    assert found.doubts[0].startswith("An estimated ")
    assert found.findings[0].numbers["share"] == pytest.approx(0.2, abs=0.07)
    with pytest.raises(
        DataMismatchError, match=r"An estimated \d\d % of these 597 rows .* such as row \d+, .*leaving out"
    ):
        agreement(model, with_training_rows(0.75, X[:1200], X[1200:]))
    with pytest.raises(DataMismatchError, match="rows the model was trained on"):
        agreement(model, X[:1200:10])


def test_rows_that_are_equal_by_nature_are_no_training_rows() -> None:
    """Four columns of three values: most fresh rows equal a training row."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (900, 4)).astype(float)
    y = (X.sum(axis=1) + rng.normal(size=900) > 4).astype(int)
    model = RandomForestClassifier(60, random_state=0).fit(X[:500], y[:500])
    report = analyze(model, X[:500], y[:500], groups=np.arange(500), unlabelled=X[500:])
    assert not any("were trained on" in doubt or "such as" in doubt for doubt in report.basis.doubts)


@pytest.mark.parametrize("n_labels", [2, 3])
def test_an_analysis_takes_the_agreement_from_rows_without_labels_and_nothing_else(n_labels: int) -> None:
    X, y = problem(n_labels)
    rows, labels, others = X[:N_TRAINED], y[:N_TRAINED], fresh_rows(n_labels)
    plain = analyze(forest(n_labels), rows, labels)
    report = analyze(forest(n_labels), rows, labels, unlabelled=others)
    alone = agreement(forest(n_labels), others)
    of_labels, *others_before = plain.criteria
    found, *others_after = report.criteria
    assert (found.size, found.interval) == (alone.recommended_size, alone.recommendation.interval)
    assert found.agreement == report.recommendation.agreement == alone.agreement
    assert [(each.size, each.interval) for each in others_after] == [
        (each.size, each.interval) for each in others_before
    ]
    assert (report.error, report.recommended_size) == (plain.error, plain.recommended_size)
    assert of_labels.interval[1] / of_labels.interval[0] > found.interval[1] / found.interval[0]
    assert report.basis.n_unlabelled == len(others)
    assert "Rows without labels: 5000, for agreement" in " ".join(report.details().split())
    assert ens_plugin.EnsembleReport.from_json(report.to_json()).basis.n_unlabelled == len(others)


def test_rows_that_are_closer_to_call_than_those_with_labels_are_a_note() -> None:
    X, y = problem(2)
    near = fresh_rows(2)
    share = forest(2).predict_proba(near)[:, 1]
    close = near[np.abs(share - 0.5) < 0.3]
    report = analyze(forest(2), X[:N_TRAINED], y[:N_TRAINED], unlabelled=close)
    (note,) = [each for each in report.findings if each.code == "other-agreement"]
    assert note.kind == "note"
    assert note.sentence.startswith(f"The {len(close)} rows without labels are closer to call than those with labels")
    assert note.numbers["agreement"] < note.numbers["agreement_with_labels"]


def test_what_is_printed_is_short_and_plain_with_a_warning_too() -> None:
    plain, shifted = agreement(forest(2), fresh_rows(2)), agreement(OF_CANCER, TODAY + 1e6)
    assert shifted.doubts
    for found, beginning in (
        (plain, "On these 5000 rows, 60 trees predict the label that infinitely many"),
        (shifted, "Warning: "),
    ):
        lines = str(found).splitlines()
        assert len(lines) <= 15
        assert max(map(len, lines)) <= 80
        assert lines[0].startswith(beginning)
    assert repr(plain).startswith("Agreement(model='RandomForestClassifier', n_members=60, n_rows=5000, agreement=0.9")
    assert plain.plot().get_xlabel() == "Ensemble size (trees)"


def of_library(library: str, X: Array, y: Array) -> Any:
    if library == "lightgbm":
        kind = dict(boosting_type="rf", subsample=0.6, subsample_freq=1, verbose=-1)
        return lightgbm.LGBMClassifier(n_estimators=30, n_jobs=1, **kind).fit(X, y)
    if library == "xgboost":
        return xgboost.XGBRFClassifier(n_estimators=30, n_jobs=1).fit(X, y)
    member = GaussianNB() if library == "networks" else None
    model = BaggingClassifier(member, n_estimators=30, random_state=0, oob_score=True).fit(X, y)
    if library == "own":
        return ens_plugin.CustomEnsemble.from_estimators(model.estimators_, model.estimators_samples_)
    return model


@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "own", "networks"])
def test_rows_without_labels_are_compared_with_training_rows(library: str) -> None:
    X, y = load_digits(return_X_y=True)
    X, y, fresh = X[:400], y[:400] % 2, X[400:800]
    model = of_library(library, X, y)
    report = analyze(model, X, y, unlabelled=fresh)
    assert not any("rows the model was trained on, such as" in doubt for doubt in report.basis.doubts)
    report = analyze(model, X, y, unlabelled=with_training_rows(0.1, X, fresh))
    assert any("estimated 10 % of these 400 rows" in doubt for doubt in report.basis.doubts)
    with pytest.raises(DataMismatchError, match=r"passed as unlabelled: An estimated 60 % of these 400 rows"):
        analyze(model, X, y, unlabelled=with_training_rows(0.6, X, fresh))


@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "own"])
def test_trees_know_their_training_rows_in_any_order(library: str) -> None:
    X, y = problem(2)
    model = of_library(library, X[:N_TRAINED], y[:N_TRAINED])
    with pytest.raises(DataMismatchError, match="rows the model was trained on"):
        agreement(model, X[np.random.default_rng(0).permutation(N_TRAINED)])
    assert agreement(model, X[N_TRAINED:]).doubts == ()


def test_few_rows_and_members_that_show_nothing_about_rows_are_noted() -> None:
    assert [each.code for each in agreement(OF_CANCER, TODAY[:20]).findings if each.kind == "note"] == ["few-rows"]
    assert [each.code for each in agreement(trained_on_cancer(NEIGHBOURS), TODAY).findings] == ["unknown-rows"]
