"""A law moved and stretched: shift + scale·X."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from privest.arrays import Array, ArrayLike, as_array, as_number
from privest.errors import InvalidInput
from privest.noise._law import ScalarLaw, Size, as_scale
from privest.noise.quadrature import Quadrature


@dataclass(frozen=True)
class Affine(ScalarLaw):
    """The law of shift + scale·X, X ~ law.

        f(x) = f₀(t)/|scale|,  l' = l₀'(t)/scale,  l'' = l₀''(t)/scale²,  t = (x − shift)/scale
        mean = shift + scale·mean₀,  variance = scale²·variance₀
        I = I₀/scale²,  E l''² = E l₀''²/scale⁴

    scale ≠ 0; a negative one mirrors the law. An Affine of an Affine collapses into one. The
    operators prefer the law's own family where it has one (2·Laplace(1) is Laplace(2)).

    >>> from privest.noise import Laplace
    >>> 3 + 2 * Laplace(1.0)
    Affine(law=Laplace(scale=2.0), shift=3.0, scale=1.0)
    >>> law = Affine(Laplace(1.0), shift=3.0, scale=-2.0)
    >>> law.mean, law.variance, law.fisher_information
    (3.0, 8.0, 0.25)
    """

    law: ScalarLaw
    shift: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.law, ScalarLaw):
            raise InvalidInput(f"law must be a ScalarLaw; received {type(self.law).__name__}.")
        shift, scale = as_number(self.shift, "shift"), as_scale(self.scale)
        law = self.law
        if isinstance(law, Affine):
            shift, scale, law = shift + scale * law.shift, scale * law.scale, law.law
        object.__setattr__(self, "law", law)
        object.__setattr__(self, "shift", shift)
        object.__setattr__(self, "scale", as_scale(scale))

    def _inner(self, x: ArrayLike) -> Array:
        return (as_array(x, "x") - self.shift) / self.scale

    def pdf(self, x: ArrayLike) -> Array:
        return self.law.pdf(self._inner(x)) / abs(self.scale)

    def logpdf(self, x: ArrayLike) -> Array:
        return self.law.logpdf(self._inner(x)) - math.log(abs(self.scale))

    def score(self, x: ArrayLike) -> Array:
        return self.law.score(self._inner(x)) / self.scale

    def curvature(self, x: ArrayLike) -> Array:
        return self.law.curvature(self._inner(x)) / self.scale**2

    def cdf(self, x: ArrayLike) -> Array:
        """F₀(t), or 1 − F₀(t) for a mirrored law."""
        inner = self.law.cdf(self._inner(x))
        return inner if self.scale > 0 else 1 - inner

    def sample(self, size: Size, rng: np.random.Generator) -> Array:
        return self.shift + self.scale * self.law.sample(size, rng)

    @property
    def drawn_by_inversion(self) -> bool:
        return self.law.drawn_by_inversion

    @property
    def support(self) -> tuple[float, float]:
        lo, hi = sorted(self._points(self.law.support))
        return (lo, hi)

    @property
    def landmarks(self) -> tuple[float, ...]:
        return self._points(self.law.landmarks)

    @property
    def jumps(self) -> tuple[float, ...]:
        return self._points(self.law.jumps)

    @property
    def kinks(self) -> tuple[float, ...]:
        return self._points(self.law.kinks)

    @property
    def mean(self) -> float:
        return self.shift + self.scale * self.law.mean

    @property
    def variance(self) -> float:
        return self.scale**2 * self.law.variance

    @property
    def fisher_information(self) -> float:
        return self.law.fisher_information / self.scale**2

    @property
    def fisher_information_estimate(self) -> Quadrature:
        """I₀/scale² with the inner law's error."""
        inner = self.law.fisher_information_estimate
        return Quadrature(inner.value / self.scale**2, inner.error / self.scale**2)

    @property
    def expected_squared_curvature(self) -> float:
        return self.law.expected_squared_curvature / self.scale**4

    def _points(self, points: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(sorted(self.shift + self.scale * p for p in points))

    def _stretched(self, factor: float) -> ScalarLaw:
        return moved(self.law, self.shift, self.scale * factor)


def moved(law: ScalarLaw, shift: float, scale: float) -> ScalarLaw:
    """Return the law of shift + scale·X in its simplest form: the family's own where it has one."""
    if isinstance(law, Affine):
        shift, scale, law = shift + scale * law.shift, scale * law.scale, law.law
    inside = law._scaled_in_family(scale) if scale != 1 else law
    if inside is not None:
        return inside if shift == 0 else Affine(inside, shift, 1.0)
    return Affine(law, shift, scale)
