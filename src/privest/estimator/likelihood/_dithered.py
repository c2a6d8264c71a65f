"""Readings rounded to a grid after noise: z = Δ·round((y + d)/Δ).

The chance of z = jΔ is a function of z − y alone, k(z − y) = P(|z − y − d| ≤ Δ/2). So a quantised
reading is as one with additive noise of density k/Δ, the law of d plus a uniform one, and its
likelihood is log-concave where that of d is: one maximum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, get_args

from privest.arrays import EPS, Array, ArrayLike, Flags, as_choice, as_positive
from privest.estimator.likelihood._combined import for_each_variance
from privest.estimator.likelihood._pieces import Piece, Polynomial, between, joined, piece
from privest.estimator.likelihood._smear import Smear, Table
from privest.estimator.likelihood._terms import NUMPY, Backend, Likelihood, Terms, likelihood_of
from privest.mechanism import LaplaceQuantiser, ProbabilisticQuantiser, TriangularQuantiser

Dither = Literal["uniform", "triangular"]


class DitheredLikelihood(Likelihood):
    """ℓ(jΔ, η) = ln ∫ B(j − y/Δ) N(y; η, σ²) dy, B the B-spline that the dither makes.

        uniform      B = 1 − |x|                            |x| ≤ 1       (linear)
        triangular   B = ¾ − x², ½(3/2 − |x|)²              |x| ≤ ½, 3/2  (quadratic)

    Polynomials on two or three intervals (`_pieces`). Log-concave: one maximum. Off the grid
    ℓ = −∞. Numerics: ℓ to 1e-13 of 1 + |ℓ|, ℓ' to 1e-11/σ, ℓ'' to 1e-10/σ², for every step and at
    any distance. Cost: four or six erfcx, or a Gauss rule of 16 where the step is below σ.

    >>> import numpy as np
    >>> likelihood = DitheredLikelihood(1e-8, step=2.0)
    >>> terms = likelihood(np.array([[0.0, 2.0]]), np.full((1, 2), 0.5))
    >>> np.round(np.exp(terms.value), 6), np.round(terms.slope, 6)  # ¾, ¼; ∓½ of them
    (array([[0.75, 0.25]]), array([[-0.666667,  2.      ]]))
    """

    anywhere = True
    numbers = 200

    def __init__(self, variance: ArrayLike, *, step: float, dither: Dither = "uniform") -> None:
        super().__init__(variance)
        self.step = as_positive(step, "step")
        self.dither = as_choice(dither, get_args(Dither), "dither")

    def possible(self, z: Array, backend: Backend = NUMPY) -> Flags:
        return on_grid(z, self.step, backend)

    def __call__(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Terms:
        xp = backend.xp
        variance = xp.asarray(self.variance)
        # In steps, about the grid point: x = y/Δ − j. Near an end where B vanishes it is written in
        # the distance from that end, which is exact there.
        centre = (eta - z) / self.step
        unit = variance / self.step**2
        spline = self._linear if self.dither == "uniform" else self._quadratic
        pieces = spline(centre, unit, backend)
        grid = on_grid(z + xp.zeros_like(eta), self.step, backend)
        found = joined(pieces, centre, unit, grid, backend)
        return Terms(
            found.value,
            found.slope / self.step,
            found.curvature / self.step**2,
            found.weight / self.step**2,
        )

    def _linear(self, centre: Array, unit: Array, backend: Backend) -> list[Piece]:
        return _two_sides(0.0 * centre, lambda x: (1.0 - x, -1.0), centre, unit, backend)

    def _quadratic(self, centre: Array, unit: Array, backend: Backend) -> list[Piece]:
        def outer(x: Array) -> Polynomial:
            room = 1.5 - x
            return 0.5 * room * room, -room, 0.5

        half = 0.0 * centre + 0.5
        spot = between(-half, half, centre, unit**0.5, backend)
        weight = (0.75 - spot.at * spot.at, -2.0 * spot.at, -1.0)
        inner = piece(spot, weight, -0.5 * (spot.at - centre) ** 2 / unit, unit)
        return [inner, *_two_sides(half, outer, centre, unit, backend)]


def _two_sides(
    low: Array, weight: Callable[[Array], Polynomial], centre: Array, unit: Array, backend: Backend
) -> list[Piece]:
    """The piece on low < x < low + 1, and its mirror image."""
    pieces = []
    for side in (1.0, -1.0):
        mu = side * centre
        spot = between(low, low + 1.0, mu, unit**0.5, backend)
        height = -0.5 * (spot.at - mu) ** 2 / unit
        one = piece(spot, weight(spot.at), height, unit)
        m0, m1, m2 = one.moments
        pieces.append(Piece(side * one.at, one.log_scale, (m0, side * m1, m2)))
    return pieces


class LaplaceQuantiserLikelihood(Likelihood):
    """ℓ(jΔ, η) = ln ∫ p(jΔ|y) N(y; η, σ²) dy for rounding after Laplace(b) noise.

    Its kernel falls like e^{−|z − y|/b} and has kinks of curvature at ±Δ/2: from a table made once
    (`Table`; `error` is that of ℓ). One σ for all readings. Log-concave: one maximum.

    >>> likelihood = LaplaceQuantiserLikelihood(0.04, step=1.0, scale=1.0)
    >>> likelihood.error < 1e-12
    True
    """

    def __init__(self, variance: float, *, step: float, scale: float) -> None:
        super().__init__(as_positive(variance, "the variance of w"))
        channel = LaplaceQuantiser(step, scale)
        self.step, self.scale = channel.step, channel.scale
        points = (-0.5 * self.step, 0.0, 0.5 * self.step)
        whole = (-math.inf, math.inf)
        smear = Smear(
            lambda x: channel.log_density(0.0, x), float(self.variance) ** 0.5, whole, points
        )
        self.table = Table(smear)
        self.error = self.table.error

    def possible(self, z: Array, backend: Backend = NUMPY) -> Flags:
        return on_grid(z, self.step, backend)

    def __call__(self, z: Array, eta: Array, backend: Backend = NUMPY) -> Terms:
        xp = backend.xp
        value, slope, curvature = self.table(z - eta, backend)
        weight = xp.full_like(value, 1 / float(self.variance))
        grid = on_grid(z + xp.zeros_like(eta), self.step, backend)
        return Terms(xp.where(grid, value, -math.inf), -slope, curvature, weight)


def on_grid(z: Array, step: float, backend: Backend = NUMPY) -> Flags:
    """Whether z is a multiple of the step, to 1e-9 of it or rounding."""
    xp = backend.xp
    part = z / step
    close: Flags = xp.abs(part - xp.round(part)) <= 1e-9 + 4 * EPS * xp.abs(part)
    return close


@likelihood_of.register
def _(channel: ProbabilisticQuantiser, variance: ArrayLike) -> Likelihood:
    return DitheredLikelihood(variance, step=channel.step)


@likelihood_of.register
def _(channel: TriangularQuantiser, variance: ArrayLike) -> Likelihood:
    return DitheredLikelihood(variance, step=channel.step, dither="triangular")


@likelihood_of.register
def _(channel: LaplaceQuantiser, variance: ArrayLike) -> Likelihood:
    def likelihood(own: float) -> Likelihood:
        return LaplaceQuantiserLikelihood(own, step=channel.step, scale=channel.scale)

    return for_each_variance(likelihood, variance)
