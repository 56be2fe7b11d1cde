"""Numbers in texts, against fractions of whole numbers."""

from __future__ import annotations

import time
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ens_plugin.votes import last_number

WHOLE = st.integers(-(10**30), 10**30)
SIGNS = ["-", "\u2212", "\u2010", "\u2011", "\u2012", "\u2013", "\ufe63", "\uff0d"]
WORDS = st.sampled_from(
    ["", "So the answer is ", "12 and 7, thus ", "x = ", "$", "(", "\\boxed{", "from 2024-01-05 on: "]
)


def form(value: Fraction) -> str:
    """A decimal of all its digits, found by trying, or a fraction in lowest terms."""
    top, bottom = value.as_integer_ratio()
    places = next((places for places in range(120) if 10**places % bottom == 0), None)
    if places is None:
        return f"{top}/{bottom}"
    digits = str(abs(top) * 10**places // bottom).zfill(places + 1)
    return ("-" if top < 0 else "") + digits[: len(digits) - places] + ("." + digits[-places:] if places else "")


@given(WHOLE, st.sampled_from(SIGNS), st.integers(0, 4), WORDS)
def test_whole_numbers(value: int, sign: str, zeros: int, before: str) -> None:
    written = (sign if value < 0 else "") + "0" * zeros + str(abs(value))
    assert last_number(f"{before}{written}.") == str(value)
    assert last_number(f"{before}{written}.{'0' * (zeros + 1)}") == str(value)
    assert last_number(f"{before}{written}e0") == str(value)


@given(WHOLE, st.sampled_from([",", "{,}", "\\,", "\\!", ",\\!", "\u2009", "\u202f", "\u00a0"]), WORDS)
def test_thousands(value: int, mark: str, before: str) -> None:
    assert last_number(before + f"{value:,}".replace(",", mark)) == str(value)


@given(
    WHOLE,
    st.integers(1, 10**12),
    st.sampled_from(["{}/{}", "{} / {}", "{}\u2044{}", "\\frac{{{}}}{{{}}}", "\\dfrac {{ {} }}{{{} }}"]),
    WORDS,
)
def test_fractions(top: int, bottom: int, pattern: str, before: str) -> None:
    if before.startswith("$") and top < 0:
        before = ""
    assert last_number(before + pattern.format(top, bottom)) == form(Fraction(top, bottom))


@given(
    st.integers(0, 10**6),
    st.integers(1, 10**4),
    st.integers(2, 10**4),
    st.sampled_from(["{} {}/{}", "{}\\frac{{{}}}{{{}}}", "{} \\tfrac{{{}}}{{{}}}"]),
    st.booleans(),
)
def test_mixed_numbers(whole: int, top: int, bottom: int, pattern: str, is_negative: bool) -> None:
    part = Fraction(top, bottom)
    value = whole + part if part < 1 else part
    # Another number before has the sign.
    sign = -1 if is_negative and part < 1 else 1
    assert last_number(("-" if is_negative else "") + pattern.format(whole, top, bottom)) == form(sign * value)


@given(
    st.integers(-(10**9), 10**9),
    st.integers(-40, 40),
    st.sampled_from(["{}e{}", "{}E{}", "{} \\times 10^{{{}}}", "{}\u00d710^{}", "{} \\cdot 10^{{{}}}", "{} * 10^{}"]),
)
def test_powers_of_ten(value: int, power: int, pattern: str) -> None:
    assert last_number(pattern.format(value, power)) == form(value * Fraction(10) ** power)


@given(st.fractions())
def test_the_form_of_a_number_is_its_own(value: Fraction) -> None:
    written = last_number(str(value))
    assert written is not None
    assert Fraction(written) == value
    assert last_number(written) == written


@given(st.text(alphabet="0123456789.,/-eE \\frac{}x\u2212\u00bd+^*$"))
def test_any_text_has_one_number_or_none(text: str) -> None:
    written = last_number(text)
    assert written is None or last_number(written) == written


@pytest.mark.parametrize("n_digits", [29, 5000, 20_000])
def test_all_digits_are_kept(n_digits: int) -> None:
    written = "7" * n_digits
    assert last_number(f"is {written}") == written
    assert last_number(f"is {written}.5") == f"{written}.5"
    assert last_number(7 * ((10**n_digits - 1) // 9)) == written


def test_a_loop_of_digits_takes_seconds() -> None:
    written, started = "7" * 1_200_000, time.perf_counter()
    assert last_number(f"is {written}.50") == f"{written}.5"
    assert last_number(f"is {written}/{'1' + '0' * 1_200_000}") == f"0.{written}"
    # By whole numbers of Python each takes minutes.
    assert time.perf_counter() - started < 30.0


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12", "12"),
        ("is $1,250.50.", "1250.5"),
        ("-$5", "-5"),
        ("-3 or -4", "-4"),
        ("none", None),
        ("3.00", "3"),
        (7, "7"),
        (True, None),
        (0.1, "0.1"),
        (".5", "0.5"),
        ("1e5", "100000"),
        ("3-5", "5"),
        ("3\u20135", "5"),
        ("on 2024-01-05", "5"),
        ("on 3/4/2024", "2024"),
        ("1,2,3", "3"),
        ("007", "7"),
        ("-0", "0"),
        ("x=-7", "-7"),
        ("5.", "5"),
        ("1,234,567", "1234567"),
        ("1e999", "999"),
        ("3/4", "0.75"),
        ("1/4", "0.25"),
        ("10/4.", "2.5"),
        ("3/-4", "-0.75"),
        ("1\u00bd", "1.5"),
        ("-\u2153", "-1/3"),
        ("\\frac34", "0.75"),
        ("-\\frac{-3}{4}", "0.75"),
        ("1 2 3/4", "2.75"),
        ("5/0", None),
        ("\\frac{\\pi}{4}", "4"),
        ("x^{2}", "2"),
    ],
)  # fmt: skip
def test_last_number(text: Any, number: str | None) -> None:
    assert last_number(text) == number
