"""A law of the user's own, from its log-density; the Fisher information of any law by numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from privest.arrays import Array, ArrayLike, as_array, as_flag, as_scale
from privest.errors import InvalidInput
from privest.noise._law import ScalarLaw
from privest.noise.numerics.density import NumericalDensity
from privest.noise.quadrature import Quadrature

Function = Callable[[Array], Array]
Density = ScalarLaw | Function


@dataclass(frozen=True)
class CustomLaw(ScalarLaw):
    """A law given by functions; make one with `from_logpdf`. What is not given is computed."""

    given_logpdf: Function = field(repr=False)
    ends: tuple[float, float] = (-math.inf, math.inf)
    given_score: Function | None = field(default=None, repr=False)
    given_curvature: Function | None = field(default=None, repr=False)
    points: tuple[float, ...] = ()
    scale: float | None = None
    normalise: bool = False
    name: str = "custom"

    @cached_property
    def _numbers(self) -> NumericalDensity:
        return NumericalDensity(
            checked(self.given_logpdf, "logpdf"),
            support=self.ends,
            landmarks=self.points,
            scale=self.scale,
            score=self.given_score and checked(self.given_score, "score"),
            curvature=self.given_curvature and checked(self.given_curvature, "curvature"),
            normalise=self.normalise,
        )

    def logpdf(self, x: ArrayLike) -> Array:
        """The log-density given, less the logarithm of its integral if it is to be normalised."""
        x = as_array(x, "x")
        lo, hi = self.ends
        with np.errstate(all="ignore"):  # outside, the function is asked at the end instead
            value = checked(self.given_logpdf, "logpdf")(np.clip(x, lo, hi))
        inside = (x >= lo) & (x <= hi) & ~np.isnan(value)
        return np.where(inside, value - self._numbers.log_mass, -np.inf)

    @property
    def support(self) -> tuple[float, float]:
        return self.ends

    @property
    def landmarks(self) -> tuple[float, ...]:
        """The kinks and landmarks that were given."""
        return self.points


def from_logpdf(
    logpdf: Function,
    *,
    support: tuple[float, float] = (-math.inf, math.inf),
    score: Function | None = None,
    curvature: Function | None = None,
    kinks: Sequence[float] = (),
    landmarks: Sequence[float] = (),
    scale: float | None = None,
    normalise: bool = False,
    name: str = "custom",
) -> CustomLaw:
    """Make a law from its log-density.

    Arguments: `logpdf`, `score` (its derivative) and `curvature` (its second derivative) take and
    return arrays; derivatives not given are taken by extrapolated differences. `support` is the
    interval outside which the density is zero. `kinks` are points where the density is not
    smooth, `landmarks` points where a narrow part of it lies: quadrature puts its panels there.
    Both help accuracy and neither is trusted: `law.kinks` and `law.jumps` say what was found.
    `scale` is a typical width (default: half the support, or 1); only its order of magnitude
    matters, and that little. `normalise=True` divides the density by its integral; a narrow part
    that quadrature missed then goes unnoticed, so give landmarks.

    Guarantees: `fisher_information` is ∞ where the density jumps by more than 1e-10 of its peak,
    or is not zero at an end of the support, or where the integral diverges (a power of the
    distance within 0.007 of the limit counts as divergent). `fisher_information_estimate` has the
    error. Mean and variance are likewise ∞ or NaN where they do not exist.

    Raises InvalidInput when the integral of the density is not 1 (within 1e-6 or the quadrature
    error), when a given score or curvature is not the derivative, or for bad arguments.

    >>> law = from_logpdf(lambda x: -np.abs(x) ** 3, normalise=True, name="cubic")
    >>> law
    CustomLaw(ends=(-inf, inf), points=(), scale=None, normalise=True, name='cubic')
    >>> from math import gamma  # I = E 9x⁴ = 9 Γ(5/3)/Γ(1/3)
    >>> found = law.fisher_information_estimate
    >>> abs(found.value - 9 * gamma(5 / 3) / gamma(1 / 3)) <= found.error < 1e-8
    True
    >>> from_logpdf(lambda x: -np.abs(x))
    Traceback (most recent call last):
    ...
    privest.errors.InvalidInput: The density must integrate to 1; its integral is 2. ...
    """
    for what, function in (("logpdf", logpdf), ("score", score), ("curvature", curvature)):
        if function is not None and not callable(function):
            raise InvalidInput(f"{what} must be a function; received {type(function).__name__}.")
    ends = _as_support(support)
    given = as_array(kinks, "kinks", ndim=1), as_array(landmarks, "landmarks", ndim=1)
    points = np.union1d(*given).tolist()
    outside = [p for p in points if not ends[0] <= p <= ends[1]]
    if outside:
        raise InvalidInput(
            f"kinks and landmarks must lie in the support {ends}; {outside[0]:g} does not."
        )
    law = CustomLaw(
        logpdf,
        ends,
        score,
        curvature,
        tuple(p for p in points if p not in ends),
        None if scale is None else as_scale(scale, "scale"),
        as_flag(normalise, "normalise"),
        str(name),
    )
    _ = law._numbers.log_mass  # refuse a density that does not integrate to 1, now
    _require_derivatives(law)
    return law


def _as_support(support: tuple[float, float]) -> tuple[float, float]:
    ends = as_array(support, "support", ndim=1, infinite=True)
    if ends.shape != (2,):
        raise InvalidInput("support must be a pair of numbers (lo, hi), ±inf allowed.")
    lo, hi = ends.tolist()
    if not lo < hi:
        raise InvalidInput(f"support must be (lo, hi) with lo < hi; received ({lo:g}, {hi:g}).")
    return lo, hi


def checked(function: Function, what: str) -> Function:
    """Return the user's function with a check that it treats arrays entry by entry."""

    def call(x: Array) -> Array:
        if x.size == 0:  # numpy.vectorize does not take empty arrays
            return np.zeros(x.shape)
        try:
            value = np.asarray(function(x), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInput(
                f"{what} must take an array and return an array ({error}). Use numpy functions, "
                "or wrap it in numpy.vectorize."
            ) from error
        if value.shape != x.shape:
            raise InvalidInput(
                f"{what} must return one number for each entry of x; for x of shape {x.shape} it "
                f"returned shape {value.shape}."
            )
        return value

    return call


def _require_derivatives(law: CustomLaw) -> None:
    """Compare a given score and curvature with differences, away from special points."""
    if law.given_score is None and law.given_curvature is None:
        return
    x = law._numbers.quantile(np.linspace(0.06, 0.95, 12))
    plain = replace(law, given_score=None, given_curvature=None, normalise=True)._numbers
    width = law._numbers.width
    checks = (
        ("score", law.given_score, plain.score, 1 / width),
        ("curvature", law.given_curvature, plain.curvature, 1 / width**2),
    )
    for what, given, numerical, unit in checks:
        if given is None:
            continue
        value = checked(given, what)(x)
        expected, error = numerical(x)
        off = np.abs(value - expected) > 1e-4 * (unit + np.abs(expected)) + 10 * error
        # One point may sit on a kink that was not declared; a wrong formula fails at several.
        if off.sum() > 2 or np.isnan(value).any():
            i = int(np.argmax(off))
            raise InvalidInput(
                f"{what} is not the derivative of logpdf: at x = {x[i]:g} it returns "
                f"{value[i]:g}, differences of logpdf give {expected[i]:g}."
            )


def fisher_information_by_quadrature(
    law: Density,
    *,
    support: tuple[float, float] = (-math.inf, math.inf),
    landmarks: tuple[float, ...] = (),
    normalise: bool = False,
) -> Quadrature:
    """I = ∫ f l'², with an absolute error; ∞ where the density jumps or the integral diverges.

    `law` is a law (its own density, score and support are used, none of its closed forms) or a
    plain log-density on arrays, for which the other arguments are those of `from_logpdf`.

    **Trap:** the integral of f·l'² over a density that jumps is finite, and wrong (0 for the
    uniform law). So the density is first searched for jumps: cells over all of its mass are
    bisected at once, each towards the larger change, to 1e-12 of the width of the law; a change
    that does not shrink on the way is a jump. Over kinks, steep slopes and cusps it shrinks.

    Numerics: Gauss-Legendre panels, an octave each, towards every special point and to infinity,
    halved where two rules disagree; a power-law end is extrapolated, or found to diverge.

    >>> import numpy as np
    >>> from privest.noise import Laplace, Uniform
    >>> found = fisher_information_by_quadrature(Laplace(scale=0.5))
    >>> abs(found.value - 4) <= found.error < 1e-11
    True
    >>> fisher_information_by_quadrature(Uniform()).value
    inf
    >>> found = fisher_information_by_quadrature(lambda x: -np.cosh(x), normalise=True)
    >>> round(found.value, 6)  # E sinh² = K₁(1)/K₀(1)
    1.429625
    """
    return _density(law, support, landmarks, normalise).fisher_information


def expected_squared_curvature_by_quadrature(
    law: Density,
    *,
    support: tuple[float, float] = (-math.inf, math.inf),
    landmarks: tuple[float, ...] = (),
    normalise: bool = False,
) -> Quadrature:
    """E l''² = ∫ f l''², with an absolute error; ∞ where the density or the score jumps.

    Arguments and numerics as for `fisher_information_by_quadrature`; the score is searched for
    jumps in the same way (a Laplacian has one, and the plain integral is 0).

    >>> from privest.noise import Laplace, Logistic
    >>> expected_squared_curvature_by_quadrature(Laplace()).value
    inf
    >>> found = expected_squared_curvature_by_quadrature(Logistic())
    >>> abs(found.value - 2 / 15) <= found.error < 1e-12
    True
    """
    return _density(law, support, landmarks, normalise).expected_squared_curvature


def _density(
    law: Density, support: tuple[float, float], landmarks: tuple[float, ...], normalise: bool
) -> NumericalDensity:
    if isinstance(law, ScalarLaw):
        if as_flag(normalise, "normalise") or len(landmarks) or support != (-math.inf, math.inf):
            raise InvalidInput(
                "support, landmarks and normalise belong to a plain log-density; a law brings its "
                "own. Leave them out, or pass law.logpdf."
            )
        return law._numbers
    return from_logpdf(law, support=support, landmarks=landmarks, normalise=normalise)._numbers
