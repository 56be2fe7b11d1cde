"""Agreement on rows without labels: against larger forests, analyses of the same rows with labels, and by hand."""

from __future__ import annotations

import html
import json
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
from ens_plugin.errors import DataMismatchError, InputError, TooFewMembersError, UnsupportedModelError

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


@pytest.mark.parametrize("depth", [None, 4], ids=["votes", "probabilities"])
@pytest.mark.parametrize("n_labels", [2, 3, 10])
def test_as_many_labels_are_those_of_a_forest_ten_times_as_large(n_labels: int, depth: int | None) -> None:
    small, large, rows = forest(n_labels, depth=depth), forest(n_labels, 600, depth), fresh_rows(n_labels)
    found = ens_plugin.agreement(small, rows)
    same = float(np.mean(small.predict(rows) == large.predict(rows)))
    # The large one differs from the infinite one too, by about a third of the disagreement.
    assert 1.0 - found.agreement == pytest.approx(1.0 - same, rel=0.3, abs=0.004)


@pytest.mark.parametrize("depth", [None, 4], ids=["votes", "probabilities"])
@pytest.mark.parametrize("n_labels", [2, 3, 10])
def test_an_analysis_of_the_same_rows_with_labels_tells_about_the_same(n_labels: int, depth: int | None) -> None:
    X, y = problem(n_labels)
    model = forest(n_labels, depth=depth)
    labelled = ens_plugin.analyze(
        model, X[N_TRAINED:], y[N_TRAINED:], data="holdout", criterion="agreement", tolerance=0.03
    )
    expected, found = labelled.recommendation, ens_plugin.agreement(model, X[N_TRAINED:], tolerance=0.03)
    assert found.agreement == pytest.approx(expected.agreement, abs=0.004)
    if expected.size is not None:
        # The labels of random members differ from the true ones, which moves the size by a tenth.
        assert found.recommended_size == pytest.approx(expected.size, rel=0.2)


def test_the_size_is_within_its_interval_and_reaches_the_wanted_agreement() -> None:
    found = ens_plugin.agreement(forest(2), fresh_rows(2))
    low, high = found.recommendation.interval
    assert found.recommended_size is not None
    assert high is not None
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
    found = ens_plugin.agreement(forest(2), X).undecided
    assert set(found.index) == set(np.flatnonzero(needed > 60))
    np.testing.assert_array_equal(found["needed"], needed[found.index])
    np.testing.assert_allclose(found["margin"], np.abs(2 * p - 1)[found.index], atol=1e-12)
    np.testing.assert_array_equal(found["label"], forest(2).predict(X)[found.index])
    assert (np.diff(found["margin"]) >= 0).all()


def test_of_three_labels_the_margin_is_that_of_the_leading_one_over_the_runner_up() -> None:
    X = fresh_rows(3)
    shares = np.sort(forest(3).predict_proba(X), axis=1)
    found = ens_plugin.agreement(forest(3), X).undecided
    np.testing.assert_allclose(found["margin"], (shares[:, -1] - shares[:, -2])[found.index], atol=1e-12)
    assert (found["label"] != found["runner_up"]).all()
    np.testing.assert_array_equal(found["label"], forest(3).predict(X)[found.index])


def test_labels_and_index_are_those_of_the_user() -> None:
    names = np.where(DIAGNOSIS == 0, "malignant", "benign")
    model = RandomForestClassifier(40, random_state=0).fit(CANCER[:300], names[:300])
    found = ens_plugin.agreement(model, TODAY.set_axis([f"case {row}" for row in TODAY.index]))
    assert set(found.undecided["label"]) <= {"malignant", "benign"}
    assert found.undecided.index.str.startswith("case ").all()


def test_the_probability_is_off_by_the_standard_error_of_the_shares_of_votes() -> None:
    X = fresh_rows(2)
    share = forest(2).predict_proba(X)[:, 0]
    found = ens_plugin.agreement(forest(2), X).probability_sd
    assert found == pytest.approx(np.sqrt(np.mean(share * (1 - share) / 59)), rel=1e-9)


def test_the_order_of_rows_and_the_number_of_threads_change_nothing() -> None:
    X = fresh_rows(3)
    order = np.random.default_rng(0).permutation(len(X))
    first, other = ens_plugin.agreement(forest(3), X), ens_plugin.agreement(forest(3), X[order], n_jobs=2)
    assert (first.agreement, first.recommendation.interval) == (other.agreement, other.recommendation.interval)
    assert set(order[other.undecided.index]) == set(first.undecided.index)


def test_members_that_vote_tie_and_a_tie_needs_infinitely_many() -> None:
    X, y = problem(3)
    members = BaggingClassifier(SGDClassifier(random_state=0), 10, max_samples=0.1, random_state=0)
    found = ens_plugin.agreement(members.fit(X[:N_TRAINED], y[:N_TRAINED]), fresh_rows(3))
    assert 0.5 < found.agreement < 1.0
    ties = found.undecided[found.undecided["margin"] == 0]
    assert len(ties) > 0
    assert np.isinf(ties["needed"]).all()


def test_two_members_promise_a_large_size() -> None:
    X, y = problem(2)
    rows = X[N_TRAINED : N_TRAINED + 200]
    pair = RandomForestClassifier(2, random_state=0).fit(X[:N_TRAINED], y[:N_TRAINED])
    found, known = ens_plugin.agreement(pair, rows), ens_plugin.agreement(forest(2, 600), rows)
    assert known.recommended_size is not None
    assert found.recommended_size is None or found.recommended_size >= known.recommended_size


def test_members_that_never_differ_agree_at_every_size() -> None:
    model = RandomForestClassifier(20, max_features=None, bootstrap=False, random_state=0)
    X = np.linspace(0.0, 1.0, 100)[:, None]
    found = ens_plugin.agreement(model.fit(X, X[:, 0] > 0.52), np.linspace(0.0, 0.5, 60)[:, None])
    assert (found.agreement, found.recommended_size, found.recommendation.interval) == (1.0, 1, (1, 1))
    assert found.undecided.empty
    assert "No row is undecided" in str(found)


def test_repeated_rows_count_by_their_votes() -> None:
    rows = fresh_rows(2)[:30]
    found = ens_plugin.agreement(forest(2), np.repeat(rows, 50, axis=0))
    large = forest(2, 600)
    same = float(np.mean(forest(2).predict(rows) == large.predict(rows)))
    assert found.n_rows == 1500
    assert found.agreement == pytest.approx(same, abs=0.05)


def test_a_pipeline_and_models_of_ones_own_are_read() -> None:
    X, y = problem(2)
    model = make_pipeline(StandardScaler(), RandomForestClassifier(20, random_state=0))
    assert (
        ens_plugin.agreement(model.fit(X[:N_TRAINED], y[:N_TRAINED]), fresh_rows(2)).model == "RandomForestClassifier"
    )
    own = ens_plugin.CustomEnsemble.from_estimators(forest(2).estimators_, None)
    # Members of another adapter have another order of rows, which the draws follow.
    known = ens_plugin.agreement(forest(2), fresh_rows(2)).agreement
    assert ens_plugin.agreement(own, fresh_rows(2)).agreement == pytest.approx(known, abs=3e-4)


@pytest.mark.parametrize("n_labels", [2, 4])
@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_forests_of_boosting_libraries_agree_as_larger_ones_tell(library: str, n_labels: int) -> None:
    booster = pytest.importorskip(library, reason=f"{library} is not installed")
    X, y = make_classification(4000, 12, n_informative=8, n_classes=n_labels, flip_y=0.1, random_state=1)

    def trained(n_trees: int, seed: int) -> Any:
        if library == "xgboost":
            return booster.XGBRFClassifier(n_estimators=n_trees, random_state=seed, n_jobs=1).fit(X[:1000], y[:1000])
        kind = dict(boosting_type="rf", bagging_freq=1, bagging_fraction=0.6, feature_fraction=0.5, verbose=-1)
        return booster.LGBMClassifier(n_estimators=n_trees, random_state=seed, n_jobs=1, **kind).fit(X[:1000], y[:1000])

    expected, seen = trained(600, 99).predict(X[1000:]), []
    for seed in range(5):
        small = trained(30, seed)
        found = ens_plugin.agreement(small, X[1000:])
        assert found.probability_sd is None
        np.testing.assert_array_equal(found.undecided["label"], small.predict(X[1000:])[found.undecided.index])
        seen.append((1.0 - found.agreement, np.mean(small.predict(X[1000:]) != expected)))
    # One forest differs more or less than others do, by which trees were drawn.
    estimated, counted = np.mean(seen, axis=0)
    assert estimated == pytest.approx(counted, rel=0.25)


def test_what_is_printed_is_short_and_plain() -> None:
    found = ens_plugin.agreement(forest(2), fresh_rows(2))
    lines = str(found).splitlines()
    assert len(lines) <= 15
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("On these 5000 rows, 60 trees predict the label that infinitely many")
    assert repr(found).startswith("Agreement(model='RandomForestClassifier', n_members=60, n_rows=5000, agreement=0.9")


def test_what_is_printed_is_short_with_a_warning_too() -> None:
    shifted = TODAY + 1e6
    found = ens_plugin.agreement(OF_CANCER, shifted)
    assert found.doubts
    lines = str(found).splitlines()
    assert lines[0].startswith("Warning: ")
    assert len(lines) <= 15


def test_json_holds_the_numbers_and_no_infinity() -> None:
    found = ens_plugin.agreement(OF_CANCER, TODAY)
    content = json.loads(found.to_json())
    assert content["agreement"] == found.agreement
    assert content["interval"] == list(found.recommendation.interval)
    assert [row["row"] for row in content["undecided"]] == found.undecided.index.tolist()
    assert [row["needed"] for row in content["undecided"]] == [
        None if np.isinf(needed) else needed for needed in found.undecided["needed"]
    ]


def test_the_page_shows_the_sentences_and_the_closest_rows(tmp_path: Path) -> None:
    found = ens_plugin.agreement(OF_CANCER, TODAY.set_axis([f"<b>{place}" for place in TODAY.index]), tolerance=0.001)
    path = found.to_html(tmp_path / "today.html")
    page = path.read_text(encoding="utf-8")
    assert page == found.to_html()
    assert html.escape("On these 269 rows, 40 trees predict the label that infinitely many would for") in page
    assert page.count("<tr>") - 1 == min(len(found.undecided), 20)
    assert html.escape(found.undecided.index[0]) in page
    assert "<b>" not in page
    with pytest.raises(InputError, match="does not exist"):
        found.to_html(tmp_path / "nowhere" / "today.html")


def test_the_plot_shows_the_agreement_by_size() -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    ax = ens_plugin.agreement(OF_CANCER, TODAY).plot()
    assert ax.get_xlabel() == "Ensemble size (trees)"


def trained_on_cancer(model: Any) -> Any:
    return model.fit(CANCER[:300], DIAGNOSIS[:300])


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (RandomForestRegressor(5), UnsupportedModelError, "predicts values"),
        (GradientBoostingClassifier(n_estimators=5), UnsupportedModelError, "Members of boosting correct one another"),
        (RandomForestClassifier(1), TooFewMembersError, "one member"),
    ],
    ids=["values", "boosting", "one member"],
)
def test_models_without_an_agreement_are_refused(model: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ens_plugin.agreement(trained_on_cancer(model), TODAY)


def test_several_outputs_and_arrays_of_outputs_are_refused() -> None:
    two = RandomForestClassifier(5).fit(CANCER[:300], np.column_stack([DIAGNOSIS[:300]] * 2))
    with pytest.raises(UnsupportedModelError, match="predicts 2 outputs"):
        ens_plugin.agreement(two, TODAY)
    arrays = ens_plugin.CustomEnsemble(np.zeros((3, 269), dtype=int), None, aggregation="vote", classes=[0, 1])
    with pytest.raises(InputError, match="made of arrays"):
        ens_plugin.agreement(arrays, None)


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (TODAY[:0], InputError, "X has no rows"),
        (TODAY[:1], InputError, "X has 1 row"),
        (TODAY.rename(columns={"mean area": "area"}), DataMismatchError, "missing 'mean area'; unknown 'area'"),
        (TODAY.drop(columns="mean area"), DataMismatchError, "missing 'mean area'"),
        (TODAY.assign(diagnosis=DIAGNOSIS), DataMismatchError, "unknown 'diagnosis'"),
        (np.column_stack([TODAY, DIAGNOSIS[300:]]), DataMismatchError, "31 columns.*trained on 30"),
        (CANCER[:300], DataMismatchError, "rows the model was trained on"),
        (CANCER[:300].sample(frac=1.0, random_state=0), DataMismatchError, "rows the model was trained on"),
    ],
    ids=["none", "one", "renamed", "one less", "with y", "array with y", "training rows", "shuffled"],
)
def test_rows_that_tell_nothing_are_refused(rows: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ens_plugin.agreement(OF_CANCER, rows)


def with_training_rows(share: float, trained: Any, fresh: Any) -> Any:
    """Return as many rows as there are fresh ones, of which a share are training rows, in random order."""
    rng, number = np.random.default_rng(0), round(share * len(fresh))
    return rng.permutation(np.concatenate([rng.permutation(trained)[:number], fresh[number:]]))


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
    assert not [each for each in ens_plugin.agreement(model, X[1200:]).findings if each.code == "some-training-rows"]
    found = ens_plugin.agreement(model, with_training_rows(0.2, X[:1200], X[1200:]))
    assert found.doubts[0].startswith("An estimated ")
    assert found.findings[0].numbers["share"] == pytest.approx(0.2, abs=0.07)
    with pytest.raises(
        DataMismatchError, match=r"An estimated \d\d % of these 597 rows .* such as row \d+, .*leaving out"
    ):
        ens_plugin.agreement(model, with_training_rows(0.75, X[:1200], X[1200:]))
    with pytest.raises(DataMismatchError, match="rows the model was trained on"):
        ens_plugin.agreement(model, X[:1200:10])


@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "own", "networks"])
def test_an_analysis_compares_rows_without_labels_with_its_training_rows(library: str) -> None:
    X, y = load_digits(return_X_y=True)
    X, y, fresh = X[:400], y[:400] % 2, X[400:800]
    if library == "lightgbm":
        lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
        model: Any = lightgbm.LGBMClassifier(
            boosting_type="rf", n_estimators=30, subsample=0.6, subsample_freq=1, verbose=-1, n_jobs=1
        ).fit(X, y)
    elif library == "xgboost":
        xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")
        model = xgboost.XGBRFClassifier(n_estimators=30, n_jobs=1).fit(X, y)
    else:
        member = GaussianNB() if library == "networks" else None
        model = BaggingClassifier(member, n_estimators=30, random_state=0, oob_score=True).fit(X, y)
        if library == "own":
            model = ens_plugin.CustomEnsemble.from_estimators(model.estimators_, model.estimators_samples_)
    report = ens_plugin.analyze(model, X, y, unlabelled=fresh)
    assert not any("rows the model was trained on, such as" in doubt for doubt in report.basis.doubts)
    report = ens_plugin.analyze(model, X, y, unlabelled=with_training_rows(0.1, X, fresh))
    assert any("estimated 10 % of these 400 rows" in doubt for doubt in report.basis.doubts)
    with pytest.raises(DataMismatchError, match=r"passed as unlabelled: An estimated 60 % of these 400 rows"):
        ens_plugin.analyze(model, X, y, unlabelled=with_training_rows(0.6, X, fresh))


def test_rows_that_are_equal_by_nature_are_no_training_rows() -> None:
    """Four columns of three values: most fresh rows equal a training row."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (900, 4)).astype(float)
    y = (X.sum(axis=1) + rng.normal(size=900) > 4).astype(int)
    model = RandomForestClassifier(60, random_state=0).fit(X[:500], y[:500])
    report = ens_plugin.analyze(model, X[:500], y[:500], groups=np.arange(500), unlabelled=X[500:])
    assert not any("were trained on" in doubt or "such as" in doubt for doubt in report.basis.doubts)


def test_members_that_are_no_trees_show_nothing_about_rows_without_labels() -> None:
    model = trained_on_cancer(BaggingClassifier(KNeighborsClassifier(), random_state=0))
    assert [each.code for each in ens_plugin.agreement(model, TODAY).findings] == ["unknown-rows"]


@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "own"])
def test_shuffled_training_rows_of_other_forests_are_refused(library: str) -> None:
    X, y = problem(2)
    if library == "own":
        model: Any = ens_plugin.CustomEnsemble.from_estimators(forest(2).estimators_, None)
    elif library == "xgboost":
        booster = pytest.importorskip("xgboost", reason="xgboost is not installed")
        model = booster.XGBRFClassifier(n_estimators=30, n_jobs=1).fit(X[:N_TRAINED], y[:N_TRAINED])
    else:
        booster = pytest.importorskip("lightgbm", reason="LightGBM is not installed")
        kind = dict(boosting_type="rf", bagging_freq=1, bagging_fraction=0.6, verbose=-1, n_jobs=1)
        model = booster.LGBMClassifier(n_estimators=30, **kind).fit(X[:N_TRAINED], y[:N_TRAINED])
    with pytest.raises(DataMismatchError, match="rows the model was trained on"):
        ens_plugin.agreement(model, X[np.random.default_rng(0).permutation(N_TRAINED)])
    assert ens_plugin.agreement(model, X[N_TRAINED:]).doubts == ()


def test_missing_values_are_refused_where_the_model_takes_none() -> None:
    model = trained_on_cancer(BaggingClassifier(KNeighborsClassifier(), random_state=0))
    with pytest.raises(InputError, match="hold NaN"):
        ens_plugin.agreement(model, TODAY.mask(pd.DataFrame(np.eye(*TODAY.shape) > 0, TODAY.index, TODAY.columns)))


@pytest.mark.parametrize("options", [{"tolerance": 0.6}, {"tolerance": 0.0}, {"interval_level": 2.0}, {"max_size": 0}])
def test_options_out_of_range_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(options))):
        ens_plugin.agreement(OF_CANCER, TODAY, **options)


def test_few_rows_are_noted() -> None:
    found = ens_plugin.agreement(OF_CANCER, TODAY[:20])
    assert [each.code for each in found.findings if each.kind == "note"] == ["few-rows"]


@pytest.mark.parametrize("n_labels", [2, 3])
def test_an_analysis_takes_the_agreement_from_rows_without_labels_and_nothing_else(n_labels: int) -> None:
    X, y = problem(n_labels)
    rows, labels, others = X[:N_TRAINED], y[:N_TRAINED], fresh_rows(n_labels)
    plain = ens_plugin.analyze(forest(n_labels), rows, labels)
    report = ens_plugin.analyze(forest(n_labels), rows, labels, unlabelled=others)
    alone = ens_plugin.agreement(forest(n_labels), others)
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


def test_a_wanted_agreement_has_its_size_from_rows_without_labels() -> None:
    X, y = problem(2)
    labelled, others = slice(N_TRAINED, 1200), X[1200:]
    options: Any = {"criterion": "agreement", "tolerance": 0.05, "data": "holdout"}
    report = ens_plugin.analyze(forest(2), X[labelled], y[labelled], unlabelled=others, **options)
    assert report.recommendation.criterion == "agreement"
    assert report.recommended_size == ens_plugin.agreement(forest(2), others, tolerance=0.05).recommended_size


def test_rows_that_are_closer_to_call_than_those_with_labels_are_a_note() -> None:
    X, y = problem(2)
    near = fresh_rows(2)
    share = forest(2).predict_proba(near)[:, 1]
    close = near[np.abs(share - 0.5) < 0.3]
    report = ens_plugin.analyze(forest(2), X[:N_TRAINED], y[:N_TRAINED], unlabelled=close)
    (note,) = [each for each in report.findings if each.code == "other-agreement"]
    assert note.kind == "note"
    assert note.sentence.startswith(f"The {len(close)} rows without labels are closer to call than those with labels")
    assert note.numbers["agreement"] < note.numbers["agreement_with_labels"]


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (CANCER[:300], DataMismatchError, "rows the model was trained on"),
        (TODAY.iloc[:, :5], DataMismatchError, "rename or add the missing columns"),
        (TODAY.assign(target=0), DataMismatchError, "target"),
        (TODAY[:0], InputError, "no rows"),
        (TODAY[:1], InputError, "1 row"),
    ],
)
def test_rows_without_labels_that_tell_nothing_are_refused(rows: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=r"^Of the rows passed as unlabelled: ") as refused:
        ens_plugin.analyze(OF_CANCER, CANCER[:300], DIAGNOSIS[:300], unlabelled=rows)
    assert message in str(refused.value)


def test_an_analysis_of_values_or_several_outputs_takes_no_rows_without_labels() -> None:
    X, y = problem(2)
    with pytest.raises(UnsupportedModelError, match="predicts values"):
        ens_plugin.analyze(RandomForestRegressor(20).fit(X[:100], y[:100]), X[:100], y[:100], unlabelled=X[200:])
    both = np.column_stack([y, y])[:100]
    with pytest.raises(UnsupportedModelError, match="agreement on rows without labels"):
        ens_plugin.analyze(RandomForestClassifier(20).fit(X[:100], both), X[:100], both, unlabelled=X[200:])
