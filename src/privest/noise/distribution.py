"""`Distribution`: density, score, curvature, information and samples of one real number."""

from __future__ import annotations

import abc
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np

from privest.arrays import Array, ArrayLike, as_array, as_generator, as_kind, as_number, as_positive
from privest.errors import InvalidInput
from privest.linalg.tolerances import EXTREME
from privest.noise.numerics.density import NumericalDensity
from privest.noise.quadrature import Quadrature

Size = int | tuple[int, ...]


class Distribution(abc.ABC):
    """The distribution of a real random variable with a density f; l = ln f.

    A subclass gives `logpdf`, and `support` if it is not the real line; the rest is computed by
    differences and quadrature unless it is given. Distributions are frozen data classes, equal when
    their parameters are. `1 + 0.5*d` shifts and scales.

    Methods take finite x of any shape. Outside the support: pdf 0, logpdf −inf, score and curvature
    NaN. At a kink (where the score jumps) score and curvature are the mean of both sides. Stable
    from 0 to 1e150 scales.

    >>> class Sech(Distribution):  # f = sech(x)/π: only the log-density is given
    ...     def logpdf(self, x):
    ...         return -np.logaddexp(x, -np.asarray(x)) + np.log(2 / np.pi)
    >>> law = Sech()
    >>> round(law.fisher_information, 10), round(law.variance, 10)  # 1/2, π²/4
    (0.5, 2.4674011003)
    """

    # NumPy scalars leave `c * law` and `c + law` to the distribution.
    __array_ufunc__ = None

    # -- the density ------------------------------------------------------------------------

    @abc.abstractmethod
    def logpdf(self, x: ArrayLike) -> Array:
        """l(x) = ln f(x)."""

    def pdf(self, x: ArrayLike) -> Array:
        """f(x) = e^l(x)."""
        return np.exp(self.logpdf(x))

    def score(self, x: ArrayLike) -> Array:
        """l'(x)."""
        return self._inside(x, self._numbers.score)

    def curvature(self, x: ArrayLike) -> Array:
        """l''(x)."""
        return self._inside(x, self._numbers.curvature)

    def cdf(self, x: ArrayLike) -> Array:
        """F(x) = P(X ≤ x)."""
        x = as_array(x, "x")
        lo, hi = self.support
        return np.where(x <= lo, 0.0, np.where(x >= hi, 1.0, self._numbers.cdf(x)))

    def quantile(self, u: ArrayLike) -> Array:
        """F⁻¹(u), 0 < u < 1: F(x) = u to about 1e-13, so x to 1e-13/f(x)."""
        given = as_array(u, "u")
        if not ((given > 0) & (given < 1)).all():
            raise InvalidInput("quantiles are asked for at probabilities 0 < u < 1.")
        return self._numbers.quantile(given)

    def expect(self, function: Callable[[Array], Array]) -> Quadrature:
        """E g(X) by quadrature, g on arrays; ±inf where it diverges, NaN for ∞ − ∞."""
        return self._numbers.expectation(lambda x: (function(x), np.zeros(x.shape)))

    def sample(self, size: Size, rng: np.random.Generator) -> Array:
        """Independent values, by the inverse of the cdf unless a subclass overrides it."""
        return self._numbers.quantile(as_generator(rng).random(size))

    @property
    def drawn_by_inversion(self) -> bool:
        """Whether every draw costs a numerical inverse of the cdf."""
        return type(self).sample is Distribution.sample

    # -- where it lives -----------------------------------------------------------------------

    @property
    def support(self) -> tuple[float, float]:
        """The interval outside which the density is zero."""
        return (-math.inf, math.inf)

    @property
    def landmarks(self) -> tuple[float, ...]:
        """Points where quadrature should look: kinks, jumps, the places of narrow parts."""
        return ()

    @property
    def jumps(self) -> tuple[float, ...]:
        """Points where the density jumps, ends of the support included."""
        return self._numbers.jumps

    # -- moments and information ----------------------------------------------------------------

    @property
    def mean(self) -> float:
        """E X; NaN (or ±inf) where it does not exist."""
        return self._numbers.mean.value

    @property
    def variance(self) -> float:
        """E (X − mean)²; inf where it diverges, NaN where there is no mean."""
        return self._numbers.variance.value

    @property
    def fisher_information(self) -> float:
        """I = E l'(X)², the information about a shift; inf where the density jumps."""
        return self._numbers.fisher_information.value

    @property
    def fisher_information_estimate(self) -> Quadrature:
        """I with an absolute error: that of the quadrature, or 0 for a closed form."""
        if self._overrides("fisher_information"):
            return Quadrature(self.fisher_information, 0.0)
        return self._numbers.fisher_information

    @property
    def expected_squared_curvature(self) -> float:
        """E l''(X)²; inf where the density or the score jumps, or the integral diverges.

        **Trap:** a Laplacian has l'' = 0 almost everywhere. What matters is the limit over smoothed
        scores: a jump J of the score over a width h has l'' = J/h, so ∫ f·l''² = f J²/h → ∞.
        """
        return self._numbers.expected_squared_curvature.value

    # -- shift and scale ------------------------------------------------------------------------

    def shifted(self, c: float) -> Distribution:
        """The distribution of X + c."""
        return moved(self, as_number(c, "The shift"), 1.0)

    def scaled(self, c: float) -> Distribution:
        """The distribution of c·X, c ≠ 0 (negative: mirrored)."""
        return moved(self, 0.0, as_scale(c))

    def with_fisher_information(self, information: float) -> Distribution:
        """Scaled about its origin (`shift`, a Gaussian's mean, else 0) to this information."""
        wanted = as_positive(information, "information")
        have = self._usable("Fisher information", self.fisher_information)
        return self._stretched(math.sqrt(have / wanted))

    def __add__(self, c: float) -> Distribution:
        return self.shifted(c)

    __radd__ = __add__

    def __sub__(self, c: float) -> Distribution:
        return self.shifted(-as_number(c, "The shift"))

    def __rsub__(self, c: float) -> Distribution:
        return self.scaled(-1.0).shifted(c)

    def __mul__(self, c: float) -> Distribution:
        return self.scaled(c)

    __rmul__ = __mul__

    def __truediv__(self, c: float) -> Distribution:
        return self.scaled(1 / as_scale(c))

    def __neg__(self) -> Distribution:
        return self.scaled(-1.0)

    # -- for subclasses -------------------------------------------------------------------------

    def _scaled_in_family(self, c: float) -> Distribution | None:
        """c·X if the family has it (Laplace(b) → Laplace(|c|b)), else None."""
        return None

    def _stretched(self, factor: float) -> Distribution:
        return self.scaled(factor)

    def _overrides(self, name: str) -> bool:
        return getattr(type(self), name) is not getattr(Distribution, name)

    def _usable(self, what: str, value: float) -> float:
        if not (math.isfinite(value) and value > 0):
            raise InvalidInput(
                f"{self!r} has {what} {value:g}: no scale makes it a given finite number."
            )
        return value

    @cached_property
    def _numbers(self) -> NumericalDensity:
        """Differences and quadrature on the log-density."""
        return NumericalDensity(
            self.logpdf,
            support=self.support,
            breaks=self.landmarks,
            score=self.score if self._overrides("score") else None,
            curvature=self.curvature if self._overrides("curvature") else None,
        )

    def _inside(self, x: ArrayLike, derivative: Callable[[Array], tuple[Array, Array]]) -> Array:
        """The derivative inside the support, NaN elsewhere."""
        given = as_array(x, "x")
        lo, hi = self.support
        inside = (given > lo) & (given < hi)
        value = np.full(given.shape, np.nan)
        if inside.any():
            value[inside] = derivative(given[inside])[0]
        return value


def infinite_because(law: Distribution) -> str:
    """Why the Fisher information of this distribution is infinite."""
    if law.jumps:
        return "its density jumps, so its Fisher information is infinite"
    return "its density is continuous, but its Fisher information E (f'/f)² is infinite"


class CentredLaw(Distribution):
    """A distribution of the catalogue: smooth, with mode and mean at 0, unless it says otherwise.

    `POSITIVE`: the fields that must be > 0, first the width.
    """

    POSITIVE: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for name in self.POSITIVE:
            object.__setattr__(self, name, as_width(getattr(self, name), name))

    def _standard(self, x: ArrayLike) -> Array:
        return as_array(x, "x") / float(getattr(self, self.POSITIVE[0]))

    def _scaled_in_family(self, c: float) -> Distribution | None:
        if not self.POSITIVE:
            return None
        width = self.POSITIVE[0]
        wider: Distribution = replace(cast("Any", self), **{width: abs(c) * getattr(self, width)})
        return wider

    @property
    def landmarks(self) -> tuple[float, ...]:
        return (0.0,)

    @property
    def jumps(self) -> tuple[float, ...]:
        return ()

    @property
    def mean(self) -> float:
        return 0.0


@dataclass(frozen=True, repr=False)
class Affine(Distribution):
    """The distribution of shift + scale·X, X ~ its distribution; written `shift + scale * law`.

        f(x) = f₀(t)/|scale|,  l' = l₀'(t)/scale,  l'' = l₀''(t)/scale²,  t = (x − shift)/scale
        I = I₀/scale²,  E l''² = E l₀''²/scale⁴

    >>> from privest.noise import Laplace
    >>> 3 - 2 * Laplace(1.0)
    3.0 + Laplace(scale=2.0)
    """

    law: Distribution
    shift: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        as_kind(self.law, Distribution, "law must be a Distribution")  # type: ignore[type-abstract]
        shift = as_number(self.shift, "shift")
        scale = as_scale(self.scale)
        law = self.law
        if isinstance(law, Affine):
            shift = shift + scale * law.shift
            scale = scale * law.scale
            law = law.law
        object.__setattr__(self, "law", law)
        object.__setattr__(self, "shift", shift)
        object.__setattr__(self, "scale", as_scale(scale))

    def __repr__(self) -> str:
        scaled = repr(self.law) if self.scale == 1 else f"{self.scale}*{self.law!r}"
        return scaled if self.shift == 0 else f"{self.shift} + {scaled}"

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
        inner = self.law.fisher_information_estimate
        return Quadrature(inner.value / self.scale**2, inner.error / self.scale**2)

    @property
    def expected_squared_curvature(self) -> float:
        return self.law.expected_squared_curvature / self.scale**4

    def _points(self, points: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(sorted(self.shift + self.scale * p for p in points))

    def _stretched(self, factor: float) -> Distribution:
        return moved(self.law, self.shift, self.scale * factor)


def moved(law: Distribution, shift: float, scale: float) -> Distribution:
    """shift + scale·X in its simplest form: the family's own where it has one."""
    if isinstance(law, Affine):
        shift = shift + scale * law.shift
        scale = scale * law.scale
        law = law.law
    inside = law._scaled_in_family(scale) if scale != 1 else law
    if inside is not None:
        return inside if shift == 0 else Affine(inside, shift, 1.0)
    return Affine(law, shift, scale)


def as_scale(value: float) -> float:
    scale = as_number(value, "The scale factor")
    if scale == 0:
        raise InvalidInput(
            "The scale factor must not be 0: a constant has no density. For less noise take a "
            "small factor, for none leave the noise out."
        )
    return scale


def as_width(value: float, name: str, *, squared: bool = False) -> float:
    """A number > 0 whose square (or which itself, if `squared` already) can be inverted."""
    width = as_positive(value, name)
    least = EXTREME if squared else math.sqrt(EXTREME)
    if not least <= width <= 1.0 / least:
        raise InvalidInput(
            f"{name} must lie between {least:.0g} and {1 / least:.0g}, so that the variance and "
            f"its inverse are numbers; received {width:.3g}. Choose another unit."
        )
    return width
