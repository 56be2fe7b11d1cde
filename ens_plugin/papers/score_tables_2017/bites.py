"""Mahajan et al. 2017: bites, their design, and probes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from ens_plugin.core.validation import MOST_MEMBERS, FloatArray, as_count, as_sizes, as_values, counted
from ens_plugin.errors import InputError, UnsupportedModelError
from ens_plugin.papers.score_tables_2017.score_tables import ScoreTables, load_score_tables
from ens_plugin.papers.score_tables_2017.scores import (
    EDGE,
    ScoreRows,
    linearized_scores,
    loss_curve,
    score_of,
    scores_of_truth,
    shrink_matched_scores,
    shrink_normal_scores,
    smallest_size_within,
)

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "BiteDesign",
    "BiteOption",
    "design_bites",
    "probe_bites",
    "split_rows",
]

Array = NDArray[Any]
# Rows to train one member on, and their labels.
Bite = tuple[Any, Array]

MAX_DRAWS = 1000


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


def probe_bites(
    estimator: Any, split: Split, n_rows: int, n_probe: int, rng: np.random.Generator, sampling: str = "iid"
) -> Probes:
    """Return the test scores of members trained on bites, drawn with replacement or disjoint (2017 sections 2, 6.4).

    A bite in which a label is missing is left out, since its classifier could not predict that label.

    Raises
    ------
    InputError
        If none of 1000 bites in succession holds all labels.
    UnsupportedModelError
        If the classifier has neither decision_function nor predict_proba.
    """
    scores, seconds = [], 0.0
    bites = SAMPLINGS[sampling](split, n_rows, rng)
    for _ in range(n_probe):
        X_bite, y_bite = next(bites)
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


def random_bites(split: Split, n_rows: int, rng: np.random.Generator) -> Iterator[Bite]:
    """Draw bites with replacement, each independent of the others, without end."""
    from sklearn.utils import resample

    while True:
        seed = _bite_seed(split, n_rows, rng)
        yield tuple(resample(split.X_train, split.y_train, n_samples=n_rows, random_state=seed))


def _bite_seed(split: Split, n_rows: int, rng: np.random.Generator) -> int:
    """Return the seed of a random bite that holds every label."""
    from sklearn.utils import resample

    for _ in range(MAX_DRAWS):
        seed = int(rng.integers(2**31))
        labels = resample(split.y_train, n_samples=n_rows, random_state=seed)
        if np.unique(labels).size == split.classes.size:
            return seed
    raise _missing_labels(split, n_rows)


def disjoint_bites(split: Split, n_rows: int, rng: np.random.Generator) -> Iterator[Bite]:
    """Divide the rows into bites at random, and once all of them are used, divide the rows anew, without end."""
    from sklearn.utils import shuffle

    n_missed = 0
    while True:
        X, y = shuffle(split.X_train, split.y_train, random_state=int(rng.integers(2**31)))
        for start in range(0, y.size - n_rows + 1, n_rows):
            part = slice(start, start + n_rows)
            if np.unique(y[part]).size == split.classes.size:
                n_missed = 0
                yield (X.iloc[part] if hasattr(X, "iloc") else X[part]), y[part]
            elif n_missed == MAX_DRAWS:
                raise _missing_labels(split, n_rows)
            else:
                n_missed += 1


def _missing_labels(split: Split, n_rows: int) -> InputError:
    return InputError(
        f"{MAX_DRAWS} random bites of {n_rows} rows never held all {split.classes.size} labels; "
        "use larger bite_fractions."
    )


SAMPLINGS = {"iid": random_bites, "disjoint": disjoint_bites}


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


MIXINGS = ("mean_score", "mean_proba")


@dataclass(frozen=True, eq=False)
class BiteOption:
    """One size of bites (samples that members are trained on) and way of mixing members, with expected losses.

    Attributes
    ----------
    fraction : float
        Rows of a bite as a share of the training rows.
    bite_rows : int
    aggregation : str
        "mean_score" (parameter mixing) or "mean_proba" (voting).
    sizes : ndarray, shape (n_sizes,)
    loss : ndarray, shape (n_sizes,)
        Expected loss at these sizes.
    asymptote : float
        Expected loss of infinitely many members.
    recommended_size : int or None
        Smallest size whose loss is within the tolerance of the asymptote; None if above `max_size`.
    recommended_loss : float
        Expected loss at the recommended size (the asymptote if that is None).
    matching_size : int or None
        Smallest of `sizes` whose loss is at most that of one learner trained on all training rows.
    seconds_per_member : float
        Mean seconds to train one member, in this process.
    seconds, rows : float or None
        Expected training time, and number of rows trained on, at the recommended size.
    """

    fraction: float
    bite_rows: int
    aggregation: str
    sizes: NDArray[np.int64] = field(repr=False)
    loss: FloatArray = field(repr=False)
    asymptote: float
    recommended_size: int | None
    recommended_loss: float
    matching_size: int | None
    seconds_per_member: float
    seconds: float | None
    rows: int | None


@dataclass(frozen=True, eq=False)
class BiteDesign:
    """All combinations of bite size and mixing that were compared, with their expected losses.

    Attributes
    ----------
    options : tuple of BiteOption
        Ordered by bite size, then mixing.
    loss_name : str
    n_train, n_test : int
        Number of rows that bites are drawn from, and of rows that losses are measured on.
    single_loss, single_seconds : float
        Loss of one learner trained on all training rows, and the time it took.
    """

    options: tuple[BiteOption, ...]
    loss_name: str
    n_train: int
    n_test: int
    single_loss: float
    single_seconds: float

    def __repr__(self) -> str:
        """Return the options as text, below the best of them."""
        best, title = self.best, f"BiteDesign of {counted(len(self.options), 'option')}, by the loss {self.loss_name}"
        where = f"bites of {counted(best.bite_rows, 'row')}, {best.aggregation}"
        return f"{title}; the lowest loss at its recommended size: {where}.\n{self.to_frame().to_string(line_width=80)}"

    def to_frame(self) -> pd.DataFrame:
        """Return the options as a DataFrame, a row each, without their curves."""
        import pandas as pd

        names = [each.name for each in fields(BiteOption) if each.repr]
        return pd.DataFrame([[getattr(option, name) for name in names] for option in self.options], columns=names)

    @property
    def best(self) -> BiteOption:
        """The option with the lowest expected loss at its recommended size."""
        return min(self.options, key=lambda option: option.recommended_loss)

    def smallest_bite(self, aggregation: str) -> BiteOption | None:
        """Return the smallest bite whose ensemble has at most the loss of a learner of all training rows, or None.

        Parameters
        ----------
        aggregation : {"mean_score", "mean_proba"}
        """
        matching = [o for o in self.options if o.aggregation == aggregation and o.matching_size is not None]
        return min(matching, key=lambda option: option.bite_rows, default=None)

    def better_mixing(self, fraction: float) -> str:
        """Return the way of mixing members with the lower loss at its recommended size, for one bite fraction.

        Parameters
        ----------
        fraction : float
            One of the `bite_fractions` of the design.

        Raises
        ------
        InputError
            If `fraction` is none of these.
        """
        rivals = [option for option in self.options if option.fraction == fraction]
        if not rivals:
            raise InputError(f"fraction must be one of the bite_fractions of the design, got {fraction!r}.")
        return min(rivals, key=lambda option: option.recommended_loss).aggregation


def design_bites(
    estimator: Any,
    X: Any,
    y: ArrayLike,
    sizes: ArrayLike,
    bite_fractions: ArrayLike,
    n_probe: int = 25,
    *,
    loss: str = "zero_one",
    sampling: str = "iid",
    tolerance: float = 0.01,
    max_size: int = 20001,
    test_size: float = 0.25,
    random_state: int | None = None,
) -> BiteDesign:
    """Return expected losses by bite size, ensemble size and mixing, from a few members trained for each bite size.

    Parameters
    ----------
    estimator : scikit-learn classifier
        With decision_function (log odds for two labels) or predict_proba.  Cloned, never fitted itself.
    X : array-like, sparse matrix or data frame, shape (n_rows, n_features)
    y : array-like, shape (n_rows,)
        Labels.
    sizes : array-like of int, shape (n_sizes,)
        Ensemble sizes at which losses are estimated.
    bite_fractions : array-like of float
        Rows of a bite as shares of the training rows, in (0, 1].
    n_probe : int, default=25
        Members trained for each bite size, at least 5.  Recommended sizes above about 10 times this number
        are extrapolations, and tend to be too small.
    loss : {"zero_one", "log", "squared"}
        With three or more labels: "zero_one" by margins or "log" by linearised scores.
    sampling : {"iid", "disjoint"}
        Whether a bite is drawn with replacement, or the training rows are divided into bites, as among the nodes of a
        cluster (2017, sections 6.4 and A.4).  If there are fewer disjoint bites than probes, the rows are divided anew.
    tolerance : float, default=0.01
        The recommended size is the smallest with a loss within this share of that of infinitely many members.
    max_size : int, default=20001
        Largest size recommended.
    test_size : float, default=0.25
        Share of the rows on which losses are measured and no probe is trained.
    random_state : int, optional

    Returns
    -------
    BiteDesign

    Raises
    ------
    InputError
        If an argument is out of range; the message names it.
    UnsupportedModelError
        If the classifier has neither decision_function nor predict_proba.

    Notes
    -----
    2017, Algorithm 1 and sections 6.5 to 6.7, with shrunken in place of plugged-in row parameters
    (:mod:`ens_plugin.papers.score_tables_2017.scores`).  A classifier with decision_function is
    mixed on its scores, with the logistic function as inverse link.  For one without, log odds are computed from its
    probabilities, kept 1e-6 away from 0 and 1; for "mean_proba" their normal is matched to the probabilities
    themselves (:mod:`ens_plugin.papers.score_tables_2017.scores`).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> design = design_bites(GaussianNB(), X, y, [1, 11, 51], [0.1, 0.3], random_state=0)
    >>> len(design.options), design.best.aggregation in ("mean_score", "mean_proba")
    (4, True)
    """
    wanted = _whole_sizes(sizes)
    fractions = _fractions(bite_fractions)
    _check_options(n_probe, max_size, loss, sampling, random_state)
    split = split_rows(X, y, test_size, random_state)
    if loss == "squared" and split.classes.size > 2:
        raise InputError("loss='squared' is for two labels; use 'log' or 'zero_one' for more.")
    rng = np.random.default_rng(random_state)
    tables = load_score_tables()
    single = probe_single(estimator, split, loss, rng)
    options: list[BiteOption] = []
    for fraction in fractions:
        n_rows = max(split.classes.size, round(fraction * split.y_train.size))
        probes = probe_bites(estimator, split, n_rows, n_probe, rng, sampling)
        for aggregation in MIXINGS:
            rows = _row_model(probes, split.y_test, aggregation, loss, tables)
            options.append(
                _option(rows, probes, fraction, aggregation, wanted, tables, loss, tolerance, max_size, single[0])
            )
    return BiteDesign(tuple(options), loss, split.y_train.size, split.y_test.size, *single)


def _option(
    model: tuple[ScoreRows, str],
    probes: Probes,
    fraction: float,
    aggregation: str,
    sizes: NDArray[np.int64],
    tables: ScoreTables,
    loss: str,
    tolerance: float,
    max_size: int,
    single_loss: float,
) -> BiteOption:
    rows, mixing = model
    curve = loss_curve(rows, sizes, tables, loss=loss, aggregation=mixing)
    limit = float(loss_curve(rows, [np.inf], tables, loss=loss, aggregation=mixing)[0])
    best = smallest_size_within(rows, tables, loss=loss, aggregation=mixing, tolerance=tolerance, max_size=max_size)
    at_best = limit if best is None else float(loss_curve(rows, [best], tables, loss=loss, aggregation=mixing)[0])
    matching = sizes[curve <= single_loss]
    return BiteOption(
        fraction=fraction,
        bite_rows=probes.n_rows,
        aggregation=aggregation,
        sizes=sizes,
        loss=curve,
        asymptote=limit,
        recommended_size=best,
        recommended_loss=at_best,
        matching_size=int(matching.min()) if matching.size else None,
        seconds_per_member=probes.seconds,
        seconds=None if best is None else best * probes.seconds,
        rows=None if best is None else best * probes.n_rows,
    )


def _row_model(
    probes: Probes, target: NDArray[np.int64], aggregation: str, loss: str, tables: ScoreTables
) -> tuple[ScoreRows, str]:
    """Return a fitted model of the test rows, and the rule by which its members are to be mixed."""
    if probes.scores.ndim == 2:
        scores = scores_of_truth(probes.scores, target)
        if probes.probabilities and aggregation == "mean_proba":
            return shrink_matched_scores(_probability(scores), tables), aggregation
        return shrink_normal_scores(scores), aggregation
    if loss == "log":
        return shrink_normal_scores(linearized_scores(probes.scores, target)), aggregation
    outputs = probes.scores if aggregation == "mean_score" else softmax(probes.scores, axis=2)
    # The 0-1 loss depends only on the sign of the mean margin, so margins are mixed as scores for each rule.
    return shrink_normal_scores(_margins(outputs, target)), "mean_score"


def _probability(scores: FloatArray) -> FloatArray:
    return np.asarray(1.0 / (1.0 + np.exp(-scores)))


def _margins(outputs: FloatArray, target: NDArray[np.int64]) -> FloatArray:
    """Return the true label's outputs minus those of the rival with the highest mean, shape (n_members, n_rows)."""
    rows = np.arange(target.size)
    mean = outputs.mean(axis=0)
    mean[rows, target] = -np.inf
    return np.asarray(outputs[:, rows, target] - outputs[:, rows, mean.argmax(axis=1)])


def probe_single(estimator: Any, split: Split, loss: str, rng: np.random.Generator) -> tuple[float, float]:
    """Return the test loss of one learner trained on all training rows, and the seconds of its training."""
    import time

    member = seeded_clone(estimator, rng)
    begun = time.perf_counter()
    member.fit(split.X_train, split.y_train)
    seconds = time.perf_counter() - begun
    scores = score_rows(member, split.X_test)[None]
    if scores.ndim == 2:
        odds = scores_of_truth(scores, split.y_test)[0]
    elif loss == "zero_one":
        odds = _margins(scores, split.y_test)[0]
    else:
        odds = linearized_scores(scores, split.y_test)[0]
    losses = {
        "zero_one": (1.0 - np.sign(odds)) / 2.0,
        "log": np.logaddexp(0.0, -odds),
        "squared": 2.0 / (1.0 + np.exp(np.minimum(odds, 700.0))) ** 2,
    }
    return float(losses[loss].mean()), seconds


def _whole_sizes(sizes: ArrayLike) -> NDArray[np.int64]:
    wanted = as_sizes(sizes)
    if not np.isfinite(wanted).all():
        raise InputError("sizes must be finite; the limit is in each option's asymptote.")
    return np.unique(wanted.astype(np.int64))


def _fractions(bite_fractions: ArrayLike) -> Sequence[float]:
    values = as_values(np.atleast_1d(np.asarray(bite_fractions)), "bite_fractions")
    if values.min() <= 0 or values.max() > 1:
        raise InputError(f"bite_fractions must lie in (0, 1], got {values.tolist()[:5]}.")
    return [float(value) for value in np.unique(values)]


def _check_options(n_probe: int, max_size: int, loss: str, sampling: str, random_state: int | None) -> None:
    as_count(n_probe, "n_probe", 5, MOST_MEMBERS)
    as_count(max_size, "max_size")
    if loss not in ("zero_one", "log", "squared"):
        raise InputError(f"loss must be 'zero_one', 'log' or 'squared', got {loss!r}.")
    if sampling not in SAMPLINGS:
        raise InputError(f"sampling must be 'iid' or 'disjoint', got {sampling!r}.")
    if random_state is not None and (not isinstance(random_state, (int, np.integer)) or random_state < 0):
        raise InputError(f"random_state must be a non-negative integer or None, got {random_state!r}.")
