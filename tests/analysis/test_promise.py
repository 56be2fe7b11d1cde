"""The promise of the recommended size, against many more trees on fresh rows, and what it is made of."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import ens_plugin
from ens_plugin import CustomEnsemble, EnsembleReport, SizeRecommendation, analyze
from ens_plugin.errors import InputError
from tests.forests import cancer, digits

FloatArray = NDArray[np.float64]

N_TRAINED, N_FRESH, N_TREES, N_TRUE = 800, 4000, 100, 1500


def noisy_labels(seed: int) -> tuple[FloatArray, NDArray[np.int64]]:
    X, y = make_classification(N_TRAINED + N_FRESH, 10, n_informative=5, flip_y=0.1, class_sep=0.8, random_state=seed)
    return X, y


def gaussians(seed: int, n_labels: int) -> tuple[FloatArray, NDArray[np.int64]]:
    rng = np.random.default_rng(seed)
    centres, y = 1.1 * rng.normal(size=(n_labels, 6)), rng.integers(0, n_labels, N_TRAINED + N_FRESH)
    return centres[y] + rng.normal(size=(y.size, 6)), y


PROBLEMS: dict[str, Any] = {
    "noisy labels": noisy_labels,
    "two gaussians": lambda seed: gaussians(seed, 2),
    "five gaussians": lambda seed: gaussians(seed, 5),
}


class Truth:
    """What trees that are no part of the analysed forest lose on fresh rows, by the size of the ensemble."""

    def __init__(self, X: FloatArray, y: NDArray[np.int64], seed: int) -> None:
        forest = RandomForestClassifier(N_TRUE, min_samples_leaf=2, random_state=1000 + seed)
        forest.fit(X[:N_TRAINED], y[:N_TRAINED])
        self.outputs = np.stack([tree.predict_proba(X[N_TRAINED:]).astype(np.float32) for tree in forest.estimators_])
        self.target = y[N_TRAINED:]
        self.rng = np.random.default_rng(seed)
        # Of two labels, the Brier score is that of one.
        each = self.outputs.var(axis=0, ddof=1).sum(axis=1) / (2.0 if self.outputs.shape[2] == 2 else 1.0)
        self.variance = float(each.mean())
        self.variance_error = float(each.std() / np.sqrt(N_FRESH))

    def wrong(self, trees: Any) -> NDArray[np.bool_]:
        return np.asarray(self.outputs[trees].mean(axis=0).argmax(axis=1) != self.target)

    def error_loss(self, size: int, n_subsets: int = 20) -> tuple[float, float]:
        """Return how far the error of so many trees is above that of all, and its standard error."""
        limit = self.wrong(slice(None)).astype(float)
        drawn = [self.wrong(self.rng.choice(N_TRUE, size, replace=False)) for _ in range(n_subsets)]
        losses = np.array(drawn, dtype=float) - limit
        by_rows, by_trees = losses.mean(axis=0).std() / np.sqrt(N_FRESH), losses.mean(axis=1).std() / np.sqrt(n_subsets)
        return float(losses.mean()), float(np.hypot(by_rows, by_trees))

    def needed_trees(self, found: SizeRecommendation) -> float:
        """Return the size at which the loss itself is what is allowed."""
        if found.criterion == "probability":
            return self.variance / found.tolerance
        sizes = np.unique(np.geomspace(3, 300, 10).astype(int) // 2 * 2 + 1)
        far = [size for size in sizes if self.error_loss(int(size), 10)[0] > found.tolerance]
        return float(max(far, default=1))


class Found(NamedTuple):
    """A report on a small forest, and what its trees' like lose on fresh rows."""

    report: EnsembleReport
    truth: Truth


@cache
def found_on(problem: str, seed: int) -> Found:
    X, y = PROBLEMS[problem](seed)
    forest = RandomForestClassifier(N_TREES, min_samples_leaf=2, random_state=seed)
    report = analyze(forest.fit(X[:N_TRAINED], y[:N_TRAINED]), X[:N_TRAINED], y[:N_TRAINED])
    return Found(report, Truth(X, y, seed))


def by_name(report: EnsembleReport) -> dict[str, SizeRecommendation]:
    return {found.criterion: found for found in report.criteria}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_fresh_rows_lose_no_more_than_is_allowed_at_the_promised_size(problem: str, seed: int) -> None:
    """In both respects, within two standard errors, with at most 2.5 times as many trees as are needed."""
    report, truth = found_on(problem, seed)
    size = report.recommended_size
    of_error, of_probability = by_name(report)["error"], by_name(report)["probability"]
    loss, error = truth.error_loss(size)
    assert loss <= of_error.tolerance + 2.0 * error
    assert truth.variance / size <= of_probability.tolerance + 2.0 * truth.variance_error / size
    for found in (of_error, of_probability):
        assert found.is_required
        assert found.size is not None
    needed = max(truth.needed_trees(found) for found in (of_error, of_probability))
    assert size <= 2.5 * needed


def test_the_recommended_size_is_the_largest_of_the_required_ones() -> None:
    for problem in (cancer, digits):
        report = analyze(*problem())
        required = [found for found in report.criteria if found.is_required]
        assert [found.criterion for found in required] == ["error", "probability"]
        assert report.recommended_size == max(found.size or 10**9 for found in required)
        assert report.recommendation in required


@pytest.mark.parametrize("max_size", [3, 20_001])
def test_a_respect_without_a_size_decides(max_size: int) -> None:
    report = analyze(*cancer(), max_size=max_size)
    sizes = [found.size for found in report.criteria if found.is_required]
    assert (report.recommended_size is None) == (None in sizes) == (max_size == 3)


def test_members_are_enough_where_the_estimated_loss_is_allowed_in_every_required_respect() -> None:
    """The promise may lie above a size that is enough by the estimate, and never below one that is not."""
    verdicts = set()
    forest, X, y = digits()
    for n_members in (10, 50):
        report = analyze(ens_plugin.truncate(forest, n_members), X, y)
        required = [found for found in report.criteria if found.is_required]
        assert report.is_enough == all(found.loss <= found.tolerance for found in required)
        assert report.is_enough or (report.recommended_size or 10**9) > n_members
        verdicts.add(report.is_enough)
    large = analyze(RandomForestClassifier(250, random_state=0).fit(X, y), X, y)
    assert {*verdicts, large.is_enough} == {True, False}


@pytest.mark.parametrize("criterion", ["agreement", "error", "probability"])
def test_a_named_criterion_is_that_respect_alone(criterion: str) -> None:
    plain, report = analyze(*cancer()), analyze(*cancer(), criterion=criterion)
    assert [found.criterion for found in report.criteria if found.is_required] == [criterion]
    assert report.recommendation.criterion == criterion
    assert report.recommended_size == by_name(plain)[criterion].size
    assert report.is_enough == by_name(plain)[criterion].is_enough


@pytest.mark.parametrize("criterion", ["auto", "metric"])
def test_the_accuracy_is_the_error_of_the_default(criterion: str) -> None:
    plain, report = analyze(*cancer()), analyze(*cancer(), metric="accuracy", criterion=criterion)
    assert report.error_curve.metric == plain.error_curve.metric == "0-1 error"
    for name in ("sizes", "error", "lower", "upper"):
        np.testing.assert_array_equal(getattr(report.error_curve, name), getattr(plain.error_curve, name))
    assert report.error_curve.asymptote_interval == plain.error_curve.asymptote_interval
    assert report.error_interval == plain.error_interval
    own, other = by_name(report)["error"], by_name(plain)["error"]
    assert (own.size, own.interval, own.tolerance, own.loss) == (
        other.size, other.interval, other.tolerance, other.loss,
    )  # fmt: skip
    assert report.recommendation is own
    assert [found.criterion for found in report.criteria if found.is_required] == ["error"]


def scores() -> tuple[Any, None, NDArray[np.int64]]:
    """Scores of two labels that are no logarithms of odds."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    own = 3.0 * (y - 0.5) + 4.0 * rng.standard_normal((40, 200))
    outputs, in_bag = np.stack([-own, own], axis=2), rng.random((40, 200)) < 0.6
    return CustomEnsemble(outputs, in_bag, aggregation="mean_score", classes=np.array([0, 1])), None, y


def test_without_probabilities_the_error_alone_is_required_and_their_size_is_refused() -> None:
    report = analyze(*scores())
    assert [found.criterion for found in report.criteria] == ["agreement", "error"]
    assert report.recommendation is by_name(report)["error"]
    with pytest.raises(InputError, match="criterion='probability' needs probabilities"):
        analyze(*scores(), criterion="probability")


def test_what_an_accuracy_may_lose() -> None:
    """2 % of the limit, 0.2 points, or 0.3 of its standard errors, whichever is most; or a share that was named."""
    for problem in (cancer, digits):
        report = analyze(*problem())
        found, curve = by_name(report)["error"], report.error_curve
        sd = (curve.asymptote_interval[1] - curve.asymptote_interval[0]) / (2.0 * 1.959964)
        assert found.limit == pytest.approx(curve.asymptote, rel=1e-9)
        assert found.tolerance == pytest.approx(max(0.02 * found.limit, 0.002, 0.3 * sd), rel=1e-6)
        named = by_name(analyze(*problem(), tolerance=0.05))
        assert named["error"].tolerance == pytest.approx(0.05 * found.limit, rel=1e-9)
        assert named["probability"].tolerance == pytest.approx(0.05 * named["probability"].limit, rel=1e-9)
        assert named["agreement"].tolerance == 0.01


def test_what_a_brier_score_may_lose() -> None:
    """1 % of the limit, or 0.2 % of that of the base rates, whichever is more."""
    for problem in (cancer, digits):
        model, X, y = problem()
        found = by_name(analyze(model, X, y))["probability"]
        share = np.bincount(y) / y.size
        base = float(share @ (1.0 - share)) / (2.0 if share.size == 2 else 1.0)
        assert found.tolerance == pytest.approx(max(0.01 * found.limit, 0.002 * base), rel=1e-9)


def test_values_without_noise_have_a_size_by_the_material_part() -> None:
    """Steps that trees learn but for their edges: 1 % of an error near 0 would take a hundred times as many trees."""
    X = np.random.default_rng(0).uniform(size=(3000, 1))
    y = np.floor(4.0 * X[:, 0])
    report = analyze(RandomForestRegressor(60, random_state=0).fit(X, y), X, y)
    found = report.recommendation
    assert found.tolerance == pytest.approx(1e-4 * np.var(y), rel=1e-9)
    assert found.tolerance > 0.01 * report.error_curve.asymptote
    assert found.size < 60
    assert found.size >= report.bias_variance.member_variance / found.tolerance
    assert report.is_enough


def test_the_promise_is_the_upper_end_of_an_interval_at_90_percent() -> None:
    """At that level the interval ends at the promise, and at another level the promise is the same."""
    plain = by_name(analyze(*cancer()))
    for level in (0.5, 0.9):
        for name, found in by_name(analyze(*cancer(), interval_level=level)).items():
            assert found.interval[1] == found.size
            # The tolerance of an error depends on its standard error, which is that of the interval.
            assert name == "error" or found.size == plain[name].size
