"""Copies among the training rows are doubted where they move the error; rows that are equal by chance are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

import ens_plugin
from ens_plugin import EnsembleReport
from ens_plugin.analysis import AnalysisOptions, run_analysis
from ens_plugin.analysis.copies import find_repeats, hash_rows
from ens_plugin.errors import InputError, TooFewMembersError, UnsupportedModelError
from tests.forests import RowLimit

Table = tuple[NDArray[Any], NDArray[Any]]


def noisy(n_rows: int, seed: int = 0, positives: float = 0.5) -> Table:
    rng = np.random.default_rng(seed)
    y = (rng.random(n_rows) < positives).astype(int)
    return rng.normal(size=(n_rows, 6)) + 0.6 * y[:, None], y


def binary(n_columns: int, n_rows: int = 600, seed: int = 0) -> Table:
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, (n_rows, n_columns)).astype(float)
    return X, (rng.random(n_rows) < 0.2 + 0.6 * X[:, 0]).astype(int)


def oversampled(X: NDArray[Any], y: NDArray[Any], seed: int = 0) -> Table:
    """As RandomOverSampler leaves the rows: copies of the rarer label at the end."""
    rare = np.flatnonzero(y == 1)
    extra = np.random.default_rng(seed).choice(rare, y.size - 2 * rare.size)
    rows = np.append(np.arange(y.size), extra)
    return X[rows], y[rows]


def is_doubted(report: EnsembleReport) -> bool:
    return any("same features, same target" in doubt for doubt in report.basis.doubts)


def analysed(X: Any, y: Any, **options: Any) -> EnsembleReport:
    model = RandomForestClassifier(40, random_state=0)
    return ens_plugin.analyze(model.fit(X, y), X, y, **options)


def test_each_row_five_times_is_doubted_unless_they_are_said_to_be_separate_cases() -> None:
    X, y = noisy(100)
    report = analysed(np.repeat(X, 5, axis=0), np.repeat(y, 5))
    (doubt,) = report.basis.doubts
    assert "500 of 500 rows look like copies of another one: same features, same target" in doubt
    assert "Or pass groups='identical', which counts a row as in bag wherever a copy of it is" in doubt
    assert not report.is_actionable
    stated = analysed(np.repeat(X, 5, axis=0), np.repeat(y, 5), groups=np.arange(500))
    assert stated.basis.doubts == ()
    assert stated.basis.n_effective == pytest.approx(500)


@pytest.mark.parametrize("order", ["as left", "shuffled"])
def test_an_oversampled_label_is_doubted(order: str) -> None:
    X, y = oversampled(*noisy(400, positives=0.05))
    rows = np.random.default_rng(1).permutation(y.size) if order == "shuffled" else np.arange(y.size)
    assert is_doubted(analysed(X[rows], y[rows]))


def test_two_copies_in_a_large_table_are_let_pass() -> None:
    X, y = noisy(500)
    report = analysed(np.concatenate([X, X[:2]]), np.append(y, y[:2]))
    assert report.basis.doubts == ()
    assert report.basis.n_repeated == 4
    assert not any("copies" in warning for warning in report.warnings)


@pytest.mark.fast_cases("3")
@pytest.mark.parametrize("n_columns", [2, 3, 6, 10])
def test_rows_that_are_equal_by_chance_are_let_pass(n_columns: int) -> None:
    report = analysed(*binary(n_columns))
    assert report.basis.doubts == ()
    assert report.basis.n_repeated > 0
    assert not any("copies" in warning for warning in report.warnings)


@pytest.mark.parametrize("n_columns", [3, 5, 8, 12])
def test_chance_is_hardly_ever_taken_for_copying(n_columns: int) -> None:
    for seed in range(20):
        X, y = binary(n_columns, 300 + 50 * seed, seed)
        assert np.mean(find_repeats(hash_rows(None, X), y).copied) < 0.02


@pytest.mark.parametrize(
    "change",
    [
        lambda X: np.column_stack([X, np.where(X[:, 0] > 0, np.nan, 1.0)]),
        lambda X: np.where(np.abs(X) < 0.5, -0.0, X), sparse.csr_matrix, sparse.csc_matrix, pd.DataFrame,
        lambda X: pd.DataFrame(X).astype({0: "float32"}).assign(k=pd.Categorical(np.where(X[:, 1] > 0, "u", "v"))),
        lambda X: pd.DataFrame({"name": [f"{value:.6f}" for value in X[:, 0]], "b": X[:, 1]}),
    ],
    ids=["missing", "zeros", "csr", "csc", "frame", "categories", "texts"],
)  # fmt: skip
def test_copies_are_found_in_rows_of_any_kind(change: Any) -> None:
    X, y = noisy(80)
    rows = np.append(np.arange(80), np.arange(10))
    found = find_repeats(hash_rows(None, change(X[rows])), y[rows])
    expected = (np.arange(90) < 10) | (np.arange(90) >= 80)
    assert np.array_equal(found.repeated, expected)
    assert np.array_equal(found.copied, expected)


def test_arrays_of_outputs_have_features_to_compare_only_where_they_are_given() -> None:
    X, y = noisy(40)
    X, y = np.repeat(X, 2, axis=0), np.repeat(y, 2)
    in_bag = np.random.default_rng(0).random((9, 80)) < 0.5
    ensemble = ens_plugin.CustomEnsemble(np.zeros((9, 80), dtype=int), in_bag, aggregation="vote", classes=[0, 1])
    assert ens_plugin.analyze(ensemble, None, y).basis.n_repeated == 0
    with pytest.raises(InputError, match="groups='identical' compares rows"):
        ens_plugin.analyze(ensemble, None, y, groups="identical")
    assert not is_doubted(ens_plugin.analyze(ensemble, X, y))
    in_bag = np.random.default_rng(0).random((30, 80)) < 0.5
    fitted = np.where(in_bag | in_bag[:, np.arange(80) ^ 1], y, 1 - y)
    ensemble = ens_plugin.CustomEnsemble(fitted, in_bag, aggregation="vote", classes=[0, 1])
    assert is_doubted(ens_plugin.analyze(ensemble, X, y))


def test_identical_rows_as_groups_give_the_error_of_fresh_rows() -> None:
    X, y = noisy(2300)
    copies, labels = np.repeat(X[:300], 5, axis=0), np.repeat(y[:300], 5)
    forest = RandomForestClassifier(100, max_samples=0.2, random_state=0, oob_score=True).fit(copies, labels)
    report = ens_plugin.analyze(forest, copies, labels, groups="identical")
    by_number = ens_plugin.analyze(forest, copies, labels, groups=np.repeat(np.arange(300), 5))
    lower, upper = report.error_interval
    assert lower <= 1 - forest.score(X[300:], y[300:]) <= upper
    assert report.error == by_number.error
    assert report.basis.n_groups == 300
    assert report.basis.n_effective < 301


def test_copies_in_every_bag_are_refused_with_what_to_do() -> None:
    X, y = noisy(300)
    rows = np.append(np.flatnonzero(y == 0), np.repeat(np.flatnonzero(y == 1)[:20], 20))
    with pytest.raises(TooFewMembersError, match=r"with groups of 20 rows, about 0\.05 of the rows for each member"):
        analysed(X[rows], y[rows], groups="identical")
    with pytest.raises(TooFewMembersError, match=r"a bag holds a row of nearly every group.*smaller bags"):
        analysed(np.repeat(X[:60], 20, axis=0), np.repeat(y[:60], 20), groups="identical")


@pytest.mark.parametrize("seed", range(3))
def test_held_out_rows_that_were_oversampled_before_the_split_are_doubted(seed: int) -> None:
    X, y = noisy(1000)
    rng = np.random.default_rng(seed)
    rows = rng.permutation(np.append(np.arange(1000), rng.choice(np.flatnonzero(y == 1)[:60], 500)))
    train, held_out = rows[:1000], rows[1000:]
    forest = RandomForestClassifier(30, random_state=seed).fit(X[train], y[train])
    report = ens_plugin.analyze(forest, X[held_out], y[held_out], data="holdout")
    assert any("held-out rows look like copies of another one" in doubt for doubt in report.basis.doubts)
    stated = ens_plugin.analyze(forest, X[held_out], y[held_out], data="holdout", groups=np.arange(held_out.size))
    assert stated.basis.doubts == ()
    fresh, labels = noisy(1500)
    assert ens_plugin.analyze(forest, fresh[1000:], labels[1000:], data="holdout").basis.doubts == ()


def test_rows_that_were_read_know_of_copies_among_the_others() -> None:
    X, y = noisy(200)
    X, y = np.concatenate([X, X[:20]]), np.append(y, y[:20])
    forest = RandomForestClassifier(30, random_state=0).fit(X, y)
    report = run_analysis(forest, X, y, AnalysisOptions(), limit=RowLimit(128))
    assert 10 < report.basis.n_repeated < 35
    X, y = np.repeat(X[:200], 2, axis=0), np.repeat(y[:200], 2)
    forest = RandomForestClassifier(30, random_state=0).fit(X, y)
    for n_rows in (400, 256):
        assert is_doubted(run_analysis(forest, X, y, AnalysisOptions(), limit=RowLimit(n_rows)))


def test_rows_without_weight_hide_no_error() -> None:
    X, y = noisy(300)
    rows, weight = np.append(np.arange(300), np.repeat(np.arange(30), 3)), np.append(np.ones(300), np.zeros(90))
    weight[:30] = 0.0
    model = RandomForestClassifier(60, random_state=0).fit(X[rows], y[rows])
    assert is_doubted(ens_plugin.analyze(model, X[rows], y[rows]))
    assert not is_doubted(ens_plugin.analyze(model, X[rows], y[rows], sample_weight=weight))


class Oversampler(BaseEstimator):  # type: ignore[misc]
    """A step with fit_resample and no transform, as those of imbalanced-learn."""

    def fit_resample(self, X: Any, y: Any) -> Table:
        return oversampled(X, y)


def resampling_pipeline(X: Any, y: Any) -> Pipeline:
    """A pipeline as imbalanced-learn's own would have fitted it."""
    scaler, sampler = StandardScaler().fit(X), Oversampler()
    forest = RandomForestClassifier(30, random_state=0).fit(*sampler.fit_resample(scaler.transform(X), y))
    return Pipeline([("scale", scaler), ("resample", sampler), ("forest", forest)])


def test_a_resampling_step_is_named() -> None:
    X, y = noisy(400, positives=0.1)
    pipeline = resampling_pipeline(X, y)
    for look in (ens_plugin.analyze, ens_plugin.in_bag):
        with pytest.raises(UnsupportedModelError, match=r"Step 'resample' of the pipeline \(Oversampler\) resamples"):
            look(pipeline, X, y)


def test_held_out_rows_pass_a_resampling_step() -> None:
    X, y = noisy(2000, positives=0.2)
    pipeline = resampling_pipeline(X[:300], y[:300])
    report = ens_plugin.analyze(pipeline, X[300:], y[300:], data="holdout")
    scaled = pipeline[0].transform(X[300:])
    assert report.error == ens_plugin.analyze(pipeline[-1], scaled, y[300:], data="holdout").error
    assert abs(report.error - (1 - pipeline[-1].score(scaled, y[300:]))) < 0.02


def blank_forms(seed: int, share: float = 0.3, n_rows: int = 600) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Rows of real numbers, of which a share is one blank record, with both labels."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n_rows, 1)) < share, 0.0, rng.normal(size=(n_rows, 4)))
    return X, (X[:, 0] + rng.normal(size=n_rows) > 0).astype(np.int64)


def test_rows_of_one_blank_record_are_no_copies() -> None:
    for seed in range(5):
        X, y = blank_forms(seed, share=float(np.random.default_rng(seed).uniform(0.1, 0.6)))
        two = X.copy()
        two[::6] = 5.0
        is_blank = X[:, 0] == 0
        for table, target in ((X, y), (two, y), (X, np.where(is_blank, 1, y)), (X, np.where(is_blank, 0.0, X[:, 1]))):
            found = find_repeats(hash_rows(None, table), target)
            assert found.repeated.any()
            assert not found.copied.any()


@pytest.mark.parametrize("n_originals", [5, 30, 100])
def test_copies_among_rows_of_a_blank_record_are_copies(n_originals: int) -> None:
    """An oversampled label has few records, all of which are frequent."""
    X, _ = blank_forms(0)
    rng = np.random.default_rng(1)
    y = np.repeat([0, 1], [500, 400])
    others = rng.normal(size=(n_originals, 4))[rng.integers(0, n_originals, 400)]
    found = find_repeats(hash_rows(None, np.append(X[:500], others, axis=0)), y)
    assert found.copied[500:].mean() > 0.8
    assert not found.copied[:500][X[:500, 0] != 0].any()


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize(("share", "expected"), [(0.06, False), (0.5, True)])
def test_the_doubt_follows_what_copies_do_to_the_error(labelled: bool, share: float, expected: bool) -> None:
    X, y = noisy(600)
    target = y if labelled else X[:, 0] + np.random.default_rng(1).normal(size=600)
    rng = np.random.default_rng(2)
    rows = rng.permutation(np.append(np.arange(600), rng.permutation(600)[: int(share * 300)]))
    kind = RandomForestClassifier if labelled else RandomForestRegressor
    report = ens_plugin.analyze(kind(60, random_state=0).fit(X[rows], target[rows]), X[rows], target[rows])
    assert is_doubted(report) == expected
    assert report.basis.doubts == () or expected


def test_equal_features_with_another_target_are_no_repeats() -> None:
    X, _ = noisy(50)
    assert not find_repeats(hash_rows(None, np.repeat(X, 2, axis=0)), np.tile([0, 1], 50)).repeated.any()
    assert not find_repeats(hash_rows(None, np.repeat(X, 2, axis=0)), np.arange(100.0)).repeated.any()


Table = tuple[NDArray[Any], NDArray[Any]]


def heights(seed: int) -> Table:
    """Half inches, by which the sex is predicted with errors."""
    rng = np.random.default_rng([0, seed])
    sex = rng.integers(0, 2, 1000)
    return np.round(2.0 * rng.normal(66.0 + 5.0 * sex, 2.5))[:, None] / 2.0, sex


def tails(seed: int) -> Table:
    """Millimetres, in which two species overlap little."""
    rng = np.random.default_rng([1, seed])
    species = (rng.random(800) < 0.4).astype(int)
    return np.round(rng.normal(220.0 - 50.0 * species, 16.0))[:, None], species


def wages(seed: int) -> Table:
    """Wages of which half are round, at the prices of one of several years, and so with many digits."""
    rng = np.random.default_rng([2, seed])
    year, exact = rng.integers(0, 2, 4000), rng.lognormal(2.5, 0.5, 4000)
    wage = np.where(rng.random(4000) < 0.5, np.round(exact, 1), np.round(exact, 2))
    return np.column_stack([year, wage * np.array([1.0, 1.0813])[year]]), rng.integers(0, 2, 4000)


def homes(seed: int) -> Table:
    """Homes in counties, whose number, name and two properties follow from each other, with or without a basement."""
    rng = np.random.default_rng([3, seed])
    county = rng.integers(0, 85, 900)
    uranium, name = rng.normal(size=85), rng.permutation(85)
    radon = np.round(np.exp(rng.normal(1.0, 0.8, 900)), 1)
    X = np.column_stack([np.log(radon + 0.1), uranium[county], county, name[county]])
    return X, (rng.random(900) < 0.25).astype(int)


def towns(seed: int) -> Table:
    """One category with a label that follows from it: equal rows, drawn or copied."""
    town = np.random.default_rng([4, seed]).geometric(0.03, 400)
    return town[:, None].astype(float), (town * 7919) % 3


KINDS: list[Callable[[int], Table]] = [heights, tails, wages, homes, towns]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_ordinary_ties_raise_no_doubt(kind: Callable[[int], Table], seed: int) -> None:
    X, y = kind(seed)
    report = ens_plugin.analyze(RandomForestClassifier(40, max_samples=0.5, random_state=seed).fit(X, y), X, y)
    assert report.basis.n_repeated >= 20
    assert "copies" not in [found.code for found in report.findings]


@pytest.mark.parametrize("kind", KINDS)
def test_order_of_the_rows_does_not_matter(kind: Callable[[int], Table]) -> None:
    X, y = kind(0)
    shuffled = np.random.default_rng(0).permutation(y.size)
    found = find_repeats(hash_rows(None, X), y).copied
    np.testing.assert_array_equal(find_repeats(hash_rows(None, X[shuffled]), y[shuffled]).copied, found[shuffled])


@pytest.mark.parametrize("seed", range(3))
def test_the_same_table_in_a_frame_or_of_texts_has_the_same_copies(seed: int) -> None:
    X, y = homes(seed)
    expected = find_repeats(hash_rows(None, X), y).copied
    texts = pd.DataFrame(X, columns=list("abcd")).astype({"c": str, "d": "category"})
    for table in (pd.DataFrame(X), texts, sparse.csr_matrix(X)):
        np.testing.assert_array_equal(find_repeats(hash_rows(None, table), y).copied, expected)


def test_each_row_of_such_a_table_twice_is_doubted() -> None:
    """The columns follow from each other, and so tell that rows are copied."""
    X, y = homes(0)
    order = np.random.default_rng(0).permutation(2 * y.size)
    X, y = np.repeat(X, 2, axis=0)[order], np.repeat(y, 2)[order]
    report = ens_plugin.analyze(RandomForestClassifier(40, random_state=0).fit(X, y), X, y)
    assert [found.code for found in report.findings if found.kind == "doubt"] == ["copies"]
    assert report.findings[0].numbers["rise"] > 0.3
