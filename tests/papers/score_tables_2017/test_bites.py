"""From a few probes of each bite size to bite, size and mixing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import NearestCentroid
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from ens_plugin.errors import InputError, UnsupportedModelError
from ens_plugin.papers.score_tables_2017.bites import BiteDesign, design_bites, disjoint_bites, probe_bites, split_rows

Array = NDArray[np.float64]
SIZES, FRACTIONS = [1, 5, 25, 101], [0.1, 0.3]


def noisy(n_rows: int = 900, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 8))
    return X, (X[:, :4].sum(axis=1) + rng.normal(scale=1.5, size=n_rows) > 0).astype(float)


@pytest.fixture(scope="module")
def design() -> BiteDesign:
    return design_bites(LogisticRegression(), *noisy(), SIZES, FRACTIONS, random_state=1)


def test_one_option_for_each_bite_and_mixing(design: BiteDesign) -> None:
    assert [(o.fraction, o.aggregation) for o in design.options] == [
        (f, mixing) for f in FRACTIONS for mixing in ("mean_score", "mean_proba")
    ]
    assert (design.n_train, design.n_test) == (675, 225)
    assert [o.bite_rows for o in design.options] == [68, 68, 202, 202]
    for option in design.options:
        np.testing.assert_array_equal(option.sizes, SIZES)
        assert ((option.loss > 0) & (option.loss < 1)).all()


def test_recommended_size_keeps_its_promise_and_has_a_cost(design: BiteDesign) -> None:
    for option in design.options:
        assert option.recommended_size is not None
        assert abs(option.recommended_loss - option.asymptote) <= 0.01 * option.asymptote + 1e-12
        assert option.rows == option.recommended_size * option.bite_rows
        assert option.seconds == pytest.approx(option.recommended_size * option.seconds_per_member)
        assert option.seconds_per_member > 0


def test_answers_follow_from_the_options(design: BiteDesign) -> None:
    assert design.best.recommended_loss == min(option.recommended_loss for option in design.options)
    for mixing in ("mean_score", "mean_proba"):
        smallest = design.smallest_bite(mixing)
        matching = [
            o.bite_rows for o in design.options if o.aggregation == mixing and (o.loss <= design.single_loss).any()
        ]
        assert (None if smallest is None else smallest.bite_rows) == min(matching, default=None)
    rivals = {o.aggregation: o.recommended_loss for o in design.options if o.fraction == 0.3}
    assert design.better_mixing(0.3) == min(rivals, key=lambda mixing: rivals[mixing])
    with pytest.raises(InputError, match="fraction"):
        design.better_mixing(0.2)


@pytest.mark.slow
def test_losses_are_those_of_real_ensembles() -> None:
    """Against 400 members trained on the same bites and judged on the same rows."""
    X, y = noisy(1600)
    found = design_bites(LogisticRegression(), X, y, [25], [0.05], n_probe=25, test_size=0.5, random_state=3)
    split = split_rows(X, y, 0.5, 3)
    scores = probe_bites(LogisticRegression(), split, found.options[0].bite_rows, 400, np.random.default_rng(9)).scores
    signed = (2 * split.y_test - 1) * scores.reshape(16, 25, -1)
    assert found.options[0].loss[0] == pytest.approx(np.mean(signed.mean(axis=1) < 0), abs=0.01)
    voted = (1 / (1 + np.exp(-signed))).mean(axis=1)
    assert found.options[1].loss[0] == pytest.approx(np.mean(voted < 0.5), abs=0.01)


@pytest.mark.parametrize(
    "classifier",
    [
        make_pipeline(StandardScaler(), LinearSVC(dual=True)),
        make_pipeline(StandardScaler(), SVC(kernel="poly")),
        DecisionTreeClassifier(min_samples_leaf=5),
        GaussianNB(),
        Perceptron(),
    ],
    ids=lambda classifier: str(classifier)[:24],
)
@pytest.mark.parametrize("loss", ["zero_one", "squared"])
def test_any_classifier_with_a_score(classifier: object, loss: str) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X) / 10.0
    found = design_bites(classifier, X, y, [11], [0.2], n_probe=8, loss=loss, random_state=0)
    for option in found.options:
        assert 0.0 <= option.loss[0] < 0.4


def test_the_same_seed_gives_the_same_design_and_the_input_is_left_alone() -> None:
    X, y = noisy(400)
    kept_X, kept_y, classifier = X.copy(), y.copy(), LogisticRegression()
    one, other = (design_bites(classifier, X, y, [5], [0.2], n_probe=6, random_state=7) for _ in range(2))
    for a, b in zip(one.options, other.options, strict=True):
        np.testing.assert_array_equal(a.loss, b.loss)
        assert a.recommended_size == b.recommended_size
    np.testing.assert_array_equal(X, kept_X)
    np.testing.assert_array_equal(y, kept_y)
    assert not hasattr(classifier, "classes_")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"sizes": [0]}, "sizes"),
        ({"sizes": [np.inf]}, "sizes"),
        ({"bite_fractions": [0.0]}, "bite_fractions"),
        ({"bite_fractions": [1.5]}, "bite_fractions"),
        ({"bite_fractions": [0.2, 1.5]}, "bite_fractions"),
        ({"bite_fractions": []}, "bite_fractions"),
        ({"n_probe": 4}, "n_probe"),
        ({"max_size": 10**30}, "max_size must be a whole number of at most"),
        ({"n_probe": 10**30}, "n_probe must be a whole number of at most 1000000"),
        ({"n_probe": 6.5}, "n_probe"),
        ({"loss": "hinge"}, "loss"),
        ({"test_size": 1.0}, "test_size"),
        ({"random_state": -1}, "random_state"),
        ({"tolerance": 0.0}, "tolerance"),
        ({"max_size": 0}, "max_size"),
        ({"y": np.zeros(400)}, "label"),
        ({"y": np.append(np.ones(1), np.zeros(399))}, "single row"),
        ({"y": np.zeros((400, 2))}, "y must"),
        ({"y": np.arange(300) % 2}, "X and y"),
        ({"y": np.arange(400) % 3, "loss": "squared"}, "squared"),
        ({"sampling": "all"}, "sampling must be"),
    ],
)
def test_bad_input(change: dict[str, object], word: str) -> None:
    X, y = noisy(400)
    arguments = {"X": X, "y": y, "sizes": [5], "bite_fractions": [0.2], "n_probe": 6, "random_state": 0} | change
    with pytest.raises(InputError, match=word):
        design_bites(LogisticRegression(), **arguments)  # type: ignore[arg-type]


def test_classifiers_without_a_score_are_refused() -> None:
    class LabelsOnly(NearestCentroid):
        predict_proba = property(lambda self: (_ for _ in ()).throw(AttributeError("no probabilities")))
        decision_function = property(lambda self: (_ for _ in ()).throw(AttributeError("no scores")))

    with pytest.raises(UnsupportedModelError, match="neither decision_function nor predict_proba"):
        design_bites(LabelsOnly(), *noisy(200), [5], [0.3], n_probe=5, random_state=0)


def test_pairwise_scores_are_refused() -> None:
    X, y = load_iris(return_X_y=True)
    y = np.where(np.arange(150) % 4 == 3, 3, y)
    with pytest.raises(UnsupportedModelError, match="pairs of labels"):
        design_bites(SVC(decision_function_shape="ovo"), X, y, [5], [0.5], n_probe=5, random_state=0)


@pytest.mark.parametrize("kind", ["array", "sparse", "frame"])
def test_disjoint_bites_divide_the_rows_and_begin_anew(kind: str) -> None:
    X, y = noisy(400)
    X[:, 0] = np.arange(400)
    given = {"array": X, "sparse": sparse.csr_matrix(X), "frame": pd.DataFrame(X)}[kind]
    split = split_rows(given, y, 0.25, 0)
    bites = disjoint_bites(split, 70, np.random.default_rng(0))
    drawn = []
    for _ in range(8):
        rows, labels = next(bites)
        first = np.asarray(rows.todense() if kind == "sparse" else rows)[:, 0].astype(int)
        np.testing.assert_array_equal(y[first], labels)
        drawn.append(set(first))
    for division in (drawn[:4], drawn[4:]):
        assert len(set.union(*division)) == 280
    assert drawn[0] != drawn[4]


def test_disjoint_bites_without_a_label_are_left_out_and_an_end_is_made() -> None:
    X, y = noisy(400)
    y[:] = 0
    y[:4] = 1
    split = split_rows(X, y, 0.25, 0)
    assert all(set(next(disjoint_bites(split, 100, np.random.default_rng(seed)))[1]) == {0, 1} for seed in range(5))
    with pytest.raises(InputError, match="never held all 2 labels"):
        next(disjoint_bites(split, 1, np.random.default_rng(0)))


def test_disjoint_bites_have_the_losses_of_random_ones(design: BiteDesign) -> None:
    """2017, section 6.4: there is no noticeable difference between them."""
    disjoint = design_bites(LogisticRegression(), *noisy(), SIZES, FRACTIONS, sampling="disjoint", random_state=1)
    for one, other in zip(disjoint.options, design.options, strict=True):
        np.testing.assert_allclose(one.loss, other.loss, atol=0.03)
