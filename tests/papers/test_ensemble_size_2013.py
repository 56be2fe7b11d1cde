"""The sizes of 2013 by row, their laws near the borderline, the rivals of the paper, and growth to them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import beta, binom, chi2, norm
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.pipeline import make_pipeline

import ens_plugin
from ens_plugin.core.error_curve import agreement, recommended_size
from ens_plugin.errors import InputError, NotConvergedWarning, UnsupportedModelError
from ens_plugin.papers import ensemble_size_2013
from ens_plugin.papers.ensemble_size_2013 import (
    HALF_LINE,
    ban_size,
    borderline_density,
    borderline_size,
    deconvolved_size,
    error_reduction,
    limiting_disagreement,
    limiting_row_size_tail,
    mcnemar_size,
    normal_row_size,
    path_curve,
    plugin_size,
    reduction_size,
    row_size,
    row_size_tail,
)
from ens_plugin.papers.wrong_votes import fit_mixture

FloatArray = NDArray[np.float64]

probabilities = st.lists(st.integers(0, 100).map(lambda point: point / 100), min_size=1, max_size=8)
confidences = st.sampled_from([0.6, 0.9, 0.99, 0.999])


def right_label(p: float, size: float) -> float:
    """2013 eq. 9 at odd sizes, by SciPy's binomial."""
    return float(binom.sf(size // 2, size, max(p, 1 - p)))


@given(probabilities, confidences)
def test_row_size_is_the_smallest_odd_size_that_settles_the_row(p: list[float], confidence: float) -> None:
    for point, size in zip(p, row_size(p, confidence), strict=True):
        if point == 0.5:
            assert np.isinf(size)
            continue
        assert size % 2 == 1
        assert right_label(point, size) >= confidence - 1e-12
        assert size == 1 or right_label(point, size - 2) < confidence + 1e-12


def test_row_size_agrees_with_the_recommended_size_of_one_row() -> None:
    p = np.array([0.02, 0.2, 0.38, 0.44, 0.49, 0.6, 0.99])
    assert row_size(p, 0.99).tolist() == [recommended_size([point], max_size=10**6) for point in p]


def test_row_size_above_the_largest_size_is_infinite() -> None:
    exact = row_size([0.45])[0]
    assert row_size([0.45], max_size=int(exact))[0] == exact
    assert np.isinf(row_size([0.45], max_size=int(exact) - 1)[0])
    assert np.isinf(row_size([0.45], max_size=1)[0])


def test_normal_approximation_is_the_formula_and_good_near_one_half() -> None:
    """2013 eq. 12; exact minus approximate is of order 1 close to 1/2."""
    z = float(norm.ppf(0.99))
    assert normal_row_size([0.3])[0] == pytest.approx(z**2 * 0.21 / 0.04)
    assert np.isinf(normal_row_size([0.5])[0])
    p = np.array([0.49, 0.495, 0.505, 0.501])
    np.testing.assert_allclose(row_size(p), normal_row_size(p), rtol=0, atol=6)


def test_tail_is_the_share_of_rows_with_larger_sizes() -> None:
    rng = np.random.default_rng(0)
    p, w = rng.beta(2, 2, size=300), rng.uniform(0, 2, size=300)
    own = row_size(p)
    wanted = np.array([1, 7, 31, 1001, np.inf, own[0]])
    shares = [w[own > size].sum() / w.sum() for size in wanted]
    np.testing.assert_allclose(row_size_tail(p, wanted, weight=w), shares, atol=1e-13)


def test_undecidable_rows_are_never_settled() -> None:
    assert row_size_tail([0.5, 0.1], [np.inf])[0] == 0.5


def test_plugin_size_is_eq_17() -> None:
    k, n = np.array([1, 12, 30, 80]), np.array([100, 90, 70, 100])
    size = plugin_size(k, n, 0.98)
    assert size is not None
    assert agreement(k / n, None, [size])[0] >= 0.98 > agreement(k / n, None, [size - 2])[0]


def test_size_above_the_largest_is_none() -> None:
    assert plugin_size([50], [100]) is None
    assert plugin_size([45], [100], max_size=101) is None


def test_few_votes_mislead_the_plug_in_and_not_the_deconvolved_size() -> None:
    """Error probabilities from Beta(1, 3): the true size is known; 12 votes a row."""
    rng = np.random.default_rng(1)
    p = rng.beta(1, 3, size=6000)
    n = np.full(p.size, 12)
    k = rng.binomial(n, p)
    truth = recommended_size(p)
    few = deconvolved_size(k, n)
    assert truth is not None
    assert few is not None
    assert abs(np.log2(few / truth)) < 0.5
    plain = plugin_size(k, n, max_size=10**6)
    assert plain is None or plain > 2 * truth


def test_deconvolved_size_from_unlabelled_votes() -> None:
    """Two heaps of rows, as in 2013 Fig. 1 (right): wrong with Beta(1, 5), the truth not known."""
    rng = np.random.default_rng(2)
    wrong = rng.beta(1, 5, size=6000)
    p = np.where(rng.random(6000) < 0.5, wrong, 1 - wrong)
    n = np.full(p.size, 40)
    few, truth = deconvolved_size(rng.binomial(n, p), n), recommended_size(p)
    assert few is not None
    assert truth is not None
    assert abs(np.log2(few / truth)) < 0.6


SHAPES = [(2.0, 2.0), (1.0, 1.0), (1.5, 4.0)]


def quantiles(a: float, b: float, count: int = 40_000) -> NDArray[np.float64]:
    """Rows spread evenly over a beta distribution: no sampling noise."""
    return np.asarray(beta.ppf((np.arange(count) + 0.5) / count, a, b), dtype=np.float64)


def test_constant_is_the_papers_integral() -> None:
    """2013 eq. 14: the integral of the normal distribution function from minus infinity to 0."""
    assert quad(norm.cdf, -np.inf, 0)[0] == pytest.approx(HALF_LINE, abs=1e-9)


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_disagreement_follows_the_law_with_its_constant(a: float, b: float) -> None:
    """2013 eq. 14 against the exact agreement: relative error of order 1/T."""
    sizes = [1001, 10_001]
    law = limiting_disagreement(float(beta.pdf(0.5, a, b)), sizes)
    exact = 1 - agreement(quantiles(a, b, 10_000), None, sizes)
    np.testing.assert_allclose(exact, law, rtol=5e-3)


def test_beta_2_2_at_1001() -> None:
    """The landmark of the literature review: 0.5976 for a law of 0.5984, in units of 1/sqrt(T)."""
    exact = float(1 - agreement(quantiles(2, 2), None, [1001])[0])
    assert exact * np.sqrt(1001) == pytest.approx(0.5976, abs=1e-4)
    assert limiting_disagreement(1.5, [1001])[0] * np.sqrt(1001) == pytest.approx(0.5984, abs=1e-4)


@pytest.mark.fast_cases("0.99-2.0-2.0", "0.9-1.0-1.0")
@pytest.mark.parametrize(("a", "b"), SHAPES)
@pytest.mark.parametrize("confidence", [0.9, 0.99])
def test_tail_of_row_sizes_follows_the_law(a: float, b: float, confidence: float) -> None:
    """2013 eq. 13 against the exact sizes; 40 000 rows resolve a share to 1e-4 of the law."""
    sizes = [1001, 4001]
    law = limiting_row_size_tail(float(beta.pdf(0.5, a, b)), sizes, confidence)
    np.testing.assert_allclose(row_size_tail(quantiles(a, b), sizes, confidence), law, rtol=0.01)


@pytest.mark.parametrize(("a", "b"), SHAPES)
def test_recommended_size_follows_the_law(a: float, b: float) -> None:
    """2013 eq. 16, for a confidence close to 1."""
    exact = recommended_size(quantiles(a, b), None, 0.995, max_size=10**6)
    assert exact == pytest.approx(borderline_size(float(beta.pdf(0.5, a, b)), 0.995), rel=0.01)


@given(st.floats(0.01, 5), st.floats(0.6, 0.999))
def test_size_is_where_the_disagreement_is_what_is_allowed(density: float, confidence: float) -> None:
    size = borderline_size(density, confidence)
    assert density * HALF_LINE / np.sqrt(size) == pytest.approx(1 - confidence)


def test_density_of_known_distributions() -> None:
    assert borderline_density(quantiles(2, 2), width=0.02) == pytest.approx(1.5, rel=1e-3)
    assert borderline_density(quantiles(1, 1)) == pytest.approx(1.0, rel=1e-3)
    assert borderline_density([0.1, 0.9]) == 0.0


def test_density_counts_the_edge_half_whatever_the_rounding() -> None:
    assert borderline_density([0.45, 0.55, 0.0, 1.0], width=0.1) == pytest.approx(0.25 / 0.1)
    assert borderline_density([0.4, 0.6, 0.0, 1.0], width=0.2) == pytest.approx(0.25 / 0.2)


def test_density_of_a_fitted_distribution() -> None:
    rng = np.random.default_rng(0)
    p = rng.beta(2, 3, size=20_000)
    fit = fit_mixture(rng.binomial(30, p), np.full(p.size, 30))
    assert borderline_density(fit.support, fit.weights) == pytest.approx(float(beta.pdf(0.5, 2, 3)), rel=0.05)


BAD = [
    (lambda: borderline_density([1.1]), "probability must lie in"),
    (lambda: borderline_density([0.1], [1, 1]), "weight must have length 1"),
    (lambda: borderline_density([0.1], width=1.0), "width must lie strictly"),
    *[
        (partial(law, density, *sizes), "density must be")
        for density in (-0.1, np.nan, np.inf)
        for law, sizes in (
            (limiting_disagreement, [[10]]), (limiting_row_size_tail, [[10]]), (borderline_size, []),
        )
    ],
    (lambda: limiting_disagreement(1.0, [0.5]), "sizes must hold"),
    (lambda: limiting_row_size_tail(1.0, [0]), "sizes must hold"),
    (lambda: limiting_row_size_tail(1.0, [10], 0.3), "confidence must lie"),
    (lambda: borderline_size(1.0, 1.0), "confidence must lie"),
    (lambda: ban_size([0.1, 1.2]), "error_path must lie in"),
    (lambda: ban_size([]), "error_path is empty"),
    (lambda: ban_size([np.nan, 0.1]), "error_path holds NaN"),
    (lambda: mcnemar_size([0, 1]), "wrong must have shape"),
    (lambda: mcnemar_size(np.zeros((0, 3))), "wrong must have shape"),
    (lambda: mcnemar_size([[0.5, 1.0]]), "wrong must hold only zeros and ones"),
    (lambda: mcnemar_size([[0, 1]], 1.0), "level must lie strictly"),
    (lambda: error_reduction(0), "n_members must be"),
    (lambda: reduction_size(1.0), "share must lie strictly"),
    (lambda: row_size([0.2], max_size=0), "max_size must be a whole number"),
    (lambda: row_size_tail([0.2], [0]), "sizes must hold whole numbers"),
    (lambda: row_size_tail([0.2], [3], weight=[1, 2]), "weight must have length 1"),
    *[
        (partial(function, *arguments), message)
        for function in (row_size, normal_row_size)
        for arguments, message in (
            ([[1.2]], "probability must lie in"), ([[np.inf]], "probability holds NaN"),
            ([[]], "probability is empty"), ([[0.2], 0.5], "confidence must lie strictly"),
            ([[0.2], 1.0], "confidence must lie strictly"),
        )
    ],
    *[
        (partial(function, *arguments), message)
        for function in (plugin_size, deconvolved_size)
        for arguments, message in (
            ([[3], [2]], "votes must lie between 0 and trials"), ([[-1], [2]], "votes must lie between 0 and trials"),
            ([[1], [0]], "trials must be positive"), ([[1, 1], [2]], "trials must have length 2"),
            ([[np.nan], [2]], "votes holds NaN"), ([[1], [2], 0.4], "confidence must lie strictly"),
            ([[1], [2], 0.9, 0], "max_size must be a whole number"),
        )
    ],
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_input_is_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


def ban_by_hand(path: list[float]) -> int | None:
    """2013 section 3, as a loop over batches."""
    smooth = [float(np.mean(path[max(0, t - 4) : t + 1])) for t in range(len(path))]
    for end in range(40, len(path) + 1, 20):
        before, batch = smooth[: end - 20], smooth[end - 20 : end]
        if min(batch) >= min(before):
            return int(np.argmin(before)) + 1
    return None


@given(st.integers(0, 2**31), st.integers(1, 200))
def test_ban_is_the_published_loop(seed: int, length: int) -> None:
    noise = np.random.default_rng(seed).normal(0.0, 0.01, length)
    path = list(np.clip(0.1 + 0.4 / np.arange(1, length + 1) + noise, 0, 1))
    assert ban_size(path) == ban_by_hand(path)


def test_ban_stops_at_once_on_a_flat_path_and_never_on_a_falling_one() -> None:
    assert ban_size([0.1] * 40) == 1
    assert ban_size([0.1] * 39) is None
    assert ban_size(list(np.linspace(0.5, 0.1, 400))) is None


def test_mcnemar_by_brute_force() -> None:
    rng = np.random.default_rng(3)
    wrong = rng.random((41, 150)) < rng.beta(1, 2, size=150)
    final = wrong.sum(axis=0) > 20
    for size in range(1, 42, 2):
        now = wrong[:size].sum(axis=0) > size / 2
        b, c = np.sum(~now & final), np.sum(now & ~final)
        if b + c == 0 or chi2.sf(max(abs(int(b) - int(c)) - 1, 0) ** 2 / (b + c), 1) >= 0.05:
            break
    assert mcnemar_size(wrong) == size


def test_mcnemar_of_members_that_agree_is_one() -> None:
    assert mcnemar_size(np.tile([[0, 1, 1, 0]], (10, 1))) == 1
    assert mcnemar_size([[True, False]]) == 1


def test_mcnemar_when_no_smaller_size_will_do() -> None:
    """Two members: the first wrong about all rows, the second about none, 'tied' rows are left out."""
    assert mcnemar_size(np.vstack([np.ones(30), np.zeros(30)])) == 1
    decided = np.vstack([np.ones(60), np.zeros(60), np.zeros(60), np.zeros(60)])
    assert mcnemar_size(decided) == 3


@given(st.floats(0.01, 0.9999))
def test_reduction_size_is_the_smallest(share: float) -> None:
    size = reduction_size(share)
    assert error_reduction(size) >= share - 1e-9
    assert size == 2 or error_reduction(size - 1) < share + 1e-12


def test_reductions_of_the_rule() -> None:
    assert [error_reduction(m) for m in (1, 2, 4)] == [0.0, 0.5, 0.75]
    assert [reduction_size(share) for share in (0.5, 0.9, 0.99)] == [2, 10, 100]


X, Y = load_breast_cancer(return_X_y=True)
CONFIDENCE = 0.994


def test_growth_follows_the_pseudo_code() -> None:
    forest, history = ensemble_size_2013.grow(RandomForestClassifier(random_state=0), X, Y, confidence=CONFIDENCE)
    sizes, wanted = list(history), list(history.values())
    assert sizes[0] == 100
    assert len(sizes) > 1
    for (size, following), recommended in zip(pairwise(sizes), wanted, strict=False):
        assert recommended is not None
        assert size < recommended
        assert following == min(recommended, 2 * size)
    assert wanted[-1] is not None
    assert wanted[-1] <= sizes[-1]
    assert len(forest.estimators_) == wanted[-1]
    whole = RandomForestClassifier(wanted[-1], random_state=0).fit(X, Y)
    np.testing.assert_array_equal(forest.predict_proba(X), whole.predict_proba(X))
    first = ens_plugin.analyze(
        RandomForestClassifier(100, random_state=0).fit(X, Y), X, Y, criterion="agreement", tolerance=1 - CONFIDENCE
    )
    assert wanted[0] == first.recommended_size


def test_max_size_says_how_many_members_are_recommended() -> None:
    with pytest.warns(NotConvergedWarning, match=r"stopped at max_size=110, and \d+ members are recommended"):
        forest, history = ensemble_size_2013.grow(
            RandomForestClassifier(random_state=0), X, Y, confidence=CONFIDENCE, max_size=110
        )
    assert list(history) == [100, 110]
    assert len(forest.estimators_) == 110


def test_what_cannot_be_grown_is_refused() -> None:
    with pytest.raises(InputError, match="confidence"):
        ensemble_size_2013.grow(RandomForestClassifier(), X, Y, confidence=0.5)
    for model in (GradientBoostingClassifier(), make_pipeline(RandomForestClassifier())):
        with pytest.raises(UnsupportedModelError, match="cannot be grown"):
            ensemble_size_2013.grow(model, X, Y)


N_MEMBERS, N_ROWS, N_LABELS = 6, 90, 3


def made(kind: str) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[Any]]:
    """Return outputs, which rows are out of bag, and the target."""
    rng = np.random.default_rng(0)
    is_oob = rng.random((N_MEMBERS, N_ROWS)) < 0.4
    labels = rng.integers(0, N_LABELS, N_ROWS)
    if kind == "vote":
        return rng.integers(0, N_LABELS, (N_MEMBERS, N_ROWS)), is_oob, labels
    if kind == "mean_proba":
        return rng.dirichlet(np.ones(N_LABELS), (N_MEMBERS, N_ROWS)), is_oob, labels
    return rng.normal(size=(N_MEMBERS, N_ROWS)), is_oob, rng.normal(size=N_ROWS)


def ensemble(outputs: NDArray[Any], is_oob: NDArray[np.bool_], kind: str) -> ens_plugin.CustomEnsemble:
    classes = None if kind == "mean" else np.arange(N_LABELS)
    return ens_plugin.CustomEnsemble(outputs, ~is_oob, aggregation=kind, classes=classes)


def loss_of_row(outputs: NDArray[Any], truth: float, kind: str) -> float:
    if kind == "mean":
        return float((outputs.mean() - truth) ** 2)
    shares = np.eye(N_LABELS)[outputs] if kind == "vote" else outputs
    return float(np.argmax(shares.sum(axis=0)) != truth)


@pytest.mark.parametrize("kind", ["vote", "mean_proba", "mean"])
def test_each_row_is_judged_by_its_members_so_far(kind: str) -> None:
    outputs, is_oob, target = made(kind)
    found = path_curve(ensemble(outputs, is_oob, kind), None, target)
    assert found["size"].tolist() == [*range(1, N_MEMBERS + 1)]
    for size, error in found.itertuples(index=False):
        known = np.flatnonzero(is_oob[:size].any(axis=0))
        losses = [loss_of_row(outputs[:size, row][is_oob[:size, row]], target[row], kind) for row in known]
        assert error == pytest.approx(np.mean(losses), rel=1e-12)


def test_the_error_is_not_known_before_a_row_is_out_of_bag() -> None:
    outputs, is_oob, target = made("vote")
    is_oob[0] = False
    assert path_curve(ensemble(outputs, is_oob, "vote"), None, target)["error"].isna().tolist() == [True] + [False] * 5


def test_the_path_ends_at_the_out_of_bag_error_of_scikit_learn() -> None:
    X, y = load_diabetes(return_X_y=True)
    forest = RandomForestRegressor(60, oob_score=True, random_state=0).fit(X, y)
    assert path_curve(forest, X, y)["error"].iloc[-1] == pytest.approx(np.mean((forest.oob_prediction_ - y) ** 2))


@given(st.permutations(range(4)))
def test_sizes_need_no_labels_and_no_order(order: list[int]) -> None:
    """Votes for one label or wrong votes: only the distance from 1/2 matters."""
    k, n = np.array([1, 12, 30, 80])[order], np.array([100, 90, 70, 100])[order]
    swapped = np.where(np.arange(4) % 2, k, n - k)
    assert plugin_size(k, n) == plugin_size(swapped, n) == plugin_size(n - k, n)
    assert plugin_size(k, n) == plugin_size([1, 12, 30, 80], [100, 90, 70, 100])
