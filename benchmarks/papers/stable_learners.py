"""Ensembles of an unstable and of a stable learner, on data sets of the paper (2004 Tables 1, 3, 4 and 6 to 9)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import AdaBoostClassifier, BaggingClassifier
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import BernoulliNB, CategoricalNB, GaussianNB
from sklearn.tree import DecisionTreeClassifier

from benchmarks.shared.keel import keel_rows
from benchmarks.shared.markdown import table
from benchmarks.shared.results import Claim, mean_and_se
from ens_plugin.papers.model_averaging_2004 import BootstrapModelAveragingClassifier

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

SINGLE, BAGGING, BOOSTING = "single model", "bagging", "boosting"
AVERAGED, PARAMETRIC, CONDITIONAL = "averaged", "averaged, parametric", "conditional"
# Numbers among the columns of crx; WEKA models them as normal beside words, which scikit-learn does not.
NUMBERS_OF_CRX = (1, 2, 7, 10, 13, 14)
N_BINS = 5


class Problem(NamedTuple):
    """A data set of the paper that is at hand, and the naive Bayes classifier that its columns suit."""

    data: str
    stable: Callable[[FloatArray], Any]

    def rows(self) -> tuple[FloatArray, IntArray]:
        """Return columns and labels, with the numbers among words in bins of as many rows."""
        features, y = keel_rows(self.data)
        if self.data == "crx":
            features = features.copy()
            for column in NUMBERS_OF_CRX:
                limits = np.quantile(features[:, column], np.arange(1, N_BINS) / N_BINS)
                features[:, column] = np.searchsorted(limits, features[:, column])
        return features, y


PROBLEMS = {
    "iris": Problem("iris", lambda _: GaussianNB()),
    "breast": Problem("wisconsin", lambda _: GaussianNB()),
    "crx": Problem("crx", lambda X: CategoricalNB(min_categories=X.max(axis=0).astype(int) + 1)),
    "vote": Problem("housevotes", lambda _: BernoulliNB()),
}


class Experiment(NamedTuple):
    """A learner and a share of the rows for training, and the errors printed for it, in percent by method."""

    title: str
    is_stable: bool
    share: float
    paper: Mapping[str, Mapping[str, float]]


def _printed(methods: tuple[str, ...], *rows: tuple[float, ...]) -> dict[str, dict[str, float]]:
    return {name: dict(zip(methods, row, strict=True)) for name, row in zip(PROBLEMS, rows, strict=True)}


EXPERIMENTS = (
    Experiment(
        "Tables 1 and 3: trees, 66 %",
        False,
        0.66,
        _printed((SINGLE, BAGGING, BOOSTING), (5.7, 5.2, 5.8), (5.5, 3.7, 3.3), (15.2, 13.8, 14.5), (4.5, 4.1, 5.1)),
    ),
    Experiment(
        "Tables 4, 6 and 7: naive Bayes, 66 %",
        True,
        0.66,
        _printed(
            (SINGLE, BAGGING, BOOSTING, AVERAGED, CONDITIONAL),
            (4.0, 4.1, 4.4, 4.0, 4.1),
            (3.7, 3.7, 4.4, 3.7, 3.7),
            (15.2, 14.8, 14.5, 14.3, 15.6),
            (10.1, 10.2, 6.8, 10.1, 10.2),
        ),
    ),
    Experiment(
        "Tables 8 and 9: naive Bayes, 10 %",
        True,
        0.1,
        _printed(
            (SINGLE, BAGGING, BOOSTING, AVERAGED, PARAMETRIC, CONDITIONAL),
            (5.8, 5.9, 6.3, 5.5, 5.0, 7.7),
            (4.0, 3.9, 4.7, 3.7, 3.3, 4.4),
            (21.6, 23.8, 23.8, 20.7, 19.7, 22.2),
            (9.9, 9.9, 6.1, 9.7, 9.5, 10.2),
        ),
    ),
)
Errors = Mapping[str, FloatArray]


def majority_labels(bagged: Any, X: FloatArray) -> IntArray:
    """Return the labels with most votes, as the paper's bagging counts them; scikit-learn's averages probabilities."""
    votes = np.stack([member.predict(X).astype(np.int64) for member in bagged.estimators_])
    counts = np.stack([(votes == code).sum(axis=0) for code in range(len(bagged.classes_))])
    return np.asarray(bagged.classes_[counts.argmax(axis=0)])


def errors_of_split(problem: Problem, experiment: Experiment, n_models: int, seed: int) -> dict[str, float]:
    """Return the error on the test rows of one split, in percent by method."""
    features, y = problem.rows()
    X, test, labels, truth = train_test_split(
        features, y, train_size=experiment.share, stratify=y, random_state=seed
    )  # fmt: skip
    if experiment.is_stable:
        base = problem.stable(features)
    else:
        base = DecisionTreeClassifier(criterion="entropy", min_samples_leaf=2, random_state=seed)
    # Boosting may weigh a label down to nothing, and naive Bayes then takes the logarithm of 0.
    with np.errstate(divide="ignore", invalid="ignore"):
        predicted = {
            SINGLE: base.fit(X, labels).predict(test),
            BAGGING: majority_labels(BaggingClassifier(base, n_models, random_state=seed).fit(X, labels), test),
            BOOSTING: AdaBoostClassifier(base, n_estimators=n_models, random_state=seed).fit(X, labels).predict(test),
        }
    if experiment.is_stable:
        averaged = BootstrapModelAveragingClassifier(base, n_estimators=n_models, random_state=seed)
        predicted[AVERAGED] = averaged.fit(X, labels).predict(test)
        predicted[CONDITIONAL] = averaged.set_params(combine="conditional").predict(test)
        parametric = averaged.set_params(combine="joint", bootstrap="parametric")
        predicted[PARAMETRIC] = parametric.fit(X, labels).predict(test)
    return {method: float(100.0 * np.mean(found != truth)) for method, found in predicted.items()}


def error_sections(n_splits: int, n_models: int, seed: int) -> tuple[list[Claim], list[str]]:
    """Measure the three experiments: claims of what the paper concludes from them, and a table each."""
    measured = [
        {
            name: [errors_of_split(problem, experiment, n_models, 1000 * seed + split) for split in range(n_splits)]
            for name, problem in PROBLEMS.items()
        }
        for experiment in EXPERIMENTS
    ]
    found: list[Mapping[str, Errors]] = [
        {
            name: {method: np.array([split[method] for split in splits]) for method in splits[0]}
            for name, splits in of_data.items()
        }
        for of_data in measured
    ]
    return claims(found), [error_table(*one) for one in zip(EXPERIMENTS, found, strict=True)]


def claims(found: Sequence[Mapping[str, Errors]]) -> list[Claim]:
    """Claim what the paper concludes: bagging and boosting suit trees, and averaging suits naive Bayes."""
    trees, many, few = found
    gains = {
        "trees, 66 %: bagging": (_gain(trees, BAGGING, SINGLE), ""),
        "trees, 66 %: boosting": (_gain(trees, BOOSTING, SINGLE), ""),
        "trees less naive Bayes, 66 %: bagging": (_gain(trees, BAGGING, SINGLE) - _gain(many, BAGGING, SINGLE), ""),
        "naive Bayes, 66 %: averaged": (_gain(many, AVERAGED, SINGLE), TRIED),
        "naive Bayes, 10 %: averaged": (_gain(few, AVERAGED, SINGLE), TRIED),
        "naive Bayes, 10 %: averaged less conditional": (_gain(few, AVERAGED, CONDITIONAL), TRIED),
        "naive Bayes, 10 %: parametric less rows": (_gain(few, PARAMETRIC, AVERAGED), TRIED),
    }
    return [
        Claim(f"{name}, fall of the error (points, mean over data sets)", *mean_and_se(gain), low=0.0, tried=tried)
        for name, (gain, tried) in gains.items()
    ]


def _gain(found: Mapping[str, Errors], method: str, over: str) -> FloatArray:
    """Mean over data sets of how much lower a method's error is, by split."""
    return np.asarray(np.mean([errors[over] - errors[method] for errors in found.values()], axis=0))


def error_table(experiment: Experiment, found: Mapping[str, Errors]) -> str:
    """Return the errors here below those of the paper, with standard errors over splits."""
    methods = list(next(iter(found.values())))
    lines = []
    for name, errors in found.items():
        printed = experiment.paper[name]
        lines.append(
            [f"**{name}**, paper", *(f"{printed[method]:g}" if method in printed else "" for method in methods)]
        )
        shown = (mean_and_se(errors[method]) for method in methods)
        lines.append([f"{name}, here", *(f"{mean:.1f} ± {se:.1f}" for mean, se in shown)])
    return table([f"{experiment.title} for training, error (%)", *methods], lines)


TRIED = (
    "nothing: the four data sets are those of the paper's ten that are at hand, without the rows with missing values, "
    "and eight others are in section Model averaging."
)
