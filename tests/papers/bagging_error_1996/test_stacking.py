from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ens_plugin.errors import InputError
from ens_plugin.papers.bagging_error_1996 import (
    StackedLine,
    conservative_stacking,
    fit_line,
    simple_estimates,
    target_unit,
    v_c,
    weighted_stacking,
)

FloatArray = NDArray[np.float64]
Case = tuple[FloatArray, NDArray[np.bool_], FloatArray, FloatArray]
STACKED = [conservative_stacking, weighted_stacking]


def draw_case(seed: int, n_labels: int = 0) -> Case:
    """Outputs, out-of-bag mask, target and test outputs: values, or probabilities with three dimensions."""
    rng = np.random.default_rng(seed)
    is_oob = rng.random((12, 9)) < 0.4
    is_oob[:2] = True
    if n_labels:
        outputs, test_outputs = (rng.dirichlet(np.ones(n_labels), (12, n)) for n in (9, 6))
        return outputs, is_oob, rng.integers(0, n_labels, 9).astype(float), test_outputs
    target = rng.normal(size=9)
    outputs = target + rng.normal(size=9) + rng.normal(size=(12, 9)) * rng.gamma(2.0, size=9)
    return outputs, is_oob, target, rng.normal(size=(12, 6)) * rng.gamma(2.0, size=6)


cases = st.builds(draw_case, st.integers(0, 10_000), st.sampled_from([0, 2, 3]))


@pytest.mark.parametrize("n_labels", [0, 3])
def test_line_is_least_squares_through_each_rows_out_of_bag_ensemble(n_labels: int) -> None:
    outputs, is_oob, target, _ = draw_case(1, n_labels)
    points = []
    for i, y in enumerate(target):
        h = outputs[is_oob[:, i], i]
        truth = np.eye(n_labels)[int(y)] if n_labels else y
        points.append((np.sum(h.var(axis=0)), np.sum((h.mean(axis=0) - truth) ** 2)))
    variance, error = np.array(points).T
    slope, intercept = np.polyfit(variance, error, 1)
    line = fit_line(outputs, is_oob, target)
    assert line.slope == pytest.approx(slope, rel=1e-9)
    assert line.intercept == pytest.approx(intercept, rel=1e-9)
    assert line.chi_squared == pytest.approx(np.sum((error - slope * variance - intercept) ** 2), rel=1e-9)


def test_equal_variances_leave_a_level_line() -> None:
    outputs = np.array([[0.0, 0.0, 0.0], [2.0, 2.0, 2.0]])
    line = fit_line(outputs, np.ones((2, 3), dtype=bool), [1.0, 2.0, 4.0])
    assert (line.slope, line.intercept) == (0.0, pytest.approx(10 / 3))
    assert line.chi_squared == pytest.approx(np.sum((np.array([0.0, 1.0, 9.0]) - 10 / 3) ** 2))


def test_variances_equal_but_for_rounding_leave_a_level_line() -> None:
    shift = np.array([0.0, 0.1, 0.7, 1e3])
    outputs = np.array([[0.0], [0.1], [0.3]]) + shift
    assert np.ptp(outputs.var(axis=0)) > 0
    line = fit_line(outputs, np.ones((3, 4), dtype=bool), shift + np.arange(1.0, 5.0))
    assert line.slope == 0.0


def test_error_of_a_line_uses_the_exact_variance() -> None:
    test_outputs = np.array([[0.0, 1.0], [4.0, 1.0]])
    np.testing.assert_allclose(StackedLine(0.5, 0.25, 1.0).error(test_outputs), [2.25, 0.25])


@given(cases, st.floats(0.2, 5.0))
def test_weighted_is_the_papers_mean_of_line_and_difference(case: Case, unit: float) -> None:
    line = fit_line(*case[:3])
    chi = line.chi_squared / unit**4
    flat = simple_estimates(*case)["E2-V2"]
    expected = (line.slope * v_c(case[3]) + line.intercept) / (1 + chi) + flat * chi / (1 + chi)
    np.testing.assert_allclose(weighted_stacking(*case, unit=unit), expected, rtol=1e-9, atol=1e-12)


@given(cases)
def test_conservative_switches_at_its_threshold(case: Case) -> None:
    line = fit_line(*case[:3])
    on_the_line = conservative_stacking(*case, threshold=line.chi_squared)
    np.testing.assert_allclose(on_the_line, line.error(case[3]), rtol=1e-12)
    flat = conservative_stacking(*case, threshold=line.chi_squared * (1 - 1e-9))
    np.testing.assert_array_equal(flat, np.full(6, simple_estimates(*case)["E2-V2"]))


@given(cases)
def test_weighted_lies_between_the_two_it_mixes(case: Case) -> None:
    line, flat = fit_line(*case[:3]).error(case[3]), simple_estimates(*case)["E2-V2"]
    found = weighted_stacking(*case)
    assert found.shape == (6,)
    assert (found >= np.minimum(line, flat) - 1e-12).all()
    assert (found <= np.maximum(line, flat) + 1e-12).all()


@given(cases)
def test_estimates_follow_the_slope_in_the_variance(case: Case) -> None:
    order = np.argsort(v_c(case[3]))
    sign = np.sign(fit_line(*case[:3]).slope)
    for estimator in (weighted_stacking, conservative_stacking):
        assert (sign * np.diff(estimator(*case)[order]) >= -1e-9).all()


@given(cases, st.integers(0, 1000))
def test_order_of_rows_and_members_does_not_matter(case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    outputs, is_oob, target, test_outputs = case
    members, rows = rng.permutation(12), rng.permutation(9)
    shuffled = (outputs[members][:, rows], is_oob[members][:, rows], target[rows], test_outputs[members])
    for estimator in STACKED:
        np.testing.assert_allclose(estimator(*shuffled), estimator(*case), rtol=1e-7, atol=1e-9)


@given(st.integers(0, 10_000), st.floats(0.01, 100.0), st.floats(-10.0, 10.0))
def test_in_the_targets_own_unit_neither_unit_nor_origin_matters(seed: int, scale: float, shift: float) -> None:
    outputs, is_oob, target, test_outputs = draw_case(seed)
    moved = (scale * outputs + shift, is_oob, scale * target + shift, scale * test_outputs + shift)
    unit, moved_unit = target_unit(outputs, target), target_unit(moved[0], moved[2])
    assert moved_unit == pytest.approx(scale * unit, rel=1e-6)
    expected = scale**2 * weighted_stacking(outputs, is_oob, target, test_outputs, unit=unit)
    np.testing.assert_allclose(weighted_stacking(*moved, unit=moved_unit), expected, rtol=1e-5, atol=1e-6 * scale**2)


def test_published_scheme_depends_on_the_unit() -> None:
    """Metres against millimetres: at a small unit the line wins, at a large one E2 - V2 does."""
    outputs, is_oob, target, test_outputs = draw_case(2)
    for scale, expected in ((1e-3, fit_line(outputs, is_oob, target).error(test_outputs)), (1e3, None)):
        found = weighted_stacking(scale * outputs, is_oob, scale * target, scale * test_outputs) / scale**2
        flat = np.full(6, simple_estimates(outputs, is_oob, target, test_outputs)["E2-V2"])
        np.testing.assert_allclose(found, flat if expected is None else expected, rtol=1e-4)


def test_unit_is_the_targets_standard_deviation() -> None:
    outputs, _, target, _ = draw_case(3)
    assert target_unit(outputs, target) == pytest.approx(target.std(), rel=1e-12)
    outputs, _, labels, _ = draw_case(3, 3)
    shares = np.bincount(labels.astype(int), minlength=3) / labels.size
    assert target_unit(outputs, labels) == pytest.approx(np.sqrt(1 - np.sum(shares**2)), rel=1e-12)


@pytest.mark.parametrize("value", [4.0, 0.1])
def test_a_constant_target_has_no_unit(value: float) -> None:
    with pytest.raises(InputError, match=r"target.*constant"):
        target_unit(np.zeros((2, 3)), np.full(3, value))


BAD = [
    ({"outputs": np.full((12, 9), np.inf)}, "outputs"),
    ({"out_of_bag": np.ones((11, 9), dtype=bool)}, "out_of_bag"),
    ({"out_of_bag": np.eye(12, 9, dtype=bool)}, "out_of_bag"),
    ({"target": np.zeros(10)}, "target"),
    ({"target": np.full(9, np.nan)}, "target"),
    ({"test_outputs": np.zeros((3, 6))}, "test_outputs"),
    ({"test_outputs": np.full((12, 6), np.nan)}, "test_outputs"),
    ({"unit": 0.0}, "unit"),
    ({"unit": -1.0}, "unit"),
    ({"unit": np.inf}, "unit"),
    ({"unit": np.nan}, "unit"),
]


@pytest.mark.parametrize("estimator", STACKED)
@pytest.mark.parametrize(("change", "named"), BAD)
def test_bad_argument_is_named(estimator: Callable[..., Any], change: dict[str, Any], named: str) -> None:
    names = ("outputs", "out_of_bag", "target", "test_outputs")
    with pytest.raises(InputError, match=named):
        estimator(**{**dict(zip(names, draw_case(4), strict=True)), **change})


@pytest.mark.parametrize("threshold", [-1.0, np.nan])
def test_threshold_must_not_be_negative(threshold: float) -> None:
    with pytest.raises(InputError, match="threshold"):
        conservative_stacking(*draw_case(5), threshold=threshold)


def test_a_line_needs_three_rows() -> None:
    with pytest.raises(InputError, match=r"outputs.*2 rows"):
        fit_line(np.eye(3, 2), np.ones((3, 2), dtype=bool), [0.0, 1.0])
