"""The tables of 2017 against quadrature, transforms and enumeration, and their file in the cache."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import comb
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import betainc, expit, log_expit, logit, logsumexp, ndtr
from scipy.stats import norm

from ens_plugin.errors import EnsPluginWarning, InputError
from ens_plugin.papers.score_tables_2017 import score_tables
from ens_plugin.papers.score_tables_2017 import tables as load_score_tables
from ens_plugin.papers.score_tables_2017.score_tables import (
    ScoreTables,
    build_effects,
    build_score_tables,
    log_mean_moments,
    mean_below_half,
    score_quadrature,
    score_table_path,
)
from tests.papers.score_tables_2017.score_examples import normal_mean, tables, three_below_half


@pytest.mark.parametrize("spread", [0.0, 0.3, 2.0, 20.0, 64.0])
@pytest.mark.parametrize("mean", [-4.0, 0.1, 2.5])
def test_quadrature_of_the_logistic_function(mean: float, spread: float) -> None:
    nodes, weights = score_quadrature(spread)
    exact = expit(mean) if spread == 0 else normal_mean(expit, mean, spread)
    assert weights @ expit(mean + spread * nodes) == pytest.approx(exact, abs=1e-10)


@pytest.mark.parametrize(
    ("mean", "spread"), [(0.0, 0.0), (0.37, 0.9), (-3.1, 2.2), (8.3, 7.7), (-40.0, 30.0), (1.0, 63.0)]
)
def test_moments_of_one_member_by_adaptive_quadrature(mean: float, spread: float) -> None:
    def expected(function: object) -> float:
        return float(function(mean)) if spread == 0 else normal_mean(function, mean, spread)  # type: ignore[operator]

    a, s = np.array([mean]), np.array([spread])
    for power, found in enumerate(tables().miss_moments(a, s)[:, 0], start=1):
        assert found == pytest.approx(expected(lambda c, power=power: expit(-c) ** power), abs=5e-6)
    first, second = tables().log_loss_moments(a, s)[:, 0]
    assert first == pytest.approx(expected(lambda c: np.logaddexp(0.0, -c)), rel=1e-5, abs=1e-5)
    assert second == pytest.approx(expected(lambda c: np.logaddexp(0.0, -c) ** 2), rel=1e-5, abs=1e-5)


@settings(max_examples=settings.default.max_examples // 5)
@given(st.floats(-1.0, 1.0), st.floats(0.05, 4.0))
def test_one_two_and_three_members_are_known(ratio: float, spread: float) -> None:
    a, s = np.array([ratio * spread]), np.array([spread])
    assert tables().below_half(a, s, 1)[0] == pytest.approx(ndtr(-ratio), abs=1e-12)
    assert tables().below_half(a, s, 2)[0] == pytest.approx(ndtr(-ratio * np.sqrt(2)), abs=1e-12)
    assert tables().below_half(a, s, 3)[0] == pytest.approx(three_below_half(a[0], spread), abs=3e-5)


@pytest.mark.parametrize("size", [4, 9, 17, 18, 22, 24, 25, 26, 40, 77, 150, 601, 5000])
def test_tail_against_the_fft_off_the_nodes(size: int) -> None:
    rng = np.random.default_rng(size)
    spread = rng.uniform(0.1, 5.0, 6)
    mean = rng.uniform(-3.0, 3.0, 6) * spread / np.sqrt(size)
    exact = [score_tables._below_half_at(a, s, np.array([float(size)]))[0] for a, s in zip(mean, spread, strict=True)]
    np.testing.assert_allclose(tables().below_half(mean, spread, size), exact, atol=5e-5)


@pytest.mark.parametrize("size", [1, 2, 5, 33, 700, 10**5, np.inf])
def test_log_mean_against_the_laplace_transform_off_the_nodes(size: float) -> None:
    rng = np.random.default_rng(7)
    for spread in rng.uniform(0.0, 5.0, 8):
        mean = rng.uniform(-6.0, 6.0)
        nodes, weights = score_quadrature(spread)
        p = expit(mean + spread * nodes)
        exact = (
            (np.log(weights @ p), 0.0)
            if np.isinf(size)
            else tuple(part[0] for part in log_mean_moments(p, weights, [size]))
        )
        found = tables().log_mean(np.array([mean]), np.array([spread]), size)[:, 0]
        assert found[0] == pytest.approx(exact[0], abs=1e-4)
        assert found[1] == pytest.approx(exact[1], abs=1e-3)


def test_no_spread_is_a_step_for_any_size() -> None:
    found = tables().below_half(np.array([-1.0, 0.0, 1.0]), np.zeros(3), 11)
    np.testing.assert_array_equal(found, [1.0, 0.5, 0.0])


def test_spreads_without_meaning_are_refused() -> None:
    with pytest.raises(InputError, match="vary too much"):
        tables().miss_moments(np.zeros(1), np.array([65.0]))
    with pytest.raises(InputError, match="at most 16"):
        tables().log_mean(np.zeros(1), np.array([17.0]), 3)


@pytest.mark.long
@pytest.mark.slow
def test_building_gives_the_kept_effects() -> None:
    # Not to the bit: sums depend on the processor and on the threads of the BLAS, and an effect read from a tail of
    # 1e-11 keeps six digits of theirs. What counts is the tail it gives back.
    few, many = build_effects()
    kept = tables()
    means = np.concatenate([[0.01], score_tables.EFFECT_MEANS[1:]])[:, None]
    roots = np.sqrt(score_tables.FEW_SIZES)[:, None, None]
    np.testing.assert_allclose(ndtr(-few * means * roots), ndtr(-kept.few * means * roots), atol=1e-12)
    np.testing.assert_allclose(ndtr(-many * means), ndtr(-kept.many * means), atol=1e-12)


@pytest.mark.slow
def test_building_gives_the_tables_on_the_disk() -> None:
    built, kept = build_score_tables(), tables()
    np.testing.assert_allclose(built.single, kept.single, rtol=1e-9, atol=1e-12)
    # Sums of the BLAS differ by 1e-12, and derivatives in b are differences over 1e-4.
    for name in ("log_gain", "log_variance"):
        np.testing.assert_allclose(getattr(built, name), getattr(kept, name), rtol=1e-9, atol=1e-7)


@pytest.mark.parametrize("column", [1, 5, 13, 25, 37])
@pytest.mark.parametrize("row", [20, 48, 60, 96])
def test_the_log_tables_are_those_of_one_row_at_a_time(column: int, row: int) -> None:
    spread = float(np.sinh(score_tables.LOG_SPREADS[column]))
    mean = score_tables.LOG_MEANS[row] * np.sqrt(1.0 + spread**2)
    nodes, weights = score_quadrature(spread)
    score = mean + spread * nodes
    mixed, variance = log_mean_moments(expit(score), weights, np.exp(score_tables.LOG_SIZES))
    gain = np.append(mixed, np.log(weights @ expit(score))) + weights @ np.logaddexp(0.0, -score)
    np.testing.assert_allclose(tables().log_gain[:, row, column], gain / spread**2, atol=1e-6)
    np.testing.assert_allclose(tables().log_variance[:, row, column], variance / spread**2, atol=1e-6)


def test_the_log_tables_without_spread_are_derivatives() -> None:
    """By a Taylor series, the variance of log p is b (1-p)^2, and K members gain (1 - 1/K) b (1-p)^2 / 2."""
    miss = expit(-score_tables.LOG_MEANS)
    size = np.exp(score_tables.LOG_SIZES)[:, None]
    np.testing.assert_allclose(tables().log_variance[:, :, 0], miss**2 / size, atol=2e-4)
    np.testing.assert_allclose(tables().log_gain[:-1, :, 0], (1.0 - 1.0 / size) * miss**2 / 2.0, atol=2e-4)


def test_infinitely_many_hopeless_members_have_the_log_of_their_expectation() -> None:
    """At 12 spreads below zero, nearly all of E p comes from scores far above the mean."""
    spread = 16.0
    scale = np.sqrt(1.0 + spread**2)
    scores = np.linspace(-60.0, 300.0, 400_001)
    density = norm.logpdf(scores, -12.0 * scale, spread) + log_expit(scores)
    exact = logsumexp(density) + np.log(scores[1] - scores[0])
    assert tables().log_mean(np.array([-12.0 * scale]), np.array([spread]), np.inf)[0, 0] == pytest.approx(
        exact, rel=1e-3
    )


FloatArray = NDArray[np.float64]


def uniform(p: FloatArray) -> FloatArray:
    return np.asarray(p)


def irwin_hall_below(n: int, x: Fraction) -> Fraction:
    """P(sum of n uniforms <= x), exactly."""
    total = sum((Fraction((-1) ** j * comb(n, j)) * max(x - j, Fraction(0)) ** n for j in range(n + 1)), Fraction(0))
    factorial = 1
    for k in range(2, n + 1):
        factorial *= k
    return total / factorial


def squeezed(low: float, high: float) -> object:
    return lambda p: np.clip((p - low) / (high - low), 0.0, 1.0)


@pytest.mark.parametrize("size", [2, 3, 4, 7, 12, 20])
def test_uniform_members_follow_irwin_and_hall(size: int) -> None:
    """Uniform on [0, 0.9]: the sum of K is below K/2 if that of K standard uniforms is below K/1.8."""
    exact = float(irwin_hall_below(size, Fraction(size) * Fraction(5, 9)))
    found = mean_below_half(squeezed(0.0, 0.9), 0.0, 0.9, [size])[0]  # type: ignore[arg-type]
    assert found == pytest.approx(exact, abs=2e-6)


@pytest.mark.fast_cases("0.4-3.0", "0.05-0.1", "-0.7-1.0")
@pytest.mark.parametrize("spread", [0.1, 1.0, 3.0, 4.0])
@pytest.mark.parametrize("ratio", [-0.7, 0.05, 0.4])
def test_three_members_by_direct_integration(spread: float, ratio: float) -> None:
    mean = ratio * spread

    def cumulative(p: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            return np.asarray(ndtr((logit(p) - mean) / spread))

    low, high = expit([mean - 9 * spread, mean + 9 * spread])
    found = mean_below_half(cumulative, float(low), float(high), [1, 2, 3])
    assert found[0] == pytest.approx(ndtr(-ratio), abs=1e-8)
    assert found[1] == pytest.approx(ndtr(-ratio * np.sqrt(2)), abs=2e-6)
    assert found[2] == pytest.approx(three_below_half(mean, spread), abs=5e-6)


def test_symmetric_members_are_undecided() -> None:
    found = mean_below_half(lambda p: np.asarray(betainc(2.0, 2.0, p)), 0.0, 1.0, [1, 2, 5, 30, 1000])
    np.testing.assert_allclose(found, 0.5, atol=1e-9)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_log_moments_by_enumeration(size: int) -> None:
    p, w = np.array([0.02, 0.3, 0.9]), np.array([0.2, 0.5, 0.3])
    logs, chances = [], []
    for members in product(range(3), repeat=size):
        logs.append(np.log(np.mean(p[list(members)])))
        chances.append(np.prod(w[list(members)]))
    mean = float(np.dot(chances, logs))
    variance = float(np.dot(chances, (np.array(logs) - mean) ** 2))
    found_mean, found_variance = log_mean_moments(p, w, [size])
    assert found_mean[0] == pytest.approx(mean, abs=1e-12)
    assert found_variance[0] == pytest.approx(variance, abs=1e-10)


@pytest.mark.parametrize(
    ("low", "high", "sizes", "word"),
    [
        (0.5, 0.5, [1], "low and high"),
        (-0.1, 1.0, [1], "low and high"),
        (0.0, 1.5, [1], "low and high"),
        (0.0, 1.0, [0], "sizes"),
        (0.0, 1.0, [np.inf], "sizes"),
        (0.0, 1.0, [2.5], "sizes"),
    ],
)
def test_bad_input_of_the_tail(low: float, high: float, sizes: list[float], word: str) -> None:
    with pytest.raises(InputError, match=word):
        mean_below_half(uniform, low, high, sizes)


@pytest.mark.parametrize(
    ("p", "w", "sizes", "word"),
    [
        ([0.0, 0.5], [0.5, 0.5], [1], "probability"),
        ([0.5, 1.5], [0.5, 0.5], [1], "probability"),
        ([0.5, np.nan], [0.5, 0.5], [1], "probability"),
        ([0.5, 0.6], [0.5], [1], "weight"),
        ([0.5, 0.6], [-1.0, 2.0], [1], "weight"),
        ([0.5, 0.6], [0.5, 0.5], [0.5], "sizes"),
        ([0.5, 0.6], [0.5, 0.5], [np.inf], "sizes"),
    ],
)
def test_bad_input_of_the_logarithm(p: list[float], w: list[float], sizes: list[float], word: str) -> None:
    with pytest.raises(InputError, match=word):
        log_mean_moments(p, w, sizes)


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[ScoreTables]:
    """Small tables instead of the real ones, and a record of how often they were built."""
    made: list[ScoreTables] = []

    def build() -> ScoreTables:
        made.append(ScoreTables(*(np.full((2, 2), float(index)) for index in range(5))))
        return made[-1]

    monkeypatch.setattr(score_tables, "build_score_tables", build)
    score_tables._load.cache_clear()
    yield made  # type: ignore[misc]
    score_tables._load.cache_clear()


def forget() -> None:
    score_tables._load.cache_clear()


def test_built_once_per_process_and_once_per_disk(tmp_path: Path, built: list[ScoreTables]) -> None:
    first = load_score_tables(tmp_path)
    assert load_score_tables(tmp_path) is first
    forget()
    again = load_score_tables(tmp_path)
    assert len(built) == 1
    for name in score_tables.NAMES:
        np.testing.assert_array_equal(getattr(again, name), getattr(first, name))
    assert [path.name for path in tmp_path.iterdir()] == [score_table_path(tmp_path).name]


def test_rebuilt_whatever_byte_is_damaged(tmp_path: Path, built: list[ScoreTables]) -> None:
    load_score_tables(tmp_path)
    path = score_table_path(tmp_path)
    content = path.read_bytes()
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 0xFF
        path.write_bytes(changed)
        found = score_tables._read(path)
        assert found is None or all(
            np.array_equal(getattr(found, name), getattr(built[0], name)) for name in score_tables.NAMES
        )


@pytest.mark.parametrize("damage", ["truncate", "garbage", "empty", "change", "version"])
def test_rebuilt_if_unreadable(
    tmp_path: Path, built: list[ScoreTables], damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_score_tables(tmp_path)
    path = score_table_path(tmp_path)
    content = path.read_bytes()
    if damage == "truncate":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "garbage":
        path.write_bytes(b"no archive")
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "change":
        with np.load(path) as stored:
            arrays = dict(stored)
        arrays["few"] = arrays["few"] + 1.0
        np.savez_compressed(path, **arrays)
    else:
        monkeypatch.setattr(score_tables, "TABLE_VERSION", 999)
        path.replace(score_table_path(tmp_path))
    forget()
    np.testing.assert_array_equal(load_score_tables(tmp_path).few, built[0].few)
    assert len(built) == 2
    forget()
    load_score_tables(tmp_path)
    assert len(built) == 2


def test_a_directory_that_cannot_be_written_is_said_and_survived(tmp_path: Path, built: list[ScoreTables]) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with pytest.warns(EnsPluginWarning, match="could not be written") as caught:
        tables = load_score_tables(blocked)
    assert caught[0].filename == __file__
    np.testing.assert_array_equal(tables.few, built[0].few)


def test_a_failed_write_leaves_nothing_behind(
    tmp_path: Path, built: list[ScoreTables], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("ens_plugin.files.os.replace", fail)
    with pytest.warns(EnsPluginWarning, match="disk full"):
        load_score_tables(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_kept_in_the_users_cache_directory() -> None:
    path = score_table_path()
    assert path.name.startswith("score_tables-")
    assert "ens_plugin" in path.parts
