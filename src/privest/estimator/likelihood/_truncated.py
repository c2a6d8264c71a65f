"""A standard normal below a point, and a Gaussian product inside an interval: mass and moments.

What the likelihood of a clipped reading is made of. Nothing is a difference of large logarithms:
an interval that lies on one side of the centre is integrated from its nearer end,

    ∫_A^B φ(x) dx = φ(A) T_0 ,   T_k = ∫_0^d t^k e^{−At − t²/2} dt ,   d = B − A ,  A ≥ 0 ,

and T_k are made of M_k(A) = ∫_0^∞ t^k e^{−At − t²/2} dt, M_0 = √(π/2) erfcx(A/√2) (Mills' ratio).
Absolute error of a mean or a variance (the normal has 1): about eps·max(1, A², 1/d), A ≤ 100.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy

from privest.arrays import Array

FAR = 100.0  # beyond it M_1, M_2 by their asymptotic series: the first term left out is < 1e-12
ROOT_HALF, LOG_ROOT_2PI = math.sqrt(0.5), 0.5 * math.log(2 * math.pi)


class Part(NamedTuple):
    """Ln of the mass, the mean and the variance of what lies in it."""

    log_mass: Array
    mean: Array
    variance: Array


def log_normal(x: Array, sd: Array) -> Array:
    """ln N(x; 0, sd²)."""
    t = x / sd
    return np.asarray(-0.5 * t * t - np.log(sd) - LOG_ROOT_2PI)


def below(x: Array) -> Part:
    """A standard normal that is below x: mean −φ/Φ(x)."""
    hazard = np.sqrt(2 / np.pi) / scipy.special.erfcx(-ROOT_HALF * x)
    far = 1 / np.square(np.maximum(-x, FAR))
    tail = far * (1 - far * (6 - 50 * far))
    variance = np.where(x < -FAR, tail, 1 - hazard * (hazard + x))
    return Part(scipy.special.log_ndtr(x), -hazard, variance)


def between(x: Array, y: Array) -> Part:
    """A standard normal between x and y, x < 0 < y: no two numbers of one sign are subtracted."""
    mass = 0.5 * (scipy.special.erf(ROOT_HALF * y) - scipy.special.erf(ROOT_HALF * x))
    left, right = (np.exp(-0.5 * end * end - LOG_ROOT_2PI) / mass for end in (x, y))
    mean = left - right
    return Part(np.log(mass), mean, 1 + x * left - y * right - mean * mean)


def beyond(near: Array, width: Array) -> Part:
    """The density ∝ e^{−At − t²/2}, A = `near` ≥ 0, on 0 < t < `width`: mass T_0."""
    far = near + width
    left = np.exp(-width * (near + 0.5 * width))  # of the density, at the far end
    a, b = _mills(near), _mills(far)
    zeroth = a[0] - left * b[0]
    mean = (a[1] - left * (b[1] + width * b[0])) / zeroth
    square = (a[2] - left * (b[2] + width * (2 * b[1] + width * b[0]))) / zeroth
    return Part(np.log(zeroth), mean, square - mean * mean)


def _mills(x: Array) -> tuple[Array, Array, Array]:
    """M_0, M_1 = 1 − x M_0, M_2 = M_0 − x M_1 for x ≥ 0."""
    zeroth = math.sqrt(math.pi / 2) * scipy.special.erfcx(ROOT_HALF * x)
    first = 1 - x * zeroth
    second = zeroth - x * first
    distant = x > FAR
    if distant.any():
        u = 1 / np.square(x[distant])
        first[distant] = u * (1 - u * (3 - u * (15 - 105 * u)))
        second[distant] = 2 * u / x[distant] * (1 - u * (6 - u * (45 - 420 * u)))
    return zeroth, first, second
