"""Rows drawn from fitted naive Bayes models have the models' own moments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB, MultinomialNB

from ens_plugin.errors import InputError
from ens_plugin.papers import model_averaging_2004 as bootstrap_samples
from ens_plugin.papers.model_averaging_2004 import model_draw, row_draw

Array = NDArray[Any]
N_ROWS = 20_000


def table() -> tuple[Array, Array]:
    """Counts of 0 to 3 in three columns; three times as many rows of one label as of the other."""
    rng = np.random.default_rng(1)
    y = np.repeat(["no", "yes"], [3 * N_ROWS // 4, N_ROWS // 4])
    return rng.binomial(3, np.where(y == "no", 0.2, 0.6)[:, None], size=(N_ROWS, 3)).astype(float), y


def drawn(model: Any, X: Array, y: Array) -> tuple[Array, Array]:
    rows, labels = model_draw(model.fit(X, y), X, None)(np.random.default_rng(0))
    assert rows.shape == X.shape
    assert np.mean(labels == "yes") == pytest.approx(0.25, abs=0.01)
    return rows, labels


def test_normal_rows() -> None:
    X, y = table()
    X = X * [1.0, 10.0, 0.1]
    model = GaussianNB()
    rows, labels = drawn(model, X, y)
    for code, label in enumerate(("no", "yes")):
        some = rows[labels == label]
        sd = np.sqrt(model.var_[code])
        np.testing.assert_allclose((some.mean(axis=0) - model.theta_[code]) / sd, 0.0, atol=0.05)
        np.testing.assert_allclose(some.std(axis=0) / sd, 1.0, atol=0.05)
        assert np.abs(np.corrcoef(some.T) - np.eye(3)).max() < 0.05


@pytest.mark.parametrize("threshold", [0.0, 1.5, None])
def test_boolean_rows(threshold: float | None) -> None:
    X, y = table()
    model = BernoulliNB(binarize=threshold)
    rows, labels = drawn(model, (X > 0).astype(float) if threshold is None else X, y)
    ones = rows > (threshold or 0.0)
    assert len(np.unique(rows)) == 2
    for code, label in enumerate(("no", "yes")):
        share = np.exp(model.feature_log_prob_[code])
        np.testing.assert_allclose(ones[labels == label].mean(axis=0), share, atol=0.02)


def test_multinomial_rows_have_the_totals_of_training_rows() -> None:
    X, y = table()
    X[:, 1] *= 2
    model = MultinomialNB()
    rows, labels = drawn(model, X, y)
    np.testing.assert_array_equal(rows, np.floor(rows))
    np.testing.assert_allclose(
        np.bincount(rows.sum(axis=1).astype(int)), np.bincount(X.sum(axis=1).astype(int)), atol=250
    )
    for code, label in enumerate(("no", "yes")):
        some = rows[labels == label]
        np.testing.assert_allclose(some.sum(axis=0) / some.sum(), np.exp(model.feature_log_prob_[code]), atol=0.02)


def test_totals_are_drawn_by_weight() -> None:
    X, y = table()
    chance = (X.sum(axis=1) == 4) / np.sum(X.sum(axis=1) == 4)
    rows, _ = model_draw(MultinomialNB().fit(X, y), X, chance)(np.random.default_rng(0))
    assert np.unique(rows.sum(axis=1)).tolist() == [4.0]


def test_fractions_are_no_counts() -> None:
    X, y = table()
    for rows in (X / 2, sparse.csr_matrix(X / 2)):
        with pytest.raises(InputError, match="whole counts"):
            model_draw(MultinomialNB().fit(rows, y), rows, None)


def test_categorical_rows() -> None:
    X, y = table()
    model = CategoricalNB(min_categories=5)
    rows, labels = drawn(model, X, y)
    for code, label in enumerate(("no", "yes")):
        for feature in range(3):
            share = np.bincount(rows[labels == label, feature], minlength=5) / np.sum(labels == label)
            np.testing.assert_allclose(share, np.exp(model.feature_log_prob_[feature][code]), atol=0.02)


@pytest.mark.parametrize("model", [MultinomialNB(), BernoulliNB()], ids=str)
def test_sparse_rows_stay_sparse(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = table()
    draw = model_draw(model.fit(X, y), sparse.csr_matrix(X), None)
    whole, labels = draw(np.random.default_rng(0))
    assert sparse.issparse(whole)
    monkeypatch.setattr(bootstrap_samples, "CELLS_AT_ONCE", 3000)
    blocks, _ = model_draw(model, sparse.csr_matrix(X), None)(np.random.default_rng(0))
    assert blocks.shape == X.shape
    for code, label in enumerate(("no", "yes")):
        share = np.asarray(blocks[labels == label].mean(axis=0)).ravel()
        np.testing.assert_allclose(share / share.sum(), _shares(model)[code], atol=0.02)


def _shares(model: Any) -> Array:
    share = np.exp(model.feature_log_prob_)
    return np.asarray(share / share.sum(axis=1, keepdims=True))


@pytest.mark.slow
def test_rows_are_drawn_by_their_chance() -> None:
    X = np.arange(4.0)[:, None]
    y = np.array([0, 1, 2, 3])
    chance = np.array([0.1, 0.2, 0.3, 0.4])
    counts = np.zeros(4)
    draw, plain = row_draw(X, y, chance), row_draw(X, y, None)
    rng = np.random.default_rng(0)
    for _ in range(5000):
        rows, labels = draw(rng)
        np.testing.assert_array_equal(rows[:, 0], labels)
        counts += np.bincount(labels, minlength=4)
    np.testing.assert_allclose(counts / 20_000, chance, atol=0.01)
    found = np.bincount(np.concatenate([plain(rng)[1] for _ in range(5000)])) / 20_000
    np.testing.assert_allclose(found, 0.25, atol=0.01)
