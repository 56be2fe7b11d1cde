"""Members trained on small bites, and their scores for held-out rows."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ens_plugin.core.validation import FloatArray, counted
from ens_plugin.errors import InputError, UnsupportedModelError
from ens_plugin.papers.score_tables_2017.score_models import score_of

__all__ = ["Probes", "Split", "probe_bites", "score_rows", "split_rows"]

Array = NDArray[Any]

MAX_DRAWS = 1000
EDGE = 1e-6


@dataclass(frozen=True, eq=False)
class Split:
    """Training rows, from which samples (bites) are drawn for members, and test rows to predict.

    Attributes
    ----------
    X_train, X_test : array-like or sparse matrix, as given
    y_train, y_test : ndarray
        y_test holds label codes.
    classes : ndarray
        Sorted labels.
    """

    X_train: Any
    X_test: Any
    y_train: Array
    y_test: NDArray[np.int64]
    classes: Array


@dataclass(frozen=True, eq=False)
class Probes:
    """Scores for the test rows by probes, members trained on bites of one size.

    Attributes
    ----------
    scores : ndarray, shape (n_probe, n_test) or (n_probe, n_test, n_labels)
        Log odds of the second of two labels, or scores whose softmax is the vector of probabilities.
    probabilities : bool
        Whether the classifier returns probabilities only, from which scores are computed.
    n_rows : int
        Rows in a bite.
    seconds : float
        Mean seconds to fit one probe.
    """

    scores: FloatArray
    probabilities: bool
    n_rows: int
    seconds: float


def split_rows(X: Any, y: Any, test_size: float, random_state: int | None) -> Split:
    """Return training and test rows, split at random and stratified by label.

    Raises
    ------
    InputError
        If X and y do not match, there are fewer than two labels, or too few rows of one of them.
    """
    from sklearn.model_selection import train_test_split
    from sklearn.utils import indexable

    if not 0.0 < test_size < 1.0:
        raise InputError(f"test_size must lie strictly between 0 and 1, got {test_size!r}.")
    target = np.asarray(y)
    if target.ndim != 1:
        raise InputError(f"y must have one dimension, got shape {target.shape}.")
    classes, codes, counts = np.unique(target, return_inverse=True, return_counts=True)
    if classes.size < 2:
        raise InputError(f"y holds {classes.size} label(s); at least two are needed.")
    if counts.min() < 2:
        raise InputError(f"label {classes[counts.argmin()]!r} has a single row; at least 2 of each label are needed.")
    try:
        rows, labels = indexable(X, codes)
        train, test, y_train, y_test = train_test_split(
            rows, labels, test_size=test_size, stratify=labels, random_state=random_state
        )
    except ValueError as error:
        raise InputError(
            f"X and y cannot be split into training and test rows: {str(error).rstrip('.')}. Pass one label for each "
            "row, more rows of each label, or another test_size."
        ) from error
    return Split(train, test, classes[y_train], np.asarray(y_test), classes)


def probe_bites(estimator: Any, split: Split, n_rows: int, n_probe: int, rng: np.random.Generator) -> Probes:
    """Return the test scores of members trained on random bites: rows drawn with replacement (2017 section 2).

    A bite in which a label is missing is drawn again, since its classifier could not predict that label.

    Raises
    ------
    InputError
        If none of 1000 draws of a bite holds all labels.
    UnsupportedModelError
        If the classifier has neither decision_function nor predict_proba.
    """
    from sklearn.utils import resample

    scores, seconds = [], 0.0
    for _ in range(n_probe):
        seed = _bite_seed(split, n_rows, rng)
        X_bite, y_bite = resample(split.X_train, split.y_train, n_samples=n_rows, random_state=seed)
        member = seeded_clone(estimator, rng)
        begun = time.perf_counter()
        member.fit(X_bite, y_bite)
        seconds += time.perf_counter() - begun
        scores.append(score_rows(member, split.X_test))
    return Probes(np.stack(scores), not hasattr(estimator, "decision_function"), n_rows, seconds / n_probe)


def seeded_clone(estimator: Any, rng: np.random.Generator) -> Any:
    """Return an unfitted clone of a classifier, with a new seed if it has ``random_state``."""
    from sklearn.base import clone

    member = clone(estimator)
    if "random_state" in member.get_params():
        member.set_params(random_state=int(rng.integers(2**31)))
    return member


def _bite_seed(split: Split, n_rows: int, rng: np.random.Generator) -> int:
    """Return the seed of a random bite that holds every label."""
    from sklearn.utils import resample

    for _ in range(MAX_DRAWS):
        seed = int(rng.integers(2**31))
        labels = resample(split.y_train, n_samples=n_rows, random_state=seed)
        if np.unique(labels).size == split.classes.size:
            return seed
    raise InputError(
        f"{MAX_DRAWS} random bites of {n_rows} rows never held all {split.classes.size} labels; "
        "use larger bite_fractions."
    )


def score_rows(member: Any, X: Any) -> FloatArray:
    """Return a fitted classifier's scores: its decision function, or log odds (log probabilities) of predict_proba.

    Probabilities are kept 1e-6 away from 0 and 1.
    """
    if hasattr(member, "decision_function"):
        scores = np.asarray(member.decision_function(X), dtype=np.float64)
    elif hasattr(member, "predict_proba"):
        probability = np.asarray(member.predict_proba(X), dtype=np.float64)
        scores = score_of(probability[:, 1]) if probability.shape[1] == 2 else np.log(np.maximum(probability, EDGE))
    else:
        raise UnsupportedModelError(
            f"{type(member).__name__} has neither decision_function nor predict_proba: there is no score whose spread "
            "could be estimated. Use a classifier that has one of them."
        )
    if not np.isfinite(scores).all():
        raise UnsupportedModelError(
            f"{type(member).__name__} returned NaN or infinite scores, whose spread cannot be estimated. Use a "
            "classifier with finite scores, or larger bites."
        )
    n_labels = len(member.classes_)
    if scores.ndim == 2 and scores.shape[1] != n_labels:
        raise UnsupportedModelError(
            f"{type(member).__name__} scores pairs of labels ({counted(scores.shape[1], 'column')} for "
            f"{counted(n_labels, 'label')}); set decision_function_shape='ovr' or wrap it in OneVsRestClassifier."
        )
    return scores
