"""Writes the polynomial coefficients of lowering/math/*.cpp: python fit.py > coefficients.h   (needs mpmath)

Each row fits a smooth function g by weighted least squares at Chebyshev nodes, which is close to the best polynomial,
and reports the largest error of the function that is built from it, in ULP of float32 or float64, arithmetic on them
being exact.
"""

import struct
import sys

from mpmath import (
    asin,
    atan,
    cos,
    erf,
    erfc,
    exp,
    expm1,
    log,
    log1p,
    lu_solve,
    matrix,
    mp,
    mpf,
    pi,
    sin,
    sinh,
    sqrt,
    tanh,
)

mp.dps = 120
LN2_HALF = log(2) / 2 * mpf("1.0001")


def least_squares(g, weight, a, b, terms, known):
    """Coefficients of x^len(known) and up that bring sum(known) closest to g, errors weighted, at Chebyshev nodes."""
    count, first = 4 * terms, len(known)
    nodes = [(a + b) / 2 + (b - a) / 2 * mp.cos(pi * (2 * i + 1) / (2 * count)) for i in range(count)]
    # Removable singularities are stepped around.
    nodes = [x if abs(x) > SMALL else SMALL for x in nodes]
    rows = matrix(count, terms - first)
    right = matrix(count, 1)
    for i, x in enumerate(nodes):
        w = weight(x)
        for j in range(first, terms):
            rows[i, j - first] = w * x**j
        right[i] = w * (g(x) - evaluate(known, x))
    return list(lu_solve(rows.T * rows, rows.T * right))


def fit(g, weight, a, b, terms, bits):
    """The low coefficients are rounded one by one and the others fitted anew: their rounding would show most."""
    known = []
    while len(known) < terms:
        rest = least_squares(g, weight, a, b, terms, known)
        rest = [mpf(struct.unpack("f", struct.pack("f", float(c)))[0] if bits == 24 else float(c)) for c in rest]
        known += rest[:1] if len(known) < 4 else rest
    return known


def evaluate(coefficients, x):
    result = mpf(0)
    for c in reversed(coefficients):
        result = result * x + c
    return result


def erfc_smooth(x):
    return x * erfc(x) * exp(x * x)


# name: (terms for f32, terms for f64, variable, g, range of the variable, how much an error of g weighs in the result, samples)
SMALL = mpf(10) ** -25
FITS = {
    # exp(r) = 1 + r + r^2 g(r)
    "exp": (5, 10, lambda r: (exp(r) - 1 - r) / r**2, -LN2_HALF, LN2_HALF, lambda r: r**2 / exp(r)),
    # expm1(r) = r + r^2 g(r)
    "expm1": (5, 10, lambda r: (expm1(r) - r) / r**2, -LN2_HALF, LN2_HALF, lambda r: r**2 / expm1(r)),
    # log(1 + f) = f - f^2/2 + f^3 g(f), f in [-1/4, 1/2]
    "log": (8, 0, lambda f: (log1p(f) - f + f * f / 2) / f**3, mpf(-1) / 4, mpf(1) / 2, lambda f: f**3 / log1p(f)),
    # log((1+s)/(1-s)) = 2s + s^3 g(s^2)
    "log_s": (
        0,
        7,
        lambda t: (log((1 + sqrt(t)) / (1 - sqrt(t))) - 2 * sqrt(t)) / sqrt(t) ** 3,
        SMALL,
        mpf("0.0401"),
        lambda t: t / 2,
    ),
    # log((1+s)/(1-s)) = 2s + 2/3 s^3 + s^5 g(s^2), to more bits than a double has: for pow
    "pow_log": (
        0,
        11,
        lambda t: (log((1 + sqrt(t)) / (1 - sqrt(t))) - 2 * sqrt(t) - 2 * sqrt(t) ** 3 / 3) / sqrt(t) ** 5,
        SMALL,
        mpf("0.0401"),
        lambda t: t * t / 2,
    ),
    # sin(r) = r + r^3 g(r^2), |r| <= pi/2
    "sin": (
        4,
        8,
        lambda t: (sin(sqrt(t)) - sqrt(t)) / sqrt(t) ** 3,
        SMALL,
        (pi / 2) ** 2 * mpf("1.001"),
        lambda t: sqrt(t) ** 3 / sin(sqrt(t)),
    ),
    # for tan: |r| <= pi/4
    "sin_quarter": (
        3,
        6,
        lambda t: (sin(sqrt(t)) - sqrt(t)) / sqrt(t) ** 3,
        SMALL,
        (pi / 4) ** 2 * mpf("1.001"),
        lambda t: sqrt(t) ** 3 / sin(sqrt(t)),
    ),
    # cos(r) = 1 - r^2/2 + r^4 g(r^2)
    "cos_quarter": (
        3,
        6,
        lambda t: (cos(sqrt(t)) - 1 + t / 2) / t**2,
        SMALL,
        (pi / 4) ** 2 * mpf("1.001"),
        lambda t: t**2 / cos(sqrt(t)),
    ),
    # cos(r) = 1 + r^2 g(r^2), |r| <= 1
    "cos_small": (4, 0, lambda t: (cos(sqrt(t)) - 1) / t, SMALL, mpf("1.001"), lambda t: t / cos(sqrt(t))),
    # asin(x) = x + x^3 g(x^2), |x| <= 1/2
    "asin": (
        5,
        12,
        lambda t: (asin(sqrt(t)) - sqrt(t)) / sqrt(t) ** 3,
        SMALL,
        mpf("0.2501"),
        lambda t: sqrt(t) ** 3 / asin(sqrt(t)),
    ),
    # atan(x) = x + x^3 g(x^2), |x| <= 0.45
    "atan": (
        6,
        12,
        lambda t: (atan(sqrt(t)) - sqrt(t)) / sqrt(t) ** 3,
        SMALL,
        mpf("0.2026"),
        lambda t: sqrt(t) ** 3 / atan(sqrt(t)),
    ),
    # tanh(x) = x + x^3 g(x^2), |x| <= 0.625
    "tanh": (
        5,
        11,
        lambda t: (tanh(sqrt(t)) - sqrt(t)) / sqrt(t) ** 3,
        SMALL,
        mpf("0.3907"),
        lambda t: sqrt(t) ** 3 / tanh(sqrt(t)),
    ),
    # sinh(x) = x + x^3 g(x^2), |x| <= 1
    "sinh": (
        4,
        7,
        lambda t: (sinh(sqrt(t)) - sqrt(t)) / sqrt(t) ** 3,
        SMALL,
        mpf("1.001"),
        lambda t: sqrt(t) ** 3 / sinh(sqrt(t)),
    ),
    # erf(x) = x + x g(x^2), |x| <= 1
    "erf": (7, 13, lambda t: erf(sqrt(t)) / sqrt(t) - 1, SMALL, mpf("1.001"), lambda t: sqrt(t) / erf(sqrt(t))),
    # erfc(x) = 2^(x g(x)), 0.92 <= x <= 4: float32's erf beyond 0.92
    "erf_tail": (
        7,
        0,
        lambda x: log(erfc(x)) / x / log(2),
        mpf("0.92"),
        mpf("4.0"),
        lambda x: log(2) * x * erfc(x) / erf(x),
    ),
    # 2^f = 1 + f g(f) for that, of which a fifth at most is taken from 1
    "erf_power": (5, 0, lambda f: (mpf(2) ** f - 1) / f, mpf("-0.5"), mpf("0.5"), lambda f: f / 5),
    # erfc(x) = exp(-x^2) / x g(t), t = (x - 1)/(x + 1), 1/2 <= x <= 28
    "erfc": (
        0,
        27,
        lambda t: erfc_smooth((1 + t) / (1 - t)),
        mpf("-0.334"),
        mpf("0.932"),
        lambda t: 1 / erfc_smooth((1 + t) / (1 - t)),
    ),
}


def main():
    print(
        "// Made by fit.py. What each polynomial stands for is said there; the figure is its error alone.\n#pragma once\n\nnamespace cdynamo::lowering::math {\n"
    )
    for name in sys.argv[1:] or FITS:
        terms32, terms64, g, a, b, weight = FITS[name]
        for terms, bits, label in ((terms32, 24, "F32"), (terms64, 53, "F64")):
            if not terms:
                continue
            coefficients = fit(g, weight, a, b, terms, bits)
            worst = max(
                abs((evaluate(coefficients, x) - g(x)) * weight(x))
                for x in (a + (b - a) * (i + mpf("0.3717")) / 997 for i in range(997))
            )
            print(f"// {name} {label}: {float(worst * 2**bits):.5f} ULP")
            print(
                f"constexpr double k{name.title().replace('_', '')}{label}[] = {{"
                + ", ".join(f"{float(c):.17g}" for c in coefficients)
                + "};"
            )
    print("\n}  // namespace cdynamo::lowering::math")


main()
