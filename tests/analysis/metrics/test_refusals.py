"""What is refused as a metric: one table of the case, the class of the error and the words of its message."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.metrics import average_precision_score, f1_score, make_scorer, r2_score, roc_auc_score

from ens_plugin import CustomEnsemble, analyze
from ens_plugin.adapters import find_adapter
from ens_plugin.analysis import ScorerOfLabel
from ens_plugin.analysis.metrics import resolve_metric, scorer_called
from ens_plugin.errors import EnsPluginError, InputError, TooFewMembersError

Array = np.ndarray
RANKED = make_scorer(roc_auc_score, response_method="predict_proba")


@cache
def forest(kind: str) -> tuple[Any, Array, Array]:
    """A forest of two or three labels, of labels that are words, or of values; with its rows."""
    X, y = {"three": load_wine, "values": load_diabetes}.get(kind, load_breast_cancer)(return_X_y=True)
    if kind == "words":
        y = np.where(y == 1, "benign", "malignant")
    if kind == "values":
        return RandomForestRegressor(30, random_state=0).fit(X, y), X, y
    return RandomForestClassifier(30, max_depth=4, random_state=0).fit(X, y), X, y


def of(kind: str, **options: Any) -> Callable[[], object]:
    return lambda: analyze(*forest(kind), **options)


def resolved(kind: str, metric: Any, *, with_rows: bool = False) -> Callable[[], object]:
    return lambda: resolve_metric(metric, find_adapter(forest(kind)[0]), forest(kind)[2] if with_rows else None)


def held_out(outputs: Array, y: Array, aggregation: str, metric: Any) -> Callable[[], object]:
    ensemble = CustomEnsemble(outputs, None, aggregation=aggregation)
    return lambda: analyze(ensemble, None, y, metric=metric, data="holdout")


def noisy(n_members: int, metric: Any) -> Callable[[], object]:
    """A forest of full depth on 300 rows, some of whose probabilities out of bag are 0."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    y = (rng.random(300) < 1 / (1 + np.exp(-2.0 * X[:, 0]))).astype(int)
    return lambda: analyze(RandomForestClassifier(n_members, random_state=0).fit(X, y), X, y, metric=metric)


def unclipped(y: Array, p: Array) -> float:
    return float(-np.log(np.clip(p[np.arange(y.size), y], 1e-16, 1.0)).mean())


def clipped(y: Array, p: Array) -> float:
    return unclipped(y, np.clip(p, 0.01, 1.0))


def steep(y: Array, mean: Array) -> float:
    """A metric of which subsets of eight members show only a steep fall."""
    return float(np.mean(np.exp(2.0 * np.abs(y - mean)) - 1.0))


def failing(y: Array, mean: Array) -> float:
    raise ZeroDivisionError("no rows of this kind")


def returning(value: Any) -> Callable[[Array, Array], float]:
    def broken(y: Array, mean: Array) -> float:
        return value  # type: ignore[no-any-return]

    return broken


RNG = np.random.default_rng(0)
COUNTS = RNG.poisson(1.0, 60).astype(float)
FORTY = np.maximum(RNG.poisson(1.0, (40, 60)), np.arange(40)[:, None] % 4 == 0)  # no row has 0 from all members
VOTES, LABELS = RNG.integers(0, 2, (15, 60)), RNG.integers(0, 2, 60)
SCORES = RNG.normal(size=(15, 60, 2))

CASES: dict[str, tuple[Callable[[], object], type[EnsPluginError], str]] = {
    # Names, and what is none.
    "unknown name": (of("two", metric="roc_auk"), InputError, r"metric='roc_auk' is no name .* near are 'roc_auc'"),
    "capitals": (lambda: scorer_called("AUC"), InputError, "metric='AUC' is no name .*'roc_auc'"),
    # Of the first 80 characters half agree with the scorer's name; of 81, fewer would.
    "long name": (
        of("two", metric="normalized_mutual_info_scor" + 60 * "Z"), InputError, "near are 'normalized_mutual_info_score"
    ),
    "name of a loss": (of("two", metric="neg_mean_pinball_loss"), InputError, "metric='neg_mean_pinball_loss' is no"),
    "number": (of("two", metric=5), InputError, "metric must be the name of a scorer"),
    "list": (of("two", metric=["roc_auc"]), InputError, "metric must be the name of a scorer"),
    "criterion alone": (of("two", criterion="metric"), InputError, "criterion='metric' needs a metric"),
    # Of another task, or another number of labels.
    "values for labels": (of("two", metric="r2"), InputError, "metric='r2' scores values, and this ensemble predic"),
    "labels for values": (of("values", metric="roc_auc"), InputError, "metric 'roc_auc' is for labels, and this ens"),
    "area of three labels": (of("three", metric="roc_auc"), InputError, "metric 'roc_auc' is for two labels.*_ovr'"),
    "scorer of an area of three": (of("three", metric=RANKED), InputError, "metric 'roc_auc' is for two labels.*_ovr'"),
    "F1 of three labels": (of("three", metric="f1"), InputError, "metric 'f1' cannot be computed: .* 'f1_macro'"),
    "scorer of F1 of three": (of("three", metric=make_scorer(f1_score)), InputError, "metric 'f1' .* Use 'f1_macro'"),
    # Functions of scikit-learn that are no scorers.
    "share as a function": (of("values", metric=r2_score), InputError, "metric=r2_score .* greater values of this one"),
    "area as a function": (of("two", metric=roc_auc_score), InputError, "metric=roc_auc_score .* greater values of th"),
    "ranking as a function": (
        of("two", metric=average_precision_score), InputError, r"average_precision_score, response_method='predict_prob"
    ),
    "ranking of labels": (
        of("words", metric=make_scorer(average_precision_score, pos_label="benign")),
        InputError, "metric 'average_precision_score' .* It ranks rows: .* response_method='predict_proba'",
    ),
    # Outputs that are no probabilities.
    "probabilities of votes": (
        held_out(VOTES, LABELS, "vote", "roc_auc"), InputError, "metric 'roc_auc': the metric needs .* predict labels o"
    ),
    "probabilities of scores": (
        held_out(SCORES, LABELS, "mean_score", "neg_log_loss"), InputError, "metric 'neg_log_loss': .* averages raw sco"
    ),
    "weights of a function": (
        of("two", metric=clipped, sample_weight=np.ones(569)), InputError, "The metric 'clipped' takes no weights: its"
    ),
    # Positive labels.
    "scorer of an absent label": (
        of("words", metric=make_scorer(f1_score, pos_label="spam")),
        InputError, r"metric 'f1' cannot be .* labels are \['benign', 'malignant'\].*Name the positive one",
    ),
    "no rows to choose one": (resolved("words", "f1"), InputError, "Name the positive one: positive_label"),
    "scorer is not replaced": (
        resolved("words", make_scorer(f1_score, pos_label="spam"), with_rows=True), InputError, r"labels are \['benign'"
    ),
    "absent label": (
        resolved("words", ScorerOfLabel("f1", "spam")), InputError, "The positive label 'spam' is not one of the two la"
    ),
    "label of three": (
        resolved("three", ScorerOfLabel("f1", "0")), InputError, "The positive label '0' was given, .* has 3 labels"
    ),
    "label of values": (
        resolved("values", ScorerOfLabel("f1", "1")), InputError, "The positive label '1' .* predicts values.*'r2'"
    ),
    "label of no scorer": (resolved("words", ScorerOfLabel("f1_", "benign")), InputError, "metric='f1_' .* near are '"),
    "label without a metric": (
        of("words", positive_label="benign"), InputError, "positive_label is the label that a metric is about"
    ),
    "label of a function": (
        of("words", metric=clipped, positive_label="benign"), InputError, "A positive label was given, and the metric i"
    ),
    "label of a scorer with one": (
        of("words", metric=make_scorer(f1_score, pos_label="benign"), positive_label="malignant"),
        InputError, "The metric 'f1' was made for the label 'benign'",
    ),
    # Values that are none.
    "not a number": (of("two", metric=returning(np.nan)), InputError, "metric 'broken' returned nan"),
    "infinity": (of("two", metric=returning(np.inf)), InputError, "metric 'broken' returned inf"),
    "text": (of("two", metric=returning("a")), InputError, "metric 'broken' failed on y of shape"),
    "an error": (of("two", metric=failing), InputError, r"metric 'failing' failed.*no rows of this kind"),
    "logarithm of 0": (noisy(16, unclipped), InputError, "metric 'unclipped' has no value of its own .* Clip the prob"),
    "deviance of 0": (
        held_out(FORTY, COUNTS, "mean", "neg_mean_poisson_deviance"),
        InputError, "The Poisson deviance has no value where 0 is predicted",
    ),
    # Sizes that are not reached.
    "few members": (noisy(6, clipped), TooFewMembersError, "Half of the rows have 2 out-of-bag members"),
    "line and parabola": (
        held_out(RNG.normal(size=(8, 400)), np.zeros(400), "mean", steep),
        TooFewMembersError, "metric 'steep' is known for subsets of up to 8 members .* a line and a parabola",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_refusal(case: str) -> None:
    act, kind, words = CASES[case]
    with pytest.raises(kind, match=words):
        act()


def test_an_error_has_its_cause_and_a_remedy_exists() -> None:
    with pytest.raises(InputError) as caught:
        of("two", metric=failing)()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    with pytest.raises(InputError) as caught:
        of("three", metric=make_scorer(f1_score))()
    assert "f1_score_macro" not in str(caught.value)
