"""Gaussian * Laplace: z = y + d, d ~ Laplace(b), through the scaled error function."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from privest.arrays import Array, as_positive
from privest.estimator.likelihood._terms import NUMPY, Backend, Likelihood, Terms


class LaplaceParts(NamedTuple):
    """ln f, its slope and −curvature in the residual, for f = the density of w + d."""

    log_density: Array
    slope: Array
    curvature: Array


def gaussian_laplace(r: Array, sd: Array, scale: float, backend: Backend = NUMPY) -> LaplaceParts:
    """ln f(r), (ln f)', −(ln f)'' for the sum of N(0, σ²) and Laplace(b).

    With t = |r|/σ, k = σ/b, the textbook form is

        f = e^{k²/2}/2b · [e^{−r/b} Φ(t − k) + e^{r/b} Φ(−t − k)].

    Φ(x) = ½e^{−x²/2} erfcx(−x/√2) turns both exponents into −t²/2, and with a = (t − k)/√2,

        f = e^{−t²/2}/4b · (P + Q),      P = erfcx(−a),  Q = erfcx((t + k)/√2).

    For a > 0 erfcx(−a) = e^{a²}(2 − e^{−a²} erfcx(a)) overflows: P and Q are kept divided by
    e^{a²}, −t²/2 + a² = k²/2 − tk. The slopes of the two Φ cancel, those of e^{∓r/b} stay:

        (ln f)' = −sign(r) (P − Q)/(P + Q)/b      [= −tanh((A − B)/2)/b, A, B their logarithms]

    and f − b²f'' = N(r; 0, σ²) gives, with g = N(r; 0, σ²)/f,

        −(ln f)'' = (g − 4PQ/(P + Q)²)/b² = 4/(b²(P + Q)²)·[(P + Q)/(√(2π)k) − PQ],

    where everything is a ratio of numbers of order one: nothing is lost however far the tail. Only
    for σ ≫ b (nearly Gaussian) do the two terms cancel: relative error (σ/b)²·1e-16.

    Cost: two erfcx, one exponential, one logarithm.
    """
    xp, special = backend.xp, backend.special
    k = sd / scale
    t = xp.abs(r) / sd
    a = (t - k) * math.sqrt(0.5)
    beyond = a > 0
    # e^{-a²} without the underflow flag: below e^{-700} it is 0 for every purpose here.
    small = xp.where(beyond, xp.exp(-xp.minimum(a * a, 700.0)), 1.0)
    near = special.erfcx(xp.abs(a))
    P = xp.where(beyond, 2.0 - small * near, near)
    other = special.erfcx((t + k) * math.sqrt(0.5))
    both = P + small * other
    exponent = xp.where(beyond, (0.5 * k - t) * k, -0.5 * t * t)
    log_density = exponent + xp.log(both) - math.log(4 * scale)
    slope = -xp.sign(r) * (P - small * other) / (both * scale)
    bracket = both / (math.sqrt(2 * math.pi) * k) - P * other
    curvature = 4.0 * small * bracket / (both * scale) ** 2
    return LaplaceParts(log_density, slope, curvature)


class LaplaceLikelihood(Likelihood):
    """ℓ(z, η) = ln f(z − η), f the density of N(0, σ²) + Laplace(b).

    Log-concave: one maximum. A Laplacian is a Gaussian of random variance, hence the weight
    ℓ'/(z − η) (`terms.py`).

    >>> terms = LaplaceLikelihood(1.0, scale=1.0)(np.array([[1e4]]), np.array([[0.0]]))
    >>> round(float(terms.value[0, 0]), 9), float(terms.slope[0, 0])  # ½ − 10⁴ − ln 2, 1/b
    (-10000.193147181, 1.0)
    """

    def __init__(self, variance: ArrayLike, *, scale: float) -> None:
        super().__init__(variance)
        self.scale = as_positive(scale, "scale")
        self.sd = np.sqrt(self.variance)

    def __call__(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Terms:
        xp = backend.xp
        residual = z - eta
        found = gaussian_laplace(residual, xp.asarray(self.sd), self.scale, backend)
        slope = -found.slope
        still = xp.abs(residual) < 1e-8 * xp.asarray(self.sd)
        weight = xp.where(still, found.curvature, slope / xp.where(still, 1.0, residual))
        return Terms(found.log_density, slope, found.curvature, weight)
