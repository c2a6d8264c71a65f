"""A user's own mechanism for one number, from functions instead of a subclass."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from privest.arrays import Array, ArrayLike, as_array
from privest.errors import InvalidInput
from privest.mechanism._channel import Channel, Worst
from privest.noise import Quadrature, from_logpdf

Span = tuple[float, float] | Callable[[float], tuple[float, float]]
Listed = Sequence[float] | Array
Points = Listed | Callable[[float], Listed]
LIKELY = 1e-18


class UserChannel(Channel):
    """z ~ p(·|u) by a sampler, a log-density, or both.

    sampler        (u, rng) → z, arrays of one shape.
    log_density    (z, u) → ln p(z|u), arrays that broadcast; a mass if `discrete`.
    score          (z, u) → ∂ ln p/∂u; left out: by differences.
    support        (low, high), or a function of u: outside it p is zero.
    landmarks      points z where p is not smooth or narrow, or a function of u.
    discrete       z takes the values `outcomes` (a sequence, or a function of u).
    worst          the supremum of the information over u, if you know it.

    With a density alone, samples come from its inverse distribution function by numbers, one
    table for each distinct u. With a sampler alone, questions about the density raise an error:
    ask `privest.audit`, which estimates the information from samples.

    >>> channel = UserChannel(log_density=lambda z, u: -np.abs(z - u) - np.log(2.0))
    >>> channel.sample([0.0, 5.0], np.random.default_rng(1)).shape
    (2,)
    >>> UserChannel(sampler=lambda u, rng: u + rng.normal(size=u.shape)).log_density(0.0, 0.0)
    Traceback (most recent call last):
    ...
    privest.errors.InvalidInput: UserChannel has a sampler only: ...
    """

    WHY_NOT = "it is a user's own: choose its parameters and let privest.audit.certify check them."

    def __init__(
        self,
        *,
        sampler: Callable[[Array, np.random.Generator], Array] | None = None,
        log_density: Callable[[Array, Array], Array] | None = None,
        score: Callable[[Array, Array], Array] | None = None,
        support: Span = (-math.inf, math.inf),
        landmarks: Points | None = None,
        discrete: bool = False,
        outcomes: Points | None = None,
        worst: float | None = None,
        name: str = "UserChannel",
    ) -> None:
        for what, given in (("sampler", sampler), ("log_density", log_density), ("score", score)):
            if given is not None and not callable(given):
                raise InvalidInput(f"{what} must be a function; received {type(given).__name__}.")
        if sampler is None and log_density is None:
            raise InvalidInput("give a sampler, a log_density, or both: there is no mechanism yet.")
        if discrete and log_density is not None and outcomes is None:
            raise InvalidInput(
                "a discrete channel with a mass function needs its outcomes: a sequence, or a "
                "function of u that returns those of probability above 1e-18."
            )
        self.discrete = bool(discrete)  # type: ignore[misc] # one class for both kinds
        self._sampler, self._log_density, self._score = sampler, log_density, score
        self._support, self._landmarks, self._outcomes = support, landmarks, outcomes
        self._largest, self.name = worst, str(name)
        self.has_density, self.has_score = log_density is not None, score is not None
        self.draws_from_density = sampler is None

    def sample(self, u: ArrayLike, rng: np.random.Generator) -> Array:
        given = as_array(u, "u")
        if self._sampler is not None:
            return _shaped(self._sampler(given, rng), given.shape, "sampler")
        result = np.empty(given.shape)
        for value in np.unique(given).tolist():
            here = given == value
            result[here] = self._drawn(value, int(here.sum()), rng)
        return result

    def log_density(self, z: ArrayLike, u: ArrayLike) -> Array:
        if self._log_density is None:
            raise InvalidInput(
                f"{self.name} has a sampler only: its density, score and information are not "
                "known. privest.audit.fisher_information estimates the information from samples."
            )
        z, u = np.broadcast_arrays(as_array(z, "z"), as_array(u, "u"))
        return _shaped(self._log_density(z, u), z.shape, "log_density")

    def score(self, z: ArrayLike, u: ArrayLike) -> Array:
        if self._score is None or self._log_density is None:
            return super().score(z, u)
        z, u = np.broadcast_arrays(as_array(z, "z"), as_array(u, "u"))
        return _shaped(self._score(z, u), z.shape, "score")

    def support(self, u: float) -> tuple[float, float]:
        return self._support(u) if callable(self._support) else self._support

    def landmarks(self, u: float) -> tuple[float, ...]:
        return (u,) if self._landmarks is None else tuple(_at(self._landmarks, u))

    def outcomes(self, u: float) -> Array:
        if self._outcomes is None:
            raise InvalidInput(
                f"{self.name} was given no outcomes: it is not known to be discrete."
            )
        values = np.sort(as_array(_at(self._outcomes, u), "outcomes", ndim=1))
        return np.asarray(values[np.exp(self.log_density(values, u)) > LIKELY])

    def information_estimate(self, u: float) -> Quadrature:
        self.log_density(np.zeros(0), u)  # without a density: the error that says so
        return super().information_estimate(u)

    @property
    def worst(self) -> Worst:
        """As given; NaN where it is not known: `privest.audit.certify` searches for it."""
        return Worst(math.nan if self._largest is None else float(self._largest))

    @property
    def parameters(self) -> dict[str, Any]:
        return {"name": self.name}

    def __repr__(self) -> str:
        return f"UserChannel({self.name!r})"

    def _drawn(self, u: float, count: int, rng: np.random.Generator) -> Array:
        if self.discrete:
            values = self.outcomes(u)
            total = np.cumsum(np.exp(self.log_density(values, u)))
            if not abs(total[-1] - 1.0) < 1e-6:
                raise InvalidInput(
                    f"the masses of {self.name} sum to {total[-1]:.6g}, not to 1: outcomes are "
                    "missing or the masses are wrong. Give a sampler, or correct them."
                )
            return np.asarray(values[np.searchsorted(total / total[-1], rng.random(count))])
        low, high = self.support(u)
        points = [p for p in self.landmarks(u) if low < p < high]
        law = from_logpdf(
            lambda z: self.log_density(z, u), support=(low, high), landmarks=points, name=self.name
        )
        return law.sample(count, rng)


def _at(points: Points, u: float) -> Listed:
    return points(u) if callable(points) else points


def _shaped(value: ArrayLike, shape: tuple[int, ...], what: str) -> Array:
    result = np.asarray(value, dtype=np.float64)
    if result.shape != shape:
        raise InvalidInput(
            f"{what} must return an array of the shape it is given, {shape}; it returned "
            f"{result.shape}."
        )
    return result
