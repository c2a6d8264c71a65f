"""The Voigt profile, the density of a Gaussian plus a Cauchy number, and two derivatives.

    f(r) = K(x, y)/σ√(2π) ,   K = Re w(z) ,   z = x + iy ,  x = r/σ√2 ,  y = γ/σ√2

with the Faddeeva function w, of which w' = −2zw + 2i/√π and w'' = −2w − 2zw'. These lose |z|² and
|z|⁴ units of rounding: from |z| = 7 on w is its asymptotic series, differentiated term by term.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy

from privest.arrays import Array

FAR = 7.0  # |z| from which the series is exact to rounding, and its terms
TERMS = 24
NODES = 13  # of the trapezoid rule: 2N + 2 of them


def profile(x: Array, y: Array, xp: Any = np) -> tuple[Array, Array, Array]:  # noqa: ANN401
    """K, K_x/K, K_xx/K for finite x and y > 0 of shapes that go together.

    ln K to 4e-14; its slope to 4e-12 and its curvature to 4e-10, in units of min(1, 1/|z|) and its
    square.
    """
    z = x + 1j * y
    w = scipy.special.wofz(z) if xp is np else _faddeeva(x, y + xp.zeros_like(x), xp)
    first = -2.0 * z * w + 2j / math.sqrt(math.pi)
    parts = [w, first, -2.0 * w - 2.0 * z * first]
    far = xp.abs(z) > FAR
    if xp.any(far):
        for part, own in zip(parts, _series(z[far], xp)):
            part[far] = own
    K, slope, bend = (xp.real(part) for part in parts)
    return K, slope / K, bend / K


def _series(z: Array, xp: Any) -> tuple[Array, Array, Array]:  # noqa: ANN401
    """w, w', w'' by w ~ i/(√π z) Σ a_k z^{−2k}, a_k = (2k − 1)!!/2^k."""
    u = 1.0 / (z * z)
    value, slope, bend = (xp.zeros_like(z) for _ in range(3))
    for k in range(TERMS - 1, -1, -1):
        a = math.prod(range(1, 2 * k, 2)) / 2**k
        value = value * u + a
        slope = slope * u - (2 * k + 1) * a
        bend = bend * u + (2 * k + 1) * (2 * k + 2) * a
    scale = 1j / (math.sqrt(math.pi) * z)
    return scale * value, scale / z * slope, scale * u * bend


def _faddeeva(x: Array, y: Array, xp: Any) -> Array:  # noqa: ANN401
    """w(x + iy) in an array namespace that has no such function, for |x + iy| ≤ `FAR`.

    The trapezoid rule for (i/π) ∫ e^{−t²}/(z − t) dt with step h = √(π/(N + 1)) and nodes about a,
    which is 0 or h/2, whichever is further from x; and the pole that it misses, where y < π/h.
    """
    h = math.sqrt(math.pi / (NODES + 1))
    part = xp.abs(x) / h
    part = part - xp.floor(part)
    half = (part < 0.25) | (part > 0.75)
    real, other = xp.zeros_like(x), xp.zeros_like(x)
    for j in range(-NODES - 1, NODES + 1):
        node = xp.where(half, (j + 0.5) * h, j * h)
        d = x - node
        term = xp.exp(-node * node) / (d * d + y * y)
        real, other = real + term, other + term * d
    near = (y < math.pi / h) & (xp.abs(x) <= FAR)
    z = xp.where(near, x, 0.0) + 1j * xp.where(near, y, 1.0)
    E = xp.exp(2j * math.pi / h * z)
    pole = 2.0 * xp.exp(-z * z) * E / (E + xp.where(half, 1.0, -1.0))
    found: Array = (h / math.pi) * (y * real + 1j * other) + xp.where(near, pole, 0.0)
    return found
