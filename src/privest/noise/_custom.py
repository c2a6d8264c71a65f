"""`from_logpdf`: a distribution from its log-density."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from privest.arrays import Array, ArrayLike, as_array, as_flag, as_scale
from privest.errors import InvalidInput
from privest.noise.distribution import Distribution
from privest.noise.numerics.density import NumericalDensity

Function = Callable[[Array], Array]


@dataclass(frozen=True)
class Custom(Distribution):
    """A distribution given by functions; what is not given is computed."""

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
) -> Custom:
    """A distribution from its log-density.

    `logpdf`, `score` (l') and `curvature` (l'') take and return arrays; derivatives not given are
    taken by extrapolated differences. `support`: the interval outside which the density is zero.
    `kinks`: points where the density is not smooth; `landmarks`: points of narrow parts. Both help
    accuracy and neither is trusted. `scale`: a typical width, in order of magnitude (default: half
    the support, or 1). `normalise` divides by the integral; a narrow part that quadrature missed
    then goes unnoticed.

    `fisher_information` is ∞ where the density jumps by more than 1e-10 of its peak, is not zero at
    an end of the support, or the integral diverges. Refuses a density that does not integrate to 1
    (within 1e-6 or the quadrature error), and a score or curvature that is not the derivative.

    >>> law = from_logpdf(lambda x: -np.abs(x) ** 3, normalise=True)
    >>> from math import gamma  # I = E 9x⁴ = 9 Γ(5/3)/Γ(1/3)
    >>> found = law.fisher_information_estimate
    >>> abs(found.value - 9 * gamma(5 / 3) / gamma(1 / 3)) <= found.error < 1e-8
    True
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
    law = Custom(
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
    """The function with a check that it treats arrays entry by entry."""

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


def _require_derivatives(law: Custom) -> None:
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
