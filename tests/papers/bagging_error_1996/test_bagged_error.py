from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ens_plugin.core.losses import fit_moments, loss_moments
from ens_plugin.errors import InputError
from ens_plugin.papers import bagging_error_1996 as bagged_error
from ens_plugin.papers.bagging_error_1996 import e1, e2, ratio, simple_estimate, simple_estimates, v1, v2, v3, v_c

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
Case = tuple[FloatArray, BoolArray, FloatArray, FloatArray]


def draw_case(seed: int, n_labels: int = 0, n_members: int = 12, n_rows: int = 9, n_test: int = 6) -> Case:
    """Outputs, out-of-bag mask, target and test outputs: values, or probabilities with three dimensions."""
    rng = np.random.default_rng(seed)
    is_oob = rng.random((n_members, n_rows)) < 0.4
    is_oob[:2] = True
    if n_labels:
        outputs = rng.dirichlet(np.ones(n_labels), (n_members, n_rows))
        test_outputs = rng.dirichlet(np.ones(n_labels), (n_members, n_test))
        return outputs, is_oob, rng.integers(0, n_labels, n_rows).astype(float), test_outputs
    target = rng.normal(size=n_rows)
    outputs = target + rng.normal(size=n_rows) + rng.normal(size=(n_members, n_rows)) * rng.gamma(2.0, size=n_rows)
    return outputs, is_oob, target, rng.normal(size=(n_members, n_test)) * rng.gamma(2.0, size=n_test)


cases = st.builds(draw_case, st.integers(0, 10_000), st.sampled_from([0, 2, 3]))


def brute(outputs: FloatArray, is_oob: BoolArray, target: FloatArray) -> tuple[FloatArray, FloatArray]:
    """V2 and E2 as the paper writes them, member by member."""
    variance, error = [], []
    for i, y in enumerate(target):
        h = [outputs[t, i] for t in range(len(outputs)) if is_oob[t, i]]
        centre = sum(h) / len(h)
        truth = np.eye(outputs.shape[2])[int(y)] if outputs.ndim == 3 else y
        variance.append(sum(np.sum((value - centre) ** 2) for value in h) / (len(h) - 1))
        error.append(sum(np.sum((value - truth) ** 2) for value in h) / len(h))
    return np.array(variance), np.array(error)


@pytest.mark.parametrize("n_labels", [0, 2, 4])
def test_definitions_member_by_member(n_labels: int) -> None:
    outputs, is_oob, target, test_outputs = draw_case(1, n_labels)
    variance, error = brute(outputs, is_oob, target)
    np.testing.assert_allclose(v2(outputs, is_oob), variance, rtol=1e-12)
    np.testing.assert_allclose(e2(outputs, is_oob, target), error, rtol=1e-12)
    variance, error = brute(outputs, np.ones_like(is_oob), target)
    np.testing.assert_allclose(v1(outputs), variance, rtol=1e-12)
    np.testing.assert_allclose(e1(outputs, target), error, rtol=1e-12)
    n_members, n_test = test_outputs.shape[:2]
    variance, _ = brute(test_outputs, np.ones((n_members, n_test), dtype=bool), np.zeros(n_test))
    np.testing.assert_allclose(v3(test_outputs), variance, rtol=1e-12)
    np.testing.assert_allclose(v_c(test_outputs), variance * (n_members - 1) / n_members, rtol=1e-12)


@given(cases)
def test_error_of_the_average_is_mean_error_less_variance(case: Case) -> None:
    """1996 section 3.3, exactly: Err(q) = E_c(q) - V_c(q) for any y."""
    outputs, _, target, _ = case
    truth = np.eye(outputs.shape[2])[target.astype(int)] if outputs.ndim == 3 else target
    square = (outputs.mean(axis=0) - truth) ** 2
    ensemble = square.sum(axis=1) if outputs.ndim == 3 else square
    np.testing.assert_allclose(e1(outputs, target) - v_c(outputs), ensemble, atol=1e-12)


@given(st.integers(0, 10_000))
def test_difference_is_the_closed_form_of_the_infinite_ensemble(seed: int) -> None:
    outputs, is_oob, target, _ = draw_case(seed)
    mean = [outputs[is_oob[:, i], i].mean() for i in range(target.size)]
    fit = fit_moments(loss_moments(mean, v2(outputs, is_oob), is_oob.sum(axis=0), target))
    assert simple_estimate(e2(outputs, is_oob, target), v2(outputs, is_oob)) == pytest.approx(fit.asymptote, abs=1e-12)


def test_simple_estimates_pair_every_error_with_every_variance() -> None:
    outputs, is_oob, target, test_outputs = draw_case(2)
    found = simple_estimates(outputs, is_oob, target, test_outputs)
    errors = {"E1": e1(outputs, target), "E2": e2(outputs, is_oob, target)}
    variances = {"V1": v1(outputs), "V2": v2(outputs, is_oob), "V3": v3(test_outputs), "Vc": v_c(test_outputs)}
    assert list(found) == ["E1-V1", "E2-V2", "E1-V3", "E2-V3", "E1-Vc", "E2-Vc"]
    for name, value in found.items():
        error, variance = name.split("-")
        assert value == max(errors[error].mean() - variances[variance].mean(), 0.0)


def test_cut_at_zero_is_on_the_average_not_by_row() -> None:
    assert simple_estimate([0.0, 4.0], [2.0, 1.0]) == 0.5
    assert simple_estimate([0.0, 2.0], [2.0, 1.0]) == 0.0


def test_unbiased_for_the_infinite_ensemble_over_seeds() -> None:
    """Fresh members for fixed rows: the mean of E2 - V2, uncut, within four standard errors of the truth."""
    rng = np.random.default_rng(3)
    centre, sd, y = np.array([1.0, -0.5, 0.2, 2.0]), np.array([0.4, 1.0, 0.1, 0.7]), np.zeros(4)
    is_oob = np.array([[True] * 4, [True, False, True, True], [False, True, True, True], [True, True, True, False]])
    draws = np.array(
        [np.mean(e2(h, is_oob, y) - v2(h, is_oob)) for h in centre + sd * rng.standard_normal((4000, 4, 4))]
    )
    assert abs(draws.mean() - np.mean(centre**2)) < 4 * draws.std() / np.sqrt(4000)


def test_ratio_by_hand() -> None:
    outputs, is_oob, target, test_outputs = draw_case(4)
    spread = v2(outputs, is_oob)
    flat = e2(outputs, is_oob, target).mean() - spread.mean()
    assert flat > 0
    v = test_outputs.var(axis=0, ddof=1)
    expected = flat * np.minimum(v, spread.max()) / spread.mean() + v / len(outputs)
    np.testing.assert_allclose(ratio(outputs, is_oob, target, test_outputs), expected, rtol=1e-12)


def test_out_of_bag_members_that_agree_leave_nothing_in_proportion() -> None:
    outputs, is_oob, target = np.full((3, 2), 1.0), np.ones((3, 2), dtype=bool), np.array([0.0, 3.0])
    test_outputs = np.array([[0.0, 1.0], [0.0, 1.0], [3.0, 1.0]])
    np.testing.assert_allclose(ratio(outputs, is_oob, target, test_outputs), [3.0 / 3, 0.0])


@given(cases)
def test_estimates_are_not_negative(case: Case) -> None:
    outputs, is_oob, _, test_outputs = case
    found = simple_estimates(*case)
    assert all(value >= 0 for value in found.values())
    proportional = ratio(*case)
    assert proportional.shape == test_outputs.shape[1:2]
    assert (proportional >= 0).all()
    assert (v2(outputs, is_oob) >= 0).all()


@given(cases)
def test_more_variance_at_a_test_input_never_means_less_error(case: Case) -> None:
    order = np.argsort(v3(case[3]))
    assert (np.diff(ratio(*case)[order]) >= -1e-12).all()


@given(cases, st.integers(0, 1000))
def test_order_of_rows_and_members_does_not_matter(case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    outputs, is_oob, target, test_outputs = case
    members, rows = rng.permutation(len(outputs)), rng.permutation(target.size)
    shuffled = (outputs[members][:, rows], is_oob[members][:, rows], target[rows], test_outputs[members])
    before, after = simple_estimates(*case), simple_estimates(*shuffled)
    np.testing.assert_allclose(list(after.values()), list(before.values()), atol=1e-12)
    np.testing.assert_allclose(ratio(*shuffled), ratio(*case), atol=1e-12)


@given(st.integers(0, 10_000), st.floats(0.1, 100.0), st.floats(-50.0, 50.0))
def test_unit_and_origin_of_the_target_do_not_matter(seed: int, scale: float, shift: float) -> None:
    outputs, is_oob, target, test_outputs = draw_case(seed)
    moved = (scale * outputs + shift, is_oob, scale * target + shift, scale * test_outputs + shift)
    tolerance = 1e-9 * (1.0 + shift**2)
    expected = scale**2 * ratio(outputs, is_oob, target, test_outputs)
    np.testing.assert_allclose(ratio(*moved), expected, rtol=1e-9, atol=tolerance)


@given(st.integers(0, 10_000))
def test_brier_score_of_two_labels_is_twice_the_squared_error_of_one_probability(seed: int) -> None:
    outputs, is_oob, target, test_outputs = draw_case(seed, 2)
    one = (outputs[:, :, 1], is_oob, target, test_outputs[:, :, 1])
    both = simple_estimates(outputs, is_oob, target, test_outputs)
    for name, value in simple_estimates(*one).items():
        assert both[name] == pytest.approx(2 * value, abs=1e-12)
    np.testing.assert_allclose(ratio(outputs, is_oob, target, test_outputs), 2 * ratio(*one), atol=1e-12)


def test_inputs_stay_as_they_are() -> None:
    case = draw_case(5)
    copies = [part.copy() for part in case]
    simple_estimates(*case)
    ratio(*case)
    for part, copy in zip(case, copies, strict=True):
        np.testing.assert_array_equal(part, copy)


BAD = [
    ({"outputs": np.full((12, 9), np.nan)}, "outputs"),
    ({"outputs": np.zeros((12, 8))}, "out_of_bag|target"),
    ({"out_of_bag": np.ones((12, 8), dtype=bool)}, "out_of_bag"),
    ({"out_of_bag": np.zeros((12, 9), dtype=bool)}, "out_of_bag"),
    ({"target": np.zeros(8)}, "target"),
    ({"target": np.full(9, np.inf)}, "target"),
    ({"test_outputs": np.zeros((11, 6))}, "test_outputs"),
    ({"test_outputs": np.zeros(6)}, "test_outputs"),
    ({"test_outputs": np.full((12, 6, 2), 0.5)}, "test_outputs"),
    ({"test_outputs": np.empty((12, 0))}, "test_outputs"),
]


@pytest.mark.parametrize("estimator", [simple_estimates, ratio])
@pytest.mark.parametrize(("change", "named"), BAD)
def test_bad_argument_is_named(estimator: Callable[..., Any], change: dict[str, Any], named: str) -> None:
    names = ("outputs", "out_of_bag", "target", "test_outputs")
    with pytest.raises(InputError, match=named):
        estimator(**{**dict(zip(names, draw_case(6), strict=True)), **change})


@pytest.mark.parametrize("name", ["v1", "v3"])
def test_variance_needs_two_members(name: str) -> None:
    with pytest.raises(InputError, match=r"outputs.*one member"):
        getattr(bagged_error, name)([[1.0, 2.0]])


@pytest.mark.parametrize(
    ("error", "variance", "named"),
    [([], [1.0], "error"), ([1.0], [np.nan], "variance"), ([-1.0], [1.0], "error"), ([1.0], [-1.0], "variance")],
)
def test_simple_estimate_names_its_bad_argument(error: list[float], variance: list[float], named: str) -> None:
    with pytest.raises(InputError, match=named):
        simple_estimate(error, variance)


@pytest.mark.parametrize("outputs", [np.full((3, 2, 2), 0.6), np.full((3, 2, 2), 1.5)])
def test_probabilities_are_checked(outputs: FloatArray) -> None:
    with pytest.raises(InputError, match="outputs"):
        v1(outputs)
