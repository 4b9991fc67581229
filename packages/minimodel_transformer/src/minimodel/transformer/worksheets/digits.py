"""How numbers are written: in the cells of a table, all with the same decimals, and inside a formula.

Five significant digits: of the largest entry in a table, of each number in a formula. A table that needs fewer decimals
to be exact has fewer, so that 0.1 is not 0.10000; an entry that is exactly 0 is written 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

SIGNIFICANT = 5

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

# From here on a table's numbers are written with powers of ten: their decimals would be all zeros, or too many.
_SMALLEST, _LARGEST = 1e-5, 1e7

# Sums of more terms are cut in the middle of a formula.
_TERMS = 8


def decimals_of(array: npt.NDArray[Any]) -> int | None:
    """Return how many decimals a table of `array` shows; None where it needs powers of ten."""
    finite = np.abs(np.asarray(array, np.float64)[np.isfinite(array)])
    largest = float(finite.max(initial=0.0))
    if largest == 0.0:
        return 0
    if not _SMALLEST <= largest < _LARGEST:
        return None
    most = max(0, SIGNIFICANT - 1 - math.floor(math.log10(largest)))
    # float32 holds 0.1 as 0.100000001; what is equal in its own precision is equal here.
    slack = largest * float(np.finfo(array.dtype).eps)
    for decimals in range(most):
        if np.all(np.abs(np.round(finite, decimals) - finite) <= slack):
            return decimals
    return most


def cell(value: float, decimals: int | None) -> str:
    """Return a number as a table writes it, with ASCII minus."""
    value = float(value)
    if not math.isfinite(value):
        return _not_finite(value)
    if value == 0.0:
        return "0"
    if decimals is not None:
        text = f"{value:.{decimals}f}"
        return text.removeprefix("-") if float(text) == 0.0 else text
    mantissa, exponent = f"{value:.{SIGNIFICANT - 1}e}".split("e")
    return f"{mantissa}·10{str(int(exponent)).translate(_SUPERSCRIPTS)}"


def short(value: float) -> str:
    """Return a number on its own, as 10⁻⁵, with ASCII minus."""
    mantissa, _, exponent = f"{value:.{SIGNIFICANT}g}".partition("e")
    if not exponent:
        return mantissa
    power = f"10{str(int(exponent)).translate(_SUPERSCRIPTS)}"
    return power if mantissa == "1" else f"{mantissa}·{power}"


def _not_finite(value: float) -> str:
    return "∞" if value > 0 else "-∞" if value < 0 else "NaN"


def tex(value: float) -> str:
    """Return a number for a formula, in LaTeX."""
    value = float(value)
    if not math.isfinite(value):
        return _not_finite(value).replace("∞", r"\infty")
    text = f"{value:.{SIGNIFICANT}g}"
    if "e" in text:
        mantissa, exponent = text.split("e")
        power = f"10^{{{int(exponent)}}}"
        return power if mantissa == "1" else rf"{mantissa} \cdot {power}"
    return "0" if text == "-0" else text


def factor(value: float) -> str:
    """Return a number for a place where a minus sign or a product needs parentheses."""
    text = tex(value)
    return f"({text})" if text.startswith("-") or "^" in text else text


def equals(value: np.floating[Any]) -> str:
    """Return `= v`, or `≈ v` where the digits shown are not the whole number."""
    number = float(value)
    shown = float(f"{number:.{SIGNIFICANT}g}")
    exact = shown == number or abs(shown - number) <= 4.0 * float(np.finfo(value.dtype).eps) * abs(number)
    return f"= {tex(number)}" if exact else rf"\approx {tex(number)}"


def summed(terms: Sequence[str], last: str = "") -> str:
    """Return the terms with plus signs between, long sums cut, and `last` (a bias) always there."""
    shown = list(terms) if len(terms) <= _TERMS else [*terms[:3], r"\cdots", terms[-1]]
    return " + ".join([*shown, *([last] if last else [])])


def largest(row: npt.NDArray[Any]) -> str:
    """Return the maximum of a row's numbers, in LaTeX; long rows are cut, but the largest is always there."""
    count = len(row)
    kept = range(count) if count <= _TERMS else sorted({0, 1, 2, int(row.argmax()), count - 1})
    terms: list[str] = []
    before = -1
    for index in kept:
        terms += [r"\cdots"] * (index > before + 1) + [tex(row[index])]
        before = index
    return rf"\max({', '.join(terms)})"


def products(row: Iterable[float], column: Iterable[float], bias: float | None = None) -> str:
    """Return the sum of the products of two vectors, in numbers."""
    terms = [rf"{factor(a)} \cdot {factor(b)}" for a, b in zip(row, column, strict=True)]
    return summed(terms, "" if bias is None else factor(bias))
