"""Choose `n_estimators` of a tabular foundation model, such as TabPFN or TabICL, from the outputs of its members.

Such a model predicts with a few copies of the data, each with its columns in another order and in one of a few
preprocessings, which take turns. One member is therefore not like the next one, but one whole cycle is like the next
cycle: the mean of a cycle is a member here. A small stand-in takes the place of the model, whose weights are a
download; with yours, record the outputs of all members for rows that it was not given, one cycle after the other.
Where the model averages logits, as TabICL does by default, record these, with ``aggregation="mean_score"``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import FunctionTransformer, PowerTransformer, QuantileTransformer, StandardScaler

import ens_plugin

PREPROCESSINGS = (FunctionTransformer(), PowerTransformer(), QuantileTransformer(n_quantiles=100), PCA(whiten=True))
CYCLE = len(PREPROCESSINGS)
N_ESTIMATORS, MANY = 32, 400
N_GIVEN, N_HELD_OUT, N_COLUMNS, N_HIDDEN = 300, 1000, 12, 8
TOLERANCE = 0.01
Array = NDArray[Any]


def record(n_estimators: int, seed: int, X: Array, y: Array, X_new: Array) -> Array:
    """Return the members' probabilities for new rows, shape (n_estimators, n_rows, n_labels)."""
    rng = np.random.default_rng(seed)
    weights = np.random.default_rng(0).normal(size=(N_COLUMNS, N_HIDDEN)) / np.sqrt(N_COLUMNS)
    copies = []
    for preprocessing in PREPROCESSINGS:
        scaler = StandardScaler().fit(preprocessing.fit_transform(X))
        copies.append([scaler.transform(preprocessing.transform(rows)) for rows in (X, X_new)])
    outputs = []
    for member in range(n_estimators):
        order = rng.permutation(N_COLUMNS)
        given, new = (np.tanh(rows[:, order] @ weights) for rows in copies[member % CYCLE])
        outputs.append(LogisticRegression(C=10.0).fit(given, y).predict_proba(new))
    return np.array(outputs)


def mean_of_cycles(outputs: Array) -> Array:
    """Return the mean of each whole cycle, shape (n_cycles, n_rows, n_labels)."""
    return np.asarray(outputs.reshape(-1, CYCLE, *outputs.shape[1:]).mean(axis=1))


def true_curve(cycles: Array, y: Array, size: int) -> tuple[float, float]:
    """Return the mean error and Brier score of ensembles of `size` cycles, each made of other ones."""
    means = cycles[: len(cycles) // size * size].reshape(-1, size, *cycles.shape[1:]).mean(axis=1)
    is_label = np.eye(cycles.shape[2])[y]
    return float((means.argmax(axis=2) != y).mean()), float(((means - is_label) ** 2).sum(axis=2).mean())


def true_size(cycles: Array, y: Array) -> float:
    """Return the number of cycles whose Brier score is within the tolerance, which falls as one over that number."""
    (_, one), (_, all_of_them) = true_curve(cycles, y, 1), true_curve(cycles, y, len(cycles))
    return (one / all_of_them - 1.0) / TOLERANCE


def main() -> None:
    X, y = make_classification(
        N_GIVEN + N_HELD_OUT, N_COLUMNS, n_informative=6, n_classes=3, class_sep=1.5, random_state=0
    )
    X, X_new, y, y_new = X[:N_GIVEN], X[N_GIVEN:], y[:N_GIVEN], y[N_GIVEN:]
    cycles = mean_of_cycles(record(N_ESTIMATORS, 0, X, y, X_new))
    ensemble = ens_plugin.CustomEnsemble(cycles, None, aggregation="mean_proba")
    report = ens_plugin.analyze(
        ensemble, None, y_new, data="holdout", criterion="probability", tolerance=TOLERANCE, random_state=0
    )
    many = mean_of_cycles(record(MANY, 1, X, y, X_new))

    print(f"Estimates from {N_ESTIMATORS} members, {len(cycles)} cycles of {CYCLE}; truth from {MANY} others.\n")
    print("n_estimators   estimated error   true error")
    for size in (1, 2, 4, 8, 16):
        print(f"{CYCLE * size:12}   {report.error_curve.at(size):15.2%}   {true_curve(many, y_new, size)[0]:10.2%}")
    print(f"    infinite   {report.error_curve.asymptote:15.2%}   {true_curve(many, y_new, len(many))[0]:10.2%}\n")
    low, high = report.recommendation.interval
    print(f"Cycles for a Brier score within {TOLERANCE:.0%} of the infinite ensemble's: {report.recommended_size}")
    print(f"(95 % interval {low} to {high}; truth {true_size(many, y_new):.1f}),")
    print(f"so that n_estimators={CYCLE * (report.recommended_size or len(cycles))}.")


if __name__ == "__main__":
    main()
