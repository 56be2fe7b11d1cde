r"""Numbers in texts, read exactly: whole ones, decimals, fractions and mixed numbers, in plain text and in LaTeX."""

from __future__ import annotations

import re
from collections import deque
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal, Inexact
from fractions import Fraction
from typing import Any
from unicodedata import normalize

# Hyphens, the en dash and the minus signs; signs of division; and fractions that are one character, as LaTeX has them.
ONE_FORM = {
    **dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2212\ufe63\uff0d"), "-"),
    **dict.fromkeys(map(ord, "\u2044\u2215"), "/"),
    **{
        ord(sign): "\\frac{{{}}}{{{}}}".format(*normalize("NFKC", sign).split("\u2044"))
        for sign in "¼½¾⅐⅑⅒⅓⅔⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞"
    },
}
THOUSANDS = r"(?:,|\{,\}|,?\\[,!;:]|[\u00a0\u2009\u202f])"
WHOLE = rf"(?:\d{{1,3}}(?:{THOUSANDS}\d{{3}})+(?!\d)|\d+)"
TEN = r"\s?(?:\\times|\\cdot|[\u00d7*])\s?10\s?\^"
POWER = rf"(?:[eE][+-]?\d{{1,2}}\b|{TEN}(?:\{{[+-]?\d{{1,2}}\}}|[+-]?\d{{1,2}}\b))"
PLAIN = rf"(?:(?:{WHOLE}(?:\.\d+)?|(?<!\d)\.\d+){POWER}?)"
PART = rf"\s?(?:\{{\s?(-?{PLAIN})\s?\}}|(\d))"  # of a fraction in LaTeX
# A sign follows no letter and no number, as in 3-5 or in a date, which is also what several slashes are.
NUMBER = re.compile(
    rf"(?P<sign>(?<![\w.)])-(?:\\?[$\u00a3\u20ac])?)?"
    rf"(?:(?:(?P<before>{WHOLE})\s?)?\\[cdt]?frac{PART}{PART}"
    rf"|(?:(?P<with>{WHOLE})\x20(?=\d+\x20?/))?(?P<chain>{PLAIN}(?:\x20?/\x20?-?{PLAIN})*))"
)

EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN)


def last_number(text: Any) -> str | None:
    r"""Return the last number in a text in one form, such as 7 for 007, 7.0 and 7e0; None without a number.

    The form is a decimal number of all digits, or a fraction in lowest terms where that would not end.  For
    ``analyze_votes(..., normalize=last_number)``, where answers are whole texts that end with a number.

    Examples
    --------
    >>> from ens_plugin.votes import last_number
    >>> last_number("So she pays $1,250.50."), last_number("I do not know.")
    ('1250.5', None)
    >>> last_number(r"\boxed{-\frac{3}{4}}"), last_number("2 1/3")
    ('-0.75', '7/3')
    """
    is_whole = isinstance(text, int) and not isinstance(text, bool)
    # Python writes out whole numbers of some thousand digits at most, and Decimal those of any length.
    plain = format(Decimal(text), "f") if is_whole else str(text).translate(ONE_FORM)
    found = deque(NUMBER.finditer(plain), maxlen=1)
    value = _value(found[0]) if found else None
    return None if value is None else _one_form(*value)


def _value(found: re.Match[str]) -> tuple[Decimal, Decimal] | None:
    """Return a number as a top and a bottom; None where it is divided by zero."""
    whole, chain = found["before"], (found["chain"] or "").split("/")
    if found["chain"] is None:
        top, bottom = (_exact(one or other) for one, other in (found.groups()[2:4], found.groups()[4:6]))
    elif len(chain) == 2:
        whole, (top, bottom) = found["with"], map(_exact, chain)
    else:
        top, bottom = _exact(chain[-1]), Decimal(1)
    if not bottom:
        return None
    if whole is not None and not (top and top.is_signed() == bottom.is_signed() and top.copy_abs() < bottom.copy_abs()):
        # 2 1/3 is two and a third, and 2 4/3 is a number after another, which has the sign.
        return top, bottom
    if whole is not None:
        top = EXACT.fma(_exact(whole), bottom, top)
    return (top.copy_negate() if found["sign"] else top), bottom


def _exact(number: str) -> Decimal:
    """Return the value of a decimal number of any length."""
    with_power = re.sub(TEN, "e", number)
    return Decimal(re.sub(rf"{THOUSANDS}|[{{}}\s]", "", with_power))


def _one_form(top: Decimal, bottom: Decimal) -> str:
    """Return a number as a decimal where that ends, else as a fraction."""
    # A quotient that ends has no more places than its bottom has bits.
    digits = Context(prec=len(str(top)) + 4 * len(str(bottom)), Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[Inexact])
    try:
        # By plus there is no -0.
        return format(digits.plus(digits.normalize(digits.divide(top, bottom))), "f")
    except Inexact:
        lowest = (format(Decimal(part), "f") for part in (Fraction(top) / Fraction(bottom)).as_integer_ratio())
        return "/".join(lowest)
