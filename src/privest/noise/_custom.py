"""`from_logpdf`: a distribution from its log-density."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from privest.arrays import Array, ArrayLike, as_array, as_flag
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
    breaks: tuple[float, ...] = ()
    normalise: bool = False
    name: str = "custom"

    @cached_property
    def _numbers(self) -> NumericalDensity:
        return NumericalDensity(
            partial(called, self.given_logpdf, "logpdf"),
            support=self.ends,
            breaks=self.breaks,
            score=self.given_score and partial(called, self.given_score, "score"),
            normalise=self.normalise,
        )

    def logpdf(self, x: ArrayLike) -> Array:
        x = as_array(x, "x")
        lo, hi = self.ends
        with np.errstate(all="ignore"):  # outside, the function is asked at the end instead
            value = called(self.given_logpdf, "logpdf", np.clip(x, lo, hi))
        inside = (x >= lo) & (x <= hi) & ~np.isnan(value)
        return np.where(inside, value - self._numbers.log_mass, -np.inf)

    @property
    def support(self) -> tuple[float, float]:
        return self.ends

    @property
    def landmarks(self) -> tuple[float, ...]:
        return self.breaks


def from_logpdf(
    logpdf: Function,
    *,
    support: tuple[float, float] = (-math.inf, math.inf),
    breaks: Sequence[float] = (),
    score: Function | None = None,
    normalise: bool = False,
    name: str = "custom",
) -> Custom:
    """A distribution from its log-density.

    `logpdf` and `score` (l') take and return arrays; derivatives not given are taken by
    extrapolated differences. `support`: the interval outside which the density is zero. `breaks`:
    where the density is not smooth (kinks, jumps, poles) and where it is narrow, such as its peaks
    if they are far from 0 in their own widths. `normalise` divides by the integral; a narrow part
    that quadrature missed then goes unnoticed.

    `fisher_information` is ∞ where the density jumps by more than 1e-6 of its value, is not zero at
    an end of the support, or the integral diverges. Refuses a density that does not integrate to 1
    (within 1e-6 or the quadrature error), and a score that is not the derivative.

    >>> law = from_logpdf(lambda x: -np.abs(x) ** 3, breaks=[0.0], normalise=True)
    >>> from math import gamma  # I = E 9x⁴ = 9 Γ(5/3)/Γ(1/3)
    >>> found = law.fisher_information_estimate
    >>> abs(found.value - 9 * gamma(5 / 3) / gamma(1 / 3)) <= found.error < 1e-8
    True
    """
    for what, function in (("logpdf", logpdf), ("score", score)):
        if function is not None and not callable(function):
            raise InvalidInput(f"{what} must be a function; received {type(function).__name__}.")
    ends = as_array(support, "support", ndim=1, infinite=True).tolist()
    if len(ends) != 2 or not ends[0] < ends[1]:
        raise InvalidInput("support must be (lo, hi) with lo < hi, ±inf allowed.")
    points = np.unique(as_array(breaks, "breaks", ndim=1)).tolist()
    if points and not ends[0] <= points[0] <= points[-1] <= ends[1]:
        raise InvalidInput(f"breaks must lie in the support ({ends[0]:g}, {ends[1]:g}).")
    law = Custom(
        logpdf,
        (ends[0], ends[1]),
        score,
        tuple(p for p in points if p not in ends),
        as_flag(normalise, "normalise"),
        str(name),
    )
    _ = law._numbers.log_mass  # refuse a density that does not integrate to 1, now
    _require_derivative(law)
    return law


def called(function: Function, what: str, x: Array) -> Array:
    """function(x), with a check that it treats arrays entry by entry."""
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


def _require_derivative(law: Custom) -> None:
    """Compare a given score with differences of the log-density."""
    if law.given_score is None:
        return
    x = law._numbers.quantile(np.linspace(0.06, 0.95, 12))
    value = called(law.given_score, "score", x)
    expected, error = replace(law, given_score=None, normalise=True)._numbers.score(x)
    off = np.abs(value - expected) > 1e-4 * (1 / law._numbers.width + np.abs(expected)) + 10 * error
    # One point may sit on a kink that was not declared; a wrong formula fails at several.
    if off.sum() > 2 or np.isnan(value).any():
        i = int(np.argmax(off))
        raise InvalidInput(
            f"score is not the derivative of logpdf: at x = {x[i]:g} it returns {value[i]:g}, "
            f"differences of logpdf give {expected[i]:g}."
        )
