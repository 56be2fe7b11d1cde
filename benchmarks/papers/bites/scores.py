"""Learners of small bites (2017): thousands of members per setting, reduced to their scores, and the truth from all."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sklearn
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from tqdm import tqdm

from benchmarks.shared.forests import random_numbers
from benchmarks.shared.problems import FORMULAS, load_real

Array = NDArray[Any]
FloatArray = NDArray[np.float64]


class Setting(NamedTuple):
    """A learner and the data that its bites are drawn from.

    Attributes
    ----------
    learner : callable
        Makes a new unfitted classifier.
    problem : str
    n_rows, n_test : int
    """

    learner: Callable[[], Any]
    problem: str
    n_rows: int
    n_test: int

    def sample(self, seed: int) -> tuple[Array, Array, Array, Array]:
        """Training rows and labels, test rows and labels."""
        rng = random_numbers(self.problem, seed, 0)
        if self.problem in FORMULAS:
            # Two samples, since a formula's rows may be in order: the spiral's run along its arm.
            sample = FORMULAS[self.problem].sample
            return *sample(self.n_rows, rng), *sample(self.n_test, rng)
        features, digits = load_real("digits", None, rng)
        order = rng.permutation(digits.size)
        features, y = features[order] / 16.0, digits[order].astype(np.int64) % 2
        n = self.n_rows
        return features[:n], y[:n], features[n : n + self.n_test], y[n : n + self.n_test]


SETTINGS = {
    "logistic regression, noisy logistic": Setting(lambda: LogisticRegression(), "noisy logistic", 5000, 1000),
    "polynomial SVM, ringnorm": Setting(lambda: SVC(kernel="poly", degree=3, coef0=1.0), "ringnorm", 1200, 600),
    "decision trees, digits odd/even": Setting(
        lambda: DecisionTreeClassifier(min_samples_leaf=2), "digits odd/even", 1200, 597
    ),
}


class Truth(NamedTuple):
    """Expected losses of ensembles of one size, from resampling all members; S.E. of the 0-1 loss."""

    zero_one: float
    zero_one_se: float
    bias: float
    variance: float


def scores_of(classifier: Any, features: Array) -> FloatArray:
    """Log odds of label 1: the decision function, or of the leaf's labels with one more of each."""
    if hasattr(classifier, "decision_function"):
        return np.asarray(classifier.decision_function(features))
    leaves = classifier.tree_.apply(features.astype(np.float32))
    counts = classifier.tree_.value[leaves, 0] * classifier.tree_.weighted_n_node_samples[leaves][:, None]
    return np.asarray(np.log(counts[:, 1] + 1.0) - np.log(counts[:, 0] + 1.0))


def bite_scores(setting: Setting, fraction: float, n_members: int, seed: int, cache: Path) -> tuple[Array, Array]:
    """Scores of the true label of every member, shape (n_members, n_test) float32, and the test labels."""
    learner = zlib.crc32(repr(setting.learner()).encode())
    name = f"bites-{learner:08x}-{setting.problem}-{setting.n_rows}-{setting.n_test}-{fraction}-{n_members}-{seed}"
    path = cache / f"{name.replace('/', '-').replace(' ', '-')}-{sklearn.__version__}.npz"
    features, y, test, test_y = setting.sample(seed)
    if path.exists():
        with np.load(path) as stored:
            return stored["scores"], test_y
    rng = random_numbers(name, seed, 1)
    scores = np.empty((n_members, test_y.size), dtype=np.float32)
    size = max(2, round(fraction * y.size))
    for member in tqdm(range(n_members), desc=f"{setting.problem}, m/n {fraction}", file=sys.stderr, mininterval=5):
        scores[member] = scores_of(_fit(setting, features, y, size, rng), test)
    signed = (scores * (2 * test_y - 1)).astype(np.float32)
    cache.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, scores=signed)
    return signed, test_y


def _fit(setting: Setting, features: Array, y: Array, size: int, rng: np.random.Generator) -> Any:
    while True:
        rows = rng.integers(0, y.size, size)
        if np.unique(y[rows]).size == 2:
            break
    classifier = setting.learner()
    if "random_state" in classifier.get_params():
        classifier.set_params(random_state=int(rng.integers(2**31)))
    return classifier.fit(features[rows], y[rows])


def single_loss(setting: Setting, seed: int) -> float:
    """0-1 loss on the test rows of one learner trained on everything."""
    features, y, test, test_y = setting.sample(seed)
    classifier = setting.learner()
    if "random_state" in classifier.get_params():
        classifier.set_params(random_state=0)
    score = scores_of(classifier.fit(features, y), test) * (2 * test_y - 1)
    return float(np.mean((1.0 - np.sign(score)) / 2.0))


def ground_truth(scores: Array, size: float, aggregation: str, n_ensembles: int, rng: np.random.Generator) -> Truth:
    """Resample ensembles of one size, with replacement, from all members (2017 section 6.3)."""
    odds = _ensemble_odds(scores, size, aggregation, n_ensembles, rng)
    wrong = ((1.0 - np.sign(odds)) / 2.0).mean(axis=1)
    right, other = -np.logaddexp(0.0, -odds).mean(axis=0), -np.logaddexp(0.0, odds).mean(axis=0)
    log_z = np.logaddexp(right, other)
    se = float(wrong.std(ddof=1) / np.sqrt(wrong.size)) if wrong.size > 1 else 0.0
    return Truth(float(wrong.mean()), se, float(np.mean(log_z - right)), float(np.mean(-log_z)))


def _ensemble_odds(scores: Array, size: float, aggregation: str, n_ensembles: int, rng: np.random.Generator) -> Array:
    outputs = scores.astype(np.float64) if aggregation == "mean_score" else expit(scores.astype(np.float64))
    if np.isinf(size):
        mixed = outputs.mean(axis=0)[None]
    else:
        counts = rng.multinomial(int(size), np.full(outputs.shape[0], 1.0 / outputs.shape[0]), n_ensembles)
        mixed = (counts / size) @ outputs
    if aggregation == "mean_score":
        return np.asarray(mixed)
    return np.asarray(np.log(mixed) - np.log1p(-np.minimum(mixed, 1 - 1e-15)))
