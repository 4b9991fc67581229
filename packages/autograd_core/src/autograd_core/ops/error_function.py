"""erf and erfc to about 1e-16: NumPy has neither.

Rational Chebyshev approximations of W. J. Cody, "Rational Chebyshev Approximations for the Error Function", Mathematics
of Computation 23 (1969), tables I to III: erf(x) = x R(x²) for |x| ≤ 0.46875, erfc(x) = exp(-x²) R(x) up to 4, and
erfc(x) = exp(-x²)/x (1/√π + R(1/x²)/x²) beyond. Coefficients stand from the highest power down, as Horner's rule
reads them.
"""

from __future__ import annotations

import math

import numpy as np

from ..arrays import Array

_NEAR_P = (
    1.85777706184603153e-1,
    3.16112374387056560e0,
    1.13864154151050156e2,
    3.77485237685302021e2,
    3.20937758913846947e3,
)
_NEAR_Q = (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3)
_MIDDLE_P = (
    2.15311535474403846e-8,
    5.64188496988670089e-1,
    8.88314979438837594e0,
    6.61191906371416295e1,
    2.98635138197400131e2,
    8.81952221241769090e2,
    1.71204761263407058e3,
    2.05107837782607147e3,
    1.23033935479799725e3,
)
_MIDDLE_Q = (
    1.0,
    1.57449261107098347e1,
    1.17693950891312499e2,
    5.37181101862009858e2,
    1.62138957456669019e3,
    3.29079923573345963e3,
    4.36261909014324716e3,
    3.43936767414372164e3,
    1.23033935480374942e3,
)
_FAR_P = (
    1.63153871373020978e-2,
    3.05326634961232344e-1,
    3.60344899949804439e-1,
    1.25781726111229246e-1,
    1.60837851487422766e-2,
    6.58749161529837803e-4,
)
_FAR_Q = (
    1.0,
    2.56852019228982242e0,
    1.87295284992346725e0,
    5.27905102951428412e-1,
    6.05183413124413191e-2,
    2.33520497626869185e-3,
)


def _horner(coefficients: tuple[float, ...], x: Array) -> Array:
    total = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        total *= x
        total += coefficient
    return total


def _exp_minus_square(x: Array) -> Array:
    """Return exp(-x²); x is split at 1/16 so that the rounding of x² does not become a relative error of the result."""
    head = np.floor(x * 16.0) / 16.0
    return np.asarray(np.exp(-head * head) * np.exp(-(x - head) * (x + head)))


def erfc(x: Array) -> Array:
    """Return the complementary error function of a float64 array."""
    magnitude = np.minimum(np.abs(x), 28.0)  # erfc(28) is 0; this also keeps infinities out of the polynomials
    out = np.empty_like(magnitude)

    near = magnitude <= 0.46875
    z = magnitude[near]
    out[near] = 1.0 - z * _horner(_NEAR_P, z * z) / _horner(_NEAR_Q, z * z)

    middle = (magnitude > 0.46875) & (magnitude <= 4.0)
    z = magnitude[middle]
    out[middle] = _exp_minus_square(z) * _horner(_MIDDLE_P, z) / _horner(_MIDDLE_Q, z)

    far = ~near & ~middle
    z = magnitude[far]
    inverse = 1.0 / (z * z)
    series = inverse * _horner(_FAR_P, inverse) / _horner(_FAR_Q, inverse)
    out[far] = _exp_minus_square(z) / z * (1.0 / math.sqrt(math.pi) - series)

    return np.where(x < 0, 2.0 - out, out)


def erf(x: Array) -> Array:
    """Return the error function of a float64 array; relative accuracy also near 0, where 1 - erfc would cancel."""
    near = np.abs(x) <= 0.46875
    z = np.where(near, x, 0.0)
    return np.where(near, z * _horner(_NEAR_P, z * z) / _horner(_NEAR_Q, z * z), 1.0 - erfc(x))
