"""The estimates of 1996 by the paper's definitions, member by member, and the error where they are dubious."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, make_regression
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.model_selection import GroupKFold, cross_val_score

import ens_plugin
from ens_plugin.core.losses import fit_moments, loss_moments
from ens_plugin.errors import InputError
from ens_plugin.papers import bagging_error_1996
from ens_plugin.papers.bagging_error_1996 import (
    as_aligned_target,
    as_mask,
    as_outputs,
    check_same_members,
    conservative_stacking,
    e1,
    e2,
    fit_line,
    hybrid_error,
    ratio,
    simple_estimate,
    simple_estimates,
    target_unit,
    v1,
    v2,
    v3,
    v_c,
    weighted_stacking,
)

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


@pytest.mark.parametrize("name", ["v1", "v3"])
def test_variance_needs_two_members(name: str) -> None:
    with pytest.raises(InputError, match=r"outputs.*one member"):
        getattr(bagging_error_1996, name)([[1.0, 2.0]])


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


STACKED = [conservative_stacking, weighted_stacking]
FOUR = [simple_estimates, ratio, *STACKED]


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


def test_variances_equal_but_for_rounding_leave_a_level_line() -> None:
    shift = np.array([0.0, 0.1, 0.7, 1e3])
    outputs = np.array([[0.0], [0.1], [0.3]]) + shift
    assert np.ptp(outputs.var(axis=0)) > 0
    line = fit_line(outputs, np.ones((3, 4), dtype=bool), shift + np.arange(1.0, 5.0))
    assert line.slope == 0.0


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
    (FOUR, {"outputs": np.full((12, 9), np.nan)}, "outputs"),
    (FOUR, {"outputs": np.zeros((12, 8))}, "out_of_bag|target"),
    (FOUR, {"out_of_bag": np.ones((12, 8), dtype=bool)}, "out_of_bag"),
    (FOUR, {"out_of_bag": np.zeros((12, 9), dtype=bool)}, "out_of_bag"),
    (STACKED, {"out_of_bag": np.eye(12, 9, dtype=bool)}, "out_of_bag"),
    (FOUR, {"target": np.zeros(8)}, "target"),
    (FOUR, {"target": np.full(9, np.inf)}, "target"),
    (FOUR, {"test_outputs": np.zeros((11, 6))}, "test_outputs"),
    (FOUR, {"test_outputs": np.zeros(6)}, "test_outputs"),
    (FOUR, {"test_outputs": np.full((12, 6, 2), 0.5)}, "test_outputs"),
    (FOUR, {"test_outputs": np.empty((12, 0))}, "test_outputs"),
    (STACKED, {"test_outputs": np.full((12, 6), np.nan)}, "test_outputs"),
    *[(STACKED, {"unit": unit}, "unit") for unit in (0.0, -1.0, np.inf, np.nan)],
    *[([conservative_stacking], {"threshold": threshold}, "threshold") for threshold in (-1.0, np.nan)],
]


@pytest.mark.parametrize(("estimators", "change", "named"), BAD)
def test_bad_argument_is_named(estimators: list[Any], change: dict[str, Any], named: str) -> None:
    names = ("outputs", "out_of_bag", "target", "test_outputs")
    for estimator in estimators:
        with pytest.raises(InputError, match=named):
            estimator(**{**dict(zip(names, draw_case(6), strict=True)), **change})


def test_a_line_needs_three_rows() -> None:
    with pytest.raises(InputError, match=r"outputs.*2 rows"):
        fit_line(np.eye(3, 2), np.ones((3, 2), dtype=bool), [0.0, 1.0])


VALUES = as_outputs([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], "outputs")
PROBABILITIES = as_outputs([[[0.2, 0.8], [0.5, 0.5]]], "outputs")


@pytest.mark.parametrize(
    ("outputs", "fault"),
    [
        ([1.0, 2.0], "members, rows"),
        (np.zeros((1, 1, 1, 1)), "members, rows"),
        (np.empty((0, 3)), "empty"),
        (np.empty((2, 0)), "empty"),
        ([[1.0, np.nan]], "NaN or infinite"),
        ([[1.0, np.inf]], "NaN or infinite"),
        ([["a", "b"]], "numbers"),
        ([[1.0], [1.0, 2.0]], "numbers"),
        ([[[1.5, -0.5]]], r"\[0, 1\]"),
        ([[[0.5, 0.4]]], "sum to 1"),
        ([[[1.0]]], "one label"),
    ],
)
def test_bad_outputs_are_refused_by_name(outputs: object, fault: str) -> None:
    with pytest.raises(InputError, match=f"given.*{fault}"):
        as_outputs(outputs, "given")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mask", "fault"),
    [
        ([[True, False, True]], "shape"),
        (np.ones((3, 2), dtype=bool), "shape"),
        ([[2, 0, 1], [1, 1, 1]], "True or False"),
        ([[0.5, 0, 1], [1, 1, 1]], "True or False"),
        ([[True, False, False], [True, True, False]], "2 of 3 rows"),
    ],
)
def test_bad_mask_is_refused_by_name(mask: object, fault: str) -> None:
    with pytest.raises(InputError, match=f"out_of_bag.*{fault}"):
        as_mask(mask, VALUES, 2)  # type: ignore[arg-type]


def test_a_mask_of_zeros_and_ones_is_one_of_booleans() -> None:
    mask = as_mask([[1, 0, 1], [1, 1, 0]], VALUES, 1)
    assert mask.dtype == np.bool_
    np.testing.assert_array_equal(mask, [[True, False, True], [True, True, False]])


@pytest.mark.parametrize("target", [[0.0, 2.0], [-1, 0], [0.5, 1.0], [0], [np.nan, 1.0]])
def test_bad_labels_are_refused(target: list[float]) -> None:
    with pytest.raises(InputError, match="target"):
        as_aligned_target(target, PROBABILITIES)


def test_values_stay_and_labels_become_indicators() -> None:
    np.testing.assert_array_equal(as_aligned_target([7.0, -1.0, 0.5], VALUES), [7.0, -1.0, 0.5])
    np.testing.assert_array_equal(as_aligned_target([1, 0], PROBABILITIES), [[0, 1], [1, 0]])


@pytest.mark.parametrize("shape", [(3, 4), (2, 4, 2)])
def test_test_outputs_come_from_the_same_members(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="test_outputs"):
        check_same_members(VALUES, np.full(shape, 0.5))


def test_test_outputs_have_the_same_labels() -> None:
    with pytest.raises(InputError, match="labels"):
        check_same_members(PROBABILITIES, np.full((1, 4, 3), 1 / 3))


X, Y = load_breast_cancer(return_X_y=True)


def test_ordinary_rows_need_no_cross_validation() -> None:
    forest = RandomForestClassifier(60, random_state=0).fit(X, Y)
    assert hybrid_error(forest, X, Y) == (ens_plugin.analyze(forest, X, Y).error, "out of bag", ())


def test_rows_of_subjects_are_cross_validated_by_the_folds_that_keep_them_together() -> None:
    rng = np.random.default_rng(0)
    subject = np.repeat(np.arange(40), 10)
    features = rng.normal(size=(40, 6))[subject] + 0.05 * rng.normal(size=(400, 6))
    labels = rng.integers(0, 2, 40)[subject]
    forest = RandomForestClassifier(60, random_state=0).fit(features, labels)
    folds = list(GroupKFold(5).split(features, labels, subject))
    found = hybrid_error(forest, features, labels, cv=folds)
    assert found.source == "cross-validation"
    assert found.doubts
    expected = 1.0 - np.average(
        cross_val_score(forest, features, labels, cv=folds), weights=[len(test) for _, test in folds]
    )
    assert found.error == pytest.approx(expected)
    assert found.error > 0.3 > ens_plugin.analyze(forest, features, labels).error


def test_members_without_bags_are_cross_validated() -> None:
    model = BaggingClassifier(n_estimators=10, bootstrap=False, random_state=0).fit(X, Y)
    found = hybrid_error(model, X, Y)
    assert found.source == "cross-validation"
    assert len(found.doubts) == 1


def test_few_rows_of_values_are_cross_validated() -> None:
    features, target = make_regression(20, 4, noise=1.0, random_state=0)
    forest = RandomForestRegressor(40, random_state=0).fit(features, target)
    found = hybrid_error(forest, features, target)
    assert found.source == "cross-validation"
    assert "There are only 20 rows." in found.doubts
    expected = -cross_val_score(forest, features, target, scoring="neg_mean_squared_error").mean()
    assert found.error == pytest.approx(expected)


def test_an_error_below_zero_is_cross_validated(monkeypatch: pytest.MonkeyPatch) -> None:
    features, target = make_regression(60, 4, noise=1.0, random_state=0)
    forest = RandomForestRegressor(40, random_state=0).fit(features, target)
    report = ens_plugin.analyze(forest, features, target)
    assert hybrid_error(forest, features, target).source == "out of bag"
    below = replace(report, error_curve=replace(report.error_curve, asymptote_raw=-0.1))
    monkeypatch.setattr(bagging_error_1996, "analyze", lambda *rows: below)
    found = hybrid_error(forest, features, target)
    assert found.source == "cross-validation"
    assert found.doubts == ("The error of infinitely many members is estimated below 0.",)


@given(cases)
def test_error_of_the_average_is_mean_error_less_variance(case: Case) -> None:
    """1996 section 3.3, exactly: Err(q) = E_c(q) - V_c(q) for any y."""
    outputs, _, target, _ = case
    truth = np.eye(outputs.shape[2])[target.astype(int)] if outputs.ndim == 3 else target
    square = (outputs.mean(axis=0) - truth) ** 2
    ensemble = square.sum(axis=1) if outputs.ndim == 3 else square
    np.testing.assert_allclose(e1(outputs, target) - v_c(outputs), ensemble, atol=1e-12)


@given(st.integers(0, 10_000))
def test_brier_score_of_two_labels_is_twice_the_squared_error_of_one_probability(seed: int) -> None:
    outputs, is_oob, target, test_outputs = draw_case(seed, 2)
    one = (outputs[:, :, 1], is_oob, target, test_outputs[:, :, 1])
    both = simple_estimates(outputs, is_oob, target, test_outputs)
    for name, value in simple_estimates(*one).items():
        assert both[name] == pytest.approx(2 * value, abs=1e-12)
    np.testing.assert_allclose(ratio(outputs, is_oob, target, test_outputs), 2 * ratio(*one), atol=1e-12)
